"""Exports slices of datasets: `beam-datasets export` for launchers that start a Python module.

    python -m beam_datasets.beam.export --dataset SOURCE --format parquet --to gs://bucket/out ...

The option `--dataset` names the dataset; all other options are those of the command.
"""

from __future__ import annotations

import sys

from beam_datasets.beam.command import main_of

main = main_of("export")

if __name__ == "__main__":
    sys.exit(main())
