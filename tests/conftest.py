"""What all tests share."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from beam_datasets.native import core

# A busy machine is not a defect of what is tested. `make test-slow` draws all cases of property tests. A commit draws
# the same ones every time, so that tests fail for a change alone; --hypothesis-profile=search looks for new ones.
settings.register_profile(
    "full", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=40
)
settings.register_profile("search", settings.get_profile("full"), derandomize=False, max_examples=1000)
settings.register_profile("quick", settings.get_profile("full"), max_examples=20)
settings.register_profile("few", settings.get_profile("full"), max_examples=5)
settings.load_profile("quick")

# Without a compiler all works, and no warning of it disturbs what a test or a page expects, also in other processes.
if core is None:
    os.environ["BEAM_DATASETS_NATIVE"] = "0"

# A shell starts what runs in its background with Ctrl-C ignored, and so would be every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that tests start by a fork server import `tests`, wherever the test that starts them has changed to.
sys.path.insert(0, str(Path(__file__).parents[1]))


def pytest_collection_finish() -> None:
    """Keeps what Beam computes again for each pipeline, if the tests have imported Beam."""
    if "apache_beam" in sys.modules:
        from tests.kept_by_beam import keep_results

        keep_results()


# A small dataset of tests/published.py, which all tests share.


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published dataset, not to be changed."""
    from tests.published import publish_dataset

    return publish_dataset(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="session")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with disable_shuffling."""
    from tests.published import publish_dataset

    return publish_dataset(tmp_path_factory.mktemp("ordered"), ordered=True)


@pytest.fixture(scope="session")
def as_tfds(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without what TensorFlow Datasets does not write."""
    directory = Path(shutil.copytree(published, tmp_path_factory.mktemp("tfds") / "ds" / "1.0.0"))
    for name in ("manifest.json", "run.json", *(path.name for path in directory.glob("*.index"))):
        (directory / name).unlink()
    return directory


@pytest.fixture
def copy(published: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(published, tmp_path / "data" / "ds" / "1.0.0"))


@pytest.fixture
def bare(as_tfds: Path, tmp_path: Path) -> Path:
    """A copy of `as_tfds` to damage."""
    return Path(shutil.copytree(as_tfds, tmp_path / "ds" / "1.0.0"))
