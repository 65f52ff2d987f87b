"""Mixtures of streams: items of several streams in fixed proportions, read in order.

The pattern of a `Mixture` assigns a source to each position. The number of items of a stream is known only when they
are read, so the state of the mixture contains the state of each stream.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from beam_datasets.arguments import shown
from beam_datasets.errors import StateError
from beam_datasets.features.stacking import return_unchanged
from beam_datasets.reading.blocks import growing_sizes
from beam_datasets.reading.checkpoint import Identity, advice_for, parse_number
from beam_datasets.reading.elements.links import Item
from beam_datasets.reading.elements.transforms import Map, Step
from beam_datasets.reading.index.division import MAX_POSITION
from beam_datasets.reading.index.mixture import Pattern, Schedule
from beam_datasets.reading.index.transforms import ENDLESS, Operation
from beam_datasets.reading.stream_checkpoint import HINT, StreamState, Unit, unit_of
from beam_datasets.reading.stream_iterator import StreamIterator
from beam_datasets.reading.streams import Stream

_MIN_POSITIONS, _MAX_POSITIONS = 1 << 4, 1 << 12  # sources computed at once: few at first


@dataclass(frozen=True)
class Ordered:
    """A placeholder for an operation, which provides the texts of a fingerprint for an order without positions.

    Attributes:
        texts: descriptions of the operations.
        length: `ENDLESS`, as the number of items is unknown.
        children: (), as the streams are not operations.
    """

    texts: tuple[str, ...]
    length: int = ENDLESS
    children: tuple[Operation, ...] = ()


@final
class StreamMixture:
    """Items of several streams, as the base of a `Stream`. It is immutable."""

    def __init__(
        self,
        sources: Sequence[Stream],
        pattern: Pattern | Schedule,
        stop: str,
        identity: Identity,
        text: str,
        *,
        source_key: str | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """Mixes streams.

        Args:
            sources: the streams, at least one.
            pattern: the source of each position; it has the same number of sources.
            stop: condition that ends an epoch: "first" source has ended, "all" sources have ended, or "never".
            identity: the data of all streams, for fingerprints.
            text: description of the mixture, for a state's fingerprint.
            source_key: name of the feature for the name of the source; None for no such feature.
            names: names of the sources.
        """
        self.sources = tuple(sources)
        self.pattern = pattern
        self.stop = stop
        self.source_key = source_key
        self.names = tuple(names)
        self._identity = identity
        self._operation = Ordered((text,))

    @property
    def features(self) -> Any:
        """The features of the first source's examples."""
        return self.sources[0].features

    @property
    def _steps(self) -> tuple[Step, ...]:
        """The steps of the first source, followed by a `Map`, as the other sources may have other features."""
        return *self.sources[0]._steps, Map(return_unchanged)

    def __repr__(self) -> str:
        return f"<{self._operation.texts[0]}>"

    def _checked_epoch(self, epoch: int) -> int:
        """Returns the epoch: iteration can begin with any."""
        return epoch

    def _pass_of(self, epoch: int) -> int:
        """Returns the number of the pass that reads an epoch; see `Dataset._pass_of`."""
        return epoch

    def _in_pass(self, number: int) -> tuple[StreamMixture, int]:
        """Returns the mixture and the epoch to begin with in a pass of an adapter; see `Dataset._in_pass`."""
        return self, number

    def shuffle(self, seed: int, window: int | None = None) -> StreamMixture:
        """Raises a ValueError, because a mixture of streams cannot be shuffled; its sources can."""
        raise ValueError(
            f"shuffle(seed={seed}): expected a dataset, got a mixture of streams, which has no positions. Shuffle its "
            "sources."
        )

    def shard(self, worker_index: int, worker_count: int, *, block: int | None = None) -> StreamMixture:
        """Returns the mixture of one worker's parts of the sources. For the arguments, see `Dataset.shard`."""
        return self._with_sources([source.shard(worker_index, worker_count, block=block) for source in self.sources])

    def _part_of_worker(self, worker_index: int, worker_count: int, block: int | None) -> StreamMixture:
        """Returns the mixture of one worker's parts of the sources; see `Stream._part_of_worker`."""
        return self._with_sources(
            [source._part_of_worker(worker_index, worker_count, block) for source in self.sources]
        )

    def _as_epoch(self) -> StreamMixture:
        """Returns the mixture itself, which has no `repeat()`."""
        return self

    def _iterate_stream(self, stream: Stream, epoch: int) -> StreamIterator:
        """Returns the iterator of a stream of this mixture, at the beginning of an epoch."""
        return MixedStreamIterator(stream, epoch)

    def _with_sources(self, sources: Sequence[Stream]) -> StreamMixture:
        """Returns a mixture of other streams with the pattern, names and options of this one."""
        names = {"source_key": self.source_key, "names": self.names}
        return StreamMixture(
            sources,
            self.pattern,
            self.stop,
            self._identity,
            self._operation.texts[0],
            **names,  # type: ignore[arg-type]
        )

    def without_sources(self, state: object) -> Any:
        """Checks the states of the sources in a state, and returns the state without them.

        Raises:
            StateError: the state of a source is missing or malformed, or was saved at another time than the mixture's.
        """
        if not isinstance(state, Mapping) or not {"check", "sources", "sources_check"} <= set(state):
            raise StateError(
                expected="a state of a mixture of streams, with sources",
                got=shown(state),
                advice=advice_for(state, HINT),
            )
        sources = state["sources"]
        is_list = isinstance(sources, (list, tuple)) and len(sources) == len(self.sources)
        if not is_list or not all(map(_is_source, sources)):
            raise StateError(
                expected=f"a state for each of {len(self.sources)} sources",
                got=shown(sources),
                field="sources",
                advice=HINT,
            )
        if state["sources_check"] != _sources_check(state["check"], sources):
            raise StateError(
                f"the state is damaged: expected sources with the checksum {shown(state['sources_check'])}",
                field="sources",
                advice="Start from the beginning, or from another state.",
            )
        return {name: value for name, value in state.items() if name not in ("sources", "sources_check")}

    def add_source_name(self, source: int, value: Any) -> Any:
        """Adds the name of its source to an item as the feature `source_key`, if the mixture has one.

        Raises:
            TypeError: the item is not a dict.
        """
        if self.source_key is None:
            return value
        if not isinstance(value, dict):
            raise TypeError(
                f"source_key={self.source_key!r} needs examples that are dicts, got {type(value).__name__}."
            )
        return {**value, self.source_key: self.names[source].encode()}

    def unit(self, value: Any) -> Unit:
        """Checks and returns the unit of an item, a dict with `source`, `epoch` and `of`, from a state.

        Raises:
            StateError: the value is not such a unit.
        """
        if not isinstance(value, Mapping) or set(value) != {"source", "epoch", "of"}:
            raise StateError(expected="an item of a source", got=shown(value), field="held", advice=HINT)
        source = parse_number("a held source", value["source"], len(self.sources) - 1)
        stream = self.sources[source]
        inner = unit_of(value["of"], stream._origins()[-1], MAX_POSITION, stream._unit_of_base)
        return {"source": source, "epoch": parse_number("a held epoch", value["epoch"], MAX_POSITION), "of": inner}


def _is_source(source_state: Any) -> bool:
    """Returns whether a value has the form of an item of `sources`: a dict with `state`, of a stream, and `ended`."""
    if (
        not isinstance(source_state, Mapping)
        or set(source_state) != {"state", "ended"}
        or not isinstance(source_state["ended"], bool)
    ):
        return False
    state = source_state["state"]
    checks = [state.get("check"), state.get("sources_check", "")] if isinstance(state, Mapping) else [None]
    return all(isinstance(check, str) for check in checks)


def _sources_check(check: Any, sources: Sequence[Any]) -> str:
    """Returns a hash of the checksum of a state, the checksums of its sources' states, and their fields `ended`."""
    states = [
        [source_state["ended"], source_state["state"]["check"], source_state["state"].get("sources_check", "")]
        for source_state in sources
    ]
    return hashlib.sha256(json.dumps([shown(check), states]).encode()).hexdigest()[:24]


class MixedStreamIterator(StreamIterator):
    """Iterates over a stream whose base is a mixture of streams."""

    def _begin(self, epoch: int) -> None:
        """Moves the iterator and the iterators of all sources to the beginning of an epoch."""
        self._sources: list[StreamIterator] = []
        super()._begin(epoch)
        self._sources = [source.iterate(epoch=epoch) for source in self._mixture.sources]
        self._has_ended = [False] * len(self._sources)
        self._has_items = [False] * len(self._sources)

    @property
    def _mixture(self) -> StreamMixture:
        """The base of the stream."""
        mixture: Any = self._stream._base
        return mixture  # type: ignore[no-any-return]

    def _open_base(self) -> Iterator[Item]:
        """Returns the iterator over the items of the mixture, from the position on."""
        if self._reader is None:
            self._reader = self._mixed_items()
            self._items = self._reader
        return self._items

    def _mixed_items(self) -> Iterator[Item]:
        """Yields the items of the mixture from the position on."""
        for source in self._source_order():
            item = self._next_of(source)
            if item is None:
                return
            yield item

    def _source_order(self) -> Iterator[int]:
        """Yields the source of each position, from the current one on."""
        start = self._position
        for count in growing_sizes(_MIN_POSITIONS, _MAX_POSITIONS):
            yield from self._mixture.pattern.at(np.arange(start, start + count))[0].tolist()
            start += count

    def _next_of(self, source: int) -> Item | None:
        """Returns the next item of a source, from its next epoch if it has ended; None at the end of the mixture.

        Raises:
            ValueError: the source has no items in an epoch.
        """
        mixture = self._mixture
        while (item := self._sources[source]._next_item()) is None:
            self._has_ended[source] = True
            if mixture.stop == "first" or (mixture.stop == "all" and all(self._has_ended)):
                return None
            epoch = self._sources[source]._epoch
            if not self._has_items[source]:
                raise ValueError(
                    f"mix(): expected items of source number {source} in epoch {epoch}, got none. Leave it out, let "
                    "its filter() pass more items, or divide it among fewer workers."
                )
            self._sources[source] = mixture.sources[source].iterate(epoch=epoch + 1)
            self._has_items[source] = False
        self._has_items[source] = True
        unit, value = item
        mixed_unit = {"source": source, "epoch": self._sources[source]._epoch, "of": unit}
        return mixed_unit, mixture.add_source_name(source, value)

    def _fetch_base_items(self, units: Sequence[Unit]) -> list[Any]:
        """Returns the items of the mixture with these units.

        Args:
            units: references to items of sources, as in saved states; see `stream_checkpoint`.
        """
        values: dict[str, Any] = {}
        for source, epoch in {(unit["source"], unit["epoch"]) for unit in units}:
            source_units = [unit for unit in units if (unit["source"], unit["epoch"]) == (source, epoch)]
            with self._mixture.sources[source].iterate(epoch=epoch) as iterator:
                for unit, value in zip(source_units, iterator._fetch_items([unit["of"] for unit in source_units])):
                    values[json.dumps(unit)] = self._mixture.add_source_name(source, value)
        return [values[json.dumps(unit)] for unit in units]

    def get_state(self) -> dict[str, Any]:
        """Returns the position; `sources` has the state of each source, and whether the source has ended before."""
        sources = [
            {"state": source.get_state(), "ended": has_ended}
            for source, has_ended in zip(self._sources, self._has_ended)
        ]
        state = super().get_state()
        return {**state, "sources": sources, "sources_check": _sources_check(state["check"], sources)}

    def _restore(self, saved_state: StreamState, state: Mapping[str, Any]) -> None:
        """Moves to a saved position, and each source to its own; see `StreamIterator._restore` for the arguments."""
        super()._restore(saved_state, state)
        for number, source_state in enumerate(state["sources"]):
            self._sources[number].set_state(source_state["state"])
            self._has_ended[number] = source_state["ended"]
            self._has_items[number] = True

    def close(self) -> None:
        """Closes the open files; `next()` opens them again."""
        self._reader = None
        for source in self._sources:
            source.close()
