"""What is told of a run that is under way."""

import threading

import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.generate.progress import Progress, measure
from beam_datasets.metadata.info import DatasetInfo

COUNT = 10


def test_reported_progress_counts_until_as_much_is_spilled(tmp_path):
    spilled = tmp_path / "spill"
    spilled.mkdir()
    assert measure(str(tmp_path), str(spilled)) == Progress(0, 0, 0, 0)
    (spilled / "a-01.encoded").write_text("7 70")
    (spilled / "a-02.encoded").write_text("5 50")
    (spilled / "a-03-4-40.block").write_bytes(b"")
    (spilled / "b-04-3-30.block").write_bytes(b"")
    assert measure(str(tmp_path), str(spilled)) == Progress(15, 150, 0, 0)
    (spilled / "a-05-9-95.block").write_bytes(b"")
    assert measure(str(tmp_path), str(spilled)) == Progress(16, 165, 0, 0)


class Slow(DatasetBuilder, skip_registration=True):
    """A generator that goes on when somebody has seen how far it is."""

    VERSION = "1.0.0"
    seen = threading.Event()

    def _info(self):
        return DatasetInfo(builder=self, features=F.FeaturesDict({"n": np.int64}))

    def _split_generators(self):
        return {"train": self._examples}

    def _examples(self):
        for n in range(COUNT + 1):
            if n == COUNT:
                assert self.seen.wait(60)
            yield n, {"n": n}


def test_a_generator_that_has_filled_no_block_is_seen(tmp_path):
    reports = []

    def report(done):
        reports.append(done)
        if done.examples_encoded == COUNT:
            Slow.seen.set()

    Slow(data_dir=tmp_path).build(num_workers=1, progress=report)
    assert COUNT in {done.examples_encoded for done in reports}
    assert not list(tmp_path.rglob("*.encoded"))
