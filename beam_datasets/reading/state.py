"""The saved state of a reader: where it is, and what it must be reading for that to mean anything.

A state is a small dict that JSON can hold, of the same few hundred bytes whatever the dataset's size:
`{"format": 1, "epoch": 2, "position": 4711, "fingerprint": {"dataset": "digits", "version": "1.0.0", ...}}`.
The position counts examples in the read order of the epoch. Where workers were in the middle of their blocks, `blocks`
says more: of each, how many workers there were, the block, and how many of its examples each had taken; and, where that
is read on by others, how many of what was left they have taken. The number of workers, batch sizes and threads may
change. The fingerprint names all that the order is a function of, in words where they
are few, so that a state that does not fit can say why.

The format is read by later versions: a change to the meaning of a field needs a new number of format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets.arguments import integer, shown
from beam_datasets.errors import StateError

FORMAT, FORMAT_WITH_BLOCKS = 1, 2
FORMATS_OF_STREAMS = (3, 4)
"""Formats of the states of streams, see `reading.stream_state`: without and with a checksum."""

MAX_POSITION = 1 << 61
"""Above all positions, epochs and numbers of workers, so that sums of a few of them fit 64 bits."""

MAX_PARTIALS = 100
"""Divisions of workers that can each be in the middle of blocks of the one before."""

_FIELDS = {"format", "epoch", "position", "fingerprint"}
_MAX_PART = 120  # characters of a part of a fingerprint that are kept in words
_HINT = "Restore it with the dataset, split and configuration that it was saved with, or begin anew."


def fingerprint(
    *,
    dataset: str,
    version: str,
    digest: str,
    slices: Sequence[tuple[str, int, int]],
    read_config: Mapping[str, int | str],
    operations: Sequence[str] = (),
) -> dict[str, str]:
    """Returns what a reader's order depends on, by name, each in at most about a hundred characters.

    Args:
        dataset: name, with the config where there is one.
        version: of the dataset.
        digest: of the published version, so that another one of the same name is noticed.
        slices: the (split, start, stop) that the split expression stands for, in its order.
        read_config: what of the read config the order depends on (`ReadConfig.order_key`).
        operations: what is done to the order, one after the other, like `shuffle(window=1000, seed=3)`. Operations that
            keep it are left out, so that they may change.

    >>> fingerprint(dataset="digits", version="1.0.0", digest="9f3a", slices=[("train", 0, 90)],
    ...             read_config={"cycle": 16, "block": 16})["slices"]
    'train[0:90]'
    """
    parts = {
        "dataset": dataset,
        "version": version,
        "digest": digest,
        "slices": " + ".join(f"{split}[{start}:{stop}]" for split, start, stop in slices),
        "read_config": ", ".join(f"{name}={value}" for name, value in sorted(read_config.items())),
        "operations": " | ".join(operations),
    }
    return {name: _brief(text) for name, text in parts.items()}


@dataclass(frozen=True)
class ReadState:
    """Where a reader is.

    Attributes:
        position: how many examples of the epoch were read, at least 0.
        epoch: how many epochs were read before, at least 0.
        fingerprint: what the order depends on, as `fingerprint()` gives it.
        partials: where workers are in the middle of blocks from the position on; each with a position in what is left,
            where the next one's blocks begin, or reading goes on.
    """

    position: int = 0
    epoch: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    partials: tuple[tuple[Partial, int], ...] = ()

    def __post_init__(self) -> None:
        for name, most in (("position", 1 << 62), ("epoch", MAX_POSITION)):
            object.__setattr__(self, name, checked(f"the state's {name}", getattr(self, name), most))
        object.__setattr__(self, "fingerprint", checked_fingerprint(self.fingerprint))
        if len(self.partials) > MAX_PARTIALS:
            raise StateError(
                f"the state's blocks: expected at most {MAX_PARTIALS}, got {len(self.partials)}. Save it between "
                "blocks."
            )
        for _, count in self.partials:
            checked("the position in what is left", count, MAX_POSITION)

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict that JSON can hold."""
        state = {
            "format": FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "fingerprint": dict(self.fingerprint),
        }
        if self.partials:
            blocks = [[partial.worker_count, partial.block, partial.taken, count] for partial, count in self.partials]
            state |= {"format": FORMAT_WITH_BLOCKS, "blocks": blocks}
        return state

    @classmethod
    def from_dict(cls, state: object) -> ReadState:
        """Returns the state of a dict that `to_dict()` gave, also after a way through JSON.

        Raises:
            StateError: it is not such a dict, or of a later format.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a state is a dict with {_named(_FIELDS)}, got {shown(state)}. {_HINT}")
        number = format_of(state, FORMAT)
        if number in FORMATS_OF_STREAMS:
            raise StateError(
                "the state is of a stream, behind filter(), flat_map(), batch_by_length() or pack(), and this dataset "
                f"has none of them. {_HINT}"
            )
        if number not in (FORMAT, FORMAT_WITH_BLOCKS):
            raise StateError(
                f"the state has format {shown(state['format'])}, but this version of beam_datasets reads format "
                f"{FORMAT_WITH_BLOCKS} and older only. Restore it with the version that saved it."
            )
        fields = _FIELDS | {"blocks"} if number == FORMAT_WITH_BLOCKS else _FIELDS
        if set(state) != fields:
            raise StateError(f"a state is a dict with {_named(fields)}, got one with {_named(set(state))}. {_HINT}")
        return cls(state["position"], state["epoch"], state["fingerprint"], _partials_of(state.get("blocks", [])))

    def check(self, fingerprint: Mapping[str, str], *, num_examples: int) -> None:
        """Checks that the state fits a reader with this fingerprint and this many examples an epoch.

        Raises:
            StateError: it does not; the message says what differs.
        """
        check_fingerprint(self.fingerprint, fingerprint)
        if self.position > num_examples:
            raise StateError(
                f"the state's position is {self.position}, but an epoch has {num_examples} examples. {_HINT}"
            )


def format_of(state: Mapping[Any, Any], default: int) -> int | None:
    """Returns the number of a state's format, `default` if it has none, None if it is not an integer."""
    number = state.get("format", default)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def checked(name: str, value: Any, most: int) -> int:
    """Returns a number of a state, in [0, most].

    Raises:
        StateError: it is not an integer in this range.
    """
    try:
        return integer(name, value, at_least=0, at_most=most)
    except (TypeError, ValueError) as error:
        raise StateError(f"{error} {_HINT}") from None


def checked_fingerprint(value: Any) -> dict[str, str]:
    """Returns a saved fingerprint.

    Raises:
        StateError: it is not a dict of texts.
    """
    if not isinstance(value, Mapping):
        raise StateError(f"the state's fingerprint must be a dict, got {shown(value)}. {_HINT}")
    for name, text in value.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise StateError(f"the state's fingerprint: expected text, got {shown({name: text})}. {_HINT}")
    return dict(value)


def _partials_of(blocks: Any) -> tuple[tuple[Partial, int], ...]:
    """Returns the partials of a state's `blocks`.

    Raises:
        StateError: it is not a list of lists of four numbers.
    """
    try:
        if not isinstance(blocks, (list, tuple)):
            raise TypeError(shown(blocks))
        return tuple((Partial(*numbers), count) for *numbers, count in blocks)
    except (TypeError, ValueError) as error:
        raise StateError(f"the state's blocks: expected lists of four numbers, got {error}. {_HINT}") from error


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Checks that a saved fingerprint is that of a reader.

    Raises:
        StateError: it is not; the message names what differs.
    """
    differences = [
        f"{name} was {_shown(saved, name)} and is {_shown(now, name)} now"
        for name in dict.fromkeys([*now, *saved])
        if saved.get(name) != now.get(name)
    ]
    if differences:
        raise StateError(f"the state was saved while reading something else: {'; '.join(differences)}. {_HINT}")


def _brief(text: str) -> str:
    """The text where it is short, else its beginning and its hash."""
    if len(text) <= _MAX_PART:
        return text
    return f"{text[: _MAX_PART - 40]}... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:24]})"


def _named(names: set[Any]) -> str:
    """Returns the names of a state's fields, of which a damaged one may have any number."""
    first = sorted(map(shown, names))[: 2 * len(_FIELDS)]
    return ", ".join(first) or "nothing in it"


def _shown(parts: Mapping[str, str], name: str) -> str:
    return shown(parts[name]) if name in parts else "not there"


# ------------------------------------------------------------------------------------------------------------ positions

# How workers divide positions, so that neither the order nor a batch depends on how many they are.
# All workers share one stream of positions: 0, 1, 2, ... in the read order of the first epoch, and on without a seam in
# the next ones (position p of the stream is position p mod n of epoch p // n, for n examples an epoch). A worker takes
# every `worker_count`-th block of it. With blocks of the size of a worker's batch, or of a part of it that goes into it
# evenly, the batches that W workers make at a step are together the next part of the stream, for every W.
# A block is a few ranges of neighbouring records, and a worker reads no others. By single examples, W workers would
# read nearly every byte W times.
# What the workers have taken in step is a prefix of the stream where they are between blocks, so one number says where
# they are. In the middle of blocks it takes three more: how many workers, the block, and what each has taken of its
# one. Any other number of workers goes on from there.

Ints = NDArray[np.int64]

DEFAULT_BLOCK = 16
"""Examples in a row that a worker takes by default; as many as are read in a row of a file by default."""

_MIN_ROUNDS = 64  # below, blocks are smaller


@dataclass(frozen=True)
class Partial:
    """Where workers are in the middle of blocks.

    Attributes:
        worker_count: how many there are, at least 1.
        block: how many positions in a row each takes.
        taken: how many of them each has taken, in [1, block).
    """

    worker_count: int
    block: int
    taken: int

    def __post_init__(self) -> None:
        for name in ("worker_count", "block", "taken"):
            number = integer(name, getattr(self, name), at_least=1, at_most=MAX_POSITION)
            object.__setattr__(self, name, number)
        if self.taken >= self.block:
            raise ValueError(f"taken must be less than block, {self.block}, got {self.taken}")

    def times(self, size: int) -> Partial:
        """Returns this Partial in examples, if each position is a batch of `size` examples."""
        return Partial(self.worker_count, self.block * size, self.taken * size)


@dataclass(frozen=True)
class Share:
    """What one of several workers takes of the stream of positions.

    Attributes:
        worker_index: in [0, worker_count).
        worker_count: how many workers there are, at least 1.
        start: the position where these workers began; all before it was taken by others.
        block: how many positions in a row a worker takes, at least 1.
        end: where the stream ends. The positions of the last round, where not all workers would have a whole block, are
            then taken one by one in turn, so that no worker has more than one more than another. None for blocks up to
            the end.

    >>> Share(1, 3).at(np.arange(4)).tolist(), Share(1, 3, block=2).at(np.arange(4)).tolist()
    ([1, 4, 7, 10], [2, 3, 8, 9])
    >>> Share(1, 3, block=2, end=10).at(np.arange(3)).tolist()
    [2, 3, 7]
    """

    worker_index: int = 0
    worker_count: int = 1
    start: int = 0
    block: int = 1
    end: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("worker_index", None), ("worker_count", 1), ("start", 0), ("block", 1)):
            number = integer(name, getattr(self, name), at_least=least, at_most=MAX_POSITION)
            object.__setattr__(self, name, number)
        if not 0 <= self.worker_index < self.worker_count:
            raise ValueError(f"worker_index must be in [0, {self.worker_count}), got {self.worker_index}")

    @classmethod
    def even(cls, worker_index: int, worker_count: int, length: int, block: int | None = None) -> Share:
        """Returns a share of a stream of that length of which no worker has more than one position more than another.

        Args:
            worker_index: in [0, worker_count).
            worker_count: how many workers there are, at least 1.
            length: of the stream.
            block: how many positions in a row a worker takes, up to the last round. None is `DEFAULT_BLOCK`, or a
                smaller power of two where that would be less than 64 rounds.
        """
        if block is None:
            worker_count = integer("worker_count", worker_count)
            block = min(DEFAULT_BLOCK, max(1, length // (max(1, worker_count) * _MIN_ROUNDS)))
            block = 1 << block.bit_length() - 1
        return cls(worker_index, worker_count, block=block, end=length)

    def of(self, length: int) -> Share:
        """Returns the same division of a stream of another length."""
        return self if self.end is None else replace(self, end=length)

    @property
    def _whole(self) -> int:
        """How many positions the worker takes in blocks."""
        if self.end is None:
            return 1 << 62
        return max(0, self.end - self.start) // (self.block * self.worker_count) * self.block

    @property
    def _last(self) -> Share:
        """The share of the last round."""
        start = self.start + self._whole * self.worker_count
        return Share(self.worker_index, self.worker_count, start)

    def at(self, nths: Ints) -> Ints:
        """Returns the stream positions of the worker's nth examples."""
        rounds, within = np.divmod(nths, self.block)
        positions: Ints = self.start + (rounds * self.worker_count + self.worker_index) * self.block + within
        if self.end is not None:
            last = nths >= self._whole
            positions[last] = self._last.at(nths[last] - self._whole)
        return positions

    def spans(self, starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Returns the ranges of stream positions that are ranges of the worker's examples, as starts and counts."""
        stops = starts + counts
        if int(stops[-1]) > self._whole:
            before, after = starts < self._whole, stops > self._whole
            rest = np.maximum(starts[after], self._whole) - self._whole
            last_spans = self._last.spans(rest, stops[after] - self._whole - rest)
            if not before.any():
                return last_spans
            starts = starts[before]
            firsts, numbers = self.spans(starts, np.minimum(stops[before], self._whole) - starts)
            return np.concatenate([firsts, last_spans[0]]), np.concatenate([numbers, last_spans[1]])
        opening = starts // self.block
        times = (stops - 1) // self.block - opening + 1
        ends = np.cumsum(times)
        rounds = np.arange(ends[-1]) + np.repeat(opening - (ends - times), times)
        skipped, numbers = np.zeros_like(rounds), np.full_like(rounds, self.block)
        skipped[ends - times] = starts - opening * self.block
        numbers[ends - 1] = stops - rounds[ends - 1] * self.block
        numbers -= skipped
        return self.start + (rounds * self.worker_count + self.worker_index) * self.block + skipped, numbers

    def count(self, end: int) -> int:
        """Returns how many positions before `end` are the worker's.

        >>> [Share(worker, 4).count(10) for worker in range(4)]
        [3, 3, 2, 2]
        """
        last = self._last if self.end is not None else None
        if last is not None and end > last.start:
            return self._whole + last.count(end)
        rounds, rest = divmod(max(0, end - self.start), self.block * self.worker_count)
        return rounds * self.block + min(max(0, rest - self.worker_index * self.block), self.block)

    def reached(self, taken: int, end: int | None = None) -> tuple[int, Partial | None]:
        """Returns where the stream goes on once each worker has taken `taken` examples, or all that are its own.

        It is the same for all workers, also for one that has fewer than `taken` before `end`, where the stream ends:
        that is reached once worker 0, which has the most, has taken its last one.

        Returns:
            A position, and where the workers are in the middle of blocks that begin there.

        >>> Share(1, 4).reached(2), Share(1, 4).reached(3, end=10), Share(1, 4, block=2).reached(3)
        ((8, None), (10, None), (8, Partial(worker_count=4, block=2, taken=1)))
        """
        if end is not None and taken >= replace(self, worker_index=0).count(end):
            return max(self.start, end), None
        if taken >= self._whole:
            return self._last.reached(taken - self._whole)
        if self.worker_count == 1:
            return self.start + taken, None
        rounds, within = divmod(taken, self.block)
        position = self.start + rounds * self.block * self.worker_count
        return position, Partial(self.worker_count, self.block, within) if within else None
