"""What the launcher of the template `verify` starts: `beam-datasets verify --beam` on Dataflow."""

import sys

from launch import run

if __name__ == "__main__":
    sys.exit(run("verify", "verify", "--beam"))
