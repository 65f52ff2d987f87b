"""Exports slices of datasets: the main program for runners that want a Python module to start.

    python -m pipelines.export --dataset SOURCE --format parquet --to gs://bucket/out --runner DataflowRunner ...

It is `beam-datasets export`; the source may be given as an option, --dataset.
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
    parser = argparse.ArgumentParser("python -m pipelines.export", allow_abbrev=False, add_help=False)
    parser.add_argument("--dataset", default=None)
    known, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    return command(["export", *([known.dataset] if known.dataset else []), *rest])


if __name__ == "__main__":
    sys.exit(main())
