"""Compares the actual content of a dataset's shards with the expected content."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from beam_datasets import storage
from beam_datasets.advice import names_foreign_arguments
from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import DatasetNotFoundError
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.reading.records.shards import INDEX_SUFFIX
from beam_datasets.verifying.expected import Expected, ExpectedSplit, Finding, Lost, Report, read_expected
from beam_datasets.verifying.scan import (
    NOT_LOST,
    OF_CONTENT,
    Damage,
    IndexFacts,
    Mismatch,
    RecordChecks,
    ShardFacts,
    read_shard,
)

OnProgress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Examination:
    """A dataset that was read.

    Attributes:
        expected: its expected content.
        facts: the content of its shards, in the order of `expected.filenames`.
        decode: whether each record was decoded.
    """

    expected: Expected
    facts: Sequence[ShardFacts]
    decode: bool = False

    @cached_property
    def shards(self) -> dict[str, ShardFacts]:
        """{file name of a shard: facts about its content}."""
        return dict(zip(self.expected.filenames, self.facts))

    @cached_property
    def report(self) -> Report:
        """The findings."""
        return conclude(self.expected, self.facts)


@names_foreign_arguments("verify")
def verify(
    dataset_dir: str | os.PathLike[str],
    *,
    decode: bool = False,
    jobs: int | None = None,
    progress: OnProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Reads a published dataset completely, and returns a report of its damage; changes nothing.

    Checks everything that is recorded: each record's length and checksums, the number of records, each index, the
    checksums of all files, and that the small files agree; and that stored images and sounds are whole. A directory
    that TensorFlow Datasets wrote records less; the report contains what could not be checked.

    Args:
        dataset_dir: the directory of a version, or its URL.
        decode: whether to decode each record, including images; else one record of each mebibyte is parsed.
        jobs: number of shards to read at once; None for one per core that this process may use.
        progress: called with the number of bytes read and the expected total, by one thread at a time.
        storage_options: options of a URL's store; see `beam_datasets.builder`.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        MetadataError: the shards have another format than TFRecord.
        ValueError: `jobs` is less than 1, or there are options for a local path.
    """
    try:
        return examine(dataset_dir, decode=decode, jobs=jobs, progress=progress, storage_options=storage_options).report
    except DatasetNotFoundError as error:
        if not (isinstance(dataset_dir, str) and _NAME.fullmatch(dataset_dir)):
            raise
        hint = f"If it is the name of a dataset, use bd.verify(bd.builder({dataset_dir!r}).dataset_dir)."
        raise DatasetNotFoundError(error.problem, path=error.path, advice=hint) from None


_NAME = re.compile(r"\w+(/\w+)?(:[\d.*]+)?")  # of a dataset, with a config or version


def examine(
    dataset_dir: str | os.PathLike[str],
    *,
    decode: bool = False,
    jobs: int | None = None,
    progress: OnProgress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Examination:
    """Reads a dataset and returns its expected and its actual content; see `verify`."""
    decode = boolean("decode", decode)
    jobs = None if jobs is None else integer("jobs", jobs, at_least=1)
    expected = read_expected(storage.with_options(dataset_dir, storage_options))
    counter = _Counter(progress, expected.file_bytes)
    return Examination(expected, _read_shards(expected, expected.filenames, decode, jobs, counter), decode)


def examine_again(old: Examination, changed: Collection[str]) -> Examination:
    """Returns the examination of a dataset after some shards, or their indexes, were changed.

    Args:
        old: the examination before.
        changed: the names of those shards; only these are read again.
    """
    expected = read_expected(old.expected.directory)
    names = [name for name in expected.filenames if name in changed or name not in old.shards]
    read = dict(zip(names, _read_shards(expected, names, old.decode, None, _Counter(None, None))))
    facts = tuple(read.get(name) or old.shards[name] for name in expected.filenames)
    return Examination(expected, facts, old.decode)


def _read_shards(
    expected: Expected, names: Sequence[str], decode: bool, jobs: int | None, counter: _Counter
) -> list[ShardFacts]:
    """Returns the content of shards, in the order of their names.

    Args:
        expected: the expected content of the dataset.
        names: file names of the shards.
        decode: whether to decode the records, too.
        jobs: maximum number of shards to read at once; None for one per core that this process may use.
        counter: counter of the bytes that were read.
    """
    checks = RecordChecks.of(expected.record_features(decode=decode), decode=decode)

    def read(name: str) -> ShardFacts:
        """Returns the facts about the shard with a file name."""
        return read_shard(storage.join(expected.directory, name), checks, counter)

    workers = min(jobs or usable_cores(), len(names))
    if workers <= 1:
        return list(map(read, names))
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(read, names))
        except BaseException:
            counter.is_stopped = True
            raise


class _Counter:
    """Counts the bytes that threads read, for `progress`; stops the threads after one has failed."""

    def __init__(self, progress: OnProgress | None, total: int | None) -> None:
        """Starts at 0 of `total` bytes, which is None if the expected size is unknown."""
        self.is_stopped = False
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, num_bytes: int) -> None:
        if self.is_stopped:
            raise InterruptedError("the verification was stopped")
        with self._lock:
            self._done += num_bytes
            if self._progress is not None:
                self._progress(self._done, self._total)


# ----------------------------------------------------------------------------------------------- from facts to findings


def conclude(expected: Expected, facts: Sequence[ShardFacts]) -> Report:
    """Returns the report of a dataset; a pure function.

    Args:
        expected: expected content of the dataset.
        facts: content of each shard, in the order of `expected.filenames`.
    """
    findings, first = list(expected.findings), 0
    for split in expected.splits:
        of_split = facts[first : first + len(split.filenames)]
        first += len(of_split)
        for number, shard in enumerate(of_split):
            findings += _Shard(expected, split, number, shard).findings()
        findings += _size_findings(split, of_split)
        findings += _key_order_findings(split, of_split)
    return Report(
        expected.full_name,
        expected.directory,
        tuple(findings),
        tuple(expected.not_known),
        sum(shard.problem is None for shard in facts),
        sum(shard.num_records for shard in facts),
        sum(shard.size for shard in facts),
    )


@dataclass(frozen=True)
class _Shard:
    """A shard to compare: the one of this number in its split."""

    expected: Expected
    split: ExpectedSplit
    number: int
    facts: ShardFacts

    def findings(self) -> list[Finding]:
        """Returns the findings of the file, then those of its index."""
        of_file = list(self._file_findings())
        is_whole = all(finding.kind in OF_CONTENT for finding in of_file)
        return [*of_file, *self._index_findings(is_whole)]

    @property
    def _file_name(self) -> str:
        """Returns the file name of the shard."""
        return self.split.filenames[self.number]

    @property
    def _num_examples(self) -> int | None:
        """The recorded number of examples."""
        return None if self.split.num_examples is None else self.split.num_examples[self.number]

    def _published_value(self, column: str) -> int | None:
        """The value of a column of the manifest, such as "crc32c", for this shard; None without a manifest."""
        columns = self.split.columns
        return None if columns is None else getattr(columns, column)[self.number]

    @property
    def _is_published(self) -> bool:
        """Whether the file is proved to be the published one: by its checksum in the manifest."""
        return self.facts.crc32c is not None and self.facts.crc32c == self._published_value("crc32c")

    def _lost(self, first: int = 0, stop: int | None = None) -> Lost | None:
        """Returns records [first, stop) of the file as examples of the split, without those that should not exist."""
        if self._num_examples is None:
            return None
        start, stop = self.split.starts[self.number], min(stop or self._num_examples, self._num_examples)
        return Lost(self.split.name, start + first, start + stop) if first < stop else None

    # --------------------------------------------------------------------------------------------------------- the file

    def _file_findings(self) -> Iterator[Finding]:
        """Yields the findings of the file.

        If the file is missing or unreadable, that is the only finding. Otherwise there is one for each damage, and one
        if the checksum or the number of records differs from the published one.
        """
        facts, name, expected = self.facts, self._file_name, self._num_examples
        if facts.problem is not None:
            kind = "missing" if facts.missing else "unreadable"
            yield Finding(name, None, None, kind, facts.problem, self._lost())
            return
        yield from map(self._damage_finding, facts.damages)
        published = self._published_value("crc32c")
        if not facts.broken and published is not None and facts.crc32c != published:
            yield self._content_finding(published)
        elif (not facts.broken or facts.damages[-1].count is not None) and expected not in (None, facts.num_records):
            source = INFO_FILE if self.split.columns is None else MANIFEST_FILE
            message = f"the file has {facts.num_records} records, but by {source} it has {expected}"
            yield Finding(name, facts.size, None, "count", message, self._lost(facts.num_records))

    def _damage_finding(self, damage: Damage) -> Finding:
        """Returns the finding of a damage, with the lost examples."""
        kind, message = damage.kind, damage.problem
        if kind == "limit" and (contradiction := self._length_contradiction(damage)):
            kind, message = "record", f"the record has {damage.length:,} bytes by its header, but {contradiction}"
        if self._num_examples is not None and damage.record >= self._num_examples:
            kind, message = "size", f"{self.facts.size - damage.offset} bytes follow the last record"
        elif damage.count is None and kind == "record":
            message += "; where the next record begins is not known, so the rest of the file is lost"
        elif damage.count is not None and damage.count > 1:
            message += f" (the first of {damage.count} records)"
        if kind == "value" and (example := self._lost(damage.record, damage.record + 1)) is not None:
            key = "" if damage.key is None else f", sort key {damage.key.hex()}"
            message += f"; example {example.split}[{example.start}]{key}"
        if kind == "value" and not self._is_published:
            kind = "decoding"
        stop = None if damage.count is None else damage.record + damage.count
        lost_examples = self._lost(damage.record, stop) if kind not in NOT_LOST else None
        return Finding(self._file_name, damage.offset, damage.record, kind, message, lost_examples)

    def _length_contradiction(self, damage: Damage) -> str:
        """Returns a clause about why a record over the limit is not the published one; '' if it can be.

        The published index proves it. Without one, the sizes that the small files record may disprove it.
        """
        index, published = self.facts.index, self._published_value("index_crc32c")
        if damage.indexed_length is not None and index is not None and published in (None, index.crc32c):
            is_same = damage.indexed_length == damage.length
            return "" if is_same else f"by the index {damage.indexed_length:,}"
        file_bytes, split_bytes = self._published_value("file_bytes"), self.split.num_bytes
        if file_bytes is not None:
            is_same = file_bytes == self.facts.size
            return "" if is_same else f"the file has {self.facts.size:,} bytes, published were {file_bytes:,}"
        if split_bytes is not None and split_bytes < damage.length:
            return f"split {self.split.name!r} has {split_bytes:,} bytes of records by {INFO_FILE}"
        return ""

    def _content_finding(self, published: int) -> Finding:
        """Returns the finding of a file whose records are good, but are not the published ones."""
        num_records, expected = self.facts.num_records, self._num_examples or 0
        index = self.facts.index  # the published index allows more findings
        mismatch = (
            index.mismatch if index is not None and index.crc32c == self._published_value("index_crc32c") else None
        )
        if mismatch is not None and mismatch.record == num_records < expected:
            message = f"the file ends after {num_records} records, published were {expected}. It is cut off"
            return Finding(self._file_name, self.facts.size, num_records, "cut", message, self._lost(num_records))
        if mismatch is not None and mismatch.indexed is None and num_records >= mismatch.record:
            message = f"{num_records - expected} records follow the {expected} that were published"
            return Finding(self._file_name, None, expected, "size", message)
        counts = "" if num_records == expected else f" and {num_records} records, published were {expected}"
        message = f"its CRC-32C is {self.facts.crc32c:08x}, published was {published:08x}{counts}"
        message += ". The records are whole, but not all are the published ones"
        return Finding(self._file_name, None, None, "replaced", message, self._lost())

    # -------------------------------------------------------------------------------------------------------- the index

    def _index_findings(self, is_whole: bool) -> Iterator[Finding]:
        """Yields the findings of the index. Only beside a whole shard a difference between them is the index's."""
        index, published = self.facts.index, self._published_value("index_crc32c")
        kind = message = ""
        record = None
        if index is None:
            if self.expected.indexed:
                kind, message = "index", "the file does not exist"
        elif index.crc32c is None:
            kind, message = "unreadable", index.problem or ""
        elif published is not None and index.crc32c != published:
            is_usable = index.problem is None and index.mismatch is None and not self.facts.broken
            kind, message = "keys" if is_usable else "index", self._other_index(index, index.crc32c, published)
        elif index.problem is not None:
            kind, message = "index", index.problem
        elif index.keys_problem is not None:
            kind, message = "keys", index.keys_problem
        elif is_whole and index.mismatch is not None:
            kind, message, record = "index", self._difference(index, index.mismatch), index.mismatch.record
        if kind:
            yield Finding(self._file_name + INDEX_SUFFIX, None, record, kind, message)

    def _other_index(self, index: IndexFacts, index_crc: int, published: int) -> str:
        """Returns the problem of an index whose CRC is not the published one, followed by its reasons, if known.

        Args:
            index: the facts of the index.
            index_crc: CRC-32C of the index.
            published: the published CRC-32C.
        """
        reasons = [index.problem or index.keys_problem]
        if index.problem is None and index.mismatch is not None and not self.facts.broken:
            reasons.append(self._difference(index, index.mismatch))
        if index.problem is None and not index.has_keys:
            reasons.append("it has no sort keys")
        reason = "; ".join(filter(None, reasons))
        return f"its CRC-32C is {index_crc:08x}, published was {published:08x}" + (reason and f": {reason}")

    def _difference(self, index: IndexFacts, at: Mismatch) -> str:
        """Returns a clause about an index that does not fit its shard, such as "it has 9 records, but the shard ...".

        Args:
            index: the facts of the index.
            at: the first difference between the two.
        """
        if index.num_records != self.facts.num_records:
            return f"it has {index.num_records} records, but the shard has {self.facts.num_records}"
        return f"by the index record {at.record} begins at byte {at.indexed}, in the shard at {at.actual}"


def _size_findings(split: ExpectedSplit, facts: Sequence[ShardFacts]) -> Iterator[Finding]:
    """Yields a finding if the records of a split, otherwise whole, have another size than the small files record."""
    counts, columns = [shard.num_records for shard in facts], split.columns
    if split.num_bytes is None or any(shard.broken for shard in facts) or counts != list(split.num_examples or ()):
        return
    num_bytes = sum(shard.num_bytes for shard in facts)
    if columns is not None:  # shards with other content have a finding of their own
        published = zip(columns.crc32c, columns.num_bytes, facts)
        num_bytes -= sum(shard.num_bytes - size for crc, size, shard in published if shard.crc32c != crc)
    framed = num_bytes + OVERHEAD * sum(counts)  # TensorFlow Datasets records it if the order is random
    if split.num_bytes != num_bytes and (columns is not None or split.num_bytes != framed):
        message = f"split {split.name!r} has {num_bytes} bytes of records, but by the file it has {split.num_bytes}"
        source, kind = (INFO_FILE, "metadata") if columns is None else (MANIFEST_FILE, "manifest")
        yield Finding(source, None, None, kind, message)


def _key_order_findings(split: ExpectedSplit, facts: Sequence[ShardFacts]) -> Iterator[Finding]:
    """Yields findings about the order of the sort keys in the intact indexes of a split."""
    columns = split.columns
    published = columns.index_crc32c if columns is not None else [None] * len(facts)
    starts = split.starts if split.num_examples is not None else [0] * len(facts)
    indexes = [
        (name + INDEX_SUFFIX, shard.index, start)
        for name, shard, crc, start in zip(split.filenames, facts, published, starts)
        if shard.index is not None and shard.index.num_records and crc in (None, shard.index.crc32c)
    ]
    keyed = [(name, index, start) for name, index, start in indexes if index.has_keys]
    if keyed and columns is None:
        message = "it has no sort keys, but other shards of the split have"
        yield from (Finding(name, None, None, "keys", message) for name, index, _ in indexes if not index.has_keys)
    if split.new_starts is None:
        return
    for name, index, start in keyed:
        for record in index.descents:
            if start + record + 1 not in split.new_starts:
                yield Finding(name, None, record + 1, "keys", "its key is not above that of the record before it")
    for (previous_name, lower, _), (name, upper, start) in pairwise(keyed):
        problem = _order_problem(lower.last_key, upper.first_key, previous_name)
        if problem and start not in split.new_starts:
            yield Finding(name, None, 0, "keys", problem)


def _order_problem(last: bytes | None, first: bytes | None, previous_name: str) -> str | None:
    """Returns a clause about the order of the sort keys of two indexes; None if it is right, or a key is unknown.

    Args:
        last: the last key of the index before; None if it is unknown.
        first: the first key of the index.
        previous_name: file name of the index before.
    """
    if last is None or first is None or last < first:
        return None  # damaged keys have a finding of their own
    if last == first:
        return f"its first key is the last one of {previous_name}, {first.hex()}: two examples have the same key"
    return (
        f"its first key is {first.hex()}, but the keys of {previous_name} end with {last.hex()}; "
        "keys must ascend through all shards of a split"
    )
