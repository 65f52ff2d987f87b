"""Tries files that others wrote: what builders publish of them is compared with what a well-known library reads.

    python -m tests.files.foreign_suites FOLDER [FOLDER ...]

prints a table, and below it the files that are neither equal nor refused by name:

equal    all values are those of the library
refused  an error of this project that names the file. What it advises is followed: where the file is read then, the
         values are equal, too, but for columns that the advice leaves out
other    anything else: other values, a traceback, an error without the file's name, a crash, advice that does not work,
         a file that must be refused and is published, or one that must be read and is not

The libraries: pyarrow (Parquet), pandas or a .json beside it (CSV), json (JSON), imagecodecs and Pillow (images),
soundfile (sound), protobuf (TFRecord), Python's own decompressors.

A .json file is one JSON text of any kind, as in JSONTestSuite. It is tried as the field `value` of an object: in an
array of one object (`[{"value": TEXT}]`), and in a line (`{"value": TEXT}`) if it has no line end. Names that begin
with y_ must be read, and with n_ must be refused; but
  NaN, Infinity, -Infinity  are read. json.dumps of Python writes them, so do pandas and datasets for floats, and
                            a float has these values, so nothing is lost.
  a name twice in an object is refused, because one of its values would be lost.
"""

import bz2
import decimal
import gzip
import io
import itertools
import json
import logging
import lzma
import re
import shutil
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beam_datasets.formats.tfrecord import masked_crc32c
from tests.files.in_process import Crashed, Published, advised, apart, is_refusal, option_names, publish

READ, REFUSED, EITHER = "must be read", "must be refused", "either"
ROUNDS = 6  # how often advice is followed
DEEP = 20_000  # calls in each other, to compare values
SLOW = 300.0  # seconds for a file, such as one with texts of a GiB


class Trial(NamedTuple):
    """The outcome of a file."""

    file: str
    outcome: str
    detail: str = ""


class Case(NamedTuple):
    """A file to try.

    Attributes:
        kind: of the builder.
        path: what to build of.
        name: of the file, which errors must contain.
        oracle: from the encoding of its text to what the file holds; raises if it cannot be read.
        compare: (published, what the file holds, columns left out) -> the first difference; "".
        must: READ, REFUSED or EITHER.
    """

    kind: str
    path: Path
    name: str
    oracle: Callable[[str], Any]
    compare: Callable[[Published, Any, frozenset[str]], str]
    must: str = EITHER


# -------------------------------------------------------------------------------------------------------------- trials


def tried(case: Case) -> Trial:
    """Tries a file, follows the advice of errors, and judges what came of it."""
    given: dict[str, str] = {}
    for _ in range(ROUNDS):
        options = [word for target, value in given.items() for word in _words(target, value)]
        try:
            published = publish(case.kind, case.path, *options)
        except Exception as error:
            if not is_refusal(error, case.name):
                return Trial(case.name, "other", f"{type(error).__name__} {options}: {error}")
            if not given and (problem := _without_bad_rows(case)):
                return Trial(case.name, "other", problem)
            refusal = str(error)
            more = _next_options(case.kind, refusal)
            more = {target: each for target, each in more.items() if not _is_inside(target, {**given, **more})}
            if more.items() <= given.items():
                break
            given |= more
            continue
        problem = judged(case, published, options)
        return Trial(case.name, "other" if problem else "refused" if options else "equal", problem or f"{options}")
    return Trial(case.name, "other" if case.must == READ else "refused", f"{options} {refusal}")


def _is_inside(target: str, others: Collection[str]) -> bool:
    """Returns whether the column that a field is in has advice of its own."""
    return any(target.startswith(f"{other}/") for other in others)


def _words(target: str, value: str) -> tuple[str, str]:
    return (target, value) if target.startswith("--") else ("--feature", f"{target}={value}")


def judged(case: Case, published: Published, options: Sequence[str] = ()) -> str:
    """Returns what is wrong with what was published by these options; '' if nothing is."""
    if case.must == REFUSED:
        return f"{options}: published, and should be refused"
    try:
        wanted = case.oracle(options[options.index("--encoding") + 1] if "--encoding" in options else "utf-8")
    except Exception as error:
        return f"{options}: published, but the library says: {error!r:.300}"
    dropped = frozenset(value.removesuffix("=drop") for value in options if value.endswith("=drop"))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))
    try:
        problem = case.compare(published, wanted, dropped)
    except Exception as error:
        problem = f"cannot be compared: {error!r}"
    finally:
        sys.setrecursionlimit(limit)
    return f"{options}: {problem}" if problem else ""


def _without_bad_rows(case: Case) -> str:
    """Returns what is wrong with `--skip_bad`: an error other than one that names the file."""
    try:
        publish(case.kind, case.path, "--skip_bad")
    except Exception as error:
        if not is_refusal(error, case.name):
            return f"{type(error).__name__} ['--skip_bad']: {error}"
    return ""


def _next_options(kind: str, problem: str) -> dict[str, str]:
    """Returns the first advice of an error for each column, and for each other option: {column or option: value}."""
    known, found = option_names(kind), dict[str, str]()
    for option, value in advised(problem):
        if option not in known:
            raise ValueError(f"{option} is no option of {kind}: {problem}")
        is_placeholder = not value or bool(re.search(r"\b[A-Z]{4,}\b|^a,b,c", value))
        if option not in ("--skip_bad", "--pattern") and not is_placeholder:
            target, _, kind_of = value.partition("=") if option == "--feature" else (option, "", value)
            found.setdefault(target, kind_of)
    return found


# -------------------------------------------------------------------------------------------------------------- values


def difference(got: Any, want: Any, path: str = "") -> str:
    """Returns the first difference between a published value and the one of a library; '' if there is none."""
    if isinstance(got, np.ndarray) or (isinstance(got, bytes) and isinstance(want, dict) and "bytes" in want):
        return _content_differs(got, want["bytes"] if isinstance(want, dict) else want, path)
    if want is None:
        return "" if _is_missing(got) else f"{path}: {got!r:.80} is not missing"
    if isinstance(want, dict) and want.keys() == {"key", "value"} and isinstance(got, list) and len(got) == 2:
        got = {"key": got[0], "value": got[1]}  # an item of a map in text
    if isinstance(want, dict) and isinstance(got, dict):
        names = [*got, *(name for name in want if name not in got)]
        if lost := [name for name in want if name not in got]:
            return f"{path}: {lost} lost"
        return next(filter(None, (difference(got[n], want.get(n), f"{path}/{n}") for n in names)), "")
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{path}: {len(got)} items, not {len(want)}"
        return next(filter(None, (difference(*each, f"{path}[{i}]") for i, each in enumerate(zip(got, want)))), "")
    return "" if _is_same(got, want) else f"{path}: {got!r:.80} is not {want!r:.80}"


def _content_differs(got: Any, content: bytes, path: str) -> str:
    """Returns how an image or a sound differs from the content of its file."""
    if isinstance(got, bytes):
        return "" if got == content else f"{path}: other bytes"
    if content[:4] in (b"RIFF", b"fLaC", b"OggS", b"FORM"):
        return _samples_differ(got, samples_of(io.BytesIO(content), "")[0])
    return _pixels_differ(got, pixels_of(io.BytesIO(content), ""), has_count=True)


def _is_missing(got: Any) -> bool:
    return got is None or got in (b"", b"null", []) or (isinstance(got, dict) and all(map(_is_missing, got.values())))


def _is_same(got: Any, want: Any) -> bool:
    """Returns whether a published scalar, or text made of a value, is a value of a library."""
    if isinstance(want, Temporal):
        return isinstance(got, bytes) and want.is_written(got.decode())
    if isinstance(want, bytes) or (isinstance(want, str) and isinstance(got, bytes)):
        return got == (want.encode() if isinstance(want, str) else want)
    if isinstance(want, str):
        return bool(got == want)
    if isinstance(got, bytes):  # any value as text
        return _is_written(got.decode(), want)
    if isinstance(want, bool) or isinstance(got, bool):
        return got is want
    if isinstance(want, int | float | decimal.Decimal | np.floating) and isinstance(got, int | float | np.floating):
        if want != want:
            return bool(got != got)
        return bool(got == want) or (isinstance(got, np.floating) and float(str(got)) == want)
    return False


def _is_written(text: str, want: Any) -> bool:
    if isinstance(want, decimal.Decimal):
        return decimal.Decimal(text) == want
    if isinstance(want, list | dict) or want is None or isinstance(want, bool):
        return difference(json.loads(text), _as_json(want)) == ""
    return text == str(want) or float(text) == want or (want != want and text.lower() == "nan")


def _as_json(value: Any) -> Any:
    """Returns a value with what JSON lacks as text."""
    if isinstance(value, dict):
        return {name: _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    return value.decode() if isinstance(value, bytes) else value


def rows_differ(published: Published, wanted: Sequence[dict[str, Any]], dropped: frozenset[str]) -> str:
    """Returns the first difference between published rows and those of a library, in order."""
    wanted = [_without(row, dropped) for row in wanted]
    return difference(published.rows, list(wanted))


def _without(row: Any, dropped: frozenset[str], path: str = "") -> Any:
    if isinstance(row, list):
        return [_without(item, dropped, path) for item in row]
    if not isinstance(row, dict):
        return row
    return {n: _without(v, dropped, f"{path}{n}/") for n, v in row.items() if f"{path}{n}" not in dropped}


# ------------------------------------------------------------------------------------------------------------- Parquet


class Temporal(NamedTuple):
    """A time of Arrow: an integer number of units, of a date, a timestamp, a time or a duration."""

    kind: str
    value: int
    unit: str
    zone: str = ""

    def is_written(self, text: str) -> bool:
        """Returns whether a text means it."""
        nanoseconds = self.value * {"D": 86400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[self.unit]
        if self.kind == "duration":
            return _duration(text) == nanoseconds
        if self.kind == "time":
            return _time_of_day(text) == nanoseconds
        match = re.fullmatch(r"\+?(-?\d+)-(\d\d)-(\d\d)(?:[T ](.*?)(Z|[+-]\d\d:?\d\d(?::\d\d)?)?)?", text)
        assert match is not None, text
        days = int(np.datetime64(f"{match[1]}-{match[2]}-{match[3]}", "D").astype(int))
        offset = 0
        if match[5] and match[5] != "Z":
            sign, hours, minutes = match[5][0], int(match[5][1:3]), int(match[5][3:].strip(":")[:2])
            offset = (-1 if sign == "-" else 1) * (hours * 60 + minutes) * 60 * 10**9
        assert bool(match[5]) == bool(self.zone), text
        return days * 86400 * 10**9 + (_time_of_day(match[4]) if match[4] else 0) - offset == nanoseconds


def _time_of_day(text: str) -> int:
    whole, _, fraction = text.partition(".")
    hours, minutes, seconds = (*map(int, whole.split(":")), 0)[:3]
    return ((hours * 60 + minutes) * 60 + seconds) * 10**9 + int(fraction.ljust(9, "0") or 0)


def _duration(text: str) -> int:
    match = re.fullmatch(r"(?:(-?\d+) days?,? ?)?(?:([+-]?)(\d+:\d\d:\d\d(?:\.\d+)?))?", text)
    assert match is not None, text
    of_day = _time_of_day(match[3]) if match[3] else 0
    return int(match[1] or 0) * 86400 * 10**9 + (-of_day if match[2] == "-" else of_day)


def arrow_value(scalar: Any) -> Any:
    """Returns a scalar of Arrow as plain Python; times as their integers."""
    import pyarrow as pa

    kind, types = scalar.type, pa.types
    if not scalar.is_valid:
        return None
    if kind == pa.uuid():
        return str(scalar.as_py())
    if isinstance(scalar, pa.ExtensionScalar):
        return arrow_value(scalar.value) if scalar.value is not None else None
    if types.is_dictionary(kind):
        return arrow_value(scalar.value)
    if types.is_struct(kind):
        return {field.name: arrow_value(scalar[i]) for i, field in enumerate(kind)}
    if types.is_map(kind):
        return [{"key": arrow_value(item["key"]), "value": arrow_value(item["value"])} for item in scalar.values or ()]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [arrow_value(item) for item in scalar.values]
    if types.is_date(kind):
        return Temporal("date", scalar.value, "D" if types.is_date32(kind) else "ms")
    for name in ("timestamp", "duration", "time"):
        if getattr(types, f"is_{name}")(kind):
            return Temporal(name, scalar.value, kind.unit, getattr(kind, "tz", "") or "")
    return scalar.as_py()


READABLE = ("ARROW-GH-43605.parquet",)  # indices of 0 bits, which are all 0, as pyarrow reads them too


def parquet_rows(path: Path, encoding: str) -> list[dict[str, Any]]:
    """Returns the rows of a Parquet file as pyarrow reads them, with checksums and counts checked.

    Columns that are encrypted are left out.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        found: dict[str, list[Any]] = {}
        for name in file.schema_arrow.names:
            try:
                found[name] = list(_column(file, path, name))
            except OSError as error:
                if "decrypt" not in str(error):
                    raise
        assert {len(values) for values in found.values()} <= {file.metadata.num_rows}, "fewer rows than declared"
        return [{name: found[name][i] for name in found} for i in range(file.metadata.num_rows)]


def _whole(value: Any, in_seconds: Any) -> Any:
    """Returns a value with whole INT96 times, given the value in nanoseconds modulo 2^64, and in seconds."""
    if isinstance(value, Temporal) and value.unit == "ns" and in_seconds.unit == "s":
        start = in_seconds.value * 10**9
        return value._replace(value=start + (value.value - start) % 2**64)
    if isinstance(value, list):
        return list(map(_whole, value, in_seconds))
    if isinstance(value, dict):
        return {name: _whole(each, in_seconds[name]) for name, each in value.items()}
    return value


def _column(file: Any, path: Path, name: str) -> Iterator[Any]:
    """Yields the values of a column; row group by row group, as pyarrow has no more than 2 GiB of texts in an array.

    DuckDB reads maps of larger ones. INT96 is read as nanoseconds modulo 2^64, and in seconds.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    for group in range(file.num_row_groups):
        try:
            batches = [batch.column(0) for batch in file.iter_batches(row_groups=[group], columns=[name])]
        except pa.ArrowNotImplementedError:
            found = duckdb.sql(f"select \"{name}\" from '{path}'").fetchall()
            yield from ([{"key": key, "value": value} for key, value in row.items()] for (row,) in found)
            return
        values = [arrow_value(value) for batch in batches for value in batch]
        coarse = pq.ParquetFile(path, coerce_int96_timestamp_unit="s").read_row_group(group, [name]).column(0)
        if coarse.type != file.schema_arrow.field(name).type:
            values = list(map(_whole, values, map(arrow_value, coarse)))
        yield from values


def parquet_cases(path: Path) -> Iterator[Case]:
    """Yields the case of a Parquet file; those of `bad_data` must be refused."""
    must = REFUSED if path.parent.name == "bad_data" and path.name not in READABLE else EITHER
    yield Case("parquet", path, path.name, partial(parquet_rows, path), rows_differ, must)


def hive_rows(folder: Path, encoding: str) -> list[dict[str, Any]]:
    """Returns the rows of a folder whose folders are named after values, as pyarrow.dataset reads them."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    partitioning = ds.partitioning(flavor="hive")
    files = sorted(map(str, folder.rglob("*.parquet")), key=lambda name: Path(name).relative_to(folder).as_posix())
    table = ds.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=str(folder)).to_table()
    columns = [[arrow_value(value) for value in column] for column in table.columns]
    assert isinstance(table, pa.Table)
    return [dict(zip(table.column_names, values)) for values in zip(*columns)]


def hive_cases(folder: Path) -> Iterator[Case]:
    """Yields the case of a folder whose folders are named after values."""
    yield Case("parquet", folder, folder.name, partial(hive_rows, folder), rows_differ, READ)


# ------------------------------------------------------------------------------------------------------------ CSV, text

_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
    ".lzma": lzma.LZMADecompressor,
    ".deflate": zlib.decompressobj,
}


def content_of(path: Path) -> bytes:
    """Returns the content of a file, decompressed by its suffix; raises if its end is missing."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix in _DECOMPRESSORS:
        return b"".join(_contents_of_streams(_DECOMPRESSORS[path.suffix], data))
    return data


def _contents_of_streams(make_decompressor: Callable[[], Any], data: bytes) -> Iterator[bytes]:
    """Yields the content of each stream; `bz2.open` and `lzma.open` end without an error at zeros between streams."""
    while data:
        decompressor = make_decompressor()
        yield decompressor.decompress(data)
        if not decompressor.eof:
            raise EOFError("the end of the stream is missing")
        data = decompressor.unused_data.lstrip(b"\0")


def csv_rows(path: Path, encoding: str) -> list[dict[str, str]]:
    """Returns the texts of a CSV file: those of the list of rows in a .json beside it, else as pandas reads them."""
    for beside in (path.with_suffix(".json"), path.parent.parent / "json" / f"{path.stem}.json"):
        if beside.exists() and isinstance(found := json.loads(beside.read_text("utf-8")), list):
            return found
    import pandas as pd

    delimiter = "\t" if ".tsv" in path.suffixes else ","
    data = content_of(path)
    table = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False, sep=delimiter, encoding=_with_bom(encoding))
    if str(table.columns[0]) == "Unnamed: 0":
        table = table.rename(columns={"Unnamed: 0": "index"})
    table.columns = [name.strip() for name in table.columns]
    return [dict(zip(table.columns, row)) for row in table.itertuples(index=False)]


def _with_bom(encoding: str) -> str:
    return "utf-8-sig" if encoding == "utf-8" else encoding


def texts_differ(published: Published, wanted: Sequence[dict[str, str]], dropped: frozenset[str]) -> str:
    """Returns the first difference between published rows and texts of CSV."""
    if len(published.rows) != len(wanted):
        return f"{len(published.rows)} rows, not {len(wanted)}"
    for number, (got, texts) in enumerate(zip(published.rows, wanted)):
        texts = {name: text for name, text in texts.items() if name not in dropped}
        if got.keys() != texts.keys():
            return f"row {number}: {sorted(got)} are not {sorted(texts)}"
        for name, text in texts.items():
            if not _means(got[name], text):
                return f"row {number}, {name}: {got[name]!r:.80} is not {text!r:.80}"
    return ""


def _means(got: Any, text: str) -> bool:
    if got is None:
        return text == ""
    if isinstance(got, bytes):
        return got.decode() == text
    if isinstance(got, bool):
        return str(got).lower() == text.strip().lower()
    return int(text) == got if isinstance(got, int) else _is_same(got, float(text))


def csv_cases(path: Path) -> Iterator[Case]:
    """Yields the case of a CSV file."""
    yield Case("csv", path, path.name, partial(csv_rows, path), texts_differ)


def text_cases(path: Path) -> Iterator[Case]:
    """Yields the case of a file of text lines."""

    def lines(encoding: str) -> list[dict[str, str]]:
        *ended, last = content_of(path).decode(_with_bom(encoding)).split("\n")
        return [{"text": text} for text in (*(text.removesuffix("\r") for text in ended), last) if text.strip()]

    yield Case("text_lines", path, path.name, lines, rows_differ)


# ---------------------------------------------------------------------------------------------------------------- JSON

CONSTANTS = re.compile(rb"\b(NaN|Infinity)\b")  # which this project reads, see above


def json_cases(path: Path, folder: Path) -> Iterator[Case]:
    """Yields the cases of a file that is one JSON text, as a field of an object in files of `folder`.

    Args:
        path: of the file.
        folder: for files that are made of it.
    """
    text = path.read_bytes()
    must = {"y_": READ, "n_": REFUSED}.get(path.name[:2], EITHER)
    if must == REFUSED and CONSTANTS.search(text) and _is_json(text):
        must = READ
    if must == READ and _has_name_twice(text):
        must = REFUSED
    made = {"array": b'[{"value": ' + text + b"}]"}
    if not re.search(rb"[\r\n]", text):
        made["line"] = b'{"value": ' + text + b"}\n"
    for form, content in made.items():
        file = folder / f"{path.stem}.{form}.jsonl"
        file.write_bytes(content)
        yield Case("jsonl", file, path.stem, partial(_wrapped, text), rows_differ, must)


def _wrapped(text: bytes, encoding: str) -> list[dict[str, Any]]:
    return [{"value": json.loads(text.decode(encoding))}]


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode())
    except ValueError:
        return False
    return True


def _has_name_twice(text: bytes) -> bool:
    pairs = json.loads(text, object_pairs_hook=lambda pairs: [(name,) for name, _ in pairs])
    return isinstance(pairs, list) and any(count > 1 for each, count in Counter(map(str, pairs)).items() if "(" in each)


def jsonl_cases(path: Path) -> Iterator[Case]:
    """Yields the case of a file of JSON lines, or of one array."""

    def rows(encoding: str) -> list[Any]:
        text = content_of(path).decode(_with_bom(encoding))
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    yield Case("jsonl", path, path.name, rows, rows_differ)


# -------------------------------------------------------------------------------------------------------------- images


def pixels_of(path: Path | io.BytesIO, encoding: str) -> np.ndarray[Any, Any]:
    """Returns the pixels of an image at their full depth, (height, width, channels), of the first frame."""
    import imagecodecs
    from PIL import Image

    with suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()
    data = path.read_bytes() if isinstance(path, Path) else path.read()
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[24] == 16:
        pixels = imagecodecs.png_decode(data)
    elif data[:2] == b"\xff\x0a" or data[4:8] == b"JXL ":
        pixels = imagecodecs.jpegxl_decode(data)
    elif data[4:8] == b"ftyp" and not _is_opened(data):  # of HEIC, Pillow knows fewer brands than libheif
        import pillow_heif

        pixels = np.asarray(pillow_heif.open_heif(io.BytesIO(data)).to_pillow())
    elif data[:3] == b"\xff\xd8\xff" and not _is_opened(data):  # Pillow stops at bytes that libjpeg skips
        pixels = imagecodecs.jpeg8_decode(data, outcolorspace="RGB")
    else:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            if image.mode.startswith("I;16"):
                pixels = np.asarray(image)
            elif image.format == "TIFF" and any(bits > 8 for bits in image.tag_v2.get(258, ())):  # type: ignore[attr-defined]
                pixels = imagecodecs.tiff_decode(data)
            else:
                has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                pixels = np.asarray(image.convert("RGBA" if has_alpha else "RGB"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _is_opened(data: bytes) -> bool:
    from PIL import Image, UnidentifiedImageError

    try:
        Image.open(io.BytesIO(data)).close()
    except UnidentifiedImageError:
        return False
    return True


def images_differ(published: Published, wanted: Any, dropped: frozenset[str]) -> str:
    """Returns how a published image differs; alpha may be left out if that is counted, grey be read as RGB."""
    [row] = published.rows
    return _pixels_differ(row["image"], wanted, has_count=any("transparency" in what for what in published.counted))


def _pixels_differ(got: Any, wanted: Any, *, has_count: bool) -> str:
    if got.dtype != wanted.dtype or got.shape[:2] != wanted.shape[:2]:
        return f"{got.dtype} {got.shape} is not {wanted.dtype} {wanted.shape}"
    if wanted.shape[2] in (2, 4) and got.shape[2] != wanted.shape[2]:
        if not has_count:
            return "transparency is lost without a count"
        wanted = wanted[..., :-1]
    if wanted.shape[2] == 1:
        wanted = np.broadcast_to(wanted, got.shape)
    elif got.shape[2] == 1 and (wanted == wanted[..., :1]).all():
        wanted = wanted[..., :1]
    return "" if np.array_equal(got, wanted) else f"the pixels differ in {np.mean(got != wanted):.0%}"


def image_cases(path: Path, folder: Path) -> Iterator[Case]:
    """Yields the case of an image, in a folder of its own."""
    must = EITHER
    if re.fullmatch(r"[a-z]\w{2}[ni]\d[gcpa]\d\d\.png|x\w{2}n\d[gcpa]\d\d\.png|exif2c08\.png", path.name):
        must = REFUSED if path.name.startswith("x") else READ  # of PngSuite
    yield Case("image_folder", _labeled(path, folder), path.name, partial(pixels_of, path), images_differ, must)


def _labeled(path: Path, folder: Path) -> Path:
    """Returns a folder that has a file in the folder of a label."""
    root = Path(tempfile.mkdtemp(dir=folder))
    (root / "label").mkdir()
    shutil.copy(path, root / "label" / path.name)
    return root


# --------------------------------------------------------------------------------------------------------------- sound


def samples_of(path: Path | io.BytesIO, encoding: str) -> Any:
    """Returns the samples of a sound, (frames, channels), as floats from -1 to 1, its rate and its format."""
    import soundfile

    with soundfile.SoundFile(path) as file:
        data = file.read(dtype="float64", always_2d=True)
        assert len(data) == file.frames
        return data, file.samplerate, file.format


def sounds_differ(published: Published, wanted: Any, dropped: frozenset[str]) -> str:
    """Returns how a published sound differs; integers are compared by their part of the full scale."""
    [row] = published.rows
    samples, rate, form = wanted
    feature = published.features["audio"]
    if feature.sample_rate not in (None, rate):
        return f"{feature.sample_rate} Hz is not {rate}"
    got = np.asarray(row["audio"])
    if form == "MP3":  # soundfile estimates the length of one that declares none, and reads no more
        got = got[: max(len(samples), len(got) - 2 * 1152)]
    return _samples_differ(got, samples)


def _samples_differ(got: Any, samples: Any) -> str:
    got = got[:, None] if got.ndim == 1 else got
    if got.shape != samples.shape:
        return f"{got.shape} samples are not {samples.shape}"
    if got.dtype.kind == "f":
        return "" if np.array_equal(got, samples, equal_nan=True) else "the samples differ"
    scales = {2.0**bits for bits in (7, 15, 23, 31)}
    # samples of MP3 and OGG may exceed the full scale, and differ in the last bit if soundfile has sought
    wanted_at = (np.clip(samples * scale, -scale, scale - 1) for scale in scales)
    is_same = any(np.abs(got - numbers).max(initial=0) <= 0.51 for numbers in wanted_at)
    return "" if is_same else "the samples differ"


def sound_cases(path: Path, folder: Path) -> Iterator[Case]:
    """Yields the case of a sound, in a folder of its own."""
    yield Case("sound_folder", _labeled(path, folder), path.name, partial(samples_of, path), sounds_differ)


# ------------------------------------------------------------------------------------------------------------ TFRecord


def example_rows(path: Path, encoding: str) -> list[dict[str, Any]]:
    """Returns the lists of the tf.train.Examples in a TFRecord file, by protobuf."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    from beam_datasets.formats import example_pb2

    data, rows = content_of(path), []
    while data:
        [size, check] = struct.unpack("<QI", data[:12])
        record, [check_of_record] = data[12 : 12 + size], struct.unpack("<I", data[12 + size : 16 + size])
        assert (masked_crc32c(data[:8]), masked_crc32c(record)) == (check, check_of_record)
        example = example_pb2.Example.FromString(record)
        assert not len(UnknownFieldSet(example)), "unknown fields"
        row = {}
        for name, feature in example.features.feature.items():
            kind = feature.WhichOneof("kind")
            row[name] = list(getattr(feature, kind).value) if kind else []
        rows.append(row)
        data = data[16 + size :]
    assert any(rows), "no record has a feature"
    return rows


def lists_differ(published: Published, wanted: Sequence[dict[str, Any]], dropped: frozenset[str]) -> str:
    """Returns the first difference between published rows and lists of tf.train.Examples."""
    if len(published.rows) != len(wanted):
        return f"{len(published.rows)} rows, not {len(wanted)}"
    for got, lists in zip(published.rows, wanted):
        for name in {*got, *lists} - dropped:
            value = got[name] if name in got else KeyError(name)
            listed = [] if value is None else value if isinstance(value, list) else [value]
            want = [np.float32(each) if isinstance(each, float) else each for each in lists.get(name, [])]
            if problem := difference(listed, want):
                return f"{name}: {problem}"
    return ""


def tfrecord_cases(path: Path) -> Iterator[Case]:
    """Yields the case of a TFRecord file."""
    yield Case("tfrecord", path, path.name, partial(example_rows, path), lists_differ)


# --------------------------------------------------------------------------------------------------------------- suites

_COMPRESSED = (".gz", ".bz2", ".xz", ".lzma", ".zst", ".deflate")
_SUITES: tuple[tuple[str, Callable[..., Iterator[Case]], str], ...] = (
    ("parquet", parquet_cases, "parquet encrypted"),
    ("csv", csv_cases, "csv tsv"),
    ("json", json_cases, "json"),
    ("jsonl", jsonl_cases, "jsonl ndjson"),
    ("text", text_cases, "txt"),
    ("images", image_cases, "png apng jpg jpeg gif bmp tif tiff webp dds ppm pgm heic avif jxl jp2 ico"),
    ("sound", sound_cases, "wav flac ogg mp3 aif aiff au w64 rf64 opus caf"),
    ("tfrecord", tfrecord_cases, "tfrecord tfrecords"),
)
_CASES = {f".{suffix}": (suite, cases) for suite, cases, suffixes in _SUITES for suffix in suffixes.split()}


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields (suite, file) of the files below a folder whose names say what they are; Hive's folders are one file."""
    hive = set()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts[:-1]
        if path.is_file() and any("=" in part for part in parts):
            hive.add(folder.joinpath(*itertools.takewhile(lambda part: "=" not in part, parts)))
            continue
        suffix = path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix
        if path.is_file() and suffix.lower() in _CASES:
            yield _CASES[suffix.lower()][0], path
    for path in sorted(hive):
        yield "hive", path


def tried_file(path: Path) -> Trial:
    """Tries a file by all of its cases; the worst counts."""
    suffix = path.with_suffix("").suffix if path.suffix in _COMPRESSED else path.suffix
    make = hive_cases if path.is_dir() else _CASES[suffix.lower()][1]
    with tempfile.TemporaryDirectory() as folder:
        more = [Path(folder)] if make in (json_cases, image_cases, sound_cases) else []
        trials = [tried(case) for case in make(path, *more)]
    return max(trials, key=lambda trial: ("equal", "refused", "other").index(trial.outcome))


def tried_folder(folder: Path) -> dict[str, list[Trial]]:
    """Returns the trials of all files below a folder, by suite; each file has a process of its own."""
    found: dict[str, list[Trial]] = {}
    for kind in ("csv", "jsonl", "parquet", "text_lines", "image_folder", "tfrecord"):
        option_names(kind)  # imported here once, and not in each process
    for suite, path in files_of(folder):
        trial = apart(tried_file, path, seconds=SLOW)
        trial = Trial(path.name, "other", trial.reason) if isinstance(trial, Crashed) else trial
        found.setdefault(suite, []).append(trial._replace(file=str(path)))
    return found


def main(folders: Sequence[str]) -> int:
    """Prints the table, and returns how many files are neither equal nor refused by name."""
    logging.disable()  # warnings of columns that become text
    try:
        tables = {(folder, suite): found for folder in folders for suite, found in tried_folder(Path(folder)).items()}
    finally:
        logging.disable(logging.NOTSET)
    print(f"{'folder':<45}{'suite':<10}{'files':>7}{'equal':>7}{'refused':>9}{'other':>7}")
    for (folder, suite), trials in tables.items():
        number = Counter(trial.outcome for trial in trials)
        counts = f"{len(trials):>7}{number['equal']:>7}{number['refused']:>9}{number['other']:>7}"
        print(f"{folder[-44:]:<45}{suite:<10}{counts}")
    other = [trial for trials in tables.values() for trial in trials if trial.outcome == "other"]
    for trial in other:
        print(f"\n{trial.file}\n  {trial.detail[:600]}")
    return len(other)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
