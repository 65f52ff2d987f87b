"""Real tf.data over `as_tf_dataset()`: signatures, values and order; where TFDS is installed, the same as TFDS's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.errors import FeatureValueError, StateError
from beam_datasets.formats.tfrecord import frame_all
from tests.adapters.conftest import DATA, ids, needed, write_bare
from tests.facts import raises_with

pytestmark = pytest.mark.filterwarnings("ignore")  # of TensorFlow and TFDS
LOWEST = {"opt": np.iinfo(np.int64).min}  # TFDS reads this for a missing number
VERSIONS = sorted(path.parent.relative_to(DATA).as_posix() for path in DATA.rglob("dataset_info.json"))


def plain(tf: Any, value: Any) -> Any:
    """An element as nested lists, with the dtypes and shapes of its tensors."""
    if isinstance(value, dict):
        return {name: plain(tf, inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(tf, inner) for inner in value)
    if isinstance(value, tf.RaggedTensor):
        return value.dtype, value.to_list()
    if isinstance(value, tf.data.Dataset):
        return [plain(tf, inner) for inner in value]
    return value.dtype, tuple(value.shape), np.asarray(value.numpy()).tolist()


@pytest.mark.parametrize("version", VERSIONS)
def test_same_as_tfds(tf: Any, tfds: Any, version: str) -> None:
    theirs = tfds.builder_from_directory(str(DATA / version)).as_dataset(split="train")
    dataset = bd.builder_from_directory(DATA / version).as_dataset("train")
    ours = dataset.as_tf_dataset(fill=LOWEST if "opt" in dataset.features else None)
    assert ours.element_spec == theirs.element_spec
    assert int(ours.cardinality()) == int(theirs.cardinality())
    got, expected = ([plain(tf, element) for element in dataset] for dataset in (ours, theirs))
    assert got == expected
    assert got


def test_an_item_that_does_not_decode_names_its_record(tf: Any, tmp_path: Path) -> None:
    tree = bd.features.FeaturesDict({"steps": bd.features.Dataset(bd.features.Image(shape=(2, 2, 3)))})
    encode = bd.features.compile_encoder(tree)
    records = [encode({"steps": [np.full((2, 2, 3), i, np.uint8)] * 3}) for i in range(5)]
    file = tmp_path / "episodes-train.tfrecord-00000-of-00001"
    file.write_bytes(b"".join(frame_all(records)))
    bd.adopt(file, tree, name="episodes")
    records[3] = records[3].replace(b"PNG", b"GNP")
    file.write_bytes(b"".join(frame_all(records)))
    elements = iter(bd.builder_from_directory(tmp_path).as_dataset("train").as_tf_dataset())
    assert [len(next(elements)["steps"]) for _ in range(3)] == [3] * 3
    byte = sum(len(record) + 16 for record in records[:3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{file}, byte {byte} \(record 3\)"):
        next(elements)


def test_batches(tf: Any, many: Any) -> None:
    keys = ("label", "mat", "rag", "text", "toks", "var", "opt", "nest")
    decoders = bd.decode.PartialDecoding(dict.fromkeys(keys, True))
    singles = many.as_dataset("train", decoders=decoders)
    batches = singles.padded_batch(5).as_tf_dataset()
    spec = batches.element_spec
    assert spec["label"] == tf.TensorSpec((None,), tf.int64)
    assert spec["mat"] == tf.TensorSpec((None, 2, 3), tf.float32)
    assert spec["rag"] == tf.RaggedTensorSpec((None, None, None), tf.int64, 2, tf.int64)
    assert spec["toks"] == tf.TensorSpec((None, None), tf.string)
    elements = list(batches)
    assert [int(element["label"].shape[0]) for element in elements] == [5, 5, 2]
    examples = list(singles)
    for index, example in enumerate(examples):
        element = elements[index // 5]
        row = index % 5
        assert element["mat"][row].numpy().tolist() == example["mat"].tolist()
        assert element["text"][row].numpy() == example["text"]
        assert element["rag"][row].to_list() == example["rag"].to_list()
        assert element["nest"]["deep"]["v"][row].numpy() == example["nest"]["deep"]["v"]
        expected = -(2**31) if example["opt"] is None else example["opt"]
        assert element["opt"][row].numpy() == expected


def test_supervised_ids_raw_and_skipped(tf: Any, many: Any, three: Any) -> None:
    with_id = three.as_dataset("train", read_config=bd.ReadConfig(add_tfds_id=True))
    made = with_id.as_tf_dataset()
    assert made.element_spec["tfds_id"] == tf.TensorSpec((), tf.string)
    assert [e["tfds_id"] for e in made.as_numpy_iterator()] == [example["tfds_id"] for example in with_id]
    raw = three.as_dataset("train").raw()
    assert list(raw.as_tf_dataset().as_numpy_iterator()) == list(raw)
    skipped = many.as_dataset("train", decoders={"image": bd.decode.SkipDecoding()})
    assert skipped.as_tf_dataset().element_spec["image"] == tf.TensorSpec((), tf.string)
    supervised = bd.builder_from_directory(DATA / "spec_multi" / "small" / "1.0.0")
    if supervised.info.supervised_keys:
        pairs = supervised.as_dataset("train", as_supervised=True)
        assert isinstance(pairs.as_tf_dataset().element_spec, tuple)


def test_mapped(tf: Any, many: Any) -> None:
    train = many.as_dataset("train").map(lambda e: (e["image"] / np.float32(255), {"n": int(e["n"]), "r": e["rag"]}))
    made = train.as_tf_dataset()
    image, rest = made.element_spec
    assert image == tf.TensorSpec((None, None, None), tf.float32)
    assert rest["n"] == tf.TensorSpec((), tf.int64)
    assert rest["r"] == tf.RaggedTensorSpec((None, None), tf.int64, 1, tf.int64)
    assert len(list(made)) == 12
    signature = (tf.TensorSpec((None, None, 3), tf.float32), rest)
    assert train.as_tf_dataset(output_signature=signature).element_spec == signature
    with pytest.raises(ValueError, match="output_signature"):
        train.take(0).as_tf_dataset()
    with pytest.raises(ValueError, match="output_signature"):
        many.as_dataset("train").map(lambda e: e["steps"]).as_tf_dataset()  # of the first example: none


def test_function_decoder(tf: Any, many: Any) -> None:
    @bd.decode.make_decoder()
    def length(stored: bytes, feature: Any) -> Any:
        return np.int32(len(stored))

    train = many.as_dataset("train", decoders={"image": length()})
    train = train.map(lambda e: {"image": e["image"], "n": e["n"]})
    assert train.as_tf_dataset().element_spec["image"] == tf.TensorSpec((), tf.int32)


def test_resumes_from_a_state(tf: Any, three: Any) -> None:
    train = three.as_dataset("train").shuffle(seed=3)
    iterator = iter(train)
    for _ in range(9):
        next(iterator)
    made = train.as_tf_dataset(state=iterator.get_state())
    assert int(made.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    expected = ids(iterator) + ids(train.iterate(epoch=1))  # only the first epoch begins at the state
    assert len(expected) == 14 + 23
    assert [int(element["idx"]) for element in made.repeat(2)] == expected
    with pytest.raises(StateError, match="slices was"):
        three.as_dataset("test").as_tf_dataset(state=iterator.get_state())


def test_a_state_in_the_first_epoch_of_keras(tf: Any, three: Any) -> None:
    """Keras ends all epochs after as many batches as the first one has, unless it is told the number."""
    keras = needed("keras")
    examples = three.as_dataset("train").map(lambda e: (np.float32([e["idx"]]), np.float32([0])))
    pairs = examples.batch(4)
    iterator = pairs.iterate(epoch=1)
    iterator.advance(2)
    state, begun = iterator.get_state(), list[int]()

    def fit(batches: Any, **options: Any) -> list[int]:
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        counts = []
        count = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: begun.clear(),
            on_train_batch_end=lambda batch, logs: begun.append(1),
            on_epoch_end=lambda epoch, logs: counts.append(len(begun)),
        )
        model.fit(batches, callbacks=[count], verbose=0, **options)
        return counts

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"4 items left of 6.*fit\(steps_per_epoch=6\)"):
        fit(pairs.as_tf_dataset(state=state), initial_epoch=1, epochs=3)
    assert fit(pairs.as_tf_dataset(state=state), initial_epoch=1, epochs=2) == [4]
    assert fit(pairs.as_tf_dataset(state=pairs.iterate(epoch=1).get_state()), epochs=2) == [6, 6]
    assert fit(examples.repeat().batch(4).as_tf_dataset(state=state), epochs=2, steps_per_epoch=6) == [6, 6]


def test_an_iteration_that_keras_begins_to_build_a_model_does_not_count(tf: Any, three: Any) -> None:
    space: dict[str, Any] = {}
    exec(compile("def _symbolic_build(read): return read()", "/keras/src/trainers/trainer.py", "exec"), space)
    train = three.as_dataset("train").shuffle(seed=3)
    iterator = train.iterate(epoch=1)
    iterator.advance(5)
    made = train.as_tf_dataset(state=iterator.get_state())
    expected = [*iterator], [*train.iterate(epoch=2)]
    for epoch in expected:
        first = space["_symbolic_build"](lambda: next(iter(made)))
        assert [int(first["idx"]), *ids(epoch)[1:]] == [int(element["idx"]) for element in made] == ids(epoch)


def test_each_iteration_is_the_next_epoch(tf: Any, three: Any) -> None:
    train = three.as_dataset("train").shuffle(seed=3)
    epochs = [ids(train.iterate(epoch=epoch)) for epoch in range(4)]
    assert epochs[0] != epochs[1]
    made = train.as_tf_dataset()
    assert [[int(element["idx"]) for element in made] for _ in range(3)] == epochs[:3]
    assert [int(element["idx"]) for element in train.as_tf_dataset().repeat(2)] == epochs[0] + epochs[1]
    assert [int(element["idx"]) for element in train.as_tf_dataset(epoch=2).repeat(2)] == epochs[2] + epochs[3]
    with pytest.raises(ValueError, match="expected 2, with which a pass"):
        train.repeat(2).as_tf_dataset(epoch=3)
    with raises_with(StateError, field="epoch", got="1"):
        train.as_tf_dataset(state=train.iterate(epoch=1).get_state(), epoch=2)
    twice = train.repeat(2).as_tf_dataset()
    assert [[int(element["idx"]) for element in twice] for _ in range(2)] == [
        epochs[0] + epochs[1],
        epochs[2] + epochs[3],
    ]


def test_optional_features_that_have_no_value(tf: Any, tmp_path: Path) -> None:
    features = {
        "a": bd.features.Tensor(shape=(2,), dtype=np.float32, optional=True),
        "b": bd.features.Scalar("bool", optional=True),
    }
    values = [{"a": None, "b": None}, {"a": [1, 2], "b": True}, {"a": None, "b": False}]
    adopted = write_bare(tmp_path / "x.tfrecord", features, values)
    mapped = adopted.map(lambda example: example)
    signature = adopted.as_tf_dataset().element_spec
    for fill, a, b in ((None, [np.nan, np.nan], False), ({"a": [3, 4], "b": True}, [3, 4], True)):
        for made in (
            adopted.as_tf_dataset(fill=fill),
            mapped.as_tf_dataset(output_signature=signature, fill=fill),
            adopted.batch(2, fill=fill).as_tf_dataset().unbatch(),
        ):
            assert made.element_spec == signature
            elements = list(made.as_numpy_iterator())
            np.testing.assert_array_equal([element["a"] for element in elements], [a, [1, 2], a])
            assert [bool(element["b"]) for element in elements] == [b, True, False]
    with pytest.raises(ValueError, match=r"fill= is an argument of batch\(\)"):
        adopted.batch(2).as_tf_dataset(fill=1)


@pytest.mark.parametrize("workers, use_multiprocessing", [(1, False), (2, False), (2, True)])
def test_a_py_dataset_of_keras(tf: Any, inter: Any, workers: int, use_multiprocessing: bool) -> None:
    """Its threads and processes read one dataset by indices."""
    script = Path(__file__).with_name("fit_py_dataset.py")
    environment = os.environ | {"PYTHONPATH": str(script.parents[2])}
    command = [sys.executable, script, str(workers), str(use_multiprocessing)]
    completed = subprocess.run(command, env=environment, check=True, timeout=200, capture_output=True, text=True)
    epochs = json.loads(completed.stdout.splitlines()[-1])
    expected = sorted(int(example["idx"]) for example in inter.as_dataset("train[:201]"))
    assert [sorted(number for step in epoch for number in step) for epoch in epochs] == [expected] * 2


def test_endless(tf: Any, three: Any) -> None:
    made = three.as_dataset("train").repeat().as_tf_dataset()
    assert int(made.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert len(list(made.take(30))) == 30


def test_nested_datasets_in_batches(tf: Any, many: Any) -> None:
    with pytest.raises(FeatureValueError, match="datasets in examples"):
        many.as_dataset("train").batch(2).as_tf_dataset()
