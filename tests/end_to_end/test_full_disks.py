"""File systems that get full while a command writes: the right version, or a StorageError within seconds.

Most cases mount a file system in memory, of a random size or with few files, which needs root. A quota is imitated by a
library that commands preload.
"""

import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_datasets.publishing.leftovers import find_leftovers, remove_leftover
from beam_datasets.verifying import verify
from tests.cases import repeated
from tests.end_to_end import command_process

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.end_to_end.command_process"])
NUM_DISKS = repeated(12)
LIMIT_SECONDS = 10  # on an idle machine
ROWS = 3000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a file system"),
]


def write_rows(path: Path, first: int) -> None:
    path.write_text(
        "".join(
            f'{{"id": {n}, "text": "{random.Random(n).randbytes(150).hex()}"}}\n' for n in range(first, first + ROWS)
        )
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A published dataset, and files for two versions."""
    root = tmp_path_factory.mktemp("published")
    write_rows(root / "one.jsonl", 0)
    write_rows(root / "two.jsonl", ROWS)
    code, said, _ = run(root, command("build", root, root / "data", 1))
    assert code == 0, said
    return root


def command(kind, root, data_dir, num_workers):
    if kind == "build":
        words = ["build", "jsonl", "--name", "rows", "--pattern", f"{root}/one.jsonl", "--key", "id"]
        return [*words, "--data_dir", str(data_dir), "--num_workers", str(num_workers)]
    if kind == "materialize":
        words = [
            "materialize",
            "rows",
            "--source_data_dir",
            f"{root}/data",
            "--to",
            "few",
            "--split",
            "train=train[:80%]",
        ]
        return [*words, "--data_dir", str(data_dir), "--num_workers", str(num_workers)]
    words = ["export", "rows", "--data_dir", f"{root}/data", "--to", f"{data_dir}/exported", "--format", "jsonl"]
    return (
        words
        if kind == "export"
        else [
            "append",
            "rows",
            "--data_dir",
            str(data_dir),
            "--from",
            "jsonl",
            "--pattern",
            f"{root}/two.jsonl",
            "--key",
            "id",
        ]
    )


def waiting():
    """Returns how many times as long as on an idle machine a command takes: the processes that share a core."""
    return max(1, os.getloadavg()[0] / (os.cpu_count() or 1))


def run(folder, words):
    """Runs a command in a process of its own; returns (exit code, what was said, seconds)."""
    said = folder / "said"
    said.unlink(missing_ok=True)
    process, start = CONTEXT.Process(target=command_process.run, args=(str(said), words)), time.monotonic()
    process.start()
    process.join(120)
    seconds = time.monotonic() - start
    is_hanging = process.is_alive()
    process.kill()
    assert not is_hanging, said.read_text()
    return process.exitcode, said.read_text(), seconds


@pytest.mark.parametrize("seed", range(NUM_DISKS))
def test_a_full_disk(tmp_path, published, seed):
    draw = random.Random(seed)
    kind = draw.choice(["build", "build", "materialize", "append", "export"])
    size, inodes = (draw.randint(100, 10_000), 1000) if draw.random() < 0.6 else (50_000, draw.randint(5, 100))
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k,nr_inodes={inodes}", "tmpfs", str(disk)], check=True)
    try:
        if kind == "append":
            code, said, _ = run(tmp_path, command("build", published, disk, 1))
            if code:
                return  # there is nothing to append to
        code, said, seconds = run(tmp_path, command(kind, published, disk, draw.randint(1, 3)))
        assert code in (0, 1), said
        assert "Traceback" not in said
        assert seconds < LIMIT_SECONDS * waiting(), said
        versions = [path.parent for path in disk.rglob("dataset_info.json") if "incomplete" not in str(path)]
        for version in versions:
            if kind != "export":
                assert not verify(version).findings
        if code:
            assert "disk is full" in said or "No space left on device" in said, said
            for leftover in find_leftovers(disk, older_than=0):
                remove_leftover(leftover, disk, older_than=0)
            assert not [path for path in disk.rglob("*") if path.is_file() and path.parent not in versions], said
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture(scope="module")
def quota_library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("needs cc, a C compiler, which the package itself can do without")
    library = tmp_path_factory.mktemp("quota") / "quota.so"
    source = Path(__file__).parent / "quota.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("kind, num_workers", [("build", 2), ("materialize", 2), ("append", 1), ("export", 1)])
def test_a_quota(tmp_path, published, quota_library, kind, num_workers):
    disk, count = tmp_path / "disk", tmp_path / "count"
    shutil.copytree(published / "data", disk) if kind == "append" else disk.mkdir()
    before = {path: path.stat().st_mtime_ns for path in disk.rglob("*") if path.is_file()}
    count.write_bytes((300_000).to_bytes(8, sys.byteorder))
    environment = {"LD_PRELOAD": str(quota_library), "QUOTA_DIR": str(disk), "QUOTA_COUNT": str(count)}
    words = command(kind, published, disk, num_workers)
    done = subprocess.run(
        [sys.executable, "-m", "beam_datasets", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "whose quota is used up (Disk quota exceeded)" in said
    assert "Traceback" not in said
    for leftover in find_leftovers(disk, older_than=0):
        remove_leftover(leftover, disk, older_than=0)
    assert {path: path.stat().st_mtime_ns for path in disk.rglob("*") if path.is_file()} == before
