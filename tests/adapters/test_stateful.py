"""torchdata's StatefulDataLoader over `as_torch()`: resumed at every step, it goes on with the same batches."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.adapters.conftest import ids

# PyTorch warns that three workers are many for this machine, torchdata calls deprecated functions.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def make(torchdata: Any, three: Any) -> Any:
    def make(num_workers: int, batch_size: int | None = 4, **options: Any) -> Any:
        train = three.as_dataset("train").shuffle(seed=11)
        dataset = (train if batch_size else train.batch(4)).as_torch(**options)
        return torchdata.StatefulDataLoader(dataset, batch_size=batch_size, num_workers=num_workers)

    return make


@pytest.mark.parametrize(
    "num_workers, options",
    [
        (0, {}),
        (0, {"rank": 1, "num_ranks": 2, "block": 3}),
        (1, {"block": 4}),
        (3, {"block": 4}),
        (3, {"rank": 1, "num_ranks": 2}),
        (2, {"batch_size": None}),
    ],
)
def test_resumes_at_every_step(make: Any, num_workers: int, options: dict[str, Any]) -> None:
    loader = make(num_workers, **options)
    states, whole = [copy.deepcopy(loader.state_dict())], []
    for batch in loader:
        whole += ids([batch])
        states.append(copy.deepcopy(loader.state_dict()))
    assert len(whole) > 2
    steps = range(len(states)) if num_workers == 0 else (0, 1, len(states) // 2)
    for step in steps:
        later = make(num_workers, **options)
        later.load_state_dict(states[step])
        assert ids(later) == whole[step:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resumes_twice_and_goes_on_to_the_next_epoch(make: Any, num_workers: int) -> None:
    whole = ids(make(num_workers, block=4))
    loader, got = make(num_workers, block=4), []
    for _ in range(2):
        got += ids(batch for _, batch in zip(range(2), loader))
        state = copy.deepcopy(loader.state_dict())
        loader = make(num_workers, block=4)
        loader.load_state_dict(state)
    assert got + ids(loader) == whole
    assert ids(loader) == whole
