"""The model finds deliberate faults in publishing: it is strong enough."""

from collections.abc import Callable

import pytest

from tests.model_check import model, mutations

MAX_INTERLEAVINGS = 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, mutate",
    [*(("store", fault) for fault in mutations.ON_STORES), *(("disk", fault) for fault in mutations.ON_DISKS)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_fault_is_found(
    kind: str, mutate: Callable[[pytest.MonkeyPatch], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """P1: the model finds each of these faults within 5,000 interleavings."""
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
