"""Patterns of files, in Python's dialect of `glob`, the same for local paths and URLs.

`*`, `?` and `[...]` match within a name. `**` as a whole name matches any number of folders, also none: `x/**/*.txt`
matches `x/top.txt`. Wildcards do not match names that begin with `.` or `_`, such as `_temporary` of Spark and
`.ipynb_checkpoints`, unless the pattern's name begins so too. Links are followed, each folder once on a path; a link
that leads nowhere is matched as a file, so that reading it is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.intake.errors import reason
from beam_datasets.intake.streams import file_systems

WILDCARDS = "*?["


class FoundFile(NamedTuple):
    """A file that matches.

    Attributes:
        path: of the file.
        size: in bytes, as stored; 0 of a link that leads nowhere.
        modified: seconds since the epoch of its last change; 0 if its file system does not record it.
    """

    path: str
    size: int
    modified: float


def has_wildcards(pattern: str) -> bool:
    """Returns whether a pattern contains `*`, `?` or `[`."""
    return any(mark in pattern for mark in WILDCARDS)


def fixed_folder(pattern: str) -> str:
    """Returns the part of a pattern before the first name with a wildcard, with its last separator.

    >>> fixed_folder("s3://bucket/day=*/a.csv"), fixed_folder("/data/**")
    ('s3://bucket/', '/data/')
    """
    first = min([len(pattern), *(pattern.find(mark) for mark in WILDCARDS if mark in pattern)])
    return pattern[: max(pattern.rfind("/", 0, first), pattern.rfind(os.sep, 0, first)) + 1]


def files_below(folder: str, pattern: str, hidden: tuple[str, ...] = (".", "_")) -> list[FoundFile]:
    """Returns the files below a folder that match a pattern, in no particular order.

    Args:
        folder: an absolute path, or a URL, with its last separator; wildcards in it have no meaning.
        pattern: relative to the folder, with `/`.
        hidden: what names begin with that wildcards do not match.

    Raises:
        InputError: a folder cannot be listed.
    """
    names = pattern.split("/")
    is_wanted = re.compile(_regex(names, hidden)).fullmatch
    if "://" in folder:
        files = _files_in_store(folder, pattern)
    else:
        files = _files_on_disk(folder, None if "**" in names else len(names))
    return [file for file in files if is_wanted(file.path[len(folder) :].replace(os.sep, "/"))]


_TOKEN = re.compile(r"(?P<any>\*+)|(?P<one>\?)|\[(?P<negated>!?)(?P<set>\]?[^\]]*)\]|(?P<literal>.)", re.DOTALL)


def _regex(names: list[str], hidden: tuple[str, ...]) -> str:
    """Returns the regular expression of the paths, relative to the fixed folder, that match the names of a pattern."""
    not_hidden = f"(?![{re.escape(''.join(hidden))}])" if hidden else ""
    *folders, last = names
    parts = [f"(?:{not_hidden}[^/]+/)*" if name == "**" else f"{_name_regex(name, not_hidden)}/" for name in folders]
    parts.append(f"(?:{not_hidden}[^/]+/)*{not_hidden}[^/]+" if last == "**" else _name_regex(last, not_hidden))
    return "".join(parts)


def _name_regex(name: str, not_hidden: str) -> str:
    """Returns the regular expression of one name of a pattern.

    >>> re.fullmatch(_name_regex("a*.[!x]?v", ""), "a1.csv") is not None
    True
    """

    def translated(token: re.Match[str]) -> str:
        if token["any"]:
            return "[^/]*"
        if token["one"]:
            return "[^/]"
        if token["set"] is None:
            return re.escape(token["literal"])
        characters = token["set"].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
        characters = f"\\{characters}" if characters.startswith("]") else characters
        return f"[{'^/' if token['negated'] else ''}{characters}]"

    return not_hidden * name.startswith(tuple(WILDCARDS)) + _TOKEN.sub(translated, name)


def _files_on_disk(folder: str, depth: int | None) -> Iterator[FoundFile]:
    """Yields the files below a local folder, at most `depth` names deep.

    Links to folders are followed, unless they lead to a folder that they are in.
    """
    pending = [(folder, 1, frozenset[tuple[int, int]]())]
    while pending:
        current, level, above = pending.pop()
        try:
            entries = list(os.scandir(current or "."))
        except OSError as error:
            if current == folder:
                return  # there is no such folder, so nothing matches
            raise InputError(f"{current} cannot be listed: {reason(error)}") from None
        status = os.stat(current)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            continue
        for entry in entries:
            if not entry.is_dir():
                if (found := found_file(entry.path)) is not None:
                    yield found
            elif depth is None or level < depth:
                pending.append((entry.path, level + 1, above | {identity}))


def found_file(path: str) -> FoundFile | None:
    """Returns a local file; None if it is no file, such as a pipe, or was deleted meanwhile."""
    try:
        status = os.stat(path)
    except OSError:
        return FoundFile(path, 0, 0.0) if os.path.islink(path) else None
    return FoundFile(path, status.st_size, round(status.st_mtime, 3)) if os.path.isfile(path) else None


def _files_in_store(folder: str, pattern: str) -> Iterator[FoundFile]:
    """Yields the files of a store whose paths begin as a pattern does before its first wildcard.

    Raises:
        InputError: the store cannot be listed.
    """
    first = re.search(r"[*?\[]", pattern)
    listed = folder + (f"{pattern[: first.start()]}**" if first else pattern)
    try:
        [result] = _listed_by_beam(listed)
    except MissingDependencyError:
        raise
    except Exception as error:  # each client of a store has its own
        problem = f"expected files that can be listed, got an error: {reason(error)}"
        raise InputError(f"{folder}{pattern}: {problem}") from error
    for found in result.metadata_list:
        yield FoundFile(found.path, found.size_in_bytes, round(found.last_updated_in_seconds, 3))


def _listed_by_beam(pattern: str) -> Any:
    systems = file_systems()
    try:
        return systems.match([pattern])
    except Exception as error:  # one of Beam's own
        if "options" not in str(error):
            raise
        from apache_beam.options.pipeline_options import PipelineOptions

        # S3 and HDFS need options, which a process lacks that has made no pipeline.
        systems.set_options(PipelineOptions([]))
        return systems.match([pattern])
