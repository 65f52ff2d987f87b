"""manifest.json: the published files with their checksums, by shard.

The text is deterministic: objects have sorted keys and one entry per line, lists are on one line, and the last entry is
the digest, the SHA-256 of the text without it. Equal digests mean equal datasets, whatever generated them. The field
`source` is the lineage of a materialized dataset; see `metadata.lineage`.
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
NEEDS = "beam_datasets>=0.1"  # versions that read FORMAT_VERSION; older versions show it to the user

_CHECKSUMS = ("crc32c", "index_crc32c")
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGEST_AT_END = re.compile(r',\n "digest": "([0-9a-f]{64})"\n}\n?\Z')


@dataclass(frozen=True)
class ShardColumns:
    """Sizes and checksums of the shards of a split: each column has one entry for each shard.

    Attributes:
        num_examples: number of examples in the shard.
        num_bytes: size of the serialized examples in bytes, without the framing of the file format.
        file_bytes: size of the file in bytes.
        crc32c: CRC-32C of the file.
        index_crc32c: CRC-32C of the file's index.

    Raises:
        MetadataError: the columns have different lengths, or a number is out of range.
    """

    num_examples: Sequence[int]
    num_bytes: Sequence[int]
    file_bytes: Sequence[int]
    crc32c: Sequence[int]
    index_crc32c: Sequence[int]

    def __post_init__(self) -> None:
        """Checks that all columns have an item for each shard.

        Raises:
            MetadataError: the columns have different lengths, or a number is invalid.
        """
        lengths = {column.name: len(getattr(self, column.name)) for column in fields(self)}
        if len(set(lengths.values())) > 1:
            raise MetadataError(expected="columns of the shards with the same length", got=f"{lengths}")
        for name in lengths:
            values, limit = getattr(self, name), 2**32 if name in _CHECKSUMS else 2**63
            if set(map(type, values)) - {int} or not 0 <= min(values, default=0) <= max(values, default=0) < limit:
                raise MetadataError(f"expected integers in [0, {limit})", field=name)

    @property
    def num_shards(self) -> int:
        """The number of shards of the split."""
        return len(self.num_examples)

    def _to_json(self) -> dict[str, list[Any]]:
        """Returns {name of a column: its values as a list}; checksums are eight hexadecimal digits."""
        columns = {column.name: list(getattr(self, column.name)) for column in fields(self)}
        return columns | {name: [f"{value:08x}" for value in columns[name]] for name in _CHECKSUMS}

    @classmethod
    def _from_json(cls, columns: Any) -> ShardColumns:
        """Parses the result of `_to_json`.

        Raises:
            MetadataError: a column is missing, unknown or not a list.
        """
        _check_keys(columns, _COLUMNS, "a split")
        for name, column in columns.items():
            if not isinstance(column, list):
                raise MetadataError(expected="a list", got=f"{column!r:.100}", field=name)
        return cls(
            columns["num_examples"],
            columns["num_bytes"],
            columns["file_bytes"],
            _from_hex("crc32c", columns["crc32c"]),
            _from_hex("index_crc32c", columns["index_crc32c"]),
        )


_COLUMNS = {column.name for column in fields(ShardColumns)}


def _from_hex(name: str, texts: list[str]) -> list[int]:
    """Converts the checksums of a column, eight hexadecimal digits each, to integers.

    Raises:
        MetadataError: an entry is not a string of eight hexadecimal digits.
    """
    try:
        if set(map(len, texts)) <= {8}:
            # A hundred thousand at once; bytes.fromhex would skip blanks, which then change the length.
            numbers: list[int] = np.frombuffer(bytes.fromhex("".join(texts)), ">u4").tolist()
            if len(numbers) == len(texts):
                return numbers
    except (TypeError, ValueError):
        pass
    raise MetadataError("expected checksums of 8 hexadecimal digits", field=name)


@dataclass(frozen=True)
class Manifest:
    """Record of a published version: its shards, metadata files, builder, options and origin.

    Attributes:
        name: name of the dataset.
        config: name of the config; None if the dataset has no configs.
        version: version of the dataset.
        splits: the shards of each split.
        metadata: file name -> SHA-256 of a metadata file, such as dataset_info.json, in hexadecimal digits.
        builder: class of the builder, as `module:class`.
        options: JSON values of the options that determine the content; under "libraries", if there are any, the name
            and version of each library that determined bytes of encoded values.
        source: `Lineage.to_json()` of a materialized dataset; None for a generated one.
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
        """SHA-256 of the text without the digest, 64 hexadecimal digits."""
        return hashlib.sha256(self._body.encode()).hexdigest()

    @cached_property
    def _body(self) -> str:
        """The text of the manifest without the digest, which is computed from it."""
        content = {name: value for name, value in self.__dict__.items() if name in _FIELDS}
        splits = {name: columns._to_json() for name, columns in self.splits.items()}
        return _format_json({**content, "splits": splits, "format_version": FORMAT_VERSION, "needs": NEEDS})

    @classmethod
    def from_text(cls, text: str | bytes, *, path: str) -> Manifest:
        """Parses a manifest.json, and checks its digest.

        Args:
            text: content of the file.
            path: the file, for errors.

        Raises:
            MetadataError: the text is damaged, has another digest, or needs a newer version of this library.
        """
        try:
            text = text if isinstance(text, str) else text.decode()
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MetadataError(expected="JSON", got=f"another text ({error})", path=path) from error
        try:
            manifest = cls._from_json(content)
        except MetadataError as error:
            raise error.with_path(path) from None
        stored, digest = content["digest"], _digest_of(text) or manifest.digest
        if stored != digest:
            raise MetadataError(
                expected=f"content with the digest {stored}",
                got=digest,
                path=path,
                advice="The file was changed after it was published; restore it.",
            )
        manifest.__dict__["digest"] = stored  # checked; to write the text once more would take longer than to read it
        return manifest

    @classmethod
    def _from_json(cls, content: Any) -> Manifest:
        """Converts the JSON object of a manifest; does not check the digest.

        Raises:
            MetadataError: the format version is unknown, or fields are missing, unknown or of a wrong type.
        """
        version = content.get("format_version") if isinstance(content, dict) else None
        if type(version) is int and version > FORMAT_VERSION:
            advice = f"Install {content.get('needs', 'a newer beam_datasets')}."
            raise MetadataError(expected=f"{FORMAT_VERSION}", got=f"{version}", field="format_version", advice=advice)
        if version != FORMAT_VERSION:
            raise MetadataError(expected=f"{FORMAT_VERSION}", got=f"{version!r:.100}", field="format_version")
        _check_keys(content, {*_FIELDS, "format_version", "needs", "digest"}, "a manifest")
        for name, kinds in _FIELDS.items():
            if not isinstance(content[name], kinds):
                expected = " or ".join(_JSON_NAMES[kind] for kind in kinds)
                raise MetadataError(expected=expected, got=f"{content[name]!r:.100}", field=name)
        _check_metadata(content["metadata"])
        splits = {name: ShardColumns._from_json(columns) for name, columns in content["splits"].items()}
        return cls(**{name: content[name] for name in _FIELDS} | {"splits": splits})


_JSON_NAMES: Mapping[type, str] = {str: "text", dict: "an object", type(None): "null"}
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
    """Checks the names of metadata files, which must be in the directory, and the form of their checksums.

    Raises:
        MetadataError: a name could be a path to another directory, or a checksum is not 64 hexadecimal digits.
    """
    for name, sha256 in metadata.items():
        check_file_name(name)
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            expected = "a SHA-256 of 64 hexadecimal digits"
            raise MetadataError(expected=expected, got=f"{sha256!r:.100}", field=f"metadata.{name}")


def _check_keys(content: Any, allowed: set[str], owner: str) -> None:
    """Checks that a JSON value is a dict with exactly the allowed keys; `owner` completes the error message.

    Raises:
        MetadataError: a key is missing or unknown, or the value is not a dict.
    """
    keys = set(content) if isinstance(content, dict) else set()
    if keys != allowed:
        unknown, missing = sorted(keys - allowed), sorted(allowed - keys)
        raise MetadataError(
            expected=f"{owner} with the fields {', '.join(sorted(allowed))}",
            got=f"unknown {unknown}, missing {missing}",
        )


def _digest_of(text: str) -> str | None:
    """Computes the digest of the text of a manifest; None if the text does not end with a digest."""
    match = _DIGEST_AT_END.search(text, max(0, len(text) - 100))
    return hashlib.sha256((text[: match.start()] + "\n}").encode()).hexdigest() if match else None


def _format_json(value: Any, indent: str = "\n") -> str:
    """Formats JSON with sorted keys and one entry of an object per line; lists are on one line.

    Args:
        value: the value.
        indent: a line feed, followed by the indentation of the value.
    """
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    entries = (f"{json.dumps(key)}: {_format_json(value[key], indent + ' ')}" for key in sorted(value))
    return "{" + ",".join(f"{indent} {entry}" for entry in entries) + f"{indent}}}"
