"""The place that is named of a record that does not decode, against where it was put."""

import gc
import json
import re
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_datasets as bd
from beam_datasets import features
from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import ExampleError, parse, serialize
from tests.facts import raises_with
from tests.published import flip, upload
from tests.reading.conftest import write_dataset

LENGTHS = [5, 0, 40, 7]
BAD = {0: ExampleError, 6: FeatureError, 7: ExampleError, 30: FeatureError, 51: FeatureError}
PLACE = re.compile(r"\. It is in (.+), byte (\d+) \(record (\d+)\)$")
SPLITS = ["train", "train[3:20]", "train[7:]", "train[:9]+train[28:52]", "train[2shard]", "train[:0]"]
DATASET_ORDER = st.sampled_from(SPLITS[:4])
CHAINS = st.lists(
    st.one_of(
        st.tuples(st.just("skip"), st.integers(0, 9)),
        st.tuples(st.just("take"), st.integers(0, 60)),
        st.tuples(st.just("shuffle"), st.integers(0, 3)),
        st.tuples(st.just("shuffle"), st.integers(0, 3), st.integers(1, 60)),
        st.tuples(st.just("repeat"), st.integers(1, 2)),
        st.tuples(st.just("shard"), st.integers(0, 1), st.integers(2, 3)),
        st.tuples(st.just("batch"), st.integers(1, 5), st.just(True)),
    ),
    max_size=4,
)


@dataclass(frozen=True)
class Pair:
    """A dataset, and the same with records that do not decode."""

    good: Path
    bad: Path

    def place_of(self, example: int) -> tuple[str, int, int]:
        """Returns the file, byte and number of an example."""
        shard, number = place_of(example)
        file = next(self.bad.glob(f"*-{shard:05d}-of-00004"))
        return str(file), int(tfrecord.scan(file.read_bytes(), path="")[number]), number


def place_of(example: int) -> tuple[int, int]:
    stops = np.cumsum(LENGTHS)
    shard = int(np.searchsorted(stops, example, side="right"))
    return shard, example - int(stops[shard]) + LENGTHS[shard]


@pytest.fixture(scope="module", params=["indexed", "plain"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    indexed, base = request.param == "indexed", tmp_path_factory.mktemp("pair")
    good, bad = (write_dataset(base / name / "1.0.0", {"train": LENGTHS}, indexed=indexed) for name in ("good", "bad"))
    for example, error in BAD.items():
        shard, number = place_of(example)
        file = next(bad.glob(f"*-{shard:05d}-of-00004"))
        spoil(file, number, error)
    return Pair(good, bad)


def spoil(file: Path, number: int, error: type[Exception]) -> int:
    """Replaces a record by one of as many bytes that raises an error, and returns where it begins."""
    data = file.read_bytes()
    start, stop = tfrecord.scan(data, path="")[number : number + 2].tolist()
    record = data[start + 12 : stop - 4]
    record = b"\xff" * len(record) if error is ExampleError else record.replace(b"id", b"jd")
    file.write_bytes(data[:start] + tfrecord.frame(record) + data[stop:])
    return int(start)


def ids(item: Any) -> list[int]:
    return np.ravel(item["id"]).tolist()


def chained(dataset: Any, chain: list[Any]) -> Any:
    for name, *arguments in chain:
        last = name == "batch" and (name, *arguments) is chain[-1]
        dataset = getattr(dataset, name)(arguments[0]) if last else called(dataset, name, arguments)
    return dataset


def called(dataset: Any, name: str, arguments: list[Any]) -> Any:
    if name == "batch":
        return dataset.batch(arguments[0], drop_remainder=True)
    return getattr(dataset, name)(*arguments)


def check(pair: Pair, error: Exception, wanted: list[int]) -> None:
    """The error is of the first of some examples that is bad in its way."""
    kind = ExampleError if isinstance(error, ExampleError) else FeatureError
    named = PLACE.search(str(error))
    assert named, error
    example = next(example for example in wanted if BAD.get(example) is kind)
    assert (named[1], int(named[2]), int(named[3])) == pair.place_of(example)


@given(st.sampled_from(SPLITS), CHAINS, st.booleans(), st.integers(1, 3), st.sampled_from([0, 1]), st.booleans())
def test_in_read_order(
    pair: Pair, split: str, chain: list[Any], with_ids: bool, cycle: int, epoch: int, shuffle_files: bool
) -> None:
    config = bd.ReadConfig(add_tfds_id=with_ids, interleave_cycle_length=cycle, interleave_block_length=3)
    opened = {"read_config": config, "shuffle_files": shuffle_files}
    good, bad = (
        chained(bd.builder_from_directory(directory).as_dataset(split, **opened), chain)
        for directory in (pair.good, pair.bad)
    )
    epoch = 0 if any(name == "repeat" for name, *_ in chain) else epoch
    iterator = bad.iterate(epoch=epoch)
    for item in good.iterate(epoch=epoch):
        wanted = ids(item)
        if BAD.keys().isdisjoint(wanted):
            assert ids(next(iterator)) == wanted
            continue
        with pytest.raises((ExampleError, FeatureError)) as raised:
            next(iterator)
        check(pair, raised.value, wanted)
        iterator.advance(1)
    assert next(iterator, None) is None


@given(DATASET_ORDER, st.lists(st.integers(-10, 9), max_size=12), st.booleans(), st.integers(1, 3), st.booleans())
def test_in_dataset_order(
    pair: Pair, split: str, indices: list[int], with_ids: bool, cycle: int, shuffle_files: bool
) -> None:
    config = bd.ReadConfig(add_tfds_id=with_ids, interleave_cycle_length=cycle)
    good, bad = (
        bd.builder_from_directory(directory).as_dataset(split, read_config=config, shuffle_files=shuffle_files)
        for directory in (pair.good, pair.bad)
    )
    for index in (
        indices,
        np.array(indices, np.int64),
        slice(min(indices, default=0), max(indices, default=0)),
        *indices,
    ):
        found = good[index]
        wanted = [i for item in (found if isinstance(found, list) else [found]) for i in ids(item)]
        if BAD.keys().isdisjoint(wanted):
            bad[index]
            continue
        with pytest.raises((ExampleError, FeatureError)) as raised:
            bad[index]
        check(pair, raised.value, [next(i for i in wanted if i in BAD)])


def test_of_an_example_that_fills_a_worker_up(pair: Pair) -> None:
    """Example 0 is bad, and the second example of the second worker."""
    dataset = bd.builder_from_directory(pair.bad).as_dataset("train[:3]")
    for filled in (dataset.shard(1, 2, block=2, even="pad"), dataset.batch(1).shard(1, 2, even="pad")):
        with pytest.raises(ExampleError) as raised:
            list(filled)
        check(pair, raised.value, [0])


def test_of_a_function_it_is_not_said(pair: Pair) -> None:
    def refuse(_: Any) -> None:
        raise FeatureValueError("not this one")

    dataset = bd.builder_from_directory(pair.bad).as_dataset("train[1:20]")
    for mapped in (dataset.map(refuse), dataset.map(refuse).batch(19), dataset.batch(3).map(refuse)):
        with pytest.raises(FeatureValueError, match="^not this one$"):
            next(iter(mapped))
    with pytest.raises(FeatureValueError, match="^not this one$"):
        dataset.map(refuse)[4]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """30 images of two sizes; number 17 is none."""
    directory = write_dataset(tmp_path / "images" / "1.0.0", {"train": [30]}, indexed=False)
    tree = features.FeaturesDict({"image": features.Image(), "id": np.int64})
    encode = features.compile_encoder(tree)
    records = [encode({"image": np.full((8 + i // 29, 8, 3), i, np.uint8), "id": i}) for i in range(30)]
    records[17] = serialize({"image": [b"no image"], "id": [17]})
    next(directory.glob("*.tfrecord-*")).write_bytes(b"".join(tfrecord.frame_all(records)))
    (directory / "features.json").write_text(features.to_json_text(tree))
    return directory


@pytest.mark.parametrize(
    "chain", [[], [("batch", 4)], [("shuffle", 1)], [("map", dict)], [("map", dict), ("batch", 9)]]
)
def test_an_image_that_is_none(images: Path, chain: list[Any]) -> None:
    dataset = chained(bd.builder_from_directory(images).as_dataset("train"), chain)
    file = next(images.glob("*.tfrecord-*"))
    byte = int(tfrecord.scan(file.read_bytes(), path="")[17])
    place = {"feature": "image", "path": str(file), "offset": byte, "record": 17}
    with raises_with(FeatureError, **place) as error:
        list(dataset)
    assert str(error.value).endswith(f". It is in {file}, byte {byte} (record 17)")
    if chain in ([], [("map", dict)]):
        with raises_with(FeatureError, **place):
            dataset[10:20]


@pytest.fixture
def episodes(tmp_path: Path) -> Path:
    """9 examples of 3 items each; item 2 of number 4 is not an image."""
    directory = write_dataset(tmp_path / "episodes" / "1.0.0", {"train": [9]}, indexed=False)
    tree = features.FeaturesDict({"id": np.int64, "steps": features.Dataset(features.Image(shape=(90, 90, 3)))})
    encode = features.compile_encoder(tree)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)  # large enough for threads
    records = [encode({"id": i, "steps": [pixels] * 3}) for i in range(9)]
    records[4] = serialize({"id": [4], "steps": [*parse(records[4])["steps"][:2], b"no image"]})
    next(directory.glob("*.tfrecord-*")).write_bytes(b"".join(tfrecord.frame_all(records)))
    (directory / "features.json").write_text(features.to_json_text(tree))
    info = directory / "dataset_info.json"
    keys = {"tuple": {"items": [{"featureKey": "id"}, {"featureKey": "steps"}]}}
    info.write_text(json.dumps({**json.loads(info.read_text()), "supervisedKeys": keys}))
    return directory


@pytest.mark.parametrize("as_supervised", [False, True])
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_item_of_a_nested_dataset_that_map_takes(
    episodes: Path, as_supervised: bool, with_ids: bool, threads: int
) -> None:
    def last(example: Any) -> Any:
        return {"last": (example[1] if as_supervised else example["steps"])[-1]}

    config = bd.ReadConfig(add_tfds_id=with_ids, num_parallel_calls_for_decode=threads)
    builder = bd.builder_from_directory(episodes)
    dataset = builder.as_dataset("train", as_supervised=as_supervised, read_config=config).map(last)
    file = next(episodes.glob("*.tfrecord-*"))
    byte = int(tfrecord.scan(file.read_bytes(), path="")[4])
    for get in (list, lambda ds: list(ds.batch(3)), lambda ds: ds[4], lambda ds: ds[2:6]):
        with raises_with(FeatureError, feature="steps", path=str(file), offset=byte, record=4) as error:
            get(dataset)
        assert " (item 2). It is in " in str(error.value)
    assert len(list(dataset.take(4))) == 4


def test_an_error_that_names_an_object_of_its_own(images: Path) -> None:
    objects = []

    @bd.decode.make_decoder()
    def refuse(stored: bytes, feature: Any) -> bytes:
        if stored == b"no image":
            objects.append(object())
            raise FeatureValueError(f"{objects[-1]!r} is none")
        return stored

    dataset = bd.builder_from_directory(images).as_dataset("train", decoders={"image": refuse()})
    for get in (lambda: dataset[17], lambda: dataset[3:20], lambda: list(dataset.batch(30))):
        with raises_with(FeatureError, path=re.compile("tfrecord"), offset=re.compile(r"^\d+$"), record=17) as error:
            get()
        assert re.search(r"at 0x\w+> is none\. It is in ", str(error.value))


def test_byte_is_left_out_where_it_cannot_be_known(images: Path) -> None:
    file = next(images.glob("*.tfrecord-*"))
    flip(file, int(tfrecord.scan(file.read_bytes(), path="")[29]))
    dataset = bd.builder_from_directory(images).as_dataset("train")
    with raises_with(FeatureError, path=str(file), offset=None, record=17):
        list(dataset)


@pytest.mark.parametrize("manifest", [True, False])
def test_of_a_remote_shard_the_byte_is_said_where_an_index_has_it(tmp_path: Path, manifest: bool) -> None:
    pytest.importorskip("obstore")
    directory = write_dataset(tmp_path / "far" / "1.0.0", {"train": [30, 40]}, manifest=manifest)
    file = sorted(directory.glob("*.tfrecord-?????-of-00002"))[1]
    offset = spoil(file, 7, ExampleError)
    remote = upload(directory, f"memory://undecoded-{manifest}/far/1.0.0")
    dataset = bd.builder_from_directory(remote).as_dataset("train")
    byte = offset if manifest else None
    for read in (dataset, dataset.batch(4)):
        with raises_with(ExampleError, path=f"{remote}/{file.name}", offset=byte, record=7):
            list(read)


def test_an_iterator_is_let_go_of(images: Path) -> None:
    iterator = iter(bd.builder_from_directory(images).as_dataset("train"))
    next(iterator)
    there = weakref.ref(iterator)
    gc.disable()
    try:
        del iterator
        assert there() is None
    finally:
        gc.enable()
