"""The first examples of a dataset as a pandas data frame or as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from beam_datasets.advice import names_foreign_arguments
from beam_datasets.arguments import integer, shown
from beam_datasets.display.html import MAX_FEATURES, batch_table, examples_table, features_table, paragraph
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.extras import framework
from beam_datasets.features.trees import display_names

if TYPE_CHECKING:
    import pandas


@names_foreign_arguments("as_dataframe")
def as_dataframe(ds: Iterable[Any], ds_info: Any = None) -> pandas.DataFrame:
    """Returns all examples as a `pandas.DataFrame`, with a column for each feature, as TensorFlow Datasets does.

    Nested features have columns such as `box/x`, with the slashes of TensorFlow Datasets. Values are those of the
    examples, so text is bytes and an image is an array. All examples are in memory: pass a part of a large dataset,
    such as `ds.take(100)`.

    Args:
        ds: a Dataset, a Stream, or another iterable of examples.
        ds_info: the DatasetInfo, whose `supervised_keys` name the columns of tuples; None for those of the dataset.

    Raises:
        TypeError: it is the name of a dataset, or the dict of all splits.
        MissingDependencyError: pandas is not installed.
    """
    pandas = framework("pandas", needed_by="as_dataframe()", name="pandas", extra="files")
    keys = _keys_of(ds) or getattr(ds_info, "supervised_keys", None)
    return pandas.DataFrame([dict(_flatten_example(_to_dict(example, keys))) for example in _check_dataset(ds)])


@names_foreign_arguments("show_examples")
def show_examples(ds: Iterable[Any], ds_info: Any = None, *, rows: int = 10) -> Examples:
    """Returns the first examples, which a notebook or an interactive session shows as a table.

    Args:
        ds: a Dataset, a Stream, or another iterable of examples.
        ds_info: the DatasetInfo, whose `supervised_keys` name the items of tuples; None for those of the dataset. It
            may also be the first argument.
        rows: number of examples, at least 1.

    Raises:
        TypeError: it is the name of a dataset, or the dict of all splits.
    """
    count = integer("rows", rows, at_least=1)
    if ds_info is not None and not hasattr(ds, "__iter__"):  # TensorFlow Datasets had ds_info first
        ds, ds_info = ds_info, ds
    first = list(itertools.islice(iter(_check_dataset(ds)), count))
    return Examples(first, getattr(ds, "features", None), _keys_of(ds) or getattr(ds_info, "supervised_keys", None))


def _check_dataset(ds: Iterable[Any]) -> Iterable[Any]:
    """Returns the argument, an iterable of examples.

    Raises:
        TypeError: it is text, a dict, also of splits, or a builder.
    """
    if isinstance(ds, Mapping):
        is_of_splits = bool(ds) and all(hasattr(value, "features") for value in ds.values())
        advice = "Give the dataset of one split." if is_of_splits else "Give a dataset, or a list of examples."
        raise TypeError(f"expected a dataset, got a dict with {', '.join(map(repr, ds)) or 'nothing'}. {advice}")
    if hasattr(ds, "as_dataset"):
        raise TypeError(f"expected a dataset, got {shown(ds)}. Use `builder.as_dataset('train')`.")
    if isinstance(ds, (str, bytes)):
        raise TypeError(f"expected a dataset, got {shown(ds)}. Use `bd.load({shown(ds)}, split='train')`.")
    return ds


class Examples:
    """Examples that a notebook or an interactive session shows as a table.

    Attributes:
        examples: values as they are read; an exception stands for one that cannot be read.
        features: features of the examples; None if they are unknown.
        keys: names of the items of examples that are tuples; None if they are unknown.
    """

    def __init__(self, examples: list[Any], features: Any, keys: Any = None) -> None:
        self.examples = examples
        self.features = features
        self.keys = keys

    def __repr__(self) -> str:
        """Returns the first examples as lines of text, one per example."""
        lines = []
        for number, example in enumerate(self.examples):
            names = {} if self.features is None else display_names(self.features)
            named_example = _to_dict(example, self.keys)
            leaves = [f"{names.get(name, name)}={shown(value)}" for name, value in _flatten_example(named_example)]
            hidden = len(leaves) - MAX_FEATURES
            ellipsis = [f"... ({hidden:,} more)"] if hidden > 0 else []
            lines.append(f"{number}: " + ", ".join(leaves[:MAX_FEATURES] + ellipsis))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns the examples as an HTML table, which notebooks show."""
        return examples_table(self.examples, self.features, self.keys)


_SHOWN = 5  # examples shown of a dataset


def dataset_html(ds: Any) -> str:
    """Returns a dataset as HTML: its first examples, or the arrays of its first batch.

    Functions of `map()` and `filter()` are not called, as they may be slow or have side effects, and a notebook calls
    this without a request of the user. For such a dataset only the features are shown.
    """
    title = paragraph(repr(ds))
    if not ds._has_positions or any(map(_calls_function, ds._steps)):
        hint = paragraph("Functions are not called to show this. bd.show_examples(ds) shows examples.")
        return title + hint + (features_table(ds.features) if ds.features is not None else "")
    if ds._steps[0].kind == "batch":
        return title + "".join(map(batch_table, _first_items(ds, 1)))
    return title + examples_table(_first_items(ds, _SHOWN), ds.features, _keys_of(ds))


def _first_items(ds: Any, count: int) -> list[Any]:
    """Returns the first `count` items; if reading fails, those before it, followed by the error."""
    items: list[Any] = []
    try:
        with ds.take(count).iterate() as iterator:
            items.extend(iterator)
    except (BeamDatasetsError, ValueError) as error:
        items.append(error)
    return items


def _calls_function(step: Any) -> bool:
    """Returns whether a step, or one of the steps of each item of a batch, calls a function of the user."""
    inner = [*getattr(step, "steps", ()), *itertools.chain.from_iterable(getattr(step, "later_steps", ()))]
    return step.kind == "map" or any(map(_calls_function, inner))


def _keys_of(ds: Any) -> tuple[Any, ...] | None:
    """Returns the names of the features in the tuples of `as_supervised=True`; None for other datasets."""
    steps = getattr(ds, "_steps", ())
    return getattr(steps[0], "supervised_keys", None) if steps else None


def _to_dict(example: Any, keys: Any) -> Any:
    """Returns the dict of an example that is a tuple of named features; any other example unchanged.

    Args:
        example: the example.
        keys: names of the items, if it is a tuple; a nest of names, or None, leaves it unchanged.
    """
    if not isinstance(example, tuple) or not isinstance(keys, tuple) or len(example) != len(keys):
        return example
    return dict(zip(keys, example)) if all(isinstance(key, str) for key in keys) else example


def _flatten_example(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (path, value) for the leaves of nested dicts and tuples, such as ('a/b', 1), ('c/0', 2).

    The path of a value that is a leaf itself is 'value'.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten_example(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from _flatten_example(inner, f"{path}/{number}" if path else str(number))
    else:
        yield path or "value", value
