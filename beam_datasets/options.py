"""The options of jobs: sharding, engine, and those of a build.

Public functions have an argument for each of them, and pass them on as these classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import did_you_mean
from beam_datasets.metadata import shards as shard_rules

if TYPE_CHECKING:
    from beam_datasets.metadata.inputs import Inputs
    from beam_datasets.publishing.progress import Progress
    from beam_datasets.sources.units import SourceUnits

MAX_SHARDS = 100_000  # of all splits together: lists of them travel whole, and each costs readers a microsecond


@dataclass(frozen=True, slots=True)
class ShardingOptions:
    """Options that decide the number of shards and the examples in them.

    Attributes:
        num_shards: number of shards of each split, or one number for all; None chooses by the size rule.
        min_shard_size: lower limit of the size rule, in bytes.
        max_shard_size: upper limit of the size rule, in bytes.
        max_examples_per_split: keep at most this many, those with the lowest sort keys; None keeps all.
        ignore_duplicates: keep only the smallest record of the examples with the same key, instead of failing.
        ordered: keys are integers whose order is kept (`disable_shuffling`).
        skip_empty_splits: leave out splits without examples, but not all splits.
        max_rejected: fail if the builder rejects more examples of all splits together.
    """

    num_shards: int | Mapping[str, int | None] | None = None
    min_shard_size: int = shard_rules.MIN_SHARD_SIZE
    max_shard_size: int = shard_rules.MAX_SHARD_SIZE
    max_examples_per_split: int | None = None
    ignore_duplicates: bool = False
    ordered: bool = False
    skip_empty_splits: bool = False
    max_rejected: int = 0

    def __post_init__(self) -> None:
        """Converts the numbers to int and checks the fields.

        Raises:
            TypeError: a value has another type.
            ValueError: a number is out of range, or `min_shard_size` exceeds `max_shard_size`.
        """
        for name in ("ignore_duplicates", "ordered", "skip_empty_splits"):
            object.__setattr__(self, name, boolean(name, getattr(self, name)))
        for name in ("min_shard_size", "max_shard_size", "max_examples_per_split"):
            if getattr(self, name) is not None:  # as int: JSON cannot store NumPy's
                object.__setattr__(self, name, integer(name, getattr(self, name)))
        object.__setattr__(self, "max_rejected", integer("max_rejected", self.max_rejected, at_least=0))
        if isinstance(self.num_shards, Mapping):
            object.__setattr__(
                self, "num_shards", {split: _check_num_shards(split, n) for split, n in self.num_shards.items()}
            )
        else:
            object.__setattr__(self, "num_shards", _check_num_shards(None, self.num_shards))
        if not 0 < self.min_shard_size <= self.max_shard_size:
            raise ValueError(
                f"min_shard_size is {self.min_shard_size:,} and max_shard_size {self.max_shard_size:,} bytes; "
                "expected 0 < min_shard_size <= max_shard_size."
            )
        if self.max_examples_per_split is not None and self.max_examples_per_split < 1:
            raise ValueError(
                f"max_examples_per_split is {self.max_examples_per_split}; give at least 1, or None for all."
            )

    @property
    def most_shards(self) -> int:
        """The largest requested number of shards; 0 if none is requested."""
        counts = self.num_shards.values() if isinstance(self.num_shards, Mapping) else [self.num_shards]
        return max(filter(None, counts), default=0)

    @classmethod
    def of(
        cls,
        *,
        num_shards: int | Mapping[str, int | None] | None = None,
        min_shard_size: int | None = None,
        max_shard_size: int | None = None,
        max_examples_per_split: int | None = None,
        ignore_duplicates: bool = False,
        ordered: bool = False,
        skip_empty_splits: bool = False,
        max_rejected: int = 0,
    ) -> ShardingOptions:
        """Returns the options, with the default limits of the size rule where they are None.

        For the arguments, see `ShardingOptions`.
        """
        return cls(
            num_shards=num_shards,
            min_shard_size=shard_rules.MIN_SHARD_SIZE if min_shard_size is None else min_shard_size,
            max_shard_size=shard_rules.MAX_SHARD_SIZE if max_shard_size is None else max_shard_size,
            max_examples_per_split=max_examples_per_split,
            ignore_duplicates=ignore_duplicates,
            ordered=ordered,
            skip_empty_splits=skip_empty_splits,
            max_rejected=max_rejected,
        )

    def check_splits(self, splits: Collection[str]) -> None:
        """Checks that `num_shards` names only splits of the dataset.

        Raises:
            ValueError: num_shards names another.
        """
        if isinstance(self.num_shards, Mapping) and (unknown_splits := sorted(set(self.num_shards) - set(splits))):
            hint = did_you_mean(unknown_splits[0], splits)
            known, unknown = (", ".join(map(repr, sorted(names))) for names in (splits, unknown_splits))
            raise ValueError(f"num_shards: expected splits of the dataset, {known}, got {unknown}.{hint}")

    def shards_of(self, split: str) -> int | None:
        """Returns the requested number of shards; None if the size rule chooses it."""
        return self.num_shards.get(split) if isinstance(self.num_shards, Mapping) else self.num_shards


def _check_num_shards(split: Any, count: Any) -> int | None:
    """Returns the requested number of shards as an int; None if the size rule chooses it.

    Args:
        split: name of the split; None for all.
        count: the number, or None.

    Raises:
        TypeError: the name is not a str, or the number not an integer.
        ValueError: the number is not in [1, `MAX_SHARDS`].
    """
    if split is not None and not isinstance(split, str):
        raise TypeError(f"num_shards must be an int or {{split name: int}}, but {split!r} is not a str.")
    if count is None:
        return None
    number = integer("num_shards" if split is None else f"num_shards[{split!r}]", count)
    if number < 1:
        raise ValueError(f"num_shards is {number}; give at least 1; without it the size rule chooses.")
    if number > MAX_SHARDS:
        raise ValueError(f"num_shards is {number:,}; give at most {MAX_SHARDS:,} for all splits together.")
    return number


@dataclass(frozen=True)
class EngineOptions:
    """Options of where and how a job runs. They do not affect the output.

    Attributes:
        beam_options: Beam's pipeline options, as such or as command line arguments; the default runner is FnApiRunner.
        num_workers: number of worker processes of a local run; 0 for one per core. None leaves the choice, and does not
            ask for Beam.
        payload: 'inline' sends records through the engine's shuffle, 'spilled' through files of a spill directory; None
            for inline on Dataflow, spilled elsewhere.
        spill_dir: directory for spilled records, visible to all workers; None for beside the staging directory.
        block_size: approximate bytes of the blocks in which records are sorted and sent; None for the default.
        shared_disk: whether the workers of a remote runner see this machine's paths.
        wait: whether to wait for the end of the job.

    Raises:
        TypeError: an option but `beam_options` is of another type.
        ValueError: `payload` or `block_size` is something else.
    """

    beam_options: Any | Sequence[str] | None = None
    num_workers: int | None = None
    payload: str | None = None
    spill_dir: str | None = None
    block_size: int | None = None
    shared_disk: bool = False
    wait: bool = True

    def __post_init__(self) -> None:
        """Checks the fields, and converts numbers and bools to those of Python.

        Raises:
            TypeError: a field but `beam_options` has another type.
            ValueError: `payload` or `block_size` is something else.
        """
        for name in ("shared_disk", "wait"):
            object.__setattr__(self, name, boolean(name, getattr(self, name)))
        if self.num_workers is not None:
            object.__setattr__(self, "num_workers", integer("num_workers", self.num_workers))
        if self.block_size is not None:
            block_size = integer("block_size", self.block_size, at_least=1, at_most=2**62)
            object.__setattr__(self, "block_size", block_size)
        if self.payload not in (None, "inline", "spilled"):
            raise ValueError(f"payload is {self.payload!r}; expected 'inline', 'spilled' or None.")
        if self.spill_dir is not None and not isinstance(self.spill_dir, (str, os.PathLike)):
            raise TypeError(f"spill_dir must be a path, as str or os.PathLike, or None, not {self.spill_dir!r}.")

    @property
    def asks_for_beam(self) -> bool:
        """Whether options request a pipeline: Beam's options, or others that only workers need."""
        is_default = self.num_workers is None and self.shared_disk is False and self.wait is True
        return bool(self.beam_options) or not is_default


@dataclass(frozen=True)
class BuildOptions:
    """The options of one build of a builder's version.

    Attributes:
        sharding: options that decide the shards.
        engine: options of where and how the job runs.
        check_against: a published version, or 'latest' for the highest one below the version that is built. Features
            and description are compared before the job starts, the examples before publishing. If the version is too
            low for the changes, nothing is published, and the result is kept, so that it can be published as another
            one.
        resume: whether to reuse the finished units and shards of failed runs of this version, after verifying their
            checksums; True fails if the builder has changed since, 'changed' accepts changes. Payload is then spilled.
            A run with this option keeps its finished units if it fails; a run without it only if it ran for a minute
            or was killed.
        check_images: check of the files that image features are given: "structure" (whether they are whole), or
            "decode", which also decodes each; None for the check of each feature.
        progress: called about twice a second during a local run, with the progress so far.
        counters: called at the end of a run that is waited for, with the counters of the builder's transforms:
            {'namespace/name': an integer, or a set of strings}.
        inputs: the files that the builder has read, for inputs.json; None if it does not read files.
        checksums: checksums of the files of `inputs`: units that workers read as pairs (name, checksum or '').
    """

    sharding: ShardingOptions = field(default_factory=ShardingOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    check_against: str | None = None
    resume: bool | str = False
    check_images: str | None = None
    progress: Callable[[Progress], None] | None = None
    counters: Callable[[Mapping[str, Any]], None] | None = None
    inputs: Inputs | None = None
    checksums: SourceUnits | None = None
