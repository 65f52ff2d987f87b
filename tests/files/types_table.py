"""The table of inferred types in docs/reference/file-types.md, made by reading a small file of each content.

    python -m tests.files.types_table

writes it into the page; a test fails where the page says something else.
"""

import datetime
import decimal
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.example import serialize
from beam_datasets.formats.tfrecord import frame
from tests.files.in_process import advised, make_builder, publish
from tests.sounds import encoded

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/file-types.md"
START, STOP = "<!-- made by python -m tests.files.types_table -->\n", "<!-- end -->\n"


class Content(NamedTuple):
    """Content of one type.

    Attributes:
        format: of the file, as the table names it.
        name: of the type.
        kind: of the builder.
        data: the file.
    """

    format: str
    name: str
    kind: str
    data: bytes


class Row(NamedTuple):
    """The result for content: the type as `--feature` takes it, and a value as it is read."""

    feature: str
    read_as: str


# ------------------------------------------------------------------------------------------------------------- contents

DAY = datetime.date(2024, 2, 29)
TIME = datetime.datetime(2024, 2, 29, 12, 30, 0, 500000)


def of_parquet() -> Iterator[Content]:
    """Yields a column of each type of Arrow."""
    numbers = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    columns: dict[str, Any] = {str(kind): pa.array([1], kind) for kind in numbers}
    columns |= {str(kind): pa.array([0.5], kind) for kind in (pa.float16(), pa.float32(), pa.float64())}
    columns |= {"bool": pa.array([True])}
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(2)):
        columns[str(kind)] = pa.array(["ab"], pa.string()).cast(pa.binary()).cast(kind)
    columns |= {str(kind): pa.array([DAY], kind) for kind in (pa.date32(), pa.date64())}
    kinds = [pa.timestamp(unit) for unit in ("s", "us", "ns")] + [pa.timestamp("us", "UTC")]
    columns |= {str(kind): pa.array([TIME.replace(microsecond=0)], kind) for kind in kinds}
    kinds = [pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("ms"), pa.duration("ns")]
    columns |= {
        str(kind): pa.array([45_000 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]], kind) for kind in kinds
    }
    columns |= {
        "decimal128(3, 2)": pa.array([decimal.Decimal("1.50")]),
        "dictionary of texts": pa.array(["ab"]).dictionary_encode(),
        "list<int64>": pa.array([[1, 2]]),
        "`list<int64>` with a null in it": pa.array([[1, None]]),
        "fixed-size list of float": pa.array([[0.5, 1.5]], pa.list_(pa.float32(), 2)),
        "struct": pa.array([{"a": 1}]),
        "list of structs": pa.array([[{"a": 1}]]),
        "list of structs with a null in it": pa.array([[{"a": 1, "b": "ab"}, {"a": None, "b": None}]]),
        "map<string, int64>": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "null": pa.nulls(1),
        "fixed_shape_tensor of float": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((1, 2, 2), np.float32)),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16))),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'])),
        "`struct<bytes, path>` of an image": pa.array([{"bytes": picture("RGB"), "path": "a.png"}]),
        "`struct<bytes, path>` of a sound": pa.array([{"bytes": encoded(), "path": "a.wav"}]),
    }
    for name, column in columns.items():
        file = io.BytesIO()
        pq.write_table(pa.table({"x": column}), file)
        yield Content("Parquet", name, "parquet", file.getvalue())


def of_json() -> Iterator[Content]:
    """Yields a value of each kind of JSON."""
    values = ["1", "0.5", "0.123456789", "NaN", "true", '"ab"', "null", "[1, 2]", "[[1], [2, 3]]", "[]", "[1, null]",
              '[1, "ab"]', '{"a": 1}', '[{"a": 1}]', "{}", str(2**70)]  # fmt: skip
    for value in values:
        yield Content("JSON", value, "jsonl", f'{{"x": {value}}}\n'.encode())


def of_csv() -> Iterator[Content]:
    """Yields a text of each kind of CSV."""
    for text in ("1", "0.5", "0.123456789", "1e400", "nan", "true", "2024-02-29", "007", "ab"):
        yield Content("CSV", text, "csv", f"x,y\n{text},1\n".encode())


def of_tfrecord() -> Iterator[Content]:
    """Yields lists of tf.train.Examples."""
    lists: dict[str, list[Any]] = {
        "an int64": [[1]],
        "a float": [np.float32([0.5])],
        "bytes": [[b"ab"]],
        "bytes of a PNG or JPEG": [[picture("RGB")]],
        "int64, as many in each record": [[1, 2], [3, 4]],
        "int64, of several lengths": [[1, 2], [3]],
        "bytes, several": [[b"ab", b"c"]],
        "int64 that some records lack": [[1], None],
        "lists of two types": [[1], [b"ab"]],
        "empty in all records": [[]],
    }
    for name, values in lists.items():
        examples = [serialize({"y": [1]} | ({} if value is None else {"x": value})) for value in values]
        yield Content("TFRecord", name, "tfrecord", b"".join(map(frame, examples)))


def picture(mode: str, form: str = "PNG", **options: Any) -> bytes:
    """Returns an image of 4 x 2 pixels."""
    file = io.BytesIO()
    Image.new(mode, (4, 2)).save(file, form, **options)
    return file.getvalue()


def of_images() -> Iterator[Content]:
    """Yields images of each kind."""
    import imagecodecs

    other = Image.new("L", (4, 2), 255)
    made = {
        "PNG, 1 to 8 bits, grey": picture("L"),
        "PNG, palette": picture("P"),
        "PNG, RGB": picture("RGB"),
        "PNG, RGBA": picture("RGBA"),
        "PNG, 16 bits, grey": picture("I;16"),
        "PNG, 16 bits, RGB": imagecodecs.png_encode(np.zeros((2, 4, 3), np.uint16)),
        "JPEG": picture("RGB", "JPEG"),
        "JPEG, CMYK": picture("CMYK", "JPEG"),
        "GIF": picture("P", "GIF"),
        "GIF, several frames": picture("L", "GIF", save_all=True, append_images=[other]),
        "WebP": picture("RGB", "WEBP"),
        "BMP": picture("RGB", "BMP"),
        "TIFF": picture("RGB", "TIFF"),
        "TIFF, several pages": picture("L", "TIFF", save_all=True, append_images=[other]),
        "TIFF, 16 bits": picture("I;16", "TIFF"),
        "TIFF, floats": picture("F", "TIFF"),
    }
    for name, data in made.items():
        yield Content("image", name, "image_folder", data)


def of_sounds() -> Iterator[Content]:
    """Yields sounds of each kind."""
    wavs = {"PCM_U8": "8 bits", "PCM_16": "16 bits", "PCM_24": "24 bits", "PCM_32": "32 bits", "FLOAT": "float32",
            "DOUBLE": "float64", "ALAW": "A-law", "ULAW": "u-law", "IMA_ADPCM": "ADPCM"}  # fmt: skip
    kinds = [(f"WAV, {name}", "WAV", subtype) for subtype, name in wavs.items()]
    kinds += [
        ("FLAC, 16 bits", "FLAC", "PCM_16"),
        ("FLAC, 24 bits", "FLAC", "PCM_24"),
        ("AIFF, 16 bits", "AIFF", "PCM_16"),
    ]
    kinds += [("OGG Vorbis", "OGG", "VORBIS"), ("MP3", "MP3", "MPEG_LAYER_III")]
    samples = np.zeros((2000, 2), np.int16)
    for name, form, subtype in kinds:
        yield Content("sound", name, "sound_folder", encoded(samples, form, subtype))


# --------------------------------------------------------------------------------------------------------------- table

SUFFIXES = {"jsonl": "jsonl", "image_folder": "png", "sound_folder": "wav"}


def row_of(content: Content, folder: Path) -> Row:
    """Returns what becomes of content."""
    is_folder = content.kind.endswith("_folder")
    path = folder / content.kind / f"label/a.{SUFFIXES.get(content.kind, content.kind)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.data)
    place = path.parents[1] if is_folder else path
    column = {"image_folder": "image", "sound_folder": "audio"}.get(content.kind, "x")
    try:
        published = publish(content.kind, place)
        builder: Any = make_builder(content.kind, place)
        feature = column if is_folder else str(builder._fields["x"])
        counted = [what for what in published.counted if what.startswith("images")]
    except BeamDatasetsError as error:
        return Row("refused", way_of(str(error)))
    return Row(f"`{feature}`", shown(published.rows[0][column]) + ("; counted" if counted else ""))


def way_of(problem: str) -> str:
    """Returns the options that an error proposes. Those of one name are alternatives."""
    ways: dict[str, list[str]] = {}
    for option, value in advised(problem):
        if option != "--skip_bad" and f"`{option} {value}`" not in ways.setdefault(option, []):
            ways[option].append(f"`{option} {value}`")
    return " ".join(" or ".join(values) for values in ways.values() if values) or "the error says why"


def shown(value: Any) -> str:
    """Returns a value in short."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"`{_text(value)}`"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bytes):
        return json.dumps(value.decode("utf-8", "backslashreplace"))
    return str(value)


def _is_type(name: str) -> bool:
    return "`" not in name and (" " not in name or name[-1] in ">])")


def table() -> str:
    """Returns the table; neighbours of which the same becomes share a row."""
    rows: list[tuple[str, list[str], Row]] = []
    with tempfile.TemporaryDirectory() as folder:
        for contents in (of_csv, of_json, of_parquet, of_tfrecord, of_images, of_sounds):
            for content in contents():
                row = row_of(content, Path(folder))
                is_code = content.format in ("CSV", "JSON") or (content.format == "Parquet" and _is_type(content.name))
                name = f"`{content.name}`" if is_code else content.name
                if row.feature == f"`{content.name}`" and row.read_as == "`1`":
                    row = Row("the same", "`1`")
                if rows and rows[-1][0] == content.format and rows[-1][2] == row:
                    rows[-1][1].append(name)
                else:
                    rows.append((content.format, [name], row))
    lines, before = [], ""
    for form, names, row in rows:
        lines.append(f"| {form if form != before else ''} | {'; '.join(names)} | {row.feature} | {row.read_as} |")
        before = form
    return "\n".join(["| file | content | type | value, or options |", "|---|---|---|---|", *lines, ""])


def page_with(made: str) -> str:
    """Returns the page with another table."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    _, stop, after = rest.partition(STOP)
    assert stop, f"{PAGE} lacks the lines around the table"
    return f"{before}{START}{made}{STOP}{after}"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(table())
    else:
        PAGE.write_text(page_with(table()), "utf-8")
