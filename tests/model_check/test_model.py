"""The model of publishing: some interleavings keep its promises, and it finds deliberate faults."""

from collections.abc import Callable

import pytest

from tests.cases import repeated
from tests.model_check import model, mutations

MAX_INTERLEAVINGS = 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, mutate",
    [*(("store", fault) for fault in mutations.ON_STORES), *(("disk", fault) for fault in mutations.ON_DISKS)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_fault_is_found(
    kind: str, mutate: Callable[[pytest.MonkeyPatch], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The model finds each of these faults within 1,000 interleavings."""
    with model.patched() as patch:
        mutate(patch)
        for seed in range(MAX_INTERLEAVINGS):
            try:
                model.play(seed, kind)
            except model.BrokenPromiseError as error:
                with capsys.disabled():
                    print(f"\n{kind}: {mutate.__name__}: {str(error).splitlines()[0]}")
                return
    pytest.fail(f"{mutate.__name__} was not found in {MAX_INTERLEAVINGS} interleavings")


# Interleavings of runs that publish to an object store or a local disk; see `model`


CHUNK = repeated(1000)  # of each of 20 tests, which several processes share


@pytest.mark.parametrize("kind, count", [("store", 200), ("disk", 100)])
def test_some_interleavings(kind: str, count: int) -> None:
    """No interleaving of attempts, runs, gc, crashes and lost replies publishes a version that is not whole."""
    model.check(kind, range(count))


@pytest.mark.slow
@pytest.mark.parametrize("kind, number", [*(("store", n) for n in range(14)), *(("disk", n) for n in range(6))])
def test_many_interleavings(kind: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for many more, of other seeds."""
    counted = model.check(kind, range(1_000_000 + number * CHUNK, 1_000_000 + (number + 1) * CHUNK))
    with capsys.disabled():
        print("\n" + counted)
