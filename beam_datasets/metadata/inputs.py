"""Which files a version was built from: inputs.json, which is not part of the version's digest.

The same files on another disk, in another directory or in an object store make the same version.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

INPUTS_FILE = "inputs.json"

Stamp: TypeAlias = "tuple[int, float]"
"""A file's size in bytes, and the time of its last change in seconds since the epoch."""


@dataclass(frozen=True)
class Inputs:
    """The files that a version was built from, and the columns that they have.

    Attributes:
        files: name -> size and time of the last change.
        columns: name -> type, as `features` of a builder of files takes it.
        key: the option that decides the keys of rows; '' for none, None if it is unknown.
        splits: the options that decide the splits of rows; '' if their files do, None if they are unknown.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    splits: str | None = None

    def to_text(self) -> str:
        """Returns the text of inputs.json."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_text(cls, text: str | bytes) -> Inputs | None:
        """Returns what an inputs.json contains; None if it is damaged.

        >>> Inputs.from_text(Inputs({"a.csv": (7, 1.5)}, {"id": "int64"}, "--key id").to_text())
        Inputs(files={'a.csv': (7, 1.5)}, columns={'id': 'int64'}, key='--key id', splits=None)
        """
        try:
            content = json.loads(text)
            files = {name: (int(size), float(time)) for name, (size, time) in content["files"].items()}
            options = (value if isinstance(value := content.get(name), str) else None for name in ("key", "splits"))
            return cls(files, {name: str(spec) for name, spec in content["columns"].items()}, *options)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
