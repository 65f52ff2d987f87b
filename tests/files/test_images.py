"""Images that files have or name: checked, stored unchanged, and counted if readers see them differently."""

import io
import json

import numpy as np
import pytest

from beam_datasets.files.convert import storable_image
from beam_datasets.files.image_folder import ImageFolder
from tests.files.conftest import rows_of

PIL = pytest.importorskip("PIL.Image")
PIXELS = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3) * 3


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
    assert storable_image(data) == storable_image(data, "keep") == data
    np.testing.assert_array_equal(storable_image(data, "apply"), upright(data, orientation))
    with pytest.raises(ValueError, match=f"orientation is {orientation}.*--exif_orientation apply"):
        storable_image(data, "error")


@pytest.mark.parametrize("mode", ["keep", "apply", "error"])
def test_images_without_an_orientation_are_stored_unchanged(mode):
    """No option changes an image that is upright, or whose EXIF data cannot be read."""
    damaged = encoded(6).replace(b"Exif\0\0", b"Exif\0\0\xff\xff", 1)
    for data in (encoded(None), encoded(1), encoded(0), encoded(9), encoded(None, "PNG"), damaged):
        assert storable_image(data, mode) == data


def test_an_orientation_of_a_format_that_becomes_pixels():
    """WebP loses its EXIF data when it becomes pixels, so `apply` turns it before."""
    data = encoded(6, "WEBP", lossless=True)
    np.testing.assert_array_equal(storable_image(data, "apply"), upright(data, 6))
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
