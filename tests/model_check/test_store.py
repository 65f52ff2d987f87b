"""Interleavings of runs that publish to an object store; see `model`."""

from __future__ import annotations

import pytest

from tests.model_check import model


def test_some_interleavings() -> None:
    """P1, P4: no interleaving of attempts, runs, gc, crashes and lost replies publishes a version that is not whole."""
    model.check("store", range(1500))


@pytest.mark.slow
def test_many_interleavings(capsys: pytest.CaptureFixture[str]) -> None:
    """P1, P4: the same for many more, of other seeds."""
    counted = model.check("store", range(1_000_000, 1_070_000))
    with capsys.disabled():
        print("\n" + counted)
