"""Images and sounds as stored files: reading their bytes, and checking them, most without decoding them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

from beam_datasets.errors import InputError, MissingDependencyError, shown_name
from beam_datasets.features.base import FeatureConnector
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.features_dict import FeaturesDict, join
from beam_datasets.features.ragged import RaggedArray
from beam_datasets.features.sequence import Sequence, replace_inner_datasets
from beam_datasets.features.trees import iter_nested_features, strip_sequences
from beam_datasets.intake.errors import foreign_errors
from beam_datasets.intake.images import check_image

log = logging.getLogger(__name__)


@functools.cache
def _warn_of_unchecked(problem: str) -> None:
    """Logs a warning that the frames of FLAC files are not checked; `problem` names the missing package."""
    log.warning("damaged frames within FLAC files are not found: %s", problem)


def find_damage(data: bytes, file_kind: str, *, decode_flac: bool = True) -> str | None:
    """Returns the problem of a damaged file, as a clause; None if the structure, and the samples of FLAC, are whole.

    Args:
        data: the content of the file.
        file_kind: 'image' or 'audio'.
        decode_flac: whether FLAC files are decoded, which takes 10 times as long as a check of their structure.
    """
    try:
        with foreign_errors(file_kind):
            if file_kind == "image":
                check_image(data)
            else:
                _check_sound(data, decode_flac=decode_flac)
    except InputError as error:
        return str(error)
    return None


def _check_sound(data: bytes, *, decode_flac: bool) -> None:
    """Checks the structure of a sound file; decodes FLAC, whose frames can only be found and checked by decoding.

    Only the structure is checked if soundfile is not installed; then a warning says so, once in a process.

    Args:
        data: the content of the file.
        decode_flac: see `find_damage`.
    """
    from beam_datasets.intake.sound import read_sound  # only datasets with sounds wait for the import
    from beam_datasets.intake.sound_layout import layout_of

    if layout_of(data).kind == "FLAC" and decode_flac:
        try:
            read_sound(data)
        except MissingDependencyError as error:
            _warn_of_unchecked(str(error))


def damage_finder(
    feature: FeatureConnector, *, decode_flac: bool = True
) -> Callable[[Any], Iterator[tuple[int, str]]] | None:
    """Returns the function that finds damaged images and sounds in records; None if the features have no files.

    The function takes a list of records. For each damaged file, it yields the index of the record in the list, and a
    text of the form '<name of the feature>: <problem>'.

    Args:
        feature: the features of the records.
        decode_flac: see `find_damage`.

    Raises:
        ExampleError: the returned function raises it if a record is not a serialized tf.train.Example.
        FeatureError: the returned function raises it if a record does not fit the features.
    """
    leaves = [
        (name, steps, kind)
        for name, steps, child in iter_nested_features(feature)
        if (kind := getattr(strip_sequences(child), "file_kind", None)) in ("image", "audio")
    ]
    tree = select_stored(feature, {name for name, _, _ in leaves}) if leaves else None
    if tree is None:
        return None
    columns = ColumnarDecoder(tree).columns

    def check(records: Any) -> Iterator[tuple[int, str]]:
        """Yields (index of the record, '<name>: <problem>') of each damaged file."""
        column_tree = columns(records)
        for name, steps, kind in leaves:
            column: Any = column_tree
            for step in steps:
                column = column[step]
            for number, value in enumerate(column):
                for item, data in enumerate(iter_files(value)):
                    problem = find_damage(data, kind, decode_flac=decode_flac)
                    if problem is not None:
                        yield number, f"{shown_name(name)}{'' if isinstance(value, bytes) else f'[{item}]'}: {problem}"

    return check


def iter_files(value: Any) -> Iterator[bytes]:
    """Yields the bytes of each file in a value of an image or audio feature that was not decoded, in order.

    >>> list(iter_files([b"a", None, [b"b"]]))
    [b'a', b'b']
    """
    if isinstance(value, bytes):
        yield value
    elif value is not None:
        for item in value.flat_values if isinstance(value, RaggedArray) else value:
            yield from iter_files(item)


def replace_files_by_bytes(feature: FeatureConnector) -> FeatureConnector:
    """Returns the features with connectors of bytes in place of images, and of sound that is stored as files."""
    if isinstance(feature, Sequence):
        return feature.with_feature(replace_files_by_bytes(feature.feature))
    if isinstance(feature, FeaturesDict):
        return feature.with_features({key: replace_files_by_bytes(child) for key, child in feature.items()})
    return feature.stored() if feature.file_kind else feature


def to_column_features(feature: FeatureConnector) -> FeatureConnector:
    """Returns the features for reading columns: the bytes of files, and inner datasets as sequences."""
    return replace_files_by_bytes(replace_inner_datasets(feature))


def select_stored(feature: FeatureConnector, paths: set[str], path: str = "") -> FeatureConnector | None:
    """Returns the features reduced to some paths, in which images and sounds are the bytes of their files.

    Other features are unchanged; a Sequence of a dict becomes a dict of sequences. None if no feature is left.

    Args:
        feature: a tree of features.
        paths: names, with slashes, of the features to keep.
        path: the name of the tree, with slashes; '' for the top.
    """
    if isinstance(feature, FeaturesDict):
        children = {name: select_stored(child, paths, join(path, name)) for name, child in feature.items()}
        selected = {name: child for name, child in children.items() if child is not None}
        return FeaturesDict(selected) if selected else None
    if isinstance(feature, Sequence):  # a Video and a Dataset too, which are stored as sequences are
        item = select_stored(feature.feature, paths, path)
        return None if item is None else _push_sequence_inward(item, feature.length)
    is_wanted = any(f"{each}/".startswith(f"{path}/") for each in paths)
    if not is_wanted or isinstance(feature, UnknownFeature):
        return None
    return feature.stored() if feature.file_kind else feature


def _push_sequence_inward(item: FeatureConnector, length: int | None) -> FeatureConnector:
    """Returns the connector of a sequence; if its items are dicts, the dict of sequences that has the same lists.

    Args:
        item: the feature of the items.
        length: the number of items; None for any.
    """
    if isinstance(item, FeaturesDict):
        return FeaturesDict({name: _push_sequence_inward(child, length) for name, child in item.items()})
    return Sequence(item, length)
