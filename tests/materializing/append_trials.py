"""Kills appends at random moments, and runs two at once: `python -m tests.materializing.append_trials DIR KILLS RACES`.

A process of its own, because each trial is a fork, which other threads would disturb.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import beam_datasets as bd
from beam_datasets.cli.main import main
from beam_datasets.errors import AlreadyPublishedError
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.materializing.appending import append
from tests.materializing.generated import FEATURES, content, generate, read

WON, LOST = 0, 3
NEW = range(300, 600)


class More(bd.DatasetBuilder, skip_registration=True):
    """The new examples, as an iterable."""

    VERSION = bd.Version("1.0.0")

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(builder=self, features=FEATURES)

    def _split_generators(self) -> dict[str, Any]:
        return {"train": read({n: n for n in NEW})}


def start(root: Path, source: Any = "more") -> int:
    """Appends a dataset, or what a builder makes, in a new process, and returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        append("ds:1.0.0", source, data_dir=root, num_shards=5)
        code = WON
    except AlreadyPublishedError:
        code = LOST
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """Waits for a process, and returns its exit code; negative if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(root: Path, kills: int, races: int) -> None:
    """Runs the trials; raises AssertionError if a version is wrong."""
    rng = random.Random(0)
    old, new = ({n: n for n in some} for some in (range(300), NEW))
    generate(root, {"train": old}, num_shards=3)
    generate(root, {"train": new}, name="more", num_shards=2)
    rows = "".join(json.dumps({"n": n, "text": "x" * (n % 7)}) + "\n" for n in new)
    (root / "more.jsonl").write_text(rows)
    file = Jsonl(pattern=str(root / "more.jsonl"), key="n", name="more", data_dir=root)
    sources = ["more", file, More(data_dir=root / "own")]
    whole = content(generate(root / "whole", {"train": old | new}, num_shards=5))
    target = root / "ds" / "2.0.0"

    def check() -> None:
        files, *others = content(target)
        files.pop("inputs.json", None)
        assert (files, *others) == whole
        shutil.rmtree(target)

    seconds = {}
    for source in sources:
        before = time.monotonic()
        assert ended(start(root, source)) == WON
        seconds[source] = time.monotonic() - before
        check()
    for number in range(kills):
        source = sources[number % 3]
        child = start(root, source)
        time.sleep(rng.uniform(0, 1.2 * seconds[source]))
        os.kill(child, signal.SIGKILL)
        assert ended(child) in (WON, -signal.SIGKILL)
        if target.exists():
            check()
    for _ in range(races):
        assert sorted(map(ended, [start(root, rng.choice(sources)), start(root, rng.choice(sources))])) == [WON, LOST]
        check()
    assert ended(start(root)) == WON
    assert main(["gc", str(root), "--yes", "--older_than", "0"]) == 0
    names = sorted(path.name for path in target.parent.iterdir())
    assert names == ["1.0.0", "2.0.0"], names
    check()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
