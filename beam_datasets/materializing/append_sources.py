"""Builds the builders that are appended, each in a directory next to the published version, from its new files."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from beam_datasets import storage
from beam_datasets.arguments import boolean
from beam_datasets.error_list import ErrorList
from beam_datasets.errors import DuplicateKeyError, InputError, NoExamplesError, StorageError
from beam_datasets.features import Text
from beam_datasets.materializing.append_options import AppendOptions
from beam_datasets.materializing.moved_keys import duplicate_key_error, find_duplicate_keys
from beam_datasets.materializing.selection import Built, NameOrDir, RowKeys, Sources, named_splits, select_splits
from beam_datasets.metadata.inputs import DELETE, INPUTS_FILE, Inputs, deleted_hashes
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.splits import SplitDict
from beam_datasets.publishing import disk_commit, staged_inputs
from beam_datasets.publishing.groups import OR_IGNORE
from beam_datasets.publishing.leftovers import BUILD, find_builds, remove_leftover
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.sources.repeated_keys import with_key

NOT_TAKEN = "not taken; --take_changed (take_changed=True) takes them"
"""End of the note of `build_sources` on files that have changed."""


@contextlib.contextmanager
def build_sources(
    source: NameOrDir,
    new: Sequence[Any],
    options: AppendOptions,
    *,
    take_changed: bool = False,
    compare_checksums: bool = False,
) -> Iterator[tuple[NameOrDir, list[Any], list[str]]]:
    """Builds the builders in `new`; yields (dataset to append to, datasets to append, notes for the user).

    Builders are built in a directory next to the published version, or in the temporary directory of this machine if
    that version is in an object store; leftovers of killed processes are removed there first. The built datasets are
    deleted at exit.

    Builders of files read only files that are not in the published version; without such files, they are skipped.
    The dataset to append to is then a fixed version, even if another process publishes a higher one concurrently.

    Args:
        source: the dataset to append to.
        new: published datasets and builders.
        options: see `append`.
        take_changed: see `append`.
        compare_checksums: see `append`.

    Raises:
        AlreadyPublishedError: the next version is already published.
        DuplicateKeyError: a builder repeats a key; or the body raised it, and the locations of the rows are added.
    """
    take_changed = boolean("take_changed", take_changed)
    compare_checksums = boolean("compare_checksums", compare_checksums)
    if not any(map(_is_builder, new)):
        yield source, list(new), []
        return
    parent, _ = options.open_parent(source)
    build_root = parent.dataset_dir
    if storage.is_remote(build_root):
        build_root = storage.join(tempfile.gettempdir(), BUILD)
        for build in find_builds():
            with contextlib.suppress(StorageError):  # another process removes it, too, or it is another user's
                remove_leftover(build, tempfile.gettempdir())
    new_sources: list[Any] = []
    built: list[Any] = []
    notes: list[str] = []
    errors = ErrorList()
    with disk_commit.beside(build_root) as folder:
        builders = {n: one.elsewhere(storage.join(folder, str(n))) for n, one in enumerate(new) if _is_builder(one)}
        for builder in builders.values():
            builder.is_appended = True
            with errors.keep():
                if hasattr(builder, "prepare_append"):
                    notes += _prepare_append(
                        builder, parent, options, take_changed=take_changed, compare_checksums=compare_checksums
                    )
                _check_schema(builder)
        errors.raise_all()
        for number, one in enumerate(new):
            if number not in builders:
                new_sources.append(one)
            elif getattr(builders[number], "has_files", True):
                datasets = _build_all(builders[number], options)
                is_selected = not options.new_splits and options.split is None
                new_sources += _in_selected_splits(datasets, parent, notes) if is_selected else datasets
                built.append(builders[number])
        try:
            yield parent.dataset_dir, new_sources, notes
        except DuplicateKeyError as error:
            locations = [location for one in built for location in getattr(one, "find_rows", lambda _: ())(error)]
            raise _add_details(error, built, *(f"the new one is in {location}" for location in locations)) from None


def _is_builder(new: Any) -> bool:
    """Returns whether `new` is a `DatasetBuilder`, which must be built first; False for names and directories."""
    return hasattr(new, "elsewhere") and not isinstance(new, type)


def _check_schema(builder: Any) -> None:
    """Raises the errors of a builder's schema before anything is built, unless it has no files left to read."""
    if getattr(builder, "has_files", True):
        with contextlib.suppress(NoExamplesError):  # which is allowed, or raised again when it is built
            builder.info  # noqa: B018


def _add_details(error: DuplicateKeyError, builders: Iterable[Any], *lines: str) -> DuplicateKeyError:
    """Returns the error with its original key, if a builder knows it, and more lines added to the message."""
    error = next((error_with_key for one in builders if (error_with_key := with_key(error, one)) is not error), error)
    return error.with_message("\n  ".join([f"{error}", *lines]))


def _with_text_columns(published_inputs: Inputs, features: Any) -> Inputs:
    """Returns the inputs with the type `string`, which is never missing, for each column whose feature is a Text.

    For a column that some files lacked, another type was recorded.

    Args:
        published_inputs: the inputs of the published version.
        features: its features.
    """
    texts = {name for name in published_inputs.columns if name in features and type(features[name]) is Text}
    return replace(published_inputs, columns={**published_inputs.columns, **dict.fromkeys(texts, "string")})


def _prepare_append(
    builder: Any, parent: ReadOnlyBuilder, options: AppendOptions, *, take_changed: bool, compare_checksums: bool
) -> list[str]:
    """Prepares the append of a builder of files, which then reads only new files; returns notes for the user.

    Args:
        builder: the builder. Changed.
        parent: the published version.
        options: the options of the append.
        take_changed: whether files that have changed since are read.
        compare_checksums: whether files of the same size and time are compared by their checksums.

    Raises:
        InputError: the keys or splits of new rows are not determined, or rows that were left out could come back.
    """
    published_inputs, notes = staged_inputs.read_inputs(parent.dataset_dir) or Inputs(), []
    if not published_inputs.files:
        notes.append(f"{parent.dataset_dir}: no readable {INPUTS_FILE} names its files: all are taken")
    _check_key_is_known(builder, parent, published_inputs)
    features: Any = parent.info.features
    changed = builder.prepare_append(
        published_inputs if options.union_features else _with_text_columns(published_inputs, features),
        take_changed=take_changed,
        compare_checksums=compare_checksums,
        may_lack=options.union_features,
        features=features,
        splits=parent.info.splits,
    )
    if builder.published_key:
        notes.append(f"the key of the new rows is that of {parent.version}: {builder.published_key}")
    if builder.published_splits:
        notes.append(f"new rows are split as those of {parent.version}: {builder.published_splits}")
    if builder.published_options:
        notes.append(f"new files are read with the options of {parent.version}: {builder.published_options}")
    if builder.differing_options:
        notes.append(
            f"new files are read with other options than those of {parent.version}, which was built with "
            f"{builder.differing_options}"
        )
    if not published_inputs.files:
        how = f"because {parent.version} does not record its files"
        _check_no_row_returns(parent, published_inputs, how, f"{builder.files_text}", options.delete)
    if changed:
        if take_changed:
            files = f"{', '.join(changed)} (--take_changed)"
            _check_no_row_returns(parent, published_inputs, "with changed files", files, options.delete)
        way = "taken" if take_changed else NOT_TAKEN
        notes.append(f"files that have changed since {parent.version} was built: {', '.join(changed)}: {way}")
    if selected_by := [each for each in published_inputs.selected_by if each != DELETE]:
        notes.append(
            f"rows that {' '.join(selected_by)} did not select from earlier files stay out; all rows of new files in "
            f"the splits of {parent.version} are added"
        )
    return notes


def _check_key_is_known(builder: Any, parent: ReadOnlyBuilder, published_inputs: Inputs) -> None:
    """Checks that the key of new rows is given or recorded.

    Raises:
        InputError: the key is unknown, so rows that the published version has would be added again.
    """
    if published_inputs.key is None and not builder.has_key_column:
        raise InputError(
            f"the key of {parent.version} is not recorded: expected --key COLUMN, the column with the keys of the rows",
            got="none",
            path=parent.dataset_dir,
            advice="Without it, rows that it has would be added again. If no column has the keys, build the new files "
            "as a dataset of their own, and append it: --from DIRECTORY",
        )


def _check_no_row_returns(
    parent: ReadOnlyBuilder, published_inputs: Inputs, how: str, files: str, to_delete: Iterable[Key]
) -> None:
    """Checks that files that may be read again cannot bring back rows that were left out on purpose.

    Args:
        parent: the published version.
        published_inputs: its record of the files that it was built from.
        how: end of a sentence on why rows could come back, such as "with changed files", for errors.
        files: the files that are read, for errors.
        to_delete: the keys to delete.

    Raises:
        InputError: rows could come back.
    """
    hashes = set(deleted_hashes(to_delete))
    num_lacking = len({*published_inputs.deleted} - hashes)
    if DELETE in published_inputs.selected_by and (num_lacking or not hashes):
        got = f"{len(hashes)} keys, which lack {num_lacking} of them" if hashes else "none"
        raise InputError(
            f"rows of {parent.version} were removed by --delete, and could come back {how}: expected "
            f"--delete FILE with all of their keys to read {files}, got {got}",
            got=got,
        )
    if selected_by := [each for each in published_inputs.selected_by if each != DELETE]:
        raise InputError(
            f"rows that {' '.join(selected_by)} did not select could come back {how}: expected an append without "
            f"these files, got {files}",
            advice="Build the new or changed files as a dataset of their own, select its rows in the same way "
            "(beam-datasets materialize), and append it: --from DIRECTORY --on_duplicate replace",
        )


def _build_all(builder: Any, options: AppendOptions) -> list[Built]:
    """Builds a builder; returns the datasets. If files repeat keys, each file becomes a dataset of its own.

    Raises:
        DuplicateKeyError: a key is repeated, and `on_duplicate` is 'error' or the builder does not read files.
    """
    try:
        return _build(builder, options.max_rejected)
    except DuplicateKeyError as error:
        if not hasattr(builder, "builders_per_file"):
            raise _add_details(error, [builder]) from None
        if options.on_duplicate == "error":
            raise _without_option_of_build(
                error,
                "If the rows are in different files, --on_duplicate keep_old, replace or skip_identical appends the "
                "files one after the other.",
            ) from None
    try:
        return [built for each in builder.builders_per_file() for built in _build(each, options.max_rejected)]
    except DuplicateKeyError as error:
        raise _without_option_of_build(error) from None


def _in_selected_splits(datasets: Iterable[Built], parent: ReadOnlyBuilder, notes: list[str]) -> list[Built]:
    """Returns built datasets without the splits that `--split` of `materialize` left out of the published version.

    Args:
        datasets: the built datasets. Changed.
        parent: the published version.
        notes: gets a note for the user on the examples that are left out. Changed.
    """
    inputs = staged_inputs.read_inputs(parent.dataset_dir) or Inputs()
    unselected_splits = {*inputs.unselected_splits} - {*parent.info.splits}
    if inputs.splits is None or not unselected_splits:
        return list(datasets)
    num_left_out: Counter[str] = Counter()
    selected_datasets = []
    for dataset in datasets:
        selected = []
        for name, split in dataset.info.splits.items():
            if name in unselected_splits:
                num_left_out[name] += split.num_examples
            else:
                selected.append(split)
        dataset.info = dataset.info.replace(splits=SplitDict(selected, dataset_name=dataset.built_from))
        selected_datasets += [dataset] if selected else []
    for name, number in num_left_out.items():
        notes.append(
            f"left out: {number:,} new examples of the split {name}, which --split of materialize did not select. If "
            "nothing was published, --new_splits (new_splits=True) adds them; otherwise, build their files as a "
            f"dataset of their own, and append its split: --from DIRECTORY --split {name} --new_splits"
        )
    return selected_datasets


def _without_option_of_build(error: DuplicateKeyError, *lines: str) -> DuplicateKeyError:
    """Returns the error of a build about two rows with the same key, with advice that an append can follow.

    Args:
        error: the error, which proposes an option that only `build` has.
        lines: other lines of advice.
    """
    text = str(error)
    if OR_IGNORE not in text:
        return error.with_message("\n  ".join([text, *lines]))
    way = (
        "If they are in the same file, correct it; or build it as a dataset of its own with `build "
        "--ignore_duplicates`, which keeps one of them, and append that: --from DIRECTORY."
    )
    return error.with_message("\n  ".join([text.replace(OR_IGNORE, ""), *lines, way]))


def _build(builder: Any, max_rejected: int) -> list[Built]:
    """Builds a builder; returns a list of its dataset, empty if its files have no rows.

    Builders of files record the keys of rows; keys of other builders are read from the built dataset.

    Raises:
        DuplicateKeyError: a key is repeated, or is in two splits because the builder splits rows by another column.
        NoExamplesError: a builder that must have examples has none.
    """
    try:
        directory = builder.build(skip_empty_splits=True, max_rejected=max_rejected)
    except NoExamplesError:
        if not getattr(builder, "may_be_empty", False):
            raise
        return []
    if not hasattr(builder, "recorded_keys"):
        return [Built(directory, builder)]
    keys: RowKeys | None = builder.recorded_keys
    dataset = Built(directory, builder, keys or (lambda: ()))
    if keys is not None:
        selected = select_splits(named_splits(None, dataset), Sources([], opened=[dataset]))
        runs = {split.name: split.runs for split in selected}
        for duplicate in find_duplicate_keys(keys, 0, runs):
            raise duplicate_key_error(
                duplicate, runs[duplicate.other_split][duplicate.other_run_number], builder.places_of(duplicate.key)
            )
    return [dataset]
