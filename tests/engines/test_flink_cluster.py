"""The set-up of a Flink cluster on this machine where something is missing, without Flink."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.engines import flink_cluster as flink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a command in a PATH that leads nowhere else but to the shell."""
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


def test_no_java(commands: Callable[[str, str], None]) -> None:
    with pytest.raises(flink.ClusterError, match="there is no command java. Flink needs Java 11 or 17"):
        flink.set_up()


@pytest.mark.parametrize("version", ["1.8.0_302", "9.0.4"])
def test_an_old_java(commands: Callable[[str, str], None], version: str) -> None:
    commands("java", f"echo 'openjdk version \"{version}\"' >&2")
    with pytest.raises(flink.ClusterError, match=f"says .*{version}.* Flink needs Java 11 or 17"):
        flink.set_up()


def test_no_maven(commands: Callable[[str, str], None], tmp_path: Path) -> None:
    commands("java", JAVA_17)
    with pytest.raises(flink.ClusterError, match="there is no command mvn"):
        flink.set_up()
    assert not (tmp_path / "cache").exists()


def test_a_download_that_fails(
    commands: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command and its words are told, and nothing is left that looks like a home."""
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
    """Makes what looks like a home of Flink; its JobManager is a script, and its TaskManager waits."""
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
    commands("java", "echo no room for a heap; exit 1")
    with pytest.raises(flink.ClusterError, match="(?s)waited in vain for jobs to listen .*no room for a heap"):
        cluster.start()
    servers = list(cluster.servers)
    assert {server.name for server in servers if server.is_running()} >= {"jobmanager", "taskmanager", "workers"}
    cluster.stop()
    assert not any(server.is_running() for server in servers)
    configuration = (tmp_path / "run" / "conf" / "config.yaml").read_text()
    assert "env.java.opts.all: --add-opens=x\n" in configuration


def test_another_process_of_the_same_number() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        began = flink._start_time(process.pid)
        assert flink.Server("ours", process.pid, began).is_running()
        other = flink.Server("another", process.pid, "Thu Jan  1 00:00:00 1970")
        assert not other.is_running()
        other.signal(9)
        assert process.poll() is None
        flink.Server("ours", process.pid, began).signal(15)
    assert process.returncode == -15
    assert not flink.Server("ours", process.pid, began).is_running()


def test_no_cluster_in_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "stop"):
        assert flink.main([command, str(tmp_path)]) == 1
        assert f"no cluster was started in {tmp_path}" in capsys.readouterr().err


def test_the_status_of_a_cluster_that_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flink.Cluster(tmp_path, tmp_path).stop()
    assert flink.main(["status", str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"the cluster of {tmp_path} was stopped\n"


def test_the_status_of_a_cluster_that_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = flink.Cluster(tmp_path, tmp_path, ports={"rest": 8081, "workers": 50000})
    cluster.servers = [flink.Server("jobmanager", 1, "long ago"), flink.Server("workers", 1, "long ago")]
    cluster._save()
    assert flink.main(["status", str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "jobmanager   has ended, process 1 http://127.0.0.1:8081" in told
    assert "workers      has ended, process 1 127.0.0.1:50000" in told
