"""File patterns in the syntax of Python's `glob`, for local paths and URLs alike.

`*`, `?` and `[...]` match within one name of a path. `**` as a whole name matches any number of folders, including
none: `x/**/*.txt` matches `x/top.txt`. Wildcards do not match names that begin with `.` or `_`, such as `_temporary`
of Spark and `.ipynb_checkpoints`, unless that name of the pattern begins with the same character. Links to folders are
followed, except into a folder that contains them. A broken link matches as a file, so that reading it is an error.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import queue
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.intake.errors import reason
from beam_datasets.intake.streams import file_systems
from beam_datasets.passwords import PASSWORD_OF_URL

log = logging.getLogger(__name__)
WILDCARDS = "*?["
BROKEN_LINK, _FOLDER = "a broken link", "a folder"
_SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: _FOLDER}
_EXTRAS = {"gs": "gcp", "s3": "aws", "azfs": "azure", "hdfs": "hadoop"}  # scheme -> extra of Beam; it may know others
_MAX_WAIT = 60.0  # seconds for the first answer of a store; some clients try again for 10 minutes
_WAYS = {
    **dict.fromkeys(("http", "https", "ftp"), "Download the file"),
    **dict.fromkeys(("s3a", "s3n"), "Write s3://"),
}


class ListedFile(NamedTuple):
    """A file in a listing of a folder or store.

    Attributes:
        path: path or URL of the file.
        size: stored size in bytes; 0 for a broken link.
        modified: time of the last change in seconds since the epoch; 0 if the file system does not record it.
        special: what it is if it is no file with content, such as "a pipe"; '' for a file.
    """

    path: str
    size: int
    modified: float
    special: str = ""


def has_wildcards(pattern: str) -> bool:
    """Returns whether a pattern contains `*`, `?` or `[`."""
    return any(mark in pattern for mark in WILDCARDS)


def fixed_folder(pattern: str) -> str:
    """Returns the folder of a pattern up to its first name with a wildcard, with its last separator.

    >>> fixed_folder("s3://bucket/day=*/a.csv"), fixed_folder("/data/**")
    ('s3://bucket/', '/data/')
    """
    first_wildcard = min([len(pattern), *(pattern.find(mark) for mark in WILDCARDS if mark in pattern)])
    return pattern[: max(pattern.rfind("/", 0, first_wildcard), pattern.rfind(os.sep, 0, first_wildcard)) + 1]


def files_below(
    folder: str,
    pattern: str,
    hidden: tuple[str, ...] = (".", "_"),
    table_error: Callable[[str, str], InputError | None] | None = None,
) -> list[ListedFile]:
    """Returns the files below a folder that match a pattern, in no particular order.

    Warnings name what is left out: hidden files that are not empty, pipes, sockets and devices, folders where the
    pattern has a suffix, and broken links where a folder may have been.

    Args:
        folder: absolute path or URL with its last separator; taken literally, without wildcards.
        pattern: pattern relative to the folder, with `/` as separator.
        hidden: first characters of the names that wildcards do not match.
        table_error: function that returns an error for a file or folder of a table's log, with the path of the table;
            see `table_formats.table_error`. None accepts files of tables.

    Raises:
        InputError: a folder cannot be listed, or a file that matches belongs to a table.
    """
    names = pattern.split("/")
    name_pattern = _Pattern(names, hidden)
    if "://" in folder:
        files = _files_in_store(folder, pattern)
    else:
        files = _files_on_disk(folder, None if "**" in names else len(names))
    matching: list[ListedFile] = []
    left_out: dict[str, list[str]] = {}  # reason -> paths
    errors: dict[str, InputError] = {}  # folder of a table -> error
    for file in files:
        relative_path = file.path[len(folder) :].replace(os.sep, "/")
        listed_path = f"{relative_path}/" if file.special == _FOLDER else relative_path
        if table_error is not None and (error := table_error(folder, listed_path)):
            errors[f"{error.path}/"] = error
        reason_left_out = name_pattern.reason_to_leave_out(file, relative_path)
        if reason_left_out is None:
            matching.append(file)
        elif reason_left_out:
            left_out.setdefault(reason_left_out, []).append(file.path)
    for table, error in errors.items():
        if any(file.path.startswith(table) for file in matching):
            raise error
    for reason_left_out, paths in left_out.items():
        warn_of_left_out(f"{folder}{pattern}", reason_left_out, paths)
    return matching


def warn_of_left_out(place: str, why: str, paths: Sequence[str]) -> None:
    """Warns about files that are left out.

    Args:
        place: the pattern, or the folder.
        why: the reason, as a clause.
        paths: paths of the files, not empty.
    """
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    log.warning(f"{place}: left out, because {why}: {min(paths)}{more}")


class _Pattern:
    """A pattern that paths relative to a folder are compared with, a name at a time.

    Args:
        names: the pattern, split at `/`.
        hidden: first characters of the names that wildcards do not match.
    """

    def __init__(self, names: list[str], hidden: tuple[str, ...]) -> None:
        self._names = names
        self._patterns = tuple(map(_compile_name, names))  # None for `**`
        self._hidden = hidden
        self._has_suffix = names[-1].strip("*") != ""

    @cached_property
    def _with_hidden(self) -> _Pattern:
        """The same pattern with wildcards that also match hidden names."""
        return _Pattern(self._names, ())

    def matches(self, path: str) -> bool:
        """Returns whether the pattern matches a whole path, whose separator is `/`."""
        return self._match(self._patterns, path.split("/"))

    def reason_to_leave_out(self, file: ListedFile, path: str) -> str | None:
        """Returns None for a file that the pattern matches, and otherwise a reason for a warning; '' for none.

        Args:
            file: the file, or what else was listed.
            path: its path relative to the folder, with `/`.
        """
        is_match = self.matches(path)
        if is_match and file.special in ("", BROKEN_LINK):  # a broken link is an error where it is read
            return None
        if file.special == _FOLDER:  # such as the folder day.csv of Spark, for *.csv
            return "it is a folder" if is_match and self._has_suffix else ""
        if file.special == BROKEN_LINK:
            may_be_folder = self._match(self._patterns, path.split("/"), is_folder=True)
            return "it is a broken link, which may lead to a folder" if may_be_folder else ""
        if file.special:
            return f"it is {file.special} and not a file" if is_match else ""
        is_hidden = bool(self._hidden) and file.size > 0 and self._with_hidden.matches(path)
        return f"names that begin with {' or '.join(self._hidden)} are hidden" if is_hidden else ""

    def _match(self, patterns: tuple[_NamePattern | None, ...], names: list[str], *, is_folder: bool = False) -> bool:
        """Returns whether the rest of the pattern matches the remaining names of a path.

        Args:
            patterns: the patterns of the next names; None for `**`.
            names: the remaining names of the path.
            is_folder: whether the path is a folder, and a match is a file below it.
        """
        if not patterns or not names:
            return not names and bool(patterns) == is_folder
        first, remaining_patterns = patterns[0], patterns[1:]
        visible = not names[0].startswith(self._hidden)
        if first is not None:
            return (
                (visible or not first.starts_with_wildcard)
                and first.matches(names[0])
                and self._match(remaining_patterns, names[1:], is_folder=is_folder)
            )
        # `**` matches no folder, or the next one and perhaps others; as the last name, at least a file.
        if remaining_patterns and self._match(remaining_patterns, names, is_folder=is_folder):
            return True
        is_last = not remaining_patterns and len(names) == 1
        return visible and (is_last or self._match(patterns, names[1:], is_folder=is_folder))


class _NamePattern(NamedTuple):
    """A path component of a pattern, other than `**`: a matcher, and whether its first character is a wildcard."""

    matches: Callable[[str], Any]
    starts_with_wildcard: bool


def _compile_name(name: str) -> _NamePattern | None:
    """Returns the compiled pattern of one name of a path; None for `**`."""
    if name == "**":
        return None
    return _NamePattern(re.compile(fnmatch.translate(name)).match, name.startswith(tuple(WILDCARDS)))


def _files_on_disk(folder: str, depth: int | None) -> Iterator[ListedFile]:
    """Yields the files and folders below a local folder, at most `depth` names deep; None for any depth.

    Links to folders are followed, except into a folder that contains them.
    """
    pending = [(folder, 1, frozenset[tuple[int, int]]())]
    while pending:
        current, level, parent_identities = pending.pop()
        try:
            entries = list(os.scandir(current or "."))
        except OSError as error:
            if current == folder:
                return  # the folder does not exist, so nothing matches
            raise InputError(f"{current} cannot be listed: {reason(error)}") from None
        status = os.stat(current)
        identity = (status.st_dev, status.st_ino)
        if identity in parent_identities:
            continue
        for entry in entries:
            if not _is_folder(entry):
                if (file := list_file(entry.path)) is not None:
                    yield file
                continue
            yield ListedFile(entry.path, 0, 0.0, _FOLDER)
            if depth is None or level < depth:
                pending.append((entry.path, level + 1, parent_identities | {identity}))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Returns whether an entry is a folder or a link to one; False for a link that leads to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def list_file(path: str) -> ListedFile | None:
    """Returns the entry of a local path, as a listing of its folder has it; None if it does not exist.

    A broken link, and a file in a folder that must not be entered, are listed, so that opening them raises the error.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ListedFile(path, 0, 0.0, BROKEN_LINK) if os.path.islink(path) else None
    except OSError:
        return ListedFile(path, 0, 0.0, BROKEN_LINK if os.path.islink(path) else "")
    special = "" if stat.S_ISREG(status.st_mode) else _SPECIAL.get(stat.S_IFMT(status.st_mode), "a device")
    return ListedFile(path, status.st_size, round(status.st_mtime, 3), special)


def _files_in_store(folder: str, pattern: str) -> Iterator[ListedFile]:
    """Yields the files of a store that may match a pattern: those with the same path up to its first wildcard.

    Objects whose names end in `/` are no files: consoles of stores make them to show empty folders.

    Raises:
        InputError: the store cannot be listed.
    """
    first_wildcard = re.search(r"[*?\[]", pattern)
    beam_pattern = folder + (f"{pattern[: first_wildcard.start()]}**" if first_wildcard else pattern)
    scheme = folder.partition("://")[0]
    if scheme in _EXTRAS and PASSWORD_OF_URL.search(f"{folder}{pattern}"):
        raise InputError(
            f"{folder}{pattern}: expected a URL without a password, which clients of stores would write to logs. Give "
            "credentials in variables of the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    try:
        if not _store_answers(beam_pattern):
            problem = f"expected files that can be listed, got no answer of the store within {_MAX_WAIT:.0f} s"
            raise InputError(f"{folder}{pattern}: {problem}. Check the name, the network and the credentials")
        [result] = match_by_beam(beam_pattern)
    except (MissingDependencyError, InputError):
        raise
    except Exception as error:  # each client of a store has its own classes
        if scheme in _EXTRAS and _LACKS_PACKAGE.search(str(error)):
            # Beam's error advises to install [gcp], whatever the scheme
            way = f"pip install 'apache-beam[{_EXTRAS[scheme]}]'"
            raise MissingDependencyError(
                f"{folder}{pattern}: Beam lacks a package to read {scheme}://: {way}"
            ) from error
        if "Unable to get filesystem" in str(error):
            expected = f"a path, or a URL that begins with {', '.join(f'{each}://' for each in _EXTRAS)}"
            way = _WAYS.get(scheme, "Copy the files to one of these, or to a disk")
            raise InputError(f"{folder}{pattern}: expected {expected}, got {scheme}://. {way}") from None
        problem = f"expected files that can be listed, got an error: {reason(error)}"
        raise InputError(f"{folder}{pattern}: {problem}") from error
    for metadata in result.metadata_list:
        if metadata.path.endswith("/"):
            continue
        yield ListedFile(metadata.path, metadata.size_in_bytes, round(metadata.last_updated_in_seconds, 3))


_LACKS_OPTIONS = re.compile("pipeline_options is not set|Must provide one of client or options")
"""What Beam's file systems of HDFS and S3 say if no options are set."""


_LACKS_PACKAGE = re.compile(r"Unable to get filesystem|Failed to import|NameError\(\W*name \W*\w+\W* is not defined")
"""What Beam's file systems say if a package is not installed; NameError: of a module that it could not import."""


def _store_answers(pattern: str) -> bool:
    """Returns whether a store answers within _MAX_WAIT seconds; it is asked for one file.

    Raises:
        Exception: the store cannot be listed.
    """
    outcomes = queue.SimpleQueue[Exception | None]()

    def ask() -> None:
        """Puts the error of the listing into `outcomes`, or None."""
        try:
            match_by_beam(pattern, limit=1)
        except Exception as error:
            outcomes.put(error)
        else:
            outcomes.put(None)

    threading.Thread(target=ask, daemon=True).start()  # the process may end before the store answers
    try:
        error = outcomes.get(timeout=_MAX_WAIT)
    except queue.Empty:
        return False
    if error is not None:
        raise error
    return True


def match_by_beam(pattern: str, limit: int | None = None) -> Any:
    """Returns a list of one `MatchResult`, that of the pattern; sets the default options of S3 and HDFS if needed.

    Args:
        pattern: a pattern of Beam.
        limit: greatest number of files; None for all.
    """
    systems = file_systems()
    try:
        return systems.match([pattern], [limit])
    except Exception as error:  # one of Beam's own
        if not _LACKS_OPTIONS.search(str(error)):
            raise
        from apache_beam.options.pipeline_options import PipelineOptions

        # S3 and HDFS need options, which only the creation of a pipeline sets.
        systems.set_options(PipelineOptions([]))
        return systems.match([pattern], [limit])
