"""The provider's order against a simulation on lists, and its resumption at every record."""

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import slim, storage
from beam_datasets.errors import CorruptRecordError, InputError, StateError
from beam_datasets.formats import example, tfrecord
from beam_datasets.reading.index.permutations import WindowShuffle, file_order
from beam_datasets.slim import (
    DatasetDataProvider,
    DatasetSpecification,
    FixedLen,
    Tensor,
    TFExampleDecoder,
    TFRecordReader,
    VarLen,
)
from tests.cases import cases
from tests.facts import raises_with

DECODER = TFExampleDecoder(
    {"n": FixedLen((), "int64"), "half": VarLen("float32")}, {"number": Tensor("n"), "half": Tensor("half")}
)


def write_files(folder, lengths, *, pack=bytes):
    """Files whose records have the numbers 0, 1, ... over all of them; returns these, a list a file."""
    numbers, files = itertools.count(), []
    for i, length in enumerate(lengths):
        files.append([next(numbers) for _ in range(length)])
        records = [example.serialize({"n": [n], "half": [n / 2]}) for n in files[-1]]
        storage.write_bytes(f"{folder}/part-{i:02d}.rec", pack(b"".join(tfrecord.frame_all(records))))
    return files


def dataset(folder, reader=TFRecordReader, decoder=DECODER, **more):
    return DatasetSpecification(f"{folder}/part-*.rec", reader, decoder, 99, {"number": "which it is"}, **more)


def numbers(provider, count=None):
    """The numbers of the next records, all where None."""
    stop = itertools.count() if count is None else range(count)
    got = []
    for _ in stop:
        try:
            got.append(int(provider.get(["number"])[0]))
        except EOFError:
            break
    return got


def simulated(files, count, *, num_readers, num_epochs, shuffle, capacity, seed):
    """The first `count` numbers, by the rules of the module, on lists."""
    shown = []
    for epoch in itertools.count() if num_epochs is None else range(num_epochs):
        order = file_order(len(files), seed, epoch) if shuffle else range(len(files))
        waiting, readers, read = [list(files[i]) for i in order], [[] for _ in range(num_readers)], []
        while any(waiting) or any(readers):
            for reader in readers:
                while not reader and waiting:
                    reader += waiting.pop(0)
                if reader:
                    read.append(reader.pop(0))
        if shuffle:
            sources = WindowShuffle(2**61, capacity, seed, epoch).sources(range(len(read) + capacity + 3))
            read = [read[i] for i in sources.tolist() if i < len(read)]
        shown += read
        if len(shown) >= count:
            break
    return shown[:count]


OPTIONS = st.fixed_dictionaries(
    {
        "num_readers": st.integers(1, 4),
        "num_epochs": st.sampled_from([1, 2, 3, None]),
        "shuffle": st.booleans(),
        "capacity": st.sampled_from([1, 2, 7, 40]),
        "seed": st.integers(0, 3),
    }
)


@cases(40)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any), OPTIONS)
def test_order_and_resumption(tmp_path_factory, lengths, options):
    folder = tmp_path_factory.mktemp("order")
    files = write_files(folder, lengths)
    expected = simulated(files, 40, **options)
    if options["num_epochs"]:
        total = options["num_epochs"] * sum(lengths)
        assert len(expected) == min(40, total)
        if total <= 40:
            assert sorted(expected) == sorted(options["num_epochs"] * list(itertools.chain(*files)))
    arguments = dict(options)
    arguments["common_queue_capacity"] = arguments.pop("capacity")

    def provider():
        return DatasetDataProvider(dataset(folder), common_queue_min=0, **arguments)

    with provider() as whole, provider() as other:
        for position in range(len(expected) + 1):
            state = json.loads(json.dumps(whole.get_state()))
            if position % 4 == 0:
                with provider() as fresh:
                    fresh.set_state(state)
                    assert fresh.get_state() == state
                    assert numbers(fresh, len(expected) - position) == expected[position:]
            other.set_state(state)
            assert numbers(other, 1) == expected[position : position + 1] or position == len(expected)
            assert numbers(whole, 1) == expected[position : position + 1] or position == len(expected)


def test_golden_order(tmp_path):
    """A change here changes what every saved state means: do not make one."""
    write_files(tmp_path, [7, 5, 8])
    arguments = {"num_readers": 2, "num_epochs": 1, "common_queue_capacity": 8, "common_queue_min": 4, "seed": 5}
    got = numbers(DatasetDataProvider(dataset(tmp_path), **arguments))
    assert got == GOLDEN
    assert numbers(DatasetDataProvider(dataset(tmp_path), **{**arguments, "seed": 6})) != GOLDEN
    write_files(tmp_path, [70, 50, 80])
    provider = DatasetDataProvider(dataset(tmp_path), **arguments)
    numbers(provider, 150)
    state = provider.get_state()
    assert state.pop("fingerprint")["num_readers"] == "2"
    assert state == GOLDEN_STATE


GOLDEN = [7, 14, 13, 12, 11, 16, 9, 8, 15, 1, 17, 10, 3, 2, 18, 0, 4, 19, 6, 5]
GOLDEN_STATE = {
    "format": 1,
    "epoch": 0,
    "position": 150,
    "readers": {"position": 128, "opened": 3, "turn": 0, "places": [[0, 14, 672], [2, 64, 3128]]},
}


def test_memory_and_rereading_are_bounded(tmp_path):
    """Reads at most a window ahead, and at most 7/3 windows again to continue."""
    write_files(tmp_path, [2000])

    class Counting(TFRecordReader):
        def records(self, path, number=0, start=0):
            for found in super().records(path, number, start):
                read.append(found[0].number)
                yield found

    def provider():
        spec = dataset(tmp_path, Counting)
        return DatasetDataProvider(spec, num_epochs=1, common_queue_capacity=90, common_queue_min=0, seed=4)

    read = []
    walker = provider()
    for position in range(1, 2001):
        walker.get([])
        assert len(read) <= position + 90
        if position % 77 == 0:
            state, before = walker.get_state(), len(read)
            assert len(json.dumps(state)) < 600
            fresh = provider()
            fresh.set_state(state)
            fresh.get([])
            assert len(read) - before <= 7 * 90 // 3 + 90
            del read[before:]


def test_items(tmp_path):
    write_files(tmp_path, [2, 2])
    provider = DatasetDataProvider(dataset(tmp_path, classes=7), shuffle=False, num_epochs=1)
    assert provider.list_items() == ["number", "half", "record_key"]
    assert provider.num_samples() == 99
    number, half, key = provider.get()
    assert (number, half.tolist(), key) == (0, [0], f"{tmp_path}/part-00.rec:0")
    key = f"{tmp_path}/part-00.rec:1"
    assert provider.get(["record_key", "number", "record_key"]) == [key, 1, key]
    with pytest.raises(ValueError, match="no item 'label'; known are 'number', 'half', 'record_key'"):
        provider.get(["label"])
    with pytest.raises(TypeError, match="must be a list of names, got the text 'number'"):
        provider.get("number")
    assert [(row["number"], row["record_key"]) for row in provider] == [
        (2, f"{tmp_path}/part-01.rec:0"),
        (3, f"{tmp_path}/part-01.rec:1"),
    ]
    with pytest.raises(EOFError, match="all records have been provided"):
        provider.get()
    renamed = DatasetDataProvider(dataset(tmp_path), record_key="id")
    assert renamed.list_items()[-1] == "id"
    with pytest.raises(ValueError, match="record_key='number' is the name of an item"):
        DatasetDataProvider(dataset(tmp_path), record_key="number")


def test_specification(tmp_path):
    write_files(tmp_path, [1, 1, 1])
    spec = dataset(tmp_path, classes=7)
    assert spec.classes == 7
    assert spec.items_to_descriptions == {"number": "which it is"}
    assert spec.reader == TFRecordReader()
    part = [f"{tmp_path}/part-{i:02d}.rec" for i in range(3)]
    assert spec.data_files() == part
    for sources, files in [
        ([tmp_path / "part-02.rec", f"{tmp_path}/part-0[01].rec"], [part[2], part[0], part[1]]),
        (part[1], [part[1]]),
        ([part[1], part[1]], [part[1], part[1]]),
    ]:
        assert DatasetSpecification(sources, TFRecordReader(), DECODER, None, {}).data_files() == files
    with pytest.raises(InputError, match=r"no file matches '.*x-\*'"):
        DatasetDataProvider(DatasetSpecification(f"{tmp_path}/x-*", TFRecordReader, DECODER, None, {}))
    with pytest.raises(InputError, match="no data sources"):
        DatasetSpecification([], TFRecordReader, DECODER, None, {}).data_files()
    with pytest.raises(ValueError, match="num_samples must be at least 0 or None, got -1"):
        DatasetSpecification(part, TFRecordReader, DECODER, -1, {})


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"num_readers": 0}, "num_readers must be at least 1, got 0"),
        ({"num_epochs": 0}, "num_epochs must be at least 1, got 0"),
        ({"common_queue_capacity": 0, "shuffle": False}, "common_queue_capacity must be at least 1, got 0"),
        ({"common_queue_capacity": 128}, r"must be in \[0, common_queue_capacity = 128\), got 128"),
        ({"common_queue_min": -1}, "got -1"),
    ],
)
def test_arguments_are_checked(tmp_path, arguments, text):
    write_files(tmp_path, [1])
    with pytest.raises(ValueError, match=text):
        DatasetDataProvider(dataset(tmp_path), **arguments)
    DatasetDataProvider(dataset(tmp_path), common_queue_capacity=1, shuffle=False)


def test_files_without_records(tmp_path):
    write_files(tmp_path, [0, 0])
    with pytest.raises(InputError, match="none of the 2 files holds a record"):
        DatasetDataProvider(dataset(tmp_path)).get()
    with pytest.raises(EOFError):
        DatasetDataProvider(dataset(tmp_path), num_epochs=5).get()


def test_errors_name_the_record(tmp_path):
    write_files(tmp_path, [1])
    framed = tfrecord.frame_all([example.serialize({"n": [0]}), example.serialize({"n": [b"x"]})])
    storage.write_bytes(tmp_path / "part-01.rec", b"".join(framed))
    provider = DatasetDataProvider(dataset(tmp_path), shuffle=False, num_epochs=1)
    provider.get()
    provider.get()
    with pytest.raises(
        InputError, match=rf"part-01.rec, byte {len(framed[0])} \(record 1\): n: expected a list of int64"
    ):
        provider.get()


def test_after_an_error_nothing_is_skipped(tmp_path):
    write_files(tmp_path, [3, 3])
    path = tmp_path / "part-00.rec"
    good = path.read_bytes()
    for shuffle in (False, True):
        arguments = {"shuffle": shuffle, "num_epochs": 1, "num_readers": 2, "seed": 1}
        expected = numbers(DatasetDataProvider(dataset(tmp_path), **arguments))
        provider = DatasetDataProvider(dataset(tmp_path), **arguments)
        path.write_bytes(good[:-1])
        got = []
        for _ in range(3):
            with pytest.raises(CorruptRecordError, match=r"part-00\.rec"):
                got.extend(row["number"] for row in provider)  # keeps what came before the error
        path.write_bytes(good)
        assert len(got) < 6
        assert got + numbers(provider) == expected


def test_states_of_something_else(tmp_path):
    write_files(tmp_path / "a", [4, 4])
    write_files(tmp_path / "b", [4, 4])
    write_files(tmp_path / "c", [4, 4, 4])

    def provider(folder="a", **arguments):
        return DatasetDataProvider(dataset(tmp_path / folder), **{"seed": 1, "num_epochs": 2, **arguments})

    walker = provider()
    walker.get()
    state = walker.get_state()
    expected = numbers(walker)
    moved = provider("b")
    moved.set_state(state)
    assert numbers(moved) == expected
    longer = provider(num_epochs=None)
    longer.set_state(state)
    for other, text in [
        (provider("c"), "files was '2, SHA-256 .*' and is '3, SHA-256"),
        (
            provider(seed=2),
            "shuffle was 'common_queue_capacity=256, seed=1' and is 'common_queue_capacity=256, seed=2'",
        ),
        (provider(shuffle=False), "is 'no' now"),
        (provider(num_readers=2), "num_readers was '1' and is '2' now"),
        (provider(common_queue_capacity=200), "common_queue_capacity=200"),
    ]:
        with pytest.raises(StateError, match=text):
            other.set_state(state)
        assert other.get_state()["position"] == 0
    readers = state["readers"]
    own = [{"format": 3}, {"position": -1}, {"position": "1"}, {"epoch": None}, {"fingerprint": None}]
    places = [[], [3], [[2, 0, 0]], [[0, 0]], [[0, 0, "0"]]]
    parts = [{"position": 1}, {"position": 0.0}, {"opened": 3}, {"turn": 1}, {"turn": -1}, {"more": 1}]
    parts += [{"places": some} for some in places]
    of_readers = [None, {}, [], *({**readers, **part} for part in parts)]
    for damage in [*own, *({"readers": some} for some in of_readers)]:
        with pytest.raises(StateError):
            provider().set_state({**state, **damage})
    for damaged in (None, [], {}, 5, {**state, "more": 1}):
        with raises_with(StateError, expected=["a state"]):
            provider().set_state(damaged)
    moved.set_state({**state, "readers": {**readers, "opened": 1, "places": [[0, 1, 40]]}})
    with pytest.raises(CorruptRecordError):
        moved.get()


def test_files_are_closed_and_opened_again(tmp_path):
    write_files(tmp_path, [5, 5])
    provider = DatasetDataProvider(dataset(tmp_path), shuffle=False, num_readers=2, num_epochs=1)
    with provider:
        first = numbers(provider, 3)
    assert first + numbers(provider) == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]


def test_the_page_names_what_there_is():
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "slim.md"  # test_docs.py runs its example
    named = set(re.findall(r"`([A-Z]\w+)\(", page.read_text(encoding="utf-8")))
    exported = {name for name in vars(slim) if name[0].isupper()}
    assert named <= exported
    assert exported - named == {"DataDecoder", "ItemHandler", "RecordReader", "DatasetDataProvider"}
