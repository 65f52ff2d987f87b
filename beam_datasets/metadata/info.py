"""The description of a dataset: identity, documentation and splits, and their form in dataset_info.json.

The text is the JSON form of a protocol buffer message, see `formats.proto_json`, as TensorFlow Datasets writes it: keys
sorted, indented by 2, ASCII, no newline at the end.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from beam_datasets.advice import advised_getattr, advised_getitem, names_foreign_constructor_arguments
from beam_datasets.arguments import boolean, is_unicode
from beam_datasets.errors import MetadataError
from beam_datasets.formats import proto_json
from beam_datasets.metadata.names import DEFAULT_FILENAME_TEMPLATE, DatasetName, FilenameTemplate
from beam_datasets.metadata.splits import CountBytes, SplitDict, SplitInfo
from beam_datasets.metadata.supervised_keys import (
    check_supervised_keys,
    read_supervised_keys,
    write_supervised_keys,
)
from beam_datasets.metadata.version import Version

INFO_FILE = "dataset_info.json"
METADATA_FILE = "metadata.json"
LICENSE_FILE = "LICENSE"

SplitSizes: TypeAlias = "Mapping[str, tuple[Sequence[int], int]]"  # split -> (shard lengths, bytes)


class MetadataDict(dict[str, Any]):
    """Further facts about a dataset, anything that JSON can express; they are kept in metadata.json."""


@dataclass(frozen=True)
class DatasetIdentity:
    """Name, config, version and directory of a dataset.

    Attributes:
        name: name of the dataset, in snake case.
        version: version of the dataset.
        data_dir: the directory of this version.
        module_name: module that defines the builder.
        config_name: name of the config; None if the dataset has no configs.
        config_description: description of the config.
        config_tags: tags of the config.
        release_notes: version -> its changes.
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
        """Returns the identity of the dataset that a builder (a `DatasetBuilder`) builds."""
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
_UNCHANGED = (*_TEXTS, "module_name", "disable_shuffling", "nondeterministic_order", "download_size")
"""Attributes that dataset_info.json has under the same names, without conversion."""

_IDENTITY = {identity_field.name for identity_field in dataclasses.fields(DatasetIdentity)}
_NOT_RESTORED = _IDENTITY | {"splits", "file_format", "stored"}


@dataclass(frozen=True)
class RedistributionInfo:
    """The licence of a dataset, in the form of TensorFlow Datasets; see `DatasetInfo.redistribution_info`.

    Attributes:
        license: text or name of the licence; '' if it is not known.
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


@names_foreign_constructor_arguments
@dataclass(frozen=True, kw_only=True, repr=False)
class DatasetInfo(DatasetIdentity):
    """Metadata of a dataset: its identity, and the attributes below. The argument `builder` provides the identity.

    Attributes:
        description: description of the dataset, without common indentation.
        features: the tree of feature connectors; a dict is converted to a FeaturesDict.
        supervised_keys: (input, target) or (input, target, sample weight): names of features, or tuples and dicts of
            them; the structure of the examples of `as_supervised`.
        disable_shuffling: whether examples are in the order of their keys, instead of a shuffled one.
        nondeterministic_order: whether the order of the examples was random when the dataset was written.
        homepage: a URL.
        citation: usually BibTeX.
        license: text or name of the licence.
        metadata: further facts, which are stored in metadata.json.
        redistribution_info: the licence in the form of TensorFlow Datasets: as an argument a dict {"license": text}, as
            an attribute a `RedistributionInfo`.
        splits: the written splits; empty before the dataset is built.
        file_format: file format of the shards.
        alternative_file_formats: file formats of further copies of the shards.
        download_size: size of the downloaded sources in bytes; 0 if unknown.
        is_blocked: the reason for which the dataset must not be used; None if it may be used.
        stored: the fields of the dataset_info.json that was read, by their names in snake_case; None for missing
            fields. Attributes that `replace` changed are not in it. `to_json_text` writes them back unchanged.

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
        """Checks all texts of dataset_info.json, as invalid ones could be written but not read again.

        Args:
            licence: the licence, before it replaces the attribute.

        Raises:
            ValueError: a value is not a str, or UTF-8 cannot express it; the message names it.
        """
        notes = self.release_notes or {}
        if not isinstance(notes, Mapping):
            raise ValueError(f"release_notes is {notes!r:.100}; needed: a dict from versions to their changes.")
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
        """Returns a copy with other values of some attributes, whose fields are removed from `stored`."""
        changed = {_JSON_NAMES.get(name, name) for name in changes}
        if "builder" in changes:
            changed |= _IDENTITY
        stored = {name: value for name, value in self.stored.items() if name not in changed}
        return dataclasses.replace(self, **{"redistribution_info": None, **changes, "stored": stored})

    def with_published(self, published: DatasetInfo) -> DatasetInfo:
        """Returns this info with the splits of the published version, and its values of all empty attributes.

        Class labels without names get the published names.

        Args:
            published: the metadata of the published version.

        Raises:
            MetadataError: the published metadata are of another dataset or version.
        """
        if published.full_name != self.full_name:
            raise MetadataError(
                expected=self.display_name,
                got=published.display_name,
                path=published.data_dir,
                advice="Move the directory to where it belongs.",
            )
        empty_attributes = [
            f.name for f in dataclasses.fields(self) if f.name not in _NOT_RESTORED and not getattr(self, f.name)
        ]
        restored = {name: getattr(published, name) for name in empty_attributes}
        if self.features is not None and published.features is not None:
            label_files, published_files = self.features.label_files(), published.features.label_files()
            if published_files.keys() - label_files.keys():
                restored["features"] = self.features.load_labels({**published_files, **dict.fromkeys(label_files)}.get)
        return self.replace(**restored, splits=published.splits, file_format=published.file_format)

    @property
    def initialized(self) -> bool:
        """Whether the splits are known, so that the dataset is published."""
        return bool(self.splits)

    @property
    def full_name(self) -> str:
        """Name, config and version, joined by slashes: the directory relative to the data_dir, as in TFDS."""
        return posixpath.join(*filter(None, (self.name, self.config_name, str(self.version))))

    @property
    def display_name(self) -> str:
        """The argument of `load` for this version, such as 'digits/small:1.0.0'."""
        return str(DatasetName(self.name, self.config_name, str(self.version)))

    @property
    def dataset_size(self) -> int:
        """Size of all serialized examples in bytes, without the framing of the file format."""
        return sum(split.num_bytes for split in self.splits.values())

    @property
    def as_json(self) -> str:
        """The text of dataset_info.json."""
        return self.to_json_text()

    def to_json_text(self, splits: SplitSizes | None = None) -> str:
        """Returns the text of dataset_info.json.

        Args:
            splits: name of a split -> (shard lengths, size in bytes), in the order of the file; None for `self.splits`.
        """
        values = {**self._values(), **self.stored}
        if splits is not None:
            values["splits"] = [
                _split_values(SplitInfo(name, list(lengths), num_bytes))
                for name, (lengths, num_bytes) in splits.items()
            ]
        return to_text(values)

    def _values(self) -> dict[str, Any]:
        """Returns the fields of dataset_info.json for the attributes, by names in snake_case, including empty ones."""
        supervised = self.supervised_keys
        notes = {str(version): text for version, text in (self.release_notes or {}).items()}
        return {
            **{name: getattr(self, name) for name in _UNCHANGED},
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
        """Parses a dataset_info.json; `to_json_text` of the result returns the same text.

        Args:
            text: content of the file.
            path: the file, for errors.
            directory: directory of the version, which contains the shards.
            features: the connectors of the features, from features.json. With them the field `features`, which old
                files have, is not written again.
            metadata: content of metadata.json; None if there is no such file.
            count_bytes: see `SplitDict`.

        Raises:
            MetadataError: the text is damaged, or has an unknown field.
        """
        values = from_text(text, path=path)
        stored = {name: values.get(name) for name in _INFO if name != "features" or features is None}
        try:
            info = cls(**_attributes(values, directory, count_bytes), metadata=metadata, stored=stored)
        except MetadataError as error:
            raise error.with_path(path) from error
        except ValueError as error:
            raise MetadataError(str(error), path=path) from error
        info._set({"features": features})
        return info

    def extra_files(self) -> dict[str, str]:
        """Returns {file name: text} of metadata.json and LICENSE, without files that would be empty."""
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
            raise MetadataError("it is missing", field=required)
    plain_values = {name: values[name] for name in _UNCHANGED if values.get(name)}
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
    """Checks that a value is None, or a str that UTF-8 can express; `name` describes it in the error.

    Raises:
        ValueError: the value has another type, or half of a surrogate pair.
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
        ValueError: the metadata has another type, or a value that JSON cannot express.
    """
    if not isinstance(metadata, (dict, type(None))):
        raise ValueError(f"metadata is {metadata!r:.100}; needed: a MetadataDict.")
    try:
        json.dumps(metadata)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata cannot be written as JSON: {error}.") from None


def _redistribution_info(info: DatasetInfo) -> RedistributionInfo:
    """The licence in the form of TensorFlow Datasets."""
    return RedistributionInfo(info.license or "")


# An InitVar leaves its default as an attribute of the class: what is read is this instead.
DatasetInfo.redistribution_info = property(_redistribution_info)  # type: ignore[attr-defined]


def _licence(licence: str | None, redistribution_info: Any) -> str | None:
    """Returns the licence of two arguments, of which one or both give it.

    Args:
        licence: the licence; None if it is not given.
        redistribution_info: a dict {"license": text}, or a `RedistributionInfo`.

    Raises:
        ValueError: the arguments differ, or the dict has another key.
    """
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


def to_text(values: Mapping[str, Any]) -> str:
    """Returns the text of dataset_info.json for values by their names in snake_case."""
    return json.dumps(proto_json.to_json(_INFO, values), indent=2, sort_keys=True)


def from_text(text: str | bytes, *, path: str) -> dict[str, Any]:
    """Returns the fields of a dataset_info.json by their names in snake_case, without missing fields.

    Args:
        text: content of the file.
        path: the file, for errors.

    Raises:
        MetadataError: the text is not JSON, a value has a wrong type, or a field is unknown; the message names it.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MetadataError(expected="JSON", got=f"another text ({error})", path=path) from error
    try:
        return dict(proto_json.parse_value(_INFO, content))
    except MetadataError as error:
        raise error.with_path(path) from None
