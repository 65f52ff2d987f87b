"""What the launcher of the template `materialize` starts: `beam-datasets materialize` on Dataflow."""

import sys

from launch import run

if __name__ == "__main__":
    sys.exit(run("materialize", "materialize"))
