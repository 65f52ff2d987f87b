"""Computes the statistics of a dataset: `beam-datasets stats` for launchers that start a Python module.

    python -m beam_datasets.beam.stats --dataset digits --data_dir /shared --shared_disk --runner FlinkRunner ...

The option `--dataset` names the dataset; all other options are those of the command.
"""

from __future__ import annotations

import sys

from beam_datasets.beam.command import main_of

main = main_of("stats")

if __name__ == "__main__":
    sys.exit(main())
