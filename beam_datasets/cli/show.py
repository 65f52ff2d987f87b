"""`beam-datasets show`: the first examples of a split, as a reader gets them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.cli.options import Parser, with_underscores
from beam_datasets.reading.opening import open_published

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH = 100


def run(args: Sequence[str]) -> int:
    """Prints the first examples of a split."""
    parser = Parser("beam-datasets show", description="The first examples of a split.", allow_abbrev=False)
    parser.add_argument("dataset", metavar="NAME_OR_DIR", help="name[/config][:version], or the directory of a version")
    parser.add_argument("--data_dir", help="where datasets stand; default $BEAM_DATASETS_DATA_DIR or ~/beam_datasets")
    parser.add_argument("--split", default=None, help="such as 'train[:10%%]+test'; default: the first one")
    parser.add_argument("--count", type=int, default=3, metavar="N", help="how many examples")
    known = parser.parse_args(with_underscores(args))
    published = open_published(known.dataset, known.data_dir)
    split = known.split or next(iter(published.info.splits))
    examples = published.as_dataset(split=split)
    print(f"{published.info.full_name}, {split}: {len(examples):,} examples")
    for i, example in enumerate(islice(examples, known.count)):
        print(f"\nexample {i}")
        for line in lines(example):
            print(f"  {line}")
    return 0


def lines(value: Any, name: str = "") -> Iterator[str]:
    """Yields a value a line, nested ones under names with `/`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lines(inner, f"{name}/{key}" if name else str(key))
    else:
        yield f"{name}: {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return _cut(repr(value)[1:], len(value), "bytes")
    if isinstance(value, np.ndarray) and value.size > 16:
        return f"{value.dtype} array of shape {value.shape}"
    text = " ".join(str(value.tolist() if isinstance(value, np.ndarray) else value).split())
    return _cut(text, len(text), "characters")


def _cut(text: str, length: int, unit: str) -> str:
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} ... ({length:,} {unit})"
