"""The order in which a provider shows records, as a queue that can be replayed from any point.

1. The files of a pass stand in their order, or are shuffled by `shuffle.file_order(num_files, seed, epoch=pass)`.
   Passes follow each other without a seam.
2. Each of `num_readers` readers takes the next file of this row when it has none, and when its file is at its end.
3. The readers take turns, one record each, to fill one queue. A reader that has nothing left is passed over.
4. Without shuffle, the oldest record leaves. With shuffle, the queue is filled to its capacity (while the readers have
   records), then the record number `draw(seed, n, len(queue))` of the queue leaves, and its last one takes the free
   place; n counts the records that have left before.

So the order is a function of the files, the number of readers, the capacity and the seed. A state is where the readers
are, and the places of the records in the queue; not the records, which are read again.

Order is a format: a change to any of this changes what every saved state means.
"""

from __future__ import annotations

import functools
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_datasets import storage
from beam_datasets.errors import InputError, StateError
from beam_datasets.reading.items.readers import Place
from beam_datasets.reading.shuffle import file_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.reading.items.readers import RecordReader

FORMAT = 1
_FIELDS = {"format", "given", "opened", "turn", "readers", "queue", "fingerprint"}
_HINT = "Restore it with the dataset and configuration that it was saved with, or begin anew."
_MASK = 2**64 - 1


class Record(NamedTuple):
    """A record and where it stands.

    Attributes:
        file: number of its file.
        place: in the file.
        data: its bytes.
    """

    file: int
    place: Place
    data: bytes


@dataclass(frozen=True)
class QueueConfig:
    """What the order of records depends on, the files apart.

    Attributes:
        num_readers: how many files are read at once, at least 1.
        num_epochs: how many passes over the files, at least 1; None for ever.
        shuffle: whether files are shuffled, and records leave the queue at random.
        capacity: how many records the queue holds.
        least: how many stay in it when one leaves, until the readers are at their end; less than the capacity.
        seed: any integer.
    """

    num_readers: int = 1
    num_epochs: int | None = None
    shuffle: bool = True
    capacity: int = 256
    least: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_readers < 1:
            raise ValueError(f"num_readers must be at least 1, got {self.num_readers}")
        if self.num_epochs is not None and self.num_epochs < 1:
            raise ValueError(f"num_epochs must be at least 1, or None for ever, got {self.num_epochs}")
        if self.capacity < 1:
            raise ValueError(f"common_queue_capacity must be at least 1, got {self.capacity}")
        if self.shuffle and not 0 <= self.least < self.capacity:
            raise ValueError(
                f"common_queue_min must be in [0, common_queue_capacity = {self.capacity}), got {self.least}: "
                "as many records stay in the queue when one leaves it"
            )


def draw(seed: int, number: int, count: int) -> int:
    """Returns which of `count` records leaves the queue as the `number`th, in [0, count).

    A word of SplitMix64 at this number, from a key that is the SHAKE-128 of the seed, scaled down to the count.

    >>> [draw(1, number, 256) for number in range(5)]
    [167, 0, 234, 136, 146]
    """
    word = (_draw_key(seed) + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _MASK
    return (word ^ word >> 31) * count >> 64


@functools.lru_cache(maxsize=64)
def _draw_key(seed: int) -> int:
    return int.from_bytes(hashlib.shake_128(f"beam_datasets queue {seed}".encode()).digest(8), "little")


class _Slot:
    """A reader: the file it is at, and the place in it.

    Attributes:
        file: number of the file; None where it has none.
        number: of the next record.
        start: its first byte.
        records: the open file; None where it is to be opened at the place.
    """

    def __init__(self, file: int | None = None, number: int = 0, start: int = 0) -> None:
        self.file = file
        self.number = number
        self.start = start
        self.records: Iterator[tuple[Place, bytes]] | None = None


class RecordQueue:
    """Yields the records of files in the order that this module describes. For one thread."""

    def __init__(self, files: list[str], reader: RecordReader, config: QueueConfig) -> None:
        """Opens nothing yet.

        Args:
            files: paths, at least one.
            reader: finds their records.
            config: what the order depends on.
        """
        self.files = files
        self._reader = reader
        self._config = config
        self._begin()

    def _begin(self) -> None:
        self._slots = [_Slot() for _ in range(self._config.num_readers)]
        self._queue: list[Record] = []
        self._given = self._opened = self._turn = self._without_record = 0
        self._files_of_pass: tuple[int, list[int]] = (-1, [])

    def next(self) -> Record | None:
        """Returns the next record; None at the end.

        Raises:
            CorruptRecordError: a record is damaged.
            InputError: the files hold no record, and would be passed over for ever.
        """
        if not self._config.shuffle:
            record = self._read_in_turn()
        else:
            self._fill()
            record = self._take() if self._queue else None
        self._given += record is not None
        return record

    def _fill(self) -> None:
        while len(self._queue) < self._config.capacity:
            record = self._read_in_turn()
            if record is None:
                return
            self._queue.append(record)

    def _take(self) -> Record:
        place = draw(self._config.seed, self._given, len(self._queue))
        self._queue[place], self._queue[-1] = self._queue[-1], self._queue[place]
        return self._queue.pop()

    def _read_in_turn(self) -> Record | None:
        """Returns a record of the reader whose turn it is, or of the next one that has any."""
        for _ in self._slots:
            record = self._read(self._slots[self._turn])  # after an error it is still this one's turn
            self._turn = (self._turn + 1) % len(self._slots)
            if record is not None:
                return record
        return None

    def _read(self, slot: _Slot) -> Record | None:
        """Returns the next record of a reader, which goes on to the next file where its own is at its end."""
        while True:
            if slot.file is None:
                slot.file, slot.number, slot.start = self._next_file(), 0, 0
            if slot.file is None:
                return None
            found = self._read_on(slot, self.files[slot.file])
            if found is not None:
                place, data = found
                slot.number, slot.start = place.number + 1, place.stop
                self._without_record = 0
                return Record(slot.file, place, data)
            slot.file = slot.records = None

    def _read_on(self, slot: _Slot, path: str) -> tuple[Place, bytes] | None:
        """Returns what follows in a reader's file; after an error, the same is tried again."""
        if slot.records is None:
            slot.records = self._reader.records(path, slot.number, slot.start)
        try:
            return next(slot.records, None)
        except BaseException:
            slot.records = None
            raise

    def _next_file(self) -> int | None:
        """Returns the next file of the row, if there is one."""
        count = len(self.files)
        number, place = divmod(self._opened, count)
        if self._config.num_epochs is not None and number >= self._config.num_epochs:
            return None
        if self._config.num_epochs is None and self._without_record > 2 * count:  # among so many is a whole pass
            raise InputError(f"none of the {count} files holds a record; the first is {self.files[0]}")
        self._opened += 1
        self._without_record += 1
        return self._order(number)[place]

    def _order(self, number: int) -> list[int]:
        """Returns the files of a pass; keeps the last one asked for."""
        if self._files_of_pass[0] != number:
            count = len(self.files)
            order = file_order(count, self._config.seed, number) if self._config.shuffle else list(range(count))
            self._files_of_pass = number, order
        return self._files_of_pass[1]

    def get_state(self) -> dict[str, Any]:
        """Returns where the queue is, as a dict that JSON can hold: about 30 bytes a record in the queue."""
        return {
            "format": FORMAT,
            "given": self._given,
            "opened": self._opened,
            "turn": self._turn,
            "readers": [None if slot.file is None else [slot.file, slot.number, slot.start] for slot in self._slots],
            "queue": [[record.file, *record.place] for record in self._queue],
            "fingerprint": self._fingerprint(),
        }

    def set_state(self, state: object) -> None:
        """Goes to where a queue of the same files and configuration was; reads the records that were in it.

        `num_epochs` may be another one. So may the directory of the files, but not their names.

        Raises:
            StateError: the state is malformed, or of other files or another configuration.
            CorruptRecordError: a record is no longer there.
        """
        checked = _checked(state, self._fingerprint(), len(self._slots))
        rows: list[list[int]] = checked["queue"]
        if any(row is not None and not row[0] < len(self.files) for row in [*checked["readers"], *rows]):
            raise StateError(f"the state names a file that is none of the {len(self.files)}. {_HINT}")
        queue = self._fetch(rows)
        self.close()
        self._begin()
        self._given, self._opened, self._turn = checked["given"], checked["opened"], checked["turn"]
        self._slots = [_Slot() if row is None else _Slot(*row) for row in checked["readers"]]
        self._queue = queue

    def _fetch(self, rows: list[list[int]]) -> list[Record]:
        """Returns the records at the places of a state; asks each file once."""
        places: dict[int, list[Place]] = defaultdict(list)
        for file, *place in rows:
            places[file].append(Place(*place))
        found = {file: iter(self._reader.fetch(self.files[file], wanted)) for file, wanted in places.items()}
        return [Record(file, Place(*place), next(found[file])) for file, *place in rows]

    def close(self) -> None:
        """Closes the files; the queue can be used on, and opens them again."""
        for slot in self._slots:
            records, slot.records = slot.records, None
            if records is not None and hasattr(records, "close"):
                records.close()

    def _fingerprint(self) -> dict[str, str]:
        """What the order depends on, in words, the names of the files as a hash."""
        names = "\n".join(storage.basename(path) for path in self.files)
        digest = hashlib.sha256(names.encode()).hexdigest()[:24]
        config = self._config
        return {
            "files": f"{len(self.files)}, SHA-256 of the names {digest}",
            "reader": repr(self._reader) if is_dataclass(self._reader) else type(self._reader).__qualname__,
            "num_readers": str(config.num_readers),
            "shuffle": f"common_queue_capacity={config.capacity}, seed={config.seed}" if config.shuffle else "no",
        }


def _checked(state: object, fingerprint: dict[str, str], num_readers: int) -> Mapping[str, Any]:
    """Returns the state, if its parts are what they must be and the fingerprint is the same.

    Raises:
        StateError: they are not.
    """
    if not isinstance(state, Mapping) or set(state) != _FIELDS:
        found = sorted(map(repr, state)) if isinstance(state, Mapping) else repr(state)[:100]
        raise StateError(f"a state is a dict of {sorted(_FIELDS)}, got {found}. {_HINT}")
    if state["format"] != FORMAT:
        raise StateError(f"the state has format {state['format']!r}; this version reads format {FORMAT} only. {_HINT}")
    saved = state["fingerprint"]
    if not isinstance(saved, Mapping) or saved != fingerprint:
        pairs = {name: (saved.get(name) if isinstance(saved, Mapping) else saved) for name in fingerprint}
        changes = [f"{name} was {was!r} and is {fingerprint[name]!r} now" for name, was in pairs.items()]
        different = [text for text, name in zip(changes, fingerprint) if pairs[name] != fingerprint[name]]
        raise StateError(f"the state was saved while reading something else: {'; '.join(different)}. {_HINT}")
    rows = [("readers", row, 3) for row in state["readers"] if row is not None]
    rows += [("queue", row, 4) for row in state["queue"]]
    rows += [("counters", [state["given"], state["opened"], state["turn"]], 3)]
    for name, row, length in rows:
        if not (isinstance(row, list) and len(row) == length and all(type(n) is int and n >= 0 for n in row)):
            raise StateError(f"the state's {name} has {row!r}, not {length} numbers of 0 and more. {_HINT}")
    if len(state["readers"]) != num_readers or not state["turn"] < num_readers:
        raise StateError(f"the state has other readers than the {num_readers} of this provider. {_HINT}")
    return state
