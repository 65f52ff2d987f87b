"""Images and sounds as records store them: their bytes, and whether they are whole, without decoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.sequence import Sequence, as_sequences, below, innermost
from beam_datasets.intake.errors import foreign_errors
from beam_datasets.intake.images import check_image
from beam_datasets.intake.sound_layout import layout_of

_EXAMINE: dict[str, Callable[[bytes], object]] = {"image": check_image, "audio": layout_of}


def problem_of(data: bytes, file_kind: str) -> str | None:
    """Returns what is wrong with the structure of a file; None if it is whole.

    Args:
        data: of the file.
        file_kind: 'image' or 'audio'.
    """
    try:
        with foreign_errors(file_kind):
            _EXAMINE[file_kind](data)
    except InputError as error:
        return str(error)
    return None


def file_check(feature: Any) -> Callable[[Any], Iterator[tuple[int, str]]] | None:
    """Returns the function that finds damaged images and sounds in records; None if the features have no files.

    It yields the number of the record in the list, and the path of the feature with what is wrong. It raises an
    ExampleError or a FeatureError if a record does not fit the features.
    """
    leaves = [
        (name, steps, kind)
        for name, steps, child in below(feature)
        if (kind := getattr(innermost(child), "file_kind", None)) in _EXAMINE
    ]
    tree = stored_tree(feature, {name for name, _, _ in leaves}) if leaves else None
    if tree is None:
        return None
    columns = ColumnarDecoder(tree).columns

    def check(records: Any) -> Iterator[tuple[int, str]]:
        column_tree = columns(records)
        for name, steps, kind in leaves:
            at: Any = column_tree
            for step in steps:
                at = at[step]
            for number, value in enumerate(at):
                for item, data in enumerate(files_in(value)):
                    problem = problem_of(data, kind)
                    if problem is not None:
                        yield number, f"{name}{'' if isinstance(value, bytes) else f'[{item}]'}: {problem}"

    return check


def files_in(value: Any) -> Iterator[bytes]:
    """Yields the files of a value that was not decoded, in order."""
    if isinstance(value, bytes):
        yield value
    elif value is not None:
        for item in value.flat_values if isinstance(value, RaggedArray) else value:
            yield from files_in(item)


def as_files(feature: Any) -> Any:
    """Returns the features with the stored bytes in place of images and of sound that is stored as a file."""
    if isinstance(feature, Sequence):
        return feature.with_feature(as_files(feature.feature))
    if isinstance(feature, FeaturesDict):
        return feature.with_features({key: as_files(child) for key, child in feature.items()})
    return feature.stored() if feature.file_kind else feature


def as_columns(feature: Any) -> Any:
    """Returns the features as columns have them: files as they are stored, datasets inside others as sequences."""
    return as_files(as_sequences(feature))


def stored_tree(feature: FeatureConnector, paths: set[str], path: str = "") -> FeatureConnector | None:
    """Returns the features to read, reduced to some leaves, with files as they are stored; None if there are none."""
    if isinstance(feature, FeaturesDict):
        children = {name: stored_tree(child, paths, join(path, name)) for name, child in feature.items()}
        kept = {name: child for name, child in children.items() if child is not None}
        return FeaturesDict(kept) if kept else None
    if isinstance(feature, Sequence):  # a Video and a Dataset too, which are stored as sequences are
        item = stored_tree(feature.feature, paths, path)
        return None if item is None else _sequence(item, feature.length)
    is_wanted = any(f"{each}/".startswith(f"{path}/") for each in paths)
    if not is_wanted or isinstance(feature, UnknownFeature):
        return None
    return feature.stored() if feature.file_kind else feature


def _sequence(item: FeatureConnector, length: int | None) -> FeatureConnector:
    """Returns a sequence of items: of dicts, however deep, a dict of sequences, which has the same lists."""
    if isinstance(item, FeaturesDict):
        return FeaturesDict({name: _sequence(child, length) for name, child in item.items()})
    return Sequence(item, length)
