"""Prints the spec of a template, the file in a bucket that names its image, parameters and defaults."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TEMPLATES = ("generate", "materialize", "verify")
METADATA = Path(__file__).with_name("metadata")


def container_spec(template: str, image: str) -> dict[str, Any]:
    """Returns the spec of a template: workers run in the image that launches."""
    return {
        "image": image,
        "sdkInfo": {"language": "PYTHON"},
        "metadata": json.loads((METADATA / f"{template}.json").read_text(encoding="utf-8")),
        "defaultEnvironment": {"sdkContainerImage": image, "additionalExperiments": ["use_runner_v2"]},
    }


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser("spec.py", description=__doc__)
    parser.add_argument("template", choices=TEMPLATES)
    parser.add_argument("--image", required=True, help="with its tag, as it was pushed")
    arguments = parser.parse_args()
    print(json.dumps(container_spec(arguments.template, arguments.image), indent=2))


if __name__ == "__main__":
    main()
