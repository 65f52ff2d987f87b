"""The content of the pages of `beam-datasets explore` and `site`, as plain values without HTTP or HTML."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from beam_datasets import catalog
from beam_datasets.cli.explorer.searching import opened, search
from beam_datasets.cli.info import lineage_facts, list_dataset, listed, totals
from beam_datasets.display.media import thumbnail, wav
from beam_datasets.display.text import printable, size_text
from beam_datasets.display.values import value_text
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, FeatureValueError
from beam_datasets.exporting.writing import ending_of
from beam_datasets.features import Audio, FeatureConnector, Image, NestedDataset, RaggedArray, Video
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.stored_files import iter_files
from beam_datasets.features.trees import (
    display_names,
    iter_nested_features,
    join_steps,
    leaves_with_features,
    strip_sequences,
)
from beam_datasets.intake.sound import read_sound
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.split_expressions import AbsoluteInstruction, AbstractSplit
from beam_datasets.reading.dataset import Dataset
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.statistics.summary import image_size

PAGE_ROWS = 20
SAMPLE = 12  # examples whose images are among the statistics
CELL = 120  # characters of a value among the rows
MAX_TEXT = 20_000  # characters on the page of an example
MAX_SECONDS = 1.0  # of a request with a condition
_MAX_BARS = 400  # of shards
_MAX_ITEMS = 100  # of a sequence on the page of an example


def escaped(value: Any) -> Any:
    """Returns a text that is shown with escapes for control characters, and any other value as it is."""
    return printable(value) if type(value) is str else value


@dataclass(frozen=True)
class Catalogue:
    """The datasets that are shown.

    Attributes:
        root: their `data_dir`.
        only: the name of the only dataset, or with `directory` of the only version; '' for all below the root.
        directory: directory of the only version.
    """

    root: str
    only: str = ""
    directory: str = ""

    def open(self, name: str) -> ReadOnlyBuilder:
        """Opens the version of a name, not of a path.

        Raises:
            DatasetNotFoundError, ValueError: no published version has this name, or it is not a name.
        """
        if self.only and self.only not in (name, re.split("[/:]", name)[0]):
            raise DatasetNotFoundError(f"only {self.only} is shown here, got {name!r}")
        return opened(self.directory or catalog.find_dataset_dir(name, self.root))

    def index(self) -> dict[str, Any]:
        """Returns {'root': data_dir, 'datasets': a dict of facts, or of its error, for each version}."""
        names = [self.only] if self.only else catalog.list_datasets(self.root)
        versions = [one for name in names if not self.directory for one in list_dataset(name, self.root)]
        versions += [listed(self.only, self.directory)] if self.directory else []
        return {"root": self.root, "datasets": [one | totals(one) for one in versions]}

    def load_code(
        self, published: ReadOnlyBuilder, expression: str, where: str = "", rows: range | None = None, number: int = 1
    ) -> dict[str, str]:
        """Returns code for the examples of a page: {'slice': title, 'python': code, 'command': shell command}.

        The command materializes the examples as a dataset.

        Args:
            published: the version that is shown.
            expression: the slice.
            where: a condition on its examples; '' for none.
            rows: positions of the slice that are shown; None for all.
            number: number of the slice on its page, from 1; commands with different numbers make different datasets.
        """
        source = published.dataset_dir if self.directory else published.info.display_name
        parts = AbstractSplit.from_spec(expression).to_absolute(published.info.splits)
        if rows is not None and (visible_parts := _slice_parts(parts, rows)):
            parts, expression = (
                visible_parts,
                "+".join(
                    f"{instruction.splitname}[{instruction.start}:{instruction.stop}]" for instruction in visible_parts
                ),
            )
        split = next((instruction.splitname for instruction in parts), "selection")
        target = f"{published.name}_part{number if number > 1 else ''}"
        command = ["beam-datasets", "materialize", source, "--data_dir", self.root, "--split", f"{split}={expression}"]
        command += [*(["--where", where] if where else []), "--to", target]
        at = f"{source!r}, data_dir={self.root!r}"
        opening = f"bd.builder_from_directory({source!r})" if self.directory else f"bd.builder({at})"
        python = f"ds = {opening}.as_dataset(split={expression!r})" + ("" if rows is None else "\nexamples = ds[:]")
        if where:
            python = f"bd.materialize({at}, split={{{split!r}: {expression!r}}}, where={where!r}, to={target!r})"
        python, name = f"import beam_datasets as bd\n\n{python}", f"{published.info.display_name}, {expression}"
        return {"slice": name, "python": python, "command": shlex.join(command)}


def _slice_parts(parts: Iterable[AbsoluteInstruction], rows: range) -> list[AbsoluteInstruction]:
    """Returns the parts of a slice, cut to the examples at positions `rows` of it.

    For the parts [0, 10) and [20, 30) of a split and the positions [5, 12), they are [5, 10) and [20, 22).

    Args:
        parts: all parts of the slice, in order.
        rows: positions in the slice, from 0.
    """
    selected, first = [], 0
    for instruction in parts:
        start, stop = (
            min(max(instruction.start + position - first, instruction.start), instruction.stop)
            for position in (rows.start, rows.stop)
        )
        selected += [replace(instruction, start=start, stop=stop)] if start < stop else []
        first += instruction.stop - instruction.start
    return selected


def default_slice(published: ReadOnlyBuilder) -> str:
    """Returns the name of the first split; 'train' for a dataset without splits."""
    return next(iter(published.info.splits), "train")


# ----------------------------------------------------------------------------------------------------------- a dataset


def dataset_page(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Returns the facts of a version: description, features, splits, shards and lineage."""
    published = catalogue.open(name)
    info = published.info
    return {
        "info": info,
        "directory": published.dataset_dir,
        "digest": published.digest,
        "features": [
            (join_steps(steps), re.sub("{.*}", "{...}", " ".join(repr(feature).split())), feature.doc.desc or "")
            for _, steps, feature in iter_nested_features(
                info.features
            )  # the features in a dict have rows of their own
        ],
        "shards": {split: _shard_bars(published, split) for split in info.splits},
        "size_text": size_text,
        "lineage": None
        if published.lineage is None
        else _describe_lineage(published.lineage, catalogue, display_names(published.info.features)),
        **_siblings(info, None if catalogue.directory else catalogue.root),
        "code": catalogue.load_code(published, default_slice(published)) if info.splits else None,
    }


def _siblings(info: DatasetInfo, root: str | None) -> dict[str, list[str]]:
    """Returns {'versions': [...], 'configs': [...]}: the versions of this config, and the newest of each other config.

    The lists are empty without a root.
    """
    by_config: dict[str, list[str]] = {}
    for name in [] if root is None else catalog.list_published(info.name, root):
        by_config.setdefault(name.rpartition(":")[0], []).append(name)
    versions = by_config.pop(info.display_name.rpartition(":")[0], [])
    return {"versions": versions, "configs": [names[-1] for names in by_config.values()]}


def _shard_bars(published: ReadOnlyBuilder, split: str) -> dict[str, Any]:
    """Returns {'lengths': ascending, 'bars': ..., 'largest': size as text} of the shards of a split.

    `lengths` and `bars` are numbers of examples; of many shards, each bar is the largest of several.
    """
    lengths = list(map(int, published.info.splits[split].shard_lengths))
    each = -(-len(lengths) // _MAX_BARS) or 1
    sizes = published.manifest.splits[split].num_bytes if published.manifest else ()
    return {
        "lengths": sorted(lengths) or [0],
        "bars": [max(lengths[start : start + each]) for start in range(0, len(lengths), each)],
        "largest": size_text(max(sizes)) if sizes else "",
    }


def _describe_lineage(lineage: Lineage, catalogue: Catalogue, names: Mapping[str, str]) -> dict[str, Any]:
    """Returns {'facts': texts, 'sources': [dict of each source]} of a lineage.

    A source has 'name', 'digest', 'known' (whether the explorer can open it) and 'lineage', which is None or such a
    dict.

    Args:
        lineage: the lineage.
        catalogue: the datasets that the explorer can open.
        names: see `lineage_facts`.
    """
    sources = []
    for source in lineage.datasets:
        inner = source.source and Lineage.from_json(source.source, path=f"the lineage of {source.full_name}")
        is_known = False
        with contextlib.suppress(BeamDatasetsError, ValueError):
            is_known = bool(source.version and catalogue.open(source.full_name))
        node = {"name": source.full_name, "digest": source.digest, "known": is_known}
        sources.append(node | {"lineage": inner and _describe_lineage(inner, catalogue, names)})
    return {"facts": list(lineage_facts(lineage, names)), "sources": sources}


# ---------------------------------------------------------------------------------------------------------------- rows


@lru_cache(64)
def read_slice(published: ReadOnlyBuilder, expression: str) -> Dataset:
    """Returns the dataset of a slice, in whose examples images and sounds are the stored files, as bytes."""
    dataset: Dataset = published.as_dataset(expression, decoders=stored_features(published.info.features))
    return dataset


def rows_page(
    catalogue: Catalogue, name: str, expression: str = "", start: int = 0, where: str = "", key: str = ""
) -> dict[str, Any]:
    """Returns rows of a slice from an index on: all, or those for which a condition holds.

    A condition is evaluated for about `MAX_SECONDS`; `next` is where it goes on.

    Args:
        catalogue: the datasets that are shown.
        name: name of the dataset, with its version.
        expression: expression of the slice; '' for the default one.
        start: index in the slice of the first row; numbers outside the slice are replaced by the nearest index.
        where: the condition; '' for all rows.
        key: key of the example at which the page begins; '' to begin at `start`. A decimal integer is an integer key.

    Returns:
        Values for the template of the page: `rows` has at most `PAGE_ROWS` rows; see `_example_row`. `start` and `stop`
        are the indices [start, stop) that were looked at. `previous` and `next` are the `start` of other pages, or
        None.

    Raises:
        BeamDatasetsError: the dataset, the slice, the condition or the key is unusable.
    """
    published = catalogue.open(name)
    expression = expression or default_slice(published)
    dataset = read_slice(published, expression)
    total, key_index = len(dataset), None
    if key:
        key_index = dataset.find(int(key) if re.fullmatch("0|-?[1-9][0-9]{0,38}", key) else key)
        start = start if key_index is None else key_index
    start = min(max(start, 0), max(total - 1, 0))
    stop = min(start + PAGE_ROWS, total)
    indices = list(range(start, stop))
    if where and total:
        indices, stop = search(published.dataset_dir, expression, where, start, PAGE_ROWS, MAX_SECONDS)
    rows = [_example_row(dataset, index, published.info.features, CELL) for index in indices]
    return {
        "name": published.info.display_name,
        "slice": expression,
        "splits": list(published.info.splits),
        "where": where,
        "key": key,
        "found": key_index,
        "total": total,
        "start": start,
        "stop": stop,
        "previous": None if where or not start else max(start - PAGE_ROWS, 0),
        "next": stop if stop < total else None,
        "last": None if where or not total else (total - 1) // PAGE_ROWS * PAGE_ROWS,
        "columns": next(([cell["name"] for cell in row["cells"]] for row in rows if row["cells"]), []),
        "rows": rows,
        "code": catalogue.load_code(published, expression, where, range(start, stop)),
    }


def _example_row(
    dataset: Any, index: int, features: FeatureConnector, width: int, *, is_complete: bool = False
) -> dict[str, Any]:
    """Returns the values of an example, or the error of one that cannot be read.

    A value is a text, `is_complete` or cut, or the images or sounds that it is.

    Args:
        dataset: the slice.
        index: index of the example in the slice.
        features: features of the dataset.
        width: approximate maximum number of characters of a value.
        is_complete: whether to add the value's whole text; see `_value_to_text`.

    Returns:
        {'index': index, 'cells': a dict for each value, 'error': text}; the error is '' if there is none.
    """
    cells: list[dict[str, Any]] = []
    names = display_names(features)
    try:
        for path, value, leaf in leaves_with_features(dataset[index], features):
            media = media_of(value, leaf)
            text = value_text(value, leaf, width) if media is None else f"{len(media):,}" if len(media) > 4 else ""
            cells.append(
                {
                    "path": path,
                    "name": names.get(path, path),
                    "text": text,
                    "media": media,
                    "sound": isinstance(leaf, SOUNDS),
                }
            )
            cells[-1] |= _value_to_text(value, leaf) if is_complete and media is None else {}
        return {"index": index, "cells": cells, "error": ""}
    except BeamDatasetsError as error:
        return {"index": index, "cells": [], "error": str(error)}


def example_page(catalogue: Catalogue, name: str, expression: str, index: int) -> dict[str, Any]:
    """Returns one example whole: texts up to `MAX_TEXT` characters, sequences up to 100 items.

    Args:
        catalogue: the datasets that are shown.
        name: name of the dataset, with its version.
        expression: expression of the slice.
        index: index of the example in the slice.
    """
    published = catalogue.open(name)
    dataset = read_slice(published, expression)
    return {
        "name": published.info.display_name,
        "slice": expression,
        "total": len(dataset),
        **_example_row(dataset, index, published.info.features, 1000, is_complete=True),
        "code": catalogue.load_code(published, expression, rows=range(index, index + 1)),
    }


def _value_to_text(value: Any, leaf: FeatureConnector) -> dict[str, Any]:
    """Returns {'whole': text, 'more': number of characters that are left out} of a decoded value.

    The text has at most `MAX_TEXT` characters of a text, or a limited number of items of an array or list. Returns {}
    for a scalar.

    Args:
        value: the decoded value.
        leaf: its feature.
    """
    if isinstance(value, (bytes, str)):
        text = decoded(value)
        return {"whole": text[:MAX_TEXT], "more": max(len(text) - MAX_TEXT, 0)}
    if isinstance(value, np.ndarray) and value.ndim and not value.dtype.hasobject:
        return {"whole": np.array2string(value, threshold=2 * _MAX_ITEMS), "more": 0}
    if isinstance(value, (list, NestedDataset, RaggedArray)) or (isinstance(value, np.ndarray) and value.ndim):
        items = [value_text(item, leaf, 1000) for item in islice(value, _MAX_ITEMS)]
        items += [f"... ({len(value):,} items)"] * (len(value) > _MAX_ITEMS)
        return {"whole": "\n".join(items), "more": 0}
    return {}


def decoded(value: bytes | str) -> str:
    r"""Returns a text; bytes are decoded as UTF-8, with escapes such as "\xff" for those that are not."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def sample_images(
    published: ReadOnlyBuilder, expression: str, url: Callable[[int, str, int], str]
) -> dict[str, list[tuple[str, str]]]:
    """Returns images of the first examples, which are a sample if the order is random.

    Args:
        published: the dataset.
        expression: expression of the slice.
        url: returns the URL of an image, by the index of its example, its path, and its number there; '' for none.

    Returns:
        name of a feature -> the URL and the description of each; '' and the error of an example that cannot be read.
    """
    features = published.info.features
    paths = [
        path for path, _, feature in iter_nested_features(features) if isinstance(strip_sequences(feature), PICTURES)
    ]
    names = display_names(features)
    images_by_name: dict[str, list[tuple[str, str]]] = {names[path]: [] for path in paths}
    dataset = read_slice(published, expression) if paths else ()
    for row in (_example_row(dataset, index, features, CELL) for index in range(min(len(dataset), SAMPLE))):
        for path in paths if row["error"] else ():
            images_by_name[names[path]].append(("", row["error"]))
        for cell in row["cells"]:
            items = [one["item"] for one in cell["media"] or () if not one["note"]]
            if cell["path"] in paths and items and (address := url(row["index"], cell["path"], items[0])):
                name = names[cell["path"]]
                images_by_name[name].append((address, f"{name} of example {row['index']} of {expression}"))
    return images_by_name


# ---------------------------------------------------------------------------------------------------- images and sounds

# Stored files are not sent as they are, except sounds in a known format, because a browser could run what they contain.

PICTURES, SOUNDS = (Image, Video), (Audio,)
MAX_PIXELS = 30_000_000  # that are decoded for a small image
MAX_SHOWN, SMALL = 4, 96  # images of a value; pixels of the longer side of a small one
_DEFAULT_RATE = 16_000
_TYPES = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "ogg": "audio/ogg"}


def stored_features(features: FeatureConnector) -> Any:
    """Returns the decoders that leave images, sound files and unknown features in their stored form."""
    return skip_decoding(features, UnknownFeature, *PICTURES, *SOUNDS)


def media_of(value: Any, leaf: FeatureConnector) -> list[dict[str, Any]] | None:
    """Returns a dict for each image or sound of a value: its number `item`, and `note`, why it is not shown or ''.

    Returns None if the feature is neither an image nor a sound.
    """
    if isinstance(leaf, SOUNDS):
        return [{"item": 0, "note": ""}] if isinstance(value, (bytes, np.ndarray)) else None
    if not isinstance(leaf, PICTURES):
        return None
    return [{"item": number, "note": _image_problem(data)} for number, data in enumerate(iter_files(value))]


def _image_problem(data: bytes) -> str:
    """Returns the reason why an image is not shown, such as its size; '' if it is shown."""
    if (size := image_size(data)) is None:  # Pillow refuses the largest ones, too
        return "damaged, or too large to be shown"
    height, width, _ = size
    return f"{width:,} x {height:,}, too large to be shown" if height * width > MAX_PIXELS else ""


def media(
    published: ReadOnlyBuilder, expression: str, index: int, path: str, item: int, pixels: int
) -> tuple[bytes, str]:
    """Returns an image, a sound or a text of an example, and its media type.

    Args:
        published: the dataset.
        expression: expression of the slice.
        index: index of the example in the slice.
        path: path of the feature.
        item: index of the image in the feature.
        pixels: the longer side of the image that is returned, at most.

    Raises:
        DatasetNotFoundError: the example has none there.
        FeatureValueError: the image is damaged, or too large.
    """
    features = published.info.features
    sounds = [
        inner
        for _, _, feature in iter_nested_features(features)
        if isinstance(inner := strip_sequences(feature), Audio)
    ]
    as_files = any(sound.lazy_decode for sound in sounds)  # these need not be decoded, nor what reads them installed
    decoders = stored_features(features) if as_files else skip_decoding(features, UnknownFeature, *PICTURES)
    leaves = leaves_with_features(published.as_dataset(expression, decoders=decoders)[index], features)
    value, leaf = next(((value, leaf) for leaf_path, value, leaf in leaves if leaf_path == path), (None, None))
    if isinstance(leaf, PICTURES) and item < len(files := list(iter_files(value))):
        return _picture(files[item], leaf.frame if isinstance(leaf, Video) else leaf, path, pixels), "image/png"
    if isinstance(leaf, SOUNDS) and value is not None:
        return _sound(value, leaf)
    if isinstance(value, (bytes, str)) and not isinstance(leaf, PICTURES):
        return printable(decoded(value)).encode(), "text/plain"  # browsers take long to lay out control characters
    raise DatasetNotFoundError(f"{published.info.display_name}: example {index} has no media or text {path!r} {item}")


def _picture(data: bytes, leaf: Image, path: str, pixels: int) -> bytes:
    """Returns an image file, scaled down to a thumbnail.

    Args:
        data: the content of the image file.
        leaf: its feature.
        path: path of the feature, for errors.
        pixels: greatest width and height of the thumbnail.

    Raises:
        FeatureValueError: the image is damaged or too large.
    """
    if note := _image_problem(data):
        raise FeatureValueError(f"{path}: cannot show the image: {note}")
    return thumbnail(leaf.unpacker(path)(data), pixels)


def _sound(value: Any, leaf: Audio) -> tuple[bytes, str]:
    """Returns (file, media type) of a sound for browsers: the stored file, or WAV for samples, AIFF and W64."""
    rate = leaf.sample_rate or _DEFAULT_RATE
    if isinstance(value, bytes):
        ending = ending_of(value)
        if ending not in ("aiff", "w64"):  # browsers do not play these
            return value, _TYPES.get(ending, "application/octet-stream")
        sound = read_sound(value)
        value, rate = sound.samples, sound.info.sample_rate
    return wav(np.asarray(value), rate), "audio/wav"
