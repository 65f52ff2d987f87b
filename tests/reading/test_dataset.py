"""Chains of operations against the same done to Python lists, and resuming at every position of every chain."""

import copy
import itertools
import json
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets.reading.elements import transforms as decoding
from beam_datasets.reading.index.interleave import InterleaveOrder
from beam_datasets.reading.index.permutations import RangeShuffle, WindowShuffle, file_order
from tests.cases import cases
from tests.facts import raises_with

LENGTHS = [7, 0, 12, 5, 9]
CONFIG = bd.ReadConfig(interleave_cycle_length=3, interleave_block_length=2, shuffle_seed=7)
README = Path(__file__).parents[2] / "README.md"
ENOUGH = 150  # examples of an endless dataset

Chain = list[tuple[Any, ...]]


@pytest.fixture(scope="module", params=[True, False], ids=["indexed", "without index"])
def builder(request: pytest.FixtureRequest, write: Any) -> Any:
    return bd.builder_from_directory(write({"train": LENGTHS}, indexed=request.param))


def dataset(builder: Any, split: str = "train", **options: Any) -> Any:
    return builder.as_dataset(split, **{"read_config": CONFIG, **options}).map(lambda example: int(example["id"]))


# ---------------------------------------------------------------------- what is expected, with lists and loops

OPERATIONS = st.one_of(
    st.tuples(st.just("shuffle"), st.integers(0, 3)),
    st.tuples(st.just("shuffle"), st.integers(0, 3), st.integers(1, 60)),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("skip"), st.integers(0, 40)),
    st.tuples(st.just("take"), st.integers(0, 40)),
    st.integers(1, 4).flatmap(lambda n: st.tuples(st.just("shard"), st.integers(0, n - 1), st.just(n))),
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(st.just("block"), st.integers(0, n - 1), st.just(n), st.integers(1, 5))
    ),
    st.tuples(st.just("batch"), st.integers(1, 7), st.booleans()),
)
CHAINS = st.lists(OPERATIONS, max_size=5)


def order_of_source(epoch: int) -> list[int]:
    first = np.cumsum([0, *LENGTHS])
    nonempty = [i for i, length in enumerate(LENGTHS) if length]
    files = [nonempty[i] for i in file_order(len(nonempty), 7, epoch)]
    order = InterleaveOrder(np.array([LENGTHS[file] for file in files]), 3, 2)
    places = list(zip(*(column.tolist() for column in order.locate(range(sum(order.lengths.tolist()))))))
    return [int(first[files[file]]) + index for file, index in places]


def expected(chain: Chain, epoch: int = 0) -> list[Any]:
    if not chain:
        return order_of_source(epoch)
    *below, (name, *arguments) = chain
    if name == "repeat":
        times = arguments[0]
        return [item for i in range(times) for item in expected(below, epoch * times + i)]
    items = expected(below, epoch)
    if name == "shuffle" and len(arguments) == 1:
        return [items[i] for i in RangeShuffle(len(items), arguments[0], epoch).sources(range(len(items)))]
    if name == "shuffle":
        seed, window = arguments
        return [items[i] for i in WindowShuffle(len(items), window, seed, epoch).sources(range(len(items)))]
    if name == "skip":
        return items[arguments[0] :]
    if name == "take":
        return items[: arguments[0]]
    if name == "block":
        worker, workers, block = arguments
        return [item for i, item in enumerate(items) if i // block % workers == worker]
    if name == "shard":
        worker, workers = arguments
        is_batched = any(operation[0] == "batch" for operation in below)
        sizes = [] if is_batched else [size for size in (1, 2, 4, 8, 16) if size * workers * 64 <= len(items)]
        return divided(items, worker, workers, max(sizes, default=1))
    size, drop = arguments
    if below and below[-1][0] == "shard":  # whose blocks are batches then
        items = divided(expected(below[:-1], epoch), *below[-1][1:], size)
    groups = [items[i : i + size] for i in range(0, len(items), size)]
    return [group for group in groups if len(group) == size or not drop]


def divided(items: list[Any], worker: int, workers: int, block: int) -> list[Any]:
    """Returns a worker's items: by blocks up to the last round of all workers, which is divided one by one."""
    rounds = len(items) - len(items) % (block * workers)
    blocks = [item for i, item in enumerate(items[:rounds]) if i // block % workers == worker]
    return blocks + items[rounds:][worker::workers]


def chained(base: Any, chain: Chain) -> Any:
    for name, *arguments in chain:
        if name == "block":
            base = base.shard(*arguments[:2], block=arguments[2])
        elif name == "batch":
            base = base.batch(arguments[0], drop_remainder=arguments[1])
        else:
            base = getattr(base, name)(*arguments)
    return base


def plain(item: Any) -> Any:
    return item.tolist() if isinstance(item, np.ndarray) else item


def batches_of_batches(chain: Chain) -> bool:
    """Whether a batch is made of shorter and longer batches, which do not stack."""
    return sum(operation[0] == "batch" for operation in chain) > 1


@given(chain=CHAINS, epoch=st.integers(0, 2))
@example(chain=[("repeat", 2), ("repeat", 2), ("repeat", 2), ("shard", 0, 2)], epoch=0)  # enough for blocks of two
@example(chain=[("repeat", 3), ("repeat", 3), ("shard", 1, 2), ("batch", 7, True)], epoch=1)
@cases(150)
def test_chains(builder: Any, chain: Chain, epoch: int) -> None:
    if batches_of_batches(chain):
        return
    found = chained(dataset(builder, shuffle_files=True), chain)
    wanted = expected(chain, epoch)
    assert len(found) == len(expected(chain))
    assert bool(found) == bool(expected(chain))
    if chain and [name for name, *_ in chain if name not in ("batch", "shard", "block")][-1:] == ["repeat"]:
        epoch, wanted = 0, expected(chain)  # there, it means the epoch to begin with
    assert list(map(plain, found.iterate(epoch=epoch))) == wanted


@given(chain=CHAINS, data=st.data())
@cases(150)
def test_resumes_anywhere(builder: Any, chain: Chain, data: st.DataObject) -> None:
    divisions = [operation for operation in chain if operation[0] in ("shard", "block")]
    if batches_of_batches(chain):
        return
    read = chained(dataset(builder, shuffle_files=True), chain)
    whole = list(map(plain, read))
    iterator, seen = iter(read), 0
    for _ in range(3):
        more = data.draw(st.integers(0, len(whole) - seen))
        seen += len(list(itertools.islice(iterator, more)))
        try:
            state = json.loads(json.dumps(iterator.get_state()))
        except bd.errors.StateError:
            assert len(divisions) > 1
            assert max(workers for _, _, workers, *_ in divisions) > 1
            return
        iterator = read.iterate(state=state)
        assert iterator.get_state() == state
    assert whole[:seen] + list(map(plain, iterator)) == whole


@pytest.mark.parametrize("window", [None, 8])
def test_endless(builder: Any, window: int | None) -> None:
    read = dataset(builder, shuffle_files=True).shuffle(3, window).repeat()
    long = expected([("shuffle", 3, *[8] * (window is not None)), ("repeat", 6)])
    assert list(itertools.islice(read, ENOUGH)) == long[:ENOUGH]
    assert [plain(batch) for batch in itertools.islice(read.batch(5).shard(1, 2), 3)] == [
        long[i : i + 5] for i in (5, 15, 25)
    ]
    iterator = iter(read)
    for _ in range(100):
        next(iterator)
    state = iterator.get_state()
    assert (state["epoch"], state["position"]) == (3, 1)
    assert list(itertools.islice(read.iterate(state=state), 20)) == long[100:120]
    assert list(itertools.islice(read.iterate(epoch=2), 20)) == long[66:86]
    with pytest.raises(TypeError, match="no length"):
        len(read)
    with pytest.raises(ValueError, match=r"endless.*shuffle\(\) before repeat\(\), or a window"):
        read.shuffle(3)
    assert len(list(itertools.islice(dataset(builder).repeat().shuffle(1, window=10), ENOUGH))) == ENOUGH


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda b: dataset(b, "train[:20]"), ["slices", "'train[0:33]'", "'train[0:20]'"]),
        (lambda b: dataset(b, read_config=bd.ReadConfig()), ["read_config", "'block=2, cycle=3'"]),
        (lambda b: dataset(b).shuffle(1), ["operations", "''", "'shuffle(seed=1)'"]),
        (lambda b: dataset(b).skip(1), ["operations", "''", "'[1:]'"]),
        (lambda b: dataset(b, shuffle_files=True), ["seed=7"]),
    ],
)
def test_refuses_a_state_of_something_else(builder: Any, change: Any, words: str) -> None:
    iterator = iter(dataset(builder))
    next(iterator)
    with raises_with(bd.errors.StateError, got=words):
        iter(change(builder)).set_state(iterator.get_state())


def test_keeps_a_state_where_only_the_division_changes(builder: Any) -> None:
    iterator = iter(dataset(builder))
    next(iterator)
    state = iterator.get_state()
    for changed in (dataset(builder).batch(3), dataset(builder).repeat(), dataset(builder).map(str)):
        assert changed.iterate(state=state).get_state() == state


def test_epochs_to_begin_with(builder: Any) -> None:
    read = dataset(builder).shuffle(1)
    second = list(read.iterate(epoch=1))
    assert list(read.repeat(2).iterate(epoch=1)) == second
    assert next(read.repeat().iterate(epoch=10**6)) == next(read.iterate(epoch=10**6))
    assert list(read.repeat(0)) == []
    assert list(read.repeat(2).skip(33).iterate(epoch=0)) == second
    assert len(list(read.repeat(2).take(5).iterate(epoch=7))) == 5


@pytest.mark.parametrize("of", [lambda d: d, lambda d: d.batch(4), lambda d: d.shard(1, 2)])
def test_state_at_the_end_of_the_last_epoch(builder: Any, of: Any) -> None:
    read = dataset(builder).shuffle(1)
    iterator = iter(of(read.repeat(2)))
    list(iterator)
    state = iterator.get_state()
    assert state["epoch"] == 2
    assert list(of(read.repeat(2)).iterate(state=state)) == []
    assert list(of(read.repeat(2)).iterate(epoch=2, state=state)) == []
    assert list(read.repeat(3).iterate(state=state)) == list(read.iterate(epoch=2))


def test_a_state_of_an_epoch_behind_an_endless_one_is_refused(builder: Any) -> None:
    """One that an endless dataset saved, which is repeated now; it resumed at the beginning."""
    endless = bd.mix({builder.as_dataset("train"): 1}, stop="never")
    iterator = endless.iterate(epoch=1)
    next(iterator)
    state = iterator.get_state()
    assert next(endless.iterate(state=state)) == next(iterator)
    with raises_with(bd.errors.StateError, field="epoch", got="1", expected=["endless"]):
        endless.repeat().iterate(state=state)


def test_a_state_of_another_epoch_than_asked_for(builder: Any) -> None:
    read = dataset(builder).shuffle(1)
    iterator = read.iterate(epoch=3)
    next(iterator)
    state, rest = iterator.get_state(), list(iterator)
    assert list(read.iterate(state=state)) == list(read.iterate(epoch=3, state=state)) == rest
    for other in (0, 4):
        with raises_with(bd.errors.StateError, field="epoch", got="3", expected=[f"{other}"]):
            read.iterate(epoch=other, state=state)


def test_iterators_do_not_disturb_each_other(builder: Any) -> None:
    read = dataset(builder).shuffle(1, 5)
    whole = list(read)
    assert list(zip(read, read)) == list(zip(whole, whole))


@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_iterators_say_how_to_go_on_elsewhere(builder: Any, taken: int, copied: Any) -> None:
    iterator = iter(dataset(builder))
    seen = list(itertools.islice(iterator, taken))
    with pytest.raises(TypeError, match=r"does not pickle.*get_state\(\).*iterate\(state=\.\.\.\), or set_state\(\)"):
        copied(iterator)
    assert seen + list(iterator) == list(dataset(builder))


# ------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    "call,error,words",
    [
        (lambda d: d.take(-1), ValueError, "count must be at least 0, got -1"),
        (lambda d: d.skip(1.0), TypeError, "count must be an int, not 1.0"),
        (lambda d: d.repeat(-1), ValueError, "epochs must be at least 0"),
        (lambda d: d.batch(0), ValueError, "batch_size must be at least 1"),
        (lambda d: d.shuffle("a"), TypeError, "seed must be an int"),
        (
            lambda d: d.shuffle(1000, seed=3),
            TypeError,
            r"shuffle\(\).*'seed'.*shuffle\(seed=3, window=1000\)",
        ),
        (lambda d: d.shuffle(), TypeError, r"'seed'.*shuffle\(seed=0\)"),
        (lambda d: d.shuffle(buffer_size=9), TypeError, r"shuffle\(seed=0, window=9\)"),
        (lambda d: d.shuffle(1, window=0), ValueError, "window .*0"),
        (lambda d: d.repeat(2**61).shuffle(1), ValueError, "whole range"),
        (lambda d: d.repeat(2**62).shuffle(1), ValueError, "whole range"),
        (lambda d: d.shard(2, 2), ValueError, r"worker_index .*\[0, 2\)"),
        (lambda d: d.shard(3, -1), ValueError, "worker_count .*-1"),
        (lambda d: d.shard("0", 2), TypeError, "worker_index .*int.*'0'"),
        (lambda d: d.shard(0, 2, block=4.0), TypeError, "block .*int.*4.0"),
        (lambda d: d.shard(0, 2, block=0), ValueError, "block .*0"),
        (lambda d: d.map(3), TypeError, "function"),
        (lambda d: d.map(str).raw(), ValueError, "before map"),
        (lambda d: d.iterate(epoch=-1), ValueError, "epoch .*-1"),
        (lambda d: d.repeat(2).iterate(epoch=2), ValueError, r"epoch .*\[0, 2\).*repeat\(2\).*2"),
        (lambda d: d.repeat().batch(2).repeat(2).iterate(epoch=1), ValueError, "epoch .*0.*1.*endless"),
        (lambda d: d.repeat(3).batch(4).shard(0, 2).iterate(epoch=7), ValueError, r"epoch .*\[0, 3\).*7"),
        (lambda d: list(d.map(lambda e: {"a": np.zeros(e["id"] % 3)}).batch(4)), ValueError, "^a: .*shapes"),
    ],
)
def test_refuses(builder: Any, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(builder.as_dataset("train"))


def test_what_other_libraries_have_is_named(builder: Any) -> None:
    read = builder.as_dataset("train")
    for name, words in (("cache", "local files"), ("prefetch", "parallel"), ("as_numpy_iterator", "iter")):
        with pytest.raises(AttributeError, match=f"Dataset .*'{name}'.*{words}"):
            getattr(read, name)
    with pytest.raises(AttributeError, match="'fliter'.* Did you mean 'filter'"):
        read.fliter  # noqa: B018


def test_features_of_what_is_yielded(builder: Any) -> None:
    tree = builder.info.features
    read = builder.as_dataset("train")
    assert all(
        each.features == tree for each in (read, read.map(str), read.batch(2).batch(2).map(str), read.shuffle(1))
    )
    partial = bd.decode.PartialDecoding({"id": True})
    assert list(builder.as_dataset("train", decoders=partial).take(3).features) == ["id"]
    assert read.raw().features is None


def test_map_is_called_for_what_is_yielded_only(builder: Any) -> None:
    seen: list[int] = []
    read = builder.as_dataset("train", read_config=CONFIG).map(lambda e: seen.append(int(e["id"])) or int(e["id"]))
    assert list(read.skip(5).shard(1, 3).take(4)) == seen
    assert len(seen) == 4


def test_the_loop_of_the_readme_reshuffles(write: Any) -> None:
    """Who copies the README's training loop gets each epoch in an order of its own."""
    chains = re.findall(r"^for \w+ in train(\.shuffle\(.*\)):", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert chains
    n = 40
    train = bd.builder_from_directory(write({"train": [n]})).as_dataset("train")
    for chain in chains:
        read = eval(f"train{chain.split('.batch')[0]}", {"train": train})  # the page of this project
        ids = [int(example["id"]) for example in read]
        assert len(ids) >= 2 * n
        assert sorted(ids[:n]) == sorted(ids[n : 2 * n]) == list(range(n))
        assert ids[:n] != ids[n : 2 * n]


def test_groups_that_a_framework_asks_for_leave_the_division(builder: Any) -> None:
    for worker in range(3):
        shard = builder.as_dataset("train").shard(worker, 3)
        whole = [int(example["id"]) for example in shard]
        for size in (5, 64):
            grouped = shard._batch_for_framework(size, None)
            assert [number for group in grouped for number in group["id"].tolist()] == whole
            iterator = iter(grouped)
            first = next(iterator)["id"].tolist()
            rest = grouped.iterate(state=iterator.get_state())
            assert first + [number for group in rest for number in group["id"].tolist()] == whole


def test_flags_among_indices_are_no_indices(builder: Any) -> None:
    ds = dataset(builder)._with(steps=builder.as_dataset("train")._steps)
    for indices in ([True, 2], (0, False), [np.True_, 1]):
        with pytest.raises(TypeError, match=r"takes an int, .* not (np\.)?(True|False)"):
            ds[indices]
    mask = [index == 3 for index in range(len(ds))]
    assert [example["id"] for example in ds[mask]] == [ds[3]["id"]]


def test_one_batch_of_an_empty_slice(builder: Any) -> None:
    with pytest.raises(ValueError, match=r"batch_size=-1 of train\[:0\]"):
        builder.as_dataset("train[:0]", batch_size=-1)
    assert len(builder.as_dataset("train[:3]", batch_size=-1)["id"]) == 3
    assert type(builder.as_dataset(batch_size=-1)) is dict  # a tree of arrays, for JAX


def test_one_thread_makes_examples(builder: Any) -> None:
    names = set()

    def noted(example: Any) -> int:
        names.add(threading.current_thread().name)
        return int(example["id"])

    ds = builder.as_dataset("train").map(noted)
    assert list(ds.parallel(threads=1)) == list(dataset(builder, read_config=None))
    assert len(names) == 1
    assert threading.current_thread().name not in names


def test_a_fill_does_not_pad(published: Path) -> None:
    """A warning names the argument for padding where `fill` and padding both apply."""
    tree = bd.features.FeaturesDict(
        {"tokens": bd.features.Sequence(np.int64), "n": bd.features.Scalar(np.int64, optional=True)}
    )
    step = decoding.Decode(tree, None, False, None, None)
    with pytest.warns(UserWarning, match="fill=-1 replaces missing values; .* Give pad_value=-1"):
        decoding.batch_of((step,), pad=True, fill=-1)
    for options in ({"pad_value": 0, "fill": -1}, {"fill": 0}, {"fill": {"n": -1}}):
        decoding.batch_of((step,), pad=True, **options)
    anything = {"ids": bd.features.Tensor(shape=(None,), dtype=np.int64, optional=True)}  # an absent one is empty
    step = decoding.Decode(bd.features.FeaturesDict(anything), None, False, None, None)
    with pytest.raises(ValueError, match="^fill.*pad_value=-1"):
        decoding.batch_of((step,), pad=True, fill=-1)
    with pytest.raises(ValueError, match="^fill.*pad_value=-1"):
        bd.builder_from_directory(published).as_dataset("train").padded_batch(4, fill=-1)


def test_datasets_of_one_load_share_a_decoder(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder is compiled once for all datasets derived from a split, and does not travel to other processes."""
    compiled = 0
    compile_decoder = decoding.ColumnarDecoder.__init__

    def count(self: Any, feature: Any, **options: Any) -> None:
        nonlocal compiled
        compiled += 1
        compile_decoder(self, feature, **options)

    monkeypatch.setattr(decoding.ColumnarDecoder, "__init__", count)
    train = builder.as_dataset("train")
    examples = [train[0], next(iter(train)), next(iter(train.shuffle(1).batch(2))), next(iter(train.batch(3)))]
    assert len(examples) == 4
    assert compiled == 1
    copied = pickle.loads(pickle.dumps(train.batch(2)))
    np.testing.assert_equal(next(iter(copied)), next(iter(train.batch(2))))
    assert compiled == 2
