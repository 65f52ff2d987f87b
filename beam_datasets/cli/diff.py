"""`beam-datasets diff`: how two versions of a dataset differ, and what the version number must say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from beam_datasets.cli.comparison import as_json, text_lines
from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, UsageError
from beam_datasets.cli.printing import progress_bar, say
from beam_datasets.diffing import diff
from beam_datasets.diffing.diffing import open_versions
from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_KEPT = 1
COMMAND = Command(
    "diff",
    """\
Compares two published versions of a dataset, and reports which version number the changes need: PATCH if readers get
the same data, MINOR if features were added and every slice has the same examples, MAJOR otherwise.

The exit code is 0 if the number of NEW suffices, 1 if it is too low for the changes, and 2 if the two cannot be
compared.""",
    f"""
old OLD  name[/config]:version, or the directory of a version
new NEW  the version after it, likewise
{DATA_DIR}
{STORAGE_OPTIONS}
--split NAME...  compare this split only; may be repeated
--examples N  how many to show of each kind of difference; default 3
--json  print it as JSON
""",
    settings={"--examples": {"default": 3}},
)


def run(args: Sequence[str]) -> int:
    """Prints how two versions differ; returns 0 if the new version's number suffices, else 1."""
    known = COMMAND.parse(args)
    try:
        old, new = open_versions(known.old, known.new, data_dir=known.data_dir, storage_options=known.storage_options)
        total = sum(split.num_examples for builder in (old, new) for split in builder.info.splits.values())
        with progress_bar("Compare", " examples", total) as bar:
            found = diff(
                old,
                new,
                splits=known.split,
                examples=known.examples,
                progress=bar and bar.update,
            )
    except (BeamDatasetsError, ValueError) as error:  # 1 says that they were compared, as of diff(1)
        raise UsageError(str(error)) from error
    say(
        json.dumps(as_json(found), indent=1)
        if known.json
        else "\n".join(text_lines(found, old.info.features, new.info.features))
    )
    return 0 if found.verdict.kept else NOT_KEPT
