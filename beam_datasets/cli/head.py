"""`beam-datasets head`: the first examples of a split or a slice, readable in a terminal."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.examples import feature_lines, files_in, leaves_with_features, to_image
from beam_datasets.cli.options import DATASET, Command, UsageError
from beam_datasets.cli.printing import line_width, say
from beam_datasets.exporting.writing import ending_of, numbers_json
from beam_datasets.features import FeatureConnector, Image, RaggedArray, Video, compile_decoder
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published

_PICTURES = (Image, Video)

COMMAND = Command(
    "head",
    "The first examples of a split or a slice, in dataset order: example 0 is ds[0].",
    f"""
{DATASET}
--split SPLIT  such as 'train[90%:]+test'; default: the first one
--count N  how many examples; default 3
--json  print them as JSON; stored files and other bytes that are not UTF-8 are {{"b64": "..."}}
--images DIR  write their images as files into a directory
""",
    settings={"--count": {"default": 3}},
)


def run(args: Sequence[str]) -> int:
    """Prints the first examples of a split or a slice, in dataset order."""
    known = COMMAND.parse(args)
    if known.count < 0:
        raise UsageError(f"--count is {known.count}; expected how many examples, 0 or more")
    if known.json and known.images:
        raise UsageError("--json writes no images: leave out --images or --json")
    published = open_published(known.dataset, known.data_dir, known.storage_options)
    split = known.split or next(iter(published.info.splits), "train")
    if known.json:
        say(json.dumps(head_json(published, split, known.count), indent=1))
        return 0
    dataset = published.as_dataset(split=split, decoders=skip_decoding(published.info.features, UnknownFeature))
    features = dataset.features
    if known.images:
        if not skip_decoding(features, *_PICTURES):
            raise UsageError(f"{published.info.display_name} has no images for --images {known.images}")
        storage.make_dirs(known.images)
    say(f"{published.info.display_name}, {split}: {len(dataset):,} examples")
    records, width = dataset.raw(), line_width() - 2
    shown = dataset.map(lambda example: list(feature_lines(example, features, width)))
    for i in range(min(known.count, len(dataset))):
        say(f"\nexample {i}")
        say("\n".join(f"  {line}" for line in shown[i]))
        if known.images:
            for path in write_images(records[i], features, known.images, f"{_file_name(split)}-{i:05d}"):
                say(f"  -> {path}")
    return 0


def head_json(published: ReadOnlyBuilder, split: str, count: int) -> dict[str, Any]:
    """Returns the first examples, as `ds[i]` has them, as values that JSON expresses; images as they are stored."""
    decoders = skip_decoding(published.info.features, UnknownFeature, *_PICTURES)
    dataset = published.as_dataset(split=split, decoders=decoders)
    return {
        "dataset": published.info.display_name,
        "split": split,
        "num_examples": len(dataset),
        "examples": [_as_json(dataset[i]) for i in range(min(count, len(dataset)))],
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(inner) for name, inner in value.items()}
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
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
        features: of the dataset.
        directory: where to write.
        name: what the files' names begin with.
    """
    written = []
    stored = compile_decoder(features, decoders=skip_decoding(features, *_PICTURES))(record)
    for path, value, leaf in leaves_with_features(stored, features):
        if isinstance(leaf, _PICTURES):
            files = [value] if isinstance(value, bytes) else list(files_in(value))
            numbers = [""] if isinstance(value, bytes) else [f"-{i:03d}" for i in range(len(files))]
            for number, data in zip(numbers, files):
                data = _visible(data, leaf)
                target = storage.join(directory, f"{name}-{_file_name(path)}{number}.{ending_of(data)}")
                storage.write_bytes(target, data)
                written.append(target)
    return written


def _visible(data: bytes, feature: FeatureConnector) -> bytes:
    """Returns the file of an image, or for one of floats a picture of them."""
    if not isinstance(feature, Image) or feature.dtype != np.float32:
        return data
    file = io.BytesIO()
    to_image(feature.unpacker("")(data)).save(file, "PNG")
    return file.getvalue()


def _file_name(text: str) -> str:
    """Returns a text with what a file name should not have replaced."""
    return "".join(character if character.isalnum() or character in "-_." else "." for character in text).strip(".")
