"""The beam-datasets command for launchers that start a Python module and pass only options.

python -m beam_datasets.beam.main build --dataset mine.py --data_dir /shared --shared_disk --runner FlinkRunner ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `beam-datasets`, with the dataset taken from the option `--dataset` too, and returns its exit code.

    Args:
        argv: the command, such as "build", and its options; None means the arguments of this process.
    """
    from beam_datasets.cli import main as run

    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--dataset", default=None)
    parsed, other_arguments = parser.parse_known_args(arguments)
    return run([*other_arguments[:1], *([parsed.dataset] if parsed.dataset else []), *other_arguments[1:]])


if __name__ == "__main__":
    sys.exit(main())
