"""What the clusters that tests start have in common: servers that end with this process, and their set-up."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers import listens

HOST = "127.0.0.1"
START_SECONDS = 90
STOP_SECONDS = 15
# A job server uploads every jar on its class path with each job, except those under a directory of this name. The
# clusters have these jars.
NOT_STAGED = Path("gradle", "wrapper")


class ClusterError(Exception):
    """The cluster cannot be set up or started; the message says why."""


def cache_dir(engine: str) -> Path:
    """Returns the directory for an engine's downloads: $BEAM_DATASETS_<ENGINE>_CACHE, or one in the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam_datasets" / engine
    return Path(os.environ.get(f"BEAM_DATASETS_{engine.upper()}_CACHE") or default)


def check_java(engine: str) -> None:
    """Raises `ClusterError` if no Java that the engine runs on is installed."""
    needed = f"{engine} needs Java 11 or 17 (Debian and Ubuntu: apt install openjdk-17-jre-headless)"
    try:
        printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        raise ClusterError(f"there is no command java. {needed}.") from None
    version = re.search(r'version "(\d+)', printed.stderr + printed.stdout)
    if version is None or int(version[1]) < 11:
        raise ClusterError(f"`java -version` says {printed.stderr.strip()[:200]!r}. {needed}.")


def check_maven() -> None:
    """Raises `ClusterError` if Maven is not installed."""
    if shutil.which("mvn") is None:
        raise ClusterError(
            "there is no command mvn. Beam's runner comes by Maven (Debian and Ubuntu: apt install maven)."
        )


def copy_runner(pom: Path, folder: Path, *options: str) -> None:
    """Copies the jars of Beam's runner, which is its job server too, into a directory."""
    say("Downloading Beam's runner, which takes Maven some minutes")
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", *options]
    check_call(["mvn", "--quiet", "--batch-mode", f"--file={pom}", *copy])


def download(folder: Path, *arguments: str) -> None:
    """Downloads a package of the Python package index into a directory."""
    say(f"Downloading {arguments[-1]}")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    check_call([*pip, f"--dest={folder}", *arguments])


def say(what: str) -> None:
    """Prints what takes a while."""
    print(what, file=sys.stderr, flush=True)


def check_call(command: Sequence[str]) -> None:
    """Runs a command; raises `ClusterError` with its output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ClusterError("\n".join([f"{' '.join(command)}\nended with {done.returncode}:", *words[:15]]))


@dataclass
class Servers:
    """Servers that end with this process.

    Attributes:
        directory: of logs and configuration.
        home: the engine's directory.
        ports: {name of a server: its port}.
        servers: (name, process) of each that was started.
    """

    directory: Path
    home: Path
    ports: dict[str, int] = field(default_factory=dict, kw_only=True)
    servers: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list, kw_only=True)

    def start_worker_pool(self, inside: Sequence[str] = ()) -> None:
        """Starts the pool of Python workers; waits until it listens, unless it is on another host.

        Args:
            inside: a command that executes the one which follows it, such as in another network namespace.
        """
        pool = [sys.executable, "-m", "beam_datasets.beam.worker_pool", f"--port={self.ports['workers']}"]
        self.spawn("workers", [*inside, *pool])
        if not inside:
            self.await_listening("workers")

    def running(self, name: str) -> list[subprocess.Popen[bytes]]:
        """Returns the servers of this name that run, in the order of their start."""
        return [process for server, process in self.servers if server == name and process.poll() is None]

    def kill(self, name: str) -> None:
        """Kills the server of this name that was started last, and the processes that it started."""
        process = self.running(name)[-1]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stops all servers."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for _, process in self.servers:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            deadline = time.monotonic() + STOP_SECONDS
            while any(process.poll() is None for _, process in self.servers) and time.monotonic() < deadline:
                time.sleep(0.1)
        self.servers.clear()

    def spawn(self, name: str, command: Sequence[str]) -> None:
        """Starts a server, whose output goes to a log of its own."""
        # Servers end with this process even if it is killed (Linux).
        tied = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        log = self.directory / "logs" / f"{name}-{sum(server == name for server, _ in self.servers)}.out"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*tied, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.environment()},
                start_new_session=True,
            )
        self.servers.append((name, process))

    def environment(self) -> Mapping[str, str]:
        """Returns the environment variables of servers."""
        return {}

    def await_listening(self, name: str) -> None:
        """Waits until a server listens on its port."""
        self.wait(lambda: listens(self.ports[name]), f"{name} to listen on port {self.ports[name]}", name)

    def wait(self, is_so: Callable[[], bool], what: str, name: str) -> None:
        """Waits until something is so, which the server of this name brings about."""
        deadline = time.monotonic() + START_SECONDS
        while not is_so():
            if time.monotonic() > deadline or not self.running(name):
                logs = self.directory / "logs"
                last = max(logs.glob(f"{name}-*.out")).read_text(errors="replace")[-2000:]
                raise ClusterError(f"{name} ended or timed out: expected {what}; logs are in {logs}\n{last}")
            time.sleep(0.2)
