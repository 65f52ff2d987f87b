"""`beam-datasets head`: the first examples of a split or a slice, readable in a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.cli.examples import feature_lines, leaves_with_features, line_width
from beam_datasets.cli.options import DATA_DIR_HELP, Parser, UsageError, add_store_options, with_underscores
from beam_datasets.cli.terminal import say
from beam_datasets.cli.thumbnails import terminal_shows_colours, thumbnail, to_image
from beam_datasets.features import FeaturesDict, Image, RaggedArray, Sequence, Video, compile_decoder
from beam_datasets.features.decode import SkipDecoding
from beam_datasets.features.unknown import UnknownFeature
from beam_datasets.formats.endings import ending_of
from beam_datasets.reading.opening import open_published

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from collections.abc import Sequence as Items

    from beam_datasets.features import FeatureConnector

THUMBNAIL_COLUMNS = 48
_PICTURES = (Image, Video)


def run(args: Items[str]) -> int:
    """Prints the first examples of a split or a slice, in dataset order."""
    known = _parser().parse_args(with_underscores(args))
    if known.count < 0:
        raise UsageError(f"--count is {known.count}; needed: how many examples, 0 or more")
    published = open_published(known.dataset, known.data_dir, known.storage_options)
    split = known.split or next(iter(published.info.splits))
    dataset = published.as_dataset(split=split, decoders=_skipping(published.info.features, UnknownFeature))
    features = dataset.features
    if known.images:
        if not _skipping(features, *_PICTURES):
            raise UsageError(f"{published.info.display_name} has no images that --images {known.images} could take")
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


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "beam-datasets head",
        description="The first examples of a split or a slice, in dataset order: example 0 is ds[0].",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("dataset", metavar="NAME_OR_DIR", help="name[/config][:version], or the directory of a version")
    add("--data_dir", help=DATA_DIR_HELP)
    add_store_options(parser)
    add("--split", default=None, help="such as 'train[90%%:]+test'; default: the first one")
    add("--count", type=int, default=3, metavar="N", help="how many examples; default 3")
    add("--images", metavar="DIR", help="write their images as files into a directory")
    add(
        "--thumbnails",
        action="store_true",
        default=None,
        help="show their images in the terminal, in 24-bit colours; default: if it is one",
    )
    add("--no_thumbnails", action="store_false", dest="thumbnails", help="show no images")
    return parser


def _lines(example: Any, features: FeatureConnector, pictures: bool) -> Iterator[str]:
    leaves = leaves_with_features(example, features)
    images = {path: value for path, value, leaf in leaves if isinstance(leaf, _PICTURES)}
    for path, line in feature_lines(example, features, line_width() - 2):
        yield line
        if pictures and isinstance(images.get(path), np.ndarray) and images[path].ndim in (3, 4):
            yield from thumbnail(images[path], min(THUMBNAIL_COLUMNS, line_width() - 4))


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
    stored = compile_decoder(features, decoders=_skipping(features, *_PICTURES))(record)
    for path, value, leaf in leaves_with_features(stored, features):
        if isinstance(leaf, _PICTURES):
            files = [value] if isinstance(value, bytes) else list(_files_in(value))
            numbers = [""] if isinstance(value, bytes) else [f"-{i:03d}" for i in range(len(files))]
            for number, data in zip(numbers, files):
                data = _visible(data, leaf)
                target = storage.join(directory, f"{name}-{_file_name(path)}{number}.{ending_of(data)}")
                storage.write_bytes(target, data)
                written.append(target)
    return written


def _skipping(feature: FeatureConnector, *kinds: type[FeatureConnector]) -> Any:
    """Returns the decoders that leave features of some classes as they are stored; None where there are none."""
    if isinstance(feature, kinds):
        return SkipDecoding()
    if isinstance(feature, Sequence):
        return _skipping(feature.feature, *kinds)
    if isinstance(feature, FeaturesDict):
        found = {name: _skipping(child, *kinds) for name, child in feature.items()}
        return {name: decoder for name, decoder in found.items() if decoder} or None
    return None


def _files_in(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif value is not None:
        for item in value.flat_values if isinstance(value, RaggedArray) else value:
            yield from _files_in(item)


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
