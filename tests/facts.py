"""The facts of errors in tests: a test that looks at them need not repeat the sentence of a message."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FACTS = ("path", "line", "offset", "record", "feature", "split", "key", "expected", "got", "outcome", "advice")


def facts(error: BaseException) -> dict[str, object]:
    """Returns the facts that an error has, without its problem."""
    values = {name: getattr(error, name, None) for name in FACTS}
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def raises_with(kind: type[BaseException], **wanted: object) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Context manager: expects an error of a class with these facts.

    Args:
        kind: the class of the error.
        **wanted: the facts, by name; a `re.Pattern` is searched in the fact.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error_facts = facts(caught.value)
    for name, value in wanted.items():
        fact = error_facts.get(name)
        if isinstance(value, re.Pattern):
            assert value.search(str(fact)), f"{name}: {fact!r} does not match {value.pattern!r}"
        else:
            assert fact == value, f"{name}: {fact!r} != {value!r}"
