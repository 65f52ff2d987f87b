"""Every public name of the installed libraries that users of them look for leads somewhere here."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import advice
from tests.adapters.conftest import needed, write_bare

# Of modules of their own, or names that no user writes.
INNER = {"annotations", "check_worker_number_rationality", "multiprocessing_context"}
INNER |= {"gopen_schemes", "pipelinefilter", "pipe_cleaner", "non_empty", "transform_with", "repeatedly", "info"}
INNER |= {"update_cache_info", "PipelineStage", "Continue", "LMDBCached", "LRUCleanup", "xdecode"}


def public(target: Any) -> set[str]:
    """Returns the public names of a class, or of a module without its modules."""
    names = {name for name in dir(target) if not name.startswith("_")} - INNER
    if inspect.ismodule(target):
        names -= {name for name in names if inspect.ismodule(getattr(target, name, None))}
    return names


def unknown(receiver: str, names: set[str], target: Any) -> set[str]:
    return {name for name in names if name not in dir(target) and name not in advice._table(receiver)}


def test_of_hugging_face() -> None:
    datasets = needed("datasets")
    assert not unknown("bd", public(datasets), bd)
    assert not unknown("ds", public(datasets.Dataset) | public(datasets.IterableDataset), bd.Dataset)


def test_of_pytorch(torch: Any, torchdata: Any) -> None:
    assert not unknown("bd", public(torch.utils.data) | public(torchdata), bd)


def test_of_grain(grain: Any) -> None:
    assert not unknown("bd", public(grain), bd)
    assert not unknown("ds", public(grain.MapDataset) | public(grain.IterDataset), bd.Dataset)


def test_of_webdataset() -> None:
    webdataset = needed("webdataset")
    functions = {name for name in public(webdataset) if inspect.isclass(getattr(webdataset, name))}
    assert not unknown("bd", functions, bd)
    assert not unknown("ds", public(webdataset.WebDataset), bd.Dataset)


def test_of_tf_data(tf: Any) -> None:
    experimental = public(tf.data.Dataset) & public(tf.data.experimental)
    assert not unknown("bd", public(tf.data), bd)
    assert not unknown("ds", public(tf.data.Dataset) | experimental, bd.Dataset)
    assert not unknown("iterator", public(tf.data.Iterator), bd.DatasetIterator)


def test_of_tensorflow_datasets(tf: Any) -> None:
    tfds = needed("tensorflow_datasets")
    functions = {name for name in public(tfds) if callable(getattr(tfds, name))}
    assert functions >= {"load", "as_numpy"}
    assert not unknown("bd", functions, bd)


@pytest.fixture
def numbers(tmp_path: Any) -> Any:
    features = {"n": np.int64, "x": bd.features.Tensor(shape=(2,), dtype=np.float32), "text": bd.features.Text()}
    values = [{"n": n, "x": np.full(2, n, np.float32), "text": f"t{n}"} for n in range(20)]
    return write_bare(tmp_path / "numbers.tfrecord", features, values)


def test_a_loader_of_a_dataset_without_an_adapter_names_it(torch: Any, numbers: Any) -> None:
    loader = torch.utils.data.DataLoader
    for dataset in (numbers.shuffle(seed=1), numbers.filter(lambda e: e["n"] > 3), numbers.repeat()):
        with pytest.raises(TypeError, match=r"A DataLoader of PyTorch takes ds\.as_torch\(\)"):
            list(loader(dataset, batch_size=4))
        assert len(next(iter(loader(dataset.as_torch(), batch_size=4)))["n"]) == 4
    with pytest.raises(TypeError, match=r"ds\.as_torch\(\)"):
        list(loader(numbers.filter(lambda e: True), batch_size=4, shuffle=True))


def test_as_jax(jax: Any, numbers: Any) -> None:
    arrays = numbers.shuffle(seed=3).batch(8).as_jax(device=jax.devices()[0])
    expected = list(numbers.shuffle(seed=3).batch(8))
    assert len(arrays) == 3
    for batch, array in zip(expected, arrays):
        assert isinstance(array["x"], jax.Array)
        assert array["n"].dtype == "int32"
        assert array["n"].tolist() == batch["n"].tolist()
        assert array["x"].tolist() == batch["x"].tolist()
        assert array["text"].tolist() == batch["text"].tolist()
    second = [batch["n"].tolist() for batch in numbers.shuffle(seed=3).batch(8).iterate(epoch=1)]
    assert [batch["n"].tolist() for batch in arrays] == second  # each pass reads the next epoch
    iterator = arrays.iterate(epoch=1)
    next(iterator)
    state = iterator.get_state()
    rest = [batch["n"].tolist() for batch in iterator]
    assert rest == second[1:]
    assert [batch["n"].tolist() for batch in arrays.iterate(state=state)] == rest
    assert int(numbers.as_jax()[7]["n"]) == 7


@pytest.mark.parametrize("epochs", [1, 2])
def test_passes_of_as_jax_follow_a_resumed_one(jax: Any, numbers: Any, epochs: int) -> None:
    dataset = numbers.shuffle(seed=3).repeat(epochs).batch(8) if epochs > 1 else numbers.shuffle(seed=3).batch(8)
    expected = [batch["n"].tolist() for epoch in range(9) for batch in numbers.shuffle(seed=3).iterate(epoch=epoch)]
    flat: Any = lambda batches: [n for batch in batches for n in batch["n"].tolist()]  # noqa: E731
    size = epochs * len(numbers)
    arrays = dataset.as_jax(epoch=epochs)  # begins with the second pass
    with iter(arrays) as iterator:
        first = flat([next(iterator)])
        state = iterator.state_dict()
    assert first == expected[size : size + 8]
    resumed = dataset.as_jax()
    assert flat(resumed.iterate(state=state)) == expected[size + 8 : 2 * size]
    assert flat(resumed) == expected[2 * size : 3 * size]
    assert flat(resumed) == expected[3 * size : 4 * size]
    iterator = iter(dataset.as_jax())
    iterator.load_state_dict(state)
    assert flat([next(iterator)]) == expected[size + 8 : size + 16]


def test_as_jax_divides_by_a_sharding(jax: Any, numbers: Any) -> None:
    sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("data",)), jax.sharding.PartitionSpec("data"))
    features = numbers.map(lambda e: {"x": e["x"]}).batch(4).as_jax(device=sharding)
    assert next(iter(features))["x"].sharding == sharding


def test_a_sharding_that_does_not_divide_the_last_batch(jax: Any, numbers: Any) -> None:
    assert jax.device_count() == 4, "another test has started JAX with other devices"
    sharding = jax.sharding.NamedSharding(jax.make_mesh((4,), ("data",)), jax.sharding.PartitionSpec("data"))
    arrays = numbers.map(lambda e: {"x": e["x"]}).batch(8).as_jax(device=sharding)
    assert len(next(iter(arrays))["x"].sharding.device_set) == 4
    uneven = numbers.take(18).map(lambda e: {"x": e["x"]}).batch(8).as_jax(device=sharding)
    with pytest.raises(ValueError, match=r"x: an array of shape \(2, 2\) cannot be divided.*drop_remainder=True"):
        list(uneven)


def test_parts_of_processes_have_one_length(jax: Any, numbers: Any) -> None:
    """Else the global arrays of the last step would differ in shape, and JAX would hang."""

    class OfProcesses:
        """A sharding over the devices of several processes."""

        is_fully_addressable = False

    odd = numbers.take(19)
    with pytest.raises(ValueError, match=r"got 10 and 9 examples. Give shard\(\) even='drop' or even='pad'"):
        odd.shard(0, 2).batch(4).as_jax(device=OfProcesses())
    for part in (odd.shard(0, 2, even="pad"), odd.repeat().shard(0, 2), numbers.shard(1, 2)):
        part.batch(4).as_jax(device=OfProcesses())
    odd.shard(0, 2).batch(4, drop_remainder=True).as_jax(device=OfProcesses())
    for whole in (
        odd,
        odd.shuffle(1).batch(4),
        bd.mix([odd, numbers], weights=[1, 1], seed=1).batch(4),
    ):
        whole.as_jax(device=OfProcesses())


def test_as_jax_cuts_no_integer(jax: Any, tmp_path: Any) -> None:
    wide = write_bare(tmp_path / "wide.tfrecord", {"n": np.int64}, [{"n": 1 << 31}])
    with pytest.raises(bd.errors.FeatureOverflowError, match="n: expected integers that fit int32.*2147483648"):
        list(wide.batch(1).as_jax())


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda ds: ds.as_torch()[3], "TypeError: Divided has no items, such as 3. Use `as_torch(map_style=True)[3]`"),
        (lambda ds: ds.as_torch().batch(4), "ds.batch(4).as_torch()"),
        (lambda ds: ds.as_torch().features, "such as `ds.features`"),
        (lambda ds: ds.filter(bool).as_torch().shuffle(3), "ds.shuffle(seed=3).as_torch()"),
        (lambda ds: ds.as_torch().filter(bool), "ds.filter(bool).as_torch()"),
        (lambda ds: ds.as_torch(map_style=True).set_epoch(1), "of PyTorch's `DistributedSampler`"),
        (lambda ds: ds.as_torch(map_style=True).map(bool), "ds.map(bool).as_torch()"),
        (lambda ds: ds.as_torch(even=True), "even: expected 'drop', 'pad' or None, got True"),
        (lambda ds: ds.as_torch(even="wrap"), "even: expected 'drop', 'pad' or None, got 'wrap'"),
    ],
)
def test_what_follows_as_torch(torch: Any, three: Any, call: Any, expected: str) -> None:
    with pytest.raises((AttributeError, TypeError, ValueError)) as caught:
        eval("call(ds)", {"call": call, "ds": three.as_dataset("train")})
    assert expected in f"{caught.type.__name__}: {caught.value}"


def test_what_follows_as_jax_and_as_grain_source(jax: Any, grain: Any, three: Any) -> None:
    ds = three.as_dataset("train")
    with pytest.raises(AttributeError, match=r"ds\.batch\(3\)\.as_jax\(\)"):
        ds.as_jax().batch(3)
    with pytest.raises(
        AttributeError, match=r"grain\.MapDataset\.source\(ds\.as_grain_source\(\)\)\.shuffle\(seed=5\)"
    ):
        ds.as_grain_source().shuffle(5)


def test_the_datasets_of_all_splits_are_a_tree_of_jax(jax: Any, three: Any) -> None:
    datasets = three.as_dataset()
    lengths = jax.tree.map(len, datasets)
    assert lengths == {split: len(dataset) for split, dataset in datasets.items()}
    assert jax.tree.leaves(datasets) == [datasets[split] for split in sorted(datasets)]
    assert jax.tree.map(lambda dataset, length: length, datasets, lengths) == lengths


def test_a_slice_is_a_tree_of_jax(jax: Any, three: Any) -> None:
    examples = three.as_dataset("train")[:2]
    leaves = jax.tree.leaves(examples)
    assert len(leaves) == len(jax.tree.leaves(list(examples))) > 2
    assert jax.tree.map(lambda value: 1, examples) == [dict.fromkeys(example, 1) for example in examples]


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_iterator_of_as_torch_leads_to_the_state_of_its_dataset(torch: Any, numbers: Any, is_stream: bool) -> None:
    dataset = (numbers.filter(lambda e: True) if is_stream else numbers).as_torch()
    iterator = iter(dataset)
    first = [int(next(iterator)["n"]) for _ in range(3)]
    with pytest.raises(AttributeError) as caught:
        iterator.state_dict()
    assert str(caught.value).startswith("iter(ds.as_torch()) has no attribute 'state_dict'. Use `dataset.state_dict()`")
    state = dataset.state_dict()
    with pytest.raises(AttributeError, match=r"Use `dataset.load_state_dict\(state\)`"):
        iterator.load_state_dict(state)
    resumed = (numbers.filter(lambda e: True) if is_stream else numbers).as_torch()
    resumed.load_state_dict(state)
    assert [*first, *(int(e["n"]) for e in resumed)] == list(range(20))
