"""What the launcher of the template `verify` starts: `beam_datasets.beam.verify` on Dataflow."""

import sys
from pathlib import Path

from launch import run

from beam_datasets.beam import verify

if __name__ == "__main__":
    sys.exit(run(verify.main, Path(__file__).with_name("metadata") / "verify.json"))
