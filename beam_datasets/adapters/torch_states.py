"""States of a dataset that ranks and workers divide: their format, checks, and division by other numbers of ranks."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import integer, shown
from beam_datasets.errors import StateError

if TYPE_CHECKING:
    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.index.division import Share

State = Mapping[str, Any]

FORMAT, FORMAT_OF_EVEN = 1, 2
"""Formats of a worker's state: `FORMAT_OF_EVEN` if the share ends so that all ranks have as many items, else `FORMAT`.

If the meaning of a field changes, the format needs a new number.
"""

# The fields of a state, besides "examples", the number of examples in an item, which earlier versions did not save.
_FIELDS = {"format", "begun", "taken", "worker", "workers", "ranks", "block"}


def pass_at_state(dataset: Any, state: State) -> int:
    """Returns the number of the pass over a dataset or stream in which a state was saved."""
    number: int = dataset._pass_of(state.get("begun", state)["epoch"])
    return number


def dataset_at_state(dataset: Dataset, state: State) -> Dataset:
    """Returns the dataset of the pass in which a state was saved; see `Dataset._in_pass`.

    Raises:
        StateError: the epoch is too large.
    """
    try:
        return dataset._in_pass(pass_at_state(dataset, state))[0]
    except ValueError as error:
        raise StateError(f"the state's {error} Start from the beginning.") from None


def check_worker_state(dataset: Dataset, state: State) -> None:
    """Checks a state of `state_dict()` of a `Divided`.

    Raises:
        StateError: it is malformed, or does not fit the dataset.
    """
    number = state.get("format")
    if set(state) - {"examples"} != _FIELDS or isinstance(number, bool) or number not in (FORMAT, FORMAT_OF_EVEN):
        raise StateError(
            f"a worker's state: expected format {FORMAT} or {FORMAT_OF_EVEN} with the fields {sorted(_FIELDS)}, "
            f"got format {shown(number)}: {shown(state)}. Restore it with the version that saved it."
        )
    dataset.iterate().set_state(state["begun"])  # raises a StateError if it does not fit
    examples = dataset._examples_per_item
    saved_examples = state.get("examples", examples)  # states of earlier versions lack it
    if type(saved_examples) is not int or saved_examples != examples:
        raise StateError(
            f"the state counts items of {shown(saved_examples)} examples, and an item of this dataset has "
            f"{examples}. Restore it with the same batch size, or continue from state_after(examples=...)."
        )
    in_pass = dataset_at_state(dataset, state)
    num_left = operator.length_hint(in_pass.iterate(state=state["begun"]))
    try:
        ranks = integer("ranks", state["ranks"], at_least=1, at_most=integer("workers", state["workers"]))
        if state["workers"] % ranks:
            raise ValueError(f"workers must be a multiple of ranks, {ranks}, got {state['workers']}.")
        integer("block", state["block"], at_least=1)
        share = rebuild_share(in_pass, state).with_length(num_left)
        integer("taken", state["taken"], at_least=0, at_most=share.count(num_left) + share.block)  # with even="pad"
    except (TypeError, ValueError) as error:
        advice = "Start from the beginning, or from another state."
        raise StateError(f"the state of a worker is damaged: {error} {advice}") from None


def resume_share(
    start: State, dataset: Dataset, share: Share, num_ranks: int, *, has_block: bool
) -> tuple[State, int, Share]:
    """Returns the state at which the division began, the number of items taken since, and the share to continue.

    With the default block size, the same worker continues with the blocks of the state. The state of the same
    worker of another rank also fits, such as that of rank 0, which Lightning saves: all ranks have taken the same
    number of items.

    Args:
        start: a state of `state_dict()`, or of a `DatasetIterator`, for which the division begins at this state.
        dataset: the dataset of the pass.
        share: the share of this worker.
        num_ranks: the number of ranks now.
        has_block: whether the user gave the number of items of a block.

    Raises:
        StateError: the state of a worker cannot be used for another number of ranks or workers.
    """
    if "begun" not in start:
        return start, 0, share
    saved_share = rebuild_share(dataset, start)
    is_same_division = (saved_share.worker_count, start["ranks"]) == (share.worker_count, num_ranks)
    if is_same_division and saved_share.worker_index // start["ranks"] == share.worker_index // num_ranks:
        own_share = replace(saved_share, worker_index=share.worker_index)
        if own_share == share or not has_block:
            return start["begun"], start["taken"], own_share
    if start["workers"] == start["ranks"]:  # without workers, all ranks have taken the same number
        return compute_state_after(dataset, start["begun"], saved_share, start["taken"]), 0, share
    raise StateError(
        f"the state is of worker {saved_share.worker_index} of {saved_share.worker_count} with blocks of "
        f"{saved_share.block}, but this is worker {share.worker_index} of {share.worker_count} with blocks of "
        f"{share.block}. The workers of a DataLoader have taken different numbers of items, so the state of one "
        "does not fit the others. Restore it with the same numbers of ranks and workers, or continue from a state "
        "of state_after()."
    )


def rebuild_share(dataset: Dataset, state: State) -> Share:
    """Returns the share of the worker that saved a state of `state_dict()`."""
    is_even = state["format"] == FORMAT_OF_EVEN
    return dataset._share(state["worker"], state["workers"], state["block"], is_balanced=is_even)


def compute_state_after(
    dataset: Dataset, start_state: State, share: Share, num_taken: int, *, may_end: bool = True
) -> dict[str, Any]:
    """Returns the state of the dataset after each share has taken a number of items.

    Args:
        dataset: the dataset that is divided.
        start_state: the state at which the shares began.
        share: one of the shares, which have all taken the same number of items.
        num_taken: number of items that each share has taken.
        may_end: whether to return the end if the share has fewer items.

    Raises:
        ValueError: the share has fewer items, and `may_end` is False.
    """
    iterator = dataset._divided(share).iterate(state=start_state)
    num_left = operator.length_hint(iterator)
    if num_taken > num_left and not may_end:
        raise ValueError(
            f"state_after(): expected at most {num_left} items, which are left in epoch {start_state['epoch']}, "
            f"got {num_taken}. Count from the beginning of the epoch of set_epoch(epoch), or give start=..."
        )
    iterator.advance(num_taken)
    return iterator.get_state()
