"""The set-up of a Flink cluster on this machine if something is missing, without Flink."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import flink_cluster as flink

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a command in a PATH that has only it and the shell."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name in ("sh", "ps", "sleep"):
        (folder / name).symlink_to(subprocess.check_output(["which", name], text=True).strip())
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("BEAM_DATASETS_FLINK_CACHE", str(tmp_path / "cache"))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return make


@pytest.mark.parametrize(
    "java, problem",
    [
        (None, "there is no command java. Flink needs Java 11 or 17"),
        ("echo 'openjdk version \"1.8.0_302\"' >&2", "says .*1.8.0_302.* Flink needs Java 11 or 17"),
        ("echo 'openjdk version \"9.0.4\"' >&2", "says .*9.0.4.* Flink needs Java 11 or 17"),
        (JAVA_17, "there is no command mvn"),
    ],
)
def test_commands_that_are_missing(
    commands: Callable[[str, str], None], tmp_path: Path, java: str | None, problem: str
) -> None:
    if java:
        commands("java", java)
    with pytest.raises(flink.ClusterError, match=problem):
        flink.set_up()
    assert not (tmp_path / "cache").exists()


def test_a_download_that_fails(
    commands: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error shows the command and its output, and no home is left in the cache."""
    commands("java", JAVA_17)
    commands("mvn", "exit 1")
    commands("python", "echo 'ERROR: no such package' >&2; exit 3")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "commands" / "python"))
    with pytest.raises(flink.ClusterError, match=r"apache-flink-libraries==.*\nended with 3:\nERROR: no such package"):
        flink.set_up()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_what_was_made_is_not_made_again(commands: Callable[[str, str], None], tmp_path: Path) -> None:
    commands("java", JAVA_17)
    made = tmp_path / "cache" / flink.NOT_STAGED / f"flink-{flink.FLINK_VERSION}-beam-2.70.0"
    made.mkdir(parents=True)
    assert flink.set_up() == made


def home_of(folder: Path, script: str) -> Path:
    """Makes a home of Flink whose JobManager is a script and whose TaskManager waits."""
    for name, text in (("jobmanager.sh", script), ("taskmanager.sh", "exec sleep 600")):
        path = folder / "home" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (folder / "home" / "conf").mkdir()
    (folder / "home" / "conf" / "config.yaml").write_text("env:\n  java:\n    opts:\n      all: --add-opens=x\n")
    return folder / "home"


def test_a_server_that_does_not_start(commands: Callable[[str, str], None], tmp_path: Path) -> None:
    cluster = flink.Cluster(tmp_path / "run", home_of(tmp_path, "exec sleep 600"))
    commands("java", "echo the heap is too large; exit 1")
    with pytest.raises(
        flink.ClusterError, match="(?s)jobs ended or timed out: expected jobs to listen .*the heap is too large"
    ):
        cluster.start()
    servers = list(cluster.servers)
    assert {name for name, process in servers if process.poll() is None} >= {"jobmanager", "taskmanager", "workers"}
    cluster.stop()
    assert all(process.poll() is not None for _, process in servers)
    configuration = (tmp_path / "run" / "conf" / "config.yaml").read_text()
    assert "env.java.opts.all: --add-opens=x\n" in configuration
