"""Images that files have or name: checked, stored unchanged, and counted if readers see them differently."""

import base64
import io
import json
import shlex
import struct
import zlib

import imagecodecs
import numpy as np
import pyarrow as pa
import pytest

from beam_datasets.errors import BeamDatasetsError, InputError
from beam_datasets.features import FeaturesDict, Image, Sequence, compile_decoder, compile_encoder, to_json_text
from beam_datasets.files.fields import parse_field, to_feature
from beam_datasets.files.image_folder import ImageFolder
from beam_datasets.files.images import ALPHA, PREVIEWS, PRINTED, REDUCED, ImageOptions, storable_image
from beam_datasets.files.inputs import counted_here
from beam_datasets.formats.tfrecord import frame
from beam_datasets.intake import pictures
from beam_datasets.reading.opening import builder_from_directory
from tests.files.conftest import rows_of
from tests.files.in_process import publish
from tests.images import chunks_of, mpo, mutations, noise, page, png_of, saved, tiff, undecodable_png

PIL = pytest.importorskip("PIL.Image")
PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3) * 3


def oriented(data, exif_orientation):
    return storable_image(data, options=ImageOptions(exif_orientation))


def encoded(orientation, form="JPEG", **options):
    image, stream = PIL.fromarray(PIXELS), io.BytesIO()
    if orientation is not None:
        options["exif"] = image.getexif()
        options["exif"][0x0112] = orientation
    image.save(stream, form, **options)
    return stream.getvalue()


def upright(data, orientation):
    """Returns the pixels as a viewer shows them, by the table of the EXIF standard."""
    pixels = np.asarray(PIL.open(io.BytesIO(data)).convert("RGB"))
    flip_x, flip_y, turn = {
        2: (1, 0, 0), 3: (1, 1, 0), 4: (0, 1, 0), 5: (0, 0, 1), 6: (0, 1, 1), 7: (1, 1, 1), 8: (1, 0, 1)
    }[orientation]  # fmt: skip
    pixels = pixels[:, ::-1] if flip_x and not turn else pixels
    pixels = pixels[::-1] if flip_y and not turn else pixels
    if turn:  # rows become columns
        pixels = pixels.transpose(1, 0, 2)
        pixels = pixels[:, ::-1] if flip_y else pixels
        pixels = pixels[::-1] if flip_x else pixels
    return pixels


@pytest.mark.parametrize("orientation", range(2, 9))
def test_an_orientation_is_kept_applied_or_an_error(orientation):
    """An EXIF orientation is not a surprise: bytes unchanged, or upright pixels, or an error, as is asked for."""
    data = encoded(orientation)
    assert storable_image(data) == oriented(data, "keep") == data
    np.testing.assert_array_equal(oriented(data, "apply"), upright(data, orientation))
    with pytest.raises(ValueError, match=f"orientation is {orientation}.*--exif_orientation apply"):
        oriented(data, "error")


@pytest.mark.parametrize("mode", ["keep", "apply", "error"])
def test_images_without_an_orientation_are_stored_unchanged(mode):
    """No option changes an image that is upright, or whose EXIF data cannot be read."""
    damaged = encoded(6).replace(b"Exif\0\0", b"Exif\0\0\xff\xff", 1)
    for data in (encoded(None), encoded(1), encoded(0), encoded(9), encoded(None, "PNG"), damaged):
        assert oriented(data, mode) == data


def test_metadata_that_pillow_refuses():
    """The image is decoded by another library."""
    text = b"a\0\0" + zlib.compress(bytes(10 << 20))
    first, *others = chunks_of(encoded(None, "PNG"))
    data = png_of([first, (b"zTXt", text), *others])
    with pytest.raises(ValueError, match="Decompressed data too large"):
        PIL.open(io.BytesIO(data))
    for mode in ("keep", "apply", "error"):
        assert oriented(data, mode) == data


def test_an_orientation_of_a_format_that_becomes_pixels():
    """WebP loses its EXIF data when it becomes pixels, so `apply` turns it before."""
    data = encoded(6, "WEBP", lossless=True)
    np.testing.assert_array_equal(oriented(data, "apply"), upright(data, 6))
    np.testing.assert_array_equal(storable_image(data), PIXELS)


@pytest.fixture
def photos(files):
    for name, data in (("cat/a.jpg", encoded(6)), ("cat/b.jpg", encoded(None)), ("dog/c.jpg", encoded(3))):
        files.write(name, data)
    return files


def test_orientations_are_counted_in_the_report(photos):
    """The run reports how many images have an EXIF orientation, for each choice."""
    made = photos.build("image_folder")
    assert "with an EXIF orientation, which are read without (--exif_orientation apply): 2\n" in photos.said()
    assert {one["image"].shape for one in rows_of(made)} == {(4, 6, 3)}
    made = photos.build("image_folder", "--exif_orientation=apply")
    assert "images turned upright by their EXIF orientation: 2\n" in photos.said()
    found = {one["image/filename"]: one["image"] for one in rows_of(made)}
    np.testing.assert_array_equal(found[b"cat/a.jpg"], upright(encoded(6), 6))
    strict = "--exif_orientation=error"
    assert "cat/a.jpg: its EXIF orientation is 6" in photos.fails("image_folder", strict)
    photos.build("image_folder", strict, "--skip_bad")
    assert "left out: 2\n" in photos.said()


def test_images_of_rows(photos):
    """Images in Parquet files, and images that JSON lines name, also inside of objects, are checked likewise."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"bytes": encoded(6), "path": "a.jpg"}, {"bytes": encoded(None), "path": None}]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    path = photos.write("a.parquet")
    pq.write_table(pa.table({"image": pa.array(rows, kind)}), path)
    made = photos.build("parquet", f"--pattern={path}", "--exif_orientation=apply")
    assert "turned upright by their EXIF orientation: 1\n" in photos.said()
    assert {one["image"].shape for one in rows_of(made)} == {(6, 4, 3), (4, 6, 3)}
    path = photos.write("a.jsonl", json.dumps({"o": {"photo": "cat/a.jpg"}}))
    made = photos.build("jsonl", f"--pattern={path}", "--feature=o/photo=image")
    assert "with an EXIF orientation" in photos.said()
    assert [one["o"]["photo"].shape for one in rows_of(made)] == [(4, 6, 3)]


def test_an_unknown_choice():
    with pytest.raises(ValueError, match="exif_orientation is 'turn'; expected one of keep, apply, error"):
        ImageFolder(root="photos", exif_orientation="turn")


# ---------------------------------------------------------------------------------------------- depth, channels, frames

RGB, GRAY, DEEP = noise(5, 7), noise(5, 7, 0), noise(5, 7, 3, np.uint16)
DEEP_GRAY = noise(5, 7, 0, np.uint16)
SPECS = [f"image:{dtype},{channels}" for dtype in ("uint8", "uint16") for channels in (1, 2, 3, 4)]


def stored(data, spec="image", path="x", **options):
    """Returns what is stored of a file, what is read of it, and what was counted."""
    field = parse_field(spec)
    with counted_here() as counted:
        image = storable_image(data, field, ImageOptions(**options), path)
    features = {"image": to_feature(field)}
    record = compile_encoder(features)({"image": image})
    return image, compile_decoder(features)(record)["image"], counted


def refused(data, spec="image", path="x", **options):
    """Returns the error of a file."""
    with pytest.raises(InputError) as caught:
        stored(data, spec, path, **options)
    return str(caught.value)


def pngs():
    """Yields PNGs of all forms, with their pixels in their own channels and bits."""
    image = PIL.fromarray(RGB)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        picture = image.convert(mode)
        for level in (
            None,
            {"P": 3, "L": int(np.asarray(image.convert("L"))[0, 0]), "RGB": tuple(RGB[0, 0])}.get(mode),
        ):
            data = saved(picture, "PNG", **({} if level is None else {"transparency": level}))
            opened = PIL.open(io.BytesIO(data))
            alpha = "A" in mode or level is not None
            form = {"P": "RGB", "1": "L"}.get(mode, mode).removesuffix("A") + "A" * alpha
            yield data, np.asarray(opened.convert(form)).reshape(5, 7, -1)
    for channels in (1, 2, 3, 4):
        pixels = noise(5, 7, channels, np.uint16)
        yield imagecodecs.png_encode(pixels.squeeze()), pixels


def in_channels(pixels, channels):
    """Returns pixels with gray repeated, and opacity left out or added."""
    alpha = pixels[..., -1:] if pixels.shape[2] in (2, 4) else np.full_like(pixels[..., :1], np.iinfo(pixels.dtype).max)
    colour = pixels[..., :1] if pixels.shape[2] < 3 else pixels[..., :3]
    colour = colour.repeat(3, 2) if channels > 2 and colour.shape[2] == 1 else colour
    return np.dstack([colour, alpha]) if channels in (2, 4) else colour


@pytest.mark.parametrize("spec", SPECS)
def test_a_png_is_read_as_it_is_or_refused(spec):
    """Never with fewer bits, or without its colours."""
    field = parse_field(spec)
    for data, pixels in pngs():
        fits = pixels.dtype == field.dtype and (pixels.shape[2] <= 2 or field.channels >= 3)
        if not fits:
            assert "a channel" in (error := refused(data, spec)) or "it has colours" in error
            continue
        image, found, counted = stored(data, spec)
        assert np.array_equal(found, in_channels(pixels, field.channels))
        has_lost_alpha = pixels.shape[2] in (2, 4) and field.channels in (1, 3)
        assert counted == ({ALPHA: 1} if has_lost_alpha else {})
        assert isinstance(image, bytes) == (image is data)


def advised(error):
    """Returns the types of features that an error proposes."""
    return [word.removeprefix("x=") for word in shlex.split(error) if word.startswith("x=")]


DEPTHS = [
    (imagecodecs.png_encode(DEEP_GRAY), DEEP_GRAY[..., None]),
    (imagecodecs.png_encode(DEEP), DEEP),
    (tiff(page(DEEP)), DEEP),
    (tiff(page(DEEP_GRAY[..., None], order=">"), order=">"), DEEP_GRAY[..., None]),
    (saved(DEEP_GRAY, "TIFF"), DEEP_GRAY[..., None]),
    (saved(DEEP_GRAY, "PPM"), DEEP_GRAY[..., None]),
    (imagecodecs.jpeg8_encode(DEEP >> 4, lossless=True, bitspersample=12), DEEP >> 4),
    (imagecodecs.jpeg2k_encode(DEEP, level=0, reversible=True), DEEP),
    (imagecodecs.jpegxl_encode(DEEP, lossless=True), DEEP),
]


@pytest.mark.parametrize("data, pixels", DEPTHS)
def test_deep_images_are_refused_or_kept(data, pixels):
    """The error says with which type, and with it the pixels are exact; those with 8 bits are refused with it."""
    error = refused(data)
    (spec,) = advised(error)
    assert f"of which uint8 keeps 8; --feature x={spec} keeps them, if all images have more than 8" in error
    assert spec == ("image:uint16,1" if pixels.shape[2] == 1 else "image:uint16")
    image, found, _ = stored(data, spec)
    assert np.array_equal(found, pixels)
    assert (image is data) == data.startswith((b"\x89PNG", b"\xff\xd8"))
    error = refused(saved(RGB, "PNG"), spec)
    assert "it has 8 bits a channel, and the dataset images of uint16" in error
    assert advised(error) == ["image:1" if pixels.shape[2] == 1 else "image"]


def test_advice_for_a_folder():
    """Its options are others than those of a column."""
    assert "--image_dtype uint16 --channels 1 keeps them" in refused(saved(DEEP_GRAY, "PNG"), path="")
    assert "--image_dtype uint16 keeps them" in refused(imagecodecs.png_encode(DEEP), path="")
    assert "--image_dtype uint8" in refused(saved(RGB, "PNG"), "image:uint16", path="")
    assert "--channels 3 keeps them" in refused(saved(RGB, "PNG"), "image:1", path="")


def test_colours_are_refused_or_kept():
    for data in (saved(RGB, "PNG"), saved(RGB, "JPEG"), saved(RGB, "BMP")):
        for given, advice in (("image:1", "image"), ("image:2", "image")):
            error = refused(data, given)
            assert "it has colours, which" in error
            assert advised(error) == [advice]
            assert np.array_equal(stored(data, advice)[1], stored(data)[1])
    assert advised(refused(saved(noise(5, 7, 4), "PNG"), "image:2")) == ["image:4"]
    assert np.array_equal(stored(saved(GRAY, "JPEG", quality=100), "image:1")[1].shape, (5, 7, 1))


def moving(form, **options):
    more = [PIL.fromarray(noise(24, 24, seed=1))]
    return saved(PIL.fromarray(noise(24, 24)), form, save_all=True, append_images=more, **options)


VIEWS = mpo(saved(RGB, "JPEG"), [0x020002, 0x020002])
SEVERAL = {
    "2 frames": [moving("GIF"), moving("PNG"), moving("WEBP", lossless=True)],
    "2 pages": [moving("TIFF")],
    "2 views": [VIEWS],
    "2 sizes": [saved(noise(24, 24, 4), "ICO", sizes=[(16, 16), (24, 24)])],
}


@pytest.mark.parametrize("what", SEVERAL)
def test_several_frames_are_refused_or_counted(what):
    for data in SEVERAL[what]:
        kept = "the largest" if what == "2 sizes" else "the first"
        assert f"it has {what}; --frames first keeps {kept}" in refused(data)
        image, found, counted = stored(data, frames="first")
        assert counted.pop(REDUCED) == 1
        assert set(counted) <= {ALPHA}
        assert (image is data) == data.startswith((b"\x89PNG", b"\xff\xd8"))
        assert np.array_equal(found, np.asarray(PIL.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize("form", ["PNG", "GIF", "WEBP", "BMP"])
def test_joined_images_are_refused_or_counted(form):
    """`cat a.png b.png > c.png`: decoders read the first one."""
    options = {"lossless": True} if form == "WEBP" else {}
    one, other = (saved(PIL.fromarray(noise(8, 8, seed=seed)), form, **options) for seed in (0, 1))
    assert "another image follows" in refused(one + other)
    assert "--frames first keeps the first" in refused(one + other)
    alone, joined = stored(one), stored(one + other, frames="first")
    assert np.array_equal(joined[1], alone[1])
    assert (alone[2], joined[2]) == ({}, {REDUCED: 1})
    assert stored(one + b"more")[2] == {}


def test_previews_are_no_frames():
    """A JPEG with a gain map or previews stays as it is; so do the pixels of a TIFF with smaller copies of them."""
    data = mpo(saved(RGB, "JPEG"), [0x20030000, 0, 0x010001])
    assert stored(data)[::2] == (data, {PREVIEWS: 1})
    _, found, counted = stored(tiff(page(RGB), page(RGB[:2], kind=1)))
    assert np.array_equal(found, RGB)
    assert counted == {PREVIEWS: 1}


def test_colours_of_print_are_counted():
    data = saved(PIL.fromarray(RGB).convert("CMYK"), "JPEG")
    image, found, counted = stored(data)
    assert np.array_equal(found, np.asarray(PIL.open(io.BytesIO(data)).convert("RGB")))
    assert counted == {PRINTED: 1}
    assert image is not data


class Unforeseen:
    """Exceptions that a library may raise."""

    raised = (NotImplementedError("flags 8"), struct.error("short"), SyntaxError("broken"), MemoryError(), KeyError(64))


@pytest.mark.parametrize("error", Unforeseen.raised, ids=lambda error: type(error).__name__)
def test_whatever_a_library_raises_is_an_input_error(error, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setattr(pictures, "_by_pillow", fails)
    problem = refused(saved(RGB, "DDS"))
    assert len(problem) > len(start := "a damaged image, or of a kind that is not decoded: DDS: ")
    assert problem.startswith(start)


FUZZED = {
    "PNG": [saved(RGB, "PNG"), saved(PIL.fromarray(RGB).convert("P"), "PNG", transparency=3)],
    "deep PNG": [imagecodecs.png_encode(DEEP)],
    "JPEG": [saved(RGB, "JPEG"), encoded(6), saved(RGB, "JPEG", progressive=True)],
    "GIF": [saved(PIL.fromarray(RGB).convert("P"), "GIF"), moving("GIF")],
}


def fuzz(kind, count):
    """Stores files that were changed at random; what is stored is read, and what is not raises an InputError."""
    spec = "image:uint16" if kind == "deep PNG" else "image"
    for number, data in enumerate(mutations(FUZZED[kind], count)):
        try:
            stored(
                data, spec, frames=("error", "first")[number % 2], exif_orientation=("keep", "apply")[number % 3 > 0]
            )
        except InputError as error:
            assert str(error).strip()  # noqa: PT017


@pytest.mark.parametrize("kind", FUZZED)
def test_what_is_stored_can_be_read(kind):
    fuzz(kind, 200)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FUZZED)
def test_what_is_stored_can_be_read_of_many(kind):
    fuzz(kind, 5000)


# --------------------------------------------------------------------------------------------------------------- builds


def test_an_image_too_high_for_png(files):
    """Which names the file, and is left out by `--skip_bad`: libpng reads at most 1,000,000 rows."""
    high = b"P5\n1 1000001\n255\n" + bytes(1_000_001)
    files.write("a/high.pgm", high)
    files.write("a/good.png", saved(RGB, "PNG"))
    problem = r"a/high.pgm: expected at most 1,000,000 pixels in a row or column .* got 1000001 x 1 pixels"
    with pytest.raises(InputError, match=problem):
        publish("image_folder", files.folder)
    assert len(publish("image_folder", files.folder, "--skip_bad").rows) == 1
    with pytest.raises(BeamDatasetsError, match="expected at most 1,000,000 pixels in a row or column"):
        compile_encoder({"image": Image()})({"image": np.zeros((1, 1_000_001, 3), np.uint8)})


def test_deep_images_of_a_folder(files):
    """The error of a build names file and options; with them, gray images are stored unchanged and read exactly."""
    files.write("a/1.png", imagecodecs.png_encode(DEEP_GRAY))
    files.write("b/2.tif", tiff(page(DEEP_GRAY[..., None], order=">"), order=">"))
    with pytest.raises(InputError, match="a/1.png: it has 16 bits.*--image_dtype uint16 --channels 1 keeps them"):
        publish("image_folder", files.folder)
    for one in publish("image_folder", files.folder, "--image_dtype=uint16", "--channels=1").rows:
        assert np.array_equal(one["image"], DEEP_GRAY[..., None])


def test_links_in_a_folder_of_images(files, tmp_path):
    """Linked folders and images are read, and a link that leads nowhere is an error."""
    files.write("cat/1.png", saved(RGB, "PNG"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "2.png").write_bytes(saved(RGB, "PNG"))
    (files.folder / "dog").symlink_to(tmp_path / "elsewhere")
    (files.folder / "cat" / "3.png").symlink_to(tmp_path / "elsewhere" / "2.png")
    (files.folder / "cat" / "all").symlink_to(files.folder)  # a loop
    names = {row["image/filename"] for row in publish("image_folder", files.folder).rows}
    assert names == {b"cat/1.png", b"cat/3.png", b"dog/2.png"}
    (files.folder / "cat" / "4.png").symlink_to(files.folder / "gone.png")
    with pytest.raises(InputError, match="cat/4.png"):
        publish("image_folder", files.folder)
    assert len(publish("image_folder", files.folder, "--skip_bad").rows) == 3


def test_stereo_jpegs_are_stored_unchanged(files):
    """Pillow calls a JPEG with another image behind it MPO, and not JPEG."""
    data = saved(RGB, "JPEG")
    stereo = io.BytesIO()
    PIL.fromarray(RGB).save(stereo, "MPO", save_all=True, append_images=[PIL.fromarray(RGB[::-1])])
    for content in (data, stereo.getvalue()):
        image, _, _ = stored(content, frames="first")
        assert image == content


def test_what_cannot_be_stored_is_left_out(files):
    """`--skip_bad` leaves out whatever such an error names."""
    files.write("a/good.png", saved(RGB, "PNG"))
    bad = {
        "cut.png": saved(RGB, "PNG")[:-4],
        "flip.png": saved(RGB, "PNG").replace(b"IDAT", b"IDBT"),
        "deep.png": imagecodecs.png_encode(DEEP),
        "moving.gif": moving("GIF"),
        "texture.dds": saved(RGB, "DDS")[:80] + b"\x08\0\0\0" + saved(RGB, "DDS")[84:],
        "phone.heic": b"\0\0\0\x1cftypheic\0\0\0\0mif1heic",
        "camera.nef": tiff(page(RGB, kind=1), subfiles=[page(DEEP[..., :1], photometric=32803)]),
        "page.jpg": b"<!DOCTYPE html><html>",
        "empty.jpg": b"",
    }
    for name, data in bad.items():
        files.write(f"a/{name}", data)
    made = files.build("image_folder", "--skip_bad", "--frames=first")
    said = files.said()
    assert f"left out: {len(bad) - 1}\n" in said
    assert {one["image/filename"] for one in rows_of(made)} == {b"a/good.png", b"a/moving.gif"}


def test_frames_are_counted_in_the_report(files):
    """And images of columns have their own types."""
    files.write("moving.gif", moving("GIF"))
    files.write("depth.png", imagecodecs.png_encode(DEEP_GRAY))
    path = files.write("a.jsonl", json.dumps({"shot": "moving.gif", "depth": "depth.png"}))
    images = "--feature=shot=image", "--feature=depth=image:uint16,1"
    with pytest.raises(InputError, match=r"a.jsonl, line 1 .*moving.gif: it has 2 frames; --frames first keeps"):
        publish("jsonl", path, *images)
    found = publish("jsonl", path, *images, "--frames=first")
    assert found.counted == {REDUCED: 1}
    assert np.array_equal(found.rows[0]["depth"], DEEP_GRAY[..., None])
    assert found.rows[0]["shot"].shape == (24, 24, 3)


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"frames": "all"}, "frames is 'all'; expected one of error, first"),
        ({"image_dtype": "float32"}, "image_dtype is 'float32'; expected one of uint8, uint16"),
        ({"channels": 5}, "channels is 5; expected 1 to 4"),
    ],
)
def test_unknown_options(options, problem):
    with pytest.raises(ValueError, match=problem):
        ImageFolder(root="photos", **options)


def test_lists_of_images(tmp_path):
    """The error of an item of a list advises a type of the whole list."""
    encoded_images = [imagecodecs.png_encode(pixels) for pixels in (DEEP_GRAY, DEEP_GRAY.T.copy())]
    images = [{"b64": base64.b64encode(data).decode()} for data in encoded_images]
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": images, "n": 1}) + "\n" + json.dumps({"x": [], "n": 2}))
    with pytest.raises(InputError, match="a.jsonl, line 1 .*it has 16 bits a channel") as caught:
        publish("jsonl", tmp_path / "a.jsonl", "--feature=x=image[]")
    assert advised(str(caught.value)) == ["image:uint16,1[]"]
    rows = publish("jsonl", tmp_path / "a.jsonl", "--feature=x=image:uint16,1[]").rows
    assert [len(row["x"]) for row in rows] == [2, 0]
    assert all(np.array_equal(got, want[..., None]) for got, want in zip(rows[0]["x"], (DEEP_GRAY, DEEP_GRAY.T)))


FEATURE = Image(shape=(4, 3, 3))
NESTED = {
    "alone": (FEATURE, lambda file: file),
    "sequence": (Sequence(FEATURE), lambda file: [file]),
    "objects": (Sequence({"b": FEATURE}), lambda file: [{"b": file}]),
}


@pytest.mark.parametrize("name", NESTED)
def test_images_of_records_with_known_features(tmp_path, name):
    """Records that features.json describes are checked likewise: by decoding each image."""
    feature, value_of = NESTED[name]
    features = FeaturesDict({"x": feature, "n": np.int64})
    values = map(value_of, (saved(noise(4, 3), "PNG"), undecodable_png(4, 3)))
    records = [compile_encoder(features)({"x": value, "n": 1}) for value in values]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(frame, records)))
    (tmp_path / "features.json").write_text(to_json_text(features))
    known = f"--features_json={tmp_path / 'features.json'}"
    with pytest.raises(InputError, match="a.tfrecord.*record 1.*x.*Not enough image data"):
        publish("tfrecord", tmp_path / "a.tfrecord", known)
    assert len(publish("tfrecord", tmp_path / "a.tfrecord", known, "--skip_bad").rows) == 1


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_path_of_an_image_is_its_key(files, kind):
    names = ["a/1.jpg", "2.jpg", "cmyk.jpg"]
    for name, mode in zip(names, ["RGB", "RGB", "CMYK"]):
        stream = io.BytesIO()
        PIL.fromarray(PIXELS).convert(mode).save(stream, "JPEG")
        files.write(name, stream.getvalue())
    lines = {"csv": ["file,n", *(f"{name},{n}" for n, name in enumerate(names))]}
    lines["jsonl"] = [json.dumps({"file": name, "n": n}) for n, name in enumerate(names)]
    path = files.write(f"in.{kind}", "\n".join(lines[kind]))
    directory = files.build(kind, f"--pattern={path}", "--feature=file=image", "--key=file")
    train = builder_from_directory(directory).as_dataset(split="train")
    assert [int(train[train.find(name)]["n"]) for name in names] == [0, 1, 2]


def test_an_image_as_key_is_a_short_error(files):
    pq = pytest.importorskip("pyarrow.parquet")
    data = [encoded(None), encoded(3)]
    files.write("in.parquet")
    for images in (data, [{"bytes": each, "path": "a.jpg"} for each in data]):
        pq.write_table(pa.table({"image": images, "n": [1, 2]}), files.folder / "in.parquet")
        problem = files.fails("parquet", "--feature=image=image", "--key=image")
        assert "in.parquet" in problem
        assert "key 'image' is " in problem
        assert len(problem) < 1000
        assert problem.isprintable() or problem.replace("\n", "").isprintable()
