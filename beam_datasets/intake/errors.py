"""Conversion of exceptions of libraries to errors with the file and the position in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_datasets.errors import BeamDatasetsError, InputError


@contextlib.contextmanager
def foreign_errors(path: str, position: str = "", *, expected: str = "") -> Iterator[None]:
    """Converts any exception of a library that reads foreign content into an InputError.

    Errors of this project pass unchanged: they name file and place already.

    Args:
        path: the file that is read.
        position: position in the file, such as `row 17`, `byte 4096` or `column 'x'`; '' for the whole file.
        expected: the expected content, such as `a Parquet file`.

    Raises:
        InputError: `<path>, <place>: expected <expected>, got an error: <reason>`.
    """
    try:
        yield
    except BeamDatasetsError:
        raise
    except Exception as error:
        location = f"{path}, {position}" if position else path
        expectation = f"expected {expected}, got an error: " if expected else ""
        raise InputError(f"{location}: {expectation}{reason(error)}") from error


def reason(error: BaseException) -> str:
    r"""Returns the message of an exception of a library as one line that is never empty.

    >>> reason(EOFError()), reason(KeyError(64)), reason(ValueError("two\nlines"))
    ('the data end too early', 'KeyError: 64', 'two lines')
    """
    text = " ".join(str(error).split())
    if isinstance(error, RecursionError):
        return "nested too deeply to be read"
    if isinstance(error, MemoryError):
        return f"not enough memory to read it{text and f': {text}'}"
    if isinstance(error, EOFError):
        return text or "the data end too early"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, LookupError) or not text:
        return f"{type(error).__name__}{text and f': {text}'}"
    return text
