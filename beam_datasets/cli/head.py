"""`beam-datasets head`: the first examples of a split or a slice, readable in a terminal."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.examples import feature_lines, leaves_with_features, line_width
from beam_datasets.cli.images import files_in, pillow, to_image
from beam_datasets.cli.options import DATASET, Command, UsageError
from beam_datasets.cli.printing import say
from beam_datasets.exporting.jsonl import numbers_json
from beam_datasets.features import Image, RaggedArray, Video, compile_decoder
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.formats.endings import ending_of
from beam_datasets.reading.opening import open_published

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from beam_datasets.features import FeatureConnector
    from beam_datasets.reading.opening import ReadOnlyBuilder

THUMBNAIL_COLUMNS = 48
_MIN_COLUMNS = 16  # images with fewer pixels are enlarged
_UPPER, _RESET = "▀", "\x1b[0m"
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
--thumbnails  show their images in the terminal, in 24-bit colours; default: if it is one
--no_thumbnails  show no images
""",
    settings={
        "--count": {"default": 3},
        "--thumbnails": {"default": None},
        "--no_thumbnails": {"action": "store_false", "dest": "thumbnails"},
    },
)


def run(args: Sequence[str]) -> int:
    """Prints the first examples of a split or a slice, in dataset order."""
    known = COMMAND.parse(args)
    if known.count < 0:
        raise UsageError(f"--count is {known.count}; expected how many examples, 0 or more")
    if known.json and (known.images or known.thumbnails):
        raise UsageError("--json shows no images: leave out --images and --thumbnails, or --json")
    published = open_published(known.dataset, known.data_dir, known.storage_options)
    split = known.split or next(iter(published.info.splits))
    if known.json:
        say(json.dumps(head_json(published, split, known.count), indent=1))
        return 0
    dataset = published.as_dataset(split=split, decoders=skip_decoding(published.info.features, UnknownFeature))
    features = dataset.features
    if known.images:
        if not skip_decoding(features, *_PICTURES):
            raise UsageError(f"{published.info.display_name} has no images for --images {known.images}")
        storage.make_dirs(known.images)
    pictures = terminal_shows_colours() if known.thumbnails is None else known.thumbnails
    say(f"{published.info.display_name}, {split}: {len(dataset):,} examples")
    records, shown = dataset.raw(), dataset.map(lambda example: list(_lines(example, features, pictures)))
    for i in range(min(known.count, len(dataset))):
        say(f"\nexample {i}")
        for line in shown[i]:
            print(f"  {line}")
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


def _lines(example: Any, features: FeatureConnector, pictures: bool) -> Iterator[str]:
    leaves = leaves_with_features(example, features)
    images = {path: value for path, value, leaf in leaves if isinstance(leaf, _PICTURES)}
    for path, line in feature_lines(example, features, line_width() - 2):
        yield line
        if pictures and isinstance(images.get(path), np.ndarray) and images[path].ndim in (3, 4):
            yield from thumbnail(images[path], min(THUMBNAIL_COLUMNS, line_width() - 4))


# --------------------------------------------------------------------------------------------------------- thumbnails

# A character is two pixels, the foreground above the background. Escape sequences: ISO 8613-6
# (`ESC [ 38 ; 2 ; r ; g ; b m`); U+2580 is the upper half block.


def terminal_shows_colours() -> bool:
    """Returns whether thumbnails can be shown: on a terminal, unless NO_COLOR is set (no-color.org), with Pillow."""
    shown = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return shown and importlib.util.find_spec("PIL") is not None


def thumbnail(array: NDArray[Any], columns: int) -> list[str]:
    """Returns the lines that show an image.

    Args:
        array: see `to_image`; of several frames the first is shown.
        columns: maximum number of characters of a line.
    """
    if not array.size:
        return []
    image = to_image(array[0] if array.ndim == 4 else array)
    times = max(1, min(-(-_MIN_COLUMNS // image.width), columns // image.width))
    width = min(image.width, columns)
    height = max(1, round(image.height * width / image.width))
    pixels = np.asarray(image.resize((width, height), pillow().Resampling.BOX))  # means
    pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    return [_line(above, below) for above, below in zip(pixels[::2].tolist(), pixels[1::2].tolist())]


def _line(above: list[list[int]], below: list[list[int]]) -> str:
    colours = [";".join(map(str, [38, 2, *upper, 48, 2, *lower])) for upper, lower in zip(above, below)]
    changes = [f"\x1b[{now}m" if now != before else "" for before, now in zip(["", *colours], colours)]
    return "".join(change + _UPPER for change in changes) + _RESET


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
