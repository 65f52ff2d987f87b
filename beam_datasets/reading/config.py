"""How a dataset is read: `ReadConfig`, with the names of TFDS's fields, and the files of an epoch in reading order."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol

from beam_datasets.arguments import boolean, integer
from beam_datasets.errors import did_you_mean

_DEFAULT_CYCLE = 16
_AUTOTUNE = -1  # of tf.data
_FLAGS = (
    "add_tfds_id",
    "enable_ordering_guard",
    "repeat_filenames",
    "assert_cardinality",
    "try_autocache",
    "skip_prefetch",
)


class InputContext(Protocol):
    """Which of several input pipelines this one is; tf.distribute.InputContext is one."""

    @property
    def num_input_pipelines(self) -> int:
        """How many pipelines divide the files."""

    @property
    def input_pipeline_id(self) -> int:
        """This pipeline's number, in [0, num_input_pipelines)."""


class IgnoredOptions:
    """Takes the options of tf.data, which have no effect here: any attribute can be set, and those of it too."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = IgnoredOptions()
        setattr(self, name, inner)
        return inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IgnoredOptions) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IgnoredOptions({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


@dataclass(kw_only=True)
class ReadConfig:
    """How files are read; the read order is a function of it, of the epoch and of what is read.

    Fields may be set after it was made; what a dataset is read with is what they were when the dataset was made.
    The fields in the second half do not change what is read. Most are there so that a TFDS configuration can be taken
    as it is.

    Attributes:
        shuffle_seed: seed of the shuffle of files, any integer; None counts as 0, so that the order is always the same.
        shuffle_reshuffle_each_iteration: whether each epoch has a file order of its own; None counts as True.
        interleave_cycle_length: how many files are read in turn, at least 1. None is 16, or 1 where the dataset has
            `disable_shuffling` (not the machine-dependent number that it is in TFDS).
        interleave_block_length: how many examples of a file are read in a row, at least 1; None counts as 1.
        interleave_sort_fn: takes the list of file instructions and returns the list to read, before the shuffle of
            files; each at most once.
        experimental_interleave_sort_fn: TFDS's name of `interleave_sort_fn`; give one of them.
        input_context: reads every `num_input_pipelines`-th file instruction only, from number `input_pipeline_id` on.
            (`shard()` divides positions instead, which keeps the global order and lets the number of workers change.)
        add_tfds_id: adds `tfds_id` to each example: its file's name and its number in the file.
        enable_ordering_guard: whether reading a dataset with `disable_shuffling` in another order is an error, else a
            warning.
        repeat_filenames: only False. Repeating files mixes the end of an epoch with the next one's start; use
            `repeat()`.
        assert_cardinality: without effect: the number of examples is always checked.
        try_autocache: without effect.
        skip_prefetch: without effect.
        num_parallel_calls_for_decode: number of threads that decode images, at least 1. None, or -1 as tf.data's
            AUTOTUNE, is the number of cores that the process may use. It changes nothing of what is read.
        num_parallel_calls_for_interleave_files: without effect.
        override_buffer_size: without effect.
        options: without effect: order is always deterministic. Attributes of it can be set as those of tf.data.Options.
        file_format: without effect: the dataset's own format is read.
    """

    shuffle_seed: int | None = None
    shuffle_reshuffle_each_iteration: bool | None = None
    interleave_cycle_length: int | None = None
    interleave_block_length: int | None = 16
    interleave_sort_fn: Callable[[list[Any]], Sequence[Any]] | None = None
    experimental_interleave_sort_fn: Callable[[list[Any]], Sequence[Any]] | None = None
    input_context: InputContext | None = None
    add_tfds_id: bool = False
    enable_ordering_guard: bool = True
    repeat_filenames: bool = False

    assert_cardinality: bool = True
    try_autocache: bool = True
    skip_prefetch: bool = False
    num_parallel_calls_for_decode: int | None = None
    num_parallel_calls_for_interleave_files: int | None = None
    override_buffer_size: int | None = None
    options: Any = field(default_factory=IgnoredOptions)
    file_format: Any = None

    def __post_init__(self) -> None:
        if self.options is None:
            self.options = IgnoredOptions()
        if self.shuffle_seed is not None:
            self._take("shuffle_seed", integer)
        if self.shuffle_reshuffle_each_iteration is not None:
            self._take("shuffle_reshuffle_each_iteration", boolean)
        for name in ("interleave_cycle_length", "interleave_block_length"):
            if getattr(self, name) is not None:
                self._take(name, partial(integer, at_least=1))
        if self.num_parallel_calls_for_decode not in (None, _AUTOTUNE):
            self._take("num_parallel_calls_for_decode", partial(integer, at_least=1))
        for name in _FLAGS:
            self._take(name, boolean)
        if self.repeat_filenames:
            raise ValueError(
                "ReadConfig.repeat_filenames must be False, got True: it would mix the end of an epoch with the start "
                "of the next one. Use the dataset's repeat() instead"
            )
        self._check_sort_fn()
        self._check_input_context()

    def __setattr__(self, name: str, value: Any) -> None:
        known = [each.name for each in fields(self)]
        if name not in known:
            message = f"ReadConfig has no field {name!r}.{did_you_mean(name, known)}"
            raise AttributeError(message, name=name, obj=None)
        object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> ReadConfig:
        """Returns a copy with other values of some fields."""
        return replace(self, **changes)

    @property
    def sort_fn(self) -> Callable[[list[Any]], Sequence[Any]] | None:
        """The function that orders file instructions, by whichever name it was given."""
        return self.interleave_sort_fn or self.experimental_interleave_sort_fn

    @property
    def num_decode_threads(self) -> int | None:
        """How many threads decode images; None for as many as there are usable cores."""
        return None if self.num_parallel_calls_for_decode == _AUTOTUNE else self.num_parallel_calls_for_decode

    @property
    def seed(self) -> int:
        """The seed of the shuffle of files."""
        return self.shuffle_seed or 0

    @property
    def reshuffles(self) -> bool:
        """Whether each epoch has a file order of its own."""
        return self.shuffle_reshuffle_each_iteration is not False

    @property
    def block_length(self) -> int:
        """How many examples of a file are read in a row."""
        return self.interleave_block_length or 1

    def cycle_length(self, *, ordered: bool) -> int:
        """Returns how many files are read in turn from a dataset with (`ordered`) or without `disable_shuffling`."""
        return self.interleave_cycle_length or (1 if ordered else _DEFAULT_CYCLE)

    def check_order(self, *, ordered: bool, shuffle_files: bool) -> None:
        """Checks that a dataset with `disable_shuffling` (`ordered`) is read in its own order.

        Raises:
            ValueError: the dataset has `disable_shuffling` and would be read in another order. A UserWarning instead
                where `enable_ordering_guard` is False.
        """
        problems = []
        if ordered and shuffle_files:
            problems.append("shuffle_files=True reads the files in another order")
        if ordered and self.cycle_length(ordered=True) != 1:
            problems.append(f"interleave_cycle_length={self.interleave_cycle_length} mixes the files' examples")
        if not problems:
            return
        message = f"the dataset has disable_shuffling=True, so its order means something, but {' and '.join(problems)}"
        if self.enable_ordering_guard:
            raise ValueError(f"{message}. To read it so all the same, set ReadConfig(enable_ordering_guard=False)")
        warnings.warn(message, UserWarning, stacklevel=3)

    def order_key(self, *, ordered: bool, shuffle_files: bool, files: Sequence[int] = ()) -> dict[str, int | str]:
        """Returns by name what the order of the examples depends on, for a saved state to be checked against.

        Args:
            ordered: whether the dataset has `disable_shuffling`.
            shuffle_files: whether the files are shuffled.
            files: the numbers of the chosen files, see `choose_files`. What a function made of them is in the key, not
                the function.
        """
        key: dict[str, int | str] = {"cycle": self.cycle_length(ordered=ordered), "block": self.block_length}
        if shuffle_files:
            key |= {"seed": self.seed, "reshuffle": int(self.reshuffles)}
        context = self.input_context
        first, step = (context.input_pipeline_id, context.num_input_pipelines) if context else (0, 1)
        if context:
            key["files"] = f"{first} of {step}"
        if self.sort_fn and list(files) != list(range(first, first + step * len(files), step)):
            text = ",".join(map(str, files))
            key["order"] = f"SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:24]}"
        return key

    def _take(self, name: str, check: Callable[[str, Any], Any]) -> None:
        """Takes a number or a flag as what it is written into saved states."""
        object.__setattr__(self, name, check(f"ReadConfig.{name}", getattr(self, name)))

    def _check_sort_fn(self) -> None:
        for name in ("interleave_sort_fn", "experimental_interleave_sort_fn"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"ReadConfig.{name} must be a function of a list or None, got {getattr(self, name)!r}")
        if self.interleave_sort_fn and self.experimental_interleave_sort_fn:
            raise ValueError("ReadConfig got interleave_sort_fn and experimental_interleave_sort_fn: give one of them")

    def _check_input_context(self) -> None:
        """Checks that `input_context`, if given, has the attributes of a tf.distribute.InputContext.

        Raises:
            TypeError: it lacks one of them.
            ValueError: its `input_pipeline_id` is not in [0, num_input_pipelines).
        """
        context = self.input_context
        if context is None:
            return
        try:
            count, number = context.num_input_pipelines, context.input_pipeline_id
        except AttributeError as error:
            raise TypeError(
                "ReadConfig.input_context must have num_input_pipelines and input_pipeline_id, "
                f"as tf.distribute.InputContext has, got {context!r}"
            ) from error
        if not 0 <= number < count:
            raise ValueError(f"ReadConfig.input_context: input_pipeline_id must be in [0, {count}), got {number}")


def read_config_of(given: Any) -> ReadConfig:
    """Returns a copy of `given`, which later changes of it do not reach, or the default ReadConfig if it is None.

    Raises:
        TypeError: it is something else, such as a dict or another library's; or a field was set to another type.
        ValueError: a field was set to an invalid value.
    """
    if given is None:
        return ReadConfig()
    if not isinstance(given, ReadConfig):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            "read_config must be a beam_datasets.ReadConfig, such as ReadConfig(interleave_cycle_length=1), "
            f"not {given!r:.100} of type {kind}."
        )
    return replace(given)


def choose_files(files: Sequence[Any], config: ReadConfig) -> list[int]:
    """Returns the numbers of the file instructions that are read, before the shuffle of files.

    They are ordered by `interleave_sort_fn`, then chosen by `input_context`, as in TFDS.

    Raises:
        ValueError: `interleave_sort_fn` returned others, or one twice; or `input_context` has more pipelines than there
            are files.
    """
    chosen = list(range(len(files)))
    if config.sort_fn:
        given = list(files)
        numbers = {id(file): number for number, file in enumerate(given)}
        try:
            chosen = [numbers[id(file)] for file in config.sort_fn(list(given))]
        except KeyError:
            problem = "interleave_sort_fn returned something else than file instructions it was given."
            raise ValueError(problem) from None
        if len(set(chosen)) < len(chosen):  # what is open, and read ahead, is known by its run
            raise ValueError("interleave_sort_fn returned a file instruction twice. Read it again by repeat().")
    if config.input_context:
        count, number = config.input_context.num_input_pipelines, config.input_context.input_pipeline_id
        if count > 1 and len(chosen) < count:
            raise ValueError(
                f"{len(chosen)} files cannot be divided among {count} input pipelines, each of which needs one: "
                "divide positions with shard() instead, or take fewer pipelines"
            )
        chosen = chosen[number::count]
    return chosen
