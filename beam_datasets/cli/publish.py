"""`beam-datasets publish`: publishes a result that was refused and kept, under another version number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets import storage
from beam_datasets.cli.options import Parser, UsageError, add_store_options, with_underscores
from beam_datasets.cli.terminal import say
from beam_datasets.model.version import Version
from beam_datasets.writing.publish import publish_as

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
Publishes a result of build --check_against that was refused, and kept, under the version number that it needs. The
shards are taken as they are; the metadata is written anew."""


def run(args: Sequence[str]) -> int:
    """Publishes a kept result and prints where."""
    parser = Parser("beam-datasets publish", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("result", metavar="RESULT", help="directory of the result, as the refusal named it")
    parser.add_argument("--version", required=True, help="the new number, such as 2.0.0")
    add_store_options(parser)
    known = parser.parse_args(with_underscores(args))
    if not Version.is_valid(known.version):
        raise UsageError(f"--version: expected a version such as 2.0.0, got {known.version!r}")
    directory = publish_as(storage.with_options(known.result, known.storage_options), known.version)
    say(f"Published in {directory}")
    return 0
