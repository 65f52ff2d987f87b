"""The facts of errors in tests: a test that looks at them need not repeat the sentence of a message."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

FACTS = (
    "path", "line", "field", "offset", "record", "feature", "split", "key", "expected", "got", "outcome", "advice",
)  # fmt: skip


def facts(error: BaseException) -> dict[str, object]:
    """Returns the facts that an error has, without its problem."""
    values = {name: getattr(error, name, None) for name in FACTS}
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def raises_with(
    kind: type[BaseException] | tuple[type[BaseException], ...], *, mentions: Sequence[str] = (), **wanted: object
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Context manager: expects an error of a class with these facts.

    Args:
        kind: the class of the error, or several.
        mentions: texts that the message contains in this order, for what no fact has: the names of arguments, values.
        **wanted: the facts, by name, or parts of them: a list of texts that the fact contains in this order, or a
            `re.Pattern` that is searched in it.
    """
    with pytest.raises(kind) as caught:
        yield caught
    message, error_facts = str(caught.value), facts(caught.value)
    del caught  # the traceback refers to this frame, and a cycle would keep what its frames use alive
    assert _contains(message, mentions), f"{message!r} does not mention {mentions}"
    for name, value in wanted.items():
        fact = error_facts.get(name)
        if isinstance(value, list | re.Pattern):
            assert fact is not None, f"{name}: the error has no such fact"  # str(None) would contain "on"
        if isinstance(value, list):
            assert _contains(str(fact), value), f"{name}: {fact!r} does not contain {value}"
        elif isinstance(value, re.Pattern):
            assert value.search(str(fact)), f"{name}: {fact!r} does not match {value.pattern!r}"
        else:
            assert fact == value, f"{name}: {fact!r} != {value!r}"


def _contains(text: str, parts: Sequence[str]) -> bool:
    """Returns whether a text contains the parts, one after the other; a number only if it is not part of a longer one.

    >>> _contains("expected 2, got 12,345", ["2", "12,345"]), _contains("expected 2, got 12,345", ["2", "2"])
    (True, False)
    >>> _contains("0.25 of 25", ["25"]), _contains("0.25 s", ["25"]), _contains("25.5 s", ["25"])
    (True, False, False)
    """
    return re.search(".*".join(map(_pattern_of, parts)), text, re.DOTALL) is not None


def _pattern_of(part: str) -> str:
    """Returns a pattern for a text that, where it begins or ends with a digit, does not match in a longer number."""
    before = r"(?<!\d)(?<!\d[.,])" if part[:1].isdigit() else ""
    after = r"(?![.,]?\d)" if part[-1:].isdigit() else ""
    return before + re.escape(part) + after
