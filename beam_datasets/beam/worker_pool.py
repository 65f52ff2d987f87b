"""The command `python -m beam_datasets.beam.worker_pool`, which starts a worker pool; see `engines.worker_pool`."""

import sys

from beam_datasets.engines.worker_pool import main

if __name__ == "__main__":
    sys.exit(main())
