"""`beam-datasets versions`: prints the environment, for bug reports."""

from __future__ import annotations

import json
from collections.abc import Sequence

from beam_datasets.cli.options import Command, Flag
from beam_datasets.cli.printing import say
from beam_datasets.environment import versions, versions_text

VERSIONS = Command(
    "versions",
    """\
Prints the versions of Python, this package, its dependencies, engines and the machine, for bug reports. Environment
variables are listed without their values.""",
    (Flag("--json", "print everything as JSON"),),
)


def run(args: Sequence[str]) -> int:
    """Prints the versions in the environment, as text or JSON, and returns the exit code."""
    parsed = VERSIONS.parse(args)
    say(json.dumps(versions(), indent=1) if parsed.json else versions_text())
    return 0
