"""An error comes exactly at its example: all good ones before it are yielded, and the iterator stays there."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.advice import note_value
from beam_datasets.errors import CorruptRecordError, StorageError
from beam_datasets.formats import tfrecord
from beam_datasets.storage.local import LocalReader
from tests.reading.conftest import read_by_python

LENGTHS = [5, 0, 40]
COUNT = sum(LENGTHS)
CONFIG = bd.ReadConfig(interleave_cycle_length=2, interleave_block_length=4)

CHAINS: dict[str, Any] = {
    "plain": lambda d: d,
    "shuffle": lambda d: d.shuffle(3),
    "window": lambda d: d.shuffle(3, 9),
    "window of all": lambda d: d.shuffle(3, 500),
    "window of repeat": lambda d: d.shuffle(2, 7).repeat(2).skip(3),
    "repeat": lambda d: d.repeat(2),
    "batch": lambda d: d.batch(4),
    "batch of shuffle": lambda d: d.shuffle(1).batch(4),
    "shuffle of batch": lambda d: d.batch(4).shuffle(1),
    "shard": lambda d: d.shard(1, 3, block=2),
    "shard of window by default": lambda d: d.shuffle(3, 9).repeat(2).shard(1, 2),
    "shard of window": lambda d: d.shuffle(3, 9).shard(1, 3, block=2),
    "batch of shard of window": lambda d: d.shuffle(3, 9).shard(1, 2).batch(3),
    "window of batch": lambda d: d.batch(2).shuffle(3, 4),
    "window of shuffle": lambda d: d.shuffle(1).shuffle(3, 9),
    "window of shard": lambda d: d.shard(0, 2, block=3).shuffle(3, 5),
    "batch of batch": lambda d: d.batch(2).batch(2, drop_remainder=True),
}


@pytest.fixture(params=["native", pytest.param("python", marks=pytest.mark.slow)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(tfrecord, "core", None)


def parts(item: Any) -> list[int]:
    """The ids of an example, or of a batch."""
    return np.ravel(item["id"]).tolist()


def drain(iterator: Any) -> tuple[list[Any], Exception | None]:
    found = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found, None
        except Exception as error:
            return found, error


def place_of(directory: Path, example: int, last_byte: bool) -> tuple[Path, int]:
    """Where to damage a record: the CRC of its data, or of its length."""
    shard = 0 if example < LENGTHS[0] else 2
    file = next(directory.glob(f"*-{shard:05d}-of-00003"))
    data = file.read_bytes()
    offsets = tfrecord.scan(data, path=str(file))
    number = example - (0 if shard == 0 else LENGTHS[0])
    return file, int(offsets[number + 1]) - 1 if last_byte else int(offsets[number]) + 9


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("chain", CHAINS)
def test_of_a_damaged_record(write: Any, tmp_path: Path, chain: str, indexed: bool) -> None:
    directory = tmp_path / "d" / "1.0.0"
    shutil.copytree(write({"train": LENGTHS}, indexed=indexed), directory)

    def open_again() -> Any:
        return CHAINS[chain](bd.builder_from_directory(directory).as_dataset("train", read_config=CONFIG))

    whole = list(map(parts, open_again()))
    for example in (0, 4, 5, 6, 11, 30, COUNT - 1):
        for last_byte in (True, False):
            file, place = place_of(directory, example, last_byte)
            content = file.read_bytes()
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            iterator = iter(open_again())
            found, error = drain(iterator)
            bad = next((i for i, ids in enumerate(whole) if example in ids), None)
            if bad is None and not indexed:
                assert error is None or isinstance(error, CorruptRecordError)  # it is walked through
            elif bad is None:  # it is another worker's, or left out
                assert error is None
                assert list(map(parts, found)) == whole
            if bad is None:
                file.write_bytes(content)
                continue
            assert isinstance(error, CorruptRecordError)
            assert (error.path, error.record) == (str(file), example - (0 if example < LENGTHS[0] else LENGTHS[0]))
            walked = not indexed and not last_byte and ("shuffle" in chain or "window" in chain)
            if not walked:  # where records are cannot be known of a shard without index whose lengths are damaged
                assert list(map(parts, found)) == whole[:bad]
            if "shard" not in chain:
                state = iterator.get_state()
                assert isinstance(drain(iterator)[1], CorruptRecordError)
                assert iterator.get_state() == state
            file.write_bytes(content)
            left, error = drain(iterator)
            assert error is None
            assert list(map(parts, [*found, *left])) == whole


COSTS: dict[str, Any] = {
    "window": lambda d: d.shuffle(3, 500),
    "window of repeat": lambda d: d.repeat().shuffle(3, 500).take(2000),
    "batch": lambda d: d.shuffle(3, 500).batch(16),
    "shuffle": lambda d: d.shuffle(3),
    "worker": lambda d: d.shuffle(3, 500).shard(0, 3),
    "worker of blocks": lambda d: d.shuffle(3, 500).shard(0, 3, block=32).batch(32),
    "shuffle of batch": lambda d: d.batch(8).shuffle(3),
}


@pytest.mark.parametrize("num_bad", [9, 40])
@pytest.mark.parametrize("chain", COSTS)
def test_damage_costs_little_more_than_reading_up_to_it(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: str, num_bad: int
) -> None:
    """Up to the error, not much more is read than without damage, in bytes and in calls."""
    directory = Path(shutil.copytree(write({"train": [600, 700]}, size=200), tmp_path / "d" / "1.0.0"))
    read_by_python(monkeypatch)
    reads: list[int] = []
    read = LocalReader._read
    monkeypatch.setattr(LocalReader, "_read", lambda *args: reads.append(args[2] - args[1]) or read(*args))

    def cost(stop: int | None) -> tuple[int, int, int]:
        reads.clear()
        dataset = COSTS[chain](bd.builder_from_directory(directory).as_dataset("train"))
        found, error = drain(itertools.islice(dataset, stop))
        assert (error is None) == (stop is not None)
        return len(reads), sum(reads), len(found)

    file = max(directory.glob("*-of-00002"))
    content = file.read_bytes()
    data, offsets = bytearray(content), tfrecord.scan(content, path=str(file))
    for record in range(300, 300 + num_bad):
        data[int(offsets[record]) + 20] ^= 1
    file.write_bytes(data)
    calls, num_bytes, num = cost(None)
    file.write_bytes(content)
    good_calls, good_bytes, _ = cost(num + 1)
    assert num_bytes <= 2 * good_bytes
    assert calls <= 2 * good_calls + 3 * num_bad + (500 if chain == "shuffle of batch" else 20), (calls, good_calls)


@pytest.mark.parametrize("chain", ["window", "shuffle", "shard of window", "batch of shuffle"])
def test_an_error_of_storage_is_raised_as_it_is(write: Any, monkeypatch: pytest.MonkeyPatch, chain: str) -> None:
    """Once, and at once: nothing is fetched again one by one, and the next call goes on."""
    read_by_python(monkeypatch)
    dataset = CHAINS[chain](bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train"))
    whole = list(map(parts, dataset))
    dataset = CHAINS[chain](bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train"))
    failures, read = [], LocalReader._read

    def fails_once(self: Any, start: int, stop: int) -> Any:
        if not failures:
            failures.append(StorageError("503 try again"))
            raise failures[0]
        return read(self, start, stop)

    monkeypatch.setattr(LocalReader, "_read", fails_once)
    iterator = iter(dataset)
    found, error = drain(iterator)
    assert [error] == failures
    left, error = drain(iterator)
    assert error is None
    assert list(map(parts, [*found, *left])) == whole


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("chain", ["plain", "shuffle", "window", "repeat", "shard"])
def test_of_a_function_that_fails(write: Any, chain: str) -> None:
    """Errors of records that do not decode come the same way, see test_undecoded."""
    dataset = CHAINS[chain](bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train"))
    whole = list(map(parts, dataset))
    for bad in (0, 1, 2, 9, 10, len(whole) - 1):
        ids = whole[bad]
        iterator = iter(dataset.map(lambda example, ids=ids: example if parts(example) != ids else 1 // 0))
        found, error = drain(iterator)
        assert isinstance(error, ZeroDivisionError), error
        first = whole.index(ids)
        assert list(map(parts, found)) == whole[:first]
        assert iterator.get_state()["position"] == first or chain in ("repeat", "shard")
        iterator.advance(1)
        assert parts(next(iterator)) == whole[first + 1] if first + 1 < len(whole) else True


@pytest.mark.usefixtures("way")
def test_a_function_that_raises_stop_iteration_does_not_end_it(write: Any) -> None:
    def stop(example: Any) -> Any:
        raise StopIteration

    iterator = iter(bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train").map(stop))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"map\(\).*StopIteration") as error:
            next(iterator)
        assert isinstance(error.value.__cause__, StopIteration)
    assert iterator.get_state()["position"] == 0


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_that_raises_stop_iteration_does_not_shorten_a_batch(write: Any, threads: int) -> None:
    def stop_at_5(example: Any) -> Any:
        if example["id"] == 5:
            raise StopIteration
        return example

    config = bd.ReadConfig(num_parallel_calls_for_decode=threads)
    dataset = bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train", read_config=config)
    iterator = iter(dataset.map(stop_at_5).batch(4))
    assert next(iterator)["id"].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match=r"map\(\).*StopIteration"):
        next(iterator)


@pytest.mark.usefixtures("way")
def test_a_function_may_use_the_iterator(write: Any) -> None:
    dataset = bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train")
    order = [int(example["id"]) for example in dataset]

    def close(example: Any) -> int:
        iterator.close()
        return int(example["id"])

    iterator = iter(dataset.map(close))
    assert list(iterator) == order

    def take_another(example: Any) -> Any:
        number = int(example["id"])
        return (number, next(iterator)) if number == order[0] else number

    iterator = iter(dataset.map(take_another))
    assert next(iterator) == (order[0], order[1])
    assert list(iterator) == order[2:]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "operation, read",
    [
        ("map", lambda d, f: list(d.map(f))),
        ("map", lambda d, f: d.map(f)[:]),
        ("map", lambda d, f: list(d.map(f).batch(4))),
        ("map", lambda d, f: list(d.map(f).shuffle(1).batch(4))),
        ("map", lambda d, f: list(d.flat_map(lambda e: [e]).map(f))),
        ("filter", lambda d, f: list(d.filter(f))),
        ("flat_map", lambda d, f: list(d.flat_map(f))),
    ],
)
def test_an_error_of_a_function_has_a_note_with_its_example(write: Any, operation: str, read: Any) -> None:
    def refuse(example: Any) -> Any:
        if example["id"] == 17:
            raise ValueError("bad")
        return [example] if operation == "flat_map" else operation != "filter" and example

    dataset = (
        bd.builder_from_directory(write({"train": LENGTHS})).as_dataset("train").map(lambda e: {"id": int(e["id"])})
    )
    with pytest.raises(ValueError, match="^bad") as error:
        read(dataset, refuse)
    assert error.value.__notes__ == [f"The function of {operation}() was given {{'id': 17}}"]


def test_the_note_of_an_image_is_short_and_names_its_label() -> None:
    error = ValueError("bad")
    note_value(error, "map", {"image": np.zeros((99, 99, 3), np.uint8), "text": "x" * 500, "label": 3})
    [note] = error.__notes__
    assert note.startswith(
        "The function of map() was given {'label': 3, 'image': uint8 array of shape (99, 99, 3), 'text'"
    )
    assert len(note) < 400
    error = TypeError("f() missing 1 required positional argument: 'label'")
    note_value(error, "map", (1, 2))
    assert error.__notes__[0].endswith("a tuple, as one argument: map(lambda pair: ...)")
    error = TypeError("a bytes-like object is required, not 'str'")
    note_value(error, "map", {"text": b"a"})
    assert error.__notes__[0].endswith("{'text': b'a'}. Text is read as bytes; bd.load(..., text='str') reads str")
