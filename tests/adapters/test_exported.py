"""What is exported, read by what it is exported for: Hugging Face's datasets, WebDataset with PyTorch, Grain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import beam_datasets as bd
from tests.adapters.conftest import DATA, needed
from tests.exporting.conftest import dataset_of, export, plain

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the frameworks are not ours to mend
MANY, INTER = DATA / "spec_many" / "2.0.1", DATA / "spec_inter" / "1.2.3"


@pytest.fixture
def load_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hugging Face's function, without a network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    datasets = needed("datasets")
    datasets.disable_progress_bars()

    def load(directory: Path) -> Any:
        return datasets.load_dataset(str(directory), cache_dir=str(tmp_path / "cache"))

    return load


def examples(builder: Any, split: str = "train") -> list[Any]:
    return builder.as_dataset(split)[:]


def test_hugging_face_reads_parquet(load_dataset: Any, tmp_path: Path, many: Any) -> None:
    loaded = load_dataset(export(MANY, tmp_path / "out", "parquet"))
    assert {name: len(rows) for name, rows in loaded.items()} == {"train": 12, "test": 3}
    datasets = needed("datasets")
    types = loaded["train"].features
    assert types["image"] == datasets.Image()
    assert types["label"] == datasets.ClassLabel(names=["cat", "dog", "fish"])
    assert types["nest"]["deep"]["lab"].names == ["p", "q"]
    for row, example in zip(loaded["train"], examples(many), strict=True):
        assert np.asarray(row["image"]).tolist() == example["image"].tolist()
        assert [np.asarray(frame).tolist() for frame in row["vid"]] == [frame.tolist() for frame in example["vid"]]
        assert row["text"] == example["text"].decode()
        for name in ("aud", "dyn", "f16", "flag", "label", "mat", "objs", "opt", "rag", "seq", "steps", "u64", "zl"):
            assert row[name] == plain(many.info.features[name], example[name]), name


@pytest.mark.parametrize("name", ["jsonl", "webdataset"])
def test_hugging_face_reads_the_rest(load_dataset: Any, tmp_path: Path, inter: Any, name: str) -> None:
    [(split, rows)] = load_dataset(export(INTER, tmp_path / "out", name, num_shards=3)).items()
    assert split == "train"
    found = sorted((row["json"]["idx"], row["name.txt"]) if name == "webdataset" else (row["idx"], row["name"])
                   for row in rows)  # fmt: skip
    assert found == sorted((int(example["idx"]), example["name"].decode()) for example in examples(inter))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_webdataset_feeds_pytorch(torch: Any, tmp_path: Path, num_workers: int) -> None:
    webdataset = needed("webdataset")
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 255, (4, 5, 3), np.uint8) for _ in range(20)]
    features = {"image": bd.features.Image(), "label": bd.features.ClassLabel(num_classes=7)}
    source = dataset_of(tmp_path, features, [{"image": p, "label": i % 7} for i, p in enumerate(pixels)])
    made = export(source, tmp_path / "out", "webdataset", num_shards=2)
    dataset = webdataset.WebDataset(str(made / "train-{000000..000001}.tar"), shardshuffle=False)
    pairs = dataset.decode("rgb8").to_tuple("__key__", "image.png", "label.cls").batched(4)
    loader = torch.utils.data.DataLoader(pairs, batch_size=None, num_workers=num_workers)
    found = sorted(
        (key, image, label)
        for keys, images, labels in loader
        for key, image, label in zip(keys, np.asarray(images).tolist(), np.asarray(labels).tolist())
    )
    assert [key for key, _, _ in found] == [f"train-{i:09d}" for i in range(20)]
    assert [image for _, image, _ in found] == [p.tolist() for p in pixels]
    assert [label for _, _, label in found] == [i % 7 for i in range(20)]


def test_grain_reads_array_record(grain: Any, tmp_path: Path, inter: Any) -> None:
    made = export(INTER, tmp_path / "out", "arrayrecord", split="train[10%:]", num_shards=4)
    source = grain.sources.ArrayRecordDataSource(sorted(map(str, made.glob("*.array_record-*"))))
    decode = bd.features.compile_decoder(inter.info.features)
    found = [int(decode(record)["idx"]) for record in grain.MapDataset.source(source)]
    assert found == [int(example["idx"]) for example in examples(inter, "train[10%:]")]
    loader = grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(len(source), shuffle=True, seed=3, num_epochs=1),
        worker_count=0,
    )
    assert sorted(int(decode(record)["idx"]) for record in loader) == sorted(found)
