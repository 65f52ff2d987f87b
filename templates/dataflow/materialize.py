"""What the launcher of the template `materialize` starts: `beam_datasets.beam.materialize` on Dataflow."""

import sys
from pathlib import Path

from launch import run

from beam_datasets.beam import materialize

if __name__ == "__main__":
    sys.exit(run(materialize.main, Path(__file__).with_name("metadata") / "materialize.json"))
