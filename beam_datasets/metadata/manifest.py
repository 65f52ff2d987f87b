"""manifest.json: what was published, shard by shard, so that every byte of a dataset can be checked.

The text is deterministic: objects with sorted keys, an entry a line; lists on one line; last the digest, which is the
SHA-256 of the text without it. Equal digests mean equal datasets, whatever ran to make them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from beam_datasets.errors import MetadataError
from beam_datasets.metadata.names import check_file_name

MANIFEST_FILE = "manifest.json"
RUN_FILE = "run.json"  # beside it: of the run that published
FORMAT_VERSION = 1
NEEDS = "beam_datasets>=0.1"  # what reads FORMAT_VERSION; an older library shows it to its user

_CHECKSUMS = ("crc32c", "index_crc32c")
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGEST_AT_END = re.compile(r',\n "digest": "([0-9a-f]{64})"\n}\n?\Z')


@dataclass(frozen=True)
class ShardColumns:
    """What is known of the shards of a split: one entry a shard in each column.

    Attributes:
        num_examples: in the shard.
        num_bytes: of its serialized examples, without what the file format adds.
        file_bytes: size of the file.
        crc32c: CRC-32C of the file.
        index_crc32c: CRC-32C of the file's index.

    Raises:
        MetadataError: the columns are of different lengths, or a number is out of its range.
    """

    num_examples: Sequence[int]
    num_bytes: Sequence[int]
    file_bytes: Sequence[int]
    crc32c: Sequence[int]
    index_crc32c: Sequence[int]

    def __post_init__(self) -> None:
        lengths = {column.name: len(getattr(self, column.name)) for column in fields(self)}
        if len(set(lengths.values())) > 1:
            raise MetadataError(f"the columns of the shards have different lengths: {lengths}.")
        for name in lengths:
            values, limit = getattr(self, name), 2**32 if name in _CHECKSUMS else 2**63
            if set(map(type, values)) - {int} or not 0 <= min(values, default=0) <= max(values, default=0) < limit:
                raise MetadataError(f"column {name!r} has an entry that is no integer in [0, {limit}).")

    @property
    def num_shards(self) -> int:
        """How many shards the split has."""
        return len(self.num_examples)

    def _to_json(self) -> dict[str, list[Any]]:
        columns = {column.name: list(getattr(self, column.name)) for column in fields(self)}
        return columns | {name: [f"{value:08x}" for value in columns[name]] for name in _CHECKSUMS}

    @classmethod
    def _from_json(cls, columns: Any) -> ShardColumns:
        _check_keys(columns, {column.name for column in fields(cls)}, "of a split")
        for name, column in columns.items():
            if not isinstance(column, list):
                raise MetadataError(f"column {name!r} is not a list.")
        return cls(**columns | {name: _from_hex(name, columns[name]) for name in _CHECKSUMS})


def _from_hex(name: str, texts: list[str]) -> list[int]:
    try:
        if set(map(len, texts)) <= {8}:
            # A hundred thousand at once; bytes.fromhex would skip blanks, which then change the length.
            numbers: list[int] = np.frombuffer(bytes.fromhex("".join(texts)), ">u4").tolist()
            if len(numbers) == len(texts):
                return numbers
    except (TypeError, ValueError):
        pass
    raise MetadataError(f"column {name!r} has an entry that is not of 8 hexadecimal digits.")


@dataclass(frozen=True)
class Manifest:
    """What was published.

    Attributes:
        name: the dataset's.
        config: None where the dataset has no configs.
        version: of the dataset.
        splits: the shards of each split.
        metadata: file name -> SHA-256 of dataset_info.json, features.json and the like, in hexadecimal digits.
        builder: what made it, `module:class`.
        options: what was asked for and decides what is written, and under "libraries" the name and version of each
            library that determined bytes of encoded values, if there are any; anything that JSON expresses.
        source: where a materialized dataset came from; None for a generated one.
    """

    name: str
    config: str | None
    version: str
    splits: Mapping[str, ShardColumns]
    metadata: Mapping[str, str]
    builder: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None

    def to_text(self) -> str:
        """Returns the text of manifest.json."""
        return f'{self._body[:-2]},\n "digest": "{self.digest}"\n}}'

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that the manifest says, as 64 hexadecimal digits."""
        return hashlib.sha256(self._body.encode()).hexdigest()

    @cached_property
    def _body(self) -> str:
        content = {name: value for name, value in self.__dict__.items() if name in _FIELDS}
        splits = {name: columns._to_json() for name, columns in self.splits.items()}
        return _text({**content, "splits": splits, "format_version": FORMAT_VERSION, "needs": NEEDS})

    @classmethod
    def from_text(cls, text: str | bytes, *, path: str) -> Manifest:
        """Returns what a manifest.json says.

        Args:
            text: the file's content.
            path: the file, for errors.

        Raises:
            MetadataError: the text is damaged, does not fit its digest, or needs another library.
        """
        try:
            text = text if isinstance(text, str) else text.decode()
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"{path} is not JSON: {error}.") from error
        try:
            manifest = cls._from_json(content)
        except MetadataError as error:
            raise MetadataError(f"{path}: {error}") from None
        stored, found = content["digest"], _digest_of(text) or manifest.digest
        if stored != found:
            raise MetadataError(
                f"{path}: the digest is {found}, stored is {stored}. "
                "The file was changed after it was published; restore it."
            )
        manifest.__dict__["digest"] = stored  # checked; to write the text once more would take longer than to read it
        return manifest

    @classmethod
    def _from_json(cls, content: Any) -> Manifest:
        version = content.get("format_version") if isinstance(content, dict) else None
        if type(version) is int and version > FORMAT_VERSION:
            raise MetadataError(
                f"it is of format version {version}, this library reads {FORMAT_VERSION}. "
                f"Needed: {content.get('needs', 'a newer beam_datasets')}."
            )
        if version != FORMAT_VERSION:
            raise MetadataError(f"format_version is {version!r}; needed: {FORMAT_VERSION}.")
        _check_keys(content, {*_FIELDS, "format_version", "needs", "digest"}, "of the manifest")
        for name, kinds in _FIELDS.items():
            if not isinstance(content[name], kinds):
                raise MetadataError(f"field {name!r} is {content[name]!r:.100}, which is of a wrong type.")
        _check_metadata(content["metadata"])
        splits = {name: ShardColumns._from_json(columns) for name, columns in content["splits"].items()}
        return cls(**{name: content[name] for name in _FIELDS} | {"splits": splits})


_FIELDS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "config": (str, type(None)),
    "version": (str,),
    "splits": (dict,),
    "metadata": (dict,),
    "builder": (str,),
    "options": (dict,),
    "source": (dict, type(None)),
}


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuses files outside of the directory: what a manifest names is read, and restored from copies."""
    for name, sha256 in metadata.items():
        check_file_name(name)
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise MetadataError(f"the SHA-256 of {name!r} is {sha256!r:.100}; needed: 64 hexadecimal digits.")


def _check_keys(content: Any, known: set[str], whose: str) -> None:
    keys = set(content) if isinstance(content, dict) else set()
    if keys != known:
        unknown, missing = sorted(keys - known), sorted(known - keys)
        raise MetadataError(f"the fields {whose} differ: unknown are {unknown}, missing are {missing}.")


def _digest_of(text: str) -> str | None:
    """Returns the digest of a text as it was written; None where the digest does not stand at its end."""
    found = _DIGEST_AT_END.search(text, max(0, len(text) - 100))
    return hashlib.sha256((text[: found.start()] + "\n}").encode()).hexdigest() if found else None


def _text(value: Any, indent: str = "\n") -> str:
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    entries = (f"{json.dumps(key)}: {_text(value[key], indent + ' ')}" for key in sorted(value))
    return "{" + ",".join(f"{indent} {entry}" for entry in entries) + f"{indent}}}"
