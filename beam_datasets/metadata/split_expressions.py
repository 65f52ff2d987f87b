"""The language of expressions that select examples of splits, such as `train[:10%]+test`.

    expression := term ('+' term)*           blanks are allowed around '+'
    term       := NAME | NAME[item:item] | NAME[<n>shard] | 'all'
    item       := nothing | an integer | a number with '%' | an integer with 'shard'

Negative items count from the end. It is the language of TensorFlow Datasets, with three differences: two units in one
slice are an error, and so is a slice that ends before it begins; and `[:0shard]` selects nothing.
"""

from __future__ import annotations

import numbers
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from beam_datasets.advice import advised_getattr, names_foreign_arguments
from beam_datasets.arguments import boolean, integer, shown
from beam_datasets.errors import MissingDependencyError, SplitError, did_you_mean

if TYPE_CHECKING:
    from beam_datasets.metadata.splits import SplitInfo

Unit: TypeAlias = Literal["abs", "%", "shard"]
Rounding: TypeAlias = Literal["closest", "pct1_dropremainder"]
Spec: TypeAlias = "str | AbstractSplit"

_TERM = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<selector>[^\[\]]*)\])?\Z")
_ITEM = re.compile(r"(?P<number>-?[0-9_.]+)(?P<unit>%|shard)?\Z")
_MAX_INDEX = 1 << 62  # of an example or a shard; a split has at most 2**60 examples
_SUFFIX = {"abs": "", "%": "%", "shard": "shard"}
_MEANING = {"abs": "an example index", "%": "a percentage", "shard": "a shard"}
_FORM = "NAME, NAME[from:to] or NAME[<n>shard], such as 'train', 'train[10:20]', 'train[:10%]', 'train[-1shard:]'"


@dataclass(frozen=True, slots=True)
class AbsoluteInstruction:
    """Examples [start, stop) of a split that has `num_examples` examples."""

    splitname: str
    start: int
    stop: int
    num_examples: int

    @property
    def from_(self) -> int | None:
        """`start`; None if it is 0."""
        return self.start or None

    @property
    def to(self) -> int | None:
        """`stop`; None if it is the end of the split."""
        return None if self.stop == self.num_examples else self.stop


class _SplitNames(type):
    """Metaclass of `Split`: a missing name of another library is an error with its replacement."""

    if not TYPE_CHECKING:
        __getattr__ = advised_getattr("split_names")


class Split(str, metaclass=_SplitNames):
    """The name of a split; the class has the names that most datasets use, such as `Split.TRAIN`."""

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("split_names")

    TRAIN: Split
    VALIDATION: Split
    TEST: Split
    ALL: Split


Split.TRAIN, Split.VALIDATION, Split.TEST, Split.ALL = map(Split, ("train", "validation", "test", "all"))


class AbstractSplit(ABC):
    """An expression that selects examples; `+` appends another expression."""

    @staticmethod
    def from_spec(spec: Spec) -> AbstractSplit:
        """Parses the text of an expression; returns an expression unchanged.

        Examples:
            >>> ReadInstruction.from_spec("train[:10%]+test")
            ReadInstruction('train[:10%]', rounding='closest')+ReadInstruction('test')

        Raises:
            SplitError: the text is not an expression.
            TypeError: the argument is neither a text nor an expression.
        """
        if isinstance(spec, AbstractSplit):
            return spec
        if not isinstance(spec, str):
            raise _not_a_split(spec)
        terms = spec.split("+")
        if len(terms) == 1:
            return _parse_term(spec, spec)
        terms[1:] = [term.lstrip() for term in terms[1:]]  # blanks are allowed around '+' only
        terms[:-1] = [term.rstrip() for term in terms[:-1]]
        return SplitAdd(tuple(_parse_term(term, spec) for term in terms))

    @abstractmethod
    def to_absolute(self, splits: Mapping[str, Any]) -> list[AbsoluteInstruction]:
        """Returns the ranges of examples that the expression selects, in its order.

        Args:
            splits: name of a split -> its `SplitInfo`.

        Raises:
            SplitError: a split does not exist, or a slice is out of its range.
        """

    def __add__(self, other: Spec) -> AbstractSplit:
        """Returns the expression of this split's examples followed by the examples of `other`, a `SplitAdd`.

        >>> ReadInstruction("train") + "test[:10]"
        ReadInstruction('train')+ReadInstruction('test[:10]')

        Raises:
            TypeError: `other` is neither a str nor an `AbstractSplit`.
            SplitError: the str `other` cannot be parsed.
        """
        if not isinstance(other, (str, AbstractSplit)):
            raise TypeError(
                f"a split and {other!r} of type {type(other).__name__} cannot be added; "
                "give a str or a ReadInstruction."
            )
        return SplitAdd((*_terms(self), *_terms(self.from_spec(other))))


def _not_a_split(value: Any) -> TypeError:
    """Returns the error for a split of another type; for a share such as 0.8 it has advice."""
    hint = f" A share is 'train[:{value:.0%}]'." if isinstance(value, float) and 0 < value < 1 else ""
    return TypeError(f"a split is a str or a ReadInstruction, not {value!r} of type {type(value).__name__}.{hint}")


def _terms(split: AbstractSplit) -> tuple[AbstractSplit, ...]:
    """Returns the terms of a sum of splits; (split,) for any other split."""
    return split.terms if isinstance(split, SplitAdd) else (split,)


@dataclass(frozen=True, repr=False)
class ReadInstruction(AbstractSplit):
    """A slice of a split.

    Attributes:
        split_name: name of the split.
        from_: start of the slice; None for the split's start. Negative counts from the end.
        to: end of the slice, exclusive; None for the split's end. Negative counts from the end.
        unit: unit of both: 'abs' examples, '%' percent, 'shard' shards.
        rounding: rounding of percentages. 'closest' to the nearest example, halves to the even one;
            'pct1_dropremainder' makes all percents equally large and leaves out the remaining examples.

    Raises:
        SplitError: an argument is out of range.
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: Unit = "abs"
    rounding: Rounding = "closest"

    def __post_init__(self) -> None:
        """Checks the limits and their unit.

        Raises:
            SplitError: a limit is not a number of this unit, or out of range.
        """
        if self.unit not in _SUFFIX:
            raise SplitError(expected="unit 'abs', '%' or 'shard'", got=repr(self.unit), split=self.split_name)
        if self.rounding not in ("closest", "pct1_dropremainder"):
            raise SplitError(
                expected="rounding 'closest' or 'pct1_dropremainder'", got=repr(self.rounding), split=self.split_name
            )
        for name in ("from_", "to"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, self._check_limit(value))

    def _check_limit(self, value: Any) -> float:
        """Checks and returns a limit of the slice, `from_` or `to`.

        Raises:
            SplitError: the limit is not a number of the unit, or out of range.
        """
        expected, got = _MEANING[self.unit], shown(value)
        is_number = isinstance(value, numbers.Real)
        if is_number and abs(value) > _MAX_INDEX:
            raise SplitError(expected=expected, got="a number beyond 2**62", split=self.split_name)
        if self.unit == "%":
            if not is_number:
                raise SplitError(expected=f"{expected}, which is a number", got=got, split=self.split_name)
            if not -100 <= value <= 100:
                got = f"{_format_limit(value)}%"
                raise SplitError(expected=f"{expected} within [-100%, 100%]", got=got, split=self.split_name)
            return int(value) if isinstance(value, numbers.Integral) else float(value)
        try:
            return operator.index(value)
        except TypeError:
            raise SplitError(expected=f"{expected}, which is an integer", got=got, split=self.split_name) from None

    def to_absolute(self, splits: Mapping[str, Any]) -> list[AbsoluteInstruction]:
        """Returns the range of the slice, as a list of one; see `AbstractSplit.to_absolute`."""
        split = _find_split(self.split_name, splits)
        total = split.num_examples
        start = 0 if self.from_ is None else self._index(self.from_, split)
        stop = total if self.to is None else self._index(self._tfds_end(self.to, split), split)
        if start > stop:
            raise SplitError(
                expected="a start that is not after the end",
                got=f"start {start} and end {stop} of {total} examples",
                split=str(self),
                advice="Write the smaller one first.",
            )
        return [AbsoluteInstruction(self.split_name, start, stop, total)]

    def _tfds_end(self, value: float, split: SplitInfo) -> float:
        """Returns the end of the slice as TFDS counts it, which differs for negative numbers of shards."""
        # TFDS counts the end from the last shard once more, which shows only beyond the first shard: of 5 shards,
        # [:-6shard] are 4.
        return value + len(split.offsets) - 1 if self.unit == "shard" and value < 0 else value

    def _index(self, value: float, split: SplitInfo) -> int:
        """Returns the index of the example at a limit; negative values count from the end, and shards are clipped.

        Raises:
            SplitError: the limit is out of the range of the split.
        """
        total = split.num_examples
        if self.unit == "shard":
            # As many shards as the list slice [:value] would have: beyond the end it clips.
            return int(split.offsets[len(range(split.num_shards)[: int(value)])])
        if self.unit == "%":
            value = self._examples_of(value, total)
        if abs(value) > total:
            raise SplitError(
                expected=f"a limit within the {total} examples of {self.split_name}", got=f"{value}", split=str(self)
            )
        return int(value + total if value < 0 else value)

    def _examples_of(self, percent: float, total: int) -> int:
        """Converts a percentage to a number of examples, rounded as `rounding` requires.

        Raises:
            SplitError: rounding='pct1_dropremainder' requires at least 100 examples and a whole number of them.
        """
        if self.rounding == "closest":
            return round(percent * total / 100.0)
        if total < 100:
            raise SplitError(
                expected="at least 100 examples for rounding='pct1_dropremainder'",
                got=f"{total}",
                split=str(self),
                advice="Use rounding='closest'.",
            )
        examples = percent * (total // 100)
        if examples != int(examples):
            raise SplitError(
                expected="a whole number of examples for rounding='pct1_dropremainder'",
                got=f"{examples}, which is {_format_limit(percent)}% of {total}",
                split=str(self),
                advice="Give a whole percentage, or use rounding='closest'.",
            )
        return int(examples)

    def __str__(self) -> str:
        """Returns the slice as an expression, such as "train[:10%]"."""
        if self.from_ is None and self.to is None:
            return self.split_name
        begin, end = (
            "" if item is None else _format_limit(item) + _SUFFIX[self.unit] for item in (self.from_, self.to)
        )
        return f"{self.split_name}[{begin}:{end}]"

    def __repr__(self) -> str:
        rounding = f", rounding={self.rounding!r}" if self.unit == "%" else ""
        return f"ReadInstruction({str(self)!r}{rounding})"


def _format_limit(value: float) -> str:
    """Returns a limit as text: "10" for 10.0, "0.5" for 0.5."""
    return repr(int(value) if value == value // 1 else float(value))


@dataclass(frozen=True, repr=False)
class SplitAdd(AbstractSplit):
    """Several expressions, one after the other."""

    terms: tuple[AbstractSplit, ...]

    def to_absolute(self, splits: Mapping[str, Any]) -> list[AbsoluteInstruction]:
        """Returns the ranges of each term; see `AbstractSplit.to_absolute`."""
        return [instruction for term in self.terms for instruction in term.to_absolute(splits)]

    def __str__(self) -> str:
        return "+".join(map(str, self.terms))

    def __repr__(self) -> str:
        return "+".join(map(repr, self.terms))


@dataclass(frozen=True)
class SplitAll(AbstractSplit):
    """All splits of the dataset, in the order in which they are stored."""

    def to_absolute(self, splits: Mapping[str, Any]) -> list[AbsoluteInstruction]:
        """Returns the whole range of each split; see `AbstractSplit.to_absolute`."""
        return [instruction for name in splits for instruction in ReadInstruction(name).to_absolute(splits)]

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class EvenSplit(AbstractSplit):
    """Part `index` of `count` parts of an expression, whose sizes differ by at most one; see `even_splits`."""

    split: Spec
    index: int
    count: int
    drop_remainder: bool = False

    def to_absolute(self, splits: Mapping[str, Any]) -> list[AbsoluteInstruction]:
        """Returns the part of each of the expression's ranges; see `AbstractSplit.to_absolute`."""
        return [self._part(instruction) for instruction in self.from_spec(self.split).to_absolute(splits)]

    def _part(self, instruction: AbsoluteInstruction) -> AbsoluteInstruction:
        """Returns part `index` of `count` parts of a range; the remainder goes to the first parts, one example each."""
        size, remainder = divmod(instruction.stop - instruction.start, self.count)
        if self.drop_remainder:
            remainder = 0
        start, stop = (instruction.start + size * i + min(i, remainder) for i in (self.index, self.index + 1))
        return AbsoluteInstruction(instruction.splitname, start, stop, instruction.num_examples)


@names_foreign_arguments("even_splits")
def even_splits(split: Spec, n: int, *, drop_remainder: bool = False) -> list[AbstractSplit]:
    """Returns n expressions that divide a split into parts of equal size, without overlap.

    The remaining examples go to the first parts, one each, or are left out. Each range of `a+b` is divided separately,
    so every part has examples of both. An expression that does not fit the dataset is an error when a part is used.

    Args:
        split: the expression to divide.
        n: number of parts; the result is empty if it is not positive.
        drop_remainder: whether to leave out the remaining examples, so that all parts have the same size.

    Examples:
        >>> from beam_datasets.metadata.splits import SplitDict, SplitInfo
        >>> splits = SplitDict([SplitInfo("train", [6, 5], 0)])
        >>> [splits[part].num_examples for part in even_splits("train", 3)]
        [4, 4, 3]
    """
    drop = boolean("drop_remainder", drop_remainder)
    return [EvenSplit(split, i, n, drop) for i in range(integer("n", n))]


def split_for_jax_process(
    split: Spec, *, process_index: int | None = None, process_count: int | None = None, drop_remainder: bool = False
) -> AbstractSplit:
    """Returns the part of a split that a JAX process reads.

    Args:
        split: the expression to divide among the processes.
        process_index: index of this process; None for that of JAX.
        process_count: number of all processes; None for that of JAX.
        drop_remainder: see `even_splits`.

    Raises:
        IndexError: no process has this index.
        MissingDependencyError: an argument is None, and JAX is not installed.
    """
    if process_index is None or process_count is None:
        try:
            import jax
        except ImportError as error:
            raise MissingDependencyError(
                "split_for_jax_process() needs JAX: give it process_index and process_count, or pip install jax"
            ) from error

        process_index = jax.process_index() if process_index is None else process_index
        process_count = jax.process_count() if process_count is None else process_count
    return even_splits(split, process_count, drop_remainder=drop_remainder)[process_index]


def map_splits(function: Callable[[Any], Any], nest: Any) -> Any:
    """Applies a function to each split in a nest of lists, tuples and dicts; returns the nest of the results.

    >>> map_splits(str.upper, {"a": ["x", "y"], "b": ("z",)})
    {'a': ['X', 'Y'], 'b': ('Z',)}
    """
    if isinstance(nest, Mapping):
        return {key: map_splits(function, value) for key, value in nest.items()}
    if isinstance(nest, (list, tuple)):
        return type(nest)([map_splits(function, value) for value in nest])
    return function(nest)


def _find_split(name: str, splits: Mapping[str, Any]) -> Any:
    """Returns the value of a split in a dict by split.

    Raises:
        SplitError: there is no such split.
    """
    if name in splits:
        return splits[name]
    owner = getattr(splits, "dataset_name", "") or "the dataset"
    names = ", ".join(map(repr, sorted(splits))) or "none"
    slice_advice = f"A part of a split is a slice, such as '{next(iter(splits), 'train')}[90%:]'."
    raise SplitError(
        f"no split {name!r:.200} in {owner}; it has {names}",
        expected=names,
        got=f"{name!r:.200}",
        advice=did_you_mean(name, splits).strip() or slice_advice if splits else None,
    )


def _parse_term(term: str, expression: str) -> AbstractSplit:
    """Parses one term of a split expression, such as `train[:10%]`; `expression` is the expression, for errors.

    Raises:
        SplitError: the term is malformed, slices 'all', or selects a single item other than a shard.
    """
    match = _TERM.match(term)
    if not match:
        advice = "Several splits are a list of texts, or joined by '+', as in 'train+test'." if "," in term else None
        raise SplitError(expected=_FORM, got=f"{term!r:.100}", split=expression, advice=advice)
    name, selector = match["name"], match["selector"]
    if selector is None:
        return SplitAll() if name == "all" else ReadInstruction(name)
    items = selector.split(":")
    if len(items) > 2 or not any(items):
        raise SplitError(expected=_FORM, got=f"'[{selector:.100}]'", split=expression)
    borders = [_parse_item(item, expression) if item else None for item in items]
    if name == "all":
        advice = "Slice each split, such as 'train[:10]+test[:10]'."
        raise SplitError("'all' cannot be sliced", split=expression, advice=advice)
    if len(borders) == 2:
        return _slice(name, borders, expression)
    (single,) = borders
    if single is None or single[1] != "shard":
        raise SplitError(
            expected="a range",
            got=f"'[{selector:.100}]'",
            split=expression,
            advice=(
                f"Only a shard can be selected without ':'. Write a range, such as '{name:.1000}[10:20]' or "
                f"'{name:.1000}[:10%]'."
            ),
        )
    shard = int(single[0])
    # Shard 0 from the end does not exist: what follows the last shard is the end.
    return _slice(name, [(shard, "shard"), (shard + 1, "shard") if shard + 1 else None], expression)


def _parse_item(item: str, expression: str) -> tuple[float, Unit]:
    """Parses one limit of a slice to (value, unit): "10%" to (10, "%"); the units are "abs", "%" and "shard".

    Raises:
        SplitError: the limit is malformed, or outside [-2**62, 2**62].
    """
    match = _ITEM.match(item)
    if not match:
        raise SplitError(expected=_FORM, got=f"{item!r:.100}", split=expression)
    number = match["number"]
    unit: Unit = {"%": "%", "shard": "shard"}.get(match["unit"], "abs")  # type: ignore[assignment]
    kind = "a number" if unit == "%" else "an integer"
    try:
        value = float(number) if unit == "%" else int(number)
    except ValueError:
        advice = "A share is a percentage, such as '10%'." if "." in number and "%" not in item else None
        raise SplitError(expected=kind, got=f"{item!r:.100}", split=expression, advice=advice) from None
    if abs(value) > _MAX_INDEX:
        raise SplitError(expected=f"{kind} within [-2**62, 2**62]", got=f"{item!r:.100}", split=expression)
    return value, unit


def _slice(name: str, borders: Sequence[tuple[float, Unit] | None], expression: str) -> AbstractSplit:
    """Returns the instruction for a slice.

    Args:
        name: name of the split.
        borders: (start, stop), each a pair (number, unit); None for an omitted limit.
        expression: the whole expression, for errors.

    Raises:
        SplitError: the limits have different units, or one is out of range.

    >>> _slice("train", [None, (10, "%")], "train[:10%]")
    ReadInstruction('train[:10%]', rounding='closest')
    """
    begin, end = borders
    if begin and end and begin[1] != end[1]:
        one, other = (_format_limit(number) + _SUFFIX[unit] for number, unit in (begin, end))
        units = [_SUFFIX[unit] for _, unit in (begin, end)]
        readings = [f"{name}[{_format_limit(begin[0])}{unit}:{_format_limit(end[0])}{unit}]" for unit in units]
        raise SplitError(
            expected="two limits with the same unit",
            got=f"{_MEANING[begin[1]]}, {one!r}, and {_MEANING[end[1]]}, {other!r}",
            split=expression,
            advice=f"Write {readings[0]!r:.1000} or {readings[1]!r:.1000}.",
        )
    unit = (begin or end or (0, "abs"))[1]
    try:
        return ReadInstruction(name, begin and begin[0], end and end[0], unit)
    except SplitError as error:  # about the name of the split alone
        raise SplitError(expected=error.expected, got=error.got, split=expression, advice=error.advice) from None
