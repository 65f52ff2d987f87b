"""`beam-datasets publish`: publishes a result that was refused and kept, under another version number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets import storage
from beam_datasets.cli.options import STORAGE_OPTIONS, Command, UsageError
from beam_datasets.cli.printing import say
from beam_datasets.generate.publish import publish_as
from beam_datasets.metadata.version import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = Command(
    "publish",
    """\
Publishes a result of build --check_against that was refused, and kept, under the version number that it needs. The
shards are taken as they are; the metadata is written anew.""",
    f"""
result RESULT  directory of the result, as the refusal named it
--version VERSION  the new number, such as 2.0.0
{STORAGE_OPTIONS}
""",
    settings={"--version": {"required": True}},
)


def run(args: Sequence[str]) -> int:
    """Publishes a kept result and prints where."""
    known = COMMAND.parse(args)
    if not Version.is_valid(known.version):
        raise UsageError(f"--version: expected a version such as 2.0.0, got {known.version!r}")
    directory = publish_as(storage.with_options(known.result, known.storage_options), known.version)
    say(f"Published in {directory}")
    return 0
