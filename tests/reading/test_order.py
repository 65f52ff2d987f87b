"""The pieces of the read order together: files, interleave, window, workers, states."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from beam_datasets.reading.config import ReadConfig, arrange_files
from beam_datasets.reading.interleave import InterleaveOrder
from beam_datasets.reading.positions import Share, part_of_batch
from beam_datasets.reading.shuffle import WindowShuffle
from beam_datasets.reading.state import ReadState, fingerprint

LENGTHS = [7, 0, 30, 16, 11, 32, 4]
LENGTH, EPOCHS, BATCH, WINDOW = sum(LENGTHS), 3, 12, 20
CONFIG = ReadConfig(shuffle_seed=5, interleave_cycle_length=3, interleave_block_length=4)
PARTS = fingerprint(
    dataset="digits",
    version="1.0.0",
    digest="9f3a",
    slices=[("train", 0, LENGTH)],
    read_config=CONFIG.order_key(ordered=False, shuffle_files=True),
    operations=[f"shuffle(window={WINDOW}, seed=9)"],
)


def example_at(position):
    """(epoch, file, index) at a position of the stream of three epochs."""
    epoch, position = divmod(position, LENGTH)
    files = arrange_files(range(len(LENGTHS)), CONFIG, shuffle_files=True, epoch=epoch)
    order = InterleaveOrder([LENGTHS[file] for file in files], CONFIG.cycle_length(ordered=False), CONFIG.block_length)
    file, index = order.locate(WindowShuffle(LENGTH, WINDOW, seed=9, epoch=epoch).source(position))
    return epoch, files[file], index


STREAM = [example_at(position) for position in range(EPOCHS * LENGTH)]


def test_each_epoch_has_each_example_once_in_another_order():
    epochs = [[(f, i) for e, f, i in STREAM if e == epoch] for epoch in range(EPOCHS)]
    for epoch in epochs:
        assert sorted(epoch) == [(file, i) for file, length in enumerate(LENGTHS) for i in range(length)]
    assert epochs[0] != epochs[1] != epochs[2]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 6, 12]), st.integers(0, 5), st.booleans()), max_size=8))
def test_workers_come_and_go_and_nothing_is_lost(sets):
    """Each set of workers reads some batches, saves a state, and another number of workers goes on from it."""
    state, seen = ReadState(fingerprint=PARTS).to_dict(), []
    for count, steps, whole_parts in [*sets, (1, len(STREAM), False)]:
        restored = ReadState.from_dict(json.loads(json.dumps(state)))
        restored.check(PARTS, num_examples=LENGTH)
        start, part = restored.epoch * LENGTH + restored.position, part_of_batch(BATCH, count)
        shares = [Share(worker, count, start, part if whole_parts else 1) for worker in range(count)]
        taken = [min(steps * part, share.count(len(STREAM))) for share in shares]
        seen += [STREAM[p] for share, n in zip(shares, taken) for p in share.positions(0, n).tolist()]
        ((reached, _),) = {share.reached(steps * part, len(STREAM)) for share in shares}
        epoch, position = divmod(reached, LENGTH)
        state = ReadState(position, epoch, PARTS).to_dict()
    assert sorted(seen) == sorted(STREAM)


def test_this_order_stays():
    """Pins the first examples of the first two epochs; saved states rely on the order."""
    assert STREAM[:6] == [(0, 2, 2), (0, 0, 4), (0, 6, 3), (0, 0, 3), (0, 2, 6), (0, 6, 2)]
    assert STREAM[LENGTH : LENGTH + 6] == [(1, 2, 2), (1, 3, 0), (1, 4, 2), (1, 2, 1), (1, 2, 0), (1, 4, 0)]
