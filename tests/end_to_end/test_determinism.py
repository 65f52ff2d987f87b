"""The same input gives the same bytes on any runner: every file of the directory but run.json is compared."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.directories import digests
from tests.end_to_end.numbers_dataset import Numbers

COUNT = 20_000
ROOT = Path(__file__).parents[2]


def build(data_dir: Path, *, seed: int = 0, parts: int = 4, **options) -> dict[str, str]:
    """Generates the dataset and returns its digests."""
    builder = Numbers(data_dir=data_dir, count=COUNT, seed=seed, parts=parts)
    return digests(builder.build(num_shards={"train": 7, "test": 2}, **options))


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, str]:
    """Digests of the dataset as generated within this process."""
    files = build(tmp_path_factory.mktemp("in_memory"), num_workers=1)
    assert sum(name.endswith(".index") for name in files) == 9
    return files


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 1, "payload": "inline"},
        pytest.param({"num_workers": 2}, marks=pytest.mark.slow),
        pytest.param({"num_workers": 2, "payload": "inline"}, marks=pytest.mark.slow),
        {"num_workers": 1, "seed": 1, "parts": 1},
        {"num_workers": 2, "seed": 2, "parts": 13, "block_size": 20_000},
        {"num_workers": 1, "payload": "inline", "block_size": 14_000, "seed": 3},
    ],
    ids=str,
)
def test_runs_do_not_differ(tmp_path, expected, options):
    assert build(tmp_path, **options) == expected


@pytest.mark.parametrize(
    "variable", [pytest.param("PYTHONHASHSEED=4711", marks=pytest.mark.slow), "BEAM_DATASETS_NATIVE=0"]
)
def test_process_hash_seed_and_native_module_do_not_matter(tmp_path, expected, variable):
    code = (
        "from tests.end_to_end.test_determinism import build; from pathlib import Path; "
        f"build(Path({str(tmp_path)!r}), num_workers=1)"
    )
    environment = {**os.environ, **dict([variable.split("=")])}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    assert digests(tmp_path / "numbers" / "1.0.0") == expected


@pytest.mark.slow
def test_the_portable_job_service_writes_the_same(portable, tmp_path, expected):
    assert build(tmp_path, beam_options=portable) == expected
