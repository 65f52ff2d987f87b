"""A dataset that takes a minute to build, in a process that tests kill parts of."""

import os
import threading
import time

import apache_beam as beam

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.engines import local_runner


class Slow(bd.DatasetBuilder, skip_registration=True):
    """Two splits, one of them from a single generator, of some megabytes if there are to be."""

    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Scalar("int64")}))

    def _split_generators(self):
        return {"train": self._rows, "test": beam.Create(range(40), reshuffle=False) | beam.FlatMap(self._some)}

    def _rows(self):
        for n in range(6000):
            time.sleep(0.01)
            yield n, {"n": n}

    def _some(self, part):
        for n in range(150):
            time.sleep(0.01)
            yield 150 * part + n, {"n": n}


def build(folder: str, how: str) -> None:
    """Builds the dataset in `folder`/data; what it prints, and its error, go to `folder`/said.

    Args:
        folder: has the directories data and tmp; the latter is the one for temporary files.
        how: 'fork', 'new' for a launcher with a thread, from which nothing is forked, or 'command' for workers that are
            started with Beam's own command.
    """
    said = os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ["TMPDIR"] = f"{folder}/tmp"
    if how == "new":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    assert local_runner.can_fork() == (how != "new")
    if how == "command":
        local_runner.can_replace_subprocesses = lambda: False
    Slow(data_dir=f"{folder}/data").build(num_workers=3)


def materialize(folder: str, source: str, num_workers: int, how: str) -> None:
    """Materializes a dataset in `folder`: a run in which records are decoded and shuffled.

    Args:
        folder: gets the dataset.
        source: directory of a version with the split train.
        num_workers: number of worker processes.
        how: 'fork', 'new' as of `build`, or 'command' for workers that are started with Beam's own command.
    """
    if how == "new":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    if how == "command":
        local_runner.can_replace_subprocesses = lambda: False
    bd.materialize(source, split="train", to="made", filter=bool, data_dir=folder, num_workers=num_workers)
