"""What of a damaged dataset follows from the rest of it: indexes, counts, the manifest.

A checksum that was published proves what is rebuilt: where it fits, the file is what it was, to the last bit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets import storage
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import KEY_SIZE, Index
from beam_datasets.formats.tfrecord import crc32c
from beam_datasets.model.info import INFO_FILE, LICENSE_FILE, METADATA_FILE, DatasetInfo
from beam_datasets.model.keys import ordered_key
from beam_datasets.model.manifest import Manifest, ShardColumns
from beam_datasets.model.split_info import SplitDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from beam_datasets.reading.verifying import Examination
    from beam_datasets.reading.verifying.shard_facts import ShardFacts

_MADE_BY: Mapping[str, Any] = {"builder": "", "options": {}, "source": None}
"""What of a manifest nothing else says, and what stands there where it is lost."""

_KINDS: Mapping[str, Any] = {"builder": str, "options": dict, "source": (dict, type(None)), "digest": str}
_HEADER_BYTES = 40  # of an index, with checksums of all that follows


def rebuild_index(shard: str, old: bytes, published: int | None, first: int) -> tuple[bytes, bool]:
    """Returns the index of a whole shard, and whether it is proved to be the published one.

    Its offsets are those of the shard. Its keys cannot be known from records: they are taken from what is left of the
    old index, or, as integer keys may be, from the positions; but only where a checksum proves it: the published one,
    or where that is not known those in the old index's header. Else the index has none.

    Args:
        shard: the path of the shard.
        old: what its index file holds; empty where there is none.
        published: CRC-32C of the index that was published; None where it is not known.
        first: the index in the split of the shard's first example.
    """
    offsets = _offsets(shard)
    for keys, ordered in _candidates(old, len(offsets) - 1, first):
        try:
            index = Index(offsets, keys, ordered=ordered, unsorted=True).to_bytes()
        except ValueError:
            continue
        proved = crc32c(index) == published if published is not None else index[:_HEADER_BYTES] == old[:_HEADER_BYTES]
        if proved:
            return index, True
    index = Index(offsets).to_bytes()
    return index, crc32c(index) == published


def _offsets(shard: str) -> NDArray[np.int64]:
    parts = [np.zeros(1, np.int64)]
    with storage.open_reader(shard) as reader:
        parts += [chunk.offsets[1:] + chunk.start for chunk in tfrecord.scan_file(reader, shard, check=False)]
    return np.concatenate(parts)


def _candidates(old: bytes, count: int, first: int) -> Iterator[tuple[NDArray[np.uint8], bool]]:
    """Yields what the keys may have been, and whether they are integers."""
    size = KEY_SIZE * count
    for start in dict.fromkeys((48 + 8 * count, len(old) - size)):
        if 0 <= start <= len(old) - size:
            keys = np.frombuffer(old, np.uint8, size, start).reshape(count, KEY_SIZE)
            yield keys, False
            yield keys, True
    positions = b"".join(map(ordered_key, range(first, first + count)))
    yield np.frombuffer(positions, np.uint8).reshape(count, KEY_SIZE), True


def rebuild_info(text: bytes, manifest: Manifest) -> bytes | None:
    """Returns dataset_info.json with the counts that the manifest says; None where that is not the published one.

    Args:
        text: what the damaged file holds.
        manifest: of the dataset.
    """
    try:
        info = DatasetInfo.from_json_text(text, path=INFO_FILE)
        splits = [
            info.splits[name].replace(shard_lengths=list(columns.num_examples), num_bytes=sum(columns.num_bytes))
            for name, columns in ((name, manifest.splits[name]) for name in info.splits)
        ]
        rebuilt = info.replace(splits=SplitDict(splits)).to_json_text().encode()
    except (BeamDatasetsError, KeyError):
        return None
    return rebuilt if hashlib.sha256(rebuilt).hexdigest() == manifest.metadata.get(INFO_FILE) else None


@dataclasses.dataclass(frozen=True)
class RebuiltManifest:
    """A manifest that was made of what it describes.

    Attributes:
        manifest: the manifest.
        digest_before: as the damaged file says it; None where it cannot be read there.
        lost: which of its fields could not be read in the damaged file, and are empty now.
    """

    manifest: Manifest
    digest_before: str | None
    lost: tuple[str, ...]

    @property
    def is_proved(self) -> bool:
        """Whether it is the published one: the digest fits."""
        return self.manifest.digest == self.digest_before


def rebuild_manifest(examination: Examination) -> RebuiltManifest:
    """Returns the manifest of a dataset that is whole but for its manifest.

    What only the manifest said (what built the dataset, with which options, from which source) is read in the damaged
    file as far as it can be.

    Args:
        examination: of the dataset, with nothing else damaged.
    """
    known, facts = examination.known, iter(examination.facts)
    if known.info is None:
        raise ValueError(f"{known.directory}: a manifest cannot be made without {INFO_FILE}")
    text = (known.manifest_text or b"").decode(errors="replace")
    found = _fields(text)
    splits = {split.name: _columns([next(facts) for _ in split.filenames]) for split in known.splits}
    manifest = Manifest(
        name=known.info.name,
        config=known.info.config_name,
        version=str(known.info.version),
        splits=splits,
        metadata={name: _sha256(storage.join(known.directory, name)) for name in _small_files(examination)},
        **{name: found.get(name, empty) for name, empty in _MADE_BY.items()},
    )
    lost = tuple(name for name in _MADE_BY if name not in found)
    return RebuiltManifest(manifest, found.get("digest"), lost)


def _small_files(examination: Examination) -> list[str]:
    """Returns the small files of a dataset that its manifest tells of."""
    known = examination.known
    names = ["dataset_info.json", "features.json", METADATA_FILE, LICENSE_FILE]
    known.features.load_labels(lambda name: names.append(name))
    return [name for name in names if storage.exists(storage.join(known.directory, name))]


def _columns(facts: Sequence[ShardFacts]) -> ShardColumns:
    return ShardColumns(
        num_examples=[shard.num_records for shard in facts],
        num_bytes=[shard.num_bytes for shard in facts],
        file_bytes=[shard.size for shard in facts],
        crc32c=[shard.crc32c or 0 for shard in facts],
        index_crc32c=[(shard.index and shard.index.crc32c) or 0 for shard in facts],
    )


def _fields(text: str) -> dict[str, Any]:
    """Returns those fields of a damaged manifest that can be read, each by itself."""
    found = {}
    for name in _KINDS:
        matches = re.finditer(rf'^( *)"{name}": *', text, re.MULTILINE)
        match = min(matches, key=lambda match: len(match[1]), default=None)  # the outermost
        try:
            if match is not None:
                found[name] = json.JSONDecoder().raw_decode(text, match.end())[0]
        except (ValueError, RecursionError):
            continue
    return {name: value for name, value in found.items() if isinstance(value, _KINDS[name])}


def _sha256(path: str) -> str:
    return hashlib.sha256(storage.read_bytes(path)).hexdigest()
