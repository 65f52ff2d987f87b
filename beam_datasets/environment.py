"""Describes the environment for bug reports: versions of Python, packages and engines, and the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from beam_datasets import native

_PACKAGE = "beam_datasets"
_OF_DEVELOPERS = (
    "test",
    "cloud",
    "docs",
    "wheels",
    "lint",
    "dev",
    "browser",
    "adapters",
    "interop",
    "mosaicml",
    "seqio",
)
_REQUIREMENT = re.compile(r"(?P<package>[\w.-]+)(?:\[[\w,]+\])?.*?(?:extra == ['\"](?P<extra>\w+)['\"]|$)")
_JOB_SERVERS = ("~/.apache_beam/cache/jars/*job-server*.jar", "~/.apache_beam/cache/prism/bin/*")
_MISSING = "not installed"


def versions() -> dict[str, str]:
    """Returns {name: text} of the facts of the environment, such as versions, without environment variables."""
    return dict(_facts())


def versions_text() -> str:
    """Returns the facts of `versions` as text, one per line."""
    facts = versions()
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())


def show_versions() -> None:
    """Prints the versions of Python, this package, its dependencies and engines, and facts of the machine."""
    print(versions_text())


def _facts() -> Iterator[tuple[str, str]]:
    """Yields the facts of the environment as (name, value)."""
    from beam_datasets._version import __version__

    yield _PACKAGE, f"{__version__} in {Path(__file__).parent}"
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()}) in {sys.prefix}"
    yield "platform", platform.platform()
    yield "machine", f"{os.cpu_count()} cores"
    yield "native module", "loaded" if native.core else native.problem()
    yield from _packages()
    yield "Java", _java()
    job_servers = [path.name for pattern in _JOB_SERVERS for path in sorted(Path("/").glob(_below_root(pattern)))]
    yield "job servers", ", ".join(job_servers) or "none in ~/.apache_beam/cache"
    yield "docker", shutil.which("docker") or _MISSING
    names = sorted(name for name in os.environ if name.startswith(("BEAM_DATASETS_", "TFDS_")))
    yield "variables set", ", ".join(names) or "none"


def _below_root(pattern: str) -> str:
    """Returns a pattern of absolute paths relative to "/", with "~" replaced by the home directory."""
    return os.path.relpath(os.path.expanduser(pattern), "/")


def _packages() -> Iterator[tuple[str, str]]:
    """Yields (extra, versions of its packages); the packages without an extra come first."""
    try:
        requirements = importlib.metadata.requires(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        yield "packages", f"unknown: {_PACKAGE} is not installed"
        return
    packages: dict[str, list[str]] = {}
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match and match["package"].replace("-", "_") != _PACKAGE:
            packages.setdefault(match["extra"] or "", []).append(match["package"])
    for extra, names in packages.items():
        if extra not in _OF_DEVELOPERS:
            yield f"[{extra}]" if extra else "needed", ", ".join(dict.fromkeys(map(_format_version, names)))


def _format_version(package: str) -> str:
    """Returns a package and its version, such as "numpy 2.0.1"; `_MISSING` in place of the version of a missing one."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} {_MISSING}"


def _java() -> str:
    """Returns the line of `java -version` with the version; Beam's job servers need Java."""
    try:
        process = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return _MISSING
    # Java prints the values of variables such as JAVA_TOOL_OPTIONS before it.
    lines = [line for line in (process.stderr + process.stdout).splitlines() if " version " in line]
    return lines[0] if lines and not process.returncode else _MISSING
