"""What the launcher of the template `generate` starts: `pipelines.generate` on Dataflow."""

import sys
from pathlib import Path

from launch import run

from pipelines import generate

if __name__ == "__main__":
    sys.exit(run(generate.main, Path(__file__).with_name("metadata") / "generate.json"))
