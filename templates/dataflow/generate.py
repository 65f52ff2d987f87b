"""What the launcher of the template `generate` starts: `beam_datasets.beam.generate` on Dataflow."""

import sys
from pathlib import Path

from launch import run

from beam_datasets.beam import generate

if __name__ == "__main__":
    sys.exit(run(generate.main, Path(__file__).with_name("metadata") / "generate.json"))
