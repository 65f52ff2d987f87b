"""Builders of the installed TFDS on fake sources: TFDS and this package write the same shards."""

from __future__ import annotations

import concurrent.futures
import io
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import imagecodecs
import pytest
import requests

import beam_datasets as bd
from beam_datasets.downloads import DownloadSettings
from beam_datasets.testing import load_tfds_builder
from tests.interop.conftest import same_all
from tests.interop.fake_builders import BUILDERS
from tests.interop.fake_sources import Source, response, write_manual

KEYED_BY_PLACE = ("hellaswag",)  # keys contain the names under which TFDS keeps downloads, and so decide the order


def fake_web(source: Source) -> Any:
    """Returns a patch of requests, which both libraries fetch files by."""

    def send(self: Any, request: Any, **options: Any) -> requests.Response:
        content, name = response(source, request.url)
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 200, request.url, request
        answer.headers["Content-Length"] = str(len(content))
        if name is not None:
            answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        answer.raw = io.BytesIO(content)
        return answer

    return mock.patch.object(requests.adapters.HTTPAdapter, "send", send)


class AtOnce(concurrent.futures.Executor):
    """Does what is submitted before it returns: the promises of TFDS sometimes wait for threads for ever."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


def built_by_tfds(tfds: Any, cls: Any, config: str | None, root: Path, manual: Path) -> Any:
    core = "tensorflow_datasets.core.download"
    at_once = SimpleNamespace(futures=SimpleNamespace(**{**vars(concurrent.futures), "ThreadPoolExecutor": AtOnce}))
    with (
        mock.patch(f"{core}.downloader.concurrent", at_once),
        mock.patch(f"{core}.extractor.concurrent", at_once),
        mock.patch(f"{core}.download_manager.concurrent", at_once),
        mock.patch.object(cls, "url_infos", {}),
        mock.patch(f"{core}.checksums.get_all_url_infos", dict),
        mock.patch(f"{core}.kaggle.download_kaggle_data", lambda name, _: manual / name.replace("/", "_")),
    ):
        builder = cls(config=config, data_dir=str(root / "data"))
        settings = tfds.download.DownloadConfig(manual_dir=str(manual), verify_ssl=False)
        builder.download_and_prepare(download_dir=str(root / "downloads"), download_config=settings)
    return builder


@pytest.fixture(scope="module", autouse=True)
def audio_reader() -> None:
    """Imports what TFDS reads audio by, whose warnings are errors in tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pydub")


@pytest.mark.parametrize("name", BUILDERS)
def test_the_shards_are_those_of_tfds(tfds: Any, tmp_path: Path, name: str) -> None:
    source = BUILDERS[name]
    manual = tmp_path / "manual"
    manual.mkdir()
    write_manual(source, manual)
    dataset, _, config = name.partition("/")
    cls = tfds.builder_cls(dataset)
    with fake_web(source):
        theirs = built_by_tfds(tfds, cls, config or None, tmp_path / "theirs", manual)
        mine = load_tfds_builder(cls.__module__, cls.__name__)(config=config or None, data_dir=tmp_path / "mine")
        mine.use_downloads(DownloadSettings(tmp_path / "downloads", manual_dir=manual))
        mine.build(num_workers=1)
    names = [
        {path.name for path in Path(directory).glob("*.tfrecord-*") if path.suffix != ".index"}
        for directory in (mine.dataset_dir, theirs.data_dir)
    ]
    assert names[0] == names[1]
    assert names[0]
    skip = [key for key, feature in theirs.info.features.items() if type(feature).__name__ == "Image"]
    for split, info in theirs.info.splits.items():
        assert mine.info.splits[split].shard_lengths == info.shard_lengths
        ours = bd.builder_from_directory(mine.dataset_dir).as_dataset(split, decoders=_skipping(bd, skip))
        wanted = tfds.as_numpy(theirs.as_dataset(split=split, decoders=_skipping(tfds, skip)))
        found = [[_with_pixels(example, skip) for example in examples] for examples in (ours, wanted)]
        same_all(*(sorted(each, key=repr) if dataset in KEYED_BY_PLACE else each for each in found))


def _skipping(library: Any, names: list[str]) -> dict[str, Any]:
    return {name: library.decode.SkipDecoding() for name in names}


def _with_pixels(example: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Returns an example with pixels of PNG files, which are encoded in two ways; JPEG is compared as it is stored."""
    images = {name: example[name] for name in names}
    pixels = {name: imagecodecs.png_decode(data) for name, data in images.items() if data.startswith(b"\x89PNG")}
    return {**example, **pixels}
