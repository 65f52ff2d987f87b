"""Element transforms: decoding records, mapping examples, stacking batches; and `Program`, their compiled form.

A transform (`Step`) is a value that pickles, so that a dataset can be sent to another process; it is compiled to a
function where it is used.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.advice import note_value
from beam_datasets.errors import FeatureError, FeatureValueError, did_you_mean
from beam_datasets.features.base import STRING, dtype_of, shape_of
from beam_datasets.features.columnar import ColumnarDecoder, has_images
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.decode import PartialDecoding
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.sequence import iter_nested_features, record_name
from beam_datasets.features.stacking import Fill, Padding, build_fill, mark_array_numbers, return_unchanged, stack
from beam_datasets.formats.example import ExampleError
from beam_datasets.metadata.info import check_supervised_keys, names_in, value_at
from beam_datasets.reading.blocks import Items, regroup
from beam_datasets.reading.elements.executor import (
    TASK_BYTES,
    Deferred,
    MakeTasks,
    Tasks,
    ThreadExecutor,
    decode_tasks,
    usable_cores,
)

Function: TypeAlias = Callable[[Any], Any]

STOPPED = "a function given to map() raised StopIteration"
"""Text of the error for a user's StopIteration, which would end the iteration silently."""

UNDECODED = (ExampleError, FeatureError)
"""The errors of a record whose checksum is good."""

_BLOCK = 256  # items that are decoded at once


class Step(ABC):
    """An operation on each item."""

    @property
    def kind(self) -> str:
        """Name by which adapters, which do not import steps, know it: 'raw', 'decode', 'batch', 'map' or others."""
        return type(self).__name__.lower()

    @abstractmethod
    def compile(self) -> Function:
        """Returns the function that does it."""

    def compile_block(self) -> Function | None:
        """Returns the function from a list of items to the list of what `compile()` makes of each; None for none.

        If it raises one of `UNDECODED`, the items are made one by one.
        """
        return None

    def compile_check(self) -> Function:
        """Returns the function that raises, for one record, what `compile()` raises for items with that record."""
        return self.compile()

    def num_threads(self) -> int:
        """Returns on how many threads to do it; 1 where one is as fast: no large images, or a user's function."""
        return 1

    def compile_executor(self) -> ThreadExecutor | None:
        """Returns what does it on threads ahead; None where one thread does it."""
        threads = self.num_threads()
        return ThreadExecutor(decode_tasks(self.compile(), TASK_BYTES), threads) if threads > 1 else None


@dataclass(frozen=True)
class Raw(Step):
    """Records as they are stored, as bytes of their own; with ids, pairs of an id and a record."""

    with_ids: bool = False

    def compile(self) -> Function:
        """Returns the function from a record."""
        return (lambda item: (item[0], bytes(item[1]))) if self.with_ids else bytes

    def compile_block(self) -> Function:
        """Returns the function from a block of records."""
        return list


@dataclass(frozen=True)
class Decode(Step):
    """Records decoded to examples.

    Attributes:
        features: of the dataset.
        decoders: see `features.compile_decoder`; a `decode.PartialDecoding` too.
        with_ids: whether items are pairs of an id and a record; the examples then have `tfds_id`.
        supervised_keys: which features to yield as a tuple; None for the whole example.
        threads: how many threads decode what is decoded by several; None for as many as there are usable cores.
    """

    features: Any
    decoders: Any = None
    with_ids: bool = False
    supervised_keys: tuple[Any, ...] | None = None
    threads: int | None = None

    def of_supervised_keys(self) -> Decode:
        """Returns the same with the features alone decoded that `supervised_keys` name, if decoders do not choose."""
        is_chosen = isinstance(self.decoders, PartialDecoding) or not isinstance(self.features, FeaturesDict)
        if self.supervised_keys is None or is_chosen:
            return self
        names = {name if name in self.features else name.split("/")[0] for name in names_in(self.supervised_keys)}
        decoders = {name: decoder for name, decoder in (self.decoders or {}).items() if name in names}
        return replace(self, decoders=PartialDecoding(dict.fromkeys(names, True), decoders or None))

    def compile(self) -> Function:
        """Returns the function from a record; a ValueError where `supervised_keys` name what is not decoded."""
        features = select_decoded(self.features, self.decoders)
        check_supervised_keys(self.supervised_keys, features)
        decode, pick = ColumnarDecoder(features).one(), picker(self.supervised_keys)
        if self.with_ids:
            return lambda item: pick({**decode(item[1]), "tfds_id": item[0]})
        return lambda record: pick(decode(record))

    def compile_block(self) -> Function | None:
        """Returns the function from a list of records; None where they are decoded one by one."""
        decoder = ColumnarDecoder(select_decoded(self.features, self.decoders))
        if not decoder.is_small:
            return None
        decode, pick = decoder.examples, picker(self.supervised_keys)

        def of_pairs(pairs: list[Any]) -> list[Any]:
            examples = decode([record for _, record in pairs])
            return [pick({**example, "tfds_id": name}) for (name, _), example in zip(pairs, examples)]

        if self.with_ids:
            return of_pairs
        return decode if pick is return_unchanged else lambda items: list(map(pick, decode(items)))

    def num_threads(self) -> int:
        """Returns on how many threads to decode."""
        threads = usable_cores() if self.threads is None else self.threads
        features = select_decoded(self.features, self.decoders)
        return threads if threads > 1 and has_images(features) and not ColumnarDecoder(features).is_small else 1


@dataclass(frozen=True)
class Map(Step):
    """A function of the user's."""

    function: Function

    def compile(self) -> Function:
        """Returns the function."""
        return self.function


@dataclass(frozen=True)
class Batch(Step):
    """Lists of items made to batches.

    Attributes:
        steps: what is done to each item before.
        pad: see `features.stacking.stack`.
        fill: what is put in the place of missing values.
    """

    steps: tuple[Step, ...]
    pad: bool | Padding = False
    fill: Fill = field(default_factory=Fill)

    def compile_executor(self) -> ThreadExecutor | None:
        """Returns what decodes records of batches on threads; None where there is one thread."""
        first, pad, fill = self.steps[0], self.pad, _picked(self.steps, self.fill)
        if not isinstance(first, Decode) or (threads := first.num_threads()) == 1:
            return None
        relabel = fill.relabeler()
        if len(self.steps) == 1 and not first.with_ids and isinstance(pad, bool):
            features = select_decoded(first.features, first.decoders)
            start = ColumnarDecoder(features, pad=pad, fill=self.fill.values, batch=True).batch_in_parts
            pick = picker(first.supervised_keys)
            return ThreadExecutor(_of_one(start, lambda batch: relabel(pick(batch))), threads, is_whole=True)
        rest = compose(self.steps[1:]) if len(self.steps) > 1 else return_unchanged
        join = lambda examples: relabel(stack(finish_each(rest, examples), pad=pad, fill=fill.values))  # noqa: E731
        return ThreadExecutor(_of_one(decode_tasks(first.compile()), join), threads, is_whole=True)

    def compile(self) -> Function:
        """Returns the function from a list of items."""
        first = self.steps[0]
        if len(self.steps) > 1 or not isinstance(first, Decode) or first.with_ids or isinstance(self.pad, Padding):
            apply_steps = compose_many(self.steps)
            return lambda items: self.stack(apply_steps(items))
        make = ColumnarDecoder(
            select_decoded(first.features, first.decoders), pad=self.pad, fill=self.fill.values, batch=True
        )
        pick, relabel = picker(first.supervised_keys), _picked(self.steps, self.fill).relabeler()
        return lambda items: relabel(pick(make.batch(items)))

    def compile_check(self) -> Function:
        """Returns that of the first step: an error of the batch itself is not one of a record."""
        return self.steps[0].compile_check()

    def stack(self, values: list[Any]) -> Any:
        """Returns the batch of values that the steps have made."""
        fill = _picked(self.steps, self.fill)
        return fill.relabeler()(stack(values, pad=self.pad, fill=fill.values))


def share_cores(processes: int, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Returns the steps for one of several processes, which share the cores unless a number of threads was given."""
    first, *rest = steps
    if isinstance(first, Batch):
        first = replace(first, steps=share_cores(processes, first.steps))
    elif isinstance(first, MixedFirst):
        first = replace(first, firsts=tuple(share_cores(processes, (step,))[0] for step in first.firsts))
    elif isinstance(first, Decode) and first.threads is None:
        first = replace(first, threads=max(1, usable_cores() // processes))
    return first, *rest


def only(names: Iterable[str], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Returns the steps with these features alone decoded, if these are some of all features of the examples."""
    step, *rest = steps
    if rest or not isinstance(step, Decode) or (step.decoders, step.supervised_keys) != (None, None):
        return steps
    if not isinstance(step.features, FeaturesDict) or not set(names) < set(step.features):
        return steps
    return (replace(step, decoders=PartialDecoding(dict.fromkeys(names, True))),)


def _of_one(start: Callable[[Any], tuple[Any, Callable[[Any], Any]]], then: Function) -> MakeTasks:
    """Returns what starts a block of one item, whose value `then` makes of what was started."""

    def start_block(items: Any) -> Tasks:
        (item,) = items
        tasks, finish = start(item)
        return tasks, lambda results: [then(finish(results))]

    return start_block


@dataclass(frozen=True)
class FillMissing(Step):
    """Examples in which nothing is missing."""

    fill: Fill

    def compile(self) -> Function:
        """Returns the function from an example."""
        return self.fill.example_filler()


@dataclass(frozen=True)
class MixedFirst(Step):
    """The first step of a mixture's items, pairs of the number of a source and its item; so are the results.

    Attributes:
        firsts: the first step of each source.
        features: that all sources have; None if the examples are mapped afterwards.
    """

    firsts: tuple[Step, ...]
    features: Any = None

    def compile(self) -> Function:
        """Returns the function from a pair."""
        functions = [step.compile() for step in self.firsts]
        return lambda pair: (pair[0], functions[pair[0]](pair[1]))

    def num_threads(self) -> int:
        """Returns the most that a source's step needs."""
        return max(step.num_threads() for step in self.firsts)

    def compile_block(self) -> Function:
        """Returns the function from a list of pairs: items of one source are decoded together."""
        functions = [compose_many((step,)) for step in self.firsts]

        def of_pairs(pairs: list[Any]) -> list[Any]:
            results: list[Any] = [None] * len(pairs)
            for source in {source for source, _ in pairs}:
                places = [index for index, pair in enumerate(pairs) if pair[0] == source]
                for index, value in zip(places, functions[source]([pairs[index][1] for index in places])):
                    results[index] = source, value
            return results

        return of_pairs


@dataclass(frozen=True)
class MixedRest(Step):
    """The other steps of a mixture's items: from a pair of the number of a source and a value to the example.

    Attributes:
        rests: the steps of each source after the first.
        key: the feature that gets the name of the source; None for no such feature.
        names: of the sources; None without `key`.
    """

    rests: tuple[tuple[Step, ...], ...]
    key: str | None = None
    names: tuple[bytes, ...] | None = None

    def compile(self) -> Function:
        """Returns the function from a pair."""
        functions = [compose(steps) if steps else None for steps in self.rests]
        key, names = self.key, self.names

        def finish(pair: tuple[int, Any]) -> Any:
            source, value = pair
            function = functions[source]
            if function is not None:
                value = function(value)
            if key is None or names is None:
                return value
            if not isinstance(value, dict):
                raise TypeError(f"source_key={key!r} needs examples that are dicts, got {type(value).__name__}.")
            return {**value, key: names[source]}

        return finish


def features_of(step: Any) -> Any:
    """Returns the features of the examples that a first step makes; None for records, or if they are not known."""
    while isinstance(step, Batch):
        step = step.steps[0]
    return select_decoded(step.features, step.decoders) if isinstance(step, Decode) else getattr(step, "features", None)


def fill_of_steps(steps: tuple[Step, ...], fill: Any) -> Fill:
    """Returns the replacements for missing values in the items that the steps produce; see `build_fill`."""
    first, is_mapped = steps[0], len(steps) > 1
    if isinstance(first, Batch):
        return build_fill(None, fill, is_mapped=is_mapped)
    is_mapped |= getattr(first, "decoders", None) is not None
    return build_fill(features_of(first), fill, is_mapped=is_mapped)


def batch_of(
    steps: tuple[Step, ...],
    *,
    pad: bool,
    fill: Any,
    pad_value: Any = None,
    pad_side: str = "right",
    pad_length: Any = None,
) -> Batch:
    """Returns the step that puts what the steps make in batches, for arguments of `Dataset.batch`."""
    features = features_of(steps[0])
    if isinstance(features, FeaturesDict):
        pad_value, pad_length = (_by_record_name(part, features) for part in (pad_value, pad_length))
    padding = Padding.of(pad, pad_value, pad_side, pad_length)
    if isinstance(padding, Padding):
        check_names("padding", {name.split("/")[0] for name in padding.names}, steps)
    filled = fill_of_steps(steps, fill)
    if padding and pad_value is None and _pads_like(fill, features):
        warnings.warn(
            f"fill={fill!r} replaces missing values; arrays are padded with 0 and b''. Give pad_value={fill!r} to pad "
            "with it, or pad_value=0.",
            stacklevel=3,
        )
    return Batch(steps, padding, filled)


def _by_record_name(values: Any, features: FeaturesDict) -> Any:
    """Returns a dict by names of features by their names in the record; other values as they are."""
    if not isinstance(values, Mapping):
        return values
    return {record_name(name, features) if isinstance(name, str) else name: each for name, each in values.items()}


def _pads_like(fill: Any, features: Any) -> bool:
    """Returns whether a value for missing ones may be meant for padding: arrays of its kind are padded with another."""
    if (
        fill is None
        or isinstance(fill, (Mapping, bool))
        or fill in (0, "", b"")
        or not isinstance(features, FeaturesDict)
    ):
        return False
    shapes = [(shape_of(feature), dtype_of(feature)) for _, _, feature in iter_nested_features(features)]
    is_text = isinstance(fill, (str, bytes))
    return any(isinstance(shape, tuple) and None in shape and (dtype == STRING) == is_text for shape, dtype in shapes)


def check_names(what: str, names: Iterable[str], steps: tuple[Step, ...], *, have_length: bool = False) -> None:
    """Checks features that an argument names, unless the examples are not known because functions change them.

    Args:
        what: names them, for errors.
        names: of features of the examples.
        steps: that make the examples.
        have_length: whether the features must be sequences or arrays.

    Raises:
        FeatureValueError: the feature does not exist, or it has no length.
    """
    first, *rest = steps
    features = None if isinstance(first, Batch) else features_of(first)
    if not isinstance(features, FeaturesDict) or not all(isinstance(step, MixedRest) for step in rest):
        return
    known = [*features, *(step.key for step in rest if isinstance(step, MixedRest) and step.key)]
    for name in sorted(names):
        if name not in known:
            hint = did_you_mean(name, known)
            raise FeatureValueError(f"{what} names feature {name!r}; there are {', '.join(known)}.{hint}")
        shape = shape_of(features[name]) if have_length and name in features else None
        if shape == () or isinstance(shape, dict):
            raise FeatureValueError(f"{what} names feature {name!r}: expected a sequence or an array, got {shape=}.")


def with_filler(steps: tuple[Step, ...], fill: Any, arrays: np.dtype[Any] | None = None) -> tuple[Step, ...]:
    """Returns the steps with one more, if need be, that fills in what is missing in each example.

    Args:
        steps: make the examples.
        fill: see `Dataset.batch`.
        arrays: dtype of single numbers that become arrays without dimensions; None for no numbers.
    """
    if any(isinstance(step, Batch) for step in steps):
        if fill is not None:
            raise ValueError("fill= is an argument of batch(), where the examples are put in batches before.")
        return steps
    filled = fill_of_steps(steps, fill)
    if arrays is not None:
        filled = replace(filled, arrays=mark_array_numbers(features_of(steps[0]), arrays))
    step = FillMissing(_picked(steps, filled))
    return steps if step.fill.example_filler() is return_unchanged else (*steps, step)


def _picked(steps: tuple[Step, ...], fill: Fill) -> Fill:
    """Returns the fill in the structure of the examples: that of the supervised keys, if there are any."""
    first = steps[0]
    if not isinstance(first, Decode) or first.supervised_keys is None or fill.values is None:
        return fill
    pick = picker(first.supervised_keys)
    return Fill(pick(fill.values), pick(fill.labels), fill.arrays and pick(fill.arrays))


def compose(steps: tuple[Step, ...]) -> Function:
    """Returns the function that applies one transform after the other to an item."""
    functions = [step.compile() for step in steps]
    if len(functions) == 1:
        return functions[0]

    def composed(item: Any) -> Any:
        try:
            for function in functions:
                item = function(item)
        except StopIteration as error:
            raise RuntimeError(STOPPED) from error
        except Exception as error:
            if isinstance(steps[functions.index(function)], Map):
                note_value(error, "map", item)
            raise
        return item

    return composed


def finish_each(finish: Function, values: Iterable[Any]) -> list[Any]:
    """Calls a function for each value; its errors get a note with the value, as from `compose`.

    Raises:
        RuntimeError: a function given to `map()` raised StopIteration, at which a plain `map` would leave out the rest.
    """
    results = []
    for value in values:
        try:
            results.append(finish(value))
        except StopIteration as error:
            raise RuntimeError(STOPPED) from error
        except Exception as error:
            note_value(error, "map", value)
            raise
    return results


def compose_many(steps: tuple[Step, ...]) -> Callable[[list[Any]], list[Any]]:
    """Returns the function that applies all transforms to each item of a list, and returns the list of elements."""
    program, has_map = Program.compile(steps), any(isinstance(step, Map) for step in steps)

    def apply_to_all(items: list[Any]) -> list[Any]:
        elements = chain.from_iterable(program.run(iter([items]), repeat(_BLOCK)))
        if program.finish is None:
            return list(elements)
        return finish_each(program.finish, elements) if has_map else list(map(program.finish, elements))

    return apply_to_all


@dataclass(frozen=True)
class Program:
    """Compiled transforms: how blocks of items become elements.

    The first transform, which decodes, is applied to whole blocks; the others to each element, when it is taken.

    Attributes:
        decode_one: the first transform, from an item to an element.
        decode_block: the same from a list of items to a list of elements; None if there is no such function.
        finish: the other transforms, applied to each element when it is taken; None if there are none.
        executor: applies the first transform on threads; None if the reader's thread does.
    """

    decode_one: Function | None
    decode_block: Callable[[Items], Items] | None
    finish: Function | None
    executor: ThreadExecutor | None = None

    @classmethod
    def compile(cls, steps: tuple[Step, ...], threads: int | None = None) -> Program:
        """Compiles transforms.

        Args:
            steps: the transforms, in order.
            threads: applies all transforms, also functions given to `map()`, on that many threads; None applies only
                decoding on threads, if it is worthwhile.
        """
        first, apply_all = steps[0], compose(steps)
        finish = compose(steps[1:]) if len(steps) > 1 else None
        if threads is not None:
            make_tasks = decode_tasks(apply_all, TASK_BYTES)
            is_whole = isinstance(first, Batch)
            executor: ThreadExecutor | None = ThreadExecutor(make_tasks, threads, is_whole=is_whole, use_for_small=True)
            finish = None
        else:
            executor = first.compile_executor()
        if executor is not None:
            return cls(None, None, lambda value: _finish_deferred(value, apply_all, finish), executor)
        decode_block = first.compile_block()
        if decode_block is None:
            return cls(None, None, apply_all)
        return cls(first.compile(), decode_block, finish)

    def run(self, blocks: Iterator[Items], counts: Iterator[int]) -> Iterator[Items]:
        """Yields lists of elements, to each of which `finish` must still be applied.

        If an item does not decode, the items of its block are decoded one by one, so that all good ones before it are
        yielded, and the error is raised at the item.

        Args:
            blocks: blocks of items, in order.
            counts: numbers of items to decode at once.
        """
        if self.executor is not None:
            yield from self.executor.run(blocks)
            return
        if self.decode_block is None or self.decode_one is None:
            yield from blocks
            return
        for block in regroup(blocks, counts):
            try:
                elements = self.decode_block(block)
            except UNDECODED:
                for item in block:
                    yield [self.decode_one(item)]
            else:
                yield elements


def _finish_deferred(value: Any, apply_all: Function, finish: Function | None) -> Any:
    """Applies the transforms that remain: all to an item that was deferred, `finish` to an element."""
    if type(value) is Deferred:
        return apply_all(value.item)
    return value if finish is None else finish(value)


def picker(nest: Any) -> Function:
    """Returns the function that picks features out of an example, in the structure of a nest of their names.

    The whole example for None.
    """
    if nest is None:
        return return_unchanged
    if isinstance(nest, str):
        return lambda example: value_at(example, nest)
    if isinstance(nest, Mapping):
        parts = {key: picker(value) for key, value in nest.items()}
        return lambda example: {key: pick(example) for key, pick in parts.items()}
    picks = [picker(value) for value in nest]
    return lambda example: tuple([pick(example) for pick in picks])
