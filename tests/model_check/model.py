"""A model of runs that publish one version: launchers, engines that retry, zombies, gc, a store that loses replies.

The actors call the functions of the project that the Beam stages and the commands call. What they do to the store is
checked after every change; see `World.changed`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import platform
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import crc32c
import numpy as np
import pytest

from beam_datasets import catalog, storage
from beam_datasets.errors import BeamDatasetsError, JobStateUnknownError, StorageError
from beam_datasets.features import FeaturesDict
from beam_datasets.metadata.info import INFO_FILE, DatasetIdentity, DatasetInfo
from beam_datasets.metadata.manifest import Manifest
from beam_datasets.metadata.version import Version
from beam_datasets.options import ShardingOptions
from beam_datasets.publishing import (
    disk_commit,
    leftovers,
    owners,
    phases,
    publication,
    resume,
    run_report,
    runs,
    shard_file,
    staged_files,
    staging_checks,
    store_commit,
)
from beam_datasets.publishing.content import ContentCounts
from beam_datasets.publishing.publication import Publication, Workers, announce
from beam_datasets.storage import objects, paths
from tests.model_check.scheduler import MAX_STEPS, Actor, Killed, Process, Scheduler
from tests.model_check.store import STARTED, Disk, Fate, Store

PARENTS = {"store": "memory://bucket/data/ds", "disk": "/data/ds"}
VERSION = "1.0.0"
MAX_ATTEMPTS = 4
MAX_RERUNS = 4


class States:
    """Counts distinct states, by 26 bits of their hash: never too many, a few too few."""

    def __init__(self) -> None:
        self._seen = bytearray(1 << 26)

    def add(self, state: int) -> None:
        """Counts a state."""
        self._seen[state & ((1 << 26) - 1)] = 1

    def __len__(self) -> int:
        return self._seen.count(1)


class BrokenPromiseError(AssertionError):
    """A state of the store, or a change of it, that must never be."""


class EngineFailedError(RuntimeError):
    """All attempts of a stage failed."""


@dataclass(frozen=True)
class Split:
    """What was planned of the one split."""

    num_shards: int
    split: str = "train"

    @property
    def num_examples(self) -> int:
        """Examples of it; two in each shard."""
        return 2 * self.num_shards


class World:
    """One interleaving: a store, actors, faults, and the promises that must hold.

    Attributes:
        parent: directory of the dataset.
        target: directory of the version.
        is_remote: whether it is on an object store.
        store: the store, or the disk.
        scheduler: of the actors.
        trace: (actor, request, path, fate) of each request so far.
        published: what was published, name -> content; None before.
        decided: job -> staged files, of the runs that decided to publish.
        abandoned: the jobs that were abandoned.
        owners: job -> process of the launcher.
        may_abandon: name of a gc -> the jobs that it may abandon though they are alive; None for all.
    """

    def __init__(self, seed: int, kind: str, states: States | None = None) -> None:
        self.scheduler = Scheduler(seed, kind)
        self.scheduler.when_asleep = self.start_gc_perhaps
        self.random = self.scheduler.random
        self.parent = PARENTS[kind]
        self.target = f"{self.parent}/{VERSION}"
        self.points = {
            runs.runs_dir(self.target): "runs",
            self.target: "version",
            f"{self.target}/{INFO_FILE}": "marker",
        }
        self.is_remote = kind == "store"
        self.store = Store(self.before, self.changed, self.later) if self.is_remote else Disk(self.before, self.changed)
        self.store.looks_at_source_first = self.random.random() < 0.5
        self.trace: list[tuple[str, str, str, str]] = []
        self.published: dict[str, bytes] | None = None
        self.decided: dict[str, list[staged_files.StagedFile]] = {}
        self.abandoned: set[str] = set()
        self.owners: dict[str, owners.Owner] = {}
        self.may_abandon: dict[str, set[str] | None] = {}
        self.ids = itertools.count(1)
        self.pids = itertools.count(1)
        self.state = 0
        self.states = states
        self.has_faults = True
        self.fault_rate = self.random.choice([0, 0, 0.01, 0.03, 0.1]) if self.is_remote else 0
        self.crash_rate = self.random.choice([0, 0, 0.002, 0.01])

    def play(self) -> None:
        """Launches runs and gc at random times; then shows that the version can be published, and finally ends all."""
        starts = [self.start_gc] * self.random.choice([0, 1, 1, 2]) + [self.start_run] * self.random.choice(
            [1, 2, 2, 3]
        )
        self.random.shuffle(starts)
        for number, start in enumerate(starts):
            start(str(number))
            self.scheduler.run(steps=self.random.choice([0, 0, 5, 20, 60, 120]))
            if self.random.random() < 0.15:
                self.kill_a_launcher()
        self.scheduler.run(steps=self.random.choice([0, 50, 100, 200, 400, MAX_STEPS]))
        # Whatever happened: once faults end somebody can publish, also while others are suspended.
        self.has_faults, self.fault_rate, self.crash_rate = False, 0, 0
        suspended = self.scheduler.suspend([a for a in self.scheduler.ready if self.random.random() < 0.5])
        self.publish_in_the_end()
        self.scheduler.resume(suspended)
        self.scheduler.run()

    def kill_a_launcher(self) -> None:
        """Kills the launcher of a run, and its engine if that is local; attempts of its stages live on."""
        launchers = [actor.process for actor in self.scheduler.actors if actor.name.endswith("launcher")]
        if launchers:
            self.scheduler.kill(self.random.choice(launchers))

    def start_run(self, name: str) -> None:
        """Starts a run of any content, on an engine that ends with its launcher or goes on."""
        content, num_shards = self.random.choice([("a", 1), ("b", 2), ("c", 2)])
        Run(self, f"run{name}", content, num_shards, self.random.choice(["FnApiRunner", "FlinkRunner"])).start()

    def start_gc_perhaps(self) -> None:
        """Starts gc while an actor sleeps, such as one that has checked its files and not published them yet."""
        if self.has_faults and self.random.random() < 0.7:
            self.start_gc(f" {len(self.scheduler.actors)} while one sleeps", names_runs=True)

    def start_gc(self, name: str, *, names_runs: bool | None = None) -> Actor:
        """Starts gc, which may give up the runs that it finds, as with the option that names one."""
        older_than = self.random.choice([0.0, leftovers.WEEK])
        by_force = self.random.random() < 0.6 if names_runs is None else names_runs

        def collect() -> None:
            for leftover in leftovers.find_leftovers(self.parent, older_than=older_than):
                if older_than:  # else what it cannot ask about counts as abandoned
                    self.may_abandon[f"gc{name}"] = {leftover.job} if by_force and leftover.job else set()
                with contextlib.suppress(BeamDatasetsError):
                    leftovers.remove_leftover(leftover, self.parent, older_than=older_than, by_force=by_force)

        return self.scheduler.start(f"gc{name}", self.process(f"gc{name}"), collect)

    def publish_in_the_end(self) -> None:
        """Does what an operator does: runs again, and gives up the run that is in the way."""
        for attempt in range(MAX_RERUNS):
            rerun = Run(self, f"rerun{attempt}", "d", 1, "FnApiRunner").start()
            self.scheduler.run(until=[rerun])
            if self.published is not None:
                return
            gc = self.start_gc(f" after rerun{attempt}", names_runs=True)
            self.scheduler.run(until=[gc])
        raise BrokenPromiseError(f"nobody can publish any more: {rerun.error!r}; gc: {gc.error!r}")

    def process(self, name: str) -> Process:
        """Returns a new process."""
        return Process(name, next(self.pids))

    def new_id(self) -> uuid.UUID:
        """Returns an id that is the same in each interleaving of the seed; of either order to other names."""
        return uuid.UUID(int=next(self.ids) + self.random.choice([0, 0xF << 28]) << 96)

    def is_running(self, owner: owners.Owner) -> bool:
        """Returns whether a process has something left to do."""
        actors = [actor for actor in self.scheduler.actors if actor.process.pid == owner.pid]
        return any(not actor.has_ended and not actor.process.is_dead for actor in actors)

    def before(self, request: str, path: str, changes: bool) -> Fate:
        """Lets others go on, then decides what becomes of a request."""
        actor = self.scheduler.current
        if actor is None:  # a check looks at the store
            return Fate.DONE
        self.scheduler.pause(self._point(request, path))
        chance = self.random.random()
        fate = Fate.DONE
        if chance < self.fault_rate:
            fates = [Fate.REFUSED, Fate.LOST, Fate.REPEATED, Fate.LATE] if changes else [Fate.REFUSED]
            fate = fates[int(self.random.random() * len(fates))]
        elif chance > 1 - self.crash_rate:
            self.trace.append((actor.name, "killed before: " + request, path, ""))
            self.scheduler.kill(actor.process)
            raise Killed
        self.trace.append((actor.name, request, path, fate.value))
        return fate

    def _point(self, request: str, path: str) -> str:
        """Returns the name of a request as in `scheduler.CRITICAL`."""
        if request in ("put", "rename", "delete") and runs.STAGING_NAME.match(path, len(self.parent) + 1):
            return f"{request} staged"
        if path.endswith((".reservation.json", ".decision.json")):
            return f"{request} {path.rsplit('.', 2)[1]}"
        return f"{request} {self.points.get(path, '')}"

    def later(self, request: str, path: str, carry_out: Callable[[], Any]) -> None:
        """Has a request carried out at some later time, by the network."""

        def arrive() -> None:
            self.scheduler.pause(request)
            self.trace.append(("network", f"late {request}", path, Fate.DONE.value))
            with contextlib.suppress(StorageError):
                carry_out()

        self.scheduler.start("network", Process("network", 0), arrive)

    def changed(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """Checks what must hold after each change of the store."""
        if self.states is not None:
            self.state ^= hash((path, before)) ^ hash((path, after))
            self.states.add(self.state)
        folder, _, name = path[len(self.parent) + 1 :].partition("/")
        if folder == VERSION:
            self._check_final_name(name, before, after)
        elif not self.is_remote:
            return
        elif folder.startswith(runs.RUNS_PREFIX) and name.endswith(".decision.json"):
            self._note_decision(name.removesuffix(".decision.json"), before, after)
        elif folder.startswith("incomplete."):
            self._check_staged(folder.removeprefix("incomplete.").partition("_")[0], name, before, after)

    def _check_final_name(self, name: str, before: bytes | None, after: bytes | None) -> None:
        """A final name is created once, by the run that decided to publish, and never changes."""
        if before is not None:
            raise BrokenPromiseError(f"{name}: a file under its final name was {'replaced' if after else 'deleted'}")
        if self.published is not None and self.published.get(name) != after:
            raise BrokenPromiseError(f"{name}: a file was added to a published version")
        if not self.is_remote:
            if name == INFO_FILE:
                self._check_published()
            return
        if len(self.decided) != 1:
            raise BrokenPromiseError(f"{name} got its final name, but {len(self.decided)} runs decided to publish")
        (staged,) = self.decided.values()
        content = [(len(after or b""), crc32c.crc32c(after or b""))]
        if [(file.num_bytes, file.crc32c) for file in staged if file.name == name] != content:
            raise BrokenPromiseError(f"{name} got its final name, but its content is not what was decided")
        if name == INFO_FILE:
            self._check_published()

    def _check_published(self) -> None:
        """Everything that the manifest of a visible version names is there."""
        self.published = found = self._below(self.target)
        with self._unwatched():
            if not catalog.is_published(self.target):
                raise BrokenPromiseError("dataset_info.json is there, but the version does not count as published")
        if "manifest.json" not in found:
            raise BrokenPromiseError("a version was published without manifest.json")
        manifest = Manifest.from_text(found["manifest.json"], path="manifest.json")
        wanted = {"manifest.json", "run.json", *manifest.metadata}
        for split, columns in manifest.splits.items():
            for number in range(columns.num_shards):
                name = shard_name(split, number, columns.num_shards)
                wanted |= {name, f"{name}.index"}
                sums = (columns.file_bytes[number], columns.crc32c[number], columns.index_crc32c[number])
                shard, index = found.get(name), found.get(f"{name}.index")
                if shard is None or index is None or (len(shard), crc32c.crc32c(shard), crc32c.crc32c(index)) != sums:
                    raise BrokenPromiseError(f"a version was published, but {name} or its index is missing or wrong")
        if wanted != set(found):
            raise BrokenPromiseError(f"a version was published with missing or further files: {wanted ^ set(found)}")

    def _note_decision(self, job: str, before: bytes | None, after: bytes | None) -> None:
        """A decision is made once and stays until the version is published."""
        if self.published is not None:
            return
        if before is not None and before != after:
            raise BrokenPromiseError(f"the decision of run {job} was changed before a version was published")
        assert after is not None
        decision = runs.Decision.from_json(after)
        if decision.kind == runs.ABANDON:
            self.abandoned.add(job)
            actor = self.scheduler.current.name if self.scheduler.current else ""
            if job not in self.may_abandon.get(actor, {job}) and self.is_running(self.owners[job]):
                raise BrokenPromiseError(f"{actor} gave up run {job}, which is alive and was not named")
            return
        if self.decided:
            raise BrokenPromiseError(f"runs {job} and {', '.join(self.decided)} both decided to publish")
        staging = self._below(runs.staging_dir(self.target, job))
        for file in decision.files:
            content = staging.get(file.staged)
            if content is None or (len(content), crc32c.crc32c(content)) != (file.num_bytes, file.crc32c):
                raise BrokenPromiseError(f"run {job} decided to publish, but {file.staged} is missing or wrong")
        self.decided[job] = list(decision.files)

    def _check_staged(self, job: str, name: str, before: bytes | None, after: bytes | None) -> None:
        """What a run staged is not deleted before the run is abandoned or a version is published."""
        if self.published is not None or before is None or after == before or job in self.abandoned:
            return
        if after is None or name in {file.staged for file in self.decided.get(job, ())}:
            raise BrokenPromiseError(f"{name}, staged by run {job}, was deleted or changed while it may be needed")

    def _below(self, folder: str) -> dict[str, bytes]:
        objects, start = self.store.objects, len(folder) + 1
        return {path[start:]: content for path, content in objects.items() if path.startswith(folder + "/")}

    @contextlib.contextmanager
    def _unwatched(self) -> Iterator[None]:
        current, self.scheduler.current = self.scheduler.current, None
        try:
            yield
        finally:
            self.scheduler.current = current

    def text(self) -> str:
        """The trace, for a failure."""
        lines = [(actor, request, path[len(self.parent) + 1 :], fate) for actor, request, path, fate in self.trace]
        return "\n".join(f"{actor:<18} {request:<12} {path}  {fate}" for actor, request, path, fate in lines)


def shard_name(split: str, number: int, count: int) -> str:
    """Returns the name of a shard."""
    return f"ds-{split}.tfrecord-{number:05d}-of-{count:05d}"


FEATURES = FeaturesDict({"n": np.int64})
INFOS = {
    parent: DatasetInfo(builder=DatasetIdentity("ds", Version(VERSION), f"{parent}/{VERSION}"), features=FEATURES)
    for parent in PARENTS.values()
}


@dataclass(eq=False)
class Run:
    """One run: a launcher, and an engine that retries stages, sometimes twice at once, and sometimes the whole job.

    Attributes:
        world: where it happens.
        name: for the trace.
        content: of the shards; runs of other content have other shards under the same names.
        num_shards: of the version.
        runner: 'FnApiRunner' for an engine that ends with the launcher; else one that goes on without it.
    """

    world: World
    name: str
    content: str
    num_shards: int
    runner: str
    launcher: Actor = field(init=False)
    publication: Publication = field(init=False)

    @property
    def plan(self) -> Any:
        """What was planned."""
        return ContentCounts([Split(self.num_shards)])

    def start(self) -> Actor:
        """Starts the launcher."""
        self.process = self.world.process(f"{self.name} launcher")
        self.launcher = self.world.scheduler.start(f"{self.name} launcher", self.process, self.launch)
        return self.launcher

    def launch(self) -> None:
        """Does what `DatasetBuilder.build` does."""
        world = self.world
        info, sharding = INFOS[world.parent], ShardingOptions(num_shards=self.num_shards)
        workers = Workers(name=self.runner)
        self.publication = announce(info, world.target, workers=workers, sharding=sharding, builder="a:B")
        with phases.staging(self.publication):
            process = self.process if self.runner == "FnApiRunner" else world.process(f"{self.name} engine")
            engine = world.scheduler.start(f"{self.name} engine", process, self.engine)
            if world.has_faults and world.random.random() < 0.1:
                raise JobStateUnknownError("the launcher lost contact with the engine")
            world.scheduler.wait([engine])
            if engine.error is not None:
                raise EngineFailedError(str(engine.error))

    def engine(self) -> None:
        """Runs the job; now and then once more from the start, with the attempts of the first time still alive."""
        for _ in range(1 + (self.world.random.random() < 0.2)):
            shards = self.stage("write", self.write)
            if not self.world.is_remote:
                self.stage("publish", lambda shards=shards: phases.publish(self.publication, self.plan, shards))
                continue
            decision = self.stage("decide", lambda shards=shards: phases.decide(self.publication, self.plan, shards))
            self.stage("commit", lambda files=decision.files: self.commit(files))
            self.stage("publish", lambda decision=decision: phases.make_visible(self.publication, decision))

    def stage(self, name: str, function: Callable[[], Any]) -> Any:
        """Returns the result of the first attempt of a stage that succeeds."""
        world, attempts = self.world, []
        while len(attempts) < MAX_ATTEMPTS:
            for _ in range(1 + (world.random.random() < 0.3)):
                label = f"{self.name} {name} {len(attempts)}"
                attempts.append(world.scheduler.start(label, world.process(label), function))
            world.scheduler.wait(attempts)
            for attempt in attempts:
                if attempt.succeeded:
                    return attempt.result
        raise EngineFailedError(f"{name}: {attempts[-1].error!r}")

    def write(self) -> list[shard_file.WrittenShard]:
        """Writes the shards, under names of this attempt."""
        folder, written = staged_files.new_dir(self.publication.staging_dir), []
        for number in range(self.num_shards):
            name = shard_name("train", number, self.num_shards)
            path = storage.join(folder, name)
            data, index = f"{self.content} {number}".encode(), f"{self.content} {number} index".encode()
            storage.write_bytes(path, data)
            storage.write_bytes(f"{path}.index", index)
            sums = (crc32c.crc32c(data), crc32c.crc32c(index))
            written.append(shard_file.WrittenShard("train", number, 0, path, 2, len(data), len(data), *sums))
        return written

    def commit(self, files: Sequence[Any]) -> None:
        """Commits the files but the marker, in any order, as workers do."""
        files = [file for file in files if file.name != INFO_FILE]
        for file in self.world.random.sample(files, len(files)):
            store_commit.commit_file(self.publication, file)


class InlineExecutor:
    """Runs what a thread pool is given, at once; the interleaving of copies comes from several attempts."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InlineExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Calls the function."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Clock:
    """A time that advances by the steps of the interleaving."""

    gmtime, strftime = staticmethod(time.gmtime), staticmethod(time.strftime)
    time = staticmethod(lambda: STARTED + _world.scheduler.steps)


_world: World


@contextlib.contextmanager
def patched() -> Iterator[pytest.MonkeyPatch]:
    """Connects the project's storage, processes, ids and clock to the world that `play` makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "_resolve_backend", lambda path: (_world.store, str(path)))
        patch.setattr(storage, "local", LocalFunctions())
        patch.setattr(objects, "copy", _copied)
        for name in ("join", "is_remote", "dirname", "basename"):  # a third of the time
            function = functools.cache(getattr(paths, name))
            patch.setattr(paths, name, function)
            patch.setattr(storage, name, function)
        patch.setattr(phases._log, "disabled", True)
        for module in (phases, store_commit):
            patch.setattr(module, "ThreadPoolExecutor", InlineExecutor)
        for module in (disk_commit, leftovers, publication, resume, run_report, runs, staging_checks):
            patch.setattr(module, "time", Clock)
        patch.setattr(uuid, "uuid4", lambda: _world.new_id())
        patch.setattr(platform, "platform", lambda: "a machine")
        patch.setattr(owners.Owner, "of_this_process", staticmethod(_owner))
        patch.setattr(owners.Owner, "is_here", True)
        patch.setattr(owners.Owner, "is_running", property(lambda owner: _world.is_running(owner)))
        yield patch


def _copied(source: str, target: str, *, overwrite: bool) -> bool:
    """Copies an object in the world's store; see `objects.copy`."""
    copy = _world.store.copy if overwrite else _world.store.create_copy
    copy(source, target)
    return True


def _owner(job: str, started: float, runner: str) -> owners.Owner:
    actor = _world.scheduler.current
    assert actor is not None
    return _world.owners.setdefault(job, owners.Owner(job, "a-host", actor.process.pid, started, runner))


class LocalFunctions:
    """Stands for the module `storage.local`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_world.store, name)


def play(seed: int, kind: str, states: States | None = None) -> World:
    """Plays one interleaving of runs that publish to a 'store' or a 'disk'.

    Raises:
        BrokenPromiseError: a promise was broken; the message contains the seed and the trace.
    """
    global _world
    _world = world = World(seed, kind, states)
    try:
        world.play()
    except AssertionError as error:
        again = f"python -m tests.model_check.model {kind} {seed}"
        raise BrokenPromiseError(f"{kind}, seed {seed}: {error} ({again})\n{world.text()}") from error
    return world


def check(kind: str, seeds: Iterable[int]) -> str:
    """Plays the interleavings of some seeds and returns how many they were.

    Raises:
        BrokenPromiseError: see `play`.
    """
    states, steps, count = States(), 0, 0
    with patched():
        for seed in seeds:
            steps += play(seed, kind, states).scheduler.steps
            count += 1
    return f"{kind}: {count} interleavings of {steps} steps, {len(states)} distinct states: no broken promise"


if __name__ == "__main__":  # python -m tests.model_check.model KIND SEED
    print(check(sys.argv[1], [int(sys.argv[2])]))
    print(_world.text())
