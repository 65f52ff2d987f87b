"""A dataset whose workers print, log, warn, wait and fail, in a process of its own."""

import logging
import os
import sys
import time
import warnings

import apache_beam as beam

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.beam import generate  # noqa: F401  # imported before the fork


class Talking(bd.DatasetBuilder, skip_registration=True):
    """Four parts, whose worker says something in `manner`."""

    VERSION = "1.0.0"
    manner = ""

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Text()}))

    def _split_generators(self):
        return {"train": beam.Create(range(4), reshuffle=False) | beam.FlatMap(rows, self.manner)}


def rows(part, manner):
    if manner == "talk":
        print(f"printed {part}")
        print(f"printed as an error {part}", file=sys.stderr)
        logging.getLogger("talking").warning("logged %d", part)
        warnings.warn(f"warned {part}", stacklevel=1)
        os.write(2, f"written {part}\n".encode())
    elif manner == "flood":
        for number in range(1000):
            print(f"line {part} {number}")
    elif manner == "wait":
        time.sleep(1000)
    elif manner == "wait and print" and not part:
        for _ in range(4):
            time.sleep(0.5)
            print("still here")
    elif manner == "fail":
        print("before it failed")
        raise ValueError("boo")
    yield part, {"n": "x" * 100_000}


def build(folder: str, manner: str, data_dir: str, *options: str) -> None:
    """Builds the dataset in `data_dir`; what is printed and its error go to `folder`/said."""
    said = os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(said, 1)
    os.dup2(said, 2)
    Talking.manner = manner
    warnings.simplefilter("default")
    Talking(data_dir=data_dir).build(num_workers=2, beam_options=list(options))
