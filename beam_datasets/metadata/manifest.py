"""manifest.json: the published files with their checksums, by shard, and the source of a materialized dataset.

The text is deterministic: objects have sorted keys and one entry per line, lists are on one line, and the last entry is
the digest, the SHA-256 of the text without it. Equal digests mean equal datasets, whatever generated them.

The field `source` contains the lineage of a materialized dataset and the origin of its sort keys. A materialized record
keeps its sort key, or gets a key derived from it if it is shuffled again. So a sort key is computed from the author's
key by a *rule*: the salt of the first hash, and the salts of the later shuffles. The sort keys of a split ascend within
*stretches*, one for each part of a source that was appended to the others. In JSON, a rule is a list that begins with
the split's name (null for integer keys, which are not hashed); a stretch is [first example, rules]; a read is [number
of the dataset, split, start, stop].
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from beam_datasets.errors import InputError, MetadataError
from beam_datasets.metadata.keys import Key, hash_key, ordered_key, reshuffled_keys
from beam_datasets.metadata.names import DatasetName, check_file_name
from beam_datasets.metadata.split_by import meaning_of


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rule that turns an author's key into the sort key that an index holds.

    Attributes:
        split: the split whose name salts the hash; None for integer keys, which are kept in their order.
        salts: salts of later reshufflings, the first one first.
    """

    split: str | None
    salts: tuple[str, ...] = ()

    def sort_key(self, key: Key) -> bytes:
        """Returns the 16 bytes that the index holds.

        Raises:
            InvalidKeyError: the key is of a type that such keys are not.
        """
        result = ordered_key(key) if self.split is None else hash_key(self.split, key)  # type: ignore[arg-type]
        for salt in self.salts:
            result = reshuffled_keys(salt, [result])
        return result

    def reshuffled(self, salt: str) -> KeyRule:
        """Returns the rule of the same keys after one more reshuffling."""
        return KeyRule(self.split, (*self.salts, salt))


@dataclass(frozen=True, slots=True)
class Ascent:
    """A stretch of a split in which the sort keys ascend; it ends where the next one begins.

    Attributes:
        start: index of its first example.
        rules: rules of its keys; several, where examples of several stretches were shuffled into one.
    """

    start: int
    rules: tuple[KeyRule, ...]


def between(ascents: Sequence[Ascent], start: int, stop: int) -> Iterator[tuple[tuple[KeyRule, ...], int, int]]:
    """Yields (rules, start, stop) of what of each stretch lies in [start, stop), in order.

    >>> a, b = KeyRule("train"), KeyRule("test")
    >>> [(s, e) for _, s, e in between([Ascent(0, (a,)), Ascent(10, (b,))], 4, 12)]
    [(4, 10), (10, 12)]
    """
    ends = [ascent.start for ascent in ascents[1:]] + [stop]
    for ascent, end in zip(ascents, ends):
        if max(start, ascent.start) < min(stop, end):
            yield ascent.rules, max(start, ascent.start), min(stop, end)


@dataclass(frozen=True, slots=True)
class SourceDataset:
    """A dataset that was read.

    Attributes:
        name: the dataset's; the class of the builder of what was built to be appended.
        config: None where it has no configs.
        version: version of the dataset; None for data that was built to be appended, which cannot be opened.
        digest: the digest of its manifest; where it has none, the SHA-256 of its other metadata files.
        digest_of: 'manifest' or 'metadata'.
        source: its own origin, from its manifest; None for a generated one.
    """

    name: str
    config: str | None
    version: str | None
    digest: str
    digest_of: str
    source: Mapping[str, Any] | None = None

    @property
    def full_name(self) -> str:
        """Its name as it is written: `name/config:version`."""
        return str(DatasetName(self.name, self.config, self.version))


@dataclass(frozen=True, slots=True)
class Read:
    """Examples [start, stop) of a split of a dataset, which has its place in `Lineage.datasets`."""

    dataset: int
    split: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class SplitLineage:
    """Origin of the examples of a split.

    Attributes:
        expression: the requested expression.
        reads: slices that the expression means, in order.
        keys: the stretches of its sort keys; None where it has none.
    """

    expression: str
    reads: tuple[Read, ...]
    keys: tuple[Ascent, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Returns the lineage as a dict of JSON values, the argument of `from_json`.

        `reads` is a list of [dataset, split, start, stop]; `keys` is None or a list of [start, [[split, *salts], ...]].
        """
        keys = self.keys and [[a.start, [[rule.split, *rule.salts] for rule in a.rules]] for a in self.keys]
        reads = [[read.dataset, read.split, read.start, read.stop] for read in self.reads]
        return {"expression": self.expression, "reads": reads, "keys": keys}

    @classmethod
    def from_json(cls, value: Any) -> SplitLineage:
        """Returns the lineage from the result of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the value has another form; `Lineage.from_json` converts these errors.
        """
        keys = value["keys"]
        if keys is not None:
            ascents = [(_check_type(int, start), rules) for start, rules in keys]
            keys = tuple(Ascent(start, tuple(map(_rule, rules))) for start, rules in ascents)
            if [a.start for a in keys] != sorted({a.start for a in keys}) or (keys and keys[0].start):
                raise ValueError("the stretches of the keys do not follow one another")
        return cls(
            _check_type(str, value["expression"]),
            tuple(Read(*map(_check_type, (int, str, int, int), read)) for read in value["reads"]),
            keys,
        )


def _rule(value: Any) -> KeyRule:
    """Returns the key rule of its JSON list: ["train", "salt"] has the split "train" and one salt.

    Raises:
        TypeError: an item is not a string; the first may be None.
    """
    split, *salts = value
    return KeyRule(split if split is None else _check_type(str, split), tuple(_check_type(str, salt) for salt in salts))


def _check_type(kind: type, value: Any) -> Any:
    """Returns a value whose class must be exactly `kind`.

    Raises:
        TypeError: it has another class.
    """
    if type(value) is not kind:
        raise TypeError(f"{value!r:.100} is not a {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Lineage:
    """Origin of a materialized dataset.

    Attributes:
        datasets: the source datasets.
        splits: origin of each split.
        filter: name of the function that chose among the examples, as `module:function`; None where all were kept.
        features: the features that were kept; None where all were.
        reshuffle: the salt of the new order; None where the order was kept.
        appended: changes by `append`, if this is the next version of the first dataset: for each split how many
            examples were added, replaced, deleted and skipped; None for a materialized dataset.
    """

    datasets: tuple[SourceDataset, ...]
    splits: Mapping[str, SplitLineage]
    filter: str | None = None
    features: tuple[str, ...] | None = None
    reshuffle: str | None = None
    appended: Mapping[str, Mapping[str, int]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the field `source` of a manifest."""
        return {
            "datasets": [{name: getattr(dataset, name) for name in _DATASET} for dataset in self.datasets],
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "filter": self.filter,
            "features": None if self.features is None else list(self.features),
            "reshuffle": self.reshuffle,
            **({} if self.appended is None else {"appended": self.appended}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, path: str) -> Lineage:
        """Returns the lineage in the field `source` of a manifest.

        Args:
            value: the field.
            path: the manifest, for errors.

        Raises:
            MetadataError: it says something else.
        """
        try:
            features = value["features"]
            return cls(
                tuple(SourceDataset(**{name: dataset[name] for name in _DATASET}) for dataset in value["datasets"]),
                {name: SplitLineage.from_json(split) for name, split in value["splits"].items()},
                value["filter"],
                None if features is None else tuple(features),
                value["reshuffle"],
                None if (counts := value.get("appended")) is None else {k: dict(v) for k, v in counts.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MetadataError(
                f"field 'source' does not say where the dataset came from ({error}). Restore the file, or "
                "use the version of beam_datasets that wrote it.",
                path=path,
            ) from error


_DATASET = ("name", "config", "version", "digest", "digest_of", "source")

MANIFEST_FILE = "manifest.json"
RUN_FILE = "run.json"  # beside it: of the run that published
FORMAT_VERSION = 1
NEEDS = "beam_datasets>=0.1"  # versions that read FORMAT_VERSION; older versions show it to the user

_CHECKSUMS = ("crc32c", "index_crc32c")
_SHA256 = re.compile("[0-9a-f]{64}")
_DIGEST_AT_END = re.compile(r',\n "digest": "([0-9a-f]{64})"\n}\n?\Z')


@dataclass(frozen=True)
class ShardColumns:
    """Sizes and checksums of the shards of a split: one entry per shard in each column.

    Attributes:
        num_examples: in the shard.
        num_bytes: size of its serialized examples in bytes, without the framing of the file format.
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
        """Checks that all columns have an item for each shard.

        Raises:
            MetadataError: they have different lengths, or a number is invalid.
        """
        lengths = {column.name: len(getattr(self, column.name)) for column in fields(self)}
        if len(set(lengths.values())) > 1:
            raise MetadataError(f"the columns of the shards have different lengths: {lengths}.")
        for name in lengths:
            values, limit = getattr(self, name), 2**32 if name in _CHECKSUMS else 2**63
            if set(map(type, values)) - {int} or not 0 <= min(values, default=0) <= max(values, default=0) < limit:
                raise MetadataError(f"column {name!r} has an entry that is not an integer in [0, {limit}).")

    @property
    def num_shards(self) -> int:
        """The number of shards of the split."""
        return len(self.num_examples)

    def _to_json(self) -> dict[str, list[Any]]:
        """Returns {column: list of a value per shard}; checksums are eight hexadecimal digits."""
        columns = {column.name: list(getattr(self, column.name)) for column in fields(self)}
        return columns | {name: [f"{value:08x}" for value in columns[name]] for name in _CHECKSUMS}

    @classmethod
    def _from_json(cls, columns: Any) -> ShardColumns:
        """Returns the columns of their JSON; see `_to_json`.

        Raises:
            MetadataError: a column is missing, unknown or not a list.
        """
        _check_keys(columns, _COLUMNS, "of a split")
        for name, column in columns.items():
            if not isinstance(column, list):
                raise MetadataError(f"column {name!r} is not a list.")
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
    raise MetadataError(f"column {name!r} has an entry that is not of 8 hexadecimal digits.")


@dataclass(frozen=True)
class Manifest:
    """Record of a published version: its shards, metadata files, builder, options and origin.

    Attributes:
        name: the dataset's.
        config: None where the dataset has no configs.
        version: version of the dataset.
        splits: the shards of each split.
        metadata: file name -> SHA-256 of dataset_info.json, features.json and the like, in hexadecimal digits.
        builder: class that built it, as `module:class`.
        options: options that decide the content, and under "libraries" the name and version of each library that
            determined bytes of encoded values, if there are any; anything that JSON expresses.
        source: origin of a materialized dataset; None for a generated one.
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
        """Returns the fields of the manifest as JSON, without the digest, which is computed from this text."""
        content = {name: value for name, value in self.__dict__.items() if name in _FIELDS}
        splits = {name: columns._to_json() for name, columns in self.splits.items()}
        return _format_json({**content, "splits": splits, "format_version": FORMAT_VERSION, "needs": NEEDS})

    @classmethod
    def from_text(cls, text: str | bytes, *, path: str) -> Manifest:
        """Returns the content of a manifest.json.

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
            raise MetadataError(str(error), path=path) from None
        stored, digest = content["digest"], _digest_of(text) or manifest.digest
        if stored != digest:
            raise MetadataError(
                f"the digest is {digest}, stored is {stored}. The file was changed after it was published; restore it.",
                path=path,
            )
        manifest.__dict__["digest"] = stored  # checked; to write the text once more would take longer than to read it
        return manifest

    @classmethod
    def _from_json(cls, content: Any) -> Manifest:
        """Returns the manifest with this content; the digest is not checked.

        Raises:
            MetadataError: the format version is unknown, or fields are missing, unknown or of a wrong type.
        """
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


def _check_keys(content: Any, allowed: set[str], owner: str) -> None:
    """Checks that a value of JSON is a dict with exactly the allowed keys; `owner` completes the error message.

    Raises:
        MetadataError: it is not.
    """
    keys = set(content) if isinstance(content, dict) else set()
    if keys != allowed:
        unknown, missing = sorted(keys - allowed), sorted(allowed - keys)
        raise MetadataError(f"the fields {owner} differ: unknown are {unknown}, missing are {missing}.")


def _digest_of(text: str) -> str | None:
    """Returns the digest of a text as it was written; None if the digest is not at its end."""
    match = _DIGEST_AT_END.search(text, max(0, len(text) - 100))
    return hashlib.sha256((text[: match.start()] + "\n}").encode()).hexdigest() if match else None


def _format_json(value: Any, indent: str = "\n") -> str:
    """Returns JSON with sorted keys, one entry of an object per line; lists are on one line.

    Args:
        value: the value.
        indent: a line feed, followed by the indentation of the value.
    """
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    entries = (f"{json.dumps(key)}: {_format_json(value[key], indent + ' ')}" for key in sorted(value))
    return "{" + ",".join(f"{indent} {entry}" for entry in entries) + f"{indent}}}"


INPUTS_FILE = "inputs.json"

Stamp: TypeAlias = "tuple[int, float]"
"""A file's size in bytes, and the time of its last change in seconds since the epoch."""


def _dotted_options(options: str | None) -> str:
    """Returns options that decide the key or the split of a row, where fields of objects are named with dots."""
    return (options or "").replace("/", ".")


@dataclass(frozen=True)
class Inputs:
    """The files that a version was built from, and the columns that they have.

    Attributes:
        files: name -> size and time of the last change.
        columns: name -> type, as `features` of a builder of files takes it.
        key: the option that decides the keys of rows; '' for none, None if it is unknown.
        splits: the options that decide the splits of rows; '' if their files do, None if they are unknown.
        checksums: name of a file -> its checksum, such as `crc32c:9a71bb4c`; without those that are unknown.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    splits: str | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)

    def with_files(self, other: Inputs) -> Inputs:
        """Returns these inputs with the files of `other`, which replace those of the same name."""
        other_checksums = {name: checksum for name, checksum in self.checksums.items() if name not in other.files}
        return replace(self, files={**self.files, **other.files}, checksums={**other_checksums, **other.checksums})

    def check_options(self, other: Inputs) -> None:
        """Checks that rows of other files get their keys and splits by the options of these, as far as they are known.

        Raises:
            InputError: they do not.
        """
        is_key_other = None not in (self.key, other.key) and _dotted_options(self.key) != _dotted_options(other.key)
        are_splits_known = None not in (self.splits, other.splits)
        if is_key_other or (
            are_splits_known and meaning_of(_dotted_options(self.splits)) != meaning_of(_dotted_options(other.splits))
        ):
            raise InputError(
                expected=f"the options by which the published version was built, {self._options}",
                got=str(other._options),
                advice=(
                    "Give the same ones, or examples are doubled or move to another split; to change them, "
                    "build a new version of all files."
                ),
            )

    @property
    def _options(self) -> str:
        """Returns the options for keys and splits as text, "none" if there are none."""
        return " ".join(filter(None, (self.key, self.splits))) or "none"

    def to_text(self) -> str:
        """Returns the text of inputs.json."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_text(cls, text: str | bytes) -> Inputs | None:
        """Returns the content of an inputs.json; None if it is damaged.

        >>> Inputs.from_text(Inputs({"a.csv": (7, 1.5)}, {"id": "int64"}, "--key id").to_text())
        Inputs(files={'a.csv': (7, 1.5)}, columns={'id': 'int64'}, key='--key id', splits=None, checksums={})
        """
        try:
            content = json.loads(text)
            files = {name: (int(size), float(time)) for name, (size, time) in content["files"].items()}
            key, splits = (value if isinstance(value := content.get(name), str) else None for name in ("key", "splits"))
            columns = {name: str(spec) for name, spec in content["columns"].items()}
            checksums = {name: str(text) for name, text in content.get("checksums", {}).items()}  # older: none
            return cls(files, columns, key, splits, checksums)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
