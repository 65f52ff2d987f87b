"""Errors of several checks that are reported together, so that a user can correct all of them at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_datasets.errors import BeamDatasetsError


class ErrorList:
    """The errors of several checks, which are raised together.

    >>> from beam_datasets.errors import InputError
    >>> errors = ErrorList()
    >>> for text in ("a", "b"):
    ...     with errors.keep():
    ...         raise InputError(text)
    >>> errors.raise_all()
    Traceback (most recent call last):
    beam_datasets.errors.InputError: a
    b
    """

    def __init__(self) -> None:
        """Makes a list without errors."""
        self._errors: list[BeamDatasetsError] = []

    @contextlib.contextmanager
    def keep(self) -> Iterator[None]:
        """Context manager: keeps a BeamDatasetsError of its body."""
        try:
            yield
        except BeamDatasetsError as error:
            self._errors.append(error)

    def raise_all(self) -> None:
        """Raises the errors, if there are any: several as one of the class of the first, with the texts of all."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise self._errors[0].with_message("\n".join(dict.fromkeys(map(str, self._errors))))
