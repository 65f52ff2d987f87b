"""The saved state of a reader: where it is, and what it must be reading for that to mean anything.

A state is a small dict that JSON can hold, of the same few hundred bytes whatever the dataset's size:
`{"format": 1, "epoch": 2, "position": 4711, "fingerprint": {"dataset": "digits", "version": "1.0.0", ...}}`.
The position counts examples in the read order of the epoch. Where workers were in the middle of their blocks, `blocks`
says more: of each, how many workers there were, the block, and how many of its examples each had taken; and, where that
is read on by others, how many of what was left they have taken. The number of workers, batch sizes and threads may
change. The fingerprint names all that the order is a function of, in words where they
are few, so that a state that does not fit can say why.

The format is read by later versions: a change to the meaning of a field needs a new number of format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from beam_datasets.arguments import integer
from beam_datasets.errors import StateError
from beam_datasets.reading.positions import Partial

FORMAT, FORMAT_WITH_BLOCKS, FORMAT_OF_STREAMS = 1, 2, 3
_FIELDS = {"format", "epoch", "position", "fingerprint"}
_LONGEST = 120  # characters of a part of a fingerprint that are kept in words
_HINT = "Restore it with the dataset, split and configuration that it was saved with, or begin anew."


def fingerprint(
    *,
    dataset: str,
    version: str,
    digest: str,
    slices: Sequence[tuple[str, int, int]],
    read_config: Mapping[str, int | str],
    operations: Sequence[str] = (),
) -> dict[str, str]:
    """Returns what a reader's order depends on, by name, each in at most about a hundred characters.

    Args:
        dataset: name, with the config where there is one.
        version: of the dataset.
        digest: of the published version, so that another one of the same name is noticed.
        slices: the (split, start, stop) that the split expression stands for, in its order.
        read_config: what of the read config the order depends on (`ReadConfig.order_key`).
        operations: what is done to the order, one after the other, like `shuffle(window=1000, seed=3)`. Operations that
            keep it are left out, so that they may change.

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
    return {name: _brief(text) for name, text in parts.items()}


@dataclass(frozen=True)
class ReadState:
    """Where a reader is.

    Attributes:
        position: how many examples of the epoch were read, at least 0.
        epoch: how many epochs were read before, at least 0.
        fingerprint: what the order depends on, as `fingerprint()` gives it.
        partials: where workers are in the middle of blocks from the position on; each with a position in what is left,
            where the next one's blocks begin, or reading goes on.
    """

    position: int = 0
    epoch: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict, hash=False)
    partials: tuple[tuple[Partial, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("position", "epoch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise StateError(f"the state's {name} must be an int, got {value!r}. {_HINT}")
            if value < 0:
                raise StateError(f"the state's {name} must be at least 0, got {value}. {_HINT}")
        if not isinstance(self.fingerprint, Mapping):
            raise StateError(f"the state's fingerprint must be a dict, got {self.fingerprint!r}. {_HINT}")
        object.__setattr__(self, "fingerprint", MappingProxyType(dict(self.fingerprint)))

    def __reduce__(self) -> tuple[Any, ...]:  # mapping proxies do not pickle
        return ReadState, (self.position, self.epoch, dict(self.fingerprint), self.partials)

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict that JSON can hold."""
        state = {
            "format": FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "fingerprint": dict(self.fingerprint),
        }
        if self.partials:
            blocks = [[some.worker_count, some.block, some.taken, count] for some, count in self.partials]
            state |= {"format": FORMAT_WITH_BLOCKS, "blocks": blocks}
        return state

    @classmethod
    def from_dict(cls, state: object) -> ReadState:
        """Returns the state of a dict that `to_dict()` gave, also after a way through JSON.

        Raises:
            StateError: it is not such a dict, or of a later format.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a state is a dict with {_named(_FIELDS)}, got {_brief(repr(state))}. {_HINT}")
        if state.get("format") == FORMAT_OF_STREAMS:
            raise StateError(
                "the state is of a stream, behind filter(), batch_by_length() or pack(), and this dataset has none of "
                f"them. {_HINT}"
            )
        if state.get("format", FORMAT) not in (FORMAT, FORMAT_WITH_BLOCKS):
            raise StateError(
                f"the state has format {state['format']!r}, but this version of beam_datasets reads format "
                f"{FORMAT_WITH_BLOCKS} and older only. Restore it with the version that saved it."
            )
        fields = _FIELDS | {"blocks"} if state.get("format") == FORMAT_WITH_BLOCKS else _FIELDS
        if set(state) != fields:
            raise StateError(f"a state is a dict with {_named(fields)}, got one with {_named(set(state))}. {_HINT}")
        try:
            partials = tuple(
                (Partial(*numbers), integer("the position in what is left", count, at_least=0))
                for *numbers, count in state.get("blocks", ())
            )
        except (TypeError, ValueError) as error:
            raise StateError(f"the state's blocks: expected lists of four numbers, got {error}. {_HINT}") from error
        return cls(state["position"], state["epoch"], state["fingerprint"], partials)

    def check(self, fingerprint: Mapping[str, str], *, num_examples: int) -> None:
        """Checks that the state fits a reader with this fingerprint and this many examples an epoch.

        Raises:
            StateError: it does not; the message says what differs.
        """
        if ", sort=" in self.fingerprint.get("read_config", ""):
            raise StateError(
                f"the state's read_config is {self.fingerprint['read_config']!r}: expected the order of the files, got "
                "the name of the function that made it, as earlier versions saved it. Whether the order is the same "
                "cannot be checked: begin anew, or, if you know that it is, put the fingerprint that a new iterator's "
                "get_state() has in its place."
            )
        check_fingerprint(self.fingerprint, fingerprint)
        if self.position > num_examples:
            raise StateError(
                f"the state's position is {self.position}, but an epoch has {num_examples} examples. {_HINT}"
            )


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Checks that a saved fingerprint is that of a reader.

    Raises:
        StateError: it is not; the message names what differs.
    """
    differences = [
        f"{name} was {_shown(saved, name)} and is {_shown(now, name)} now"
        for name in dict.fromkeys([*now, *saved])
        if saved.get(name) != now.get(name)
    ]
    if differences:
        raise StateError(f"the state was saved while reading something else: {'; '.join(differences)}. {_HINT}")


def _brief(text: str) -> str:
    """The text where it is short, else its beginning and its hash."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 40]}... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:24]})"


def _named(names: set[Any]) -> str:
    return ", ".join(sorted(map(repr, names))) or "nothing in it"


def _shown(parts: Mapping[str, str], name: str) -> str:
    return repr(parts[name]) if name in parts else "not there"
