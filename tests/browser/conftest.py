"""A real browser, and the datasets that it looks at."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import beam_datasets as bd
from tests.hostile import publish
from tests.published import build

FLAGS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"


def _missing(what):
    if os.environ.get("BEAM_DATASETS_BROWSER") == "required":
        pytest.fail(f"there is no {what}")
    pytest.skip(f"there is no {what}; `make test-browser` installs it")


@pytest.fixture(scope="session")
def playwright():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session", params=["light", "dark"])
def context(request, playwright):
    """A new profile of the browser."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        _missing("Chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        found = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=program,
            headless=True,
            args=[*FLAGS.split(), "--no-first-run"],
            viewport={"width": 1200, "height": 800},
            color_scheme=request.param,
        )
        yield found
        found.close()


@pytest.fixture
def page(context):
    """A page that fails its test if a script fails, a dialog opens or the policy is violated."""
    found, problems = context.new_page(), []
    found.set_default_timeout(30_000)
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("dialog", lambda dialog: (problems.append(dialog.message), dialog.dismiss()))
    found.on("console", lambda said: problems.append(said.text))
    yield found
    title = found.title()
    found.close()
    assert (problems, title != "run") == ([], True)


class Words(bd.DatasetBuilder, skip_registration=True):
    """Texts, labels and pictures."""

    name = "words"
    VERSION = "1.0.0"

    def _info(self):
        text = {"text": bd.features.Text(), "label": bd.features.ClassLabel(names=["short", "long"])}
        return bd.DatasetInfo(
            builder=self,
            description="Words of different lengths.",
            citation="@misc{words}",
            license="CC0-1.0",
            homepage="https://example.org/words",
            features={**text, "id": np.int64, "image": bd.features.Image(shape=(8, 8, 1))},
        )

    def _split_generators(self):
        return {"train": self._examples(0, 200), "test": self._examples(200, 260)}

    def _examples(self, first, last):
        for n in range(first, last):
            size = n * 37 % 100 + 1
            image = np.add.outer(np.arange(8), np.arange(8))[..., None] * (n % 16 + 1)
            yield n, {"text": "x" * size, "label": size > 50, "id": n, "image": image.astype(np.uint8)}


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The hostile dataset, two versions of another one, and one that is made of it."""
    root = publish(tmp_path_factory.mktemp("datasets"))
    Words(data_dir=root).build(num_workers=1)
    type("Words", (Words,), {"VERSION": "1.1.0"}, skip_registration=True)(data_dir=root).build(num_workers=1)
    bd.materialize("words:1.0.0", split={"train": "train[:50%]"}, to="words_part", data_dir=root)
    bd.materialize("words:1.0.0", split={"train": "train[:5]"}, to="w" * 90, data_dir=root)
    return root


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """A dataset of 2,000 features."""
    root = tmp_path_factory.mktemp("wide")
    rows = [(n, {f"f{i:04}": n * i % 61 / 2 for i in range(2000)}) for n in range(40)]
    build(root, {f"f{i:04}": np.float32 for i in range(2000)}, {"train": rows}, name="wide")
    return root


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A dataset of 10^7 examples: 100 copies of a shard."""
    root = tmp_path_factory.mktemp("large")
    features = {"n": np.int64, "text": bd.features.Text()}
    rows = [(n, {"n": n, "text": "x" * (n % 30)}) for n in range(100_000)]
    shard = next(build(root / "one", features, {"train": rows}, num_shards=1).glob("*.tfrecord-00000-of-00001"))
    for number in range(100):
        Path(root, f"part-{number:05d}").symlink_to(shard)
    bd.adopt(root / "part-*", features, name="many", data_dir=root / "data", disable_shuffling=True)
    return root / "data"
