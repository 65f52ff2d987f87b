"""`ReadConfig`, the options of reading with the names of TFDS's fields, and the choice of the files to read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from beam_datasets.advice import names_foreign_constructor_arguments
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
    """Interface of the number of an input pipeline among several, which `tf.distribute.InputContext` has."""

    @property
    def num_input_pipelines(self) -> int:
        """Number of pipelines that divide the files."""

    @property
    def input_pipeline_id(self) -> int:
        """Number of this pipeline, in [0, num_input_pipelines)."""


class IgnoredOptions:
    """Placeholder for `tf.data.Options`, without effect. Any attribute can be set, and attributes of attributes."""

    def __getattr__(self, name: str) -> Any:
        """Returns nested options for an attribute that was not set."""
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


@names_foreign_constructor_arguments
@dataclass(kw_only=True)
class ReadConfig:
    """Options of reading. The read order is a function of them, of the epoch, and of the dataset and slice.

    Fields may be changed; a dataset uses their values at the time when it was created. The fields in the second half do
    not affect the examples or their order. Most exist so that a TFDS configuration can be used unchanged.

    Attributes:
        shuffle_seed: seed of the shuffle of files, any integer; None counts as 0, so that the order is always the same.
        shuffle_reshuffle_each_iteration: whether each epoch has another file order; None counts as True.
        interleave_cycle_length: number of files that are read in turn, at least 1. None means 16, or 1 if the dataset
            has `disable_shuffling` (not the machine-dependent number of TFDS).
        interleave_block_length: number of consecutive examples that are read from a file, at least 1; None counts as 1.
        interleave_sort_fn: function from the list of file instructions to the list to read, before the shuffle of
            files; each at most once.
        experimental_interleave_sort_fn: TFDS's name of `interleave_sort_fn`; set only one of them.
        input_context: reads every `num_input_pipelines`-th file instruction only, from number `input_pipeline_id` on.
            (`shard()` divides positions instead, which keeps the global order and lets the number of workers change.)
        add_tfds_id: whether to add `tfds_id` to each example: the name of its file and its number in the file.
        enable_ordering_guard: whether reading a dataset with `disable_shuffling` in another order is an error (True)
            or a warning (False).
        repeat_filenames: must be False. Repeating files mixes the end of an epoch with the next one's start; use
            `repeat()`.
        assert_cardinality: without effect: the number of examples is always checked.
        try_autocache: without effect.
        skip_prefetch: without effect.
        num_parallel_calls_for_decode: number of threads that decode images, at least 1. None, or -1 as tf.data's
            AUTOTUNE, is the number of cores that the process may use. It does not affect the examples or their order.
        num_parallel_calls_for_interleave_files: without effect.
        override_buffer_size: without effect.
        options: without effect: the order is always deterministic. Its attributes can be set as for tf.data.Options.
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
        """Checks the fields; raises a TypeError or a ValueError."""
        if self.options is None:
            self.options = IgnoredOptions()
        if self.shuffle_seed is not None:
            self._check_field("shuffle_seed", integer)
        if self.shuffle_reshuffle_each_iteration is not None:
            self._check_field("shuffle_reshuffle_each_iteration", boolean)
        for name in ("interleave_cycle_length", "interleave_block_length"):
            if getattr(self, name) is not None:
                self._check_field(name, partial(integer, at_least=1))
        if self.num_parallel_calls_for_decode not in (None, _AUTOTUNE):
            self._check_field("num_parallel_calls_for_decode", partial(integer, at_least=1))
        for name in _FLAGS:
            self._check_field(name, boolean)
        if self.repeat_filenames:
            raise ValueError(
                "ReadConfig.repeat_filenames must be False, got True: it would mix the end of an epoch with the start "
                "of the next one. Use the dataset's repeat() instead"
            )
        self._check_sort_fn()
        self._check_input_context()

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets a field; raises an AttributeError if there is no such field."""
        field_names = self.__dataclass_fields__
        if name not in field_names:
            message = f"ReadConfig has no field {name!r}.{did_you_mean(name, field_names)}"
            raise AttributeError(message, name=name, obj=None)
        object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> ReadConfig:
        """Returns a copy with other values of some fields."""
        return replace(self, **changes)

    @property
    def sort_fn(self) -> Callable[[list[Any]], Sequence[Any]] | None:
        """The function that orders file instructions, set by either of its two names."""
        return self.interleave_sort_fn or self.experimental_interleave_sort_fn

    @property
    def num_decode_threads(self) -> int | None:
        """Number of threads that decode images; None for the number of usable cores."""
        return None if self.num_parallel_calls_for_decode == _AUTOTUNE else self.num_parallel_calls_for_decode

    @property
    def seed(self) -> int:
        """The seed of the shuffle of files."""
        return self.shuffle_seed or 0

    @property
    def reshuffles(self) -> bool:
        """Whether each epoch has another file order."""
        return self.shuffle_reshuffle_each_iteration is not False

    @property
    def block_length(self) -> int:
        """Number of consecutive examples that are read from a file."""
        return self.interleave_block_length or 1

    def cycle_length(self, *, ordered: bool) -> int:
        """Returns the number of files that are read in turn, given whether the dataset has `disable_shuffling`."""
        return self.interleave_cycle_length or (1 if ordered else _DEFAULT_CYCLE)

    def check_order(self, *, ordered: bool, shuffle_files: bool) -> None:
        """Checks that a dataset with `disable_shuffling` is read in its own order.

        Args:
            ordered: whether the dataset has `disable_shuffling`.
            shuffle_files: whether the files are shuffled.

        Raises:
            ValueError: the dataset has `disable_shuffling` and would be read in another order. If
                `enable_ordering_guard` is False, issues a UserWarning instead.
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
        """Returns the options that affect the order of the examples, by name, for the fingerprint of a saved state.

        Args:
            ordered: whether the dataset has `disable_shuffling`.
            shuffle_files: whether the files are shuffled.
            files: numbers of the files that are read; see `choose_files`. If `interleave_sort_fn` has changed them, the
                result has their hash, instead of the function.
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

    def _check_field(self, name: str, check: Callable[[str, Any], Any]) -> None:
        """Checks a field and converts it to an `int` or a `bool` of Python, as saved states contain it."""
        object.__setattr__(self, name, check(f"ReadConfig.{name}", getattr(self, name)))

    def _check_sort_fn(self) -> None:
        """Checks that at most one of the two fields for the sort function is set, to a function.

        Raises:
            TypeError: a field is not a function.
            ValueError: both fields are set.
        """
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


_DEFAULT_CONFIG = ReadConfig()


def read_config_of(config: Any) -> ReadConfig:
    """Returns a checked copy of a `ReadConfig`, which later changes do not affect; the default one if it is None.

    The result must not be changed.

    Raises:
        TypeError: it has another type, such as a dict or the ReadConfig of TFDS; or a field was set to another type.
        ValueError: a field was set to an invalid value.
    """
    if config is None:
        return _DEFAULT_CONFIG
    if not isinstance(config, ReadConfig):
        kind = f"{type(config).__module__}.{type(config).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            "read_config must be a beam_datasets.ReadConfig, such as ReadConfig(interleave_cycle_length=1), "
            f"not {config!r:.100} of type {kind}."
        )
    return replace(config)


def choose_files(files: Sequence[Any], config: ReadConfig) -> list[int]:
    """Chooses the file instructions to read; returns their numbers in `files`, before the shuffle of files.

    As in TFDS, `interleave_sort_fn` orders them, then `input_context` selects some of them.

    Raises:
        ValueError: `interleave_sort_fn` returned other objects, or one twice; or `input_context` has more pipelines
            than there are files.

    >>> choose_files(["a", "b", "c"], ReadConfig(interleave_sort_fn=lambda files: files[::-1]))
    [2, 1, 0]
    """
    numbers = list(range(len(files)))
    if config.sort_fn:
        file_list = list(files)
        number_by_id = {id(file): number for number, file in enumerate(file_list)}
        try:
            numbers = [number_by_id[id(file)] for file in config.sort_fn(list(file_list))]
        except KeyError:
            problem = "interleave_sort_fn returned something else than file instructions it was given."
            raise ValueError(problem) from None
        if len(set(numbers)) < len(numbers):  # an open reader is identified by the number of its run
            raise ValueError("interleave_sort_fn returned a file instruction twice. Read it again by repeat().")
    if config.input_context:
        count, number = config.input_context.num_input_pipelines, config.input_context.input_pipeline_id
        if count > 1 and len(numbers) < count:
            raise ValueError(
                f"{len(numbers)} files cannot be divided among {count} input pipelines, each of which needs one: "
                "divide positions with shard() instead, or take fewer pipelines"
            )
        numbers = numbers[number::count]
    return numbers
