"""Saved state of a stream: the position in the dataset, and the positions of the items that links hold.

`{"format": 4, "epoch": 0, "position": 41, "held": [{"bins": [[38, 40]]}, {}], "check": "...", "fingerprint": {...}}`.
`held` has a dict for each link and one for the items that were not yielded yet; it is empty if no item is held. The
held items depend on the examples, so damaged numbers could still look valid: `check` is a hash of them. States of
format 3 have no `check`. Part 2 that `flat_map()` or `chunk()` made of item 41 is `{"of": 41, "part": 2}`; in a queue,
`{"of": 41, "from": 3}` identifies all its parts from number 3 on. The state of a mixture of streams also has `sources`,
the state of each source; an item of a source is `{"source": 1, "epoch": 0, "of": 41}`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from beam_datasets.arguments import shown
from beam_datasets.errors import StateError
from beam_datasets.reading.checkpoint import (
    FORMATS_OF_STREAMS,
    advice_for,
    format_number,
    parse_fingerprint,
    parse_number,
)
from beam_datasets.reading.index.division import MAX_POSITION

Unit: TypeAlias = Any
"""Identifies an item by the positions that it was made of: the position in the dataset; a list of units for a group; or
a dict of a unit and a number for a part of an item."""

Origin: TypeAlias = "tuple[str, ...]"
"""The kinds of links that items have passed, in order: 'group' makes one item of several, 'part' several of one."""

OfBase: TypeAlias = "Callable[[Any], Unit] | None"
"""Checks and returns a unit of the base, from a state; None if the base is a dataset, whose units are positions."""

_WITHOUT_CHECK, _FORMAT = FORMATS_OF_STREAMS
_FIELDS = {"format", "epoch", "position", "held", "fingerprint"}
HINT = "Restore it with the operations that it was saved with, or start from the beginning."


@dataclass(frozen=True)
class Held:
    """The items that one link of a stream holds between two outputs.

    Attributes:
        queue: items that the link has not processed yet.
        bins: items of the link's incomplete groups.
        count: number of items that a `skip()` or `take()` has seen.
    """

    queue: Sequence[Unit] = ()
    bins: Sequence[Sequence[Unit]] = ()
    count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the attributes that are not empty, by name.

        >>> Held(bins=[[38, 40]]).to_dict()
        {'bins': [[38, 40]]}
        """
        return {name: value for name, value in vars(self).items() if value}


@dataclass(frozen=True)
class StreamState:
    """The position of a stream.

    Attributes:
        epoch: epoch of the dataset; of the stream if `repeat()` follows a group.
        position: number of examples of the dataset that were read in the epoch.
        held: items that each link holds, followed by the items that were not yielded yet; empty if there are none.
        fingerprint: the result of `checkpoint.fingerprint()`, which identifies the order.
    """

    epoch: int
    position: int
    held: tuple[Held, ...]
    fingerprint: Mapping[str, str]

    def __post_init__(self) -> None:
        """Checks the epoch, the position and the fingerprint; raises a StateError."""
        for name in ("epoch", "position"):
            object.__setattr__(self, name, parse_number(f"the state's {name}", getattr(self, name), MAX_POSITION))
        object.__setattr__(self, "fingerprint", parse_fingerprint(self.fingerprint))

    @property
    def is_beginning(self) -> bool:
        """Whether nothing of the epoch was read."""
        return not self.position and not self.held

    def to_dict(self) -> dict[str, Any]:
        """Returns the state as a dict of JSON values; the docstring of the module shows one."""
        held_dicts = [link_held.to_dict() for link_held in self.held]
        return {
            "format": _FORMAT,
            "epoch": self.epoch,
            "position": self.position,
            "held": held_dicts if any(held_dicts) else [],
            "check": self._compute_check(),
            "fingerprint": dict(self.fingerprint),
        }

    def _compute_check(self) -> str:
        """Returns the field `check`: a hash of the epoch, the position and the held items, 24 hexadecimal digits."""
        parts = [[link_held.queue, link_held.bins, link_held.count] for link_held in self.held]
        empty = [[], [], 0]
        numbers = [self.epoch, self.position, parts if any(link_held != empty for link_held in parts) else []]
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:24]

    @classmethod
    def from_dict(cls, state: object, origins: Sequence[Origin], of_base: OfBase = None) -> StreamState:
        """Returns the state from a dict of `to_dict()`, which may have been saved as JSON.

        Args:
            state: the dict.
            origins: origins of the items before each link, then of the items that the stream yields.
            of_base: checks a unit of the base; None if the base is a dataset, whose units are positions.

        Raises:
            StateError: the dict is malformed or damaged, or belongs to a stream with other links.
        """
        number = format_number(state, 0) if isinstance(state, Mapping) else None
        fields = _FIELDS if number == _WITHOUT_CHECK else _FIELDS | {"check"}
        if not isinstance(state, Mapping) or set(state) != fields or number not in FORMATS_OF_STREAMS:
            raise StateError(
                expected=f"a stream's state, a dict of format {_FORMAT} with the fields {sorted(_FIELDS | {'check'})}",
                got=shown(state),
                advice=advice_for(state, HINT),
            )
        position = parse_number("the state's position", state["position"], MAX_POSITION)
        held_items = _held_of(state["held"], origins, position, of_base)
        result = cls(state["epoch"], position, held_items, state["fingerprint"])
        items = list(_held_units(held_items))
        if len(set(items)) < len(items):
            raise StateError(f"the state is damaged: expected each example once in what is held. {HINT}")
        if number == _FORMAT and state["check"] != result._compute_check():
            raise StateError(
                f"the state is damaged: expected numbers with the checksum {shown(state['check'])}",
                field="check",
                advice="Start from the beginning, or from another state.",
            )
        return result


def _held_of(value: Any, origins: Sequence[Origin], position: int, of_base: OfBase) -> tuple[Held, ...]:
    """Checks and converts the field `held` of a state.

    Args:
        value: the field.
        origins: origins of the items before each link, then of the items that the stream yields.
        position: the position of the state.
        of_base: checks a unit of the base; None if the base is a dataset.

    Returns:
        The held items of each link, followed by the items that were not yielded yet.

    Raises:
        StateError: the field is malformed, or has another number of links.
    """
    if not isinstance(value, (list, tuple)) or (value and len(value) != len(origins)):
        raise StateError(expected=f"none or {len(origins)} dicts", got=shown(value), field="held", advice=HINT)
    parts = []
    for link_state, origin in zip(value, origins):
        if not isinstance(link_state, Mapping) or not set(link_state) <= {"queue", "bins", "count"}:
            raise StateError(expected="queue, bins and count", got=shown(link_state), field="held", advice=HINT)
        bins = _to_list(link_state.get("bins", []))
        max_count = MAX_POSITION if "part" in origin else position
        parts.append(
            Held(
                [
                    unit_of(unit, origin, position, of_base, in_queue=True)
                    for unit in _to_list(link_state.get("queue", []))
                ],
                [[unit_of(unit, origin, position, of_base) for unit in _to_list(units)] for units in bins],
                parse_number("the state's count", link_state.get("count", 0), max_count),
            )
        )
    return tuple(parts)


def unit_of(value: Any, origin: Origin, position: int, of_base: OfBase, *, in_queue: bool = False) -> Unit:
    """Checks and returns the unit of an item from a state.

    Args:
        value: the unit as the state contains it.
        origin: the kinds of links that the item has passed.
        position: the position of the state; the positions in the unit must be less.
        of_base: checks a unit of the base; None if the base is a dataset.
        in_queue: whether the unit may identify all remaining parts of an item, as {"of": 41, "from": 3} does.

    Raises:
        StateError: the value is not a unit of an item that has passed these links.

    >>> unit_of([{"of": 38, "part": 0}, {"of": 41, "part": 2}], ("part", "group"), 42, None)
    [{'of': 38, 'part': 0}, {'of': 41, 'part': 2}]
    """
    if not origin:
        return parse_number("a held position", value, position - 1) if of_base is None else of_base(value)
    *outer_origin, last = origin
    if last == "part":
        name = "from" if in_queue and isinstance(value, Mapping) and "from" in value else "part"
        if not isinstance(value, Mapping) or set(value) != {"of", name}:
            raise StateError(expected="a part of an item", got=shown(value), field="held", advice=HINT)
        number = parse_number("the state's part", value[name], MAX_POSITION)
        return {"of": unit_of(value["of"], tuple(outer_origin), position, of_base), name: number}
    units = [unit_of(unit, tuple(outer_origin), position, of_base) for unit in _to_list(value)]
    if not units:
        raise StateError(f"the state is damaged: expected items in each group that is held. {HINT}")
    return units


def _held_units(value: Any) -> Iterator[Any]:
    """Yields the units in held items, with groups replaced by their units: positions, and JSON texts of dicts.

    The units are hashable, to find duplicates.

    >>> list(_held_units([[38, 40], {"of": 41, "part": 2}]))
    [38, 40, '{"of": 41, "part": 2}']
    """
    if isinstance(value, Held):
        yield from _held_units([value.queue, value.bins])
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _held_units(inner)
    else:
        yield json.dumps(value) if isinstance(value, dict) else value


def _to_list(value: Any) -> list[Any]:
    """Converts a list or tuple of a state to a list; raises a StateError for other values."""
    if not isinstance(value, (list, tuple)):
        raise StateError(expected="a list", got=shown(value), field="held", advice=HINT)
    return list(value)


def leaves(value: Any) -> Iterator[Unit]:
    """Yields the units of the base from which held items were made: positions, or dicts with a `source`.

    >>> list(leaves([[38, 40], {"of": 41, "part": 2}]))
    [38, 40, 41]
    """
    if isinstance(value, Held):
        yield from leaves([value.queue, value.bins])
    elif isinstance(value, dict) and "source" not in value:
        yield from leaves(value["of"])
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value
