"""Entry points of reading: `load`, `builder`, `builder_from_directory`, and `ReadOnlyBuilder`."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from beam_datasets import catalog, features, storage
from beam_datasets.advice import advised_getattr, advised_getitem, advised_len, dir_without, names_foreign_arguments
from beam_datasets.arguments import boolean, shown
from beam_datasets.catalog import DataDir, Options
from beam_datasets.errors import (
    DatasetNotFoundError,
    FeatureError,
    MetadataError,
    PathNotFoundError,
    StorageError,
    did_you_mean,
    repair_advice,
)
from beam_datasets.features.decode import with_str
from beam_datasets.metadata.info import INFO_FILE, METADATA_FILE, DatasetInfo, MetadataDict
from beam_datasets.metadata.lineage import Ascent, KeyRule, Lineage, between
from beam_datasets.metadata.manifest import MANIFEST_FILE, Manifest
from beam_datasets.metadata.names import DatasetName, is_file_name
from beam_datasets.metadata.split_expressions import AbstractSplit, ReadInstruction, map_splits
from beam_datasets.metadata.supervised_keys import check_supervised_keys
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.passwords import without_passwords
from beam_datasets.reading.checkpoint import Identity
from beam_datasets.reading.config import ReadConfig, read_config_of
from beam_datasets.reading.dataset import Dataset
from beam_datasets.reading.elements.transforms import Decode
from beam_datasets.reading.lookup import Lookup
from beam_datasets.reading.records.shards import ShardPool, parse_checked
from beam_datasets.reading.records.source import Source
from beam_datasets.storage.paths import PathLike

T = TypeVar("T")

_MAX_EXAMPLES = 1 << 60  # of a split, so that positions of ten epochs fit 64 bits


class DatasetsBySplit(dict[str, Any]):
    """The datasets of all splits, by name. Methods of a dataset are errors that say how to get one."""

    def __getitem__(self, split: Any) -> Any:
        """Returns the dataset of a split.

        Raises:
            TypeError: the key is a slice, which is meant for the dataset of a split.
            KeyError: there is no such split.
        """
        if isinstance(split, slice):
            first = next(iter(self), "train")
            raise TypeError(
                f"a dict of the datasets of all splits takes names, not a slice. Use `datasets[{first!r}][:10]`, or "
                f"`bd.load(..., split='{first}[:10%]')`"
            )
        return super().__getitem__(split)

    def __missing__(self, split: object) -> NoReturn:
        """Raises a KeyError that lists the splits."""
        names = ", ".join(map(repr, self))
        hint = did_you_mean(split, self)
        if is_expression := isinstance(split, str) and bool(re.search(r"[\[+]", split)):
            hint = ""
        expression = split if is_expression else "train[:10%]"
        raise KeyError(f"no split {shown(split)}; it has {names}.{hint} A slice is bd.load(..., split={expression!r})")

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes

        def __getattr__(self, name: str) -> Any:
            """Raises an AttributeError; if a dataset has the attribute, it explains how to get a dataset."""
            split = name if name in self else next(iter(self), "train")
            attribute = "" if name in self else f".{name}"
            hint = f" Use `datasets[{split!r}]{attribute}`, or `bd.load(..., split={split!r})`, which is one dataset."
            if name.startswith("_"):  # as Python and IPython ask for
                hint = ""
            raise AttributeError(f"a dict of the datasets of all splits has no attribute {name!r}.{hint}", name=name)


class ReadOnlyBuilder:
    """A published version of a dataset, read from its directory without the code that made it.

    Attributes:
        info: description, features and splits of the dataset.
        manifest: checksums and sizes of all shards; None for a directory that another library wrote.
        digest: SHA-256 that identifies the published version.
        pool: the version's shards.
    """

    __dir__ = dir_without("ascents pool")

    def __init__(self, dataset_dir: PathLike) -> None:
        """Reads dataset_info.json, features.json and manifest.json, and label files if there are any.

        Raises:
            DatasetNotFoundError: the directory is not a published version.
            MetadataError: a file is damaged, or needs another version of this library.
        """
        self._dir = storage.normalize(dataset_dir)
        manifest_path = storage.join(self._dir, MANIFEST_FILE)
        self.manifest = self._read(MANIFEST_FILE, functools.partial(Manifest.from_text, path=manifest_path))
        text = self._read_metadata_file(INFO_FILE)
        if text is None:
            raise DatasetNotFoundError(
                f"{self._dir} is not a published dataset: {catalog.explain_unpublished(self._dir)}"
            )
        self.digest = self.manifest.digest if self.manifest else hashlib.sha256(text).hexdigest()
        self.pool = ShardPool(self._dir, indexed=self.manifest is not None or not storage.is_remote(self._dir))
        self.info = DatasetInfo.from_json_text(
            text,
            path=storage.join(self._dir, INFO_FILE),
            directory=self._dir,
            features=self._read_features(),
            metadata=self._read_author_metadata(),
            count_bytes=self.pool.count_bytes,
        )
        self._check_splits()

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr("builder")
        __getitem__ = advised_getitem("builder")
        __len__ = advised_len("builder")

    def __bool__(self) -> bool:
        return True

    # --------------------------------------------------------------------------------------------------------- identity

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.info.name

    @property
    def config_name(self) -> str | None:
        """The config's name; None if the dataset has no configs."""
        return self.info.config_name

    @property
    def version(self) -> Version:
        """The dataset's version."""
        return self.info.version

    @property
    def dataset_dir(self) -> str:
        """The version's directory."""
        return self._dir

    data_dir = dataset_dir

    @functools.cached_property
    def lineage(self) -> Lineage | None:
        """The sources of a materialized dataset, with its splits in order; None if the dataset is not materialized."""
        source = self.manifest.source if self.manifest else None
        if source is None:
            return None
        lineage = Lineage.from_json(source, path=storage.join(self._dir, MANIFEST_FILE))

        def sort_splits(by_split: Any) -> Any:  # the manifest has them in the order of their names
            """Returns a dict by split in the order of the dataset's splits; other splits come last."""
            return {name: by_split[name] for name in [*self.info.splits, *by_split] if name in by_split}

        appended = lineage.appended and sort_splits(lineage.appended)
        return replace(lineage, splits=sort_splits(lineage.splits), appended=appended)

    def ascents(self, split: str) -> tuple[Ascent, ...]:
        """Returns the ranges of examples of a split in which the sort keys ascend, each with the rules of its keys.

        A split that is not materialized is one range.

        Raises:
            MetadataError: the manifest's lineage is invalid.
        """
        split_lineage = self.lineage.splits.get(split) if self.lineage else None
        if split_lineage is not None and split_lineage.keys is not None:
            return split_lineage.keys
        return (Ascent(0, (KeyRule(None if self.info.disable_shuffling else split),)),)

    def is_prepared(self) -> bool:
        """Returns True."""
        return True

    def __repr__(self) -> str:
        return f"<ReadOnlyBuilder {self.info.display_name} in {without_passwords(self._dir)}>"

    # ---------------------------------------------------------------------------------------------------------- reading

    @names_foreign_arguments("as_dataset")
    def as_dataset(
        self,
        split: Any = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: ReadConfig | None = None,
        as_supervised: bool = False,
        text: str = "bytes",
    ) -> Any:
        """Returns the `Dataset` of a split; nothing is read yet.

        Args:
            split: an expression such as 'train[:10%]+test', a ReadInstruction, or lists, tuples and dicts of them, for
                which it returns the same structure of datasets; None for a dict of all splits.
            batch_size: number of examples in a padded batch; None for examples; -1 to return one batch of all examples
                instead of a dataset.
            shuffle_files: whether to open the files in a shuffled order; see `ReadConfig.shuffle_seed`.
            decoders: decoders in place of the features' own, by name; or a `decode.PartialDecoding`.
            read_config: options of reading; None for the default ones.
            as_supervised: whether to yield tuples of the features that the dataset's `supervised_keys` name.
            text: type of decoded strings: "bytes", as with TensorFlow Datasets, or "str", for which other bytes than
                UTF-8 are an error. `decode.SkipDecoding` keeps the bytes of single features; a user's own connectors
                always decode as they define it.

        Raises:
            SplitError: an expression is invalid, or does not fit the dataset.
            ValueError: the other arguments do not fit the dataset; or batch_size is -1, and the slice is empty.
        """
        is_all = split is None
        if is_all:
            split = {name: ReadInstruction(name) for name in self.info.splits}
        config, shuffle_files = read_config_of(read_config), boolean("shuffle_files", shuffle_files)
        if text not in ("bytes", "str"):
            raise ValueError(f"text: expected 'bytes' or 'str', got {shown(text)}.")
        as_supervised = boolean("as_supervised", as_supervised)
        steps = (self._decode_step(decoders, config, as_supervised=as_supervised, as_str=text == "str"),)
        config.check_order(ordered=self.info.disable_shuffling, shuffle_files=shuffle_files)

        def open_split(expression: Any) -> Any:
            """Returns the dataset of one split expression; its only batch if `batch_size` is -1."""
            split_dataset = self._dataset(AbstractSplit.from_spec(expression), config, shuffle_files, steps)
            if batch_size is None:
                return split_dataset
            if batch_size != -1:
                return split_dataset.padded_batch(batch_size)
            if not split_dataset:
                raise ValueError(
                    f"batch_size=-1 of {expression}: expected at least one example, as no batch has none. Give a slice "
                    "that has some, or leave batch_size out."
                )
            return next(iter(split_dataset.padded_batch(len(split_dataset))))

        datasets = map_splits(open_split, split)
        if not is_all or batch_size == -1:  # batches are trees of arrays, as JAX takes them
            return datasets
        if "jax" in sys.modules:
            from beam_datasets.adapters.jax_arrays import register_tree

            register_tree(DatasetsBySplit)
        return DatasetsBySplit(datasets)

    def as_data_source(self, split: Any = None, *, decoders: Any = None) -> Any:
        """Returns `as_dataset(split, decoders=decoders)`. It has the name of TensorFlow Datasets for random access."""
        return self.as_dataset(split, decoders=decoders)

    def _decode_step(self, decoders: Any, config: ReadConfig, *, as_supervised: bool, as_str: bool) -> Decode:
        """Returns the step that decodes records with these options.

        Args:
            decoders: argument of `as_dataset`.
            config: options of reading; see `ReadConfig`.
            as_supervised: argument of `as_dataset`.
            as_str: whether strings are decoded to `str`; otherwise to bytes.

        Raises:
            MetadataError: the examples are not stored as TFRecord, or the supervised keys are invalid.
            ValueError: an option does not fit the features.
        """
        info = self.info
        if info.file_format != "tfrecord":
            raise MetadataError(
                expected="examples that are stored as tfrecord", got=f"{info.file_format:.100}", path=self._dir
            )
        supervised_keys = info.supervised_keys if as_supervised else None
        if as_supervised and supervised_keys is None:
            raise ValueError(
                f"{info.display_name}: as_supervised=True needs supervised_keys, got none. Use "
                "`ds.map(lambda e: (e['x'], e['y']))` for pairs of features; a builder gives supervised_keys=('x', 'y')"
                " to its DatasetInfo"
            )
        if supervised_keys is not None:
            check_supervised_keys(supervised_keys, info.features, path=storage.join(self._dir, INFO_FILE))
        if config.add_tfds_id and not isinstance(info.features, features.FeaturesDict):
            raise ValueError(f"{info.display_name}: add_tfds_id needs features that are a dict, not {info.features!r}.")
        decoded_features = with_str(info.features) if as_str else info.features
        step = Decode(decoded_features, decoders, config.add_tfds_id, supervised_keys, config.num_decode_threads)
        with self._name_directory():  # raises errors of decoders, features and keys now, before reading
            for path, leaf, _ in step.decoded_features.leaves(""):
                leaf.check_storable(path)
            if supervised_keys is not None:  # `decoders` may leave one out
                check_supervised_keys(supervised_keys, step.decoded_features)
        return step.without_unused_features()

    def _dataset(
        self, split: AbstractSplit, config: ReadConfig, shuffle_files: bool, steps: tuple[Decode, ...]
    ) -> Dataset:
        """Returns the dataset of a split, with its key lookup and the identity against which states are checked.

        Args:
            split: the split expression.
            config: options of reading.
            shuffle_files: argument of `as_dataset`.
            steps: transforms of the records; the first one decodes.
        """
        info, ordered = self.info, self.info.disable_shuffling
        selected = info.splits[split]
        infos = [info.splits[instruction.splitname] for instruction in selected.parts]
        total = sum(split_info.num_examples for split_info in infos)
        source = Source(
            self.pool,
            selected.file_instructions,
            config,
            ordered=ordered,
            shuffle_files=shuffle_files,
            record_bytes=sum(split_info.num_bytes for split_info in infos) / total if total else 0,
        )
        ascending = [
            (rules, stop - start)
            for instruction in selected.parts
            for rules, start, stop in between(self.ascents(instruction.splitname), instruction.start, instruction.stop)
        ]
        identity: Identity = {
            "dataset": "/".join(filter(None, (info.name, info.config_name))),
            "version": str(info.version),
            "digest": self.digest,
            "slices": [(instruction.splitname, instruction.start, instruction.stop) for instruction in selected.parts],
            "read_config": config.order_key(ordered=ordered, shuffle_files=shuffle_files, files=source.run_numbers),
        }
        return Dataset(source, steps, source=source, lookup=Lookup(source, ascending), identity=identity)

    # --------------------------------------------------------------------------------------------------- metadata files

    @contextlib.contextmanager
    def _name_directory(self) -> Iterator[None]:
        """Makes errors of metadata and features name the directory."""
        try:
            yield
        except (MetadataError, FeatureError) as error:
            if self._dir in str(error):
                raise
            raise type(error)(f"{self._dir}: {error}") from error

    def _read_metadata_file(self, name: str) -> bytes | None:
        """Returns the content of a metadata file; None if there is no such file.

        Files that not all versions have, such as label names, are not requested unless the manifest lists them.

        Raises:
            MetadataError: the file has changed since the version was published.
        """
        published = self.manifest.metadata.get(name) if self.manifest else None
        if self.manifest and published is None and name not in (INFO_FILE, catalog.FEATURES_FILE):
            return None
        path = storage.join(self._dir, name)

        def check(content: bytes) -> bytes:
            """Returns the content if it has the published checksum or there is none; otherwise raises MetadataError."""
            if published is not None and (digest := hashlib.sha256(content).hexdigest()) != published:
                raise MetadataError(
                    expected=f"the SHA-256 {published}, as in {MANIFEST_FILE}",
                    got=digest,
                    path=path,
                    advice=f"It was changed after it was published. {repair_advice(path) or 'Restore it'}",
                )
            return content

        return self._read(name, check)

    def _read(self, name: str, parse: Callable[[bytes], T]) -> T | None:
        """Returns the result of `parse` for the content of a file of the directory; None if there is no such file.

        If the content is damaged, it is read again from a store; see `parse_checked`.

        Raises:
            MetadataError: `parse` raises it.
        """
        path = storage.join(self._dir, name)
        is_remote = storage.is_remote(path)
        try:
            return parse_checked(
                storage.read_bytes(path), lambda: storage.read_bytes(path) if is_remote else None, parse
            )
        except PathNotFoundError:
            return None
        except StorageError:
            if catalog.is_local_file(self._dir):
                return None
            raise
        except MetadataError as error:
            if error.advice or error.path != path:
                raise
            error = error.with_message(f"{error}. To check the dataset: beam-datasets verify {self._dir}")
            raise error from None

    def _read_features(self) -> features.FeatureConnector:
        """Returns the features, with the names of their labels.

        Raises:
            DatasetNotFoundError: the directory has no features file.
            MetadataError: the features file, or a file of label names, is damaged.
        """
        text = self._read_text(catalog.FEATURES_FILE)
        if text is None:
            problem = f"{self._dir} is not a published dataset: it has no {catalog.FEATURES_FILE}"
            is_damaged = self.manifest is not None and repair_advice(storage.join(self._dir, catalog.FEATURES_FILE))
            raise DatasetNotFoundError(problem, advice=is_damaged or None)
        tree = features.from_json_text(text, path=storage.join(self._dir, catalog.FEATURES_FILE))
        with self._name_directory():
            return tree.load_labels(self._read_text)

    def _read_author_metadata(self) -> MetadataDict | None:
        """Returns the metadata that the builder's author published; None if there are none.

        Raises:
            MetadataError: metadata.json is not a JSON object, or has changed since it was published.
        """
        text = self._read_metadata_file(METADATA_FILE)
        if text is None:
            return None
        path = storage.join(self._dir, METADATA_FILE)
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MetadataError(expected="a JSON object", got=str(error), path=path) from error
        if not isinstance(content, dict):
            raise MetadataError(expected="a JSON object", got=f"{content!r:.100}", path=path)
        return MetadataDict(content)

    def _read_text(self, name: str) -> str | None:
        """Returns the text of a metadata file; None if there is no such file.

        Raises:
            MetadataError: the file is not UTF-8.
        """
        content = self._read_metadata_file(name)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as error:
            raise MetadataError(expected="UTF-8", got=str(error), path=storage.join(self._dir, name)) from error

    def _check_splits(self) -> None:
        """Checks that the info file and the manifest describe the same splits, and that their shards have valid names.

        Raises:
            MetadataError: the two files differ, a split is too large, or its template of shard names is invalid.
        """
        if self.manifest is not None and self.manifest.splits.keys() != self.info.splits.keys():
            raise MetadataError(
                f"{INFO_FILE} and {MANIFEST_FILE} differ in the splits: {sorted(self.info.splits)} and "
                f"{sorted(self.manifest.splits)}",
                path=self._dir,
                expected=f"{sorted(self.manifest.splits)}",
                got=f"{sorted(self.info.splits)}",
                advice="One of them is of another version; restore both.",
            )
        for name, split in self.info.splits.items():
            if sum(split.shard_lengths) > _MAX_EXAMPLES:
                raise MetadataError(
                    f"split {name!r} cannot have {sum(split.shard_lengths)} examples", path=self._dir, split=name
                )
            published = self.manifest.splits[name].num_examples if self.manifest else split.shard_lengths
            if list(published) != list(split.shard_lengths):
                raise MetadataError(
                    f"{INFO_FILE} and {MANIFEST_FILE} differ in the shard lengths of split {name!r}",
                    path=self._dir,
                    split=name,
                    advice="One of them is of another version; restore both.",
                )
            with self._name_directory():
                _ = split.shard_names  # raises the error of an invalid template now, before reading


def builder_from_directory(path: PathLike, *, storage_options: Options = None) -> ReadOnlyBuilder:
    """Returns the builder of a published version's directory.

    Args:
        path: directory of the version, such as '/data/digits/1.0.0', or its URL.
        storage_options: options of the URL's store; see `builder`.

    Raises:
        DatasetNotFoundError: the directory is not a published version.
        MetadataError: its metadata are damaged, or need another version of this library.
        StorageError: the store cannot be read, or has no such option.
        ValueError: options are given for a local path.
    """
    return ReadOnlyBuilder(storage.with_options(path, storage_options))


def open_published(name_or_dir: PathLike, data_dir: DataDir = None, storage_options: Options = None) -> ReadOnlyBuilder:
    """Returns the read-only builder of a published version, given its name or its directory.

    Args:
        name_or_dir: a name as for `builder`; or a directory: a URL, a path that begins with '/', '.' or '~', or another
            path that contains a version.
        data_dir: root of the datasets, for a name; see `builder`.
        storage_options: options of the store of the directory or, for a name, of `data_dir`; see `builder`.

    Raises:
        DatasetNotFoundError: the version does not exist, and the message lists what exists; or the name is invalid.
        MetadataError: its metadata are damaged, or need another version of this library.
        StorageError: the store cannot be read, or has no such option.
        ValueError: options are given for a local path.
    """
    return builder_from_directory(catalog.find_published(name_or_dir, data_dir, storage_options))


@names_foreign_arguments("builder")
def builder(
    name: str,
    *,
    data_dir: DataDir = None,
    config: Any = None,
    version: VersionOrStr | None = None,
    storage_options: Options = None,
    **kwargs: Any,
) -> Any:
    """Returns the builder of a dataset: the registered one, or a `ReadOnlyBuilder` of its directory.

    If `version` is given and published, it is read from its directory, even if a builder is registered.

    Args:
        name: name of the dataset, such as 'digits', 'digits/small', 'digits:1.*.*', 'digits:latest',
            'digits/small:1.0.0'.
        data_dir: root of the datasets; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.
        config: the config, instead of one in the name: its name, or a `BuilderConfig`.
        version: the version, instead of one in the name: a version, a pattern, or 'latest'.
        storage_options: options of the store of `data_dir`, such as `access_key_id`, `token`, `region`, `endpoint`,
            with the names of obstore (for other schemes, fsspec). They apply to this process and the processes that it
            starts.
        **kwargs: arguments of the registered builder; an error if there is none.

    Raises:
        DatasetNotFoundError: the dataset, config or version does not exist; the message lists what exists.
        StorageError: the store cannot be read, or has no such option.
        ValueError: an argument is invalid, or options are given for a local path; TypeError if it has another type.
    """
    parsed_name = _parse_name(name)
    if storage_options:
        data_dir = catalog.root_dir(data_dir, storage_options)
    config, version = catalog.split_config(config or parsed_name.config, version or parsed_name.version)
    kwargs = {**parsed_name.kwargs, **kwargs}
    builder_class = catalog.code_of(parsed_name.name, kwargs)
    has_config = builder_class is not None and (
        config is None or not isinstance(config, str) or builder_class.has_config(config)
    )
    if builder_class is not None and (kwargs or (has_config and version is None)):
        return builder_class(data_dir=data_dir, config=config, version=version, **kwargs)
    config_name = getattr(config, "name", config)  # of a BuilderConfig
    try:
        directory = catalog.find_dataset_dir(parsed_name.name, data_dir, config=config_name, version=version)
    except DatasetNotFoundError as error:
        if builder_class is None:
            raise DatasetNotFoundError(f"{error}{_note_on_version(parsed_name, data_dir)}") from None
        return builder_class(data_dir=data_dir, config=config, version=version)
    return builder_from_directory(directory)


def _note_on_version(name: DatasetName, data_dir: str | os.PathLike[str] | None) -> str:
    """Returns a sentence on the versions of a dataset if a name such as 'digits:final' was parsed as a namespace."""
    dataset = name.namespace
    if (
        dataset is None
        or not re.fullmatch(r"[a-z]\w*", dataset)
        or not catalog.list_versions(dataset, data_dir=data_dir)
    ):
        return ""
    versions = catalog.published_versions_text(dataset, catalog.root_dir(data_dir))
    return f" After '{dataset}:' comes a version, or 'latest', and no tag; {versions}."


def _parse_name(name: str) -> DatasetName:
    """Parses the name of a dataset.

    Raises:
        ValueError: the name is invalid. If it is the directory of a version, the message explains how to open it.
    """
    try:
        return DatasetName.parse(name)
    except ValueError as error:
        if isinstance(name, str) and os.path.isdir(name) and catalog.versions_in(name):
            data_dir, last = os.path.split(os.path.abspath(name))
            raise ValueError(f"{error} This dataset is bd.load({last!r}, data_dir={data_dir!r}).") from None
        is_url = isinstance(name, str) and "://" in name  # not looked at: without credentials, that is another error
        is_directory = isinstance(name, str) and os.path.isdir(name) and catalog.is_published(name)
        if not (is_directory or (is_url and not is_file_name(name))):
            raise
        raise ValueError(f"{error} A directory is opened by bd.builder_from_directory({name!r}).") from None


@names_foreign_arguments("load")
def load(
    name: str,
    *,
    split: Any = None,
    data_dir: DataDir = None,
    config: Any = None,
    version: VersionOrStr | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    decoders: Any = None,
    read_config: ReadConfig | None = None,
    as_supervised: bool = False,
    text: str = "bytes",
    with_info: bool = False,
    builder_kwargs: dict[str, Any] | None = None,
    storage_options: Options = None,
) -> Any:
    """Returns the `Dataset` of a published dataset's split: `builder(name).as_dataset(split=split, ...)`.

    Args:
        name: see `builder`.
        split: see `ReadOnlyBuilder.as_dataset`.
        data_dir: see `builder`.
        config: see `builder`.
        version: see `builder`.
        batch_size: see `ReadOnlyBuilder.as_dataset`.
        shuffle_files: see `ReadOnlyBuilder.as_dataset`.
        decoders: see `ReadOnlyBuilder.as_dataset`.
        read_config: see `ReadOnlyBuilder.as_dataset`.
        as_supervised: see `ReadOnlyBuilder.as_dataset`.
        text: see `ReadOnlyBuilder.as_dataset`.
        with_info: whether to return a pair of the dataset and its `DatasetInfo`.
        builder_kwargs: further arguments of `builder`.
        storage_options: see `builder`.

    Raises:
        DatasetNotFoundError: the dataset, config or version does not exist; the message lists what exists.
        SplitError: the split expression is invalid, or does not fit the dataset.
        StorageError: the store cannot be read, or has no such option.
        ValueError: another argument is invalid; TypeError if it has another type.
    """
    with_info = boolean("with_info", with_info)
    options = {"config": config, "version": version, **(builder_kwargs or {})}
    dataset_builder = builder(name, data_dir=data_dir, storage_options=storage_options, **options)
    dataset = dataset_builder.as_dataset(
        split,
        batch_size=batch_size,
        shuffle_files=shuffle_files,
        decoders=decoders,
        read_config=read_config,
        as_supervised=as_supervised,
        text=text,
    )
    if type(dataset_builder) is not ReadOnlyBuilder and dataset_builder.requested_version is None:
        catalog.warn_of_higher(dataset_builder, catalog.root_dir(data_dir, storage_options), stacklevel=4)
    return (dataset, dataset_builder.info) if with_info else dataset
