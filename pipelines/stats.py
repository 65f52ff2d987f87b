"""Computes the statistics of a dataset: the main program for runners that want a Python module to start.

    python -m pipelines.stats --dataset digits --data_dir /shared/datasets --shared_disk --runner FlinkRunner ...

It is `beam-datasets stats` with the dataset as an option.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from beam_datasets.cli import main as command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser("python -m pipelines.stats", allow_abbrev=False, add_help=False)
    parser.add_argument("--dataset", default=None)
    known, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    return command(["stats", *([known.dataset] if known.dataset else []), *rest])


if __name__ == "__main__":
    sys.exit(main())
