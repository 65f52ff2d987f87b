"""The splits of a dataset as dataset_info.json stores them, and slices of them with the files to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from beam_datasets.advice import advised_getattr
from beam_datasets.errors import MetadataError, SplitError
from beam_datasets.metadata.names import Filenames, FilenameTemplate, check_split_name
from beam_datasets.metadata.shards import FileInstructions, shard_offsets
from beam_datasets.metadata.split_expressions import AbsoluteInstruction, AbstractSplit, Spec
from beam_datasets.storage.paths import join

_MAX_EXAMPLES = (1 << 63) - 1  # that a slice may have; their positions are int64

CountBytes: TypeAlias = Callable[[FileInstructions], int | None]
"""A function from runs to the size of their serialized examples in bytes; it returns None if the size is unknown."""


@dataclass(frozen=True)
class SplitInfo:
    """The stored description of a split.

    Attributes:
        name: name of the split, such as 'train'.
        shard_lengths: number of examples of each shard.
        num_bytes: size of all serialized examples in bytes, without the framing of the file format.
        filename_template: template for the names of the shards; None for a split without files.
        directory: directory of the shards.
        statistics: statistics of the features from dataset_info.json, as TensorFlow Datasets writes them.

    Raises:
        MetadataError: the name or a number is invalid.
    """

    name: str
    shard_lengths: list[int]
    num_bytes: int
    filename_template: FilenameTemplate | None = None
    directory: str = ""
    statistics: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Checks the name and the numbers.

        Raises:
            MetadataError: the name or a number is invalid.
        """
        try:
            check_split_name(self.name)
        except ValueError as error:
            raise MetadataError(str(error), split=self.name) from None
        num_examples, least = sum(self.shard_lengths), min(self.num_bytes, *self.shard_lengths, 0)
        if least < 0:
            problem = f"split {self.name!r} has a negative number of bytes or of examples in a shard: {least}"
            raise MetadataError(problem, split=self.name, got=f"{least}")
        if num_examples > _MAX_EXAMPLES:
            problem = f"split {self.name!r} has {num_examples:,} examples; at most {_MAX_EXAMPLES:,} are possible"
            raise MetadataError(problem, split=self.name, got=f"{num_examples}")

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The index of each shard's first example, and last the number of all examples; shape (num_shards + 1,)."""
        return shard_offsets(self.shard_lengths)

    @property
    def num_examples(self) -> int:
        """The number of examples of the split."""
        return int(self.offsets[-1])

    @property
    def num_shards(self) -> int:
        """The number of shards of the split."""
        return len(self.shard_lengths)

    @cached_property
    def shard_names(self) -> Filenames:
        """The shards' names, relative to the directory; each is computed when it is accessed.

        Raises:
            ValueError: the split has no filename template.
        """
        if self.filename_template is None:
            raise ValueError(f"split {self.name!r} has no filename template, so it has no files.")
        return self.filename_template.filenames(self.num_shards)

    @property
    def filenames(self) -> list[str]:
        """The shards' names, relative to the directory."""
        return list(self.shard_names)

    @property
    def filepaths(self) -> list[str]:
        """The shards' paths."""
        return [join(self.directory, name) for name in self.shard_names]

    @property
    def file_instructions(self) -> FileInstructions:
        """The runs that make up the split; shards without examples are left out."""
        return self.between(0, self.num_examples)

    @property
    def examples_in_shards(self) -> list[int]:
        """The number of all examples of each shard: `shard_lengths`, unlike in a slice."""
        return self.shard_lengths

    def between(self, start: int, stop: int) -> FileInstructions:
        """Returns the runs of examples [start, stop) of the split; shards without examples are left out."""
        names: Any = self.shard_names if self.filename_template else [""] * self.num_shards
        return FileInstructions.between(start, stop, self.offsets, names)

    def file_spec(self, file_format: str = "tfrecord") -> str | None:
        """Returns one text for all shards, such as `/data/digits/1.0.0/digits-train.tfrecord@4`; None without files.

        Raises:
            ValueError: the shards have another format than `file_format`.
        """
        template = self.filename_template
        if template is None:
            return None
        if template.fileformat != file_format:
            raise ValueError(f"split {self.name!r} is stored as {template.fileformat}, not as {file_format}.")
        return join(self.directory, template.spec(self.num_shards))

    def replace(self, **changes: Any) -> SplitInfo:
        """Returns a copy with some attributes changed."""
        return dataclasses.replace(self, **changes)

    if not TYPE_CHECKING:
        __getattr__ = advised_getattr("split")

    def __repr__(self) -> str:
        return f"<SplitInfo num_examples={self.num_examples or 'unknown'}, num_shards={self.num_shards}>"


@dataclass(frozen=True, repr=False)
class SubSplitInfo:
    """A slice of splits.

    Attributes:
        instruction: the expression of the slice.
        file_instructions: the runs of the slice, in order.
        directory: directory of the shards.
        parts: the ranges of examples of splits, in order.
        count_bytes: see `CountBytes`; None if sizes are unknown.
    """

    instruction: AbstractSplit
    file_instructions: FileInstructions
    directory: str = ""
    parts: Sequence[AbsoluteInstruction] = ()
    count_bytes: CountBytes | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The expression as text, such as 'train[:10]+test'."""
        return str(self.instruction)

    @property
    def num_examples(self) -> int:
        """The number of examples of the slice."""
        return self.file_instructions.num_examples

    @property
    def num_shards(self) -> int:
        """The number of runs of the slice: parts of a shard."""
        return len(self.file_instructions)

    @property
    def shard_lengths(self) -> list[int]:
        """The number of examples of each run."""
        return list(map(int, self.file_instructions.take))

    @property
    def examples_in_shards(self) -> list[int]:
        """The number of all examples of the shard of each run."""
        return list(map(int, self.file_instructions.examples_in_shard))

    @cached_property
    def num_bytes(self) -> int | None:
        """The size of the serialized examples in bytes, without the framing of the file format; None if unknown."""
        return None if self.count_bytes is None else self.count_bytes(self.file_instructions)

    @property
    def filenames(self) -> list[str]:
        """The name of the shard of each run, sorted; a shard with several runs occurs several times."""
        return sorted(map(self.file_instructions.filename, range(self.num_shards)))

    @property
    def filepaths(self) -> list[str]:
        """The path of the shard of each run, in the order of `filenames`."""
        return [join(self.directory, name) for name in self.filenames]

    if not TYPE_CHECKING:
        __getattr__ = advised_getattr("split")

    def __repr__(self) -> str:
        return f"<SubSplitInfo num_examples={self.num_examples}, num_shards={self.num_shards}>"


class SplitDict(Mapping[str, SplitInfo]):
    """The splits of a dataset by name, in the order in which they are stored; keys may also be expressions.

    Examples:
        >>> splits = SplitDict([SplitInfo("train", [10, 7], 0), SplitInfo("test", [3], 0)])
        >>> splits["train"].num_examples, splits["train[-3:]+test"].num_examples, list(splits)
        (17, 6, ['train', 'test'])
    """

    def __init__(
        self,
        split_infos: Iterable[SplitInfo] = (),
        *,
        dataset_name: str = "",
        count_bytes: CountBytes | None = None,
    ) -> None:
        """Creates the dict of a dataset's splits.

        Args:
            split_infos: the splits, in the order in which they are stored.
            dataset_name: the name of the dataset, for errors.
            count_bytes: see `CountBytes`; None if sizes are unknown.

        Raises:
            MetadataError: two splits have the same name.
        """
        self._splits: dict[str, SplitInfo] = {}
        for info in split_infos:
            if info.name in self._splits:
                problem = f"{dataset_name or 'the dataset'} has two splits named {info.name!r}"
                raise MetadataError(problem, split=info.name)
            self._splits[info.name] = info
        self.dataset_name = dataset_name
        self._count_bytes = count_bytes

    def __getitem__(self, key: Spec) -> Any:
        """Returns the `SplitInfo` of a name, or the `SubSplitInfo` of an expression.

        Raises:
            SplitError: the expression is malformed, or does not fit the dataset.
        """
        if isinstance(key, str) and key in self._splits:
            return self._splits[key]
        return self._slice(AbstractSplit.from_spec(key))

    def _slice(self, instruction: AbstractSplit) -> SubSplitInfo:
        """Returns the slice that an expression selects, with the runs to read.

        Raises:
            SplitError: a split is unknown, or the selection has more than 2**63 - 1 examples.
        """
        ranges = instruction.to_absolute(self)
        if (total := sum(each.stop - each.start for each in ranges)) > _MAX_EXAMPLES:
            raise SplitError(expected=f"at most {_MAX_EXAMPLES:,} examples", got=f"{total:,}", split=f"{instruction}")
        runs = FileInstructions.concatenate(
            self._splits[each.splitname].between(each.start, each.stop) for each in ranges
        )
        first = next(iter(self._splits.values()), None)
        return SubSplitInfo(instruction, runs, first.directory if first else "", ranges, self._count_bytes)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the `SplitInfo` of a name, or the default; an expression is not a name."""
        return self._splits.get(key, default)

    def __contains__(self, name: object) -> bool:
        return name in self._splits

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitDict) and list(self.values()) == list(other.values())

    __hash__ = None  # type: ignore[assignment]

    @property
    def total_num_examples(self) -> int:
        """The number of examples of all splits."""
        return sum(info.num_examples for info in self.values())

    def replace(self, *, dataset_name: str | None = None, count_bytes: CountBytes | None = None) -> SplitDict:
        """Returns the same splits with another name of the dataset or another counter of bytes."""
        return SplitDict(
            self.values(),
            dataset_name=self.dataset_name if dataset_name is None else dataset_name,
            count_bytes=count_bytes or self._count_bytes,
        )

    if not TYPE_CHECKING:
        __getattr__ = advised_getattr("splits")

    def __repr__(self) -> str:
        return f"SplitDict({self._splits!r})"
