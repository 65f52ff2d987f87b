"""Writing one shard of an export: from the source's records to a finished file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beam_datasets import storage
from beam_datasets.errors import LostExamplesError
from beam_datasets.exporting.output import Block, Decoder, Output
from beam_datasets.exporting.schema import as_files
from beam_datasets.formats import entries
from beam_datasets.generate.shard_writer import new_dir
from beam_datasets.materializing.plan import record_names
from beam_datasets.reading.decoding import Decode, Map, Raw
from beam_datasets.reading.ranges import read_blocks
from beam_datasets.reading.shards import ShardPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.exporting.plan import ExportedShard, ExportPlan
from beam_datasets.reading.decoding import Step

_BLOCK_BYTES, _BLOCK_ROWS = 1 << 20, 1024  # of records that are decoded together, at most


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that stands in the staging directory.

    Attributes:
        split: the split's name.
        number: of the shard in the split.
        filename: of the file.
        path: where it is staged.
        num_examples: in it.
        num_bytes: its size.
        crc32c: CRC-32C of it.
    """

    split: str
    number: int
    filename: str
    path: str
    num_examples: int
    num_bytes: int
    crc32c: int


def write_shard(plan: ExportPlan, shard: ExportedShard) -> WrittenFile:
    """Writes a shard into the staging directory; done again, or twice at once, it writes the same.

    Raises:
        BeamDatasetsError: a record is damaged or cannot be written; it names file, byte and record.
    """
    written = 0

    def blocks() -> Iterator[Block]:
        nonlocal written
        for block in _blocks(plan, shard):
            written += len(block.records)
            yield block

    path = storage.join(new_dir(plan.staging_dir), shard.filename)
    with storage.open_writer(path) as writer:
        out = Output(writer)
        plan.format.write(blocks(), plan.schema, out, shard.split)
        if written != shard.files.num_examples:
            raise LostExamplesError(
                f"{shard.filename}: {written} examples were written of {shard.files.num_examples}. Run it again."
            )
    return WrittenFile(shard.split, shard.number, shard.filename, path, written, out.num_bytes, out.crc32c)


def _blocks(plan: ExportPlan, shard: ExportedShard) -> Iterator[Block]:
    """Yields the examples in order, some at a time."""
    size = int(min(max(_BLOCK_BYTES / max(shard.example_bytes, 1), 1), _BLOCK_ROWS))
    pool, decoder, nth = ShardPool(""), Decoder(_step(plan)), shard.first
    for run in shard.files:
        record = run.skip
        for records in read_blocks(run, pool):
            for start in range(0, len(records), size):
                block = Block(run, record, nth, records[start : start + size], decoder)
                yield block
                record += len(block.records)
                nth += len(block.records)


def _step(plan: ExportPlan) -> Step:
    tree = plan.info.features
    if plan.format.decodes:
        return Decode(as_files(tree))
    return Raw() if plan.lineage.features is None else Map(_Keep(record_names(tree)))


@dataclass(frozen=True)
class _Keep:
    """Leaves only the features of some names in a record."""

    names: frozenset[bytes]

    def __call__(self, record: Any) -> bytes:
        return entries.keep(record, self.names)
