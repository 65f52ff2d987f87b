"""Flink on two hosts that share nothing but an object store: the same bytes, also if one of them is lost.

The second host is a network namespace with an address of its own, in which the directory of the first one's data is
another, empty disk. It needs root; elsewhere these tests are skipped.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases import SCALE
from tests.engines import flink_cluster as flink
from tests.engines.jobs import NUMBERS, OPTIONS, end, run, start, version
from tests.engines.object_stores import BUCKET, ObjectStore, use, versity_store, versitygw

pytestmark = pytest.mark.slow


class Hosts(NamedTuple):
    """Two hosts with a network between them.

    Attributes:
        here: address of this host there.
        there: address of the other host.
        on_the_other: a command that executes the one which follows it on the other host.
    """

    here: str
    there: str
    on_the_other: list[str]


@contextlib.contextmanager
def two_hosts(hidden: Path) -> Iterator[Hosts]:
    """Makes the second host, which does not see a directory of this one."""
    name, number = f"bd{os.getpid()}", os.getpid() % 200 + 1
    here, there = f"10.213.{number}.1", f"10.213.{number}.2"
    inside = ["ip", "netns", "exec", name]

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        ip("address", "add", f"{here}/24", "dev", f"{name}a")
        ip("link", "set", f"{name}a", "up")
        for command in (
            ["address", "add", f"{there}/24", "dev", f"{name}b"],
            ["link", "set", f"{name}b", "up"],
            ["link", "set", "lo", "up"],
        ):
            subprocess.run([*inside, "ip", *command], check=True)
        mount = ["sh", "-ec", f'mount -t tmpfs none "{hidden}"; exec "$0" "$@"']
        yield Hosts(here, there, [*inside, "unshare", "--mount", *mount])
    finally:
        ip("netns", "delete", name)  # with its end of the link, and so the other one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the other host does not see."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="module")
def hosts(folder: Path) -> Iterator[Hosts]:
    if os.environ.get("BEAM_DATASETS_FLINK") != "required":
        pytest.skip("make test-flink sets up a Flink cluster")
    if os.getuid() or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("a second host needs root, and the commands ip and unshare")
    with two_hosts(folder) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def store(hosts: Hosts, folder: Path) -> Iterator[ObjectStore]:
    program = versitygw(build=True)
    assert program, "versitygw needs Go"
    with versity_store(program, folder, hosts.here) as store, pytest.MonkeyPatch.context() as patch:
        use(store, patch)
        yield store


@pytest.fixture(scope="module")
def cluster(hosts: Hosts, store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.Cluster]:
    """A cluster with a TaskManager and a worker pool on each host."""
    with flink.running(tmp_path_factory.mktemp("cluster"), host=hosts.here) as cluster:
        start_on_the_other(cluster, hosts)
        yield cluster


def start_on_the_other(cluster: flink.Cluster, hosts: Hosts) -> None:
    """Starts a TaskManager and a pool on the other host, and waits until both TaskManagers have registered."""
    cluster.start_worker_pool(hosts.on_the_other)
    cluster.start_task_manager(hosts.there, hosts.on_the_other)
    cluster.await_task_managers(2)


def build(cluster: flink.Cluster, data_dir: str) -> list[str]:
    options = [option for option in cluster.options() if not option.startswith("--environment_config")]
    options.append(f"--environment_config=localhost:{cluster.ports['workers']}")
    return ["build", NUMBERS, *OPTIONS, "--data_dir", data_dir, *options, "--parallelism=4", "--resume"]


def test_two_hosts(cluster: flink.Cluster, store: ObjectStore, local: Path, folder: Path) -> None:
    output = run(*build(cluster, f"{store.url}/both"))
    assert "Published in" in output
    [bucket] = folder.glob(f"versity-*/{BUCKET}")
    assert version(bucket / "both") == version(local)
    pools = [(cluster.directory / "logs" / f"workers-{i}.out").read_text() for i in range(2)]
    assert all("worker" in text for text in pools), pools  # both have started some


@pytest.mark.skipif(SCALE < 2, reason="BEAM_DATASETS_SCALE=2 runs it")
def test_the_other_host_is_lost(
    cluster: flink.Cluster, hosts: Hosts, store: ObjectStore, local: Path, folder: Path
) -> None:
    [bucket] = folder.glob(f"versity-*/{BUCKET}")
    command = build(cluster, f"{store.url}/lost")
    process = start(*command)
    try:
        while not any((bucket / "lost").glob("numbers/incomplete.*/**/*")):
            assert process.poll() is None, end(process)
        cluster.kill("taskmanager")
        cluster.kill("workers")
        start_on_the_other(cluster, hosts)
    finally:
        code, output = end(process)
    if code != 0:
        assert "Traceback" not in output, output
        run(*command)
    assert version(bucket / "lost") == version(local)
