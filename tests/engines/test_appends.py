"""Appends to a dataset in an object store that are killed, and two at once: one wins, and no version is wrong."""

import os
import random
import subprocess
import sys
import time

import pytest

from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.generate import leftovers
from tests.engines.object_stores import object_store, use
from tests.materializing.generated import content, generate

pytest.importorskip("obstore")
TRIALS = int(os.environ.get("BEAM_DATASETS_TEST_TRIALS", 6))
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
