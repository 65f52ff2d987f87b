"""Mergeable summaries of features; the result does not depend on how examples are grouped."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.features.base import dtype_of
from beam_datasets.features.dtypes import STRING
from beam_datasets.statistics.codes import codes_of, hashes_of, mixed, occurrences, widened
from beam_datasets.statistics.leaves import IMAGE, LABEL, NUMBER, TEXT, Column, Leaf
from beam_datasets.statistics.spread import Spread
from beam_datasets.statistics.values import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN_BYTES = 80
"""Number of bytes of a text that are shown. One more is kept, so that longer texts are recognized."""


@dataclass
class Summary:
    """Summary of a feature.

    Attributes:
        counts: 'examples', 'missing' (examples without it), 'values', and by kind 'zeros', 'nan', 'inf', '-inf',
            'empty', 'unreadable' (images without a header that Pillow can read).
        spreads: by name: 'values' of numbers, 'bytes' of texts and files, 'items' of sequences, 'height', 'width',
            'channels' of images.
        labels: count of each class; None for other features.
        values: the distinct values; None for labels.
    """

    counts: Counter[str] = field(default_factory=Counter)
    spreads: dict[str, Spread] = field(default_factory=dict)
    labels: Counter[int] | None = None
    values: Values | None = None

    def merge(self, other: Summary) -> None:
        """Merges `other`, of other examples, into this in place."""
        self.counts.update(other.counts)
        for name, spread in other.spreads.items():
            self.spreads[name].merge(spread)
        if self.labels is not None and other.labels is not None:
            self.labels.update(other.labels)
        if self.values is not None and other.values is not None:
            self.values.merge(other.values)


def empty(leaf: Leaf) -> Summary:
    """Returns the summary of no examples."""
    spreads = {"items": Spread("i")} if leaf.sequences or None in (_shape(leaf) or ()) else {}
    if leaf.kind == LABEL:
        return Summary(Counter(), spreads, labels=Counter())
    if leaf.kind == NUMBER:
        kind = widened(np.zeros(0, dtype_of(leaf.feature))).dtype.kind
        counts = dict.fromkeys(("zeros", "nan", "inf", "-inf") if kind == "f" else ("zeros",), 0)
        return Summary(Counter(counts), {"values": Spread(kind), **spreads}, values=Values.empty(np.uint64))
    counts = dict.fromkeys(("empty", "unreadable") if leaf.kind == IMAGE else ("empty",), 0)
    sizes = ("bytes", "height", "width", "channels") if leaf.kind == IMAGE else ("bytes",)
    return Summary(Counter(counts), spreads | {name: Spread("i") for name in sizes}, values=Values.empty(STRING))


def _shape(leaf: Leaf) -> Any:
    return getattr(leaf.feature, "shape", ()) if leaf.kind == NUMBER else ()


def add(summary: Summary, leaf: Leaf, column: Column, records: NDArray[np.int64]) -> None:
    """Adds a block of records.

    Args:
        summary: of the leaf, changed in place.
        leaf: the feature.
        column: its values.
        records: the index in the slice of each record.
    """
    summary.counts.update(examples=len(records), missing=len(records) - len(column.present), values=len(column.values))
    if "items" in summary.spreads and column.lengths is not None:
        summary.spreads["items"].add(column.lengths)
    if not len(column.values):
        return
    if leaf.kind == LABEL:
        found, counts = np.unique(column.values, return_counts=True)
        summary.labels.update(dict(zip(found.tolist(), counts.tolist())))  # type: ignore[union-attr]
        return
    where = occurrences(records[column.present], column.counts)
    if leaf.kind == NUMBER:
        _add_numbers(summary, widened(column.values), where)
    else:
        _add_bytes(summary, column.values, where, leaf.kind)


def _add_numbers(summary: Summary, values: NDArray[Any], where: NDArray[np.uint64]) -> None:
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        if not finite.all():
            summary.counts.update(
                {
                    "nan": int(np.isnan(values).sum()),
                    "inf": int((values == np.inf).sum()),
                    "-inf": int((values == -np.inf).sum()),
                }
            )
            values, where = values[finite], where[finite]
    summary.counts["zeros"] += len(values) - int(np.count_nonzero(values))
    codes = codes_of(values)
    unique, counts = np.unique(codes, return_counts=True)
    summary.spreads["values"].add(values, (unique, counts))
    kept: Any = summary.values
    kept.add(mixed(unique), counts, unique)
    kept.sample(where, lambda some: (mixed(codes[some]), codes[some]))


def _add_bytes(summary: Summary, values: list[bytes], where: NDArray[np.uint64], kind: str) -> None:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    summary.spreads["bytes"].add(lengths)
    summary.counts["empty"] += len(values) - int(np.count_nonzero(lengths))
    counter = Counter(values)
    unique, counts = list(counter), np.fromiter(counter.values(), np.int64, len(counter))
    kept: Any = summary.values
    kept.add(hashes_of(unique), counts, _shown(unique, kind))

    def pick(some: NDArray[np.intp]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        picked = [values[i] for i in some.tolist()]
        return hashes_of(picked), _shown(picked, kind)

    kept.sample(where, pick)
    if kind == IMAGE:
        _add_sizes(summary, values)


def _add_sizes(summary: Summary, files: list[bytes]) -> None:
    sizes = [size for size in map(image_size, files) if size is not None]
    summary.counts["unreadable"] += len(files) - len(sizes)
    for name, numbers in zip(("height", "width", "channels"), zip(*sizes)):
        summary.spreads[name].add(np.array(numbers, np.int64))


def image_size(data: bytes) -> tuple[int, int, int] | None:
    """Returns height, width and channels from the header of an image; None if Pillow cannot read it or is missing."""
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            # a palette holds colours
            return image.height, image.width, 3 if image.mode == "P" else len(image.getbands())
    except Exception:  # each plugin of Pillow raises its own errors for damaged headers, and some sizes are refused
        return None


def _shown(values: list[bytes], kind: str) -> NDArray[Any]:
    """Returns what to show of texts; nothing for files, which are only counted."""
    shown = np.empty(len(values), STRING)
    shown[:] = [value[: SHOWN_BYTES + 1] for value in values] if kind == TEXT else [b""] * len(values)
    return shown
