"""Reading a shard from end to end: what is in the file and in its index, whatever anybody says should be there.

What can be read at once is first looked at as a whole, where there is the native module: a shard of a few records takes
no longer than to open it. Where anything is out of the ordinary, it is walked through, which says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_datasets import storage
from beam_datasets.errors import FeatureError, MetadataError, PathNotFoundError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import ExampleError
from beam_datasets.formats.index import Index
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.reading.glancing import glance
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying.walking import RecordChecks, Walk, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from beam_datasets.verifying.walking import Damage, Mismatch

    Progress = Callable[[int], None]

_MOST_DESCENTS = 100_000  # places in one index where keys begin anew


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an index file holds.

    Attributes:
        problem: why it is not an index; None where it is one. All below is empty where it is none.
        crc32c: of the file; None where it cannot be read.
        num_records: that it tells of.
        shard_size: of the shard that it is of, in bytes.
        has_keys: whether there are sort keys.
        ordered: whether they are integers.
        first_key: the lowest; None where there is none.
        last_key: the highest.
        descents: the records whose key is not less than that of the next one, the first of them.
        keys_problem: what is wrong with the keys.
        mismatch: the first place where it is not as its shard.
    """

    problem: str | None
    crc32c: int | None
    num_records: int = 0
    shard_size: int = 0
    has_keys: bool = False
    ordered: bool = False
    first_key: bytes | None = None
    last_key: bytes | None = None
    descents: tuple[int, ...] = ()
    keys_problem: str | None = None
    mismatch: Mismatch | None = None


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What a shard holds.

    Attributes:
        problem: why it cannot be read at all; None where it can. All below is empty where it cannot.
        missing: whether the file is missing.
        size: in bytes.
        crc32c: of the file; None where a record is damaged.
        num_records: whose place is known, damaged ones included.
        damages: what is not good, in the order of the file.
        index: what its index holds; None where there is none.
    """

    problem: str | None = None
    missing: bool = False
    size: int = 0
    crc32c: int | None = None
    num_records: int = 0
    damages: tuple[Damage, ...] = ()
    index: IndexFacts | None = None

    @property
    def broken(self) -> bool:
        """Whether the file itself is damaged, by what it says alone."""
        return self.problem is not None or any(damage.kind != "example" for damage in self.damages)

    @property
    def num_bytes(self) -> int:
        """Of the records, without framing."""
        return self.size - tfrecord.OVERHEAD * self.num_records


@dataclass(frozen=True)
class ShardTask:
    """A shard that is to be read.

    Attributes:
        directory: of the dataset.
        filename: relative to it.
        features: that its records should have; None where that is not known.
        decode: whether to decode each record entirely; else one of each read is looked at, images unread.
    """

    directory: str
    filename: str
    features: Any = None
    decode: bool = False


def read_shard(task: ShardTask, progress: Progress | None = None, checks: RecordChecks | None = None) -> ShardFacts:
    """Returns what a shard and its index hold, having read all of both.

    Memory is bounded by `walking.READ_BYTES`, the largest record and the index.

    Args:
        task: which shard.
        progress: called with how many bytes of the shard were read since the last call.
        checks: what records must pass; None makes them of the task.
    """
    checks = checks or RecordChecks.of(task.features, decode=task.decode)
    path = storage.join(task.directory, task.filename)
    try:
        with storage.open_reader(path) as reader:
            index = _IndexFile.read(path + INDEX_SUFFIX)
            facts = None if index.problem else _glance(reader, index.content, checks)
            if facts is None:
                return _walk(reader, path, index, checks, progress)
        if progress is not None:
            progress(facts.size)
        return facts
    except PathNotFoundError as error:
        index = _IndexFile.read(path + INDEX_SUFFIX)
        return ShardFacts(problem=without(path, error), missing=True, index=_take_index(index)[1])
    except StorageError as error:
        index = _IndexFile.read(path + INDEX_SUFFIX)
        return ShardFacts(problem=without(path, error), index=_take_index(index)[1])


class _IndexFile(NamedTuple):
    """The file of an index, read once: a store that fails is waited for.

    Attributes:
        name: its path.
        content: None where there is none, or it cannot be read.
        problem: why it cannot.
    """

    name: str
    content: Buffer | None = None
    problem: str | None = None

    @classmethod
    def read(cls, name: str) -> _IndexFile:
        """Returns what is there."""
        try:
            return cls(name, storage.memory_map(name))
        except PathNotFoundError:
            return cls(name)
        except StorageError as error:
            return cls(name, problem=without(name, error))


def _glance(reader: storage.Reader, index: Buffer | None, checks: RecordChecks) -> ShardFacts | None:
    """Returns what a small shard holds that is good, as is its index; else None."""
    good = glance(reader, index)
    if good is None:
        return None
    try:
        checks.one(good.first)
    except (ExampleError, FeatureError):
        return None
    if checks.each is not None and (checks.block is None or not checks.block(good.records())):  # type: ignore[arg-type]
        return None
    of_index = None
    if good.index_content is not None:
        keys = good.has_keys, good.ordered, good.first_key, good.last_key
        of_index = IndexFacts(None, good.index_crc32c, good.num_records, good.size, *keys)
    return ShardFacts(None, False, good.size, good.crc32c, good.num_records, (), of_index)


def _walk(
    reader: storage.Reader, path: str, file: _IndexFile, checks: RecordChecks, progress: Progress | None
) -> ShardFacts:
    """Returns what any shard holds."""
    index, of_index = _take_index(file)
    walk = Walk(reader, path, index, checks, progress or (lambda _: None))
    walk.run()
    if of_index is not None and index is not None:
        of_index = replace(of_index, mismatch=walk.mismatch)
    return ShardFacts(None, False, reader.size, walk.crc32c, walk.num_records, tuple(walk.damages), of_index)


def _take_index(file: _IndexFile) -> tuple[Index | None, IndexFacts | None]:
    """Returns a shard's index, where it can be used, and what is known of the file, where there is one."""
    name, buffer, problem = file
    if buffer is None:
        return None, None if problem is None else IndexFacts(problem, None)
    crc = crc32c(buffer)
    try:
        index = Index.from_bytes(buffer, path=name)
    except MetadataError as error:
        return None, IndexFacts(without(name, error), crc)
    facts = IndexFacts(None, crc, len(index), index.shard_size, index.has_keys, index.ordered)
    try:
        keys = index.keys
    except MetadataError as error:
        return index, replace(facts, keys_problem=without(name, error))
    if keys is not None and len(keys):
        descents = tuple(index.descents[:_MOST_DESCENTS].tolist())
        facts = replace(facts, first_key=keys[0].tobytes(), last_key=keys[-1].tobytes(), descents=descents)
    return index, facts
