"""Classification of the frames of a traceback: of this package, of a library, or of the author of a dataset.

A traceback may come as text from a worker, where all of these are in other directories.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).parent
_IN_PACKAGE = re.compile(rf".*[/\\]{_PACKAGE.name}[/\\](.+\.py)$")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_RUNNING = re.compile(  # the interpreter with its standard library, the engine, and compiled modules of any library
    rf"^<(?!stdin|ipython)|\.p(?:yx|xd|xi)$|^{re.escape(sysconfig.get_path('stdlib'))}[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]"
    r"|(?:^|[/\\])(?:apache_beam|grpc)[/\\]"
)


_BEAM = re.compile(r"(?:^|[/\\])(?:apache_beam|grpc)[/\\]")


class Frame(NamedTuple):
    """A place that an error came through."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def of(error: BaseException) -> list[Frame]:
    """Returns the places that an error came through, the innermost last."""
    return [Frame(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)]


def is_own(file: str) -> bool:
    """Returns whether a file belongs to this package, here or where it is installed on another machine.

    A folder of other files may have the package's name.

    >>> is_own("/there/beam_datasets/shuffle/plan.py"), is_own("/home/me/beam_datasets/my.py")
    (True, False)
    """
    match = _IN_PACKAGE.match(file)
    return match is not None and (_PACKAGE / match[1].replace("\\", "/")).is_file()


def is_beam(file: str) -> bool:
    """Returns whether a file is one of Beam, or of gRPC, by which its processes talk to each other.

    >>> is_beam("/usr/lib/python3/site-packages/apache_beam/pipeline.py"), is_beam("/home/me/my_apache_beam.py")
    (True, False)
    """
    return _BEAM.search(file) is not None


def is_authors(file: str) -> bool:
    """Returns whether a file belongs neither to this package nor to Python, Beam or another installed package."""
    return not (is_own(file) or _INSTALLED.search(file) or _is_running(file))


def last_of_author(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame of the author's code; None if it is not in the traceback."""
    return next((frame for frame in reversed(frames) if is_authors(frame.file)), None)


def entry_of_installed(frames: Sequence[Frame]) -> Frame | None:
    """Returns the outermost frame of an installed package: workers may have the author's code as such a one."""
    installed = (frame for frame in frames if _INSTALLED.search(frame.file))
    return next((frame for frame in installed if not (is_own(frame.file) or _is_running(frame.file))), None)


def format_location(where: Sequence[str], frames: Sequence[Frame]) -> str:
    """Returns the end of an error message: details, then the location in the author's code; '' if both are empty."""
    frame = last_of_author(frames) or entry_of_installed(frames)
    words = ", ".join([*where, f"at {frame}"] if frame else where)
    return f"\n  ({words})" if words else ""


def _is_running(file: str) -> bool:
    """Returns whether a file belongs to the interpreter, the standard library or Beam, or is compiled."""
    return _RUNNING.search(_INSTALLED.split(file)[-1]) is not None
