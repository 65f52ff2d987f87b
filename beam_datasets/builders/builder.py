"""DatasetBuilder, the base class of all builders.

The API follows TensorFlow Datasets: to port a builder, change its imports. The layer comes after `beam`,
because `build()` runs a pipeline.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from beam_datasets import catalog, storage
from beam_datasets.advice import advised_getattr, dir_without
from beam_datasets.builders.download_config import BUILD_OPTIONS
from beam_datasets.builders.variants import BuilderConfig, DeclaredVariants
from beam_datasets.downloads import CHECKSUMS_FILE, MAX_AT_ONCE, DownloadSettings, read_checksums
from beam_datasets.errors import AlreadyPublishedError, BeamDatasetsError, DatasetNotFoundError, DuplicateKeyError
from beam_datasets.extras import needs
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.names import (
    RESERVED_SPLITS,
    DatasetName,
    camel_to_snake,
    check_dataset_name,
    check_split_name,
)
from beam_datasets.metadata.version import BlockedVersions, Version, VersionOrStr
from beam_datasets.options import BuildOptions, EngineOptions, ShardingOptions
from beam_datasets.publishing import run_report
from beam_datasets.shuffle.rejected import format_rejected

if TYPE_CHECKING:
    from beam_datasets.metadata.info import InfoArguments
    from beam_datasets.publishing.progress import Progress
    from beam_datasets.reading.config import ReadConfig
    from beam_datasets.reading.opening import ReadOnlyBuilder
    from beam_datasets.sources.units import SourceUnits

_log = logging.getLogger(__name__)
ExampleSource = Any  # SourceUnits, a PTransform or PCollection, an iterable of (key, example), or a callable for one


@dataclass
class SplitGenerator:
    """A split in the form of a list: `_generate_examples` is called with these arguments.

    Attributes:
        name: name of the split.
        gen_kwargs: the arguments.
    """

    name: str
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)


class DatasetBuilder(DeclaredVariants):
    """Declares a dataset: its version, its features, its splits, and how its examples are made.

    A subclass has VERSION, `_info` and `_split_generators`; it is registered under its class name in snake case (or its
    attribute `name`), unless it is declared with `skip_registration=True` or, as a base of others, called `_Something`.

    Attributes:
        VERSION: the version that the code makes.
        SUPPORTED_VERSIONS: further versions that can be read.
        RELEASE_NOTES: version -> description of its changes.
        BUILDER_CONFIGS: the variants.
        DEFAULT_BUILDER_CONFIG_NAME: name of the config that a bare name means; None for the first.
        BLOCKED_VERSIONS: versions that must not be used any more.
        MANUAL_DOWNLOAD_INSTRUCTIONS: the files that the user must put into the manual directory, and their source.
        MAX_SIMULTANEOUS_DOWNLOADS: maximum number of simultaneous downloads from a server; None for 8.
        name: the dataset's name.
        version: the version.
        requested_version: the version or pattern that was asked for; None if `version` is the canonical one by default.
        pkg_dir_path: directory of README.md, CITATIONS.bib and checksums.tsv; None for that of the module.
    """

    RELEASE_NOTES: ClassVar[Mapping[str, str]] = {}
    BLOCKED_VERSIONS: ClassVar[BlockedVersions | None] = None
    MANUAL_DOWNLOAD_INSTRUCTIONS: ClassVar[str | None] = None
    MAX_SIMULTANEOUS_DOWNLOADS: ClassVar[int | None] = None
    pkg_dir_path: ClassVar[str | os.PathLike[str] | None] = None
    __dir__ = dir_without(
        "check_buildable download_settings elsewhere is_appended is_temporary split_generators uncut_splits "
        "use_downloads"
    )

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes
        __getattr__ = advised_getattr()

    def __init_subclass__(cls, *, skip_registration: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        shell = is_shell(cls)
        if "name" not in cls.__dict__:
            cls.name = _default_name(cls)
        if cls.__name__.startswith("_") and cls.name == _default_name(cls):
            return  # a base of builders, private to its module
        check_dataset_name(cls.name)
        if not skip_registration and not shell and not inspect.isabstract(cls):
            catalog.register(cls)

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        config: str | BuilderConfig | None = None,
        version: VersionOrStr | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Chooses config and version.

        Args:
            data_dir: root of the datasets; None for $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.
            config: a variant, by name or as such; None for the default one.
            version: a version or a pattern such as '1.*.*'; None for the canonical one.
            storage_options: of the store of `data_dir`, for reading and for writing; see `beam_datasets.builder`.

        Raises:
            DatasetNotFoundError: the config or version does not exist.
            ValueError: there are options for a local path.
        """
        self._root = catalog.root_dir(data_dir, storage_options)
        self._downloads: DownloadSettings | None = None
        self._download_root: str | None = None  # None for the same
        self._trial_examples: int | None = None
        self.download_size = 0  # bytes, when `split_generators` has been called
        config, version = catalog.split_config(config, version)
        self.requested_version = version
        self._builder_config = self._choose_config(config, version)
        self.version = self._choose_version(version)

    def _build_described_info(self) -> DatasetInfo:
        """Returns the result of the author's `_info`, with the name and version of this builder if it was made without.

        Raises:
            TypeError: it is not a `DatasetInfo`.
        """
        info = self._info()
        if not isinstance(info, DatasetInfo):
            raise TypeError(f"{type(self).__name__}._info() must return a DatasetInfo, got {type(info).__name__}.")
        return info if info.name else info.replace(builder=self)

    # What an author writes.

    def _info(self) -> DatasetInfo:
        """Returns the dataset's DatasetInfo, made with `builder=self`."""
        raise TypeError(f"{type(self).__name__} must define _info(self), which returns a DatasetInfo.")

    def dataset_info_from_configs(self, *, features: Any = None, **info: Unpack[InfoArguments]) -> DatasetInfo:
        """Returns a DatasetInfo whose description and citation are README.md and CITATIONS.bib beside the module.

        Args:
            features: the features; see `DatasetInfo`.
            **info: the other arguments of DatasetInfo; also those two, used if the file is missing.
        """
        if (readme := self._code_dir() / "README.md").is_file():
            info["description"] = readme.read_text("utf-8")
        if (citations := self._code_dir() / "CITATIONS.bib").is_file():
            info["citation"] = citations.read_text("utf-8")
        return DatasetInfo(builder=self, features=features, **info)

    @classmethod
    def _code_dir(cls) -> Path:
        """Returns the directory of the module; of a class in a notebook, the working directory."""
        if package_dir := cls.__dict__.get("pkg_dir_path"):
            return Path(package_dir)
        try:
            return Path(inspect.getfile(cls)).parent
        except (TypeError, OSError):
            return Path()

    def _split_generators(self, *args: Any) -> Mapping[str, ExampleSource] | Sequence[SplitGenerator]:
        """Returns {split name: source of (key, example)}, or a list of `SplitGenerator`.

        A source is a `SourceUnits`, a Beam PTransform or PCollection, an iterable, or a callable that returns an
        iterable. Iterables are made and consumed on one worker. A parameter called `pipeline` gets the pipeline, any
        other positional one a `DownloadManager`; on workers it returns files that the launcher has downloaded.
        """
        raise TypeError(f"{type(self).__name__} must define _split_generators(self), which returns {{split: source}}.")

    # What a user calls.

    @property
    def builder_config(self) -> Any:
        """The variant; None where the dataset has none."""
        return self._builder_config

    @functools.cached_property
    def info(self) -> DatasetInfo:
        """The description of the dataset.

        For a published version it also includes the splits, and properties that the code does not declare.
        """
        info = self._build_described_info()
        return info.with_published(self._open_published().info) if self.is_prepared() else info

    @property
    def release_notes(self) -> Mapping[str, str]:
        """{version: description of its changes}: notes of the config, or else of the builder, and of its `VERSIONS`."""
        config_notes = self.builder_config.release_notes if self.builder_config else None
        descriptions = {str(version): version.description for version in self._versions() if version.description}
        return {**descriptions, **(config_notes or self.RELEASE_NOTES)}

    @property
    def dataset_dir(self) -> str:
        """The directory of this version: <data_dir>/<name>/[<config>/]<version>."""
        return storage.join(self._root, self.name, *filter(None, [self._config_name]), str(self.version))

    data_dir = dataset_dir

    @property
    def canonical_version(self) -> Version:
        """The version that the code makes."""
        return self._versions()[0]

    @property
    def supported_versions(self) -> list[Version]:
        """The other versions that can be read."""
        return self._versions()[1:]

    def is_prepared(self) -> bool:
        """Returns whether this version is published."""
        return catalog.is_published(self.dataset_dir)

    def build(
        self,
        *,
        storage_options: Mapping[str, Any] | None = None,
        download_dir: str | os.PathLike[str] | None = None,
        manual_dir: str | os.PathLike[str] | None = None,
        register_checksums: bool = False,
        force_checksums: bool = False,
        verify_ssl: bool = True,
        max_downloads: int | None = None,
        overwrite: bool = False,
        num_shards: int | Mapping[str, int] | None = None,
        min_shard_size: int | None = None,
        max_shard_size: int | None = None,
        max_examples_per_split: int | None = None,
        ignore_duplicates: bool = False,
        skip_empty_splits: bool = False,
        max_rejected: int = 0,
        check_images: str | None = None,
        check_against: str | None = None,
        resume: bool | str = False,
        beam_options: Any | Sequence[str] | None = None,
        num_workers: int | None = None,
        payload: str | None = None,
        spill_dir: str | None = None,
        block_size: int | None = None,
        shared_disk: bool = False,
        wait: bool = True,
        progress: Callable[[Progress], None] | None = None,
        counters: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> str:
        """Generates the dataset, publishes it and returns its directory.

        Args:
            storage_options: options of the store of `data_dir`, for a builder that was made without; it keeps them.
                Workers get them with the job.
            download_dir: directory of downloads, visible to all workers; None for `downloads` in `data_dir`, or in
                ~/beam_datasets if that is a store.
            manual_dir: directory of files that the user must download by hand; None for `manual` in `download_dir`.
            register_checksums: the checksums of downloads are recorded in checksums.tsv beside the builder's module,
                instead of checked against it.
            force_checksums: a download whose checksum is not recorded is an error.
            verify_ssl: whether certificates of servers are verified.
            max_downloads: maximum number of simultaneous downloads; None for MAX_SIMULTANEOUS_DOWNLOADS.
            overwrite: whether a published version is generated again, on a local disk. It stays until the new one is
                complete, and is deleted then. A process that is reading it may fail, or get examples of both.
            num_shards: number of shards of each split: one number for all or {split: number}; None chooses by the size
                rule.
            min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
            max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
            max_examples_per_split: maximum number of examples of each split: those with the lowest sort keys are kept.
            ignore_duplicates: whether only the smallest record of the examples with the same key is kept, instead of
                failing.
            skip_empty_splits: whether splits without examples are left out instead of failing, unless all are empty.
            max_rejected: number of examples of all splits that the builder may reject (see `Rejected`). They are left
                out, and counted by reason in run.json; more of them fail the run.
            check_images: check of the files that image features are given: "structure" (whether they are whole), or
                "decode", which also decodes each; None for the check of each feature.
            check_against: a published version, or 'latest' for the highest one below this. If the version is too low
                for the changes, nothing is published, and the result is kept, so that it can be published as another
                version.
            resume: whether to reuse the finished units and shards of failed runs of this version, after verifying their
                checksums; True fails if the builder has changed since, 'changed' accepts changes.
            beam_options: Beam's pipeline options; without a runner, FnApiRunner with one worker process per core.
            num_workers: number of worker processes of a local run; 0 for one per core.
            payload: 'inline' sends records through the engine's shuffle, 'spilled' through files of a spill directory;
                None for inline on Dataflow, spilled elsewhere.
            spill_dir: directory for spilled records; None for beside the staging directory.
            block_size: approximate bytes of the blocks in which records are sorted and sent.
            shared_disk: whether the workers of a remote runner see this machine's paths.
            wait: whether to wait for the end of the job; False returns once a remote runner has accepted it.
            progress: called about twice a second during a local run, with the progress so far.
            counters: called after the run with the counters of the builder's transforms: {'namespace/name': an integer,
                or a set of strings}; and with the number of examples that `ignore_duplicates` left out:
                {'ignored_duplicates/train': 10}. Without it, rejected examples are logged; see `max_rejected`.

        Raises:
            AlreadyPublishedError: the version is published already.
            BeamDatasetsError: any other reason why nothing was published.
            ValueError: an option is unusable, or there are options of a store for a local path.
        """
        self._use_storage_options(storage_options)
        self.check_buildable()
        sharding = ShardingOptions.of(
            num_shards=num_shards,
            min_shard_size=min_shard_size,
            max_shard_size=max_shard_size,
            max_examples_per_split=max_examples_per_split,
            ignore_duplicates=ignore_duplicates,
            ordered=self.info.disable_shuffling,
            skip_empty_splits=skip_empty_splits,
            max_rejected=max_rejected,
        )
        engine = EngineOptions(beam_options, num_workers, payload, spill_dir, block_size, shared_disk, wait)
        options = BuildOptions(sharding, engine, check_against, resume, check_images, progress, counters)
        changed = download_dir or manual_dir or register_checksums or force_checksums or max_downloads
        previous_settings = settings = self._downloads
        if changed or not verify_ssl:
            self._downloads = settings = self.download_settings(
                download_dir, manual_dir, register_checksums, force_checksums, verify_ssl, max_downloads
            )
        try:
            directory = self._generate_version(options, overwrite=overwrite)
        except DuplicateKeyError as error:
            from beam_datasets.sources.repeated_keys import with_key

            raise with_key(error, self) from None
        except Exception as error:
            if settings := settings or self._downloads_if_taken():
                settings.check_manual_dir(error)
            raise
        finally:
            self._downloads = previous_settings  # they are not those of a later build
        self.__dict__.pop("info", None)
        if default := self._default_config():
            catalog.write_default_config(self.name, default.name, self._root)
        return directory

    def _generate_version(self, options: BuildOptions, *, overwrite: bool) -> str:
        """Generates and publishes the version and returns its directory; a subclass may explain errors.

        Rejected examples are logged, unless the caller takes the counters of the run and reports them.

        Args:
            options: the options of the build.
            overwrite: whether a published version is replaced.
        """
        if overwrite and self.is_prepared():
            directory = self._overwrite(options)
        else:
            directory = self._generate(options)
        if not options.counters and (rejected := run_report.left_out_of(directory)):
            _log.warning("%s", format_rejected(rejected))
        return directory

    def _generate(self, options: BuildOptions) -> str:
        """Generates and publishes the version, in this process if Beam is not needed; returns its directory."""
        if self._may_run_in_process(options) and (sources := self._sources_in_process()) is not None:
            return self._generate_in_process(sources, options)
        with needs("generating a dataset needs Apache Beam", "beam"):
            from beam_datasets.beam.generate import generate
        return generate(self, options)

    def _may_run_in_process(self, options: BuildOptions) -> bool:
        """Returns whether this build is a part of an append and uses no option that needs Beam."""
        plain = BuildOptions(
            ShardingOptions(
                ordered=options.sharding.ordered,
                skip_empty_splits=options.sharding.skip_empty_splits,
                max_rejected=options.sharding.max_rejected,
            ),
            counters=options.counters,
            inputs=options.inputs,
            checksums=options.checksums,
        )
        return self.is_temporary and self._trial_examples is None and options == plain

    def _sources_in_process(self) -> Mapping[str, SourceUnits] | None:
        """Returns {split: source} if one worker would read each source: an iterable or a single unit; else None."""
        if "pipeline" in inspect.signature(self._split_generators).parameters:
            return None
        from beam_datasets.sources.first_examples import is_iterated
        from beam_datasets.sources.units import SourceUnits, iterate_examples

        sources = self.split_generators(None)
        unit_sources = {
            split: SourceUnits([source], functools.partial(iterate_examples, split, self))
            if is_iterated(source)
            else source
            for split, source in sources.items()
        }
        by_one_worker = all(
            isinstance(source, SourceUnits) and len(source.units) <= 1 for source in unit_sources.values()
        )
        return unit_sources if by_one_worker else None

    def _generate_in_process(self, sources: Mapping[str, SourceUnits], options: BuildOptions) -> str:
        """Generates the dataset without Beam; returns its directory. See `beam_datasets.execute.in_process`."""
        from beam_datasets.execute import in_process

        info = self.info.replace(download_size=self.download_size or self.info.download_size)
        builder = f"{type(self).__module__}:{type(self).__qualname__}"
        return in_process.generate(info, builder, sources, options.sharding, options.inputs, options.checksums)

    def _overwrite(self, options: BuildOptions) -> str:
        """Generates the version again, replaces the published one by it, and returns its directory.

        Raises:
            ValueError: an option cannot be combined with overwriting.
        """
        from beam_datasets.beam.generate import generate
        from beam_datasets.publishing import disk_commit

        if wrong := [name for name in ("check_against", "resume") if getattr(options, name)]:
            raise ValueError(f"overwrite cannot be combined with {wrong[0]}. Raise the version.")
        if not options.engine.wait:
            raise ValueError("overwrite must wait for the end of the job; leave out wait=False (--no_wait).")
        with disk_commit.beside(self.dataset_dir) as folder:
            disk_commit.replace_published(generate(self.elsewhere(folder), options), self.dataset_dir)
        return self.dataset_dir

    @property
    def is_temporary(self) -> bool:
        """Whether it was made by `elsewhere`, for a directory that is deleted also after a run that fails."""
        return self._download_root is not None

    def elsewhere(self, data_dir: str | os.PathLike[str], *, first: int | None = None) -> Self:
        """Returns the same builder for another data_dir, with the downloads of this one.

        Args:
            data_dir: root of the datasets.
            first: maximum number of examples of each split, the first of its source; None for all. What Beam makes is
                not cut.
        """
        other = object.__new__(type(self))  # not as pickled for a worker, which downloads nothing
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("info", None)
        other._root, other._download_root = catalog.root_dir(data_dir), self._root
        other._trial_examples = first
        return other

    is_appended: bool = False
    """Whether what it makes is to be appended to a published version."""

    uncut_splits: Sequence[str] = ()
    """Splits that Beam makes, of which `elsewhere(first=)` takes no first examples; once they are known."""

    def download_and_prepare(self, *, download_dir: Any = None, download_config: Any = None, **options: Any) -> None:
        """Generates the dataset unless it is published already: `build` under the name of TensorFlow Datasets.

        Args:
            download_dir: directory of downloads; see `build`.
            download_config: a `DownloadConfig`, or an object with any of its attributes.
            **options: see `build`; they win.
        """
        self._use_storage_options(options.pop("storage_options", None))
        if self.is_prepared():
            return
        settings = {name: getattr(download_config, name, None) for name in BUILD_OPTIONS}
        settings["download_dir"] = download_dir
        settings["force_checksums"] = getattr(download_config, "force_checksums_validation", None)
        settings["max_downloads"] = getattr(download_config, "override_max_simultaneous_downloads", None)
        try:
            self.build(**{name: value for name, value in settings.items() if value is not None} | options)
        except AlreadyPublishedError:  # by another run in the meantime, or it was another run that had to be finished
            if not self.is_prepared():
                raise

    def download_settings(
        self,
        download_dir: str | os.PathLike[str] | None = None,
        manual_dir: str | os.PathLike[str] | None = None,
        register_checksums: bool = False,
        force_checksums: bool = False,
        verify_ssl: bool = True,
        max_downloads: int | None = None,
    ) -> DownloadSettings:
        """Returns the settings of downloads. For the arguments, see `build`, which has the same ones."""
        parent = self._download_root or self._root
        root = Path.home() / "beam_datasets" if storage.is_remote(parent) else Path(parent)
        checksums = self.checksums_file()
        return DownloadSettings(
            download_dir=download_dir or root / "downloads",  # type: ignore[arg-type]  # converted there
            manual_dir=manual_dir or None,  # type: ignore[arg-type]
            instructions=self.MANUAL_DOWNLOAD_INSTRUCTIONS or "",
            checksums=read_checksums(checksums),
            register_to=checksums if register_checksums else None,
            force_checksums=force_checksums,
            verify_ssl=verify_ssl,
            max_at_once=max_downloads or self.MAX_SIMULTANEOUS_DOWNLOADS or MAX_AT_ONCE,
        )

    def use_downloads(self, settings: DownloadSettings) -> None:
        """Sets the settings of downloads of a later `build` without options of its own for them."""
        self._downloads = settings

    @classmethod
    def checksums_file(cls) -> Path:
        """Returns the file of recorded checksums: checksums.tsv beside the module."""
        return cls._code_dir() / CHECKSUMS_FILE

    def _use_storage_options(self, storage_options: Mapping[str, Any] | None) -> None:
        """Uses storage options for the root directory of the datasets from now on; None or {} changes nothing."""
        if storage_options:
            self._root = catalog.root_dir(self._root, storage_options)
            self.__dict__.pop("info", None)  # of what could not be seen without

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
        """Returns the `Dataset` of a split of the published version; nothing is read yet.

        For the arguments and further errors see `ReadOnlyBuilder.as_dataset`.

        Raises:
            DatasetNotFoundError: the version is not published.
            BeamDatasetsError: it is blocked.
        """
        self._check_not_blocked()
        published = self._open_published()
        if as_supervised and (keys := self._build_described_info().supervised_keys):  # which may be new in the code
            published.info = published.info.replace(supervised_keys=keys)
        return published.as_dataset(
            split,
            batch_size=batch_size,
            shuffle_files=shuffle_files,
            decoders=decoders,
            read_config=read_config,
            as_supervised=as_supervised,
            text=text,
        )

    def check_buildable(self) -> None:
        """Checks that this library can make this version.

        Raises:
            BeamDatasetsError: it is blocked, or neither the canonical nor the highest version, or an older library
                must make it.
        """
        self._check_not_blocked()
        versions = self._versions()
        mine = next(version for version in versions if version == self.version)
        if mine.prepare_with:
            raise BeamDatasetsError(
                f"{self._full_name()} can be read, but only beam_datasets {mine.prepare_with} can generate it",
                expected=mine.prepare_with,
                advice=f"pip install 'beam_datasets=={mine.prepare_with}'.",
            )
        if mine not in (versions[0], max(versions)):
            allowed = " or ".join(dict.fromkeys(map(str, (versions[0], max(versions)))))
            raise BeamDatasetsError(
                f"{self._full_name()} can be read but not generated; the code generates {allowed}",
                expected=allowed,
                got=str(mine),
            )

    def _check_not_blocked(self) -> None:
        """Checks that the author has not blocked this version.

        Raises:
            BeamDatasetsError: the version is in `BLOCKED_VERSIONS`.
        """
        reason = self.BLOCKED_VERSIONS and self.BLOCKED_VERSIONS.reason(self.version, self._config_name)
        if reason:
            raise BeamDatasetsError(f"{self._full_name()} must not be used: {reason}")

    def split_generators(self, pipeline: Any) -> dict[str, ExampleSource]:
        """Returns {split: source}, names checked.

        Args:
            pipeline: the Beam pipeline; on a worker, where only the iterables are of use, one that is never run.

        Raises:
            BeamDatasetsError: no split is given, or one has an unusable name.
        """
        sources = self._sources(pipeline)
        if self._trial_examples is None:
            return sources
        from beam_datasets.sources.first_examples import take_first_examples

        first = {name: take_first_examples(name, sources, self._trial_examples) for name in sources}
        self.uncut_splits = [name for name in sources if first[name] is sources[name]]
        return first

    def _sources(self, pipeline: Any) -> dict[str, ExampleSource]:
        """Calls `_split_generators` with the arguments that it expects; returns {split: source}, after checking it.

        Sets `download_size` to the bytes that the call has downloaded.

        Raises:
            BeamDatasetsError: there is no split, or one has no source.
        """
        settings = self._downloads_if_taken()
        downloads = settings.manager() if settings else None
        names = self._required_parameters()
        generators = self._split_generators(*[pipeline if name == "pipeline" else downloads for name in names])
        if downloads is not None:
            self.download_size = downloads.downloaded_size
        splits = dict(generators) if isinstance(generators, Mapping) else self._sources_by_split(generators)
        if not splits:
            raise BeamDatasetsError(
                f"{type(self).__name__}._split_generators: expected {{split name: source}} with at least one split, "
                f"got {generators!r}",
                got=repr(generators),
            )
        for name, source in splits.items():
            check_split_name(name, reserved=RESERVED_SPLITS)
            if source is None:
                raise BeamDatasetsError(
                    f"split {name!r}: its source is None", split=name, advice="Did the function forget yield or return?"
                )
        return splits

    def _required_parameters(self) -> list[str]:
        """Returns the names of the parameters of `_split_generators` without a default, in order."""
        parameters = inspect.signature(self._split_generators).parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [
            parameter.name
            for parameter in parameters
            if parameter.kind in kinds and parameter.default is parameter.empty
        ]

    def _downloads_if_taken(self) -> DownloadSettings | None:
        """Returns the settings of downloads; None if none were given, and `_split_generators` takes no manager."""
        if self._downloads is None and all(name == "pipeline" for name in self._required_parameters()):
            return None
        return self._downloads or self.download_settings()

    def _sources_by_split(self, generators: Any) -> dict[str, ExampleSource]:
        """Returns {split: source} of a list of `SplitGenerator`."""
        if not isinstance(generators, Sequence) or not all(isinstance(each, SplitGenerator) for each in generators):
            return {}
        return {str(each.name): self._call_generator(each.gen_kwargs) for each in generators}

    def _call_generator(self, arguments: Mapping[str, Any]) -> ExampleSource:
        """Returns the source of a `SplitGenerator` with these arguments."""
        return self._generate_examples(**arguments)  # type: ignore[attr-defined]

    def _full_name(self) -> str:
        """Returns the name with config and version, such as "digits/small:1.0.0" or "digits:1.0.0"."""
        return str(DatasetName(self.name, self._config_name, str(self.version)))

    def _open_published(self) -> ReadOnlyBuilder:
        """Opens the published version; uses the features of the code if only the code knows their custom connectors.

        Raises:
            DatasetNotFoundError: the version is not published.
        """
        from beam_datasets.features import UnknownFeature, to_json_text
        from beam_datasets.features.decode import skip_decoding
        from beam_datasets.reading.opening import ReadOnlyBuilder

        try:
            published = ReadOnlyBuilder(self.dataset_dir)
        except BeamDatasetsError:
            if self.is_prepared():
                raise
            raise DatasetNotFoundError(
                f"{self._full_name()} is not published in {self.dataset_dir}; "
                f"{catalog.published_versions_text(self.name, self._root)}",
                got=self._full_name(),
                advice="Generate it with build(), or give the data_dir that contains it.",
            ) from None
        features = published.info.features
        if skip_decoding(features, UnknownFeature):  # custom connectors that are not registered: the code has them
            code_features = self._build_described_info().features
            texts = (
                re.sub(r'("pythonClassName": ")[\w.]*\.', r"\1", to_json_text(each))
                for each in (code_features, features)
            )
            if len(set(texts)) == 1:  # also if the module has another name now
                published.info = published.info.replace(features=code_features)
        return published

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("info", None)  # created again on a worker
        if settings := self._downloads_if_taken():
            state["_downloads"] = dataclasses.replace(settings, offline=True)
        return state


def is_shell(cls: type) -> bool:
    """Returns whether a class is an empty copy of another class, which must not be registered in its place.

    cloudpickle creates and discards such a copy when it loads a class that was pickled by value, such as a class of a
    script's `__main__`, in the process that defined the class.
    """
    empty = all(name.startswith("__") for name in cls.__dict__)
    siblings: Iterable[type] = cls.__bases__[0].__subclasses__() if empty else ()
    return any(
        other is not cls and (other.__module__, other.__name__) == (cls.__module__, cls.__name__) for other in siblings
    )


def _default_name(cls: type) -> str:
    """Returns the dataset name of a builder class: "my_digits" for the class `MyDigits`.

    A class `Builder` in a module `digits_dataset_builder` has the name "digits".
    """
    module = cls.__module__.rpartition(".")[2]
    if cls.__name__ == "Builder" and module.endswith("_dataset_builder"):
        return module.removesuffix("_dataset_builder")
    return camel_to_snake(cls.__name__)


GeneratorBasedBuilder = DatasetBuilder


class BeamBasedBuilder(DatasetBuilder, skip_registration=True):
    """A builder whose list of `SplitGenerator` gives arguments to `_build_pcollection(pipeline, ...)`."""

    def _call_generator(self, arguments: Mapping[str, Any]) -> ExampleSource:
        """Returns a Beam transform that calls the author's `_build_pcollection` with the arguments."""
        import apache_beam as beam

        return beam.ptransform_fn(self._build_pcollection)(**arguments)  # type: ignore[attr-defined]
