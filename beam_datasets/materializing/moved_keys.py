"""Keys of new rows that exist in another split, because the value that determines the split of a row was corrected.

Sort keys are hashes of the split's name and the key, so those of two splits cannot be compared. Therefore the keys of
the new rows are hashed with the name of each other split and looked up in the indexes; no record of the published
version is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_datasets.diffing.diffing import keys_of
from beam_datasets.errors import BeamDatasetsError, DuplicateKeyError, InvalidKeyError
from beam_datasets.features.decode import PartialDecoding
from beam_datasets.materializing.selection import Built, RowKeys, SortedRun
from beam_datasets.metadata.keys import Key, key_bytes
from beam_datasets.metadata.lineage import KeyRule
from beam_datasets.metadata.split_by import depends_on_key
from beam_datasets.metadata.supervised_keys import value_at
from beam_datasets.publishing import staged_inputs
from beam_datasets.reading.config import ReadConfig
from beam_datasets.reading.opening import ReadOnlyBuilder

KEYS_AT_ONCE = 1 << 18
"""Keys of new rows that are held and looked up together; each time all indexes are read."""


class DuplicateKey(NamedTuple):
    """A key of a new row that another split has.

    Attributes:
        key: the key.
        split: split of the new row.
        sort_key: sort key in that split.
        run: its run there.
        other_split: the split that has it, too.
        other_sort_key: sort key in that split.
        other_run_number: number of the run in that split that has the key.
    """

    key: Key
    split: str
    sort_key: bytes
    run: SortedRun
    other_split: str
    other_sort_key: bytes
    other_run_number: int


def find_duplicate_keys(rows: RowKeys, number: int, runs: Mapping[str, Sequence[SortedRun]]) -> Iterator[DuplicateKey]:
    """Yields the keys of a dataset that its other splits, or the datasets before it, have in another split.

    Args:
        rows: the keys of its rows. Keys that no run has, such as those of rows that were not selected, are ignored.
        number: number of the dataset in the runs: 0 for the published version, 1 or more for an appended dataset.
        runs: split -> what it is merged of.

    Raises:
        MetadataError: an index is damaged or missing.
    """
    for source_split, keys in _group_keys(rows()):
        for split, split_runs in runs.items():
            selected = [run for run in split_runs if (run.dataset, run.split) == (number, source_split)]
            if not selected:
                continue
            is_duplicate = np.zeros(len(keys), np.bool_)
            sort_keys = _sort_keys(selected[0].rules[0], keys)
            for run in selected:
                is_duplicate |= _contains_keys(run, sort_keys)
            keys_taken = [key for key, is_taken in zip(keys, is_duplicate.tolist()) if is_taken]
            sort_keys = sort_keys[is_duplicate]
            for other, run_number, rule in _earlier_runs(runs, split, number):
                other_keys = _sort_keys(rule, keys_taken)
                for at in np.flatnonzero(_contains_keys(runs[other][run_number], other_keys)).tolist():
                    yield DuplicateKey(
                        keys_taken[at],
                        split,
                        _pad_key(sort_keys[at]),
                        selected[0],
                        other,
                        _pad_key(other_keys[at]),
                        run_number,
                    )


def duplicate_key_error(
    duplicate: DuplicateKey, other: SortedRun, locations: Mapping[str, str] | None = None
) -> DuplicateKeyError:
    """Returns the error about a key.

    Args:
        duplicate: the key.
        other: the run of the other split that has it.
        locations: split -> where its row is, if that is known.
    """
    if other.dataset == duplicate.run.dataset:
        locations_text = "".join(f"\n  {split}: {location}" for split, location in (locations or {}).items())
        return DuplicateKeyError(
            f"{other.source} has the key {duplicate.key!r} in two splits, {duplicate.other_split!r} and "
            f"{duplicate.split!r}. Nothing was published. Correct a row, or give it another "
            f"key.{locations_text and f' The rows:{locations_text}'}",
            split=duplicate.split,
            key=duplicate.key,
        )
    return DuplicateKeyError(
        f"{other.source} has the key {duplicate.key!r} in split {duplicate.other_split!r}, and "
        f"{duplicate.run.source} in split {duplicate.split!r}: what decides the split was changed. "
        "Nothing was published. Keep the first (--on_duplicate keep_old), move it to the split of the last (replace), "
        "or give the new example another key.",
        split=duplicate.split,
        key=duplicate.key,
    )


def _earlier_runs(
    runs: Mapping[str, Sequence[SortedRun]], split: str, number: int
) -> Iterator[tuple[str, int, KeyRule]]:
    """Yields (split, number of the run in this split, key rule) for each rule of the earlier runs of other splits.

    Args:
        runs: split -> the runs that are merged into it.
        split: the split whose runs are left out.
        number: the number of a dataset; runs of later datasets are left out.
    """
    for other, split_runs in runs.items():
        for run_number, run in enumerate(split_runs):
            if other != split and run.dataset <= number:
                yield from ((other, run_number, rule) for rule in run.rules)


def _group_keys(rows: Iterable[Mapping[str, Sequence[Key]]]) -> Iterator[tuple[str, list[Key]]]:
    """Yields (split, keys), at least `KEYS_AT_ONCE` at a time; at the end the remaining keys of each split."""
    pending: dict[str, list[Key]] = {}
    for keys in rows:
        for split, split_keys in keys.items():
            pending.setdefault(split, []).extend(split_keys)
            if len(pending[split]) >= KEYS_AT_ONCE:
                yield split, pending.pop(split)
    yield from pending.items()


def _sort_keys(rule: KeyRule, keys: Sequence[Key]) -> NDArray[np.bytes_]:
    """Returns the sort keys of keys by a rule, as an array of NumPy's dtype "S16"."""
    return np.array([rule.sort_key(key) for key in keys], "S16")


def _pad_key(key: bytes) -> bytes:
    """Returns a sort key of an "S16" array with the trailing zero bytes that NumPy removed: 16 bytes."""
    return key.ljust(16, b"\0")  # NumPy drops zeros at the end


def _contains_keys(run: SortedRun, sort_keys: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Returns an array with whether the run contains each of the sort keys."""
    order = np.argsort(sort_keys)
    sorted_keys, has_key = sort_keys[order], np.zeros(len(sort_keys), np.bool_)
    for file in run.files:
        keys = keys_of(file.filename)[file.skip : file.skip + file.take].view("S16").ravel()
        low, high = np.searchsorted(sorted_keys, keys[0], "left"), np.searchsorted(sorted_keys, keys[-1], "right")
        positions = np.searchsorted(keys, sorted_keys[low:high])
        has_key[order[low:high]] |= keys[positions] == sorted_keys[low:high]
    return has_key


def read_stored_keys(
    dataset: ReadOnlyBuilder, number: int, runs: Mapping[str, Sequence[SortedRun]], column: str | None, options: str
) -> RowKeys:
    """Returns the function that reads the keys of a published dataset from the column that they were made from.

    Args:
        dataset: the dataset.
        number: number of the dataset in the runs: 0 for the published version, 1 or more for an appended dataset.
        runs: split -> the runs that it is merged of.
        column: name of the column, such as `id` or `user/id`; None if it is unknown.
        options: the options by which the rows of the published version were split, as inputs.json has them.

    Raises:
        BeamDatasetsError: it has no such column. The function raises it, too, if the keys were not made from the
            column.
    """

    def error(description: str) -> BeamDatasetsError:
        """Returns the error for a dataset that does not store the keys of its rows; `description` ends the message."""
        return BeamDatasetsError(
            f"{dataset.info.display_name}: expected a column with the keys of its rows "
            f"({column or 'by --key COLUMN'}), because rows were split by {options}, and a row that belongs to another "
            f"split now would be in both; got {description}",
            advice="Append files instead (--from csv, jsonl or parquet).",
        )

    features, name = dataset.info.features, column or ""
    try:
        value_at(features, name)
    except (KeyError, TypeError):  # TypeError: below something that is not a dict
        raise error("none") from None
    top = name if name in features else name.partition("/")[0]

    def read() -> Iterator[dict[str, list[Any]]]:
        """Yields {split: keys} of the rows that the runs take from one shard at a time.

        Raises:
            BeamDatasetsError: the sort keys of the column's values are not those in the indexes.
        """
        for run in (run for split_runs in runs.values() for run in split_runs if run.dataset == number):
            rows = dataset.as_dataset(
                f"{run.split}[{run.start}:{run.start + run.files.num_examples}]",
                decoders=PartialDecoding([top]),
                read_config=ReadConfig(interleave_cycle_length=1),
            )
            keys = (_as_text(value_at(row, name)) for row in rows)
            for file in run.files:
                row_keys = [next(keys) for _ in range(file.take)]
                recorded = keys_of(file.filename)[file.skip : file.skip + file.take]
                try:
                    sort_keys = _sort_keys(run.rules[0], row_keys)
                except InvalidKeyError as problem:
                    raise error(f"{problem}") from None
                if sort_keys.tobytes() != recorded.tobytes():
                    raise error("one with other values than its keys")
                yield {run.split: row_keys}

    return read


def _as_text(key: Any) -> Any:
    r"""Returns a key with bytes decoded to str; other keys, and bytes that are not UTF-8, are unchanged.

    >>> _as_text(b"k1"), _as_text(7), _as_text(b"\xff")
    ('k1', 7, b'\xff')
    """
    try:
        return key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError:
        return key


def row_keys(datasets: Sequence[ReadOnlyBuilder], runs: Mapping[str, Sequence[SortedRun]]) -> dict[int, RowKeys]:
    """Returns {dataset number: keys of its rows} for new datasets whose keys may exist in other splits.

    Args:
        datasets: the published dataset, which has number 0, and the new ones.
        runs: split -> its runs, from which keys are read that no dataset records.

    Raises:
        BeamDatasetsError: a dataset was split with other options than the published one, or its keys are unknown.
    """
    published, keys_by_dataset = staged_inputs.read_inputs(datasets[0].dataset_dir), {}
    for number, dataset in enumerate(datasets[1:], 1):
        if isinstance(dataset, Built) and dataset.keys is not None:
            keys_by_dataset[number] = dataset.keys
        elif published and published.splits:
            theirs = staged_inputs.read_inputs(dataset.dataset_dir)
            if theirs and theirs.splits is not None:
                published.check_options(theirs)
            if theirs is None or theirs.splits is None or not depends_on_key(published.splits):
                column = (published.key or "").removeprefix("--key ") or None
                keys_by_dataset[number] = read_stored_keys(dataset, number, runs, column, published.splits)
    return keys_by_dataset


def leave_out_moved(
    rows: Mapping[int, RowKeys],
    runs: Mapping[str, Sequence[SortedRun]],
    skipped_keys: Mapping[str, dict[bytes, range]],
    on_duplicate: str,
) -> Counter[tuple[str, str]]:
    """Resolves keys that are in two splits: leaves out the new example, or all earlier ones in the other split.

    Args:
        rows: see `row_keys`.
        runs: split -> the runs that are merged into it.
        skipped_keys: split -> sort key -> indices of the runs in which this key is skipped; updated in place.
        on_duplicate: see `append`.

    Returns:
        (old split, new split) -> number of published examples that are replaced by an example in the new split.

    Raises:
        DuplicateKeyError: a key is in two splits, and `on_duplicate` does not allow it.
    """
    moves: dict[bytes, tuple[bytes, str, str]] = {}  # sort key, first and last split; several datasets may move one
    for number, keys in sorted(rows.items()):
        num_runs_before = {name: sum(run.dataset < number for run in split_runs) for name, split_runs in runs.items()}
        for duplicate in find_duplicate_keys(keys, number, runs):
            if duplicate.other_run_number in skipped_keys[duplicate.other_split].get(duplicate.other_sort_key, ()):
                continue
            other = runs[duplicate.other_split][duplicate.other_run_number]
            if on_duplicate in ("error", "skip_identical") or other.dataset == number:
                raise duplicate_key_error(duplicate, other)
            if on_duplicate == "replace":
                skipped_keys[duplicate.other_split][duplicate.other_sort_key] = range(
                    num_runs_before[duplicate.other_split]
                )
                key = key_bytes(duplicate.key)
                if other.dataset == 0 or key in moves:
                    sort_key, first, _ = moves.get(key, (duplicate.other_sort_key, duplicate.other_split, ""))
                    moves[key] = sort_key, first, duplicate.split
            else:
                skipped_keys[duplicate.split].setdefault(
                    duplicate.sort_key, range(num_runs_before[duplicate.split], len(runs[duplicate.split]))
                )
    for sort_key, first, last in moves.values():
        if first == last:  # the published one is replaced, or stays if it is equal
            skipped_keys[first][sort_key] = range(1, skipped_keys[first][sort_key].stop)
    return Counter((first, last) for _, first, last in moves.values() if first != last)
