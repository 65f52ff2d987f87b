"""A standalone Spark cluster on this machine for Beam's Python pipelines.

    python -m tests.engines.spark_cluster DIR              runs until Ctrl-C; prints Beam's options, and writes them to
                                                           DIR/options
    python -m tests.engines.spark_cluster DIR COMMAND...   runs until the command ends, with its exit code

Needs Java 11 or 17 and Maven. Spark comes from the Python package index, Beam's runner and its job server from Maven
Central; both are unpacked once, in the user's cache. The servers are a master, two workers with a core each, Beam's job
server and a pool of Python workers, on 127.0.0.1 and free ports. The Python workers run the Python of this program,
which must have the project installed.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

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

SPARK_VERSION = "3.5.0"
BEAM_RUNNER = Path(__file__).resolve().parents[2] / "templates" / "spark" / "pom.xml"
# Java 17 opens these packages to Spark only if it is told to; Spark tells the executors.
OPENED = ("java.lang.invoke", "java.nio", "java.util", "sun.nio.ch")


def set_up() -> Path:
    """Returns a directory with Spark in `spark` and Beam's runner in `beam`; downloads both if needed."""
    check_java("Spark")
    beam_version = re.search(r"<beam.version>(.*)</beam.version>", BEAM_RUNNER.read_text())[1]
    home = cache_dir("spark") / NOT_STAGED / f"spark-{SPARK_VERSION}-beam-{beam_version}"
    if not home.exists():
        check_maven()
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix="unfinished.") as unfinished:
            folder = Path(unfinished, "home")
            folder.mkdir()
            copy_runner(BEAM_RUNNER, folder / "beam")
            download(Path(unfinished), f"pyspark=={SPARK_VERSION}")
            [packed] = Path(unfinished).glob("*.tar.gz")
            with tarfile.open(packed) as archive:
                safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                members = [item for item in archive if re.match(r"[^/]+/deps/(bin|jars)/", item.name)]
                archive.extractall(unfinished, members, **safely)
            Path(unfinished, packed.name.removesuffix(".tar.gz"), "deps").rename(folder / "spark")
            with contextlib.suppress(OSError):  # another set-up was faster
                folder.rename(home)
    return home


@dataclass
class Cluster(Servers):
    """A cluster whose servers end with this process."""

    def start(self) -> None:
        """Starts all servers and waits until work can be given to them."""
        for name in ("artifacts", "logs", "tmp", "work"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.ports |= {name: free_port() for name in ("master", "page", "workers", "jobs")}
        where = ["--host", HOST, "--port", str(self.ports["master"]), "--webui-port", str(self.ports["page"])]
        self.spawn("master", [self._spark_class, "org.apache.spark.deploy.master.Master", *where])
        self.await_listening("master")
        for _ in range(2):
            self.start_worker()
        self._start_job_server()
        self.start_worker_pool()
        self.await_listening("jobs")
        self.await_workers(2)
        (self.directory / "options").write_text("\n".join(self.options()) + "\n", encoding="utf-8")

    def start_worker(self) -> None:
        """Starts a worker of Spark, which starts an executor for each job."""
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / "work")]
        where = ["--host", HOST, "--webui-port", str(free_port())]
        worker = [self._spark_class, "org.apache.spark.deploy.worker.Worker", *where, *limits, self._master]
        self.spawn("worker", worker)

    def _start_job_server(self) -> None:
        runner = self.home / "beam"
        java = ["java", "-Xmx512m", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED)]
        spark = {"executor.extraClassPath": f"{runner}/*", "driver.host": HOST, "ui.enabled": "false"}
        main = ["-cp", f"{runner}/*:{self.home}/spark/jars/*", "org.apache.beam.runners.spark.SparkJobServerDriver"]
        ports = [f"--job-port={self.ports['jobs']}", "--artifact-port=0", "--expansion-port=-1"]
        staging = f"--artifacts-dir={self.directory / 'artifacts'}"
        where = [f"--spark-master-url={self._master}", f"--job-host={HOST}", *ports, staging]
        self.spawn("jobs", [*java, *(f"-Dspark.{name}={value}" for name, value in spark.items()), *main, *where])

    def options(self) -> list[str]:
        """Returns the options of a pipeline that runs here."""
        return [
            "--runner=SparkRunner",
            f"--spark_master_url={self._master}",
            f"--job_endpoint={HOST}:{self.ports['jobs']}",
            "--environment_type=EXTERNAL",
            f"--environment_config={HOST}:{self.ports['workers']}",
        ]

    def environment(self) -> Mapping[str, str]:
        """Returns the environment variables of servers."""
        return {
            "SPARK_HOME": str(self.home / "spark"),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.directory / "tmp"),
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def await_workers(self, count: int) -> None:
        """Waits until at least `count` workers of Spark have registered."""

        def are_there() -> bool:
            with contextlib.suppress(OSError, ValueError):
                return int(self.overview()["aliveworkers"]) >= count
            return False

        self.wait(are_there, f"{count} workers to register", "master")

    def overview(self) -> Mapping[str, Any]:
        """Returns what the master says of the cluster."""
        with urlopen(f"http://{HOST}:{self.ports['page']}/json/", timeout=10) as answer:
            overview: Mapping[str, Any] = json.load(answer)
        return overview

    @property
    def _master(self) -> str:
        return f"spark://{HOST}:{self.ports['master']}"

    @property
    def _spark_class(self) -> str:
        return str(self.home / "spark" / "bin" / "spark-class")


@contextlib.contextmanager
def running(directory: Path) -> Iterator[Cluster]:
    """Runs a cluster until the context ends."""
    cluster = Cluster(directory, set_up())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(
        "spark_cluster.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="of the cluster's logs")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="runs while the cluster does")
    arguments = parser.parse_args(argv)
    try:
        with running(arguments.directory.absolute()) as cluster:
            if arguments.command:
                return subprocess.run(arguments.command, check=False).returncode
            print(*cluster.options(), f"Spark's page: http://{HOST}:{cluster.ports['page']}", sep="\n", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    except ClusterError as error:
        print(f"spark_cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
