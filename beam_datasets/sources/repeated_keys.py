"""Search for the original key of an error about a repeated key. The shard writer knows only the hash of the key."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

from beam_datasets.arguments import shown
from beam_datasets.errors import DuplicateKeyError
from beam_datasets.metadata.keys import hash_key
from beam_datasets.sources.units import SourceUnits

_log = logging.getLogger(__name__)

SEARCH_SECONDS = 10.0  # for which a source is read again


def with_key(error: DuplicateKeyError, builder: Any) -> DuplicateKeyError:
    """Returns the error with the builder's key beside its hash; the same error if the key is not found.

    The source is read again for at most `SEARCH_SECONDS`. A source that is a Beam transform is not read.

    Args:
        error: an error about a split of the builder.
        builder: the builder that made the examples.
    """
    sort_key = error.sort_key
    if error.key is not None or sort_key is None or error.split is None:
        return error
    if "pipeline" in inspect.signature(builder._split_generators).parameters:
        return error
    try:
        for key in _keys(builder.split_generators(None).get(error.split), time.monotonic() + SEARCH_SECONDS):
            if isinstance(key, (str, bytes, int)) and hash_key(error.split, key) == sort_key:
                text = f"the same key {shown(key)} (its hash is {sort_key.hex()})"
                error_with_key = error.with_message(
                    str(error).replace(f"the same key (its hash is {sort_key.hex()})", text)
                )
                error_with_key.key = key
                return error_with_key
    except Exception as problem:  # of the author's code, whose source may be readable once only: the error stays
        _log.debug("The source of %r was not read again: %s", error.split, problem)
    return error


def _keys(source: Any, deadline: float) -> Iterator[Any]:
    """Yields the keys of a source until a deadline; nothing for a Beam transform.

    Args:
        source: an iterable of (key, example), a function that returns one, or a `SourceUnits`.
        deadline: time of `time.monotonic` at which it ends.
    """
    for item in _source_items(source):
        if time.monotonic() > deadline:
            return
        yield item[0]


def _source_items(source: Any) -> Iterator[Any]:
    """Yields the elements of a source; nothing for a Beam transform."""
    if isinstance(source, SourceUnits):
        for unit in source.units:
            yield from source.read(unit)
    elif isinstance(source, Iterable):
        yield from source
    elif callable(source) and not hasattr(source, "expand"):
        yield from source()
