"""A dataset derived from another in one pipeline (read, map, write) has the same bytes on any runner."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.beam import ReadDataset, WriteDataset
from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers

COUNT = 5000
FEATURES = {"id": np.int64, "words": F.Sequence(F.Text()), "length": np.int32}


def derived(pair: tuple[Any, dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
    """Returns the key and the example that are made of a pair of the source."""
    key, source = pair
    text = source["text"].decode()
    return key, {"id": source["id"], "words": text.split(), "length": len(text)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Numbers(data_dir=tmp_path_factory.mktemp("source"), count=COUNT)
    return builder.build(num_shards={"train": 5, "test": 1}, num_workers=1)


def run(source: str, data_dir: Path, *options: str, range_bytes: int | None = None) -> dict[str, str]:
    """Derives two splits and returns the digests of what was written."""
    with beam.Pipeline(options=PipelineOptions(list(options))) as pipeline:
        splits = {
            name: pipeline
            | f"Read {name}" >> ReadDataset(source, split, with_ids=True, range_bytes=range_bytes)
            | f"Derive {name}" >> beam.Map(derived)
            for name, split in (("train", "train[:90%]+test"), ("rest", "train[90%:]"))
        }
        splits | WriteDataset("words", FEATURES, data_dir=data_dir, version="2.0.0", num_shards={"train": 3})
    return digests(data_dir / "words" / "2.0.0")


@pytest.fixture(scope="module")
def expected(source: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run(source, tmp_path_factory.mktemp("expected"), "--runner=FnApiRunner")


def test_every_example_once(source: str, tmp_path: Path) -> None:
    run(source, tmp_path, "--runner=FnApiRunner")
    builder = bd.builder_from_directory(source)
    for split, read in (("train", "train[:90%]+test"), ("rest", "train[90%:]")):
        examples = builder.as_dataset(read)
        wanted = sorted((int(e["id"]), e["text"].split(), len(e["text"])) for e in examples)
        made = bd.load("words", data_dir=tmp_path, split=split)
        assert sorted((int(e["id"]), e["words"].tolist(), int(e["length"])) for e in made) == wanted
    assert made.find("numbers-train.tfrecord-00004-of-00005__999") is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, range_bytes",
    [
        (["--runner=FnApiRunner", "--direct_num_workers=2", "--direct_running_mode=multi_processing"], 20_000),
        (["--runner=FnApiRunner"], 1),
        (["--runner=FnApiRunner"], 10**9),
        (None, 20_000),
    ],
    ids=["two workers", "a record a range", "a shard a range", "the portable job service"],
)
def test_the_same_bytes(
    request: pytest.FixtureRequest,
    source: str,
    tmp_path: Path,
    expected: dict[str, str],
    options: list[str] | None,
    range_bytes: int,
) -> None:
    options = request.getfixturevalue("portable") if options is None else options
    assert run(source, tmp_path, *options, range_bytes=range_bytes) == expected


def test_an_order_can_be_kept(source: str, tmp_path: Path) -> None:
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        read = pipeline | ReadDataset(source, "train[10%:30%]", with_ids="index", range_bytes=5000)
        made = read | beam.Map(derived)
        made | WriteDataset("words", FEATURES, data_dir=tmp_path, num_shards=2, disable_shuffling=True)
    order = [int(e["id"]) for e in bd.load("words", data_dir=tmp_path, split="train")]
    assert order == [int(e["id"]) for e in bd.builder_from_directory(source).as_dataset("train[10%:30%]")[:]]
    assert len(order) == COUNT // 5
    assert sorted(order) != order
