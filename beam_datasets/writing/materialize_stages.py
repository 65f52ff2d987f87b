"""What is done to stretches of a source before shards are written: their sizes found, records chosen, or shuffled anew.

Each is a function of a stretch alone, so it may be done twice, or by two attempts at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import LostExamplesError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.model.keys import reshuffled_keys
from beam_datasets.model.shards import FileInstruction
from beam_datasets.reading.shards import Shard
from beam_datasets.writing.blocks import make_block
from beam_datasets.writing.materialize_records import Stretch, Transform, offsets_of, open_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from beam_datasets.writing.blocks import AnyBlock
    from beam_datasets.writing.materialize_records import Records
    from beam_datasets.writing.materialize_selection import Piece, SelectedSplit

STRETCH_BYTES = 32 << 20
RECORDS_JOINED = 256


@dataclass(frozen=True)
class Stretches(Sequence[Stretch]):
    """All stretches of a job, each made when it is asked for.

    Attributes:
        splits: what is read.
        stretch_bytes: larger runs of shards with indexes are divided, in bytes.
    """

    splits: tuple[SelectedSplit, ...]
    stretch_bytes: int = STRETCH_BYTES

    @cached_property
    def _pieces(self) -> list[tuple[SelectedSplit, int, Piece, FileColumns]]:
        return [
            (split, number, piece, FileColumns(piece, self.stretch_bytes))
            for split in self.splits
            for number, piece in enumerate(split.pieces)
        ]

    @cached_property
    def _firsts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(len(columns.files) for *_, columns in self._pieces)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @overload
    def __getitem__(self, index: int) -> Stretch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Stretch]: ...
    def __getitem__(self, index: int | slice) -> Stretch | list[Stretch]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        place = int(np.searchsorted(self._firsts, number, side="right")) - 1
        split, piece_number, piece, columns = self._pieces[place]
        run = number - int(self._firsts[place])
        index = piece.start + int(columns.firsts[run])
        source = f"{piece.name}, {piece.split}"
        return Stretch(number, split.name, piece_number, piece.dataset, source, index, columns.files[run], split.keyed)


class FileColumns:
    """The runs of a piece, divided.

    Attributes:
        files: the runs.
        firsts: how many examples of the piece come before each.
    """

    def __init__(self, piece: Piece, stretch_bytes: int) -> None:
        wanted = -(-piece.num_bytes // stretch_bytes) if piece.exact else np.ones(len(piece.files), np.int64)
        self.files = piece.files.divided(np.clip(wanted, 1, piece.files.take))
        self.firsts = np.cumsum(self.files.take) - self.files.take


def check_read(numbers: Iterable[int], expected: int) -> None:
    """Checks that the stretches of these numbers, in any order, are all there are, and each once.

    Raises:
        LostExamplesError: they are not.
    """
    found = sorted(numbers)
    if found != list(range(expected)):
        raise LostExamplesError(
            f"{len(found)} stretches of the source were read, {expected} were planned. The engine lost or doubled "
            "some; nothing was published. Run it again, and not with direct_running_mode=multi_threading."
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A stretch that is ready to be copied.

    Attributes:
        number: of the stretch.
        split: that it becomes part of.
        piece: number of the piece of that split.
        read: how many records of the source it stands for.
        file: what is to be copied: of the source's shard, or of a file that was written for it.
        index_path: an index of it; None for the one beside it.
        num_bytes: size in bytes, framed.
    """

    number: int
    split: str
    piece: int
    read: int
    file: FileInstruction
    index_path: str | None
    num_bytes: int


def prepare(stretch: Stretch, transform: Transform | None, directory: str) -> Prepared:
    """Returns what is to be copied of a stretch.

    Args:
        stretch: which records.
        transform: what becomes of them; None leaves them where they are, and only finds out where each begins.
        directory: gets the files that are made.

    Raises:
        CorruptRecordError: a record is damaged.
        BeamDatasetsError: the filter fails.
    """
    path = storage.join(directory, f"{stretch.number:08d}.records")
    if transform is not None:
        file, num_bytes = _transformed(stretch, transform, path)
        index_path = None
    else:
        file, stop = stretch.file, stretch.file.skip + stretch.file.take
        shard = Shard(file.filename, file.examples_in_shard)
        offsets = offsets_of(shard, stop)
        num_bytes = int(offsets[stop]) - int(offsets[file.skip])
        index_path = path + ".index" if shard.index is None else None
        if index_path is not None:
            storage.write_bytes(index_path, Index(offsets).to_bytes())
    return Prepared(stretch.number, stretch.split, stretch.piece, stretch.file.take, file, index_path, num_bytes)


def _transformed(stretch: Stretch, transform: Transform, path: str) -> tuple[FileInstruction, int]:
    """Writes the records that are kept, and their index; returns where they are, and their size in bytes, framed."""
    sizes, kept = [np.zeros(1, np.int64)], [np.zeros(0, np.intp)]
    with open_records(stretch.file, keyed=stretch.keyed) as records, storage.open_writer(path) as writer:
        for places, chosen in transform.apply(stretch, records):
            writer.write(tfrecord.frame_all(chosen, RECORDS_JOINED))
            sizes.append(np.fromiter(map(len, chosen), np.int64, len(chosen)) + tfrecord.OVERHEAD)
            kept.append(places)
    keys = None if records.keys is None else records.keys[np.concatenate(kept)]
    index = Index(np.cumsum(np.concatenate(sizes)), keys, ordered=records.ordered)
    storage.write_bytes(path + ".index", index.to_bytes())
    return FileInstruction(path, 0, len(index), len(index)), index.shard_size


def blocks(
    stretch: Stretch, transform: Transform, salt: str, *, block_size: int, spill_dir: str | None
) -> Iterator[AnyBlock]:
    """Yields the records of a stretch that are kept, in blocks, with the sort keys of a new order.

    Args:
        stretch: which records.
        transform: what becomes of them.
        salt: of the order. What has no sort key is ordered by its shard's name and its place in it.
        block_size: about the size of a block in bytes.
        spill_dir: where payload is spilled; None keeps it inline.
    """
    keys: list[bytes] = []
    records: list[bytes] = []
    size = 0
    with open_records(stretch.file, keyed=stretch.keyed) as source:
        for places, chosen in transform.apply(stretch, source):
            keys += _old_keys(stretch, source, places)
            records += chosen
            size += sum(map(len, chosen))
            if size >= block_size:
                yield make_block(stretch.split, reshuffled_keys(salt, keys), records, spill_dir)
                keys, records, size = [], [], 0
    if records:
        yield make_block(stretch.split, reshuffled_keys(salt, keys), records, spill_dir)


def _old_keys(stretch: Stretch, records: Records, places: NDArray[np.intp]) -> list[bytes]:
    if records.keys is not None:
        return [key.tobytes() for key in records.keys[places]]
    name = storage.basename(stretch.file.filename)
    return [f"{name}__{stretch.file.skip + place}".encode() for place in places.tolist()]
