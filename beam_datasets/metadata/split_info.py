"""What is known of the splits of a dataset, and of any slice of them: `info.splits['train[:10%]']`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_datasets.errors import MetadataError
from beam_datasets.metadata.names import Filenames, FilenameTemplate, check_split_name
from beam_datasets.metadata.shards import FileInstructions, shard_offsets
from beam_datasets.metadata.splits import AbstractSplit, Spec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CountBytes: TypeAlias = Callable[[FileInstructions], int | None]


@dataclass(frozen=True)
class SplitInfo:
    """A split as it is stored.

    Attributes:
        name: such as 'train'.
        shard_lengths: how many examples each shard has.
        num_bytes: of all serialized examples, without what the file format adds.
        filename_template: how the shards are called; None if there are no files.
        directory: where the shards lie.
        statistics: of the features, as a metadata file had them; nothing here computes any.

    Raises:
        MetadataError: the name or a number cannot be.
    """

    name: str
    shard_lengths: list[int]
    num_bytes: int
    filename_template: FilenameTemplate | None = None
    directory: str = ""
    statistics: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        try:
            check_split_name(self.name)
        except ValueError as error:
            raise MetadataError(str(error)) from None
        if self.num_bytes < 0 or min(self.shard_lengths, default=0) < 0:
            raise MetadataError(f"split {self.name!r} has a negative number of bytes or of examples in a shard.")

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """The index of each shard's first example, and last the number of all examples; shape (num_shards + 1,)."""
        return shard_offsets(self.shard_lengths)

    @property
    def num_examples(self) -> int:
        """Of the split."""
        return int(self.offsets[-1])

    @property
    def num_shards(self) -> int:
        """Of the split."""
        return len(self.shard_lengths)

    @cached_property
    def shard_names(self) -> Filenames:
        """The shards' names, relative to the directory, each made when it is asked for.

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
        return [_path(self.directory, name) for name in self.shard_names]

    @property
    def file_instructions(self) -> FileInstructions:
        """The runs that make up the split; shards without examples are left out."""
        return self.between(0, self.num_examples)

    @property
    def examples_in_shards(self) -> list[int]:
        """`shard_lengths`; in a slice it is how many examples the whole shards have."""
        return self.shard_lengths

    def between(self, start: int, stop: int) -> FileInstructions:
        """Returns the runs that make up examples [start, stop)."""
        names: Any = self.shard_names if self.filename_template else [""] * self.num_shards
        return FileInstructions.between(start, stop, self.offsets, names)

    def file_spec(self, file_format: str = "tfrecord") -> str | None:
        """Returns all shards in one text, such as `/data/digits/1.0.0/digits-train.tfrecord@4`.

        Raises:
            ValueError: the shards are of another format.
        """
        if self.filename_template is None:
            return None
        if self.filename_template.fileformat != file_format:
            raise ValueError(
                f"split {self.name!r} is stored as {self.filename_template.fileformat}, not as {file_format}."
            )
        return _path(self.directory, self.filename_template.spec(self.num_shards))

    def replace(self, **changes: Any) -> SplitInfo:
        """Returns a copy with some attributes changed."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        return f"<SplitInfo num_examples={self.num_examples or 'unknown'}, num_shards={self.num_shards}>"


@dataclass(frozen=True, repr=False)
class SubSplitInfo:
    """A slice of splits.

    Attributes:
        instruction: the expression that selects it.
        file_instructions: the runs of shards that make it up.
        directory: where the shards lie.
        count_bytes: what counts the bytes of runs; None where nothing can.
    """

    instruction: AbstractSplit
    file_instructions: FileInstructions
    directory: str = ""
    count_bytes: CountBytes | None = dataclasses.field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The expression as text."""
        return str(self.instruction)

    @property
    def num_examples(self) -> int:
        """Of the slice."""
        return self.file_instructions.num_examples

    @property
    def num_shards(self) -> int:
        """How many runs of shards make up the slice."""
        return len(self.file_instructions)

    @property
    def shard_lengths(self) -> list[int]:
        """How many examples of each shard the slice has."""
        return list(map(int, self.file_instructions.take))

    @property
    def examples_in_shards(self) -> list[int]:
        """How many examples each of the shards has in all."""
        return list(map(int, self.file_instructions.examples_in_shard))

    @cached_property
    def num_bytes(self) -> int | None:
        """Of the slice's serialized examples, without what the file format adds; None where it is not known."""
        return None if self.count_bytes is None else self.count_bytes(self.file_instructions)

    @property
    def filenames(self) -> list[str]:
        """The names of the shards that the slice has examples of, sorted; one occurs as often as runs are in it."""
        return sorted(map(self.file_instructions.filename, range(self.num_shards)))

    @property
    def filepaths(self) -> list[str]:
        """The paths of the same shards."""
        return [_path(self.directory, name) for name in self.filenames]

    def __repr__(self) -> str:
        return f"<SubSplitInfo num_examples={self.num_examples}, num_shards={self.num_shards}>"


class SplitDict(Mapping[str, SplitInfo]):
    """The splits of a dataset by name, in the order in which they are stored; it answers expressions too.

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
        """Takes splits.

        Args:
            split_infos: the splits, in the order in which they are stored.
            dataset_name: whose they are, for errors.
            count_bytes: what counts the bytes of runs of their shards; None where nothing can.

        Raises:
            MetadataError: two splits have the same name.
        """
        self._splits: dict[str, SplitInfo] = {}
        for info in split_infos:
            if info.name in self._splits:
                raise MetadataError(f"{dataset_name or 'the dataset'} has two splits named {info.name!r}.")
            self._splits[info.name] = info
        self.dataset_name = dataset_name
        self._count_bytes = count_bytes

    def __getitem__(self, key: Spec) -> Any:
        """Returns the split of this name, a `SplitInfo`; or what an expression selects, a `SubSplitInfo`.

        Raises:
            SplitError: the expression cannot be read, or does not fit the dataset.
        """
        if isinstance(key, str) and key in self._splits:
            return self._splits[key]
        return self._slice(AbstractSplit.from_spec(key))

    def _slice(self, instruction: AbstractSplit) -> SubSplitInfo:
        parts = instruction.to_absolute(self)
        runs = FileInstructions.concatenate(
            self._splits[part.splitname].between(part.start, part.stop) for part in parts
        )
        directory = next((info.directory for info in self._splits.values()), "")
        return SubSplitInfo(instruction, runs, directory, self._count_bytes)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the split of this name, or the default; it reads no expressions."""
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
        """Of all splits."""
        return sum(info.num_examples for info in self.values())

    def replace(self, *, dataset_name: str | None = None, count_bytes: CountBytes | None = None) -> SplitDict:
        """Returns the same splits with another name of the dataset or another counter of bytes."""
        return SplitDict(
            self.values(),
            dataset_name=self.dataset_name if dataset_name is None else dataset_name,
            count_bytes=count_bytes or self._count_bytes,
        )

    def __repr__(self) -> str:
        return f"SplitDict({self._splits!r})"


def _path(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}" if directory else name
