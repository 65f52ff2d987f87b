"""What a materialized dataset is made of: from expressions over published datasets to runs of their shards.

    expression := term ('+' term)*
    term       := [SOURCE ':'] what the language of splits has, such as `train[:10%]`

Without SOURCE a term means the first dataset; SOURCE is a label, a dataset's name or a version's directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, SplitError, StoreOptionsError
from beam_datasets.formats import tfrecord
from beam_datasets.model.lineage import Ascent, Read, SplitLineage, between
from beam_datasets.model.names import RESERVED_SPLITS, check_split_name
from beam_datasets.model.shards import FileInstructions
from beam_datasets.model.splits import AbstractSplit, SplitAdd
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published
from beam_datasets.reading.shards import read_index

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from beam_datasets.model.lineage import KeyRule
    from beam_datasets.model.splits import AbsoluteInstruction, Spec

    NameOrDir = str | os.PathLike[str]

_TERM = re.compile(r"(?:(?P<source>[^\[\]]+):)?(?P<split>[\w-]+(?:\[[^\[\]]*\])?)\Z")
_NAMED = re.compile(r"(?P<name>[^=\[\]:/]*)=(?P<expression>.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """Examples of a split of a source that stand one behind the other, and whose sort keys ascend.

    Attributes:
        dataset: number of the source.
        name: of it, `name/config:version`.
        split: the source's split.
        start: index of the first example in it.
        rules: of its sort keys; empty where it has none.
        files: the runs of shards, by their whole paths.
        num_bytes: size of each run in bytes, framed; about so many where `exact` is not.
        exact: whether they are known to the byte.
    """

    dataset: int
    name: str
    split: str
    start: int
    rules: tuple[KeyRule, ...]
    files: FileInstructions
    num_bytes: NDArray[np.int64]
    exact: bool


@dataclass(frozen=True)
class SelectedSplit:
    """A split that is to be written.

    Attributes:
        name: of the split.
        expression: what was asked for, in a form that does not depend on where the sources stand.
        reads: what it means.
        pieces: the same, in pieces whose keys ascend.
    """

    name: str
    expression: str
    reads: tuple[Read, ...]
    pieces: tuple[Piece, ...]

    @property
    def keyed(self) -> bool:
        """Whether all examples have sort keys."""
        return all(piece.rules for piece in self.pieces)

    @property
    def num_examples(self) -> int:
        """How many examples are read."""
        return sum(piece.files.num_examples for piece in self.pieces)

    @property
    def num_bytes(self) -> int:
        """Size of what is read in bytes, framed; about so many where a piece's is not exact."""
        return sum(int(piece.num_bytes.sum()) for piece in self.pieces)

    @property
    def exact(self) -> bool:
        """Whether `num_bytes` is known to the byte, for which the shards must have indexes."""
        return all(piece.exact for piece in self.pieces)

    @property
    def files(self) -> FileInstructions:
        """The runs of all pieces."""
        return FileInstructions.concatenate(piece.files for piece in self.pieces)

    def lineage(self, counts: Sequence[int] | None = None) -> SplitLineage:
        """Returns what the manifest says of the split, where the order is kept.

        Args:
            counts: how many examples each piece gave; None for all.
        """
        counts = counts or [piece.files.num_examples for piece in self.pieces]
        starts = np.cumsum(counts) - counts
        keys = tuple(
            Ascent(int(start), piece.rules) for start, count, piece in zip(starts, counts, self.pieces) if count
        )
        return SplitLineage(self.expression, self.reads, keys if self.keyed else None)


@dataclass
class Sources:
    """The datasets that expressions name, each opened once.

    Attributes:
        data_dirs: roots of the datasets, in the order in which a name is looked up in them.
        labels: label -> name or directory.
        options: of their stores; see `storage.with_options_if_remote`.
        beside: whose options those in the same bucket get where there are no others.
        opened: the datasets, in the order in which they were first named.
    """

    data_dirs: Sequence[NameOrDir | None]
    labels: Mapping[str, NameOrDir] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    beside: str | None = None
    opened: list[ReadOnlyBuilder] = field(default_factory=list)

    def open(self, text: NameOrDir) -> int:
        """Returns the number of the dataset that a label, a name or a directory means.

        Raises:
            DatasetNotFoundError: there is none.
            BeamDatasetsError: it cannot be copied.
        """
        found = self._find(self.labels.get(text, text) if isinstance(text, str) else text)
        for number, known in enumerate(self.opened):
            if storage.is_same(known.dataset_dir, found.dataset_dir):
                return number
        if found.info.file_format != "tfrecord":
            raise BeamDatasetsError(
                f"{found.dataset_dir} is stored as {found.info.file_format}; only tfrecord can be materialized."
            )
        if any(part.startswith("incomplete.") for part in found.dataset_dir.split("/")):
            raise BeamDatasetsError(f"{found.dataset_dir} is of a run that has not ended; wait until it is published.")
        self.opened.append(found)
        return len(self.opened) - 1

    def _find(self, name_or_dir: NameOrDir) -> ReadOnlyBuilder:
        if storage.is_remote(name_or_dir):
            name_or_dir = self._located(name_or_dir)
        errors = []
        for root in dict.fromkeys(map(catalog.root_dir, self.data_dirs)):
            try:
                return open_published(name_or_dir, self._located(root))
            except DatasetNotFoundError as error:
                errors.append(str(error))
        if len(set(errors)) == 1:
            raise DatasetNotFoundError(errors[0])
        raise DatasetNotFoundError("\n  and ".join(errors))

    def _located(self, path: NameOrDir) -> str:
        return storage.with_options_if_remote(path, self.options, beside=self.beside)

    def keep_read(self, splits: Iterable[SelectedSplit]) -> tuple[SelectedSplit, ...]:
        """Forgets the datasets of which nothing is read, and returns the splits with the new numbers of the others."""
        splits = tuple(splits)
        used = sorted({read.dataset for split in splits for read in split.reads})
        self.opened = [self.opened[number] for number in used]
        return tuple(
            replace(
                split,
                reads=tuple(replace(read, dataset=used.index(read.dataset)) for read in split.reads),
                pieces=tuple(replace(piece, dataset=used.index(piece.dataset)) for piece in split.pieces),
            )
            for split in splits
        )

    def check_options(self) -> None:
        """Checks that options of stores are of use.

        Raises:
            StoreOptionsError: there are some, and no source is in a store.
        """
        if self.options and not any(storage.is_remote(source.dataset_dir) for source in self.opened):
            raise StoreOptionsError(
                f"source_storage_options are for URLs, and {self.opened[0].dataset_dir} is a local path. Leave them out"
            )


def named_splits(splits: Any, source: ReadOnlyBuilder) -> dict[str, Spec]:
    """Returns {name of an output split: expression}.

    Args:
        splits: such a mapping; or texts `NAME=EXPRESSION`, one or several, of which one without a name keeps that of
            the one split that it takes from; None for all splits of the source, as they are.
        source: the first dataset.

    Raises:
        BeamDatasetsError: a name is missing or there twice.
        TypeError: `splits` is something else.
        ValueError: a name is none.
    """
    if splits is None:
        return {name: name for name in source.info.splits}
    if not isinstance(splits, Mapping):
        texts = [splits] if isinstance(splits, (str, AbstractSplit)) else splits
        if not isinstance(texts, Iterable):
            raise TypeError(
                f"split is {splits!r}; needed: {{name: expression}}, one or several 'NAME=EXPRESSION', or None."
            )
        pairs = [_named(text) for text in texts]
        for name, _ in pairs:
            if sum(name == other for other, _ in pairs) > 1:
                raise BeamDatasetsError(f"split {name!r} is given twice; join the two expressions with '+'.")
        splits = dict(pairs)
    if not splits:
        raise BeamDatasetsError("no split is given; a dataset has at least one.")
    for name in splits:
        check_split_name(name, reserved=RESERVED_SPLITS)
    return dict(splits)


def _named(text: Spec) -> tuple[str, Spec]:
    found = _NAMED.match(text) if isinstance(text, str) else None
    if found:
        return found["name"].strip(), found["expression"].strip()
    names = {split.partition("[")[0] for _, split in _parted(str(text))}
    name = names.pop()
    if names or name == "all":
        raise BeamDatasetsError(f"what is {str(text)!r} to be called? Give it a name: NAME={text}")
    return name, text


def select(name: str, expression: Spec, sources: Sources) -> SelectedSplit:
    """Returns the split that an expression means.

    Raises:
        SplitError: the expression cannot be read, does not fit the datasets, or selects nothing.
        DatasetNotFoundError: it names a dataset that is not there.
    """
    reads: list[Read] = []
    texts = []
    for number, term in _terms(expression, sources):
        source = sources.opened[number]
        parts = term.to_absolute(source.info.splits)
        prefix = f"{source.info.display_name}:" if number else ""
        texts.append("+".join(prefix + text for text in _as_text(term, parts)))
        for part in parts:
            _append(reads, Read(number, part.splitname, part.start, part.stop))
    text = "+".join(texts)
    if not reads:
        raise SplitError(
            f"split {name!r} would have no examples: {text!r} selects none. A published split needs at least one; ask "
            "for more, or leave the split out."
        )
    pieces = [piece for read in reads for piece in _pieces(sources.opened[read.dataset], read)]
    return SelectedSplit(name, text, tuple(reads), tuple(pieces))


def _terms(expression: Spec, sources: Sources) -> list[tuple[int, AbstractSplit]]:
    """Returns (number of the dataset, what is read of it) for each term."""
    if not isinstance(expression, str):
        given = AbstractSplit.from_spec(expression)
        return [(0, term) for term in (given.terms if isinstance(given, SplitAdd) else (given,))]
    terms = []
    for source, split in _parted(expression):
        number = 0 if source is None else sources.open(source)
        terms.append((number, AbstractSplit.from_spec(split)))
    return terms


def _parted(expression: str) -> Iterator[tuple[str | None, str]]:
    """Yields (source, split) of each term, whose source may have '+' in its name.

    >>> list(_parted("train[:5] + /data/c++/things/1.0.0:test"))
    [(None, 'train[:5]'), ('/data/c++/things/1.0.0', 'test')]
    """
    parts: list[str] = []
    for part in expression.split("+"):
        parts.append(part)
        found = _TERM.match("+".join(parts).strip())
        if found:
            yield found["source"] and found["source"].strip(), found["split"]
            parts = []
    if parts:
        yield None, "+".join(parts).strip()


def _as_text(term: AbstractSplit, parts: Sequence[AbsoluteInstruction]) -> list[str]:
    text = str(term)
    if _TERM.match(text):
        return [text]
    return [f"{part.splitname}[{part.start}:{part.stop}]" for part in parts]  # of objects that the language cannot say


def _append(reads: list[Read], read: Read) -> None:
    """Adds a read, to the last one where it goes on with it."""
    last = reads[-1] if reads else None
    if read.start == read.stop:
        return
    if last is not None and (last.dataset, last.split, last.stop) == (read.dataset, read.split, read.start):
        reads[-1] = Read(last.dataset, last.split, last.start, read.stop)
    else:
        reads.append(read)


def _pieces(source: ReadOnlyBuilder, read: Read) -> list[Piece]:
    """Returns what is read, cut where the source's sort keys begin anew."""
    split = source.info.splits[read.split]
    paths = _Paths(source.dataset_dir, split.shard_names)
    indexed, keyed = _index_of(split.between(read.start, read.stop).filename(0), source)
    pieces = []
    for rules, start, stop in between(source.ascents(read.split), read.start, read.stop):
        files = FileInstructions.between(start, stop, split.offsets, paths)
        num_bytes, exact = _sizes(source, read.split, files, indexed)
        name = source.info.display_name
        pieces.append(Piece(read.dataset, name, read.split, start, rules if keyed else (), files, num_bytes, exact))
    return pieces


def _index_of(filename: str, source: ReadOnlyBuilder) -> tuple[bool, bool]:
    """Returns whether a shard has an index, and whether that has keys; its split's others are taken to be alike."""
    index = read_index(storage.join(source.dataset_dir, filename)) if source.pool.indexed else None
    return index is not None, index is not None and index.has_keys


def _sizes(
    source: ReadOnlyBuilder, name: str, files: FileInstructions, indexed: bool
) -> tuple[NDArray[np.int64], bool]:
    """Returns the size of each run in bytes, framed, and whether it is exact.

    Where a manifest says the sizes of the shards, only the indexes of those are read that are not taken whole.
    """
    split = source.info.splits[name]
    if source.manifest is None or not indexed:
        mean = split.num_bytes / max(split.num_examples, 1) + tfrecord.OVERHEAD
        return (files.take * mean).astype(np.int64), False
    sizes = np.asarray(source.manifest.splits[name].file_bytes, np.int64)[files.shard]
    for run in np.flatnonzero(files.take < files.examples_in_shard).tolist():
        file = files[run]
        index = read_index(file.filename)
        if index is None or len(index) != file.examples_in_shard:
            return (sizes * (files.take / files.examples_in_shard)).astype(np.int64), False
        sizes[run] = int(index.offsets[file.skip + file.take]) - int(index.offsets[file.skip])
    return sizes, True


@dataclass(frozen=True)
class _Paths(Sequence[str]):
    """The paths of a split's shards, each made when it is asked for."""

    directory: str
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [storage.join(self.directory, name) for name in self.names[index]]
        return storage.join(self.directory, self.names[index])
