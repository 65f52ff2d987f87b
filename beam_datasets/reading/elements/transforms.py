"""Element transforms: decoding records, mapping examples, stacking batches; and `Program`, their compiled form.

A transform (`Step`) is a value that pickles, so that a dataset can be sent to another process; it is compiled to a
function where it is used.
"""

from __future__ import annotations

import functools
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, ClassVar, TypeAlias

import numpy as np

from beam_datasets.advice import note_value
from beam_datasets.arguments import boolean
from beam_datasets.errors import FeatureError, FeatureValueError, did_you_mean, shown_name
from beam_datasets.features.base import Decoders, FeatureConnector, Replacement, dtype_of, shape_of
from beam_datasets.features.columnar import ColumnarDecoder, has_images
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.decode import PartialDecoding
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.stacking import Fill, Padding, build_fill, mark_array_numbers, return_unchanged, stack
from beam_datasets.features.trees import iter_nested_features, record_name
from beam_datasets.formats.example import ExampleError
from beam_datasets.metadata.supervised_keys import names_in, value_at
from beam_datasets.reading.blocks import Items, regroup
from beam_datasets.reading.elements.executor import (
    TASK_BYTES,
    Deferred,
    Executor,
    MakeTasks,
    Tasks,
    ThreadExecutor,
    decode_tasks,
    usable_cores,
)

_LOGGER = logging.getLogger(__name__)

Function: TypeAlias = Callable[[Any], Any]

STOPPED = "a function given to map(), or a decoder, raised StopIteration"
"""Text of the error for a user's StopIteration, which would end the iteration silently."""

UNDECODED = (ExampleError, FeatureError)
"""The errors of a record whose checksum is good."""

_BLOCK = 256  # maximum number of items that are decoded at once


@dataclass(frozen=True)
class CompiledStep:
    """The functions of a transform.

    Attributes:
        one: function from an item to its value.
        many: function from a list of items to the list of their values; None if there is only `one`. If it raises one
            of `UNDECODED`, the caller transforms the items one by one.
        executor: transforms items ahead of the reader; None if its thread is enough.
    """

    one: Function
    many: Callable[[Any], list[Any]] | None = None
    executor: Executor | None = None


class Step(ABC):
    """A transform of each item.

    Attributes:
        with_ids: whether items are pairs (id, record).
        supervised_keys: structure of the values, a nest of names of features; None for dicts of all features.
    """

    with_ids: bool = False
    supervised_keys: tuple[Any, ...] | None = None

    @property
    def decoded_features(self) -> FeatureConnector | None:
        """The features of the examples that this step makes, as they are decoded; None if they are unknown."""
        return None

    @property
    def kind(self) -> str:
        """The kind of the transform, for adapters, which do not import steps: 'raw', 'decode', 'batch', 'map', ..."""
        return type(self).__name__.lower()

    @abstractmethod
    def compile(self) -> CompiledStep:
        """Returns the functions from items to their values."""

    def num_threads(self) -> int:
        """Returns the number of threads that decode the items: 1 if more are not faster, as without large images."""
        return 1

    def compile_check(self) -> Function:
        """Returns a function from one record, which raises the error of the transform for an item with that record."""
        return self.compile().one


@dataclass(frozen=True)
class Raw(Step):
    """Copies stored records to `bytes`.

    Attributes:
        with_ids: whether items, and values, are pairs (id, record).
    """

    with_ids: bool = False

    def compile(self) -> CompiledStep:
        """Returns the functions from records to `bytes`."""
        return CompiledStep((lambda item: (item[0], bytes(item[1]))) if self.with_ids else bytes, many=list)


@dataclass(frozen=True)
class Decode(Step):
    """Decodes records to examples.

    Attributes:
        features: the features of the dataset.
        decoders: decoders that replace those of the features; see `features.compile_decoder`. It may be a
            `decode.PartialDecoding`.
        with_ids: whether items are pairs (id, record); the examples then have the feature `tfds_id`.
        supervised_keys: nest of names of features; the value is a tuple in this structure. None for the whole example.
        threads: number of threads that decode large images; None for the number of usable cores.
    """

    features: FeatureConnector
    decoders: Decoders = None
    with_ids: bool = False
    supervised_keys: tuple[Any, ...] | None = None
    threads: int | None = None

    @functools.cached_property
    def decoded_features(self) -> FeatureConnector:
        """The features of the examples, with `decoders` in place of their own."""
        return select_decoded(self.features, self.decoders)

    @functools.cached_property
    def decoder(self) -> ColumnarDecoder:
        """The compiled decoder, which all datasets that share this step use."""
        return ColumnarDecoder(self.decoded_features)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("decoded_features", "decoder")}

    def without_unused_features(self) -> Decode:
        """Returns this step without the features that `supervised_keys` do not name, which need not be decoded.

        Returns itself without `supervised_keys`, or if `decoders` is a selection.
        """
        features, decoders = self.features, self.decoders or {}
        if self.supervised_keys is None or isinstance(decoders, Replacement) or not isinstance(features, FeaturesDict):
            return self
        names = {name if name in features else name.split("/")[0] for name in names_in(self.supervised_keys)}
        used_decoders = {name: decoder for name, decoder in decoders.items() if name in names}
        return replace(self, decoders=PartialDecoding(dict.fromkeys(names, True), used_decoders or None))

    def compile(self) -> CompiledStep:
        """Returns the functions from records to examples, or to tuples with `supervised_keys`.

        There is none from a list of records if examples may be large. Large images are decoded on threads.
        """
        decode, decode_many, pick = self.decoder.one(), self.decoder.examples, picker(self.supervised_keys)

        def decode_pair(pair: tuple[Any, Any]) -> Any:
            """Returns the example of a pair (id, record)."""
            return pick({**decode(pair[1]), "tfds_id": pair[0]})

        def decode_pairs(pairs: list[Any]) -> list[Any]:
            """Returns the examples of pairs (id, record)."""
            examples = decode_many([record for _, record in pairs])
            return [pick({**example, "tfds_id": name}) for (name, _), example in zip(pairs, examples)]

        one: Function
        many: Function
        if self.with_ids:
            one, many = decode_pair, decode_pairs
        elif pick is return_unchanged:  # no further call for each example
            one, many = decode, decode_many
        else:
            one, many = lambda record: pick(decode(record)), lambda records: list(map(pick, decode_many(records)))
        if self.decoder.is_small:
            return CompiledStep(one, many)
        return CompiledStep(one, executor=_decode_on_threads(one, self.num_threads()))

    def num_threads(self) -> int:
        """Returns the number of threads that decode.

        It is 1 unless examples have images of more than 64 KiB or of an unknown size; then it is `threads`, or the
        number of usable cores if that is None.
        """
        if self.decoder.is_small or not has_images(self.decoded_features):
            return 1
        return usable_cores() if self.threads is None else self.threads


@dataclass(frozen=True)
class Map(Step):
    """Applies a user's function, to an example or, as a link of a stream, to an item.

    Attributes:
        function: function from an item to its value.
        text: description of a stream's link in a fingerprint; empty, as the function is not part of it.
    """

    function: Function
    text: ClassVar[str] = ""

    def compile(self) -> CompiledStep:
        """Returns the function."""
        return CompiledStep(self.function)


@dataclass(frozen=True)
class Batch(Step):
    """Transforms lists of items to batches.

    Attributes:
        steps: transforms of each item, applied before; the first one decodes.
        pad: whether, and how, to pad arrays; see `features.stacking.stack`.
        fill: replacements of missing values.
    """

    steps: tuple[Step, ...]
    pad: bool | Padding = False
    fill: Fill = field(default_factory=Fill)

    def compile(self) -> CompiledStep:
        """Returns the function from a list of items to the batch. Large images are decoded on threads."""
        decoder, first = self._batch_decoder(), self.steps[0]
        threads = first.num_threads() if isinstance(first, Decode) else 1
        return self._compile_stacking(threads) if decoder is None else self._compile_decoding(decoder, threads)

    def _compile_decoding(self, decoder: ColumnarDecoder, threads: int) -> CompiledStep:
        """Compiles batches whose records are decoded to arrays together."""
        fills, finish_batch = self.fill.values, self._batch_finisher()
        executor = None
        if threads > 1:
            tasks = _tasks_of_single_item(lambda records: decoder.batch_in_parts(records, fills), finish_batch)
            executor = ThreadExecutor(tasks, threads, is_whole=True)
        return CompiledStep(lambda records: finish_batch(decoder.batch(records, fills)), executor=executor)

    def _compile_stacking(self, threads: int) -> CompiledStep:
        """Compiles batches that are stacked from single examples."""
        executor = None
        if threads > 1:
            decode, finish = decode_tasks(compose(self.steps[:1])), compose(self.steps[1:])
            tasks = _tasks_of_single_item(decode, lambda examples: self.stack(finish_each(finish, examples)))
            executor = ThreadExecutor(tasks, threads, is_whole=True)
        apply_steps = compose_many(self.steps)
        return CompiledStep(lambda items: self.stack(apply_steps(items)), executor=executor)

    def compile_check(self) -> Function:
        """Returns the function from one record that raises the error of decoding it, if any: that of the first step.

        An error of the batch itself has no record.
        """
        return self.steps[0].compile_check()

    @property
    def decoded_features(self) -> FeatureConnector | None:
        """The features of the examples in the batches; None if they are unknown."""
        return self.steps[0].decoded_features

    def _batch_decoder(self) -> ColumnarDecoder | None:
        """Returns the decoder of records to arrays of batches; None if batches are stacked from single examples."""
        first = self.steps[0]
        if len(self.steps) > 1 or not isinstance(first, Decode) or first.with_ids or isinstance(self.pad, Padding):
            return None
        return first.decoder.of_batches(pad=self.pad)

    def _batch_finisher(self) -> Function:
        """Returns the function that replaces labels -1 of a decoded batch, and applies `supervised_keys` to it."""
        relabel, pick = self.fill.relabeler(), picker(self.steps[0].supervised_keys)
        if relabel is return_unchanged:
            return pick
        return lambda batch: pick(relabel(batch))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "stack"}

    @functools.cached_property
    def stack(self) -> Callable[[list[Any]], Any]:
        """The function from values, the results of `steps`, to their batch."""
        pick = picker(self.steps[0].supervised_keys)
        fill, relabel = self.fill.nest(self.fill.values, pick), self.fill.relabeler(pick)
        return lambda values: relabel(stack(values, pad=self.pad, fill=fill))


def share_cores(processes: int, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Divides the cores among processes: sets the threads of steps that decode, unless a number was given.

    Args:
        processes: number of processes that apply the steps, at least 1.
        steps: the steps.

    Returns:
        The steps for each process.
    """
    first, *later_steps = steps
    if isinstance(first, Batch):
        first = replace(first, steps=share_cores(processes, first.steps))
    elif isinstance(first, MixedFirst):
        first_steps = tuple(share_cores(processes, (step,))[0] for step in first.first_steps)
        first = replace(first, first_steps=first_steps)
    elif isinstance(first, Decode) and first.threads is None:
        first = replace(first, threads=max(1, usable_cores() // processes))
    return first, *later_steps


def decode_only(names: Iterable[str], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Returns the steps that decode only the features with these names.

    Returns the given steps if they do more than decode whole examples, or if the names are not a proper subset of the
    features.
    """
    step, *later_steps = steps
    if later_steps or not isinstance(step, Decode) or (step.decoders, step.supervised_keys) != (None, None):
        return steps
    if not isinstance(step.features, FeaturesDict) or not set(names) < set(step.features):
        return steps
    return (replace(step, decoders=PartialDecoding(dict.fromkeys(names, True))),)


def _decode_on_threads(decode: Function, threads: int) -> Executor | None:
    """Returns the executor that decodes items one by one on several threads; None for one thread."""
    return ThreadExecutor(decode_tasks(decode, TASK_BYTES), threads) if threads > 1 else None


def _tasks_of_single_item(
    make_item_tasks: Callable[[Any], tuple[Any, Callable[[Any], Any]]], convert: Function
) -> MakeTasks:
    """Returns the `MakeTasks` of blocks with a single item: a function from [item] to its `Tasks`.

    Args:
        make_item_tasks: function from the item to (tasks, function from their results to a result).
        convert: function from this result to the value of the item.
    """

    def make_tasks(items: Any) -> Tasks:
        """Returns the tasks of the item, and the function from their results to the list of its value."""
        (item,) = items
        tasks, finish = make_item_tasks(item)
        return tasks, lambda results: [convert(finish(results))]

    return make_tasks


@dataclass(frozen=True)
class FillMissing(Step):
    """Replaces missing values of examples.

    Attributes:
        fill: the replacements.
        supervised_keys: the structure of the examples; see `Decode`.
    """

    fill: Fill
    supervised_keys: tuple[Any, ...] | None = None

    def compile(self) -> CompiledStep:
        """Returns the function from an example to the example without missing values."""
        return CompiledStep(self.fill.example_filler(picker(self.supervised_keys)))


@dataclass(frozen=True)
class MixedFirst(Step):
    """Applies the first step of each source of a mixture. Items and values are pairs (number of the source, item).

    Attributes:
        first_steps: the first step of each source.
        features: the features of all sources; None if the examples are mapped afterwards.
    """

    first_steps: tuple[Step, ...]
    features: FeatureConnector | None = None

    @property
    def decoded_features(self) -> FeatureConnector | None:
        """The features of all sources; None if the examples are mapped afterwards."""
        return self.features

    def compile(self) -> CompiledStep:
        """Returns the functions from pairs (source, item) to pairs (source, value).

        The items of each source in a list are decoded together, unless the images of a source are decoded on threads.
        """
        decode_each = [step.compile().one for step in self.first_steps]
        decode_many = [compose_many((step,)) for step in self.first_steps]

        def decode_pair(pair: tuple[int, Any]) -> tuple[int, Any]:
            """Returns the pair (source, value) of a pair (source, item)."""
            source, item = pair
            return source, decode_each[source](item)

        def decode_pairs(pairs: list[Any]) -> list[Any]:
            """Returns the pairs (source, value) of pairs (source, item)."""
            results: list[Any] = [None] * len(pairs)
            for source in {source for source, _ in pairs}:
                indices = [index for index, pair in enumerate(pairs) if pair[0] == source]
                for index, value in zip(indices, decode_many[source]([pairs[index][1] for index in indices])):
                    results[index] = source, value
            return results

        executor = _decode_on_threads(decode_pair, self.num_threads())
        return CompiledStep(decode_pair, many=decode_pairs, executor=executor)

    def num_threads(self) -> int:
        """Returns the maximum of the sources' numbers of threads."""
        return max(step.num_threads() for step in self.first_steps)


@dataclass(frozen=True)
class MixedRest(Step):
    """Applies the steps after the first one of each source of a mixture, to pairs (number of the source, value).

    Attributes:
        later_steps: the steps of each source after the first.
        key: name of the feature that gets the name of the source; None for no such feature.
        names: the names of the sources; None without `key`.
    """

    later_steps: tuple[tuple[Step, ...], ...]
    key: str | None = None
    names: tuple[bytes, ...] | None = None

    def compile(self) -> CompiledStep:
        """Returns the function from a pair (source, value) to the example."""
        functions = [compose(steps) if steps else None for steps in self.later_steps]
        key, names = self.key, self.names

        def finish(pair: tuple[int, Any]) -> Any:
            """Returns the example of a pair; raises a TypeError if it must be a dict and is not."""
            source, value = pair
            function = functions[source]
            if function is not None:
                value = function(value)
            if key is None or names is None:
                return value
            if not isinstance(value, dict):
                raise TypeError(f"source_key={key!r} needs examples that are dicts, got {type(value).__name__}.")
            return {**value, key: names[source]}

        return CompiledStep(finish)


def fill_of_steps(steps: tuple[Step, ...], fill: Any) -> Fill:
    """Returns the replacements for missing values in the items that the steps produce; see `build_fill`."""
    first, is_mapped = steps[0], len(steps) > 1
    if isinstance(first, Batch):
        return build_fill(None, fill, is_mapped=is_mapped)
    has_decoders = isinstance(first, Decode) and first.decoders is not None
    fill_values = build_fill(first.decoded_features, fill, is_mapped=is_mapped or has_decoders)
    return replace(fill_values, defaults=()) if is_mapped else fill_values  # functions may have replaced the defaults


def batch_of(
    steps: tuple[Step, ...],
    *,
    pad: bool,
    fill: Any,
    pad_value: Any = None,
    pad_side: str = "right",
    pad_length: Any = None,
) -> Batch:
    """Returns the step that applies `steps` to each item and makes batches of the results.

    For the other arguments and the errors, see `Dataset.batch`.
    """
    features = steps[0].decoded_features
    padding: bool | Padding = boolean("pad", pad)
    if pad_value is not None or pad_side != "right" or pad_length is not None:
        padding = Padding(_to_record_names(pad_value, features), pad_side, _to_record_names(pad_length, features))
        check_names("padding", {name.split("/")[0] for name in padding.names}, steps)
    fill_values = fill_of_steps(steps, fill)
    if padding and pad_value is None and _looks_like_pad_value(fill, features):
        warnings.warn(
            f"fill={fill!r} replaces missing values; arrays are padded with 0 and b''. Give pad_value={fill!r} to pad "
            "with it, or pad_value=0.",
            stacklevel=3,
        )
    return Batch(steps, padding, fill_values)


def _to_record_names(values: Any, features: FeatureConnector | None) -> Any:
    """Replaces names of features, the keys of a dict, by their names in the record; returns other values unchanged."""
    if not isinstance(values, Mapping) or not isinstance(features, FeaturesDict):
        return values
    return {record_name(name, features) if isinstance(name, str) else name: value for name, value in values.items()}


def _looks_like_pad_value(fill: Any, features: FeatureConnector | None) -> bool:
    """Returns whether `fill` may be meant as the value to pad with.

    That is so if it is not 0 or empty, and there are arrays of variable shape with values of its kind, numbers or text.
    """
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


def check_names(argument: str, names: Iterable[str], steps: tuple[Step, ...], *, have_length: bool = False) -> None:
    """Checks that features exist. Checks nothing if `map()` may have changed the features of the examples.

    Args:
        argument: description of the argument that names the features, for errors.
        names: names of features of the examples.
        steps: the steps that make the examples.
        have_length: whether the features must be sequences or arrays.

    Raises:
        FeatureValueError: the feature does not exist, or it has no length.
    """
    first, *later_steps = steps
    features = None if isinstance(first, Batch) else first.decoded_features
    if not isinstance(features, FeaturesDict) or not all(isinstance(step, MixedRest) for step in later_steps):
        return
    feature_names = [*features, *(step.key for step in later_steps if isinstance(step, MixedRest) and step.key)]
    for name in sorted(names):
        if name not in feature_names:
            hint = did_you_mean(name, feature_names)
            raise FeatureValueError(f"{argument} names feature {name!r}; there are {', '.join(feature_names)}.{hint}")
        shape = shape_of(features[name]) if have_length and name in features else None
        if shape == () or isinstance(shape, dict):
            raise FeatureValueError(
                f"{argument} names feature {name!r}: expected a sequence or an array, got {shape=}."
            )


def append_filler(steps: tuple[Step, ...], fill: Any, arrays: np.dtype[Any] | None = None) -> tuple[Step, ...]:
    """Appends a `FillMissing` step, if any value of the examples can be missing.

    Args:
        steps: the steps that make the examples.
        fill: the replacements; see `Dataset.batch`.
        arrays: single numbers of this dtype become arrays of shape (); None if no numbers do.

    Returns:
        The steps; unchanged if nothing can be missing, or if the examples are in batches.

    Raises:
        ValueError: `fill` is given, and the examples are in batches.
    """
    if any(isinstance(step, Batch) for step in steps):
        if fill is not None:
            raise ValueError("fill= is an argument of batch(), where the examples are put in batches before.")
        return steps
    fill_values = fill_of_steps(steps, fill)
    if arrays is not None:
        fill_values = replace(fill_values, arrays=mark_array_numbers(steps[0].decoded_features, arrays))
    step = FillMissing(fill_values, steps[0].supervised_keys)
    return steps if step.compile().one is return_unchanged else (*steps, step)


def warn_of_default_fill(steps: tuple[Step, ...]) -> None:
    """Logs a warning if batches, or single examples for a framework, have default integers where values are missing.

    It is logged once for the same features: they may be missing, but no record is read to see whether one is.

    Args:
        steps: those of `append_filler`, or with a `Batch`.
    """
    step = steps[0] if isinstance(steps[0], Batch) else steps[-1]
    fill = step.fill if isinstance(step, (Batch, FillMissing)) else Fill()
    values = [(shown_name(path), np.ravel(fill.values[path])[0]) for path in fill.defaults]
    if values:
        name, first_value = values[0]
        shown_values = ", ".join(f"{value} ({name!r})" for name, value in values)
        _warn_of_values(shown_values, name, not first_value if first_value.dtype.kind == "b" else 0)


@functools.cache  # warns once
def _warn_of_values(values: str, name: str, other: Any) -> None:
    """Warns of the values that stand for missing ones.

    Args:
        values: the values, each with the name of its feature.
        name: the name of one of the features, for the advice.
        other: another value of this feature.
    """
    _LOGGER.warning(
        "Where values are missing, a model gets these: %s. fill={%r: %r} of batch(), as_torch() and others gives "
        'another one. To leave such examples out, use materialize --where "%s IS NOT NULL", or filter() before '
        "batch().",
        values,
        name,
        other,
        name,
    )


def compose(steps: tuple[Step, ...]) -> Function:
    """Returns the function that applies one transform after the other to an item; the identity for no transforms."""
    return _apply_in_order(steps, [step.compile().one for step in steps])


def _apply_in_order(steps: tuple[Step, ...], functions: list[Function]) -> Function:
    """Returns the function that applies functions to an item, one after the other.

    Args:
        steps: the transforms.
        functions: the function of each transform from an item to its value.
    """
    if len(functions) <= 1:
        return functions[0] if functions else return_unchanged

    def apply_steps(item: Any) -> Any:
        """Applies all transforms; adds a note with the value to an error of a function given to `map()`."""
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

    return apply_steps


def finish_each(finish: Function, values: Iterable[Any]) -> list[Any]:
    """Calls a function for each value; its errors get a note with the value, as from `compose`.

    Raises:
        RuntimeError: a function given to `map()` raised StopIteration, which would end a plain `map` silently.
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
    """Returns the function from a list of items to the list of elements, which applies all transforms to each item."""
    program, has_map = Program.compile(steps), any(isinstance(step, Map) for step in steps)

    def apply_to_all(items: list[Any]) -> list[Any]:
        """Returns the elements of the items."""
        elements = chain.from_iterable(program.run(iter([items]), repeat(_BLOCK)))
        if program.finish is None:
            return list(elements)
        return finish_each(program.finish, elements) if has_map else list(map(program.finish, elements))

    return apply_to_all


@dataclass(frozen=True)
class Program:
    """A compiled sequence of transforms, from blocks of items to elements.

    Attributes:
        decode: the first transform, which is applied to whole blocks: by its executor ahead of the reader, or by its
            `many` in the reader's thread. None if `finish` applies it, too.
        finish: the other transforms, applied to each element when it is taken; None if there are none.
    """

    decode: CompiledStep | None
    finish: Function | None

    @classmethod
    def compile(cls, steps: tuple[Step, ...], threads: int | None = None) -> Program:
        """Compiles transforms.

        Args:
            steps: the transforms, in order.
            threads: applies all transforms, also functions given to `map()`, on that many threads; None applies only
                decoding on threads, if it is worthwhile.
        """
        compiled = [step.compile() for step in steps]
        first, functions = compiled[0], [step.one for step in compiled]
        apply_all = _apply_in_order(steps, functions)
        finish = _apply_in_order(steps[1:], functions[1:]) if len(steps) > 1 else None
        if threads is not None:
            make_tasks = decode_tasks(apply_all, TASK_BYTES)
            executor = ThreadExecutor(make_tasks, threads, is_whole=isinstance(steps[0], Batch), use_for_small=True)
            first, finish = CompiledStep(apply_all, executor=executor), None
        if first.executor is not None:
            return cls(first, lambda value: _finish_deferred(value, apply_all, finish))
        return cls(None, apply_all) if first.many is None else cls(first, finish)

    def run(self, blocks: Iterator[Items], counts: Iterator[int]) -> Iterator[Items]:
        """Yields lists of elements of `decode`, in order; the caller applies `finish` to each element.

        An executor chooses the sizes of the lists. Without `decode`, the blocks are yielded unchanged. If an item does
        not decode, the items of its list are yielded one by one, and the error is raised at the item.

        Args:
            blocks: blocks of items, in order.
            counts: number of items in each list that is decoded at once without an executor.
        """
        decode = self.decode
        if decode is None:
            yield from blocks
        elif decode.executor is not None:
            yield from decode.executor.run(blocks)
        elif decode.many is not None:
            for block in regroup(blocks, counts):
                try:
                    elements = decode.many(block)
                except UNDECODED:
                    for item in block:
                        yield [decode.one(item)]
                else:
                    yield elements


def _finish_deferred(value: Any, apply_all: Function, finish: Function | None) -> Any:
    """Applies the remaining transforms: all to a `Deferred` item, `finish` to an element.

    Args:
        value: an element of the first transform, or a `Deferred` item.
        apply_all: function that applies all transforms to an item.
        finish: function that applies the transforms after the first one to an element; None if there are none.
    """
    if type(value) is Deferred:
        return apply_all(value.item)
    return value if finish is None else finish(value)


def picker(nest: Any) -> Function:
    """Returns the function from an example to the features that a nest of their names selects, in its structure.

    It returns the whole example if `nest` is None.

    >>> picker(("image", "label"))({"image": 1, "label": 2, "id": 3})
    (1, 2)
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
