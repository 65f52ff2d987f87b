"""Iterator checkpoints: saved states, each with the fingerprint of the dataset and order that it belongs to.

A state is a small dict that JSON can hold, a few hundred bytes for a dataset of any size:
`{"format": 1, "epoch": 2, "position": 4711, "fingerprint": {"dataset": "digits", "version": "1.0.0", ...}}`.
The position counts examples in the read order of the epoch. If workers were in the middle of their blocks, the state
also has `blocks`, a list of [number of workers, examples in a block, examples that each has taken of its block,
examples taken of the remaining ones]; see `reading.index.progress`. The number of workers, batch sizes and threads may
change between saving and restoring. The fingerprint contains all that the order depends on, in words if they are few,
so that the error of a state of another dataset or order can say what differs.

Later versions read the format: a change to the meaning of a field needs a new format number.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from beam_datasets.arguments import integer, shown
from beam_datasets.errors import StateError
from beam_datasets.reading.index.division import MAX_POSITION, Unfinished, UnfinishedBlocks

FORMAT, FORMAT_WITH_BLOCKS = 1, 2
FORMATS_OF_STREAMS = (3, 4)
"""Formats of the states of streams, see `reading.stream_checkpoint`: without and with a checksum."""

MAX_UNFINISHED = 100
"""Maximum length of `ReadState.unfinished`."""

_FIELDS = {"format", "epoch", "position", "fingerprint"}
_MAX_PART = 120  # characters of a part of a fingerprint; longer parts are shortened
_HINT = "Restore it with the dataset, split and configuration that it was saved with, or start from the beginning."
_HINT_FOR_WORKER = (
    "Each worker of a stream has read its own number of examples. On each rank, restore the state that this rank has "
    "saved, with as many ranks and DataLoader workers as then, or start from the beginning."
)


class Identity(TypedDict):
    """The arguments of `fingerprint` that identify the data of a reader, as opposed to its operations."""

    dataset: str
    version: str
    digest: str
    slices: Sequence[tuple[str, int, int]]
    read_config: Mapping[str, int | str]


def fingerprint(
    *,
    dataset: str,
    version: str,
    digest: str,
    slices: Sequence[tuple[str, int, int]],
    read_config: Mapping[str, int | str],
    operations: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the values that a reader's order depends on, as a dict of texts of at most 120 characters.

    Its keys are the names of the arguments; names and values in a text are joined as in "block=16, cycle=16".

    Args:
        dataset: name of the dataset, with its config if there is one.
        version: version of the dataset.
        digest: digest of the published version, which distinguishes versions with the same name.
        slices: (split, start, stop) of each slice that the split expression selects, in order.
        read_config: the result of `ReadConfig.order_key`.
        operations: descriptions of the operations on the order, such as `shuffle(window=1000, seed=3)`, in order.
            Operations that do not affect the order are left out, so that they may change.

    >>> fingerprint(dataset="digits", version="1.0.0", digest="9f3a", slices=[("train", 0, 90)],
    ...             read_config={"cycle": 16, "block": 16})["slices"]
    'train[0:90]'
    """
    parts = {
        "dataset": dataset,
        "version": version,
        "digest": digest,
        "slices": " + ".join(f"{split}[{start}:{stop}]" for split, start, stop in slices),
        "read_config": ", ".join(f"{name}={value}" for name, value in sorted(read_config.items())),
        "operations": " | ".join(operations),
    }
    return {name: _shorten(text) for name, text in parts.items()}


@dataclass(frozen=True)
class ReadState:
    """The state of an iterator.

    Attributes:
        position: number of examples of the epoch that were read, at least 0.
        epoch: number of epochs that were read before, at least 0.
        fingerprint: fingerprint of the dataset and the order; see `fingerprint()`.
        unfinished: partly taken blocks of workers after the position; see `Progress.unfinished`.
    """

    position: int = 0
    epoch: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    unfinished: Unfinished = ()

    def __post_init__(self) -> None:
        """Checks the attributes; raises a StateError."""
        for name, max_value in (("position", 1 << 62), ("epoch", MAX_POSITION)):
            object.__setattr__(self, name, parse_number(f"the state's {name}", getattr(self, name), max_value))
        object.__setattr__(self, "fingerprint", parse_fingerprint(self.fingerprint))
        if len(self.unfinished) > MAX_UNFINISHED:
            raise StateError(
                expected=f"at most {MAX_UNFINISHED}",
                got=f"{len(self.unfinished)}",
                field="blocks",
                advice="Save it between blocks.",
            )
        for _, count in self.unfinished:
            parse_number("the position in what is left", count, MAX_POSITION)

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict of JSON values.

        For example, {'format': 1, 'epoch': 0, 'position': 41, 'fingerprint': {...}}. If `unfinished` is not empty, the
        format is 2, and `blocks` is [[worker_count, block, taken, count], ...]; see `Progress.unfinished`.
        """
        state = {
            "format": FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "fingerprint": dict(self.fingerprint),
        }
        if self.unfinished:
            blocks = [[blocks.worker_count, blocks.block, blocks.taken, count] for blocks, count in self.unfinished]
            state |= {"format": FORMAT_WITH_BLOCKS, "blocks": blocks}
        return state

    @classmethod
    def from_dict(cls, state: object) -> ReadState:
        """Returns the state from a dict of `to_dict()`, which may have been saved as JSON.

        Raises:
            StateError: the dict is malformed, or has the format of a stream or of a later version.
        """
        if not isinstance(state, Mapping):
            raise StateError(
                expected=f"a state, a dict with {_join_names(_FIELDS)}",
                got=shown(state),
                advice=advice_for(state, _HINT),
            )
        number = format_number(state, FORMAT)
        if number in FORMATS_OF_STREAMS:
            raise StateError(
                "the state is of a stream, behind filter(), flat_map(), batch_by_length() or pack(), and this dataset "
                "has none of them",
                advice=_HINT,
            )
        if number not in (FORMAT, FORMAT_WITH_BLOCKS):
            raise StateError(
                expected=f"{FORMAT_WITH_BLOCKS} or lower, which this version of beam_datasets reads",
                got=shown(state["format"]),
                field="format",
                advice="Restore it with the version that saved it.",
            )
        fields = _FIELDS | {"blocks"} if number == FORMAT_WITH_BLOCKS else _FIELDS
        if set(state) != fields:
            raise StateError(
                expected=f"a state, a dict with {_join_names(fields)}",
                got=f"one with {_join_names(set(state))}",
                advice=_HINT,
            )
        return cls(state["position"], state["epoch"], state["fingerprint"], _unfinished_of(state.get("blocks", [])))

    def check(self, fingerprint: Mapping[str, str], *, num_examples: int) -> None:
        """Checks that the state can be restored.

        Args:
            fingerprint: fingerprint of the reader.
            num_examples: number of examples in an epoch of the reader.

        Raises:
            StateError: the fingerprints differ, or the position is greater; the message names the differences.
        """
        check_fingerprint(self.fingerprint, fingerprint)
        if self.position > num_examples:
            raise StateError(
                expected=f"at most {num_examples}, the number of examples in an epoch",
                got=f"{self.position}",
                field="position",
                advice=_HINT,
            )


def advice_for(state: object, advice: str) -> str:
    """Returns the advice for a value that is not a state: to read a file or a text, or else `advice`.

    >>> advice_for("run/state.json", "Start again.")
    "Read the file first, such as by json.loads(Path('run/state.json').read_text())."
    """
    if isinstance(state, (str, bytes)) and state.strip()[:1] in ("{", b"{"):
        return "Parse the text first, by json.loads."
    if isinstance(state, (str, bytes, os.PathLike)):
        return f"Read the file first, such as by json.loads(Path({os.fspath(state)!r}).read_text())."
    return advice


def format_number(state: Mapping[Any, Any], default: int) -> int | None:
    """Returns the number of a state's format; `default` if it has no format; None if it is not an integer."""
    number = state.get("format", default)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def parse_number(name: str, value: Any, max_value: int) -> int:
    """Checks and returns a number of a state, in [0, max_value].

    Args:
        name: description of the number, for the error.
        value: the number.
        max_value: greatest valid number.

    Raises:
        StateError: the value is not an integer in this range.
    """
    try:
        return integer(name, value, at_least=0, at_most=max_value)
    except (TypeError, ValueError) as error:
        raise StateError(f"{error}", advice=_HINT) from None


def parse_fingerprint(value: Any) -> dict[str, str]:
    """Checks and returns a saved fingerprint.

    Raises:
        StateError: the value is not a dict from text to text.
    """
    if not isinstance(value, Mapping):
        raise StateError(expected="a dict", got=shown(value), field="fingerprint", advice=_HINT)
    for name, text in value.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise StateError(expected="text", got=shown({name: text}), field="fingerprint", advice=_HINT)
    return dict(value)


def _unfinished_of(blocks: Any) -> Unfinished:
    """Converts the field `blocks` of a state to `ReadState.unfinished`.

    Raises:
        StateError: the field is not a list of lists of four numbers.
    """
    if not isinstance(blocks, (list, tuple)) or not all(map(_is_list_of_four, blocks)):
        raise StateError(expected="lists of four numbers", got=shown(blocks), field="blocks", advice=_HINT)
    try:
        return tuple((UnfinishedBlocks(*numbers), count) for *numbers, count in blocks)
    except (TypeError, ValueError) as error:
        raise StateError(f"{error}", field="blocks", advice=_HINT) from error


def _is_list_of_four(value: object) -> bool:
    """Returns whether a value of a state is a list of four items."""
    return isinstance(value, (list, tuple)) and len(value) == 4


def check_fingerprint(saved_fingerprint: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Checks that a saved fingerprint equals the current one of a reader.

    Raises:
        StateError: they differ; the message names the differences.
    """
    differences = [
        f"{name} was {_show_part(saved_fingerprint, name)} and is {_show_part(current, name)} now"
        for name in dict.fromkeys([*current, *saved_fingerprint])
        if saved_fingerprint.get(name) != current.get(name)
    ]
    if differences:
        is_of_worker = len(differences) == 1 and saved_fingerprint.get("worker") != current.get("worker")
        raise StateError(
            f"the state was saved while reading something else: {'; '.join(differences)}",
            got="; ".join(differences),
            advice=_HINT_FOR_WORKER if is_of_worker else _HINT,
        )


def _shorten(text: str) -> str:
    """Returns a text of at most 120 characters; of a longer one, its first 80 and "... (SHA-256 <24 digits>)"."""
    if len(text) <= _MAX_PART:
        return text
    return f"{text[: _MAX_PART - 40]}... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:24]})"


def _join_names(names: set[Any]) -> str:
    """Joins the names of a state's fields to a text for errors; at most 8 names, as a damaged state may have many."""
    first_names = sorted(map(shown, names))[: 2 * len(_FIELDS)]
    return ", ".join(first_names) or "nothing in it"


def _show_part(parts: Mapping[str, str], name: str) -> str:
    """Returns a part of a fingerprint for errors; "not there" if it is missing."""
    return shown(parts[name]) if name in parts else "not there"
