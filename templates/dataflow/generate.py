"""What the launcher of the template `generate` starts: `beam-datasets build` on Dataflow."""

import sys

from launch import run

if __name__ == "__main__":
    sys.exit(run("generate", "build"))
