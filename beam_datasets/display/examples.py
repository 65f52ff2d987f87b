"""Some examples of a dataset: as a data frame of pandas, and as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from beam_datasets.arguments import integer, shown
from beam_datasets.display.html import batch_table, examples_table, features_table, paragraph
from beam_datasets.errors import BeamDatasetsError
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
    first = list(itertools.islice(iter(ds), count))
    return Examples(first, getattr(ds, "features", None), _keys_of(ds))


class Examples:
    """Examples with their features, which are shown as a table.

    Attributes:
        examples: values as they are read; an exception stands for one that cannot be read.
        features: of the examples; None if they are not known.
        keys: names of the features in examples that are tuples; None if they are not known.
    """

    def __init__(self, examples: list[Any], features: Any, keys: Any = None) -> None:
        self.examples = examples
        self.features = features
        self.keys = keys

    def __repr__(self) -> str:
        return "\n".join(
            f"{number}: " + ", ".join(f"{name}={shown(value)}" for name, value in _columns(example))
            for number, example in enumerate(self.examples)
        )

    def _repr_html_(self) -> str:
        return examples_table(self.examples, self.features, self.keys)


_SHOWN = 5  # examples of a dataset


def dataset_html(ds: Any) -> str:
    """Returns a dataset as HTML: its first examples; of batches the arrays of the first one.

    Functions of `map()` and `filter()` are not called: what they do is unknown, and a notebook shows without being
    asked.
    """
    title = paragraph(repr(ds))
    if not ds._has_positions or any(map(_calls_function, ds._steps)):
        hint = paragraph("Functions are not called to show this. bd.show_examples(ds) shows examples.")
        return title + hint + (features_table(ds.features) if ds.features is not None else "")
    if ds._steps[0].kind == "batch":
        return title + "".join(map(batch_table, _first(ds, 1)))
    return title + examples_table(_first(ds, _SHOWN), ds.features, _keys_of(ds))


def _first(ds: Any, count: int) -> list[Any]:
    """Returns the first items, up to an error, which is the last one."""
    items: list[Any] = []
    try:
        with ds.take(count).iterate() as iterator:
            items.extend(iterator)
    except (BeamDatasetsError, ValueError) as error:
        items.append(error)
    return items


def _calls_function(step: Any) -> bool:
    """Returns whether a step, or one of the steps of each item of a batch, calls a function of the user's."""
    inner = [*getattr(step, "steps", ()), *itertools.chain.from_iterable(getattr(step, "rests", ()))]
    return step.kind == "map" or any(map(_calls_function, inner))


def _keys_of(ds: Any) -> Any:
    """Returns the names of the features that `as_supervised` yields; None for other datasets."""
    steps = getattr(ds, "_steps", ())
    return getattr(steps[0], "supervised_keys", None) if steps else None


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
