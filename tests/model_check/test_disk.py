"""Interleavings of runs that publish to a local disk; see `model`."""

from __future__ import annotations

import pytest

from tests.model_check import model


def test_some_interleavings() -> None:
    """P1: no interleaving of attempts, runs, gc and crashes renames a directory that is not whole."""
    model.check("disk", range(700))


@pytest.mark.slow
def test_many_interleavings(capsys: pytest.CaptureFixture[str]) -> None:
    """P1: the same for many more, of other seeds."""
    counted = model.check("disk", range(1_000_000, 1_030_000))
    with capsys.disabled():
        print("\n" + counted)
