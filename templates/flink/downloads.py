"""Downloads Flink and Beam's runner for it, and puts them together in the user's cache, once.

Flink comes from the Python package index, where it is cut in two, the runner and its job server from Maven Central.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FLINK_VERSION = "1.19.3"
BEAM_RUNNER = Path(__file__).with_name("pom.xml")
# Beam's job server sends all jars of its class path along with each job, hundreds of megabytes, but for those under a
# directory of this name. Here the cluster has them in its lib directory, so that jobs need not bring them.
NOT_STAGED = Path("gradle", "wrapper")


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
