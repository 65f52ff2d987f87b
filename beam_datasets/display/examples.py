"""Some examples of a dataset: as a data frame of pandas, and as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from beam_datasets.arguments import integer, shown
from beam_datasets.extras import framework


def as_dataframe(ds: Iterable[Any], ds_info: Any = None) -> Any:
    """Returns all examples as a `pandas.DataFrame`, with a column for each feature, as TensorFlow Datasets does.

    Features of dicts have columns such as `box/x`. Values are those of the examples, so that text is bytes and an image
    is an array. All of them are in memory: give a part, such as `ds.take(100)`.

    Args:
        ds: a Dataset, a Stream, or another iterable of examples.
        ds_info: not needed; TensorFlow Datasets asks for it.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    pandas = framework("pandas", needed_by="as_dataframe()", name="pandas", extra="files")
    return pandas.DataFrame([dict(_columns(example)) for example in ds])


def show_examples(ds: Iterable[Any], ds_info: Any = None, *, rows: int = 10) -> Examples:
    """Returns the first examples, which a notebook or an interactive session shows as a table.

    Args:
        ds: a Dataset, a Stream, or another iterable of examples.
        ds_info: not needed; TensorFlow Datasets asks for it.
        rows: number of examples, at least 1.
    """
    count = integer("rows", rows, at_least=1)
    return Examples(list(itertools.islice(iter(ds), count)), getattr(ds, "features", None))


class Examples:
    """Examples with their features, which are shown as a table."""

    def __init__(self, examples: list[Any], features: Any) -> None:
        self.examples = examples
        self.features = features

    def __repr__(self) -> str:
        return "\n".join(
            f"{number}: " + ", ".join(f"{name}={shown(value)}" for name, value in _columns(example))
            for number, example in enumerate(self.examples)
        )


def _columns(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values below nested dicts and tuples, with their paths."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _columns(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from _columns(inner, f"{path}/{number}" if path else str(number))
    else:
        yield path or "value", value
