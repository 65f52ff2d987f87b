"""A standalone Flink cluster on this machine for Beam's Python pipelines: set up, started and stopped.

    python flink_cluster.py start DIR     start it; Beam's options for it are printed, and stand in DIR/options
    python flink_cluster.py status DIR    report what runs
    python flink_cluster.py stop DIR      stop it

Needs Java 11 or 17 and Maven. Flink comes from the Python package index, where it is cut in two, the runner and its job
server from Maven Central; both are put together in the user's cache, once. The servers are a JobManager, a TaskManager,
Beam's job server and a pool of Python workers, on 127.0.0.1 and free ports. The workers are processes of the Python
that runs this program, which therefore has the project installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

HOST = "127.0.0.1"
START_SECONDS = 90
STOP_SECONDS = 15
STATE = "cluster.json"
SETTINGS = {
    "jobmanager.memory.process.size": "1024m",
    "taskmanager.memory.managed.fraction": 0.3,
    "taskmanager.memory.task.off-heap.size": "256m",  # of the channels to Python workers
    "taskmanager.memory.network.min": "256m",  # the graph has many exchanges, each of which takes its own
    "taskmanager.memory.network.max": "256m",
    # What has run out of memory ends, so that its work is done again; it would wait for ever otherwise.
    "env.java.opts.taskmanager": "-XX:+ExitOnOutOfMemoryError",
    "cluster.uncaught-exception-handling": "FAIL",
    # A TaskManager that is gone is noticed after two of these, and its work done again where there is another.
    "heartbeat.interval": 3_000,
    "slot.request.timeout": 20_000,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    "restart-strategy.fixed-delay.delay": "10 s",
}
FLINK_VERSION = "1.19.3"
BEAM_RUNNER = Path(__file__).resolve().parents[2] / "templates" / "flink" / "pom.xml"
# Beam's job server sends all jars of its class path along with each job, hundreds of megabytes, but for those under a
# directory of this name. Here the cluster has them in its lib directory, so that jobs need not bring them.
NOT_STAGED = Path("gradle", "wrapper")
ENTRY_POINTS = {"jobmanager": "jobmanager.sh", "taskmanager": "taskmanager.sh"}


class ClusterError(Exception):
    """The cluster cannot be set up or started; the message says why."""


def cache_dir() -> Path:
    """Returns where downloads are kept: $BEAM_DATASETS_FLINK_CACHE, or a directory of the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam_datasets" / "flink"
    return Path(os.environ.get("BEAM_DATASETS_FLINK_CACHE") or default)


def set_up() -> Path:
    """Returns Flink's home, with Beam's runner in its lib directory; downloads both where they are not there yet."""
    check_java()
    beam_version = re.search(r"<beam.version>(.*)</beam.version>", BEAM_RUNNER.read_text())[1]
    home = cache_dir() / NOT_STAGED / f"flink-{FLINK_VERSION}-beam-{beam_version}"
    if not home.exists():
        if shutil.which("mvn") is None:
            raise ClusterError(
                "there is no command mvn. Beam's runner comes by Maven (Debian and Ubuntu: apt install maven)."
            )
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="unfinished.") as unfinished:
            made = Path(unfinished, "home")
            _unpack_flink(Path(unfinished), made)
            _add_beam(made)
            with contextlib.suppress(OSError):  # another set-up was faster
                made.rename(home)
    return home


def check_java() -> None:
    """Checks that there is a Java that Flink runs on.

    Raises:
        ClusterError: there is none.
    """
    needed = "Flink needs Java 11 or 17 (Debian and Ubuntu: apt install openjdk-17-jre-headless)"
    try:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        raise ClusterError(f"there is no command java. {needed}.") from None
    version = re.search(r'version "(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < 11:
        raise ClusterError(f"`java -version` says {told.stderr.strip()[:200]!r}. {needed}.")


def _unpack_flink(folder: Path, home: Path) -> None:
    """Puts Flink's home together: its libraries are a package of their own, its scripts are in the other."""
    # Of the wheel only shell scripts are used, so any Python's serves.
    wheel = ["--only-binary=:all:", "--platform=manylinux2014_x86_64", "--python-version=3.11"]
    _download(folder, f"apache-flink-libraries=={FLINK_VERSION}")
    _download(folder, *wheel, f"apache-flink=={FLINK_VERSION}")
    [libraries] = folder.glob("*.tar.gz")
    with tarfile.open(libraries) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Pythons before 3.10.12 lack it
        archive.extractall(folder / "libraries", **safely)
    [deps] = (folder / "libraries").glob("*/deps")
    deps.rename(home)
    [scripts] = folder.glob("*.whl")
    with zipfile.ZipFile(scripts) as archive:
        names = [name for name in archive.namelist() if re.match(r"pyflink/(bin|conf)/[^/]+$", name)]
        archive.extractall(folder / "scripts", names)
    for kind in ("bin", "conf"):
        shutil.copytree(folder / "scripts" / "pyflink" / kind, home / kind, dirs_exist_ok=True)
    for script in (home / "bin").glob("*.sh"):
        script.chmod(0o755)


def _download(folder: Path, *arguments: str) -> None:
    _say(f"Downloading {arguments[-1]}")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _check_call([*pip, f"--dest={folder}", *arguments])


def _add_beam(home: Path) -> None:
    """Puts Beam's runner, which is its job server too, into Flink's lib directory."""
    _say("Downloading Beam's runner for Flink, which takes Maven some minutes")
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={home / 'lib'}"]
    _check_call(["mvn", "--quiet", "--batch-mode", f"--file={BEAM_RUNNER}", *copy])


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _check_call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ClusterError("\n".join([f"{' '.join(command)}\nended with {done.returncode}:", *words[:15]]))


@dataclass(frozen=True, slots=True)
class Server:
    """A server process.

    Attributes:
        name: what it is.
        pid: of the process, which leads a group of its own.
        started: its start time as the system tells it, by which it is known again.
    """

    name: str
    pid: int
    started: str

    def is_running(self) -> bool:
        """Returns whether the process is still there."""
        return bool(self.started) and _start_time(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Sends a signal to the process and those that it started."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


@dataclass
class Cluster:
    """A cluster whose files are in a directory.

    Attributes:
        directory: of logs, configuration and state.
        home: Flink's.
        slots: of a TaskManager, each of which does a part of the work.
        memory: of a TaskManager in MiB; its Python workers have theirs besides.
        ports: {name of a server: its port}.
        servers: those that were started.
        tied: whether servers end with the process that started them, whatever ends it (Linux).
    """

    directory: Path
    home: Path
    slots: int = 2
    memory: int = 2048
    ports: dict[str, int] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    tied: bool = False
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    def start(self) -> None:
        """Starts all servers and waits until work can be given to them."""
        for name in ("artifacts", "conf", "logs", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.ports |= {name: free_port() for name in ("rpc", "rest", "workers", "jobs")}
        self._configure()
        self._spawn("jobmanager", [self._script("jobmanager"), "start-foreground", HOST])
        self.start_task_manager()
        self._start_job_server()
        self.start_worker_pool()
        self.await_listening("jobs")
        self.await_task_managers(1)
        (self.directory / "options").write_text("\n".join(self.options()) + "\n", encoding="utf-8")

    def start_worker_pool(self) -> Server:
        """Starts the pool of Python workers, and waits until it listens."""
        pool = [sys.executable, "-m", "beam_datasets.beam.worker_pool", f"--port={self.ports['workers']}"]
        server = self._spawn("workers", pool)
        self.await_listening("workers")
        return server

    def start_task_manager(self) -> Server:
        """Starts a TaskManager."""
        return self._spawn("taskmanager", [self._script("taskmanager"), "start-foreground"])

    def _start_job_server(self) -> None:
        main = ["-cp", f"{self.home / 'lib'}/*", "org.apache.beam.runners.flink.FlinkJobServerDriver"]
        logging = f"-Dlog4j.configurationFile={self.home / 'conf' / 'log4j-console.properties'}"
        log = f"-Dlog.file={self.directory / 'logs' / 'jobs-0.log'}"
        ports = [f"--job-port={self.ports['jobs']}", "--artifact-port=0", "--expansion-port=0"]
        staging = f"--artifacts-dir={self.directory / 'artifacts'}"
        master = f"--flink-master={HOST}:{self.ports['rest']}"
        command = ["java", "-Xmx512m", logging, log, *main, f"--job-host={HOST}", *ports, staging, master]
        self._spawn("jobs", command)

    def options(self) -> list[str]:
        """Returns the options of a pipeline that runs here."""
        return [
            "--runner=FlinkRunner",
            f"--flink_master={HOST}:{self.ports['rest']}",
            f"--flink_version={FLINK_VERSION.rpartition('.')[0]}",
            f"--job_endpoint={HOST}:{self.ports['jobs']}",
            f"--parallelism={self.slots}",
            f"--sdk_worker_parallelism={self.slots}",
            "--environment_type=EXTERNAL",
            f"--environment_config={HOST}:{self.ports['workers']}",
        ]

    def running(self, name: str) -> list[Server]:
        """Returns the servers of this name that run, the one started last behind."""
        return [server for server in self.servers if server.name == name and server.is_running()]

    def await_listening(self, name: str) -> None:
        """Waits until a server listens on its port."""
        self._await(lambda: _listens(self.ports[name]), f"{name} to listen on port {self.ports[name]}", name)

    def await_task_managers(self, count: int) -> None:
        """Waits until so many TaskManagers have come to the JobManager."""

        def are_there() -> bool:
            with contextlib.suppress(OSError, ValueError):
                return int(self.overview()["taskmanagers"]) >= count
            return False

        self._await(are_there, f"{count} TaskManagers to register", "jobmanager")

    def overview(self) -> Mapping[str, int]:
        """Returns what the JobManager tells of the cluster."""
        from urllib.request import urlopen

        with urlopen(f"http://{HOST}:{self.ports['rest']}/overview", timeout=10) as answer:
            told: Mapping[str, int] = json.load(answer)
        return told

    def stop(self) -> None:
        """Stops all servers."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for server in self.servers:
                server.signal(number)
            deadline = time.monotonic() + STOP_SECONDS
            while any(server.is_running() for server in self.servers) and time.monotonic() < deadline:
                time.sleep(0.1)
        for process in self._started:
            process.wait()
        self.servers.clear()
        self._save()

    def _script(self, name: str) -> str:
        return str(self.home / "bin" / ENTRY_POINTS[name])

    def _configure(self) -> None:
        """Writes Flink's configuration: that of the package, but for where servers listen and what they may take."""
        packaged = (self.home / "conf" / "config.yaml").read_text(encoding="utf-8")
        java = re.search(r"^ +all: (.*)$", packaged, re.MULTILINE)[1]
        settings = {
            "env.java.opts.all": java,
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": self.ports["rpc"],
            "jobmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.port": self.ports["rest"],
            "rest.bind-address": HOST,
            "taskmanager.host": HOST,
            "taskmanager.bind-host": HOST,
            "taskmanager.numberOfTaskSlots": self.slots,
            "taskmanager.memory.process.size": f"{self.memory}m",
            **SETTINGS,
            "io.tmp.dirs": self.directory / "tmp",
        }
        conf = self.directory / "conf"
        shutil.copytree(self.home / "conf", conf, dirs_exist_ok=True)
        lines = [f"{name}: {value}\n" for name, value in settings.items()]
        (conf / "config.yaml").write_text("".join(lines), encoding="utf-8")

    def _spawn(self, name: str, command: Sequence[str]) -> Server:
        log = self._log(name, sum(server.name == name for server in self.servers))
        environment = {
            **os.environ,
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory / "logs"),
            "FLINK_PID_DIR": str(self.directory / "tmp"),
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*(["setpriv", "--pdeathsig", "KILL"] if self.tied else []), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                start_new_session=True,
            )
        self._started.append(process)
        server = Server(name, process.pid, _start_time(process.pid))
        self.servers.append(server)
        self._save()
        return server

    def _log(self, name: str, number: int) -> Path:
        return self.directory / "logs" / f"{name}-{number}.out"

    def _await(self, is_so: Callable[[], bool], what: str, name: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_so():
            if time.monotonic() > deadline or not self.running(name):
                last = self._log(name, sum(server.name == name for server in self.servers) - 1)
                said = last.read_text(errors="replace")[-2000:]
                raise ClusterError(f"waited in vain for {what}; logs are in {last.parent}\n{said}")
            time.sleep(0.2)

    def _save(self) -> None:
        state = {
            "home": str(self.home),
            "slots": self.slots,
            "memory": self.memory,
            "ports": self.ports,
            "servers": [asdict(server) for server in self.servers],
        }
        (self.directory / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Cluster:
        """Returns the cluster that was started in a directory.

        Raises:
            ClusterError: none was.
        """
        try:
            state = json.loads((directory / STATE).read_text(encoding="utf-8"))
        except OSError:
            raise ClusterError(f"no cluster was started in {directory}.") from None
        servers = [Server(**server) for server in state["servers"]]
        return cls(directory, Path(state["home"]), state["slots"], state["memory"], state["ports"], servers)


def free_port() -> int:
    """Returns a port of this machine that nobody listens on."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        return int(listening.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def _start_time(pid: int) -> str:
    """Returns when a process started; '' where there is none, or one that has ended."""
    told = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = told.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


@contextlib.contextmanager
def running(directory: Path, **settings: int) -> Iterator[Cluster]:
    """Provides a cluster, whose servers end with the context or with this process."""
    cluster = Cluster(directory, set_up(), tied=shutil.which("setpriv") is not None, **settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _start(directory: Path, slots: int, memory: int) -> int:
    with contextlib.suppress(ClusterError):
        if any(server.is_running() for server in Cluster.load(directory).servers):
            raise SystemExit(f"a cluster runs in {directory} already; `status` says more.")
    cluster = Cluster(directory, set_up(), slots, memory)
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    print(*cluster.options(), sep="\n")
    return 0


def _status(directory: Path) -> int:
    cluster = Cluster.load(directory)
    if not cluster.servers:
        print(f"the cluster of {directory} was stopped")
    for server in cluster.servers:
        port = cluster.ports.get({"jobmanager": "rest"}.get(server.name, server.name))
        where = f" http://{HOST}:{port}" if server.name == "jobmanager" else f" {HOST}:{port}" if port else ""
        print(f"{server.name:<12} {'runs' if server.is_running() else 'has ended'}, process {server.pid}{where}")
    return 0 if cluster.servers and all(server.is_running() for server in cluster.servers) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(
        "flink_cluster.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("start", "status", "stop"):
        command = commands.add_parser(name)
        command.add_argument("directory", type=Path, metavar="DIR", help="of the cluster's logs and state")
        if name == "start":
            command.add_argument("--slots", type=int, default=2, help="parallelism of its TaskManager; default 2")
            command.add_argument("--memory", type=int, default=2048, help="of its TaskManager in MiB; default 2048")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "start":
            return _start(arguments.directory.absolute(), arguments.slots, arguments.memory)
        if arguments.command == "status":
            return _status(arguments.directory.absolute())
        Cluster.load(arguments.directory.absolute()).stop()
    except ClusterError as error:
        print(f"flink_cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
