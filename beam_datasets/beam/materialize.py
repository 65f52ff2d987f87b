"""Materializes slices of datasets: `beam-datasets materialize` for launchers that start a Python module.

    python -m beam_datasets.beam.materialize --dataset SOURCE --split 'train=train[:80%]' --data_dir gs://... ...

The option `--dataset` names the dataset; all other options are those of the command.
"""

from __future__ import annotations

import sys

from beam_datasets.beam.command import main_of

main = main_of("materialize")

if __name__ == "__main__":
    sys.exit(main())
