"""What was found against what should be: pure functions from both to findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE
from beam_datasets.reading.shards import INDEX_SUFFIX
from beam_datasets.verifying.findings import Finding, Lost, Report
from beam_datasets.verifying.many_shards import ShardTable
from beam_datasets.verifying.usual import are_usual, is_usual

if TYPE_CHECKING:
    from beam_datasets.metadata.manifest import ShardColumns
    from beam_datasets.verifying.known import Known, KnownSplit
    from beam_datasets.verifying.shard_facts import IndexFacts, ShardFacts
    from beam_datasets.verifying.walking import Damage, Mismatch

Checksums = Mapping[int, str]  # CRC-32C of a published file -> its name


def conclude(known: Known, facts: Sequence[ShardFacts]) -> Report:
    """Returns the report of a dataset.

    Args:
        known: what should be.
        facts: what each shard holds, in the order of `known.tasks()`.

    Raises:
        ValueError: there are facts of more or fewer shards.
    """
    if len(facts) != known.num_shards:
        raise ValueError(f"{known.directory}: {len(facts)} shards were read of {known.num_shards}")
    findings = list(known.findings)
    first = 0
    names, table = _Names(known), ShardTable.of(facts)
    for split in known.splits:
        mine = table[first : first + len(split.filenames)]
        first += len(mine)
        odd = np.flatnonzero(~are_usual(split, mine, indexed=known.indexed)).tolist()
        for number in odd:
            findings += _Shard(known, split, number, mine[number], names).findings()
        if odd or not is_usual(split, mine):
            findings += _across(known, split, list(mine))
    return Report(
        known.full_name,
        known.directory,
        tuple(findings),
        known.not_known,
        len(table) - sum(shard.problem is not None for shard in table.others.values()),
        int(table.rows["num_records"].sum()),
        int(table.rows["size"].sum()),
    )


@dataclass(frozen=True)
class _Names:
    """The names of published files by their checksums, which are only asked for where something is wrong."""

    known: Known

    @cached_property
    def shards(self) -> Checksums:
        """Of all shards."""
        return self._by("crc32c")

    @cached_property
    def indexes(self) -> Checksums:
        """Of all indexes."""
        return self._by("index_crc32c", INDEX_SUFFIX)

    def _by(self, column: str, suffix: str = "") -> Checksums:
        return {
            crc: name + suffix
            for split in self.known.splits
            if split.columns is not None
            for crc, name in zip(getattr(split.columns, column), split.filenames)
        }


@dataclass(frozen=True)
class _Shard:
    """A shard to judge.

    Attributes:
        known: of the dataset.
        split: of the shard.
        number: of the shard in the split.
        facts: what it holds.
        names: of all published files.
    """

    known: Known
    split: KnownSplit
    number: int
    facts: ShardFacts
    names: _Names

    def findings(self) -> Iterator[Finding]:
        """Yields what is wrong with the file, then what is with its index."""
        mine = list(self._of_file())
        yield from mine
        yield from self._of_index(whole=not any(finding.kind != "example" for finding in mine))

    # --------------------------------------------------------------------------------------------------- what should be

    @property
    def _name(self) -> str:
        return self.split.filenames[self.number]

    @property
    def _expected(self) -> int | None:
        """How many records it should have."""
        return None if self.split.num_examples is None else self.split.num_examples[self.number]

    def _published(self, column: str) -> int | None:
        """What the manifest says of it."""
        columns = self.split.columns
        return None if columns is None else getattr(columns, column)[self.number]

    def _lost(self, first: int = 0, stop: int | None = None) -> Lost | None:
        """Returns records [first, stop) of the file as examples of the split, as far as there should be such."""
        if self._expected is None:
            return None
        start, stop = self.split.starts[self.number], self._expected if stop is None else min(stop, self._expected)
        return Lost(self.split.name, start + first, start + stop) if first < stop else None

    # --------------------------------------------------------------------------------------------------------- the file

    def _of_file(self) -> Iterator[Finding]:
        facts, name = self.facts, self._name
        if facts.problem is not None:
            kind = "missing" if facts.missing else "unreadable"
            yield Finding(name, None, None, kind, facts.problem, self._lost())
            return
        for damage in facts.damages:
            yield self._of_damage(damage)
        if facts.broken:
            if facts.damages[-1].count is not None:
                yield from self._of_count()
            return
        published = self._published("crc32c")
        if published is not None and facts.crc32c != published:
            yield self._of_another_content(published)
        else:
            yield from self._of_count()

    def _of_damage(self, damage: Damage) -> Finding:
        kind, message = damage.kind, damage.problem
        if self._expected is not None and damage.record >= self._expected:
            kind, message = "size", f"{self.facts.size - damage.offset} bytes stand behind the last record"
        elif damage.count is None and kind == "record":
            message += "; where the next record begins is not known, so the rest of the file is lost"
        elif damage.count is not None and damage.count > 1:
            message += f" (the first of {damage.count} records)"
        stop = None if damage.count is None else damage.record + damage.count
        lost = self._lost(damage.record, stop) if kind != "example" else None
        return Finding(self._name, damage.offset, damage.record, kind, message, lost)

    def _of_another_content(self, published: int) -> Finding:
        """Returns the finding of a file of good records that are not, or not all, those that were published."""
        other = self.names.shards.get(self.facts.crc32c or 0)
        found, expected = self.facts.num_records, self._expected or 0
        if other is not None and other != self._name:
            message = f"it has the content of {other}: CRC-32C {self.facts.crc32c:08x}, published was {published:08x}"
            return Finding(self._name, None, None, "replaced", message, self._lost())
        if self._is_beginning():
            message = f"the file ends after {found} records, published were {expected}. It is cut off"
            return Finding(self._name, self.facts.size, found, "cut", message, self._lost(found))
        if self._goes_on():
            message = f"{found - expected} records stand behind the {expected} that were published"
            return Finding(self._name, None, expected, "size", message)
        counts = "" if found == expected else f" and {found} records, published were {expected}"
        message = f"its CRC-32C is {self.facts.crc32c:08x}, published was {published:08x}{counts}"
        return Finding(
            self._name, None, None, "replaced", f"{message}. The records are whole, but not all are those", self._lost()
        )

    def _is_beginning(self) -> bool:
        """Whether the file is the published one as far as it goes, by the published index."""
        mismatch = self._from_published_index()
        return mismatch is not None and mismatch.record == self.facts.num_records < (self._expected or 0)

    def _goes_on(self) -> bool:
        """Whether the published file is there, by its index, and more behind it."""
        mismatch = self._from_published_index()
        return mismatch is not None and mismatch.indexed is None and self.facts.num_records >= mismatch.record

    def _from_published_index(self) -> Mismatch | None:
        """Returns where the file differs from the index, if that is the published one."""
        index = self.facts.index
        return index.mismatch if index is not None and index.crc32c == self._published("index_crc32c") else None

    def _of_count(self) -> Iterator[Finding]:
        found, expected = self.facts.num_records, self._expected
        source = INFO_FILE if self.split.columns is None else MANIFEST_FILE
        if expected is not None and found != expected:
            message = f"the file has {found} records, but by {source} it has {expected}"
            yield Finding(self._name, self.facts.size, None, "count", message, self._lost(found))

    # -------------------------------------------------------------------------------------------------------- the index

    def _of_index(self, *, whole: bool) -> Iterator[Finding]:
        """Yields what is wrong with the index.

        Args:
            whole: whether nothing is wrong with the shard. Where something is, a difference is not the index's fault.
        """
        index, name = self.facts.index, self._name + INDEX_SUFFIX
        published = self._published("index_crc32c")
        if index is None:
            if self.known.indexed:
                yield Finding(name, None, None, "index", "there is no such file")
            return
        if index.crc32c is None:
            yield Finding(name, None, None, "unreadable", index.problem or "")
        elif published is not None and index.crc32c != published:
            message = self._index_message(index, index.crc32c, published)
            yield Finding(name, None, None, self._index_kind(index), message)
        elif index.problem is not None:
            yield Finding(name, None, None, "index", index.problem)
        elif index.keys_problem is not None:
            yield Finding(name, None, None, "keys", index.keys_problem)
        elif whole and index.mismatch is not None:
            yield Finding(name, None, index.mismatch.record, "index", self._difference(index))

    def _index_kind(self, index: IndexFacts) -> str:
        serves = index.problem is None and index.mismatch is None and not self.facts.broken
        return "keys" if serves else "index"

    def _index_message(self, index: IndexFacts, found: int, published: int) -> str:
        """Returns what is wrong with an index that is not the published one."""
        other = self.names.indexes.get(found)
        if other is not None:
            return f"it is the index {other}: CRC-32C {found:08x}, published was {published:08x}"
        reasons = [index.problem or index.keys_problem]
        if index.problem is None and index.mismatch is not None and not self.facts.broken:
            reasons.append(self._difference(index))
        if index.problem is None and not index.has_keys:
            reasons.append("it has no sort keys")
        reason = "; ".join(filter(None, reasons))
        return f"its CRC-32C is {found:08x}, published was {published:08x}" + (reason and f": {reason}")

    def _difference(self, index: IndexFacts) -> str:
        mismatch = index.mismatch
        if mismatch is None:
            return ""
        if index.num_records != self.facts.num_records:
            return f"it tells of {index.num_records} records, but the shard has {self.facts.num_records}"
        return (
            f"by the index record {mismatch.record} begins at byte {mismatch.indexed}, in the shard at {mismatch.found}"
        )


def _across(known: Known, split: KnownSplit, facts: Sequence[ShardFacts]) -> Iterator[Finding]:
    """Yields what is wrong between the shards of a split."""
    yield from _of_bytes(split, facts)
    columns = split.columns
    published = columns.index_crc32c if columns is not None else [None] * len(facts)
    indexes = [
        (name + INDEX_SUFFIX, shard.index)
        for name, shard, crc in zip(split.filenames, facts, published)
        if shard.index is not None and shard.index.num_records and crc in (None, shard.index.crc32c)
    ]
    keyed = [(name, index) for name, index in indexes if index.has_keys]
    for name, index in indexes if keyed and columns is None else ():
        if not index.has_keys:
            yield Finding(name, None, None, "keys", "it has no sort keys, but other shards of the split have")
    if split.new_starts is None:
        return
    starts = dict(zip((f"{name}{INDEX_SUFFIX}" for name in split.filenames), split.starts))
    for name, index in keyed:
        for record in index.descents:
            if starts.get(name, 0) + record + 1 not in split.new_starts:
                yield Finding(name, None, record + 1, "keys", "its key is not above that of the record before it")
    for (before, lower), (name, upper) in pairwise(keyed):
        problem = _of_order(lower.last_key, upper.first_key, before)
        if problem and starts.get(name) not in split.new_starts:
            yield Finding(name, None, 0, "keys", problem)


def _of_order(last: bytes | None, first: bytes | None, before: str) -> str | None:
    """Returns what is wrong with the first key of an index behind another one."""
    if last is None or first is None or last < first:
        return None  # keys that are damaged are told of already
    if last == first:
        return f"its first key is the last one of {before}, {first.hex()}: two examples have the same key"
    return (
        f"its first key is {first.hex()}, but the keys of {before} end with {last.hex()}; "
        "keys must ascend through all shards of a split"
    )


def _of_bytes(split: KnownSplit, facts: Sequence[ShardFacts]) -> Iterator[Finding]:
    """Yields a finding where the records of a split, whole otherwise, have another size than the small files say."""
    counts = [shard.num_records for shard in facts]
    if split.num_bytes is None or split.num_examples is None or any(shard.broken for shard in facts):
        return
    if counts != list(split.num_examples):
        return
    found = sum(shard.num_bytes for shard in facts) - _explained(split.columns, facts)
    framed = found + OVERHEAD * sum(counts)  # what TensorFlow Datasets says where it left the order to chance
    allowed = (found,) if split.columns is not None else (found, framed)
    if split.num_bytes not in allowed:
        message = f"split {split.name!r} has {found} bytes of records, but by the file it has {split.num_bytes}"
        source = INFO_FILE if split.columns is None else MANIFEST_FILE
        yield Finding(source, None, None, "metadata" if split.columns is None else "manifest", message)


def _explained(columns: ShardColumns | None, facts: Sequence[ShardFacts]) -> int:
    """Returns how many bytes of records too many there are in shards that have a finding: those of other content."""
    if columns is None:
        return 0
    published = zip(columns.crc32c, columns.num_bytes, facts)
    return sum(shard.num_bytes - size for crc, size, shard in published if shard.crc32c != crc)
