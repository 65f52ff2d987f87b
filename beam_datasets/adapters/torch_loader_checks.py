"""Checks and warnings of DataLoaders and frameworks that would change the items, or lose some of them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Any

from beam_datasets.adapters import torch_workers
from beam_datasets.adapters.callers import (
    FitLoop,
    find_dividing_shard,
    find_loader,
    find_outer_divider,
    find_stateless_dataset_name,
    has_random_seed,
    is_dispatched,
    is_state_saved_late,
    is_stateful_loader,
    is_trained_by_hugging_face,
)

if TYPE_CHECKING:
    from beam_datasets.adapters.torch_iterable import Divided
    from beam_datasets.reading.dataset import Dataset

LOGGER = logging.getLogger("beam_datasets.adapters.torch_data")
"""The logger of all adapters for PyTorch."""

STATES_OF_ALL_RANKS = (
    "Save the states of all ranks in on_save_checkpoint() of the LightningModule, and give each rank its own in "
    "on_load_checkpoint(), as docs/how-to/training.md shows. Checkpoints at the end of an epoch need no state."
)
"""Advice for streams on several ranks of Lightning."""


def has_length(dataset: Any) -> bool:
    """Returns whether a dataset or stream has a length, the number of items of an epoch; endless ones have none."""
    try:
        len(dataset)
    except TypeError:  # it is endless, or a stream
        return False
    return True


def check_divider(dataset: Dataset) -> None:
    """Checks that a DataLoader whose examples Accelerate divides makes batches.

    Accelerate calculates with the batch size of the DataLoader, so with None it fails without naming a way out.

    Raises:
        ValueError: it makes none.
    """
    shard = find_dividing_shard()
    if shard is not None and shard.batch_size is None:
        raise ValueError(
            f"{dataset!r}: Accelerate with dispatch_batches=False divides the items of a DataLoader with "
            "batch_size=None by its batch size. For the batches of a dataset, expected "
            "DataLoaderConfiguration(dispatch_batches=True). Or leave batch() out, and give as_torch(block=...) "
            "and the DataLoader the batch size."
        )


def check_outer_divider(dataset: Dataset, num_shares: int) -> None:
    """Checks that a dataset that reads `as_torch()`, such as one of Hugging Face, does not divide its items once more.

    Args:
        dataset: the dataset that `as_torch()` divides, for the text.
        num_shares: the number of DataLoader workers, times that of the ranks that `as_torch()` has detected.

    Raises:
        ValueError: both divide the items.
    """
    divider = find_outer_divider() if num_shares > 1 else None
    if divider is not None:
        raise ValueError(
            f"{dataset!r}: {divider} reads as_torch(), and both divide the examples among ranks and DataLoader "
            "workers, so that some would be lost. Let it read parts of the dataset instead, without as_torch(), "
            "such as [ds.shard(i, 4) for i in range(4)], or give as_torch() to the DataLoader without it."
        )


def count_split_items(dataset: Dataset, counts: Iterable[int]) -> int:
    """Returns a number of items for the `len()` of Accelerate's `IterableDatasetShard` with `split_batches`.

    It makes steps of `batch_size` items, but rounds their number up to a multiple of the number of ranks, or down if it
    drops the last ones.

    Args:
        dataset: the dataset, for the text of the warning if it rounds.
        counts: the number of items that each DataLoader worker reads in an epoch, for all ranks together.
    """
    shard = find_dividing_shard()
    num_steps = sum(count // shard.batch_size if shard.drop_last else -(-count // shard.batch_size) for count in counts)
    num_ranks = shard.num_processes
    num_counted_steps = (
        num_steps // num_ranks * num_ranks if shard.drop_last else -(-num_steps // num_ranks) * num_ranks
    )
    if num_counted_steps != num_steps:
        _warn_once(
            "%s: Accelerate with split_batches=True and dispatch_batches=False counts %d steps in an epoch, but takes "
            "%d. Trainer takes the number of steps for num_train_epochs from it. Leave dispatch_batches out, or set "
            "max_steps.",
            repr(dataset),
            num_counted_steps,
            num_steps,
        )
    return int(num_steps * shard.batch_size)


def warn_of_filled_batches(dataset: Dataset, counts: Iterable[int] | None) -> None:
    """Logs a warning if Accelerate, which divides the examples, fills up last batches with the first examples.

    The process of rank 0 logs it.

    Args:
        dataset: the dataset, for the text.
        counts: the number of examples that each DataLoader worker reads in an epoch, for all ranks together; None if
            they are unknown.
    """
    shard = find_dividing_shard()
    if shard is None or shard.drop_last or shard.batch_size is None or shard.process_index:
        return
    examples_per_step = shard.batch_size * (1 if shard.split_batches else shard.num_processes)
    num_repeated = None if counts is None else sum(-count % examples_per_step for count in counts)
    if num_repeated != 0:
        LOGGER.warning(
            "%r: Accelerate divides the examples, and fills up the last %s with %sexamples from the beginning. "
            "gather_for_metrics() and evaluate() count these twice. For metrics of each example once, use "
            "DataLoaderConfiguration(dispatch_batches=True)%s; to train without them, %s.",
            dataset,
            "batches" if num_repeated else "batches of each worker",
            f"{num_repeated} " if num_repeated else "",
            "" if num_repeated else " and num_workers=1",
            f"as_torch(even='drop', block={shard.batch_size})" if num_repeated else "drop_last=True",
        )


def warn_of_dropped_examples(torch_dataset: Divided, dataset: Dataset, block: int | None) -> None:
    """Logs a warning if Accelerate dispatches batches of several workers, and may drop examples of smaller ones.

    A worker may end with a smaller batch before the last step, and Accelerate drops what it cannot divide among ranks.

    Args:
        torch_dataset: the `Divided`.
        dataset: the dataset that it divides.
        block: the number of consecutive items of a worker that the user gave; None for the default.
    """
    loader = find_loader(torch_dataset) if is_dispatched() and torch_dataset.ranks.world_size > 1 else None
    if loader is None or loader.num_workers < 2 or loader.drop_last:
        return
    if not dataset._has_positions:
        _warn_once(_DROPS_EXAMPLES, repr(dataset), "Set num_workers to 0 or 1.")
    elif block not in (None, loader.batch_size or 1):
        advice = "Leave block out, or set it to the batch_size of the DataLoader."
        _warn_once(_DROPS_EXAMPLES, repr(dataset), advice)


def check_loader(torch_dataset: Divided, dataset: Dataset) -> None:
    """Checks the batch size of the DataLoader that begins to iterate, if the items are batches.

    Its default is 1, so that an array of 8 numbers would become one of shape (1, 8). A user's own collate function
    may remove this dimension. Other sizes were chosen, but may be those of the batches once more.

    Args:
        torch_dataset: the `Divided`.
        dataset: the dataset that it divides.

    Raises:
        ValueError: it makes batches of one batch.
    """
    if is_state_saved_late() and (num_ranks := torch_dataset.ranks.world_size) > 1:
        _warn_once(
            "%s: Accelerate with dispatch_batches and use_stateful_dataloader saves states that count %d of the next "
            "batches as read, so a run that resumes skips as many. Set DataLoaderConfiguration(split_batches=True), "
            "and the batch_size of the DataLoader to that of all processes together.",
            repr(dataset),
            num_ranks - 1,
        )
    loader = find_loader(torch_dataset) if dataset._makes_batches else None
    if loader is None or loader.batch_size is None or not _stacks_items(loader.collate_fn):
        return
    if loader.batch_size == 1:
        raise ValueError(
            f"{dataset!r}: the dataset is in batches already, and a DataLoader with batch_size=1, its "
            f"default, would add a dimension of 1. {_advise_batches(loader.collate_fn)}"
        )
    _warn_once(
        "%s: the dataset is in batches already, and the DataLoader makes batches of %d of them, with a dimension more. "
        "%s",
        repr(dataset),
        loader.batch_size,
        _advise_batches(loader.collate_fn),
    )


def warn_of_lost_state(dataset: Dataset) -> None:
    """Warns if a StatefulDataLoader reads a dataset without a state: on resume, it would restart at the first epoch."""
    name = find_stateless_dataset_name()
    if name is not None:
        LOGGER.warning(
            "%r: a StatefulDataLoader reads by %s, which has no state, so a run that resumes in a later epoch reads "
            "the examples of the first epoch. Give it as_torch() of one dataset: for several splits "
            "bd.load(..., split='train+test'), for several datasets bd.mix({a: len(a), b: len(b)}, stop='all').",
            dataset,
            name,
        )


def warn_of_lightning(dataset: Dataset, loop: FitLoop | None) -> None:
    """Logs warnings if a run of Lightning cannot resume exactly: it skips a batch, or an epoch lacks batches.

    Args:
        dataset: the dataset or stream that is trained on.
        loop: Lightning's loop over the epochs; None for another caller, which gets no warning.
    """
    if loop is None:
        return
    warn_of_restarted_epoch(dataset, loop)
    if loop.saves_rank_0_alone and not dataset._has_positions:
        LOGGER.warning(
            "%r: checkpoints of Lightning contain the state of the loader of rank 0 alone, and that of a stream does "
            "not fit the other ranks. %s",
            dataset,
            STATES_OF_ALL_RANKS,
        )
    if loop.saves_read_ahead and not has_length(dataset):
        LOGGER.warning(
            "%r: Lightning reads a batch ahead of a loader without a length, and its checkpoints count it as read, "
            "so a run that resumes skips it. Give the Trainer limit_train_batches=, the number of batches of an "
            "epoch, or any larger number if no validation follows an epoch.",
            dataset,
        )
    elif loop.has_spent_loader:
        LOGGER.warning(
            "%r: the checkpoint was saved after the last batch of epoch %d but before its end, so Lightning trains in "
            "epoch %d on what is left of epoch %d: on no batch, or on those that limit_train_batches has left out. "
            "Train an epoch more, or resume from a checkpoint that was saved earlier or at the end of an epoch.",
            dataset,
            loop.epoch - 1,
            loop.epoch,
            loop.epoch - 1,
        )


def warn_of_restarted_epoch(dataset: Dataset, loop: FitLoop | None) -> None:
    """Logs a warning if Lightning resumes in the middle of an epoch with a loader that has no state.

    Args:
        dataset: the dataset or stream that is trained on.
        loop: Lightning's loop over the epochs; None for another caller, which gets no warning.
    """
    if loop is not None and loop.restarts_epoch:
        LOGGER.warning(
            "%r: the checkpoint was saved in the middle of epoch %d, and Lightning does not restore a DataLoader of "
            "PyTorch, so it trains on the first batches of the epoch again and leaves out the last ones. Use "
            "torchdata.stateful_dataloader.StatefulDataLoader, also for each loader of a CombinedLoader, when the "
            "checkpoint is saved and when the run resumes; or resume from a checkpoint at the end of an epoch.",
            dataset,
            loop.epoch,
        )


def warn_of_random_seed(dataset: Dataset, num_ranks: int) -> None:
    """Logs a warning if a sampler of Accelerate has another seed in each process, so ranks read the same examples.

    Args:
        dataset: the dataset of the sampler.
        num_ranks: the number of ranks.
    """
    if num_ranks > 1 and has_random_seed():
        _warn_once(
            "%s: the sampler of Accelerate (use_seedable_sampler) has a random seed, another one on each of %d ranks, "
            "so some examples are read by several ranks, and others by none. Set DataLoaderConfiguration("
            "data_seed=...), or call accelerate.utils.set_seed() with the same number on all ranks before prepare().",
            repr(dataset),
            num_ranks,
        )


def warn_of_hugging_face(dataset: Dataset) -> None:
    """Logs a warning if Trainer or Accelerate would continue with other examples when it resumes."""
    if is_trained_by_hugging_face() and not has_length(dataset) and _ends(dataset):
        LOGGER.warning(
            "%r: Trainer takes max_steps for the number of steps of an epoch, as the stream has no length. A run that "
            "resumes after the first pass over the stream skips too few examples, and repeats some. Call repeat() on "
            "the stream, which is one epoch then.",
            dataset,
        )
    if find_dividing_shard() is not None and is_stateful_loader():
        LOGGER.warning(
            "%r: Accelerate with dispatch_batches=False saves the number of batches in an epoch, but not the epoch. "
            "Before a run resumes, call set_epoch() of the loader that Accelerate has prepared.",
            dataset,
        )


def _ends(dataset: Any) -> bool:
    """Returns whether a pass over a dataset or stream without a length ends."""
    if dataset._has_positions or dataset._epochs is None:
        return False
    base = dataset._base
    return has_length(base) if isinstance(base, Sized) else base.stop != "never"  # a mixture of streams


def _stacks_items(collate_fn: Any) -> bool:
    """Returns whether a collate function stacks items: that of PyTorch, or one of Hugging Face, which Trainer uses."""
    return collate_fn is torch_workers.import_torch_data().default_collate or _is_of_hugging_face(collate_fn)


def _is_of_hugging_face(collate_fn: Any) -> bool:
    """Returns whether a collate function belongs to Hugging Face."""
    module = getattr(collate_fn, "__module__", None) or type(collate_fn).__module__
    return str(module).partition(".")[0] == "transformers"


def _advise_batches(collate_fn: Any) -> str:
    """Returns the advice against batches of batches: for Trainer if it made `collate_fn`, else for a DataLoader."""
    if _is_of_hugging_face(collate_fn):  # Trainer makes the DataLoader
        return (
            "Leave batch() out, and give Trainer the number: per_device_train_batch_size, per_device_eval_batch_size."
        )
    return "Use DataLoader(..., batch_size=None), which passes the batches of the dataset on."


_DROPS_EXAMPLES = (
    "%s: Accelerate dispatches the batches of several DataLoader workers, and if the number of ranks does not divide "
    "the last batch of a worker, it drops the remaining examples. %s"
)


@functools.cache
def _warn_once(message: str, *values: Any) -> None:
    """Logs a warning; later calls with the same message and values log none.

    Args:
        message: the text, with a place such as %s for each of the values.
        *values: its values, such as the `repr` of a dataset.
    """
    LOGGER.warning(message, *values)
