"""How the command prints splits, features and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beam_datasets.model.split_info import SplitInfo


def size_text(num_bytes: int) -> str:
    """Returns a size for people.

    >>> size_text(999), size_text(1536), size_text(5 << 30)
    ('999 B', '1.5 KiB', '5.0 GiB')
    """
    if num_bytes < 1024:
        return f"{num_bytes} B"
    size, unit = float(num_bytes), 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {' KMGT'[unit]}iB"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Returns columns of text, the first aligned left, the others right.

    >>> print(table(["split", "examples"], [["train", 1000]]))
    split  examples
    train     1,000
    """
    cells = [list(header), *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))] for row in cells
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def splits_table(splits: Mapping[str, SplitInfo]) -> str:
    """Returns the splits with their examples, shards and bytes."""
    rows = [[name, s.num_examples, s.num_shards, size_text(s.num_bytes)] for name, s in splits.items()]
    if len(rows) > 1:
        totals = [
            sum(values) for values in zip(*((s.num_examples, s.num_shards, s.num_bytes) for s in splits.values()))
        ]
        rows.append(["all", totals[0], totals[1], size_text(totals[2])])
    return table(["split", "examples", "shards", "size"], rows)
