"""Errors about a version that lost or changed a file name the command that finds the damage, which is followed."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.published import publish_dataset

DAMAGES: dict[str, Callable[[Path], object]] = {
    "ds-train.tfrecord-00000-of-00004": Path.unlink,
    "features.json": Path.unlink,
    "dataset_info.json": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "manifest.json": lambda path: path.write_text("{x"),
}


@pytest.mark.parametrize("is_name", [False, True])
@pytest.mark.parametrize("filename", DAMAGES)
def test_the_command_finds_the_damage(filename: str, is_name: bool, tmp_path: Path, run: Callable[..., tuple]) -> None:
    version = publish_dataset(tmp_path / "data")
    copy = shutil.copytree(version, tmp_path / "copy")
    DAMAGES[filename](version / filename)
    arguments = ["ds", "--data_dir", tmp_path / "data"] if is_name else [version]
    code, _, err = run("head", *arguments)
    assert code == 1
    [command] = set(re.findall(r"beam-datasets (verify \S+[^;.\s])", err))
    code, out, _ = run(*command.split())
    assert code == 1
    assert filename in out
    if "--repair --from COPY" in err:
        assert run(*command.split(), "--repair", "--from", copy)[0] == 0
        assert run("head", *arguments)[0] == 0
