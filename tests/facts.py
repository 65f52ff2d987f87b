"""The facts of errors in tests: a test that looks at them need not repeat the sentence of a message."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beam_datasets.errors import BeamDatasetsError

FACTS = ("path", "line", "offset", "record", "feature", "split", "key", "expected", "got", "outcome", "advice")


def facts(error: BaseException) -> dict[str, object]:
    """Returns the facts that an error has, without its problem."""
    values = {name: getattr(error, name) for name in FACTS}
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def raises_with(kind: type[BeamDatasetsError], **wanted: object) -> Iterator[pytest.ExceptionInfo[BeamDatasetsError]]:
    """Context manager: expects an error of a class with these facts.

    Args:
        kind: the class of the error.
        **wanted: the facts, by name; a `re.Pattern` is searched in the fact.
    """
    with pytest.raises(kind) as caught:
        yield caught
    found = facts(caught.value)
    for name, value in wanted.items():
        if isinstance(value, re.Pattern):
            assert value.search(str(found.get(name))), f"{name}: {found.get(name)!r} does not match {value.pattern!r}"
        else:
            assert found.get(name) == value, f"{name}: {found.get(name)!r} != {value!r}"
