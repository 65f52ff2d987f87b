"""Damaged files of every format: refused by an error with the file, or published as another library reads them."""

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import struct
import zlib
from collections import Counter
from contextlib import suppress
from functools import cache

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
import zstandard
from PIL import Image

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.example import serialize
from beam_datasets.formats.tfrecord import frame, masked_crc32c
from beam_datasets.reading.opening import builder_from_directory
from tests.cases import repeated
from tests.files import foreign_suites
from tests.files.in_process import Crashed, apart, is_refusal, make_builder, option_names, peak_memory, publish

FEW, MANY = 40, repeated(100)
BATCH = 100  # files in one process
MAX_MEMORY = 1 << 30
MAX_SECONDS = 20.0  # for a file


# -------------------------------------------------------------------------------------------------------------- files


def _pixels(mode):
    values = np.random.default_rng(0).integers(0, 256, (9, 11, 4), np.uint8)
    return Image.fromarray(values, "RGBA").convert(mode)


def _saved(kind, *modes, **options):
    file = io.BytesIO()
    first, *more = map(_pixels, modes)
    first.save(file, kind, **({"save_all": True, "append_images": more} if more else {}), **options)
    return file.getvalue()


def _sound(form, subtype):
    samples = np.random.default_rng(1).integers(-9000, 9000, (300, 2), np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format=form, subtype=subtype)
    return file.getvalue()


ROWS = [
    {"id": i, "name": f"né{i}", "x": i / 7, "ok": i % 2 == 0, "tags": ["a"] * (i % 3), "o": {"n": i, "t": str(i)}}
    for i in range(20)
]


def _csv():
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["id", "name", "x"], *([row["id"], f'"{row["name"]}",\n', row["x"]] for row in ROWS)])
    return text.getvalue().encode()


def _jsonl():
    return b"".join(json.dumps(row, ensure_ascii=i % 2 == 0).encode() + b"\n" for i, row in enumerate(ROWS))


def _parquet(**options):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), file, row_group_size=8, **options)
    return file.getvalue()


def _records():
    lists = ({"id": [row["id"]], "name": [row["name"].encode()], "x": np.float32([row["x"], 1])} for row in ROWS)
    return list(map(serialize, lists))


@cache
def seeds():
    """Returns the sound files of each format: {format: (builder, name, contents)}."""
    wavs = [_sound("WAV", subtype) for subtype in ("PCM_16", "PCM_24", "FLOAT", "ULAW")]
    modes = ("1", "L", "P", "RGB", "RGBA", "I;16")
    jpegs = [_saved("JPEG", "RGB"), _saved("JPEG", "L"), _saved("JPEG", "RGB", progressive=True)]
    tables = [_parquet(), _parquet(compression="NONE", write_page_checksum=True)]
    tables.append(_parquet(use_dictionary=False, data_page_version="2.0"))
    return {
        "png": ("image_folder", "f.png", [_saved("PNG", mode) for mode in modes]),
        "jpeg": ("image_folder", "f.jpg", jpegs),
        "gif": ("image_folder", "f.gif", [_saved("GIF", "P"), _saved("GIF", "P", "L")]),
        "wav": ("sound_folder", "f.wav", wavs),
        "flac": ("sound_folder", "f.flac", [_sound("FLAC", "PCM_16"), _sound("FLAC", "PCM_24")]),
        "gz": ("csv", "f.csv.gz", [gzip.compress(_csv()), gzip.compress(_csv()[:300]) + gzip.compress(_csv()[300:])]),
        "zst": ("jsonl", "f.jsonl.zst", [zstandard.compress(_jsonl())]),
        "parquet": ("parquet", "f.parquet", tables),
        "csv": ("csv", "f.csv", [_csv()]),
        "jsonl": ("jsonl", "f.jsonl", [_jsonl(), json.dumps(ROWS).encode()]),
        "tfrecord": ("tfrecord", "f.tfrecord", [b"".join(map(frame, _records()))]),
        **_more_seeds(),
    }


def _in_two(compress, content):
    """Returns two streams with zeros between them."""
    return compress(content[:300]) + bytes(512) + compress(content[300:])


def _lzma(content):
    return lzma.compress(content, lzma.FORMAT_ALONE)


def _xz_files():
    """Returns the rows as files of xz with and without checksums, of one stream or two, and with a filter."""
    delta = [{"id": lzma.FILTER_DELTA, "dist": 3}, {"id": lzma.FILTER_LZMA2}]
    checks = [lzma.compress(_jsonl(), check=each) for each in (lzma.CHECK_CRC64, lzma.CHECK_SHA256, lzma.CHECK_NONE)]
    return [*checks, lzma.compress(_jsonl(), filters=delta), _in_two(lzma.compress, _jsonl())]


def _more_seeds():
    """Returns the sound files of formats of which a slow test alone tries damaged ones."""
    modes = ("L", "RGB", "RGBA", "CMYK", "I;16")
    return {
        "bz2": ("csv", "f.csv.bz2", [bz2.compress(_csv()), _in_two(bz2.compress, _csv())]),
        "xz": ("jsonl", "f.jsonl.xz", _xz_files()),
        "lzma": ("text_lines", "f.txt.lzma", [_lzma(_csv()), _lzma(_csv() * 50)]),
        "deflate": ("text_lines", "f.txt.deflate", [zlib.compress(_csv()), zlib.compress(_csv() * 40, 0)]),
        "tfrecord.gz": ("tfrecord", "f.tfrecord.gz", [gzip.compress(b"".join(map(frame, _records())))]),
        "tiff": ("image_folder", "f.tiff", [_saved("TIFF", mode) for mode in modes] + [_saved("TIFF", "RGB", "L")]),
        "webp": ("image_folder", "f.webp", [_saved("WEBP", "RGB"), _saved("WEBP", "RGBA", lossless=True)]),
        "bmp": ("image_folder", "f.bmp", [_saved("BMP", "RGB"), _saved("BMP", "L")]),
        "ogg": ("sound_folder", "f.ogg", [_sound("OGG", "VORBIS"), _sound("OGG", "OPUS")]),
        "aiff": ("sound_folder", "f.aiff", [_sound("AIFF", "PCM_16"), _sound("AIFF", "PCM_24")]),
        "mp3": ("sound_folder", "f.mp3", [_sound("MP3", "MPEG_LAYER_III")]),
        **_seeds_of_other_codecs(),
    }


def _seeds_of_other_codecs():
    """Returns the undamaged images whose decoders are optional, as far as they are installed."""
    rgb, deep = np.asarray(_pixels("RGB")), np.asarray(_pixels("RGB")).astype(np.uint16) * 257
    codecs = {"avif": imagecodecs.AVIF, "jp2": imagecodecs.JPEG2K, "jxl": imagecodecs.JPEGXL}
    encoders = {
        "avif": lambda: [imagecodecs.avif_encode(rgb)],
        "jp2": lambda: [imagecodecs.jpeg2k_encode(each, level=0) for each in (rgb, deep)],
        "jxl": lambda: [imagecodecs.jpegxl_encode(each, lossless=True) for each in (rgb, deep)],
    }
    contents = {form: encoders[form]() for form, codec in codecs.items() if codec.available}
    with suppress(ImportError):
        import pillow_heif

        file = io.BytesIO()
        pillow_heif.from_pillow(Image.fromarray(rgb).resize((32, 24))).save(file, quality=60)
        contents["heic"] = [file.getvalue()]
    return {form: ("image_folder", f"f.{form}", files) for form, files in contents.items()}


def _with_checksums_of_png(data):
    """Returns a PNG whose chunks have right checksums, as far as it has chunks."""
    made, position = data[:8], 8
    while position + 12 <= len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        chunk = data[position + 4 : position + 8 + size]
        made += data[position : position + 4] + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        position += 12 + size
    return made + data[position:]


def _with_checksums_of_records(data):
    made, position = b"", 0
    while position + 16 <= len(data):
        head = data[position : position + 8]
        record = data[position + 12 : position + 12 + min(len(data), int.from_bytes(head, "little"))]
        made += head + struct.pack("<I", masked_crc32c(head)) + record + struct.pack("<I", masked_crc32c(record))
        position += 16 + len(record)
    return made + data[position:]


def _damaged_records(draw):
    return damaged(b"".join(map(frame, _records())), draw)


REPAIRED = {
    "png": _with_checksums_of_png,
    "tfrecord": _with_checksums_of_records,
    "gz": lambda data: gzip.compress(_csv()[: len(data)] + data[-9:]),
    "zst": lambda data: zstandard.compress(_jsonl()[: len(data)] + data[-9:]),
    "bz2": lambda data: bz2.compress(_csv()[: len(data)] + data[-9:]),
    "xz": lambda data: lzma.compress(_jsonl()[: len(data)] + data[-9:]),
    "lzma": lambda data: _lzma(_csv()[: len(data)] + data[-9:]),
    "deflate": lambda data: zlib.compress(_csv()[: len(data)] + data[-9:]),
    "tfrecord.gz": lambda data: gzip.compress(_with_checksums_of_records(_damaged_records(random.Random(data)))),
}
"""Functions that correct the checksums of damaged content, so that only its meaning shows the damage."""

_NUMBERS = [struct.pack(form, n) for form in ("<I", ">I", "<H", ">H") for n in (0, 1, 0x7FFF, 0xFFFF)]
_NUMBERS += [struct.pack(form, n) for form in ("<I", ">I") for n in (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 28)]


def damaged(data, draw):
    """Returns content with bits flipped, bytes cut off, left out, inserted, repeated, or another number in it."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(data) + 1)
        stop = at + draw.choice((1, 2, 8, 50, len(data)))
        kind = draw.randrange(8)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[: -draw.randrange(1, 13)]
        elif kind == 2:
            data = data[:at] + draw.randbytes(draw.choice((1, 2, 4, 30))) + data[at:]
        elif kind == 3:
            data = data[:at] + data[stop:]
        elif kind == 4:
            data = data[:stop] + data[at:]
        elif kind == 5:
            number = draw.choice(_NUMBERS)
            data = data[:at] + number + data[at + len(number) :]
        elif data:
            place = min(at, len(data) - 1)
            data = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return data


def damaged_file(form, seed):
    """Returns the name and the content of a damaged file."""
    draw = random.Random(f"{form} {seed}")
    _, name, contents = seeds()[form]
    data = damaged(draw.choice(contents), draw)
    return name, REPAIRED[form](data) if form in REPAIRED and draw.random() < 0.5 else data


# -------------------------------------------------------------------------------------------------------------- trials


def written(form, seed, folder):
    """Writes a damaged file, and returns what a builder takes: the file, or the folder above labels."""
    kind, (name, data) = seeds()[form][0], damaged_file(form, seed)
    path = folder / form / (f"label/{name}" if kind.endswith("_folder") else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path.parent.parent if kind.endswith("_folder") else path


CASES = {
    "image_folder": foreign_suites.image_cases,
    "sound_folder": foreign_suites.sound_cases,
    "csv": foreign_suites.csv_cases,
    "jsonl": foreign_suites.jsonl_cases,
    "text_lines": foreign_suites.text_cases,
    "parquet": foreign_suites.parquet_cases,
    "tfrecord": foreign_suites.tfrecord_cases,
}


def outcome(form, seed, folder):
    """Returns `published`, `refused`, or what is wrong with what a builder does of a damaged file."""
    kind, name, _ = seeds()[form]
    path, before = written(form, seed, folder), peak_memory()
    try:
        published, result = publish(kind, path), "published"
    except Exception as error:
        published, result = None, "refused" if is_refusal(error, name) else f"{type(error).__name__}: {error!s:.300}"
    if (more := peak_memory() - before) > MAX_MEMORY:
        return f"{more >> 20} MiB of memory"
    problem = foreign_suites.judged(case_of(kind, path, name), published) if published else ""
    return problem or result


def case_of(kind, path, name):
    """Returns how a library reads the file that a builder is given, or that is in a folder below it."""
    if not kind.endswith("_folder"):
        return next(CASES[kind](path))
    return next(CASES[kind](path / "label" / name, path.parent))


def outcomes(form, seeds_of_files, folder):
    return [outcome(form, seed, folder) for seed in seeds_of_files]


def faults(form, number, folder):
    """Returns how many damaged files were published and refused, and {seed: what is wrong with others}."""
    kind = seeds()[form][0]
    option_names(kind)
    counts, wrong = Counter(), {}
    for start in range(0, number, BATCH):
        batch = range(start, min(start + BATCH, number))
        found = apart(outcomes, form, batch, folder, seconds=2 * MAX_SECONDS)
        if isinstance(found, Crashed):
            found = [apart(outcome, form, seed, folder, seconds=MAX_SECONDS) for seed in batch]
        for seed, each in zip(batch, found):
            counts[str(each)] += 1
            if each not in ("published", "refused"):
                wrong[seed] = each
    return counts, wrong


@pytest.mark.parametrize("form", [form for form in seeds() if form not in _more_seeds()])
def test_damaged_files(form, tmp_path):
    counts, wrong = faults(form, FEW, tmp_path)
    assert wrong == {}
    assert counts["refused"] > FEW // 4


@pytest.mark.slow
@pytest.mark.parametrize("form", seeds())
def test_many_damaged_files(form, tmp_path):
    counts, wrong = faults(form, MANY, tmp_path)
    print(form, counts)
    assert wrong == {}


@pytest.mark.parametrize("form", seeds())
def test_what_is_damaged_is_fine_before(form, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "damaged", lambda data, draw: data)
    monkeypatch.setitem(globals(), "REPAIRED", {})
    results = {outcome(form, seed, tmp_path) for seed in range(8)}
    assert "published" in results
    assert results <= {"published", "refused"}  # images of several frames, and of 16 bits


def built(form, seed, folder):
    """Returns the outcome of a whole build of a damaged file, whose examples are read."""
    kind, name, _ = seeds()[form]
    builder = make_builder(kind, written(form, seed, folder))
    try:
        directory = builder.elsewhere(folder / f"out{seed}").build(num_workers=1)
    except BeamDatasetsError as error:
        return "refused" if is_refusal(error, name) else f"{error}"
    return "published" if list(builder_from_directory(directory).as_dataset(split="train")) else "published, empty"


def same_by_build(form, number, folder):
    return [(seed, outcome(form, seed, folder), built(form, seed, folder)) for seed in range(number)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_builds_do_the_same(form, tmp_path):
    for seed, expected, found in same_by_build(form, 2, tmp_path):
        assert found == expected, seed


@pytest.mark.slow
@pytest.mark.parametrize("form", seeds())
def test_more_builds_do_the_same(form, tmp_path):
    for seed, expected, found in same_by_build(form, 12, tmp_path):
        assert found == expected, seed
