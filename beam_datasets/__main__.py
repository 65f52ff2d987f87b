"""`python -m beam_datasets`: the same as the command beam-datasets."""

import sys

from beam_datasets.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
