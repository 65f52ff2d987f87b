"""Generates a dataset: `beam-datasets build` for launchers that start a Python module.

    python -m beam_datasets.beam.generate --dataset mine.py --data_dir /shared --shared_disk --runner FlinkRunner ...

The option `--dataset` names the dataset; all other options are those of the command.
"""

from __future__ import annotations

import sys

from beam_datasets.beam.command import main_of

main = main_of("build")

if __name__ == "__main__":
    sys.exit(main())
