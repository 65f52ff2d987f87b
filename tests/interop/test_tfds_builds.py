"""Builders of the installed TFDS on fake sources: TFDS and this package write the same shards."""

from __future__ import annotations

import io
import json
import random
import tarfile
import wave
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import imagecodecs
import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets.testing import load_tfds_builder
from beam_datasets.testing.builder_case import FakeDownloads
from tests.interop.conftest import same_all


def noise(height: int, width: int) -> Any:
    return np.frombuffer(random.Random(height).randbytes(height * width * 3), np.uint8).reshape(height, width, 3)


def png(height: int, width: int) -> bytes:
    return bytes(imagecodecs.png_encode(noise(height, width)))


def wav(count: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 16000, count, "NONE", ""))
        writer.writeframes(np.arange(count, dtype="<i2").tobytes())
    return file.getvalue()


def zipped(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def tarred(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def titanic(folder: Path) -> dict[str, Any]:
    names = "pclass,survived,name,sex,age,sibsp,parch,ticket,fare,cabin,embarked,boat,body,home.dest"
    rows = [f"{i % 3 + 1},{i % 2},N {i},male,{20.1 + i},{i % 3},0,T,{7.25 + i / 7},C{i},S,2,?,X" for i in range(30)]
    (folder / "t.csv").write_text("\n".join([names, *rows]) + "\n")
    return {"download": "t.csv"}


def rock_paper_scissors(folder: Path) -> dict[str, Any]:
    for name in ("a", "b"):
        files = {f"rps/{kind}/{kind}{i:02d}-{i:03d}.png": png(300, 300) for kind in ("rock", "paper") for i in (0, 1)}
        zipped(folder / f"{name}.zip", files)
    return {"download": ["a.zip", "b.zip"]}


def piqa(folder: Path) -> dict[str, Any]:
    for name in ("train", "dev"):
        rows = [{"goal": f"g{i}", "sol1": "a", "sol2": "ü", "id": f"{i}"} for i in range(20)]
        json_lines(folder / "physicaliqa-train-dev" / f"{name}.jsonl", rows)
        (folder / "physicaliqa-train-dev" / f"{name}-labels.lst").write_text("0\n1\n" * 10)
    return {}


def scicite(folder: Path) -> dict[str, Any]:
    same = {"string": "s", "label": "method", "sectionName": "x", "citingPaperId": "1", "citedPaperId": "2"}
    same |= {"isKeyCitation": "true", "citeEnd": 4, "citeStart": 2, "source": "explicit", "id": "a"}
    for name in ("train", "dev", "test"):
        rows = [{**same, "unique_id": f"{name}{i}", "excerpt_index": i, "label_confidence": 0.7} for i in range(15)]
        json_lines(folder / "scicite" / f"{name}.jsonl", rows)
    return {"download_and_extract": {"scicite": "."}}


def tf_flowers(folder: Path) -> dict[str, Any]:
    files = {
        f"p/{kind}/{i}.jpg": bytes(imagecodecs.jpeg_encode(noise(20 + i, 9)))
        for kind in ("daisy", "roses")
        for i in (0, 1)
    }
    tarred(folder / "f.tgz", files)
    return {"download": "f.tgz"}


def resisc45(folder: Path) -> dict[str, Any]:
    for kind in ("airport", "beach"):
        (folder / "NWPU-RESISC45" / kind).mkdir(parents=True)
        (folder / "NWPU-RESISC45" / kind / f"{kind}.jpg").write_bytes(imagecodecs.jpeg_encode(noise(256, 256)))
    return {}


def speech_commands(folder: Path) -> dict[str, Any]:
    words = {f"{word}/{i}.wav": wav(16000 + i) for word in ("down", "cat", "up") for i in range(3)}
    lists = {"testing_list.txt": b"down/0.wav\n", "validation_list.txt": b"up/1.wav\n"}
    tarred(folder / "a.tgz", {**words, "_background_noise_/n.wav": wav(32000), **lists})
    tarred(folder / "b.tgz", {f"{word}/{i}.wav": wav(16000 + i) for word in ("_silence_", "no") for i in range(2)})
    return {"download": ["a.tgz", "b.tgz"]}


BUILDERS = (titanic, rock_paper_scissors, piqa, scicite, tf_flowers, resisc45, speech_commands)


def built_by_tfds(tfds: Any, cls: Any, root: Path, fakes: Path, results: dict[str, Any]) -> Any:
    from etils import epath

    def found(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: found(branch) for name, branch in tree.items()}
        return [found(branch) for branch in tree] if isinstance(tree, list) else epath.Path(fakes / tree)

    methods = {
        name: lambda self, urls, name=name: found(results.get(name, "."))
        for name in ("download", "extract", "download_and_extract")
    }
    manual = property(lambda self: epath.Path(fakes))
    with mock.patch.multiple(tfds.download.DownloadManager, manual_dir=manual, **methods):
        builder = cls(data_dir=str(root))
        builder.download_and_prepare()
    return builder


@pytest.mark.parametrize("make", BUILDERS, ids=lambda make: make.__name__)
def test_the_shards_are_those_of_tfds(tfds: Any, tmp_path: Path, make: Any) -> None:
    if make is speech_commands:
        pytest.importorskip("pydub")
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    results = make(fakes)
    cls = tfds.builder_cls(make.__name__)
    theirs = built_by_tfds(tfds, cls, tmp_path / "theirs", fakes, results)
    mine = load_tfds_builder(cls.__module__, cls.__name__)(data_dir=tmp_path / "mine")
    mine.use_downloads(FakeDownloads(fakes, results=results))
    mine.build(num_workers=1)
    names = [
        {path.name for path in Path(directory).glob("*.tfrecord-*") if path.suffix != ".index"}
        for directory in (mine.dataset_dir, theirs.data_dir)
    ]
    assert names[0] == names[1]
    for split, info in theirs.info.splits.items():
        assert mine.info.splits[split].shard_lengths == info.shard_lengths
        skip = {name: decode for name, decode in _skipping(bd).items() if name in mine.info.features}
        ours = bd.builder_from_directory(mine.dataset_dir).as_dataset(split, decoders=skip)
        skip = {name: decode for name, decode in _skipping(tfds).items() if name in theirs.info.features}
        same_all(ours, list(tfds.as_numpy(theirs.as_dataset(split=split, decoders=skip))))


def _skipping(library: Any) -> dict[str, Any]:
    """Images are compared as they are stored: JPEG is decoded by another transform."""
    return {"image": library.decode.SkipDecoding()}
