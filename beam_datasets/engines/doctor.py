"""Examines an engine before a dataset is built on it: its servers and workers, their versions, and shared directories.

Each check is a `Finding`. The workers are examined by a small job of the engine. Its results come as metrics, so they
also arrive from workers that see neither this machine's disk nor the store.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

from beam_datasets import storage
from beam_datasets.engines import checks, flink
from beam_datasets.engines import engine as engines
from beam_datasets.engines.clocks import Clock, read_time
from beam_datasets.engines.running import check_servers, run_pipeline
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.options import EngineOptions
from beam_datasets.publishing.owners import IN_PROCESS, Owner
from beam_datasets.reading.elements.executor import control_groups

MAX_CLOCK_SECONDS = 5.0  # by how much clocks may differ
MIN_MEMORY = 1 << 30  # bytes that a worker process needs for small records
PROBES_PER_SLOT = 4  # so that each worker gets at least one
PROBE_SECONDS = 0.2  # duration of a probe, so that one worker does not take them all
_NAMESPACE, _METRIC = "beam_datasets", "probe"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        check: the subject of the check.
        is_good: whether a build can run.
        text: the result, and advice if a build cannot run.
        is_warning: whether a build can run, although the text recommends a change.
    """

    check: str
    is_good: bool
    text: str
    is_warning: bool = False


def examine(
    data_dir: str,
    options: EngineOptions,
    packages: Sequence[str] = (),
) -> Iterator[Finding]:
    """Yields the results of all checks, each when it is known; leaves no job and no file behind.

    Args:
        data_dir: root of the datasets.
        options: options of where a build would run; without a spill_dir it is `data_dir`.
        packages: modules that workers must be able to import.

    Raises:
        ValueError: an option is unusable.
    """
    yield Finding("versions here", True, _format_versions(checks.versions()))
    try:
        engine = engines.choose_engine(options)
    except checks.EngineError as error:
        yield Finding("runner", False, str(error))
        return
    yield Finding("runner", True, engine.name)
    servers_answer = True
    for finding in _examine_servers(engine):
        servers_answer &= finding.is_good
        yield finding
    with contextlib.ExitStack() as stack:
        folders = []
        for purpose, directory in {"data_dir": data_dir, "spill_dir": options.spill_dir}.items():
            if directory is None:
                continue
            try:
                engines.check_paths_are_shared(engine, {purpose: directory})
                folder = stack.enter_context(_temporary_dir(directory))
                yield from _examine_place(purpose, folder)
                folders.append(folder)
            except (BeamDatasetsError, ValueError) as error:
                yield Finding(purpose, False, str(error))
        if checks.runner_of(engine.options) == "dataflow":
            yield Finding("workers", True, "not examined: a job of Dataflow takes minutes to start")
        elif not servers_answer:
            yield Finding("workers", True, "not examined, because a check before this one has failed", is_warning=True)
        else:
            yield from _examine_workers(engine, folders, packages)


def _format_versions(versions: dict[str, str]) -> str:
    """Returns the versions of libraries as text: "numpy 2.0, pyarrow 17" for {"numpy": "2.0", "pyarrow": "17"}."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _examine_servers(engine: engines.Engine) -> Iterator[Finding]:
    """Yields findings about the cluster, and about the job service and a worker pool of this machine."""
    if engine.local:
        return
    if cluster := flink.cluster_of(engine.options):
        try:
            overview = cluster.get("overview")
        except checks.EngineError as error:
            yield Finding("cluster", False, str(error))
            return
        slots = f"{overview['slots-available']} of {overview['slots-total']} slots are free"
        needed_slots = flink.needed_slots(engine.options)
        wait = f"; the job waits for {needed_slots}" if int(overview["slots-available"]) < needed_slots else ""
        text = f"Flink {overview['flink-version']}, TaskManagers: {overview['taskmanagers']}, {slots}{wait}"
        yield Finding("cluster", True, f"{cluster.url}: {text}")
        try:
            problem = cluster.restart_problem()
        except checks.EngineError as error:
            yield Finding("cluster", False, str(error))
            return
        text = problem or "Flink repeats what was lost with a worker or a TaskManager"
        yield Finding("restarts", True, text, is_warning=bool(problem))
    try:
        answered = check_servers(engine.options)
    except checks.EngineError as error:
        yield Finding("servers", False, str(error))
        return
    texts = [", ".join(answered), _describe_unasked_workers(engine.options, answered)]
    yield Finding("servers", True, "; ".join(filter(None, texts)) or "none to ask from here")


def _describe_unasked_workers(options: PipelineOptions, answered: Sequence[str]) -> str:
    """Returns what starts the workers, if it is not among the servers that answered; '' if nothing is known of it.

    Args:
        options: options of the pipeline.
        answered: addresses of the servers that answered.
    """
    portable = options.view_as(PortableOptions)
    if portable.environment_type == "EXTERNAL":
        pool = checks.pool_of(options)[0]
        return f"the pool at {pool} is not asked from here" if pool and pool not in answered else ""
    if portable.environment_type in ("DOCKER", "PROCESS"):
        kind = "containers" if portable.environment_type == "DOCKER" else "processes"
        return f"the engine starts the workers as {kind}, which is not tried before a job"
    return ""


@contextlib.contextmanager
def _temporary_dir(parent_dir: str) -> Iterator[str]:
    """Context manager: creates a directory in `parent_dir` and removes it; `gc` removes it if this process dies."""
    owner = Owner.of_this_process(uuid.uuid4().hex[:8], time.time(), IN_PROCESS)
    folder = storage.join(parent_dir, f"incomplete.{owner.job}_doctor")
    with storage.empty_new_dirs_removed(folder):
        storage.make_dirs(folder)
        try:
            owner.write(folder)
            yield folder
        finally:
            storage.remove_tree(folder)


def _examine_place(purpose: str, folder: str) -> Iterator[Finding]:
    """Yields whether creating a file that exists fails in `folder`, on which publishing relies."""
    path, copied = storage.join(folder, "created"), storage.join(folder, "copied")
    storage.create_bytes(path, b"first")
    is_good = _is_refused(lambda: storage.create_bytes(path, b"second")) and storage.read_bytes(path) == b"first"
    if is_good and storage.is_remote(folder):  # where shards get their final names by copies
        storage.create_bytes(copied, b"third")
        is_good = _is_refused(lambda: storage.create_copy(copied, path)) and storage.read_bytes(path) == b"first"
    text = "can be written, and refuses to create a file that exists"
    if not is_good:
        text = (
            "did not refuse to create a file that exists; two runs could publish one version there. Use another store."
        )
    yield Finding(purpose, is_good, f"{storage.dirname(folder)}: {text}")


def _is_refused(create: Callable[[], None]) -> bool:
    """Returns whether a function that creates a file fails because the file exists."""
    try:
        create()
    except FileExistsError:
        return True
    return False


def _examine_workers(engine: engines.Engine, folders: Sequence[str], packages: Sequence[str]) -> Iterator[Finding]:
    """Runs a job of probes and yields findings about its workers.

    Args:
        engine: the engine that runs the job.
        folders: directories that the workers must be able to read and write.
        packages: names of modules that the workers must be able to import.
    """
    token = uuid.uuid4().hex
    for folder in folders:
        storage.write_bytes(storage.join(folder, "token"), token.encode())
    slots = engine.num_workers or int(engine.options.view_as(FlinkRunnerOptions).parallelism or 0)
    count = PROBES_PER_SLOT * max(slots, 2)
    clock = Clock(folders)
    try:
        with clock.shown(), engine.pipeline(os.devnull) as pipeline:
            numbers = pipeline | "Numbers" >> beam.Create(range(count)) | "Share" >> beam.Reshuffle()
            _ = numbers | "Probe" >> beam.ParDo(_Probe(folders, token, packages))
            outcome = run_pipeline(pipeline, contextlib.nullcontext())
    except BeamDatasetsError as error:
        yield Finding("a job", False, str(error))
        return
    yield Finding("a job", True, f"{clock.ended - clock.began:.1f} s")
    metrics = outcome.result.metrics().query()["string_sets"]
    texts = sorted({text for metric in metrics if metric.key.metric.name == _METRIC for text in metric.result})
    workers = [json.loads(text) for text in texts]
    if not workers:
        yield Finding("workers", False, f"{engine.name} has reported no metrics, so nothing is known of its workers")
        return
    per_host = int(engine.options.view_as(PortableOptions).sdk_worker_parallelism or 1)
    for host in sorted({worker["host"] for worker in workers}):
        host_workers = [worker for worker in workers if worker["host"] == host]
        yield from _examine_host(f"workers on {host}", host_workers, folders, packages, clock, per_host)


def _examine_host(
    name: str,
    workers: Sequence[dict[str, Any]],
    folders: Sequence[str],
    packages: Sequence[str],
    clock: Clock,
    num_workers: int = 1,
) -> Iterator[Finding]:
    """Yields findings about the workers of one machine.

    Args:
        name: name of the findings, such as `workers on HOST`.
        workers: report of each worker process; see `_Probe`.
        folders: directories that the workers must see.
        packages: modules that the workers must be able to import.
        clock: clock of this machine, which the workers could see.
        num_workers: number of worker processes that a build starts there; the small job may have started fewer.
    """
    processes = len({worker["pid"] for worker in workers})
    versions = sorted({_format_versions(worker["versions"]) for worker in workers})
    are_same = versions == [_format_versions(checks.versions())]
    yield Finding(name, are_same, f"processes: {processes}; {', and others with '.join(versions)}")
    for number, folder in enumerate(folders):
        directory = storage.dirname(folder)
        problems = sorted({worker["places"][number] for worker in workers} - {""})
        unseen = [path for worker in workers if (path := worker["files"][number]) and not storage.exists(path)]
        if unseen:
            problems.append(f"the launcher does not see {unseen[0]}, which a worker has written")
        advice = ". It must be a place that the launcher and all workers share"
        text = "; ".join(problems) + advice if problems else "the launcher and the workers see each other's files"
        yield Finding(name, not problems, f"{directory}: {text}")
    missing = sorted({package for worker in workers for package in worker["missing"]})
    if packages:
        text = f"{', '.join(missing)}: install it where workers run" if missing else ", ".join(packages)
        yield Finding(f"{name}: packages", not missing, text)
    lowest, highest = clock.bounds(workers)
    is_close = max(lowest, -highest) <= MAX_CLOCK_SECONDS
    max_difference = max(-lowest, highest)
    text = f"differs by at most {math.ceil(max_difference)} s"
    if max_difference > MAX_CLOCK_SECONDS and clock.problem:
        text += f", which is not known better: {clock.problem}"
    if not is_close:
        text = (
            f"differs by {max(lowest, -highest):.0f} s or more. Synchronize the clocks of all machines, such as by NTP"
        )
    yield Finding(f"{name}: clock", is_close, text)
    memory = [worker["memory"] for worker in workers if worker["memory"]]
    if not memory:
        yield Finding(f"{name}: memory", True, "unknown")
    else:
        needed = MIN_MEMORY * max(processes, num_workers)
        text = f"{min(memory) / 1e9:.1f} GB are available; expected {needed / 1e9:.1f} GB or more"
        is_enough = min(memory) >= needed
        yield Finding(f"{name}: memory", is_enough, text)


class _Probe(beam.DoFn):
    """Examines the worker on which it runs; reports the results as JSON in a string metric.

    Args:
        folders: directories that the worker must be able to read and write.
        token: content of the file `token` in each folder, by which a worker recognizes the same disk.
        packages: names of modules that the worker must be able to import.
    """

    def __init__(self, folders: Sequence[str], token: str, packages: Sequence[str]) -> None:
        self._folders, self._token, self._packages = folders, token, packages
        self._reports = Metrics.string_set(_NAMESPACE, _METRIC)

    def process(self, _: int) -> Iterator[Any]:
        """Adds a report about this worker to the metric, as JSON; yields nothing.

        The report has `host`, `pid`, `versions`, the times of `Clock.bounds` (seconds since the epoch), `memory`
        (available bytes; 0 if unknown), `places` (a problem or '' for each folder), `files` (a written path or '' for
        each folder), and `missing` (packages that cannot be imported).
        """
        start_time = time.time()
        places = [self._examine_folder(folder) for folder in self._folders]
        report = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "versions": checks.versions(),
            "places": [problem for problem, _ in places],
            "files": [path for _, path in places],
            "missing": [name for name in self._packages if not _can_import(name)],
            "wrote": start_time,
            "launcher_time": read_time(self._folders),
            "time": time.time(),
            "memory": _available_memory(),
        }
        self._reports.add(json.dumps(report))
        time.sleep(PROBE_SECONDS)
        yield from ()

    def _examine_folder(self, folder: str) -> tuple[str, str]:
        """Returns (problem, '') or ('', path of a file that this worker has written in the folder).

        Args:
            folder: a directory with a file `token` of the launcher.
        """
        try:
            if storage.read_bytes(storage.join(folder, "token")).decode() != self._token:
                return "a worker sees the token of another launcher", ""
        except Exception as error:  # of any library of a store: the launcher prints it
            return f"a worker does not see what the launcher has written ({type(error).__name__}: {error})", ""
        path = storage.join(folder, f"{uuid.uuid4().hex}.worker")
        try:
            storage.write_bytes(path, b"here")
        except Exception as error:
            return f"a worker cannot write there ({type(error).__name__}: {error})", ""
        return "", path


def _can_import(module: str) -> bool:
    """Returns whether a module can be found by its dotted name, without importing the module itself."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _available_memory(root: str = "/") -> int:
    """Returns the memory in bytes that this process can use; 0 if it is unknown, as on other systems than Linux.

    Args:
        root: directory with `proc` and `sys`.
    """
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path(root, "proc/meminfo").read_text(encoding="ascii").splitlines()
    available = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    available += _group_memory(Path(root, "sys/fs/cgroup"), Path(root, "proc/self/cgroup"))
    return max(min(available, default=0), 0)


def _group_memory(groups_dir: Path, groups_file: Path) -> Iterator[int]:
    """Yields the number of bytes that each control group of this process, such as a container, has left.

    Args:
        groups_dir: see `control_groups`.
        groups_file: see `control_groups`.
    """
    for group in control_groups(groups_dir, groups_file):
        older = groups_dir / "memory" / group.relative_to(groups_dir)
        for folder, limit, usage, cache in (
            (group, "memory.max", "memory.current", "inactive_file"),
            (older, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with contextlib.suppress(OSError, ValueError):  # the limit may be "max"
                left = int((folder / limit).read_text()) - int((folder / usage).read_text())
                stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                yield left + int(stat.get(cache, 0))  # files are kept in memory as long as there is enough
