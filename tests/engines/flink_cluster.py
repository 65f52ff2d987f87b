"""A standalone Flink cluster on this machine for Beam's Python pipelines.

    python -m tests.engines.flink_cluster DIR              runs until Ctrl-C; prints Beam's options, and writes them to
                                                           DIR/options
    python -m tests.engines.flink_cluster DIR COMMAND...   runs until the command ends, with its exit code

Needs Java 11 or 17 and Maven. Flink comes from the Python package index in two packages, Beam's runner and its job
server from Maven Central; both are put together once, in the user's cache. The servers are a JobManager, a TaskManager,
Beam's job server and a pool of Python workers, on 127.0.0.1 and free ports. The workers run the Python of this program,
which must have the project installed.
"""

import argparse
import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.engines.cluster_servers import (
    HOST,
    NOT_STAGED,
    ClusterError,
    Servers,
    cache_dir,
    check_java,
    check_maven,
    copy_runner,
    download,
)
from tests.servers import free_port

SETTINGS = {
    "jobmanager.memory.process.size": "1024m",
    "taskmanager.memory.managed.fraction": 0.3,
    "taskmanager.memory.task.off-heap.size": "256m",  # of the channels to Python workers
    "taskmanager.memory.network.min": "256m",  # the graph has many exchanges, each of which takes its own
    "taskmanager.memory.network.max": "256m",
    # A TaskManager that runs out of memory ends, so that its work is repeated; otherwise it would hang.
    "env.java.opts.taskmanager": "-XX:+ExitOnOutOfMemoryError",
    "cluster.uncaught-exception-handling": "FAIL",
    # A lost TaskManager is detected after two of these, and its work is repeated on another one.
    "heartbeat.interval": 1_000,
    "slot.request.timeout": 3_000,
    "web.refresh-interval": 50,  # milliseconds; by default, what the cluster says of its jobs is up to 3 s old
    # All tasks that fail before the restart count as one attempt; with fixed-delay each would count.
    "restart-strategy.type": "exponential-delay",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": 3,
    "restart-strategy.exponential-delay.initial-backoff": "2 s",
    "restart-strategy.exponential-delay.backoff-multiplier": 1.1,  # jobs that fail at each attempt end earlier
}
FLINK_VERSION = "1.19.3"
BEAM_RUNNER = Path(__file__).resolve().parents[2] / "templates" / "flink" / "pom.xml"
ENTRY_POINTS = {"jobmanager": "jobmanager.sh", "taskmanager": "taskmanager.sh", "zookeeper": "flink-console.sh"}
# These servers end before code that the second compiler optimizes would repay its time: they take 40% less of it.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def set_up() -> Path:
    """Returns Flink's home, with Beam's runner in its lib directory; downloads both if needed."""
    check_java("Flink")
    beam_version = re.search(r"<beam.version>(.*)</beam.version>", BEAM_RUNNER.read_text())[1]
    home = cache_dir("flink") / NOT_STAGED / f"flink-{FLINK_VERSION}-beam-{beam_version}"
    if not home.exists():
        check_maven()
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="unfinished.") as unfinished:
            made = Path(unfinished, "home")
            _unpack_flink(Path(unfinished), made)
            copy_runner(BEAM_RUNNER, made / "lib", "-DincludeScope=runtime")
            with contextlib.suppress(OSError):  # another set-up was faster
                made.rename(home)
    return home


def _unpack_flink(folder: Path, home: Path) -> None:
    """Puts Flink's home together: its libraries are a package of their own, its scripts are in the other."""
    # Of the wheel only shell scripts are used, so any Python's serves.
    wheel = ["--only-binary=:all:", "--platform=manylinux2014_x86_64", "--python-version=3.11"]
    download(folder, f"apache-flink-libraries=={FLINK_VERSION}")
    download(folder, *wheel, f"apache-flink=={FLINK_VERSION}")
    [libraries] = folder.glob("*.tar.gz")
    with tarfile.open(libraries) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Pythons before 3.11.4 lack it
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


@dataclass
class Cluster(Servers):
    """A cluster whose servers end with this process.

    Attributes:
        slots: of a TaskManager, each of which does a part of the work.
        memory: of a TaskManager in MiB, without its Python workers.
        host: address of the JobManager, and of a TaskManager if it is not given another one.
        is_highly_available: whether a JobManager that is started again goes on with the jobs of the one before it. The
            cluster then has a server of ZooKeeper, which Flink's own jar contains.
    """

    slots: int = 2
    memory: int = 2048
    host: str = HOST
    is_highly_available: bool = False

    def start(self) -> None:
        """Starts all servers and waits until work can be given to them."""
        for name in ("artifacts", "conf", "logs", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.ports |= {name: free_port() for name in ("rpc", "rest", "workers", "jobs")}
        if self.is_highly_available:
            self.ports["zookeeper"] = free_port()
        self._configure()
        if self.is_highly_available:
            # Not by zookeeper.sh, whose child process would survive it.
            config = str(self.directory / "conf" / "zoo.cfg")
            self.spawn("zookeeper", [self._script("zookeeper"), "zookeeper", "--zkConfigFile", config, "--peerId", "1"])
            self.await_listening("zookeeper")
        self._start_job_manager()
        self.start_task_manager()
        self._start_job_server()
        self.start_worker_pool()
        self.await_listening("jobs")
        self.await_task_managers(1)
        (self.directory / "options").write_text("\n".join(self.options()) + "\n", encoding="utf-8")

    def restart(self, name: str) -> None:
        """Starts a server again that was killed, and waits until work can be given to it."""
        starts = {
            "jobmanager": self._start_job_manager,
            "taskmanager": self.start_task_manager,
            "jobs": self._start_job_server,
            "workers": self.start_worker_pool,
        }
        starts[name]()
        if name == "jobs":
            self.await_listening("jobs")
        if self.running("taskmanager"):
            self.await_task_managers(1)

    def _start_job_manager(self) -> None:
        self.spawn("jobmanager", [self._script("jobmanager"), "start-foreground", self.host])

    def start_task_manager(self, host: str | None = None, inside: Sequence[str] = ()) -> None:
        """Starts a TaskManager.

        Args:
            host: its address; None for the cluster's.
            inside: a command that executes the one which follows it, such as in another network namespace.
        """
        address = [f"-Dtaskmanager.{name}={host or self.host}" for name in ("host", "bind-host")]
        self.spawn("taskmanager", [*inside, self._script("taskmanager"), "start-foreground", *address])

    def _start_job_server(self) -> None:
        main = ["-cp", f"{self.home / 'lib'}/*", "org.apache.beam.runners.flink.FlinkJobServerDriver"]
        logging = f"-Dlog4j.configurationFile={self.home / 'conf' / 'log4j-console.properties'}"
        log = f"-Dlog.file={self.directory / 'logs' / 'jobs-0.log'}"
        ports = [f"--job-port={self.ports['jobs']}", "--artifact-port=0", "--expansion-port=-1"]
        staging = f"--artifacts-dir={self.directory / 'artifacts'}"
        master = f"--flink-master={self.host}:{self.ports['rest']}"
        command = ["java", "-Xmx512m", logging, log, *main, f"--job-host={HOST}", *ports, staging, master]
        self.spawn("jobs", command)

    def options(self) -> list[str]:
        """Returns the options of a pipeline that runs here."""
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.host}:{self.ports['rest']}",
            f"--flink_version={FLINK_VERSION.rpartition('.')[0]}",
            f"--job_endpoint={HOST}:{self.ports['jobs']}",
            f"--parallelism={self.slots}",
            f"--sdk_worker_parallelism={self.slots}",
            "--environment_type=EXTERNAL",
            f"--environment_config={HOST}:{self.ports['workers']}",
        ]

    def await_task_managers(self, count: int) -> None:
        """Waits until at least `count` TaskManagers have registered."""

        def are_there() -> bool:
            with contextlib.suppress(OSError, ValueError):
                return int(self.overview()["taskmanagers"]) >= count
            return False

        self.wait(are_there, f"{count} TaskManagers to register", "jobmanager")

    def await_free_slots(self) -> None:
        """Waits until the cluster has a TaskManager, no job holds slots, and lost TaskManagers are forgotten."""

        def are_free() -> bool:
            with contextlib.suppress(OSError, ValueError):
                overview = self.overview()
                count = len(self.running("taskmanager"))
                return overview["taskmanagers"] == count > 0 and overview["slots-available"] == count * self.slots
            return False

        self.wait(are_free, "free slots of all TaskManagers", "jobmanager")

    def overview(self) -> Mapping[str, int]:
        """Returns the JobManager's overview of the cluster."""
        overview: Mapping[str, int] = self.ask("overview")
        return overview

    def running_stages(self) -> list[str]:
        """Returns the names of what runs now; fused stages have one name that contains those of all.

        There are none while the JobManager does not answer: it fails with a status 500 where it is asked about a job
        that it is just starting.
        """
        try:
            jobs = [job["id"] for job in self.ask("jobs")["jobs"] if job["status"] == "RUNNING"]
            stages = [stage for job in jobs for stage in self.ask(f"jobs/{job}")["vertices"]]
        except HTTPError:
            return []
        return [stage["name"] for stage in stages if stage["status"] == "RUNNING"]

    def ask(self, path: str, *, method: str = "GET") -> Any:
        """Returns the answer of the JobManager's REST interface; None for an empty one."""
        request = Request(f"http://{self.host}:{self.ports['rest']}/{path}", method=method)
        with urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def _script(self, name: str) -> str:
        return str(self.home / "bin" / ENTRY_POINTS[name])

    def _configure(self) -> None:
        """Writes Flink's configuration: that of the package with other addresses and limits."""
        packaged = (self.home / "conf" / "config.yaml").read_text(encoding="utf-8")
        java = re.search(r"^ +all: (.*)$", packaged, re.MULTILINE)[1]
        settings = {
            "env.java.opts.all": java,
            "jobmanager.rpc.address": self.host,
            "jobmanager.rpc.port": self.ports["rpc"],
            "jobmanager.bind-host": self.host,
            "rest.address": self.host,
            "rest.port": self.ports["rest"],
            "rest.bind-address": self.host,
            "taskmanager.numberOfTaskSlots": self.slots,
            "taskmanager.memory.process.size": f"{self.memory}m",
            **SETTINGS,
            "io.tmp.dirs": self.directory / "tmp",
        }
        conf = self.directory / "conf"
        shutil.copytree(self.home / "conf", conf, dirs_exist_ok=True)
        if self.is_highly_available:
            settings |= {
                "high-availability.type": "zookeeper",
                "high-availability.zookeeper.quorum": f"{HOST}:{self.ports['zookeeper']}",
                "high-availability.storageDir": (self.directory / "high-availability").as_uri(),
                "high-availability.zookeeper.client.session-timeout": 10_000,  # of a killed JobManager; by default 60 s
            }
            lines = [f"dataDir={self.directory / 'zookeeper'}\n", f"clientPort={self.ports['zookeeper']}\n"]
            lines += [f"clientPortAddress={HOST}\n", "admin.enableServer=false\n"]
            (conf / "zoo.cfg").write_text("".join(lines), encoding="utf-8")
        lines = [f"{name}: {value}\n" for name, value in settings.items()]
        (conf / "config.yaml").write_text("".join(lines), encoding="utf-8")

    def environment(self) -> Mapping[str, str]:
        """Returns the environment variables of servers."""
        return {
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LOG_DIR": str(self.directory / "logs"),
            "FLINK_PID_DIR": str(self.directory / "tmp"),
            "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        }


@contextlib.contextmanager
def running(directory: Path, **settings: Any) -> Iterator[Cluster]:
    """Runs a cluster until the context ends."""
    cluster = Cluster(directory, set_up(), **settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(
        "flink_cluster.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=2, help="parallelism of its TaskManager; default 2")
    parser.add_argument("--memory", type=int, default=2048, help="of its TaskManager in MiB; default 2048")
    parser.add_argument("directory", type=Path, metavar="DIR", help="of the cluster's logs and configuration")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="runs while the cluster does")
    arguments = parser.parse_args(argv)
    try:
        with running(arguments.directory.absolute(), slots=arguments.slots, memory=arguments.memory) as cluster:
            if arguments.command:
                return subprocess.run(arguments.command, check=False).returncode
            print(*cluster.options(), f"Flink's page: http://{HOST}:{cluster.ports['rest']}", sep="\n", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except ClusterError as error:
        print(f"flink_cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
