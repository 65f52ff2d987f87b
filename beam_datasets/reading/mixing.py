"""`mix()`, which combines datasets with equal features to a dataset, or streams to a stream."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, overload

import numpy as np

from beam_datasets.advice import names_foreign_arguments
from beam_datasets.arguments import integer, seed_number
from beam_datasets.features.trees import find_difference
from beam_datasets.reading.checkpoint import Identity, fingerprint
from beam_datasets.reading.dataset import Dataset
from beam_datasets.reading.elements.transforms import Batch, Decode, Map, MixedFirst, MixedRest, Raw, Step
from beam_datasets.reading.index.mixture import MAX_BLOCK, Mixture, Pattern, Schedule, quotas_of
from beam_datasets.reading.index.transforms import ENDLESS, MAX_ENDLESS
from beam_datasets.reading.stream_mixture import StreamMixture
from beam_datasets.reading.streams import Stream

MixSource: TypeAlias = "Dataset | Stream"
Datasets: TypeAlias = "Mapping[Dataset, float] | Iterable[tuple[Dataset, float]] | Iterable[Dataset]"
MixSources: TypeAlias = "Mapping[Any, float] | Iterable[tuple[MixSource, float]] | Iterable[MixSource]"
Weights: TypeAlias = "Mapping[Any, float] | Sequence[float]"

STOPS = ("first", "all", "never")


@overload
def mix(
    sources: Datasets,
    *,
    weights: Weights | None = ...,
    temperature: float | None = ...,
    schedule: Iterable[tuple[int, Weights]] | None = ...,
    seed: int = ...,
    stop: str = ...,
    source_key: str | None = ...,
    names: Iterable[str] | None = ...,
) -> Dataset: ...
@overload
def mix(
    sources: MixSources,
    *,
    weights: Weights | None = ...,
    temperature: float | None = ...,
    schedule: Iterable[tuple[int, Weights]] | None = ...,
    seed: int = ...,
    stop: str = ...,
    source_key: str | None = ...,
    names: Iterable[str] | None = ...,
) -> Dataset | Stream: ...
@names_foreign_arguments("mix")
def mix(
    sources: MixSources,
    *,
    weights: Weights | None = None,
    temperature: float | None = None,
    schedule: Iterable[tuple[int, Weights]] | None = None,
    seed: int = 0,
    stop: str = "first",
    source_key: str | None = None,
    names: Iterable[str] | None = None,
) -> Dataset | Stream:
    """Returns a mixture of datasets: their examples in the ratio of the weights.

    A mixture is a `Dataset` in read order: it has `len`, iteration, states, `shuffle`, `repeat`, `shard`, `batch`,
    `skip`, `take` and `map` like other datasets, and it can be mixed again. It consists of blocks, the shortest in
    which each source has a whole number of positions, its quota: 7 and 3 of 10 for weights of 0.7 and 0.3. The seed and
    the number of the block, but not the epoch, determine which positions belong to which source. Each source keeps its
    order; epoch n of the mixture reads epoch n of each source.

    Blocks have at most 1024 positions. If the ratio of the weights needs more, quotas are rounded.

    A mixture with a stream is a `Stream`, whose state contains the state of each source. It notices the end of a source
    only when it needs the next item of it, not at the last one. Sources that ended continue with their next epoch. Each
    worker mixes its own parts of the sources.

    Args:
        sources: dict from datasets or streams to weights above 0; or pairs (source, weight), as in
            `[(a, 0.7), (b, 0.3)]`; or only datasets or streams, with one of the next three arguments.
        weights: numbers above 0 in the order of the sources, or a dict from sources to numbers.
        temperature: a number above 0: the weight of a source is its length to the power of 1 / temperature. So 1 mixes
            in the ratio of the lengths, and larger numbers favour small sources.
        schedule: weights that change: pairs (position, weights), as in `[(0, [0.9, 0.1]), (1_000_000, [0.5, 0.5])]`.
            The weights hold from that position of each epoch of the mixture on. The first position is 0. A source
            with weight 0, or missing in a dict of weights, is left out.
        seed: any integer.
        stop: condition that ends an epoch: "first", after the last example of the source that ends first; "all", when
            all examples of each source were read, and sources that ended before are repeated (shuffled again, if they
            are shuffled); "never": all sources are repeated, and the mixture is endless.
        source_key: name of a feature to add to each example: the name of its source, as bytes.
        names: names of the sources, in their order. The default is the name of each dataset, with its slice if two
            datasets have the same name.

    Raises:
        TypeError: an argument has another type.
        ValueError: the number of sources is 0 or above 1024, one is empty or has `parallel()`, a weight is not above 0,
            names are not unique, or the features of two sources differ. Features are not compared if a source has a
            `map()` or is a stream. A schedule does not begin at 0, does not ascend, or never reads a source.
    """
    datasets, stages = _stages_of(sources, weights, temperature, schedule)
    _check_source_key(datasets, source_key)
    if stop not in STOPS:
        raise ValueError(
            f"stop must be 'first', 'all' or 'never', got {stop!r}. An epoch ends with the first source that ends, or "
            "when all have been read."
        )
    seed = seed_number(seed)
    fingerprints = [_fingerprint_of(source) for source in datasets]
    titles = _name_sources(fingerprints, names, need_unique=source_key is not None)
    for dataset, title in zip(datasets, titles):
        _check_source(dataset, title)
    patterns = tuple(Pattern(quotas_of(stage), seed) for _, stage in stages)
    starts = tuple(start for start, _ in stages)
    pattern = patterns[0] if len(patterns) == 1 else Schedule(starts, patterns)
    quotas = zip(*(pattern.quotas for pattern in patterns))
    parts = [
        [f"{title}={'/'.join(map(str, quota))}", source_fingerprint["operations"]]
        for title, quota, source_fingerprint in zip(titles, quotas, fingerprints)
    ]
    at = f", schedule={list(starts)}" if len(starts) > 1 else ""
    text = f"mix({', '.join(' | '.join(filter(None, words)) for words in parts)}{at}, seed={seed}, stop={stop})"
    mixed_identity = _merge_identities(datasets, fingerprints)
    if not all(isinstance(source, Dataset) for source in datasets):
        if stop == "all" and not all(stages[-1][1]):
            raise ValueError(
                "stop='all': expected a schedule in which each source is read to its end, got one whose last weights "
                "leave out a source. Give stop='first' or 'never', or weights."
            )
        streams = [_stream_of(source) for source in datasets]
        mixture = StreamMixture(streams, pattern, stop, mixed_identity, text, source_key=source_key, names=titles)
        return Stream(mixture)
    _check_agreement(datasets, titles)
    steps = _mix_steps(datasets, source_key, titles)
    operations = [dataset._operation for dataset in datasets]
    operation = Mixture(operations, pattern, stop, isinstance(steps[0], MixedFirst), text)
    return Dataset(operation, steps, source=None, lookup=None, identity=mixed_identity)


def _fingerprint_of(source: MixSource) -> dict[str, str]:
    """Returns the fingerprint of a dataset or stream, {name of the fact: text}; see `checkpoint.fingerprint`."""
    if isinstance(source, Stream):
        return source._stream_fingerprint()
    return fingerprint(**source._identity, operations=source._operation.texts)


def _merge_identities(sources: Sequence[MixSource], fingerprints: Sequence[Mapping[str, str]]) -> Identity:
    """Returns the identity of a mixture for fingerprints: its sources' identities, joined.

    For sources of the datasets 'a' and 'b', `dataset` is 'a + b'; `digest` is that of all their fingerprints. Options
    of `read_config` get the source's index, as in '0.cycle'.

    Args:
        sources: the sources of the mixture.
        fingerprints: the fingerprint of each source.
    """
    bases = [source._base if isinstance(source, Stream) else source for source in sources]
    return {
        "dataset": " + ".join(parts["dataset"] for parts in fingerprints),
        "version": " + ".join(parts["version"] for parts in fingerprints),
        "digest": hashlib.sha256(json.dumps(fingerprints, sort_keys=True).encode()).hexdigest(),
        "slices": [slice_text for base in bases for slice_text in base._identity["slices"]],
        "read_config": {
            f"{i}.{name}": value
            for i, base in enumerate(bases)
            for name, value in base._identity["read_config"].items()
        },
    }


def _check_source(source: MixSource, title: str) -> None:
    """Checks that a source can be mixed.

    Args:
        source: the source.
        title: its name, for errors.

    Raises:
        ValueError: the source is empty, or has `parallel()`, or is a stream with `repeat()`.
    """
    if isinstance(source, Stream):
        if source._epochs != 1:
            raise ValueError(
                f"source {title!r} has repeat(): give mix(..., stop='all') or 'never', or repeat the mixture."
            )
        return
    if not source:
        raise ValueError(f"source {title!r} is empty: expected at least one example. Leave it out of mix().")
    if (source._processes, source._threads) != (None, None):
        raise ValueError(f"source {title!r} has parallel(), which a mixture has for all. Use mix(...).parallel().")


def _stream_of(source: MixSource) -> Stream:
    """Converts a source to a stream. One epoch of the mixture reads one epoch of the stream."""
    stream = source if isinstance(source, Stream) else Stream(source)
    return Stream(stream._base._as_epoch(), stream._links)


def _stages_of(
    sources: Any, weights: Any, temperature: Any, schedule: Any
) -> tuple[list[Any], list[tuple[int, list[float]]]]:
    """Returns the sources, and pairs (position, weight of each source from this position on), for arguments of `mix`.

    For the arguments, see `mix`.

    Raises:
        TypeError: an argument has another type, or not exactly one of them gives weights.
        ValueError: the number of sources or a weight is out of range.
    """
    if isinstance(sources, (Dataset, Stream)):
        raise TypeError(f"mix(): expected several sources, as in mix([a, b], weights=[0.7, 0.3]), got {sources!r}.")
    items = list(sources.items() if isinstance(sources, Mapping) else sources)
    weight_arguments = [argument for argument in (weights, temperature, schedule) if argument is not None]
    if items and all(isinstance(item, (Dataset, Stream)) for item in items):
        datasets = items
        if len(weight_arguments) != 1:
            raise TypeError(
                "mix() of datasets without weights: expected one of weights=[...], temperature= and schedule=, got "
                f"{len(weight_arguments)} of them. Give one, or a dict from datasets to weights."
            )
    else:
        for item in items:
            if not isinstance(item, (Dataset, Stream)):  # the error names it, and no dataset beside it
                _check_pair(item)
        datasets = [_check_pair(item)[0] for item in items]
        if weight_arguments:
            raise TypeError("mix() of datasets with weights: expected no weights=, temperature= or schedule=, got one.")
        weights = [weight for _, weight in items]
    if not 1 <= len(datasets) <= MAX_BLOCK:
        raise ValueError(f"mix() takes from 1 to {MAX_BLOCK} sources, got {len(datasets)}.")
    if schedule is not None:
        return datasets, _schedule_of(schedule, datasets)
    if temperature is not None:
        return datasets, [(0, _weights_by_length(datasets, temperature))]
    checked_weights = _weights_of(weights, datasets)
    if not all(checked_weights):
        raise ValueError("the weight of a source must be above 0 and finite, got 0. Leave it out of mix().")
    return datasets, [(0, checked_weights)]


def _check_pair(item: Any) -> tuple[MixSource, Any]:
    """Checks and returns a pair (source, weight).

    Raises:
        TypeError: the item is not such a pair.
    """
    if not (isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (Dataset, Stream))):
        raise TypeError(
            "mix() takes a dict from datasets to weights, or pairs (dataset, weight), or datasets with weights=, got "
            f"{item!r}. Names are an argument of their own: bd.mix([a, b], weights=[1, 1], names=['a', 'b'], "
            "source_key='source')."
        )
    return item


def _weights_of(weights: Any, datasets: Sequence[Any]) -> list[float]:
    """Checks the argument `weights` and returns the weight of each source, at least 0.

    A source that is missing in a dict of weights has weight 0.

    Args:
        weights: a list of numbers, or a dict from sources to numbers.
        datasets: the sources of the mixture.

    Raises:
        TypeError: a weight is not a number.
        ValueError: a weight is out of range, or belongs to no source, or their number differs.
    """
    if isinstance(weights, Mapping):
        for dataset in weights:
            if dataset not in datasets:
                raise ValueError(f"weights: expected sources of mix(), got {dataset!r}.")
        weights = [weights.get(dataset, 0) for dataset in datasets]
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise TypeError(f"weights: expected a number for each source, such as [0.7, 0.3], got {weights!r}.")
    numbers = list(weights)
    if len(numbers) != len(datasets):
        raise ValueError(f"weights: expected one for each of {len(datasets)} sources, got {len(numbers)}.")
    for weight in numbers:
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
            raise TypeError(f"the weight of a source must be a number, got {weight!r}.")
        if not 0 <= weight < float("inf"):
            raise ValueError(
                f"the weight of a source must be above 0 and finite, got {weight!r}. Leave it out of mix()."
            )
    return list(map(float, numbers))


def _weights_by_length(datasets: Sequence[Any], temperature: Any) -> list[float]:
    """Returns the length of each source, divided by the greatest length, to the power of 1 / temperature.

    Raises:
        TypeError: the temperature is not a number.
        ValueError: the temperature is not above 0, or a source is endless or a stream.
    """
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float, np.integer, np.floating)):
        raise TypeError(f"temperature must be a number, got {temperature!r}.")
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature!r}.")
    lengths = [ENDLESS if isinstance(source, Stream) else source._operation.length for source in datasets]
    if ENDLESS in lengths:
        raise ValueError(
            "temperature: expected sources with a length, got a stream or an endless one. Give weights=, or call "
            "repeat() after mix()."
        )
    largest = max(1, *lengths)  # so that powers do not overflow
    powers = [float((length / largest) ** (1 / temperature)) for length in lengths]
    # A power that a float rounds to 0 would leave its source out.
    return [max(power, sys.float_info.min) if length else 0.0 for power, length in zip(powers, lengths)]


def _schedule_of(schedule: Any, datasets: Sequence[Any]) -> list[tuple[int, list[float]]]:
    """Checks a schedule and returns its pairs (position, weight of each source).

    Args:
        schedule: the argument of `mix`.
        datasets: the sources of the mixture.

    Raises:
        TypeError: an item has another type.
        ValueError: positions do not ascend from 0, or a position or a source has only weights of 0.
    """
    pairs = list(schedule)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise TypeError(
                f"schedule: expected pairs (position, weights), got {pair!r}. Give a list, such as [(0, [0.9, 0.1]), "
                "(1000, [0.5, 0.5])]."
            )
    stages = [
        (integer("a position of schedule", start, at_least=0, at_most=MAX_ENDLESS), _weights_of(weights, datasets))
        for start, weights in pairs
    ]
    starts = [start for start, _ in stages]
    if starts[:1] != [0] or sorted(set(starts)) != starts:
        raise ValueError(f"schedule: expected ascending positions from 0 on, got {starts}.")
    if not all(any(weights) for _, weights in stages):
        raise ValueError("schedule: expected a weight above 0 at each position, got only weights of 0.")
    for dataset, weights in zip(datasets, zip(*(weights for _, weights in stages))):
        if not any(weights):
            raise ValueError(f"schedule: expected a weight above 0 of each source, got none of {dataset!r}.")
    return stages


def _name_sources(
    fingerprints: Sequence[Mapping[str, str]], names: Iterable[str] | None, *, need_unique: bool
) -> list[str]:
    """Returns a name for each source: the given names, or those of the datasets, with their slices if not unique.

    Args:
        fingerprints: fingerprint of each source.
        names: the argument of `mix`.
        need_unique: whether default names must be unique.

    Raises:
        TypeError: a name is not a str.
        ValueError: the number of names is not that of the sources, or names are not unique.
    """
    if names is not None:
        source_names = list(names)
        if not all(isinstance(name, str) for name in source_names):
            raise TypeError(f"names must be a str for each source, got {source_names!r}.")
        if len(source_names) != len(fingerprints):
            raise ValueError(f"names must be one for each of {len(fingerprints)} sources, got {len(source_names)}.")
    else:
        source_names = [parts["dataset"] for parts in fingerprints]
        if len(set(source_names)) < len(source_names):
            source_names = [f"{parts['dataset']}:{parts['slices']}" for parts in fingerprints]
    if len(set(source_names)) < len(source_names) and (need_unique or names is not None):
        raise ValueError(f"names must differ, got {source_names!r}. Give mix(..., names=[...]).")
    return source_names


def _check_agreement(datasets: Sequence[Dataset], names: Sequence[str]) -> None:
    """Checks that the examples of all sources have the same features, unless a source has a `map()`.

    Raises:
        ValueError: the features of two sources differ.
    """
    if any(isinstance(step, (Map, MixedRest)) for dataset in datasets for step in dataset._steps[1:]):
        return
    (first, name), *remaining = zip(datasets, names)
    for dataset, other in remaining:
        problem = None
        kind, other_kind = _describe_items(first._steps[0]), _describe_items(dataset._steps[0])
        if kind != other_kind:
            problem = f"the first yields {kind}, the second {other_kind}"
        elif first.features is not None and dataset.features is not None:
            problem = find_difference(first.features, dataset.features)
        if problem:
            raise ValueError(
                f"sources {name!r} and {other!r} cannot be mixed: {problem}. Bring both to one form with decoders= or "
                "map(); examples of map() are not compared."
            )


def _describe_items(step: Step) -> str:
    """Describes the items that a first step makes, such as "batches of examples with tfds_id"."""
    if isinstance(step, Batch):
        return f"batches of {_describe_items(step.steps[0])}"
    if isinstance(step, Raw):
        return "records"
    if step.supervised_keys is not None:
        return f"tuples of {step.supervised_keys}"
    return "examples with tfds_id" if step.with_ids else "examples"


def _check_source_key(sources: Sequence[Dataset | Stream], source_key: object) -> None:
    """Checks `source_key`, the name of the feature that gets the name of the source; None for no such feature.

    Raises:
        TypeError: it is not a str.
        ValueError: it is a feature of a source.
    """
    if source_key is None:
        return
    if not isinstance(source_key, str):
        raise TypeError(f"source_key must be a str, got {source_key!r}.")
    if any(source_key in (source.features or ()) for source in sources):
        raise ValueError(f"source_key is {source_key!r}, a feature of the sources: give another name.")


def _mix_steps(datasets: Sequence[Dataset], source_key: str | None, names: Sequence[str]) -> tuple[Step, ...]:
    """Returns the steps of a mixture: the sources' steps if they are equal, otherwise steps that depend on the source.

    Args:
        datasets: the sources.
        source_key: name of the feature for the name of the source; None for no such feature.
        names: names of the sources.
    """
    first = datasets[0]
    if source_key is None and all(_have_equal_results(first._steps, dataset._steps) for dataset in datasets):
        return first._steps
    first_steps = tuple(dataset._steps[0] for dataset in datasets)
    is_mapped = any(len(dataset._steps) > 1 for dataset in datasets)
    encoded = None if source_key is None else tuple(name.encode() for name in names)
    later_steps = tuple(dataset._steps[1:] for dataset in datasets)
    return MixedFirst(first_steps, None if is_mapped else first.features), MixedRest(later_steps, source_key, encoded)


def _have_equal_results(one: tuple[Step, ...], other: tuple[Step, ...]) -> bool:
    """Returns whether steps have the same results. Features are equal if only their documentation differs."""
    if isinstance(one[0], Decode) and isinstance(other[0], Decode):
        other = (replace(other[0], features=one[0].features), *other[1:])
    return one == other
