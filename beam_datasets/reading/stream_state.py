"""The saved state of a stream: the position in the dataset, and the positions of the items that links hold.

`{"format": 4, "epoch": 0, "position": 41, "held": [{"bins": [[38, 40]]}, {}], "check": "...", "fingerprint": {...}}`.
`held` has a dict for each link and one for what is to be handed out, or nothing if nothing is held. Which items that
is depends on the examples, so the numbers alone do not show that a state is damaged: `check` is a hash of them. States
of format 3 have none. A part that `flat_map()` or `chunk()` made of item 41 is `{"of": 41, "part": 2}`, and
`"parts": [41, 3]` are those of it from number 3 on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from beam_datasets.arguments import shown
from beam_datasets.errors import StateError
from beam_datasets.reading.state import FORMATS_OF_STREAMS, MAX_POSITION, checked, checked_fingerprint, format_of

Unit: TypeAlias = Any
"""The origin of an item: its position in the dataset, a list of units for an item that a group made, or a dict of a
unit and a number for a part of an item."""

Origin: TypeAlias = "tuple[str, ...]"
"""The links that made an item of others, in order: 'group' of several, 'part' a part of one."""

_WITHOUT_CHECK, _FORMAT = FORMATS_OF_STREAMS
_FIELDS = {"format", "epoch", "position", "held", "fingerprint"}
_HINT = "Restore it with the operations that it was saved with, or begin anew."


@dataclass(frozen=True)
class Held:
    """The items that one operation of a stream holds between two outputs.

    Attributes:
        queue: items that it has not processed yet.
        bins: items of its incomplete groups.
        count: number of items that a `skip()` or `take()` has seen.
        parts: an item whose parts it passes on, and the number of the next one; empty if there is none.
    """

    queue: Sequence[Unit] = ()
    bins: Sequence[Sequence[Unit]] = ()
    count: int = 0
    parts: Sequence[Any] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes that are not empty, by name."""
        return {name: what for name, what in vars(self).items() if what}


@dataclass(frozen=True)
class StreamState:
    """The position of a stream.

    Attributes:
        epoch: epoch of the dataset, or, after a group, of the stream.
        position: number of examples of the dataset that were read in the epoch.
        held: items that each operation holds, and last the output that was not yielded yet; empty if there are none.
        fingerprint: the result of `state.fingerprint()`, which identifies the order.
    """

    epoch: int
    position: int
    held: tuple[Held, ...]
    fingerprint: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("epoch", "position"):
            object.__setattr__(self, name, checked(f"the state's {name}", getattr(self, name), MAX_POSITION))
        object.__setattr__(self, "fingerprint", checked_fingerprint(self.fingerprint))

    @property
    def is_beginning(self) -> bool:
        """Whether nothing of the epoch was read."""
        return not self.position and not self.held

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict that JSON can hold."""
        held = [part.to_dict() for part in self.held]
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "held": held if any(held) else [],
            "check": self._check(),
            "fingerprint": dict(self.fingerprint),
        }

    def _check(self) -> str:
        parts = [[part.queue, part.bins, part.count, *filter(None, [part.parts])] for part in self.held]
        empty = [[], [], 0]
        numbers = [self.epoch, self.position, parts if any(part != empty for part in parts) else []]
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:24]

    @classmethod
    def from_dict(cls, state: object, origins: Sequence[Origin]) -> StreamState:
        """Returns the state of a dict that `to_dict()` gave, also after a way through JSON.

        Args:
            state: the dict.
            origins: of the items before each link and of what is handed out.

        Raises:
            StateError: it is not such a dict, or of other links.
        """
        number = format_of(state, 0) if isinstance(state, Mapping) else None
        fields = _FIELDS if number == _WITHOUT_CHECK else _FIELDS | {"check"}
        if not isinstance(state, Mapping) or set(state) != fields or number not in FORMATS_OF_STREAMS:
            raise StateError(
                f"a stream's state is a dict of format {_FORMAT} with the fields {sorted(_FIELDS | {'check'})}, got "
                f"{shown(state)}. {_HINT}"
            )
        position = checked("the state's position", state["position"], MAX_POSITION)
        held = _held_of(state["held"], origins, position)
        found = cls(state["epoch"], position, held, state["fingerprint"])
        items = list(_items(held))
        if len(set(items)) < len(items):
            raise StateError(f"the state is damaged: expected each example once in what is held. {_HINT}")
        if number == _FORMAT and state["check"] != found._check():
            raise StateError(
                f"the state is damaged: expected numbers with the check sum {shown(state['check'])}. Begin anew, or "
                "at another state."
            )
        return found


def _held_of(value: Any, origins: Sequence[Origin], position: int) -> tuple[Held, ...]:
    """Returns what the links hold, from a state."""
    if not isinstance(value, (list, tuple)) or (value and len(value) != len(origins)):
        raise StateError(f"the state's held: expected none or {len(origins)} dicts, got {shown(value)}. {_HINT}")
    found = []
    for part, origin in zip(value, origins):
        if not isinstance(part, Mapping) or not set(part) <= {"queue", "bins", "count", "parts"}:
            raise StateError(f"the state's held: expected queue, bins, count and parts, got {shown(part)}. {_HINT}")
        bins, parts = _list_of(part.get("bins", [])), _list_of(part.get("parts", []))
        if len(parts) not in (0, 2):
            raise StateError(f"the state's parts: expected an item and a number, got {shown(parts)}. {_HINT}")
        most = MAX_POSITION if "part" in origin else position
        found.append(
            Held(
                [_unit(unit, origin, position) for unit in _list_of(part.get("queue", []))],
                [[_unit(unit, origin, position) for unit in _list_of(units)] for units in bins],
                checked("the state's count", part.get("count", 0), most),
                parts and [_unit(parts[0], origin, position), checked("the state's part", parts[1], MAX_POSITION)],
            )
        )
    return tuple(found)


def _unit(value: Any, origin: Origin, position: int) -> Unit:
    """Returns what an item of this origin was made of, of examples before a position."""
    if not origin:
        return checked("a held position", value, position - 1)
    *before, last = origin
    if last == "part":
        if not isinstance(value, Mapping) or set(value) != {"of", "part"}:
            raise StateError(f"the state's held: expected a part of an item, got {shown(value)}. {_HINT}")
        number = checked("the state's part", value["part"], MAX_POSITION)
        return {"of": _unit(value["of"], tuple(before), position), "part": number}
    units = [_unit(unit, tuple(before), position) for unit in _list_of(value)]
    if not units:
        raise StateError(f"the state is damaged: expected items in each group that is held. {_HINT}")
    return units


def _items(value: Any) -> Iterator[Any]:
    """Yields the positions of what is held, and the parts of items as text."""
    if isinstance(value, Held):
        yield from _items([value.queue, value.bins])
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _items(inner)
    else:
        yield json.dumps(value) if isinstance(value, dict) else value


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise StateError(f"the state's held: expected a list, got {shown(value)}. {_HINT}")
    return list(value)


def leaves(value: Any) -> Iterator[int]:
    """Yields the positions of what is held."""
    if isinstance(value, Held):
        yield from leaves([value.queue, value.bins, *value.parts[:1]])
    elif isinstance(value, dict):
        yield from leaves(value["of"])
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value
