"""WriteDataset: (key, example) -> a published dataset, as a transform of any Beam pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import apache_beam as beam

from beam_datasets import catalog, storage
from beam_datasets.beam.publishing import reserve
from beam_datasets.beam.write import WriteExamples
from beam_datasets.engines import engine as engines
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo
from beam_datasets.metadata.names import RESERVED_SPLITS, check_config_name, check_dataset_name, check_split_name
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.options import EngineOptions, ShardingOptions
from beam_datasets.publishing.publication import announce

if TYPE_CHECKING:
    from beam_datasets.metadata.info import InfoArguments

_BUILDER = "beam_datasets.beam.write_dataset:WriteDataset"  # part of the digests of published manifests, so it stays


class WriteDataset(beam.PTransform):
    """Writes (key, example) pairs as a published dataset; its output is one element, the published directory.

    Applied to a PCollection it writes one split, applied to {split name: PCollection} several. Keys are unique within a
    split. Nothing is visible before all is written; of a job that fails, a directory `incomplete.*` may be left beside
    the version's place.

    >>> examples | WriteDataset("squares", {"n": np.int64}, data_dir="data")  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        features: Any,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        version: VersionOrStr = "1.0.0",
        config: str | None = None,
        split: str = "train",
        num_shards: int | Mapping[str, int] | None = None,
        min_shard_size: int | None = None,
        max_shard_size: int | None = None,
        max_examples_per_split: int | None = None,
        ignore_duplicates: bool = False,
        max_rejected: int = 0,
        payload: str | None = None,
        spill_dir: str | None = None,
        block_size: int | None = None,
        shared_disk: bool = False,
        release_notes: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **info: Unpack[InfoArguments],
    ) -> None:
        """Declares the dataset to write.

        Args:
            name: the dataset's.
            features: its feature tree, or a dict of features.
            data_dir: root of the datasets.
            version: version of the dataset.
            config: name of the variant.
            split: name of the split where the input is one PCollection.
            num_shards: number of shards of each split: one number for all or {split: number}; None chooses by the size
                rule.
            min_shard_size: lower limit of the size rule in bytes; None for 64 MiB.
            max_shard_size: upper limit of the size rule in bytes; None for 1 GiB.
            max_examples_per_split: keep at most this many examples of each split, those with the lowest sort keys.
            ignore_duplicates: keep only the smallest record of the examples with the same key, instead of failing.
            max_rejected: number of elements `(key, Rejected(reason))` that are left out; more fail the job.
            payload: 'inline' or 'spilled'; None for inline on Dataflow, spilled elsewhere.
            spill_dir: directory for spilled payload; None for beside the staging directory.
            block_size: records are sorted and sent in blocks of about this size in bytes.
            shared_disk: the workers of a remote runner see this machine's paths.
            release_notes: version -> description of its changes.
            storage_options: options of the store of `data_dir`, such as `access_key_id` and `endpoint`; see
                `beam_datasets.builder`. Refused for an engine whose workers this process does not start: they and this
                process have their own, such as variables of the environment.
            **info: further arguments of DatasetInfo: description, supervised_keys, disable_shuffling, homepage, ...

        Raises:
            ValueError: a name or an option is unusable, or there are options for a local path.
        """
        super().__init__()
        check_dataset_name(name)
        if config is not None:
            check_config_name(config)
        root = catalog.root_dir(data_dir, storage_options)
        directory = storage.join(root, name, *filter(None, [config]), str(Version(version)))
        identity = DatasetIdentity(name, Version(version), directory, config_name=config, release_notes=release_notes)
        self._info = DatasetInfo(builder=identity, features=features, **info)
        self._split = split
        self._sharding = ShardingOptions.of(
            num_shards=num_shards,
            min_shard_size=min_shard_size,
            max_shard_size=max_shard_size,
            max_examples_per_split=max_examples_per_split,
            ignore_duplicates=ignore_duplicates,
            max_rejected=max_rejected,
            ordered=self._info.disable_shuffling,
        )
        self._options = EngineOptions(
            payload=payload, spill_dir=spill_dir, block_size=block_size, shared_disk=shared_disk
        )

    def expand(self, examples: beam.PCollection | Mapping[str, beam.PCollection]) -> beam.PCollection:
        """Checks that the version is free and the workers reach its place, and builds the flow."""
        splits = dict(examples) if isinstance(examples, Mapping) else {self._split: examples}
        for name in splits:
            check_split_name(name, reserved=RESERVED_SPLITS)
        pipeline = next(iter(splits.values())).pipeline
        engine = engines.engine_of(pipeline, shared_disk=self._options.shared_disk)
        engines.refuse_template(engine)
        publication = announce(
            self._info,
            self._info.data_dir,
            workers=engine,
            sharding=self._sharding,
            builder=_BUILDER,
            spilling=self._options,
            is_reserved=False,
        )
        spill_dir = publication.spill_dir
        engines.check_paths_are_shared(engine, {engines.TARGET: publication.target, "spill_dir": spill_dir})
        reserve(pipeline, publication)
        return splits | WriteExamples(publication, self._sharding, engine.transport(spill_dir, self._options))
