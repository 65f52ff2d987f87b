"""What the doctor finds of an engine: of the local runner, and of workers that differ from the launcher."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.engines import checks, doctor, flink
from beam_datasets.engines.clocks import Clock, read_time
from beam_datasets.engines.engine import Engine
from beam_datasets.options import EngineOptions
from tests.servers import free_port


def test_the_local_runner_is_healthy_and_nothing_is_left(tmp_path: Path, capsys: Any) -> None:
    options = ["--data_dir", str(tmp_path / "data"), "--spill_dir", str(tmp_path / "spill"), "--num_workers", "1"]
    assert main(["doctor", *options, "--packages", "json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All checks passed."
    for place in ("data", "spill"):
        assert f"{place}: the launcher and the workers see each other's files" in "".join(lines)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_package_that_workers_lack(tmp_path: Path, capsys: Any) -> None:
    options = ["--data_dir", str(tmp_path / "data"), "--num_workers", "1"]
    assert main(["doctor", *options, "--packages", "json,nowhere.to_be_found"]) == 1
    lines = capsys.readouterr().out.splitlines()
    failed = [line for line in lines if line.startswith("FAIL")]
    assert len(failed) == 1
    assert "packages: nowhere.to_be_found: install it where workers run" in failed[0]


def test_a_store_that_replaces_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs could publish one version there."""

    def create_once(path: Any, content: Any) -> None:
        if not storage.exists(path):
            storage.write_bytes(path, content)

    for create in (storage.write_bytes, create_once):  # one replaces the file, the other one keeps it in silence
        monkeypatch.setattr(storage, "create_bytes", create)
        [finding] = doctor._examine_place("data_dir", str(tmp_path))
        assert not finding.is_good
        assert "did not refuse to create a file that exists" in finding.text


def test_a_store_whose_copies_replace_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses to create files, but a shard gets its final name by a copy."""
    monkeypatch.setattr(storage, "is_remote", lambda path: True)
    for copy, is_good in ((storage.copy, False), (lambda source, target: None, False), (refuse_copy, True)):
        monkeypatch.setattr(storage, "create_copy", copy)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        [finding] = doctor._examine_place("data_dir", str(folder))
        assert finding.is_good == is_good


def refuse_copy(source: Any, target: Any) -> None:
    raise FileExistsError(target)


def test_a_pool_that_is_not_asked_is_not_said_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one beside each TaskManager of other machines, with an address on loopback."""
    monkeypatch.setattr(checks, "check_job_service", lambda endpoint: None)
    monkeypatch.setattr(doctor.engines, "cluster_is_here", lambda options: False)
    options = ["--runner=PortableRunner", "--job_endpoint=here:1", "--environment_type=EXTERNAL"]
    engine = doctor.engines.choose_engine(EngineOptions([*options, "--environment_config=localhost:2"]))
    [finding] = doctor._examine_servers(engine)
    assert finding.text == "here:1; the pool at localhost:2 is not asked from here"


@pytest.mark.parametrize(
    "environment, config, text",
    [
        ("DOCKER", "apache/beam_python3.11_sdk:2.60.0", "the engine starts the workers as containers"),
        ("DOCKER", "", "the engine starts the workers as containers"),
        ("PROCESS", '{"command": "/opt/worker.sh"}', "the engine starts the workers as processes"),
        ("PROCESS", "{not json", "the engine starts the workers as processes"),
        ("LOOPBACK", "localhost:2", ""),
    ],
)
def test_workers_without_a_pool(monkeypatch: pytest.MonkeyPatch, environment: str, config: str, text: str) -> None:
    """Their --environment_config is no address: an image of containers, or a command."""
    monkeypatch.setattr(checks, "check_job_service", lambda endpoint: None)
    options = ["--runner=PortableRunner", "--job_endpoint=here:1", f"--environment_type={environment}"]
    engine = doctor.engines.choose_engine(EngineOptions([*options, *[f"--environment_config={config}"] * bool(config)]))
    [finding] = doctor._examine_servers(engine)
    asked, _, unasked = finding.text.partition("; ")
    assert (asked, finding.is_good, unasked.partition(",")[0]) == ("here:1", True, text)


@pytest.mark.parametrize(
    "options",
    [
        ["--job_endpoint=me:secret@localhost:1", "--environment_type=LOOPBACK"],
        ["--job_endpoint=me:secret@localhost", "--environment_type=LOOPBACK"],
        ["--job_endpoint=me:s@e/secret@localhost:1", "--environment_type=LOOPBACK"],
        ["--job_endpoint=embed", "--environment_type=EXTERNAL", "--environment_config=me:secret@localhost:1"],
        ["--job_endpoint=embed", "--environment_type=EXTERNAL", '--environment_config={"uri": "me:secret@localhost"}'],
        [
            "--job_endpoint=embed",
            "--environment_type=EXTERNAL",
            '--environment_config={"url": "me:secret@localhost:1"}',
        ],
    ],
)
@pytest.mark.parametrize("command", ["doctor", "build"])
def test_a_password_before_an_address(tmp_path: Path, capsys: Any, command: str, options: list[str]) -> None:
    """It is no part of a URL, but is left out of messages, too."""
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    source = [] if command == "doctor" else ["jsonl", "--pattern", str(tmp_path / "rows.jsonl"), "--name", "rows"]
    where = ["--data_dir", str(tmp_path / "data"), "--runner=PortableRunner", "--shared_disk"]
    assert main([command, *source, *where[: 3 if command == "doctor" else None], *options])
    captured = capsys.readouterr()
    output = captured.out + captured.err
    assert "***@localhost" in output
    assert "secret" not in output


def test_servers_that_do_not_answer(tmp_path: Path) -> None:
    endpoint = f"--job_endpoint=localhost:{free_port()}"
    options = ["--runner=PortableRunner", endpoint, "--environment_type=LOOPBACK"]
    found = {finding.check: finding for finding in doctor.examine(str(tmp_path), EngineOptions(options))}
    assert "no job service listens" in found["servers"].text
    assert "a job" not in found
    assert found["workers"].is_warning
    away = [*options[:2], "--environment_type=EXTERNAL", "--environment_config=there:1"]
    found = {finding.check: finding for finding in doctor.examine(str(tmp_path), EngineOptions(away))}
    assert "a path of this machine that workers of PortableRunner cannot see" in found["data_dir"].text


@dataclass(frozen=True)
class Cluster:
    """A cluster of Flink with free slots, which may not repeat what is lost."""

    problem: str
    url: str = "http://manager:8081"

    def get(self, path: str) -> Any:
        return {"slots-available": 2, "slots-total": 2, "taskmanagers": 1, "flink-version": "1.19.3"}

    def restart_problem(self) -> str:
        return self.problem


@pytest.mark.parametrize("problem, word", [("", "ok  "), ("restart-strategy.type: got none", "warn")])
def test_a_cluster_without_restarts_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, problem: str, word: str
) -> None:
    """A build can run there, though it ends with the first worker that dies."""
    monkeypatch.setattr(flink, "cluster_of", lambda options: Cluster(problem))
    monkeypatch.setattr(doctor, "check_servers", lambda options: [])
    remote = Engine(name="FlinkRunner", options=PipelineOptions([]), local=False, shares_disk=True)
    monkeypatch.setattr(doctor.engines, "choose_engine", lambda options: remote)
    monkeypatch.setattr(doctor, "_examine_workers", lambda *args: iter(()))
    assert main(["doctor", "--data_dir", str(tmp_path), "--runner=FlinkRunner"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [restarts] = [line for line in lines if " restarts: " in line]
    assert restarts.startswith(f"{word}  restarts: {problem or 'Flink repeats'}")
    assert lines[-1] == ("All checks passed; warnings: 1." if problem else "All checks passed.")


def clock() -> Clock:
    """Returns the clock of a job of 20 s, whose folders no worker sees."""
    return Clock([], time.time() - 10, time.time() + 10)


def worker(folder: Path, **changes: Any) -> dict[str, Any]:
    """Returns what a healthy worker reports, with some changes."""
    (folder / "w.worker").touch()
    healthy = {
        "pid": os.getpid(),
        "versions": checks.versions(),
        "places": [""],
        "files": [str(folder / "w.worker")],
        "missing": [],
        "wrote": time.time(),
        "launcher_time": time.time(),
        "time": time.time(),
        "memory": 8 << 30,
    }
    return healthy | changes


@pytest.mark.parametrize(
    "changes, failed",
    [
        ({}, set()),
        ({"versions": {**checks.versions(), "apache-beam": "2.66.0"}}, {"workers"}),
        ({"places": ["a worker does not see what the launcher has written"], "files": [""]}, {"workers"}),
        ({"files": ["/nowhere/w.worker"]}, {"workers"}),
        ({"missing": ["mine"]}, {"packages"}),
        ({"wrote": time.time() - 3600, "time": time.time() - 3600}, {"clock"}),
        ({"wrote": time.time() + 3600, "time": time.time() + 3600}, {"clock"}),
        ({"memory": 100 << 20}, {"memory"}),
        ({"memory": 0}, set()),
    ],
)
def test_workers_that_differ_from_the_launcher(tmp_path: Path, changes: dict[str, Any], failed: set[str]) -> None:
    found = doctor._examine_host("workers", [worker(tmp_path, **changes)], [str(tmp_path)], ["mine"], clock())
    assert {finding.check.rpartition(": ")[2] for finding in found if not finding.is_good} == failed


@pytest.mark.parametrize("num_workers, is_enough", [(1, True), (8, True), (9, False)])
def test_memory_for_the_workers_that_a_build_starts(tmp_path: Path, num_workers: int, is_enough: bool) -> None:
    """The small job may have started fewer."""
    *_, memory = doctor._examine_host("workers", [worker(tmp_path)], [str(tmp_path)], [], clock(), num_workers)
    assert (memory.check, memory.is_good) == ("workers: memory", is_enough)
    assert f"expected {num_workers * (1 << 30) / 1e9:.1f} GB or more" in memory.text


def test_a_worker_names_what_it_could_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = doctor._Probe([], "token", [])
    assert "does not see what the launcher has written" in probe._examine_folder(str(tmp_path))[0]
    (tmp_path / "token").write_text("other")
    assert probe._examine_folder(str(tmp_path)) == ("a worker sees the token of another launcher", "")
    (tmp_path / "token").write_text("token")
    problem, path = probe._examine_folder(str(tmp_path))
    assert (problem, Path(path).read_bytes()) == ("", b"here")

    def full(path: Any, content: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(storage, "write_bytes", full)
    assert probe._examine_folder(str(tmp_path)) == ("a worker cannot write there (OSError: no space)", "")


def test_workers_of_one_machine_that_differ(tmp_path: Path) -> None:
    other = worker(tmp_path, versions={**checks.versions(), "apache-beam": "2.66.0"}, missing=[])
    first, *_ = doctor._examine_host("workers", [worker(tmp_path), other], [str(tmp_path)], [], clock())
    assert not first.is_good
    assert "and others with" in first.text
    assert "2.66.0" in first.text


@pytest.mark.parametrize("ahead", [-8.0, 0.0, 8.0])
def test_the_difference_of_clocks_is_bounded_by_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """A job takes longer than the difference that matters, so its start and its end are not enough."""
    times = iter([100.0 + number / 100 for number in range(1000)])
    monkeypatch.setattr("beam_datasets.engines.clocks.time.time", lambda: next(times))
    shared = Clock([str(tmp_path)])
    with shared.shown():
        for _ in range(300):  # 3 s
            next(times)
        wrote = next(times) + ahead
        (tmp_path / "w.worker").touch()
        shared._tick()
        report = {"wrote": wrote, "files": [str(tmp_path / "w.worker")], "launcher_time": read_time([str(tmp_path)])}
        report["time"] = next(times) + ahead
        for _ in range(300):
            next(times)
    lowest, highest = shared.bounds([report])
    assert lowest <= ahead <= highest
    assert highest - lowest < 1
    shared._seen.clear()  # as if the store showed files late
    lowest, highest = shared.bounds([{**report, "launcher_time": read_time([str(tmp_path / "nowhere")])}])
    assert lowest <= ahead <= highest
    assert highest - lowest > 6


def test_a_folder_that_the_launcher_cannot_list_is_named_by_the_clock(tmp_path: Path) -> None:
    """Without its files the bounds are those of the job, which was "ok" without a reason."""
    file = tmp_path / "a file"
    file.touch()
    blind = Clock([str(file)])
    with blind.shown():
        pass
    blind.began, blind.ended = time.time() - 10, time.time() + 10
    findings = doctor._examine_host("workers", [worker(tmp_path)], [str(tmp_path)], [], blind)
    [text] = [finding.text for finding in findings if finding.check.endswith("clock")]
    assert f"which is not known better: {file}: " in text


MIB = 1 << 20


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, 1000),
        ({"a/memory.max": "max", "a/memory.current": 5 * MIB, "a/memory.stat": "x 1"}, 1000),
        ({"a/memory.max": 300 * MIB, "a/memory.current": 250 * MIB, "a/memory.stat": f"inactive_file {20 * MIB}"}, 70),
        ({"memory.max": 300 * MIB, "memory.current": 400 * MIB, "memory.stat": "x 1"}, 0),
        (
            {
                "memory/a/memory.limit_in_bytes": 300 * MIB,
                "memory/a/memory.usage_in_bytes": 250 * MIB,
                "memory/a/memory.stat": f"total_inactive_file {20 * MIB}",
            },
            70,
        ),
    ],
)
def test_memory_of_a_container(tmp_path: Path, files: dict[str, Any], expected: int) -> None:
    """The system's memory is that of the machine; the limit of a container is in its control group."""
    written = {"proc/meminfo": f"MemFree: 1 kB\nMemAvailable: {1000 << 10} kB\n", "proc/self/cgroup": "0::/a\n"}
    for name, content in {**written, **{f"sys/fs/cgroup/{name}": content for name, content in files.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(content))
    assert doctor._available_memory(str(tmp_path)) == expected * MIB
    assert doctor._available_memory(str(tmp_path / "nowhere")) == 0
