"""What has the name of a file of a dataset and is a FIFO or a device: said at once, and never waited for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.directories import contents

SHARD = "ds-train.tfrecord-00003-of-00004"
FILES = (SHARD, f"{SHARD}.index", "dataset_info.json", "manifest.json", "features.json")


def command(*arguments: str | Path) -> tuple[int, str]:
    """How the command ends, and what it says; a process of its own, so that one that waits for ever fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "beam_datasets.cli", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_fifo_is_told_of_and_replaced(copy: Path, published: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    for options in ((), ("--decode",)):
        status, said = command("verify", copy, *options)
        assert (status, said.count("it is not a regular file but a FIFO")) == (1, 1), said
        assert "1 finding in 1 file" in said
    status, said = command("head", copy, "--split", "train", "--count", "60")
    assert status == 1
    assert f"{copy / name}: it is not a regular file but a FIFO" in said
    status, said = command("list", "--data_dir", copy.parents[1])
    assert status == 0, said
    assert "ds:1.0.0" in said
    if name == "manifest.json":  # no checksum proves one
        (copy / name).unlink()
        shutil.copy(published / name, copy / name)
    status, said = command("verify", copy, "--repair", "--from", published)
    assert status == 0, said
    assert contents(copy)[name] == contents(published)[name]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
@pytest.mark.parametrize("name", FILES)
def test_a_device_is_not_read(copy: Path, name: str) -> None:
    """It would never end."""
    (copy / name).unlink()
    (copy / name).symlink_to("/dev/zero")
    status, said = command("verify", copy)
    assert (status, said.count("it is not a regular file but a device")) == (1, 1), said
