"""Units of a split's source, which are read in parallel: files, ranges of a file, days."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_datasets.errors import BeamDatasetsError, InvalidKeyError
from beam_datasets.shuffle.rejected import Rejected

MAX_NAME = 200  # characters of a unit's name


@dataclass(frozen=True, eq=False)
class SourceUnits:
    """A split's source that consists of independent units, such as files, which are read in parallel.

    A failed run that is started again with `--resume` reads the units that were not finished. A unit is identified by
    its `repr`, so give paths, numbers, or tuples and dataclasses of them, and let a unit's `repr` differ if its content
    does (add the size of a file, or its version).

    Attributes:
        units: arguments of `read`, which is called with each of them on a worker.
        read: unit -> iterable of (key, example), or of (key, example, split) if it chooses the split of each example.
            Splits with the same two objects as `units` and `read` are read once.
        keep: key -> whether the example belongs to the split; None for all.
    """

    units: Sequence[Any]
    read: Callable[[Any], Iterable[tuple[Any, ...]]]
    keep: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.units, (str, bytes)) or not isinstance(self.units, Sequence):
            raise TypeError(f"units: expected a sequence such as a list of paths, got {self.units!r:.200}.")
        if not callable(self.read):
            raise TypeError(f"read: expected a function from a unit to (key, example) pairs, got {self.read!r:.200}.")


def unpack_with_splits(
    item: Any, keeps: Mapping[str, Callable[[Any], bool] | None]
) -> tuple[tuple[Any, Any], Collection[str]]:
    """Returns ((key, example), names of the splits that the example belongs to) of an element that `read` yields.

    Args:
        item: (key, example), or (key, example, split).
        keeps: split -> its `keep`, of the splits that are read together.

    Raises:
        BeamDatasetsError: the item has another form, or its split is not one of `keeps`.

    >>> unpack_with_splits(("k1", {"x": 1}), {"train": None, "test": lambda key: key == "k2"})
    (('k1', {'x': 1}), ['train'])
    """
    if type(item) is tuple and len(item) == 3:
        key, example, split = item
        if split not in keeps:
            names = ", ".join(map(repr, keeps))
            raise BeamDatasetsError(
                f"key {key!r:.60}: expected one of the splits {names}, got {split!r:.60}", key=key, got=f"{split!r:.60}"
            )
        return (key, example), (split,)
    pair = unpack_example(item, ", ".join(keeps))
    return pair, [split for split, keep in keeps.items() if keep is None or keep(pair[0])]


def unpack_example(element: Any, split: str) -> tuple[Any, Any]:
    """Returns (key, example) of an element of a split's source.

    Raises:
        BeamDatasetsError: the element is not a pair. A dict or text of two items is not one: it is probably an example
            without its key.
    """
    try:
        if not isinstance(element, (dict, str, bytes)):
            key, example = element
            return key, example
    except (TypeError, ValueError):
        pass
    raise BeamDatasetsError(
        f"split {split!r}: expected a pair (key, example), got {element!r:.200}", split=split, got=f"{element!r:.200}"
    )


def check_iterable(split: str, source: Any, builder: Any) -> None:
    """Checks that a builder's source is an iterable.

    Raises:
        BeamDatasetsError: the source is not an iterable.
    """
    try:
        iter(source)
    except TypeError:
        raise BeamDatasetsError(
            f"{type(builder).__name__}, split {split!r}: expected an iterable of (key, example), got {source!r:.100}",
            split=split,
            got=f"{source!r:.100}",
            advice="Check that each function yields or returns them.",
        ) from None


def iterate_examples(split: str, builder: Any, source: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the (key, example) pairs of a builder's source.

    With `disable_shuffling`, a key that is not an integer is replaced by the position of the example, from 0. Rejected
    examples have a position, too, and keep their keys, which are only shown.

    Args:
        split: name of the split, for errors.
        builder: the builder.
        source: an iterable of (key, example), or a function without arguments that returns one.

    Raises:
        BeamDatasetsError: the source is not an iterable or, with `disable_shuffling`, an element is not a pair.
        InvalidKeyError: a key is not an integer, and the examples will be appended to a published version, which has
            examples with these positions.
    """
    examples: Any = source() if callable(source) else source
    check_iterable(split, examples, builder)
    if not builder.info.disable_shuffling:
        yield from examples
        return
    for position, element in enumerate(examples):
        key, example = unpack_example(element, split)
        if isinstance(example, Rejected):  # its key is only shown
            yield key, example
            continue
        is_integer = isinstance(key, (int, np.integer))
        if builder.is_appended and not is_integer:
            raise InvalidKeyError(
                f"split {split!r}: expected integer keys of what is appended with disable_shuffling, got {key!r:.60}. "
                "Its position would be the key, which published examples have",
                split=split,
                expected="an integer",
                got=f"{key!r:.60}",
                advice=(
                    "Give integer keys. If no published example has these positions, as of a new split: build the "
                    "dataset, and append its directory."
                ),
            )
        yield (key if is_integer else position), example


def describe_source_error(error: BaseException, key: Any, count: int, split: str, unit: str = "") -> tuple[str, str]:
    """Returns two texts about an error of the code that yields examples: the error, and the last example before it.

    Args:
        error: the raised error.
        key: key of the last example before the error.
        count: number of examples that the unit, or the split without `unit`, yielded before the error.
        split: the split's name.
        unit: name of the unit that was read; '' if the split has only one unit.

    >>> describe_source_error(ValueError("bad"), "k3", 4, "train")
    ('ValueError: bad', "after key 'k3' (example 4 of 'train')")
    """
    location = f"unit {unit} of {split!r}" if unit else repr(split)
    message = error.args[0] if isinstance(error, KeyError) and error.args else error  # it shows the repr of its text
    return f"{type(error).__name__}: {message}", f"after key {key!r:.200} (example {count:,} of {location})"


def named_units(splits: Sequence[str], units: Sequence[Any]) -> list[tuple[str, Any]]:
    """Returns (name, unit) of all units that some splits are read from; the name has the splits and the unit's repr.

    Raises:
        BeamDatasetsError: two units have the same name.

    >>> named_units(["train", "test"], ["a.csv"])
    [("train, test: 'a.csv'", 'a.csv')]
    """
    label = ", ".join(splits)
    units_by_name = [(f"{label}: {_shorten_name(repr(unit))}", unit) for unit in units]
    name, count = Counter(name for name, _ in units_by_name).most_common(1)[0] if units_by_name else ("", 0)
    if count > 1:
        raise BeamDatasetsError(f"{name}: expected units that differ in their repr, got {count} such. Give each once.")
    return units_by_name


def _shorten_name(text: str) -> str:
    """Returns a text of at most `MAX_NAME` characters; a longer one ends with "... " and its MD5 digest."""
    if len(text) <= MAX_NAME:
        return text
    return f"{text[: MAX_NAME - 36]}... {hashlib.md5(text.encode('utf-8', 'replace')).hexdigest()}"


def read_together(sources: Mapping[str, SourceUnits]) -> list[list[str]]:
    """Returns lists of splits with the same units and function to read them, so that each list is read once."""
    together: dict[tuple[int, int], list[str]] = {}
    for split, source in sources.items():
        together.setdefault((id(source.units), id(source.read)), []).append(split)
    return list(together.values())
