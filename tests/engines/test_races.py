"""Publishers and appends that race, and that are killed at any moment: one wins, and no version is wrong."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess

import pytest

from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.publishing import leftovers
from beam_datasets.storage import objects
from tests.cases import repeated
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines import publisher
from tests.engines.object_stores import object_store, use, versity_store, versitygw
from tests.materializing.generated import content, generate

CONTEXT = multiprocessing.get_context("forkserver")  # forks in milliseconds, and from no process with threads
CONTEXT.set_forkserver_preload([publisher.__name__, "tests.end_to_end.numbers_dataset"])
TIMEOUT = 60


@dataclass
class Place:
    """Where versions are published: a new directory each time.

    Attributes:
        root: path or URL.
        env: environment variables that lead there.
        is_simulated: whether it is not a real server.
        used: how many directories were.
    """

    root: str
    env: dict[str, str]
    is_simulated: bool = False
    used: int = 0

    def times(self, count: int) -> int:
        """Returns how often a test runs here: moto is slow and only simulates a server, so a quarter of many times."""
        return count // 4 if self.is_simulated and count > 4 else count

    def new(self) -> str:
        """Returns a new data_dir."""
        self.used += 1
        return f"{self.root}/{self.used}"


@pytest.fixture(scope="module", params=["disk", pytest.param("moto", marks=pytest.mark.slow), "versitygw"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("store")
    if request.param == "disk":
        yield Place(str(directory), {})
        return
    pytest.importorskip("obstore")
    server = object_store("s3", directory)
    if request.param == "versitygw":
        program = versitygw(build="slow" in (request.config.getoption("markexpr") or "").replace("not slow", ""))
        if program is None:
            pytest.skip("versitygw was not built; `make test-all` builds it if Go is there")
        server = versity_store(program, directory)
    with server as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.env.items():
            patch.setenv(name, value)
        objects.client.cache_clear()
        yield Place(store.url, store.env, is_simulated=request.param == "moto")


def start(target: Callable[..., None], *args: object) -> ForkServerProcess:
    process = CONTEXT.Process(target=target, args=args)
    process.start()
    return process


def code_of(process: ForkServerProcess) -> int | None:
    process.join(TIMEOUT)
    if process.is_alive():
        process.kill()
    return process.exitcode


def race(place: Place) -> None:
    """Lets two runs publish other content under the same version at once; one of them does."""
    data_dir, ready = place.new(), CONTEXT.Barrier(2)
    both = [start(publisher.run, data_dir, place.env, count, ready) for count in (10, 15)]
    codes = [code_of(process) for process in both]
    assert sorted(map(str, codes)) == ["0", str(publisher.REFUSED)], (data_dir, codes)
    assert publisher.check_version(data_dir)
    assert_nothing_is_left(data_dir)


def kill(place: Place, generator: random.Random, seconds: float, again: Callable[..., None] = publisher.run) -> bool:
    """Kills a run at a random moment, and runs again; returns whether the killed one had published."""
    data_dir = place.new()
    process = start(again, data_dir, place.env, 15)
    time.sleep(generator.random() * seconds)
    process.kill()
    process.join()
    published = publisher.check_version(data_dir, NAMES[again])
    code = code_of(start(again, data_dir, place.env, 10))
    assert code == 0 or code == publisher.REFUSED, (data_dir, code)
    assert publisher.check_version(data_dir, NAMES[again]), data_dir
    assert_nothing_is_left(data_dir, NAMES[again])
    return published


def assert_nothing_is_left(data_dir: str, name: str = "ds") -> None:
    """Has gc remove what is left of processes that are gone; then only the version is there."""
    for leftover in leftovers.find_leftovers(data_dir, older_than=0):
        leftovers.remove_leftover(leftover, data_dir, older_than=0)
    assert storage.list_dir(storage.join(data_dir, name)) == [publisher.VERSION]


def build(data_dir: str, env: dict[str, str], count: int) -> None:
    """Runs a whole pipeline."""
    os.environ.update(env)
    try:
        Numbers(data_dir=data_dir, count=count).build(num_shards={"train": 3, "test": 1}, num_workers=1)
    except FileExistsError:
        raise SystemExit(publisher.REFUSED) from None


NAMES = {publisher.run: "ds", build: "numbers"}


def seconds_of(place: Place, target: Callable[..., None]) -> float:
    """Returns how long an undisturbed run takes, after one for which the server of processes starts."""
    for _ in range(2):
        began = time.monotonic()
        assert code_of(start(target, place.new(), place.env, 15)) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("count", [2, pytest.param(repeated(60), marks=pytest.mark.slow, id="many")])
def test_races(place: Place, count: int) -> None:
    """Of two runs that publish at once one publishes, and the other changes nothing."""
    for _ in range(place.times(count)):
        race(place)


@pytest.mark.parametrize("count", [2, pytest.param(repeated(30), marks=pytest.mark.slow, id="many")])
def test_kills(place: Place, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that is killed at any moment publishes everything or nothing, and the next run can publish."""
    generator, seconds = random.Random(0), seconds_of(place, publisher.run)
    published = sum(kill(place, generator, seconds) for _ in range(place.times(count)))
    if count > 2:
        with capsys.disabled():
            print(f"\n{place.root}: killed {place.times(count)} runs of {seconds:.2f} s; {published} had published")


@pytest.mark.slow
def test_killed_pipelines(place: Place) -> None:
    """The same for whole runs of a pipeline."""
    generator, seconds = random.Random(0), seconds_of(place, build)
    for _ in range(repeated(5)):
        kill(place, generator, seconds, build)


# Appends to a dataset in an object store that are killed, and two at once: one wins, and no version is wrong


TRIALS = repeated(3)
WON, LOST = 0, 3
APPEND = f"""
import sys
import beam_datasets as bd
try:
    bd.append("ds:1.0.0", "more", data_dir=sys.argv[1], num_shards=5)
except bd.errors.AlreadyPublishedError:
    sys.exit({LOST})
"""


@pytest.mark.slow
def test_killed_and_concurrent_appends_publish_the_right_version_or_nothing(tmp_path, monkeypatch):
    pytest.importorskip("obstore")
    with object_store("s3", tmp_path) as store:
        use(store, monkeypatch)
        root = f"{store.url}/data"
        rng, target = random.Random(0), f"{root}/ds/2.0.0"
        old, new = ({n: n for n in range(some, some + 300)} for some in (0, 300))
        generate(root, {"train": old}, num_shards=3)
        generate(root, {"train": new}, name="more", num_shards=2)
        whole = content(generate(tmp_path / "whole", {"train": old | new}, num_shards=5))[0]

        def start():
            return subprocess.Popen([sys.executable, "-c", APPEND, root])

        def check():
            assert {name: bytes(storage.read_bytes(f"{target}/{name}")) for name in whole} == whole
            # One that was killed when it had published is finished by the next, which finds no version to compare with.
            assert main(["gc", root, "--yes", "--older_than", "0"]) == 0
            storage.remove_tree(target)

        before = time.monotonic()
        assert start().wait() == WON
        seconds = time.monotonic() - before
        check()
        for _ in range(TRIALS):
            process = start()
            time.sleep(rng.uniform(0.3, 1.1) * seconds)
            process.kill()
            process.wait()
            if not storage.exists(f"{target}/dataset_info.json"):
                assert start().wait() in (WON, LOST)  # the latter if it has finished what had decided to publish
            check()
        for _ in range(TRIALS):
            both = [start(), start()]
            assert sorted(process.wait() for process in both) == [WON, LOST]
            check()
        assert start().wait() == WON
        assert main(["gc", root, "--yes", "--older_than", "0"]) == 0
        assert not leftovers.find_leftovers(root, older_than=0)
        assert storage.list_dir(f"{root}/ds") == ["1.0.0", "2.0.0"]
        check()
