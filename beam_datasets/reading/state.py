"""The saved state of a reader: where it is, and what it must be reading for that to mean anything.

A state is a small dict that JSON can hold, of the same few hundred bytes whatever the dataset's size:
`{"format": 1, "epoch": 2, "position": 4711, "fingerprint": {"dataset": "digits", "version": "1.0.0", ...}}`.
The position counts examples in the read order of the epoch. How many workers there were, batch sizes and threads are no
part of it, so all of these may change. The fingerprint names all that the order is a function of, in words where they
are few, so that a state that does not fit can say why.

The format is read by later versions: a change to the meaning of a field needs a new number of format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from beam_datasets.errors import StateError

FORMAT = 1
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
    """

    position: int = 0
    epoch: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict, hash=False)

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
        return ReadState, (self.position, self.epoch, dict(self.fingerprint))

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict that JSON can hold."""
        return {
            "format": FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "fingerprint": dict(self.fingerprint),
        }

    @classmethod
    def from_dict(cls, state: object) -> ReadState:
        """Returns the state of a dict that `to_dict()` gave, also after a way through JSON.

        Raises:
            StateError: it is no such dict, or of a later format.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a state is a dict with {_named(_FIELDS)}, got {_brief(repr(state))}. {_HINT}")
        if state.get("format", FORMAT) != FORMAT:
            raise StateError(
                f"the state has format {state['format']!r}, but this version of beam_datasets reads format {FORMAT} "
                "only. Restore it with the version that saved it."
            )
        if set(state) != _FIELDS:
            raise StateError(f"a state is a dict with {_named(_FIELDS)}, got one with {_named(set(state))}. {_HINT}")
        return cls(state["position"], state["epoch"], state["fingerprint"])

    def check(self, fingerprint: Mapping[str, str], *, num_examples: int) -> None:
        """Does nothing where the state fits a reader with this fingerprint and this many examples an epoch.

        Raises:
            StateError: it does not; the message says what differs.
        """
        names = dict.fromkeys([*fingerprint, *self.fingerprint])
        differences = [
            f"{name} was {_shown(self.fingerprint, name)} and is {_shown(fingerprint, name)} now"
            for name in names
            if self.fingerprint.get(name) != fingerprint.get(name)
        ]
        if differences:
            raise StateError(f"the state was saved while reading something else: {'; '.join(differences)}. {_HINT}")
        if self.position > num_examples:
            raise StateError(
                f"the state's position is {self.position}, but an epoch has {num_examples} examples. {_HINT}"
            )


def _brief(text: str) -> str:
    """The text where it is short, else its beginning and its hash."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 40]}... (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:24]})"


def _named(names: set[Any]) -> str:
    return ", ".join(sorted(map(repr, names))) or "nothing in it"


def _shown(parts: Mapping[str, str], name: str) -> str:
    return repr(parts[name]) if name in parts else "not there"
