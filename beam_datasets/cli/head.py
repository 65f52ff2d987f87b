"""`beam-datasets head` and `slices`: print the first examples of a slice, and the files that it is read from."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.options import DATASET, Command, Flag, Option, UsageError, whole_number
from beam_datasets.cli.printing import line_width, say, say_values, table
from beam_datasets.display.text import printable, size_text
from beam_datasets.display.values import feature_lines, to_image
from beam_datasets.errors import FeatureError
from beam_datasets.features import FeatureConnector, Image, RaggedArray, Video, compile_decoder
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.stored_files import iter_files
from beam_datasets.features.trees import leaves_with_features
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.metadata.split_expressions import AbstractSplit
from beam_datasets.reading.dataset import Dataset
from beam_datasets.reading.elements.error_location import UNDECODED, Undecoded, tolerant_decoder, touch
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published
from beam_datasets.reading.records.shards import Shard, read_index

_PICTURES = (Image, Video)
UNDECODED_FOUND = 1
_NAMES_ALL = "beam-datasets verify --decode names all of the dataset"

HEAD = Command(
    "head",
    """\
Prints the first examples of a split or a slice, in dataset order: example 0 is ds[0].

If a value cannot be decoded, prints its feature, reason and record; the exit code is then 1, otherwise 0.""",
    (
        *DATASET,
        Option("--split", "SPLIT", "split or slice, such as 'train[90%:]+test'; default: the first split"),
        Option("--count", "N", "number of examples; default: 3", type=whole_number, default=3, alias="-n"),
        Flag(
            "--json",
            "print the examples as JSON; stored files and other bytes that are not UTF-8 are written "
            'as {"b64": "..."} (Base64), and values that do not decode as {"undecoded": "<problem>"}',
        ),
        Option("--images", "DIR", "write the images of the examples as files to this directory"),
    ),
    example="NAME --data_dir DIR",
)


def run_head(args: Sequence[str]) -> int:
    """Prints the first examples of a split or a slice, in dataset order."""
    parsed = HEAD.parse(args)
    if parsed.count < 0:
        raise UsageError(f"--count is {parsed.count}; expected how many examples, 0 or more")
    if parsed.json and parsed.images:
        raise UsageError("--json writes no images: leave out --images or --json")
    published = open_published(parsed.dataset, parsed.data_dir, parsed.storage_options)
    split = parsed.split or next(iter(published.info.splits), "train")
    if parsed.json:
        summary = head_json(published, split, parsed.count)
        say_values(json.dumps(summary, indent=1))
        return UNDECODED_FOUND if summary["undecoded"] else 0
    dataset = published.as_dataset(split=split, decoders=skip_decoding(published.info.features, UnknownFeature))
    features = dataset.features
    if parsed.images:
        if not skip_decoding(features, *_PICTURES):
            raise UsageError(f"{published.info.display_name} has no images for --images {parsed.images}")
        storage.make_dirs(parsed.images)
    say(f"{published.info.display_name}, {split}: {len(dataset):,} examples")
    records, undecoded = dataset.raw(), 0
    format_example = _example_formatter(dataset, line_width() - 2)
    for i in range(min(parsed.count, len(dataset))):
        lines, problem = format_example(i)
        undecoded += bool(problem)
        say(f"\nexample {i}")
        say_values("\n".join(f"  {line}" for line in lines))
        if parsed.images:
            for path in write_images(records[i], features, parsed.images, f"{_file_name(split)}-{i:05d}"):
                say(f"  -> {path}")
    if undecoded:
        shown_examples = min(parsed.count, len(dataset))
        say(f"\nvalues that do not decode: in {undecoded:,} of these {shown_examples:,} examples; {_NAMES_ALL}")
    return UNDECODED_FOUND if undecoded else 0


def _example_formatter(dataset: Dataset, width: int) -> Callable[[int], tuple[list[str], str]]:
    """Returns the function from an index to (lines of text of the example, problem of its undecoded values or '').

    Args:
        dataset: the dataset.
        width: the greatest number of columns of a line.
    """
    features, records = dataset.features, dataset.raw()
    lines_dataset = dataset.map(lambda example: list(feature_lines(example, features, width)))
    decode = tolerant_decoder(features)

    def lines(index: int) -> tuple[list[str], str]:
        """Returns (lines of text of an example, problem of its undecoded values, or "" if there are none)."""
        try:
            return lines_dataset[index], ""
        except UNDECODED as error:
            decoded_lines = list(feature_lines(decode(records[index]), features, width))
            return [*decoded_lines, f"({printable(str(error))})"], str(error)

    return lines


def head_json(published: ReadOnlyBuilder, split: str, count: int) -> dict[str, Any]:
    """Returns the JSON object of `head --json`: the first `count` examples of a split expression.

    Its names are `dataset`, `split`, `num_examples` (of the split), `examples`, and `undecoded`, the problems of values
    that do not decode. Images are decoded as a check; those without a problem are the stored bytes, {'b64': text}.
    """
    features = published.info.features
    dataset = published.as_dataset(split=split, decoders=skip_decoding(features, UnknownFeature))
    stored_features = published.as_dataset(
        split=split, decoders=skip_decoding(features, UnknownFeature, *_PICTURES)
    ).features
    decode, decode_stored = tolerant_decoder(dataset.features), tolerant_decoder(stored_features)
    records, checks = dataset.raw(), dataset.map(touch)
    examples, undecoded = [], []
    for i in range(min(count, len(dataset))):
        record = records[i]
        example = decode_stored(record)
        try:
            checks[i]
        except UNDECODED as error:
            example = _with_problems(example, decode(record))
            undecoded.append(str(error))
        examples.append(_as_json(example))
    return {
        "dataset": published.info.display_name,
        "split": split,
        "num_examples": len(dataset),
        "examples": examples,
        "undecoded": undecoded,
    }


def _with_problems(stored: Any, decoded: Any) -> Any:
    """Returns an example with an `Undecoded` in place of each value that does not decode.

    Args:
        stored: the example, with images as stored bytes.
        decoded: the example, with all values decoded.
    """
    if isinstance(decoded, Undecoded):
        return decoded
    if isinstance(decoded, dict) and isinstance(stored, dict):
        return {name: _with_problems(stored[name], value) for name, value in decoded.items()}
    return stored


def _as_json(value: Any) -> Any:
    r"""Converts a decoded value to types of JSON: other bytes than UTF-8 to base64, undecoded values to their problem.

    >>> _as_json({"a": np.arange(2), "b": b"\xff", "c": b"x"})
    {'a': [0, 1], 'b': {'b64': '/w=='}, 'c': 'x'}
    """
    if isinstance(value, dict):
        return {name: _as_json(inner) for name, inner in value.items()}
    if isinstance(value, Undecoded):
        return {"undecoded": value.problem}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        from beam_datasets.exporting.writing import numbers_json  # `head` without --json does not wait for it

        return numbers_json(np.asarray(value))
    if isinstance(value, RaggedArray):
        return _as_json(value.to_list())
    return list(map(_as_json, value)) if isinstance(value, (Sequence, np.ndarray)) else value


# -------------------------------------------------------------------------------------------------------------- files


def write_images(record: bytes, features: FeatureConnector, directory: str, name: str) -> list[str]:
    """Writes the images of an example into a directory and returns their paths.

    They are the files that the record has; images of floats, which it has as bits, are written as gray PNG.

    Args:
        record: the example's.
        features: features of the dataset.
        directory: directory of the written files.
        name: prefix of the files' names.
    """
    from beam_datasets.exporting.writing import ending_of

    paths = []
    stored = compile_decoder(features, decoders=skip_decoding(features, *_PICTURES))(record)
    for path, value, leaf in leaves_with_features(stored, features):
        if isinstance(leaf, _PICTURES):
            files = [value] if isinstance(value, bytes) else list(iter_files(value))
            numbers = [""] if isinstance(value, bytes) else [f"-{i:03d}" for i in range(len(files))]
            for number, data in zip(numbers, files):
                data = _image_to_file(data, leaf)
                target = storage.join(directory, f"{name}-{_file_name(path)}{number}.{ending_of(data)}")
                storage.write_bytes(target, data)
                paths.append(target)
    return paths


def _image_to_file(data: bytes, feature: FeatureConnector) -> bytes:
    """Returns the content of an image's file; for an image of float32, a PNG in which they can be seen."""
    if not isinstance(feature, Image) or feature.dtype != np.float32:
        return data
    file = io.BytesIO()
    try:
        pixels = feature.unpacker("")(data)
    except FeatureError:  # of a damaged file, which is written as it is
        return data
    to_image(pixels).save(file, "PNG")
    return file.getvalue()


def _file_name(text: str) -> str:
    """Returns a text as a file name, with the characters replaced that file names should not contain."""
    return "".join(character if character.isalnum() or character in "-_." else "." for character in text).strip(".")


# --------------------------------------------------------------------------------------------------------------- slices


BAR = 64  # characters
MAX_LINES = 40
_FILLED = "·░▒▓█"  # by the share of a character's examples that is selected: none, some, all

SLICES = Command(
    "slices",
    "Prints the files that a slice is read from, with the number of records and bytes of each, and draws the slice.",
    (
        *DATASET,
        Option("slice", "SLICE", "a slice, such as 'train[10%:20%]+test'"),
        Flag("--json", "print everything as JSON"),
    ),
    example="NAME 'train[:10%]' --data_dir DIR",
)


def run_slices(args: Sequence[str]) -> int:
    """Prints the files and ranges that a slice reads."""
    parsed = SLICES.parse(args)
    published = open_published(parsed.dataset, parsed.data_dir, parsed.storage_options)
    parts = [
        (instruction.splitname, instruction.start, instruction.stop)
        for instruction in AbstractSplit.from_spec(parsed.slice).to_absolute(published.info.splits)
    ]
    reads = [
        _describe_read(published, name, run)
        for name, start, stop in parts
        for run in published.info.splits[name].between(start, stop)
    ]
    say(
        _reads_to_json(published, parsed.slice, reads)
        if parsed.json
        else _format_reads(published, parsed.slice, parts, reads)
    )
    return 0


def _describe_read(published: ReadOnlyBuilder, split: str, run: FileInstruction) -> dict[str, Any]:
    """Returns a dict about a run of records: `split`, `start`, `stop`, `num_bytes`, and the `FileInstruction`.

    `start` and `stop` are byte offsets in the file, from the index or by reading the shard; `num_bytes` is the size of
    the records without their framing.
    """
    path = storage.join(published.dataset_dir, run.filename)
    if run.take == run.examples_in_shard:
        start, stop = 0, storage.size(path)
    else:
        index = read_index(path) if published.manifest is not None or not storage.is_remote(path) else None
        offsets = (index or Shard(path, run.examples_in_shard, indexed=False)).offsets
        start, stop = int(offsets[run.skip]), int(offsets[run.skip + run.take])
    num_bytes = stop - start - OVERHEAD * run.take
    return {"split": split, **asdict(run), "start": start, "stop": stop, "num_bytes": num_bytes}


def _reads_to_json(published: ReadOnlyBuilder, expression: str, reads: Sequence[dict[str, Any]]) -> str:
    """Returns the JSON text of `head --slice --json`: the slice and the files that it is read from.

    Args:
        published: the dataset.
        expression: the split expression.
        reads: the dicts of `_describe_read`.
    """
    summary = {
        "dataset": published.info.display_name,
        "directory": published.dataset_dir,
        "slice": expression,
        "num_examples": sum(read["take"] for read in reads),
        "num_bytes": sum(read["num_bytes"] for read in reads),
        "files": reads,
    }
    return json.dumps(summary, indent=1)


def _format_reads(
    published: ReadOnlyBuilder,
    expression: str,
    parts: Sequence[tuple[str, int, int]],
    reads: Sequence[dict[str, Any]],
) -> str:
    """Returns a table of the files that a slice is read from, with a bar of the selected range of each split.

    Args:
        published: the dataset.
        expression: the split expression.
        parts: (split, start, stop) of each selected range of examples.
        reads: the dicts of `_describe_read`.
    """
    splits = {name: published.info.splits[name] for name, _, _ in parts}
    files, shards = len({read["filename"] for read in reads}), sum(split.num_shards for split in splits.values())
    head = (
        f"{published.info.display_name}, {expression}: {sum(read['take'] for read in reads):,} examples, "
        f"{size_text(sum(read['num_bytes'] for read in reads))}, of {files:,} of {shards:,} shards"
    )
    pictures = []
    for name, split in splits.items():
        ranges = [(start, stop) for split_name, start, stop in parts if split_name == name]
        pictures.append(f"{name} {bar(0, split.num_examples, ranges, BAR)} {split.num_examples:,} examples")
    rows = [
        [
            read["filename"],
            f"{read['skip']}:{read['skip'] + read['take']}",
            read["take"],
            read["examples_in_shard"],
            size_text(read["num_bytes"]),
        ]
        for read in reads[:MAX_LINES]
    ]
    ellipsis = [f"... and {len(reads) - MAX_LINES:,} lines more; --json has all"] if len(reads) > MAX_LINES else []
    return "\n".join([head, *pictures, table(["shard", "records", "selected", "of", "bytes"], rows), *ellipsis])


def bar(start: int, stop: int, ranges: Sequence[tuple[int, int]], width: int) -> str:
    """Returns a bar of examples [start, stop) in which those in ranges are filled.

    >>> bar(0, 100, [(25, 75)], 8)
    '▕··████··▏'
    """
    if start == stop:
        return f"▕{_FILLED[0] * width}▏"
    edges = start + (stop - start) * np.arange(width + 1) / width
    starts, stops = np.array([(start, start), *sorted(ranges)]).T
    starts = np.maximum(starts, np.append(start, np.maximum.accumulate(stops)[:-1]))  # without what others have
    parts = np.minimum(stops[:, None], edges[1:]) - np.maximum(starts[:, None], edges[:-1])
    shares = np.maximum(parts, 0).sum(axis=0) / np.diff(edges)
    return f"▕{''.join(map(_character, shares.tolist()))}▏"


def _character(share: float) -> str:
    """Returns the character of a cell of a bar that is filled to a share in [0, 1].

    The empty character is returned only for 0 and the full one only for 1, up to 1e-9.
    """
    if share < 1e-9:
        return _FILLED[0]
    return _FILLED[-1] if share > 1 - 1e-9 else _FILLED[1 + min(int(share * 3), 2)]
