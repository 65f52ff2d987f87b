"""Sources of a materialized dataset: from expressions over published datasets to runs of their shards.

    expression := term ('+' term)*
    term       := [SOURCE ':'] a split expression, such as `train[:10%]`

Without SOURCE a term means the first dataset. SOURCE is a label, a dataset's name or a version's directory.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beam_datasets import catalog, storage
from beam_datasets.diffing.diffing import key_blocks, keys_of, merge_key_blocks
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, SplitError, StoreOptionsError
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.lineage import Ascent, KeyRule, Read, SplitLineage, between
from beam_datasets.metadata.names import RESERVED_SPLITS, DatasetName, check_split_name
from beam_datasets.metadata.shards import FileInstructions
from beam_datasets.metadata.split_expressions import AbsoluteInstruction, AbstractSplit, Spec, SplitAdd
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published
from beam_datasets.reading.records.shards import read_index
from beam_datasets.shuffle.blocks import key_array, sort_order

NameOrDir = str | os.PathLike[str]
RowKeys = Callable[[], Iterable[Mapping[str, Sequence[Key]]]]
"""Yields keys of the rows of a dataset by their splits, some at a time."""

_TERM = re.compile(r"(?:(?P<source>[^\[\]]+):)?(?P<split>[\w-]+(?:\[[^\[\]]*\])?)\Z")
_NAMED = re.compile(r"(?P<name>[^=\[\]:/]*)=(?P<expression>.*)\Z", re.DOTALL)


class Built(ReadOnlyBuilder):
    """A dataset that was built to be appended.

    Attributes:
        builder_name: the class of its builder, which names it in a lineage, because it cannot be opened later.
        display_name: the same, with its config.
        built_from: the name for messages: its files, or its builder.
        keys: yields keys of its rows by their splits that may be in another split; None if they are to be read from it.
    """

    def __init__(self, dataset_dir: str, builder: Any, keys: RowKeys | None = None) -> None:
        """Opens the dataset that a builder has built; see ReadOnlyBuilder."""
        super().__init__(dataset_dir)
        self.builder_name = type(builder).__name__
        self.display_name = str(DatasetName(self.builder_name, self.config_name))
        self.built_from = getattr(builder, "files_text", f"the builder {self.display_name}")
        self.keys = keys


def display_name(dataset: ReadOnlyBuilder) -> str:
    """Returns the name of an appended dataset for messages: its source, if it was built for this append."""
    return dataset.built_from if isinstance(dataset, Built) else dataset.info.display_name


@dataclass(frozen=True)
class SortedRun:
    """Consecutive examples of a source's split, whose sort keys ascend.

    Attributes:
        dataset: number of the source.
        name: name of the source, `name/config:version`.
        split: the source's split.
        start: index of the first example in it.
        rules: rules of the sort keys; empty if there are none.
        files: the file instructions, with whole paths.
        num_bytes: framed size of each file instruction in bytes; an estimate unless `exact`.
        exact: whether the sizes are known to the byte.
        built_from: the name of the source in errors if it was built to be appended, such as its files; '' if it can be
            opened by its name.
    """

    dataset: int
    name: str
    split: str
    start: int
    rules: tuple[KeyRule, ...]
    files: FileInstructions
    num_bytes: NDArray[np.int64]
    exact: bool
    built_from: str = ""

    @property
    def source(self) -> str:
        """The name of the source, for errors."""
        return self.built_from or self.name

    def example(self, index: int) -> str:
        """Returns the example at an index of the source's split for errors: "digits:1.0.0:train[7:8]"."""
        return self.built_from or f"{self.name}:{self.split}[{index}:{index + 1}]"


@dataclass(frozen=True)
class SelectedSplit:
    """A split that is to be written.

    Attributes:
        name: name of the split.
        expression: the requested expression, in a form that does not depend on the location of the sources.
        reads: slices that the expression means.
        runs: the same, divided into runs of ascending keys.
    """

    name: str
    expression: str
    reads: tuple[Read, ...]
    runs: tuple[SortedRun, ...]

    @property
    def keyed(self) -> bool:
        """Whether all examples have sort keys."""
        return all(run.rules for run in self.runs)

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return sum(run.files.num_examples for run in self.runs)

    @property
    def num_bytes(self) -> int:
        """Framed size of the records in bytes; an estimate unless `exact`."""
        return sum(int(run.num_bytes.sum()) for run in self.runs)

    @property
    def exact(self) -> bool:
        """Whether `num_bytes` is exact, for which the shards must have indexes."""
        return all(run.exact for run in self.runs)

    @property
    def files(self) -> FileInstructions:
        """The file instructions of all runs."""
        return FileInstructions.concatenate(run.files for run in self.runs)

    def lineage(self, counts: Sequence[int] | None = None) -> SplitLineage:
        """Returns the lineage of the split for the manifest, for records in the order of the source.

        Args:
            counts: number of written examples of each run; None for all.
        """
        counts = counts or [run.files.num_examples for run in self.runs]
        starts = np.cumsum(counts) - counts
        keys = tuple(Ascent(int(start), run.rules) for start, count, run in zip(starts, counts, self.runs) if count)
        return SplitLineage(self.expression, self.reads, keys if self.keyed else None)


def fully_read_datasets(datasets: Sequence[ReadOnlyBuilder], splits: Iterable[SelectedSplit]) -> list[ReadOnlyBuilder]:
    """Returns the datasets whose examples are all read.

    Args:
        datasets: the datasets, whose indices the reads of `splits` contain.
        splits: the selected splits.
    """
    num_read: Counter[int] = Counter()
    ends: Counter[tuple[int, str]] = Counter()
    reads = [read for split in splits for read in split.reads]
    for read in sorted(reads, key=lambda read: read.start):  # two splits may read the same examples
        source_split = read.dataset, read.split
        num_read[read.dataset] += max(read.stop - max(read.start, ends[source_split]), 0)
        ends[source_split] = max(read.stop, ends[source_split])
    totals = [sum(split.num_examples for split in one.info.splits.values()) for one in datasets]
    return [one for number, one in enumerate(datasets) if num_read[number] == totals[number]]


@dataclass
class Sources:
    """The datasets that expressions name, each opened once.

    Attributes:
        data_dirs: roots of datasets, in the order in which they are searched for a name.
        labels: label -> name or directory.
        options: options of the sources' stores; see `storage.with_options_if_remote`.
        beside: a path whose options are used for sources in the same bucket, if no others are given.
        opened: the datasets, in the order in which they were first named.
        names_first: whether `SelectedSplit.expression` names the first dataset, too.
    """

    data_dirs: Sequence[NameOrDir | None]
    labels: Mapping[str, NameOrDir] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    beside: str | None = None
    opened: list[ReadOnlyBuilder] = field(default_factory=list)
    names_first: bool = False

    def open(self, text: NameOrDir) -> int:
        """Opens the dataset of a label, a name or a directory, unless it is open; returns its number in `opened`.

        Raises:
            DatasetNotFoundError: the dataset does not exist.
            BeamDatasetsError: its records cannot be copied.
        """
        builder = self._find(self.labels.get(text, text) if isinstance(text, str) else text)
        for number, opened_builder in enumerate(self.opened):
            if opened_builder.dataset_dir == builder.dataset_dir:
                return number
        if builder.info.file_format != "tfrecord":
            raise BeamDatasetsError(
                expected="a dataset that is stored as tfrecord",
                got=str(builder.info.file_format),
                path=builder.dataset_dir,
            )
        if any(component.startswith("incomplete.") for component in builder.dataset_dir.split("/")):
            raise BeamDatasetsError(
                "it belongs to a run that has not ended", path=builder.dataset_dir, advice="Wait until it is published."
            )
        self.opened.append(builder)
        return len(self.opened) - 1

    def _find(self, name_or_dir: NameOrDir) -> ReadOnlyBuilder:
        """Opens a dataset in the first of `data_dirs` that contains it.

        Raises:
            DatasetNotFoundError: none contains it.
        """
        if storage.is_remote(name_or_dir):
            name_or_dir = self._with_options(name_or_dir)
        errors: dict[str, None] = {}
        for root in dict.fromkeys(map(catalog.root_dir, self.data_dirs)):
            try:
                return open_published(name_or_dir, self._with_options(root))
            except DatasetNotFoundError as error:
                errors[str(error)] = None
        raise DatasetNotFoundError("\n  and ".join(errors))

    def _with_options(self, path: NameOrDir) -> str:
        """Returns a path with the storage options if it is on an object store; see `storage.with_options_if_remote`."""
        return storage.with_options_if_remote(path, self.options, other_path=self.beside)

    def check_options(self) -> None:
        """Checks that a source is in a store if there are options of stores.

        Raises:
            StoreOptionsError: none is.
        """
        if self.options and not any(storage.is_remote(source.dataset_dir) for source in self.opened):
            raise StoreOptionsError(
                f"source_storage_options are for URLs, and {self.opened[0].dataset_dir} is a local path",
                advice="Leave them out.",
            )


# -------------------------------------------------------------------------------------------------------- expressions


def named_splits(splits: Any, source: ReadOnlyBuilder) -> dict[str, Spec]:
    """Returns {name of an output split: expression}.

    Args:
        splits: {name: expression}; or one or several texts `NAME=EXPRESSION`. `NAME=` may be left out if the expression
            reads one split, whose name is kept: 'train[:10]' is {'train': 'train[:10]'}. None for all splits of the
            source as they are.
        source: the first dataset.

    Raises:
        BeamDatasetsError: a name is missing or given twice.
        TypeError: `splits` is something else.
        ValueError: a split cannot have such a name.
    """
    if splits is None:
        return {name: name for name in source.info.splits}
    if not isinstance(splits, Mapping):
        texts = [splits] if isinstance(splits, (str, AbstractSplit)) else splits
        if not isinstance(texts, Iterable):
            raise TypeError(
                f"split is {splits!r}; needed: {{name: expression}}, one or several 'NAME=EXPRESSION', or None."
            )
        splits = {}
        for name, expression in map(_split_output_name, texts):
            if name in splits:
                raise BeamDatasetsError(
                    f"split {name!r} is given twice", split=name, advice="Join the two expressions with '+'."
                )
            splits[name] = expression
    if not splits:
        raise BeamDatasetsError(expected="at least one split", got="none")
    for name in splits:
        check_split_name(name, reserved=RESERVED_SPLITS)
    return dict(splits)


def _split_output_name(text: Spec) -> tuple[str, Spec]:
    """Returns (name of the output split, expression); the default name is that of the only split that is read.

    Raises:
        BeamDatasetsError: the text contains no name, and reads several splits or all of them.
    """
    match = _NAMED.match(text) if isinstance(text, str) else None
    if match:
        return match["name"].strip(), match["expression"].strip()
    names = {split.partition("[")[0] for _, split in _divide_expression(str(text))}
    name = names.pop()
    if names or name == "all":
        raise BeamDatasetsError(f"{str(text)!r} needs a split name", got=str(text), advice=f"Write NAME={text}")
    return name, text


def select_splits(expressions: Mapping[str, Spec], sources: Sources) -> tuple[SelectedSplit, ...]:
    """Returns the selected split of each expression.

    Removes the sources from `sources.opened` from which no split is read; `dataset` of a read is the new index.

    Args:
        expressions: name of an output split -> expression.
        sources: the source datasets. Changed.

    Raises:
        SplitError: an expression cannot be parsed, does not fit the datasets, or selects nothing.
        DatasetNotFoundError: it names a dataset that is not there.
        StoreOptionsError: see `Sources.check_options`.
    """
    selected = {name: _select(name, expression, sources) for name, expression in expressions.items()}
    sources.check_options()
    used_datasets = sorted({read.dataset for _, reads in selected.values() for read in reads})
    sources.opened = [sources.opened[number] for number in used_datasets]
    splits = []
    for name, (text, selected_reads) in selected.items():
        reads = tuple(replace(read, dataset=used_datasets.index(read.dataset)) for read in selected_reads)
        runs = [run for read in reads for run in _sorted_runs(sources.opened[read.dataset], read)]
        splits.append(SelectedSplit(name, text, reads, tuple(runs)))
    return tuple(splits)


def _select(name: str, expression: Spec, sources: Sources) -> tuple[str, list[Read]]:
    """Returns (expression without paths of the sources, ranges that it reads); adjacent ranges are joined.

    For example, ('train[:10]', [Read(0, 'train', 0, 10)]); other sources than the first are named before a ':'.

    Args:
        name: name of the output split, for errors.
        expression: the expression.
        sources: the source datasets.

    Raises:
        SplitError: the expression cannot be parsed, does not fit the datasets, or selects nothing.
    """
    reads: list[Read] = []
    texts = []
    for number, term in _parse_terms(expression, sources):
        source = sources.opened[number]
        parts = term.to_absolute(source.info.splits)
        source_name = source.display_name if isinstance(source, Built) else source.info.display_name
        prefix = f"{source_name}:" if number or sources.names_first else ""
        texts += [prefix + text for text in _as_text(term, parts)]
        for instruction in parts:
            read = Read(number, instruction.splitname, instruction.start, instruction.stop)
            if reads and reads[-1] == replace(read, start=reads[-1].start, stop=read.start):
                read = replace(read, start=reads.pop().start)
            if read.start < read.stop:
                reads.append(read)
    text = "+".join(texts)
    if not reads and not isinstance(sources.opened[0], Built):
        raise SplitError(
            f"{text!r} selects no examples",
            split=name,
            got=text,
            advice="A published split needs at least one: select more, or leave the split out.",
        )
    return text, reads


def _parse_terms(expression: Spec, sources: Sources) -> list[tuple[int, AbstractSplit]]:
    """Returns (number of the dataset in `sources`, split expression without the dataset) for each term."""
    if not isinstance(expression, str):
        instruction = AbstractSplit.from_spec(expression)
        return [(0, term) for term in (instruction.terms if isinstance(instruction, SplitAdd) else (instruction,))]
    return [
        (0 if source is None else sources.open(source), AbstractSplit.from_spec(split))
        for source, split in _divide_expression(expression)
    ]


def _divide_expression(expression: str) -> Iterator[tuple[str | None, str]]:
    """Yields (source, split) of each term; a source may have '+' in its name.

    >>> list(_divide_expression("train[:5] + /data/c++/things/1.0.0:test"))
    [(None, 'train[:5]'), ('/data/c++/things/1.0.0', 'test')]
    """
    parts: list[str] = []
    for term in expression.split("+"):
        parts.append(term)
        match = _TERM.match("+".join(parts).strip())
        if match:
            yield match["source"] and match["source"].strip(), match["split"]
            parts = []
    if parts:
        yield None, "+".join(parts).strip()


def _as_text(term: AbstractSplit, parts: Sequence[AbsoluteInstruction]) -> list[str]:
    """Returns the texts of a term's parts: ["train[:10%]"], or with absolute limits ["train[0:100]", "test[0:50]"]."""
    text = str(term)
    if _TERM.match(text):
        return [text]
    return [
        f"{instruction.splitname}[{instruction.start}:{instruction.stop}]" for instruction in parts
    ]  # an object that has no expression


def _sorted_runs(source: ReadOnlyBuilder, read: Read) -> Iterator[SortedRun]:
    """Yields the runs of a read range: it is cut where the source's sort keys no longer ascend."""
    split, name = source.info.splits[read.split], source.info.display_name
    paths = replace(split.shard_names, folder=storage.join(source.dataset_dir, ""))
    first = FileInstructions.between(read.start, read.stop, split.offsets, paths).filename(0)
    index = read_index(first) if source.pool.indexed else None  # the split's other shards are taken to be alike
    for rules, start, stop in between(source.ascents(read.split), read.start, read.stop):
        files = FileInstructions.between(start, stop, split.offsets, paths)
        num_bytes, exact = _run_sizes(source, read.split, files, indexed=index is not None)
        rules = rules if index is not None and index.has_keys else ()
        built_from = source.built_from if isinstance(source, Built) else ""
        yield SortedRun(read.dataset, name, read.split, start, rules, files, num_bytes, exact, built_from)


def _run_sizes(
    source: ReadOnlyBuilder, name: str, files: FileInstructions, *, indexed: bool
) -> tuple[NDArray[np.int64], bool]:
    """Returns (framed size in bytes of the records of each file instruction, whether the sizes are exact).

    If a manifest records the sizes of the shards, only the indexes of shards that are read in part are read. Sizes that
    are not exact are estimated from the mean size.

    Args:
        source: the dataset.
        name: name of the split.
        files: the file instructions.
        indexed: whether the shards have indexes.
    """
    split = source.info.splits[name]
    if source.manifest is None or not indexed:
        mean = split.num_bytes / max(split.num_examples, 1) + tfrecord.OVERHEAD
        return (files.take * mean).astype(np.int64), False
    sizes = np.asarray(source.manifest.splits[name].file_bytes, np.int64)[files.shard]
    for number in np.flatnonzero(files.take < files.examples_in_shard).tolist():
        file = files[number]
        index = read_index(file.filename)
        if index is None or len(index) != file.examples_in_shard:
            return (sizes * (files.take / files.examples_in_shard)).astype(np.int64), False
        sizes[number] = int(index.offsets[file.skip + file.take]) - int(index.offsets[file.skip])
    return sizes, True


# ------------------------------------------------------------------------------------------------ keys and their order


@dataclass(frozen=True)
class Repeats:
    """Keys that occur more than once in a split.

    Attributes:
        count: number of examples whose key an earlier example has.
        key: one of the keys: the integer that the author gave, or the hash that is stored.
        first: an example with this key, as a term of a split expression.
        second: another example with this key.
    """

    count: int
    key: str
    first: str
    second: str

    def __str__(self) -> str:
        subject = "1 key occurs" if self.count == 1 else f"{self.count:,} keys occur"
        return f"{subject} more than once: {self.first} and {self.second} have {self.key}"


def find_repeats(split: SelectedSplit) -> Repeats | None:
    """Returns the keys that occur more than once; None if there are none, or if examples have no keys.

    Reads the indexes of the runs whose keys were made by the same rules, and merges them in one pass.

    Raises:
        MetadataError: an index is damaged.
    """
    if len(split.runs) < 2:  # the keys of one run ascend
        return None
    runs = [
        run for run in split.runs if any(run is not other and set(run.rules) & set(other.rules) for other in split.runs)
    ]
    repeats: Repeats | None = None
    for columns in merge_key_blocks([key_blocks(run.files, run.start) for run in runs]):
        key_columns = [(number, first, run_keys) for number, (first, run_keys) in enumerate(columns) if len(run_keys)]
        if len(key_columns) < 2:
            continue
        keys = key_array(b"".join(run_keys.tobytes() for *_, run_keys in key_columns))
        order = sort_order(keys)
        ranks = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
        if repeats is None and len(ranks):
            positions = [
                (runs[number], first + i) for number, first, run_keys in key_columns for i in range(len(run_keys))
            ]
            examples = (run.example(i) for run, i in (positions[p] for p in order[ranks[0] :][:2]))
            repeats = Repeats(0, _key_text(keys[order[ranks[0]]], runs), *examples)
        if repeats is not None:
            repeats = replace(repeats, count=repeats.count + len(ranks))
    return repeats


def is_in_order(split: SelectedSplit) -> bool:
    """Returns whether sort keys ascend through all runs of a split."""
    borders: list[bytes] = []
    for run in split.runs if len(split.runs) > 1 else ():
        if not run.rules or run.rules != split.runs[0].rules:
            return False
        first, last = run.files[0], run.files[len(run.files) - 1]
        borders.append(keys_of(first.filename)[first.skip].tobytes())
        borders.append(keys_of(last.filename)[last.skip + last.take - 1].tobytes())
    return borders == sorted(borders)


def _key_text(key: NDArray[np.uint64], runs: Sequence[SortedRun]) -> str:
    """Returns a repeated key for an error message: "the key 7", or "a key whose hash is 00c0...".

    Args:
        key: the sort key as an array of its upper and its lower 64 bits.
        runs: the runs of the split, whose rules decide whether sort keys are hashes.
    """
    number = int(key[0]) << 64 | int(key[1])
    if all(rule.split is None and not rule.salts for run in runs for rule in run.rules):
        return f"the key {number - (1 << 127)}"
    return f"a key whose hash is {number:032x}"
