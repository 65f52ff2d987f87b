"""Detection of the frameworks that read a dataset, by the call stack, since they do not pass on their own state.

The stack of a forked DataLoader worker includes that of its parent.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch


_LOGGER = logging.getLogger(__name__)


def _paths(*files: str) -> tuple[str, ...]:
    """Returns ends of the paths of modules, written with slashes, with the separator of this system."""
    return tuple(file.replace("/", os.sep) for file in files)


_DIVIDING_MODULES = _paths("/accelerate/data_loader.py", "/transformers/trainer_pt_utils.py")
_HUGGING_FACE_TRAINERS = _paths("/transformers/trainer.py")
_FIT_LOOPS = _paths("/pytorch/loops/fit_loop.py", "/pytorch_lightning/loops/fit_loop.py")
_EVALUATION_LOOPS = _paths("/pytorch/loops/evaluation_loop.py", "/pytorch_lightning/loops/evaluation_loop.py")
_LIGHTNING_PACKAGES = ("lightning", "pytorch_lightning")
_COMBINED_LOADERS = _paths("/pytorch/utilities/combined_loader.py", "/pytorch_lightning/utilities/combined_loader.py")
_STATEFUL_LOADERS = _paths("/torchdata/stateful_dataloader/stateful_dataloader.py")
_DISPATCHERS = _paths("/accelerate/data_loader.py")
_KERAS_TRAINERS = _paths(*(f"/keras/src/backend/{backend}/trainer.py" for backend in ("tensorflow", "jax", "torch")))
_KERAS_EPOCHS = _paths("/keras/src/trainers/epoch_iterator.py")
_KERAS_PROBES = {"_symbolic_build", "get_tf_dataset"}
_KERAS_PROBING_MODULES = _paths(
    "/keras/src/trainers/trainer.py", "/keras/src/trainers/data_adapters/torch_data_loader_adapter.py"
)
_WORKER_LOOPS = _paths("/torch/utils/data/_utils/worker.py")
_HUGGING_FACE_READERS = _paths("/datasets/iterable_dataset.py", "/datasets/packaged_modules/generator/generator.py")
_SHARDING_FILTERS = _paths("/torch/utils/data/datapipes/iter/sharding.py")
_LOADERS = (*_STATEFUL_LOADERS, *_paths("/torch/utils/data/dataloader.py"))


class FitLoop(NamedTuple):
    """The loop of Lightning's Trainer that begins to iterate over a dataset.

    Attributes:
        epoch: the epoch of the loop that the iteration is for.
        saves_read_ahead: whether its checkpoints contain the loader's state, so that, without a length, a prefetched
            batch counts as read before it was trained on.
        has_spent_loader: whether it resumes from a checkpoint of the last batch of an epoch, and trains in `epoch`, the
            next one, on the batches that the restored loader has left: none, or those after `limit_train_batches`.
        saves_rank_0_alone: whether every rank restores the state of rank 0's loader, because no hook
            `on_load_checkpoint` gives each rank its own.
        is_resuming: whether it resumes from a checkpoint.
        resumes_longest_loader: whether it resumes from a checkpoint with the states of several loaders, and an epoch
            ends with the longest one: a `CombinedLoader` of mode `max_size`.
        restarts_epoch: whether it resumes from a checkpoint in the middle of an epoch without a state of the loader, so
            it trains on the first batches of the epoch again, and not on the last ones.
    """

    epoch: int
    saves_read_ahead: bool
    has_spent_loader: bool
    saves_rank_0_alone: bool
    is_resuming: bool
    resumes_longest_loader: bool
    restarts_epoch: bool


def is_divided_by_caller() -> bool:
    """Returns whether Accelerate or the Trainer of Hugging Face reads, which divide the items among ranks.

    Accelerate has no public function to ask.
    """
    return any(frame.f_code.co_filename.endswith(_DIVIDING_MODULES) for frame in _frames())


def find_dividing_shard() -> Any:
    """Returns the `IterableDatasetShard` of Accelerate or of Trainer that reads; None if there is none.

    It has the attributes `batch_size`, `num_processes` and `split_batches`.
    """
    for frame in _frames():
        if frame.f_code.co_filename.endswith(_DIVIDING_MODULES):
            shard: Any = frame.f_locals.get("self")
            if hasattr(shard, "num_processes") and hasattr(shard, "split_batches"):
                return shard
    return None


def does_accelerate_split_batches() -> bool:
    """Returns whether Accelerate's `IterableDatasetShard` divides a batch among ranks: `split_batches`."""
    shard = find_dividing_shard()
    return shard is not None and bool(shard.split_batches)


def count_blocks_of_divider() -> int:
    """Returns the number of consecutive blocks that all ranks together take in a step from one worker.

    It is the number of ranks if an `IterableDatasetShard` of Accelerate or of Trainer reads: in each worker it takes a
    batch for each rank, and gives one of them to its own rank. Otherwise it is 1.
    """
    shard = find_dividing_shard()
    return 1 if shard is None or shard.split_batches else int(shard.num_processes)


def find_outer_divider() -> str | None:
    """Returns the name of a dataset class that reads in this process, and divides items among ranks or workers.

    A DataLoader that such a dataset reads may start workers of its own, whose stack includes that of their parent.

    Returns:
        None if there is none.
    """
    for frame in _frames():
        path = frame.f_code.co_filename
        if path.endswith(_WORKER_LOOPS):
            return None
        if path.endswith(_HUGGING_FACE_READERS):
            return "a dataset of Hugging Face (from_generator)"
        if path.endswith(_SHARDING_FILTERS) and getattr(frame.f_locals.get("self"), "num_of_instances", 1) > 1:
            return "sharding_filter()"
    return None


def has_random_seed() -> bool:
    """Returns whether the caller is a sampler of Accelerate (`use_seedable_sampler`) with a seed that PyTorch drew.

    Each process then has its own seed, and therefore its own order. Seeds that programs set have at most 32 bits, since
    NumPy accepts no others.
    """
    for frame in _frames():
        if frame.f_code.co_filename.endswith(_DISPATCHERS):
            seed = getattr(frame.f_locals.get("self"), "initial_seed", None)
            if isinstance(seed, int):
                return seed >= 1 << 32
    return False


def is_epoch_set_by_accelerate() -> bool:
    """Returns whether the caller is a loader of Accelerate that begins to iterate, and sets the epoch then.

    It counts its own iterations: the epoch is 0 at first, also in a run that resumes, unless the user sets that of the
    loader.
    """
    frames = (frame.f_code for frame in _frames())
    return any(code.co_filename.endswith(_DISPATCHERS) and code.co_name == "__iter__" for code in frames)


def is_trained_by_hugging_face() -> bool:
    """Returns whether the Trainer of Hugging Face trains, rather than evaluates."""
    frames = (frame.f_code for frame in _frames())
    return any(code.co_filename.endswith(_HUGGING_FACE_TRAINERS) and code.co_name == "train" for code in frames)


def is_state_saved_late() -> bool:
    """Returns whether Accelerate's dispatching loader reads, and saves states after it has read batches ahead.

    It saves the state of its StatefulDataLoader before it fetches the last one of the next batches of all ranks, so a
    state counts those before this one as read. With `split_batches` it fetches one batch for all ranks.
    """
    for dispatcher, frame in _find_dispatchers():
        is_split = frame.f_locals.get("split_batches", vars(dispatcher).get("split_batches"))
        if is_split is not None:  # its constructor reads, too, before it has the attribute
            return not is_split and vars(dispatcher).get("use_stateful_dataloader", False)
    return False


def is_dispatched() -> bool:
    """Returns whether Accelerate's dispatching loader reads, which divides each step's examples equally among ranks.

    Except in the last step, it drops those that are left over.
    """
    return any(True for _ in _find_dispatchers())


def _find_dispatchers() -> Iterator[tuple[Any, FrameType]]:
    """Yields (loader, frame) for each frame of this thread's stack in a dispatching loader of Accelerate."""
    for frame in _frames():
        dispatcher: Any = frame.f_locals.get("self") if frame.f_code.co_filename.endswith(_DISPATCHERS) else None
        if hasattr(dispatcher, "_fetch_batches"):
            yield dispatcher, frame


def is_repeated_by_keras() -> bool:
    """Returns whether `fit()` of Keras reads several epochs, and takes the length of the first one for that of all.

    It does so without `steps_per_epoch` if the number of batches is unknown. TensorFlow may call from another thread.
    """
    for thread_frame in sys._current_frames().values():
        for frame in _frames_from(thread_frame):
            if frame.f_code.co_name == "fit" and frame.f_code.co_filename.endswith(_KERAS_TRAINERS):
                fit = frame.f_locals
                has_length = fit.get("steps_per_epoch") is not None
                return not has_length and int(fit.get("epochs", 1)) - int(fit.get("initial_epoch", 0)) > 1
    return False


def is_probed() -> bool:
    """Returns whether Keras or Lightning begins a pass that it does not train on."""
    return is_probed_by_keras() or _is_probed_by_lightning()


def is_probed_by_keras() -> bool:
    """Returns whether Keras begins a pass that it does not train on, in this thread or in one that waits for it.

    It reads a batch to build the model. And after the last batch of an epoch it begins a pass, but another one at the
    beginning of the next epoch.
    """
    return any(
        _is_probe(frame) for thread_frame in sys._current_frames().values() for frame in _frames_from(thread_frame)
    )


def _is_probe(frame: FrameType) -> bool:
    """Returns whether a frame is a function of Keras that begins a pass without training on it."""
    path = frame.f_code.co_filename
    if path.endswith(_KERAS_PROBING_MODULES):
        return frame.f_code.co_name in _KERAS_PROBES
    if frame.f_code.co_name != "_enumerate_iterator" or not path.endswith(_KERAS_EPOCHS):
        return False
    epoch: Any = frame.f_locals.get("self")
    num_batches, num_seen = int(getattr(epoch, "num_batches", None) or 0), int(getattr(epoch, "_steps_seen", 0))
    return getattr(epoch, "steps_per_epoch", None) is None and 0 < num_batches <= num_seen


def is_stateful_loader() -> bool:
    """Returns whether a StatefulDataLoader calls, which begins the next epoch itself after the end of one."""
    return any(frame.f_code.co_filename.endswith(_STATEFUL_LOADERS) for frame in _frames())


def find_stateless_dataset_name() -> str | None:
    """Returns the class name of the dataset that a StatefulDataLoader reads, if that dataset has no `state_dict`.

    Returns:
        The name, such as 'ChainDataset'; None if the dataset has a `state_dict`, or if no such loader is reading.
    """
    for frame in _frames():
        if frame.f_code.co_filename.endswith(_STATEFUL_LOADERS):
            reader = frame.f_locals.get("self")  # a generator of the dataset begins after `iter(loader)`
            dataset = getattr(reader, "dataset", getattr(reader, "_dataset", None))
            if dataset is not None:
                return None if hasattr(dataset, "state_dict") else type(dataset).__name__
    return None


def find_loader(dataset: object) -> torch.utils.data.DataLoader | None:
    """Returns the DataLoader, in the stack of calls, that iterates over a dataset or starts a worker for it.

    Args:
        dataset: the object that was passed to the DataLoader.

    Returns:
        The DataLoader; None if the caller is not one.
    """
    for frame in _frames():
        if frame.f_code.co_filename.endswith(_LOADERS):
            loader = frame.f_locals.get("self")
            if getattr(loader, "dataset", None) is dataset:
                return loader
    return None


def _is_probed_by_lightning() -> bool:
    """Returns whether Lightning begins a pass that it does not train on; it begins another pass afterwards.

    It does so after it has reloaded the DataLoaders (`reload_dataloaders_every_n_epochs`), but not in the first epoch
    or in one that it resumes.
    """
    is_combined = False
    for frame in _frames():
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        is_combined |= path.endswith(_COMBINED_LOADERS)
        if path.endswith(_FIT_LOOPS):
            loop: Any = frame.f_locals.get("self")
            is_reloaded = name == "setup_data" and (frame.f_back and frame.f_back.f_code.co_name) == "on_advance_start"
            if not is_combined or not is_reloaded:
                return False
            is_resumed = getattr(loop, "is_resuming", False) or loop.epoch_loop.restarting
            return bool(loop.trainer.current_epoch) and not is_resumed
    return False


def find_fit_loop() -> FitLoop | None:
    """Returns the loop of Lightning that begins to iterate over the training data; None if another program does so."""
    is_stateful = is_combined = False
    combined_loader: Any = None
    for frame in _frames():
        path, owner = frame.f_code.co_filename, frame.f_locals.get("self")
        is_stateful |= path.endswith(_STATEFUL_LOADERS)
        if path.endswith(_COMBINED_LOADERS):
            is_combined = True  # without it, a user's function inside the loop is reading, not the loop itself
            if any(cls.__name__ == "CombinedLoader" for cls in type(owner).__mro__):
                combined_loader = owner
        if path.endswith(_EVALUATION_LOOPS):
            return None
        if path.endswith(_FIT_LOOPS):
            return _describe_known_loop(owner, is_stateful, combined_loader) if is_combined else None
    return None


def _describe_known_loop(loop: Any, is_stateful: bool, combined_loader: Any) -> FitLoop | None:
    """Returns the `FitLoop` of a loop of Lightning; None, with a warning, if it or its loader lacks an attribute.

    Args:
        loop: Lightning's `_FitLoop`.
        is_stateful: see `_describe_fit_loop`.
        combined_loader: the `CombinedLoader` of Lightning that the loop reads.
    """
    try:
        return _describe_fit_loop(loop, is_stateful, combined_loader._mode == "max_size")
    except AttributeError as error:
        _warn_of_unknown_loop(str(error))
        return None


@functools.cache  # warns once
def _warn_of_unknown_loop(problem: str) -> None:
    """Warns that the epoch of Lightning's loop is not known, which only matters after a restart."""
    _LOGGER.warning(
        "The loop of this version of Lightning is not known (%s), so a run that is restarted after an epoch trains on "
        "the data of epoch 0 next. Give the epoch that follows: as_torch(epoch=N).",
        problem,
    )


def _describe_fit_loop(loop: Any, is_stateful: bool, is_longest: bool) -> FitLoop:
    """Returns the `FitLoop` of a loop of Lightning.

    A loop that resumes iterates over its loaders before it updates the numbers of its epochs. With `max_steps`, it then
    iterates over the epoch of the checkpoint again, and counts it as processed twice, but as completed once.

    Args:
        loop: a `lightning.pytorch.loops.fit_loop._FitLoop`, which is `fit_loop` of its Trainer.
        is_stateful: whether it reads by a StatefulDataLoader.
        is_longest: whether an epoch ends with the longest of several loaders.
    """
    trainer, epochs, batches = loop.trainer, loop.epoch_progress.current, loop.epoch_loop.batch_progress
    is_after_last_batch = batches.is_last_batch and batches.current.completed < batches.current.processed
    is_between_epochs = loop.restarting and epochs.processed < epochs.started and is_after_last_batch
    epoch = epochs.processed if trainer.max_steps == -1 else epochs.completed
    is_in_epoch = loop.restarting and not batches.is_last_batch and batches.current.processed > 0
    has_limit = isinstance(trainer.limit_train_batches, int)  # a float is a part of the length
    return FitLoop(
        epoch + is_between_epochs,
        saves_read_ahead=is_stateful and not has_limit,
        has_spent_loader=is_stateful and is_between_epochs,
        saves_rank_0_alone=is_stateful and trainer.world_size > 1 and not _has_hook_for_loading(trainer),
        is_resuming=loop.restarting,
        resumes_longest_loader=is_stateful and is_longest and loop.restarting,
        restarts_epoch=is_in_epoch and not is_stateful,
    )


def _has_hook_for_loading(trainer: Any) -> bool:
    """Returns whether a function of the user changes the checkpoints that a Trainer of Lightning loads."""
    owners = [trainer.lightning_module, trainer.datamodule, *trainer.callbacks]
    hooks = [getattr(owner, "on_load_checkpoint", None) for owner in owners]
    return any(hook is not None and hook.__module__.partition(".")[0] not in _LIGHTNING_PACKAGES for hook in hooks)


def _frames() -> Iterator[FrameType]:
    """Yields the frames of the call stack from the caller's outwards."""
    return _frames_from(sys._getframe(1))


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back
