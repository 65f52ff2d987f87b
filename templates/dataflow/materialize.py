"""What the launcher of the template `materialize` starts: `pipelines.materialize` on Dataflow."""

import sys
from pathlib import Path

from launch import run

from pipelines import materialize

if __name__ == "__main__":
    sys.exit(run(materialize.main, Path(__file__).with_name("metadata") / "materialize.json"))
