"""The description of a dataset: identity, documentation and splits, and their form in dataset_info.json.

It is the JSON form of a protocol buffer message, as TensorFlow Datasets writes it: names in camelCase, 64-bit integers
as strings, fields with their default value left out, keys sorted, indented by 2, ASCII, no newline at the end. The
reader also accepts names in snake_case, integers as numbers, and null for a missing field; a field that is not in the
schema is an error, because its meaning is unknown.

In a schema `str`, `int` and `bool` are values, `object` is any JSON object, which is kept as it is, `[schema]` a list,
`{"*": schema}` a map, and any other dict a message with these fields.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import posixpath
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from beam_datasets.advice import advised_getattr, advised_getitem
from beam_datasets.arguments import boolean, int64_of, is_unicode
from beam_datasets.errors import MetadataError, did_you_mean
from beam_datasets.metadata.names import DEFAULT_FILENAME_TEMPLATE, DatasetName, FilenameTemplate
from beam_datasets.metadata.splits import CountBytes, SplitDict, SplitInfo
from beam_datasets.metadata.version import Version

INFO_FILE = "dataset_info.json"
METADATA_FILE = "metadata.json"
LICENSE_FILE = "LICENSE"

SupervisedKeys: TypeAlias = "tuple[Any, ...]"
SplitSizes: TypeAlias = "Mapping[str, tuple[Sequence[int], int]]"  # split -> (shard lengths, bytes)


class MetadataDict(dict[str, Any]):
    """Further facts about a dataset, anything that JSON can express; they are kept in metadata.json."""


@dataclass(frozen=True)
class DatasetIdentity:
    """Name, config, version and directory of a dataset.

    Attributes:
        name: the dataset's, in snake case.
        version: version of the dataset.
        data_dir: the directory of this version.
        module_name: module that defines the builder.
        config_name: None where the dataset has no configs.
        config_description: description of the config.
        config_tags: tags of the config.
        release_notes: version -> what is new in it.
    """

    name: str = ""
    version: Version = Version("0.0.0")  # noqa: RUF009  # it never changes
    data_dir: str = ""
    module_name: str = ""
    config_name: str | None = None
    config_description: str | None = None
    config_tags: Sequence[str] = ()
    release_notes: Mapping[str, str] | None = None

    @staticmethod
    def from_builder(builder: Any) -> DatasetIdentity:
        """Returns the identity of what a builder builds."""
        config = builder.builder_config
        return DatasetIdentity(
            name=builder.name,
            version=Version(builder.version),
            data_dir=builder.dataset_dir,
            module_name=str(builder.__module__),
            config_name=config.name if config else None,
            config_description=config.description if config else None,
            config_tags=tuple(config.tags or ()) if config else (),
            release_notes=builder.release_notes,
        )


_TEXTS = ("name", "config_name", "config_description", "description", "citation", "file_format", "is_blocked")
_JSON_NAMES = {"homepage": "location", "license": "redistribution_info", "split_dict": "splits"}
"""Fields of dataset_info.json for arguments of `DatasetInfo` with another name."""
_SAME = (*_TEXTS, "module_name", "disable_shuffling", "nondeterministic_order", "download_size")
_IDENTITY = {identity_field.name for identity_field in dataclasses.fields(DatasetIdentity)}
_NOT_RESTORED = _IDENTITY | {"splits", "file_format", "stored"}


@dataclass(frozen=True)
class RedistributionInfo:
    """The licence of a dataset, as `DatasetInfo.redistribution_info` has it.

    Attributes:
        license: its text or its name; '' where it is not known.
    """

    license: str = ""


class InfoArguments(TypedDict, total=False):
    """Arguments of `DatasetInfo` besides the identity and the features, for functions that pass them on."""

    description: str
    supervised_keys: tuple[Any, ...] | None
    disable_shuffling: bool
    nondeterministic_order: bool
    homepage: str
    citation: str
    metadata: MetadataDict | None
    license: str | None
    redistribution_info: Mapping[str, str] | None
    split_dict: SplitDict | None
    alternative_file_formats: Sequence[str]
    download_size: int
    is_blocked: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class DatasetInfo(DatasetIdentity):
    """Metadata of a dataset, with the attributes of its identity, which a given builder provides.

    Attributes:
        description: description of the dataset; common indentation is taken away.
        features: the tree of feature connectors; a dict is taken for the FeaturesDict that it means.
        supervised_keys: (input, target) or (input, target, sample weight): names of features, or tuples and dicts of
            them; what `as_supervised` yields.
        disable_shuffling: whether examples are in the order of their keys, instead of a shuffled one.
        nondeterministic_order: whether the order was left to chance when the dataset was written.
        homepage: a URL.
        citation: usually BibTeX.
        license: the text of a licence, or its name.
        metadata: further facts, kept in metadata.json.
        redistribution_info: the licence by the name of TensorFlow Datasets: a dict when it is given, and a
            `RedistributionInfo` when it is read.
        splits: the written splits; empty before the dataset is built.
        file_format: file format of the shards.
        alternative_file_formats: file formats of further copies of the shards.
        download_size: size of the sources, in bytes; 0 if unknown.
        is_blocked: why the dataset must not be used; None where it may.
        stored: the fields of the dataset_info.json that was read, by their names in snake_case, None for those that it
            lacks; without those whose attributes were replaced since. They are written as they were read.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """

    builder: InitVar[Any] = None
    description: str = ""
    features: Any = None
    supervised_keys: tuple[Any, ...] | None = None
    disable_shuffling: bool = False
    nondeterministic_order: bool = False
    homepage: str = ""
    citation: str = ""
    metadata: MetadataDict | None = None
    license: str | None = None
    redistribution_info: InitVar[Mapping[str, str] | None] = None
    split_dict: InitVar[SplitDict | None] = None
    splits: SplitDict = field(default_factory=SplitDict)
    file_format: str = "tfrecord"
    alternative_file_formats: Sequence[str] = ()
    download_size: int = 0
    is_blocked: str | None = None
    stored: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self, builder: Any, redistribution_info: Any, split_dict: SplitDict | None) -> None:
        if builder is not None:
            self._set(vars(builder if isinstance(builder, DatasetIdentity) else self.from_builder(builder)))
        if split_dict is not None:
            self._set({"splits": split_dict})
        if self.features is not None:
            self._set_features()
        if self.supervised_keys is not None:  # of a file: they are compared with the features where they are used
            check_supervised_keys(self.supervised_keys, builder and self.features)
        licence = self.license if redistribution_info is None else _licence(self.license, redistribution_info)
        self._check_texts(licence)
        if self.metadata is not None:
            _check_metadata(self.metadata)
        self._set(
            {
                "disable_shuffling": boolean("disable_shuffling", self.disable_shuffling),
                "nondeterministic_order": boolean("nondeterministic_order", self.nondeterministic_order),
                "description": _dedent(self.description),
                "citation": _dedent(self.citation),
                "homepage": self.homepage or "",
                "license": _dedent(licence) or None,
            }
        )

    def _set_features(self) -> None:
        """Converts a dict of features to a feature tree, and checks the files with the labels of its features."""
        from beam_datasets.features.base import to_feature
        from beam_datasets.features.features_dict import check_label_files

        features = dict(self.features) if isinstance(self.features, Mapping) else self.features
        self._set({"features": to_feature(features, "features")})
        check_label_files(self.features)

    def _check_texts(self, licence: Any) -> None:
        """Checks what becomes text in dataset_info.json, which could be written but not read again.

        Raises:
            ValueError: a value is not a str, or UTF-8 cannot express it; the message names it.
        """
        notes = self.release_notes or {}
        if not isinstance(notes, Mapping):
            raise ValueError(f"release_notes is {notes!r:.100}; needed: a dict from versions to what is new in them.")
        _check_text("license", licence)
        for name in (*_TEXTS, "homepage"):
            _check_text(name, getattr(self, name))
        for version in notes:
            _check_text("a version of release_notes", str(version))
        for version, text in notes.items():
            _check_text(f"release_notes[{str(version)!r}]", text)
        for tag in self.config_tags:
            _check_text("a tag of config_tags", tag)

    def _set(self, values: Mapping[str, Any]) -> None:
        """Sets fields of this frozen dataclass by their names."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> DatasetInfo:
        """Returns a copy with some attributes changed; `stored` lacks the fields that these are written to."""
        changed = {_JSON_NAMES.get(name, name) for name in changes}
        if "builder" in changes:
            changed |= _IDENTITY
        stored = {name: value for name, value in self.stored.items() if name not in changed}
        return dataclasses.replace(self, **{"redistribution_info": None, **changes, "stored": stored})

    def with_published(self, published: DatasetInfo) -> DatasetInfo:
        """Returns this info with what was published: its splits, and each field and class names that this leaves open.

        Args:
            published: metadata on disk of the same version.

        Raises:
            MetadataError: it is of another dataset or version.
        """
        if published.full_name != self.full_name:
            raise MetadataError(
                f"{published.data_dir} holds {published.display_name}, but the code is {self.display_name}. "
                "Move the directory to where it belongs."
            )
        open_here = [
            f.name for f in dataclasses.fields(self) if f.name not in _NOT_RESTORED and not getattr(self, f.name)
        ]
        restored = {name: getattr(published, name) for name in open_here}
        if self.features is not None and published.features is not None:
            label_files, published_files = self.features.label_files(), published.features.label_files()
            if published_files.keys() - label_files.keys():
                restored["features"] = self.features.load_labels({**published_files, **dict.fromkeys(label_files)}.get)
        return self.replace(**restored, splits=published.splits, file_format=published.file_format)

    @property
    def initialized(self) -> bool:
        """Whether the splits are known, which means that the dataset is published."""
        return bool(self.splits)

    @property
    def full_name(self) -> str:
        """Name, config and version with slashes between: the directory within the data_dir, as in TFDS."""
        return posixpath.join(*filter(None, (self.name, self.config_name, str(self.version))))

    @property
    def display_name(self) -> str:
        """Name, config and version as commands and `load` take them, such as 'digits/small:1.0.0'."""
        return str(DatasetName(self.name, self.config_name, str(self.version)))

    @property
    def dataset_size(self) -> int:
        """Bytes of all serialized examples, without what the file format adds."""
        return sum(split.num_bytes for split in self.splits.values())

    @property
    def as_json(self) -> str:
        """The text of dataset_info.json."""
        return self.to_json_text()

    def to_json_text(self, splits: SplitSizes | None = None) -> str:
        """Returns the text of dataset_info.json.

        Args:
            splits: split -> (shard lengths, bytes), in the order to be stored; None for `self.splits`.
        """
        values = {**self._values(), **self.stored}
        if splits is not None:
            values["splits"] = [
                _split_values(SplitInfo(name, list(lengths), num_bytes))
                for name, (lengths, num_bytes) in splits.items()
            ]
        return to_text(values)

    def _values(self) -> dict[str, Any]:
        """Returns the fields of dataset_info.json that the attributes give, also empty ones; `stored` replaces some."""
        supervised = self.supervised_keys
        notes = {str(version): text for version, text in (self.release_notes or {}).items()}
        return {
            **{name: getattr(self, name) for name in _SAME},
            "config_tags": list(self.config_tags),
            "alternative_file_formats": list(self.alternative_file_formats),
            "version": str(self.version),
            "release_notes": notes or None,
            "location": {"urls": [self.homepage]} if self.homepage else None,
            "splits": [_split_values(split) for split in self.splits.values()],
            "supervised_keys": None if supervised is None else write_supervised_keys(supervised),
            "redistribution_info": {"license": self.license} if self.license else None,
        }

    @classmethod
    def from_json_text(
        cls,
        text: str | bytes,
        *,
        path: str,
        directory: str = "",
        features: Any = None,
        metadata: MetadataDict | None = None,
        count_bytes: CountBytes | None = None,
    ) -> DatasetInfo:
        """Returns the content of a dataset_info.json; `to_json_text` gives the same text back.

        Args:
            text: the file's content.
            path: the file, for errors.
            directory: the version's directory, with the shards.
            features: the connectors of the features, which are in another file; those of this one, if it has any, are
                not written again.
            metadata: content of metadata.json; None without that file.
            count_bytes: see `SplitDict`.

        Raises:
            MetadataError: the text is damaged or has a field that is not known.
        """
        values = from_text(text, path=path)
        stored = {name: values.get(name) for name in _INFO if name != "features" or features is None}
        try:
            info = cls(**_attributes(values, directory, count_bytes), metadata=metadata, stored=stored)
        except (MetadataError, ValueError) as error:
            raise MetadataError(str(error), path=path) from error
        info._set({"features": features})
        return info

    def extra_files(self) -> dict[str, str]:
        """Returns the small files beside dataset_info.json, by name: metadata.json and LICENSE, where there is any."""
        files = {}
        if self.metadata is not None:
            files[METADATA_FILE] = json.dumps(self.metadata)
        if self.license:
            files[LICENSE_FILE] = self.license
        return files

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("info")
        __getitem__ = advised_getitem("info")

    def _repr_html_(self) -> str:
        """Returns the metadata as HTML, which notebooks show."""
        from beam_datasets.display.html import info_html

        return info_html(self)

    def __repr__(self) -> str:
        names = "full_name description homepage data_dir file_format dataset_size features supervised_keys "
        names += "disable_shuffling splits citation license"
        values = {name: getattr(self, name) for name in names.split()} | {"splits": dict(self.splits)}
        lines = [f"    {name}={textwrap.indent(repr(value), '    ').lstrip()}," for name, value in values.items()]
        return "\n".join(["DatasetInfo(", *lines, ")"])


def _attributes(values: Mapping[str, Any], directory: str, count_bytes: CountBytes | None) -> dict[str, Any]:
    """Returns the arguments of `DatasetInfo` from the fields of dataset_info.json; the inverse of its `_values`.

    Args:
        values: the fields, by their names in snake_case.
        directory: the version's directory.
        count_bytes: see `SplitDict`.

    Raises:
        MetadataError: the name or the version is missing, or supervised keys cannot be read.
        ValueError: another field is invalid.
    """
    for required in ("name", "version"):
        if not values.get(required):
            raise MetadataError(f"field {required!r} is missing.")
    plain_values = {name: values[name] for name in _SAME if values.get(name)}
    name, version, supervised = plain_values["name"], Version(values["version"]), values.get("supervised_keys")
    dataset_name = str(DatasetName(name, plain_values.get("config_name"), str(version)))
    file_format = plain_values.get("file_format", "tfrecord")
    split_infos = [_split_info(name, file_format, directory, split) for split in values.get("splits", [])]
    return {
        "download_size": values.get("size_in_bytes", 0),
        **plain_values,
        "config_tags": tuple(values.get("config_tags", ())),
        "alternative_file_formats": tuple(values.get("alternative_file_formats", ())),
        "version": version,
        "data_dir": directory,
        "release_notes": values.get("release_notes"),
        "supervised_keys": None if supervised is None else read_supervised_keys(supervised),
        "homepage": next(iter(values.get("location", {}).get("urls", ())), ""),
        "license": values.get("redistribution_info", {}).get("license"),
        "splits": SplitDict(split_infos, dataset_name=dataset_name, count_bytes=count_bytes),
    }


def _check_text(name: str, value: Any) -> None:
    """Checks that a value is None, or a str that UTF-8 can express; `name` is for the error.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, (str, type(None))):
        raise ValueError(f"{name} is {value!r:.100} of type {type(value).__name__}; needed: a str.")
    if value and not is_unicode(value):
        raise ValueError(f"{name} is {value!r:.100}, with half of a surrogate pair, which UTF-8 cannot express.")


def _dedent(text: str | None) -> str:
    """Returns a text without common indentation and surrounding whitespace; "" for None."""
    return textwrap.dedent(text).strip() if text else ""


def _check_metadata(metadata: Any) -> None:
    """Checks that the metadata is None, or a dict that can be written as JSON.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(metadata, (dict, type(None))):
        raise ValueError(f"metadata is {metadata!r:.100}; needed: a MetadataDict.")
    try:
        json.dumps(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata cannot be written as JSON: {error}.") from None


def _redistribution_info(info: DatasetInfo) -> RedistributionInfo:
    """The licence, by the name that TensorFlow Datasets has for it."""
    return RedistributionInfo(info.license or "")


# An InitVar leaves its default as an attribute of the class: what is read is this instead.
DatasetInfo.redistribution_info = property(_redistribution_info)  # type: ignore[attr-defined]


def _licence(licence: str | None, redistribution_info: Any) -> str | None:
    """Returns the licence that is given by one of the two arguments."""
    if isinstance(redistribution_info, RedistributionInfo):
        redistribution_info = {"license": redistribution_info.license} if redistribution_info.license else {}
    info = dict(redistribution_info or {})
    other: str | None = info.pop("license", licence)
    if info:
        raise ValueError(f"redistribution_info has the unknown keys {sorted(info)}; known is 'license'.")
    if licence is not None and licence != other:
        raise ValueError(f"license is {licence!r}, but redistribution_info says {other!r}; give one of them.")
    return other


def _split_values(split: SplitInfo) -> dict[str, Any]:
    """Returns the fields of a split for dataset_info.json, as `_split_info` reads them.

    They are `name`, `shard_lengths`, `num_bytes`, `filepath_template`, and `statistics` if they are known.
    """
    template = split.filename_template
    return {
        "name": split.name,
        "shard_lengths": split.shard_lengths,
        "num_bytes": split.num_bytes,
        "filepath_template": template.template if template else DEFAULT_FILENAME_TEMPLATE,
    } | ({} if split.statistics is None else {"statistics": split.statistics})


def _split_info(dataset: str, file_format: str, directory: str, values: Mapping[str, Any]) -> SplitInfo:
    """Returns the split that the fields of dataset_info.json describe; the inverse of `_split_values`.

    Args:
        dataset: name of the dataset.
        file_format: format of the shards, such as 'tfrecord'.
        directory: directory of the shards.
        values: the fields of the split, by their names in snake_case.
    """
    name = values.get("name", "")
    template = values.get("filepath_template") or DEFAULT_FILENAME_TEMPLATE
    return SplitInfo(
        name=name,
        shard_lengths=values.get("shard_lengths", []),
        num_bytes=values.get("num_bytes", 0),
        filename_template=FilenameTemplate(dataset, name, file_format, template),
        directory=directory,
        statistics=values.get("statistics"),
    )


_NEST: dict[str, Any] = {"feature_key": str}
_NEST |= {"tuple": {"items": [_NEST]}, "dict": {"dict": {"*": _NEST}}}
_SPLIT = {
    "name": str,
    "num_shards": int,
    "shard_lengths": [int],
    "num_bytes": int,
    "statistics": object,
    "filepath_template": str,
}
_SOURCE_ACCESS = {
    "access_timestamp_ms": int,
    "file_system": {"path": str},
    "sql_query": {"sql_query": str},
    "tfds_dataset": dict.fromkeys(("name", "config", "version", "data_dir", "ds_namespace", "split"), str),
    "url": {"url": str, "checksum": str},
}
_INFO = {
    "name": str,
    "description": str,
    "version": str,
    "release_notes": {"*": str},
    "config_name": str,
    "config_description": str,
    "config_tags": [str],
    "features": object,
    "citation": str,
    "size_in_bytes": int,
    "download_size": int,
    "location": {"urls": [str]},
    "download_checksums": {"*": str},
    "schema": object,
    "splits": [_SPLIT],
    "supervised_keys": {"input": str, "output": str, "tuple": {"items": [_NEST]}},
    "redistribution_info": {"license": str},
    "module_name": str,
    "disable_shuffling": bool,
    "file_format": str,
    "alternative_file_formats": [str],
    "data_source_accesses": [_SOURCE_ACCESS],
    "is_blocked": str,
    "nondeterministic_order": bool,
}
_EXPECTED = {str: "a string", int: "an integer of 64 bits, as a string or a number", bool: "true or false"}


def to_text(values: Mapping[str, Any]) -> str:
    """Returns the text of dataset_info.json for values by their names in snake_case."""
    return json.dumps(_value_to_json(_INFO, values), indent=2, sort_keys=True)


def from_text(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Returns the values in a dataset_info.json by their names in snake_case, without fields that are missing.

    Args:
        text: the file's content.
        path: the file, for errors.

    Raises:
        MetadataError: the text is not JSON, a value is of a wrong type, or a field is unknown; the message names it.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{path} is not JSON: {error}.") from error
    try:
        return dict(_parse_value(_INFO, content, ""))
    except MetadataError as error:
        raise MetadataError(str(error), path=path) from None


@functools.cache  # of the names of fields
def _camel_case(name: str) -> str:
    """Returns a field's name as it is written.

    >>> _camel_case("shard_lengths")
    'shardLengths'
    """
    first, *other_words = name.split("_")
    return first + "".join(map(str.capitalize, other_words))


def _parse_value(schema: Any, value: Any, field_path: str) -> Any:
    """Validates a JSON value against a schema and converts it to Python; errors name the path `field_path`.

    Raises:
        MetadataError: the value has a wrong type or an unknown field, or UTF-8 cannot express a string.
    """
    if schema == [int] and (numbers := _integers(value)) is not None:
        return numbers
    if isinstance(schema, list):
        return [
            _parse_value(schema[0], item, f"{field_path}[{i}]")
            for i, item in enumerate(_of_type(list, value, field_path))
        ]
    if schema is object:
        return _of_type(dict, value, field_path)
    if isinstance(schema, dict):
        content: dict[str, Any] = _of_type(dict, value, field_path)
        if "*" not in schema:
            return _read_message(schema, content, field_path)
        keys = [_parse_value(str, key, f"a key of {field_path}") for key in content]
        return {key: _parse_value(schema["*"], content[key], f"{field_path}.{key}") for key in keys}
    if schema is int:
        number = int64_of(value)
        if number is None:
            raise _field_error(field_path, value, _EXPECTED[int])
        return number
    if schema is str and type(value) is str and not is_unicode(value):
        raise MetadataError(
            f"field {field_path!r} is {value!r:.100}, with half of a surrogate pair, which UTF-8 cannot express."
        )
    return _of_type(schema, value, field_path)


def _read_message(schema: Mapping[str, Any], content: dict[str, Any], parent_path: str) -> dict[str, Any]:
    """Returns the fields of an object by their names in snake_case; fields that are null are omitted.

    Args:
        schema: name of a field in snake_case -> schema of its value; see `_parse_value`.
        content: the object.
        parent_path: path of the object, for errors; '' for the top level.

    Raises:
        MetadataError: a field is unknown, or occurs both in camelCase and in snake_case.

    >>> _read_message({"shard_lengths": [int], "name": str}, {"shardLengths": ["3", "4"], "name": None}, "")
    {'shard_lengths': [3, 4]}
    """
    names = {_camel_case(name): name for name in schema}
    message: dict[str, Any] = {}
    for key, item in content.items():
        path = f"{parent_path}.{key}" if parent_path else key
        name = key if key in schema else names.get(key)
        if name is None:
            known_names = ", ".join(sorted(names))
            raise MetadataError(f"field {path!r} is unknown; known are {known_names}.")
        if name in message:
            raise MetadataError(f"field {path!r} is there twice, in camelCase and in snake_case.")
        if item is not None:
            message[name] = _parse_value(schema[name], item, path)
    return message


def _of_type(kind: Any, value: Any, field_path: str) -> Any:
    """Returns a value of JSON whose class must be exactly `kind`; `field_path` is the path of the field for errors.

    Raises:
        MetadataError: it has another class.
    """
    if type(value) is not kind:
        raise _field_error(field_path, value, {list: "a list", dict: "an object"}.get(kind) or _EXPECTED[kind])
    return value


def _field_error(field_path: str, value: Any, expected: str) -> MetadataError:
    """Returns the error about a field of dataset_info.json; `expected` describes the value that it needs."""
    return MetadataError(f"field {field_path!r} is {value!r:.100}; needed: {expected}.")


def _integers(value: Any) -> list[int] | None:
    """Returns a list of integers read at once, as a split may have 100,000 shards; None if one must be looked at."""
    if type(value) is not list or not set(map(type, value)) <= {str, int}:
        return None
    digits = "".join(map(str, value))
    if digits and not (digits.isascii() and digits.isdigit()):  # int() takes "1_0", " 5 " and other digits
        return None
    try:
        numbers = list(map(int, value))
    except ValueError:
        return None
    return numbers if 0 <= min(numbers, default=0) <= max(numbers, default=0) < 2**63 else None


def _value_to_json(schema: Any, value: Any) -> Any:
    """Converts a value to JSON, the inverse of `_parse_value`: integers become strings, defaults are omitted.

    Args:
        schema: the type of the value: `int` or another class, a list of one schema, a dict of schemas by field name, or
            {'*': schema} for a map.
        value: the value.

    >>> _value_to_json({"num_bytes": int, "name": str}, {"num_bytes": 5, "name": ""})
    {'numBytes': '5'}
    """
    if schema is int:
        return str(value)
    if isinstance(schema, list):
        return [_value_to_json(schema[0], item) for item in value]
    if not isinstance(schema, dict):
        return value
    if "*" in schema:
        return {key: _value_to_json(schema["*"], item) for key, item in value.items()} or None
    # Default values are left out, except messages and the one choice of several.
    non_defaults = {k: v for k, v in value.items() if v or isinstance(v, Mapping) or k == "feature_key"}
    json_values = {_camel_case(name): _value_to_json(schema[name], item) for name, item in non_defaults.items()}
    return {name: item for name, item in json_values.items() if item is not None}


def read_supervised_keys(values: Mapping[str, Any]) -> SupervisedKeys:
    """Returns supervised keys from the field of the same name of dataset_info.json."""
    if values.get("input") and values.get("output"):  # how old files have it
        return values["input"], values["output"]
    return tuple(map(_read_nest, values.get("tuple", {}).get("items", [])))


def _read_nest(values: Mapping[str, Any]) -> Any:
    """Returns the tuples, dicts and feature names of an item of supervised keys; the inverse of `_write_nest`.

    Raises:
        MetadataError: the item has none of the known fields.
    """
    if "tuple" in values:
        return tuple(map(_read_nest, values["tuple"].get("items", [])))
    if "dict" in values:
        return {key: _read_nest(nest) for key, nest in sorted(values["dict"].get("dict", {}).items())}
    if "feature_key" in values:
        return values["feature_key"]
    raise MetadataError("field 'supervisedKeys' has an item without featureKey, tuple or dict.")


def write_supervised_keys(keys: SupervisedKeys) -> dict[str, Any]:
    """Returns the field of supervised keys; the inverse of `read_supervised_keys`.

    Raises:
        ValueError: they are not 2 or 3 keys, or not of tuples, dicts and names.
    """
    if not isinstance(keys, tuple) or len(keys) not in (2, 3):
        raise ValueError(f"supervised_keys is {keys!r}; needed: a tuple of 2 or 3, such as ('image', 'label').")
    return _write_nest(keys)


def _write_nest(nest: Any) -> dict[str, Any]:
    """Returns the item of supervised keys for a nest of tuples, dicts and feature names.

    Raises:
        ValueError: the nest contains a value of another type.

    >>> _write_nest(("image", "label"))
    {'tuple': {'items': [{'feature_key': 'image'}, {'feature_key': 'label'}]}}
    """
    if isinstance(nest, str):
        return {"feature_key": nest}
    if isinstance(nest, tuple):
        return {"tuple": {"items": [_write_nest(item) for item in nest]}}
    if isinstance(nest, dict):
        return {"dict": {"dict": {key: _write_nest(item) for key, item in nest.items()}}}
    raise ValueError(f"supervised_keys holds {nest!r} of type {type(nest).__name__}; needed: str, tuple or dict.")


def names_in(nest: Any) -> list[str]:
    """Returns the names of features in supervised keys.

    >>> names_in(({"a": "image", "b": "text"}, "label"))
    ['image', 'text', 'label']
    """
    if isinstance(nest, str):
        return [nest]
    return [name for value in (nest.values() if isinstance(nest, Mapping) else nest) for name in names_in(value)]


def value_at(nest: Any, name: str) -> Any:
    """Returns the item of a nest of dicts that has a name, or is below others, as 'a/b' is below 'a'.

    Raises:
        KeyError, TypeError: there is none.

    >>> value_at({"a": {"b": 5}}, "a/b")
    5
    """
    if "/" not in name or name in nest:
        return nest[name]
    first, _, inner_name = name.partition("/")
    return value_at(nest[first], inner_name)


def check_supervised_keys(keys: SupervisedKeys | None, features: Any = None, *, path: str | None = None) -> None:
    """Checks that supervised keys are of the right form, and name features of these, where they are given.

    Args:
        keys: to be checked.
        features: features of the dataset.
        path: the file that the keys were read from; None where code says them.

    Raises:
        ValueError: they do not fit; the message says what may have been meant.
        MetadataError: the same, for keys from a file.
    """
    from beam_datasets.features import FeaturesDict, Sequence

    if keys is None:
        return
    write_supervised_keys(keys)
    feature_tree: Any = features.feature if isinstance(features, Sequence) else features
    for name in names_in(keys) if isinstance(feature_tree, FeaturesDict) else ():
        try:
            value_at(feature_tree, name)
        except (KeyError, TypeError):
            text = (
                f"supervised_keys is {keys!r}, but the dataset has no feature {name!r}; the features are "
                f"{', '.join(feature_tree) or 'none'}.{did_you_mean(name, feature_tree)}"
            )
            raise (ValueError(text) if path is None else MetadataError(text, path=path)) from None
