"""`beam-datasets adopt`: TFRecord files that nobody described become a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets.cli.options import Parser, UsageError, with_underscores
from beam_datasets.cli.tables import splits_table
from beam_datasets.cli.terminal import say
from beam_datasets.errors import BeamDatasetsError

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(args: Sequence[str]) -> int:
    """Adopts files and prints what they are now."""
    from beam_datasets.reading.adoption import adopt

    parser = _parser()
    known = parser.parse_args(with_underscores(args))
    if bool(known.pattern) == bool(known.split):
        raise UsageError("give either patterns, or --split NAME=PATTERN for each split")
    info = {"description": known.description} if known.description else {}
    try:
        builder = adopt(
            _splits(known.split) if known.split else known.pattern,
            known.features,
            name=known.name,
            version=known.version,
            data_dir=known.data_dir,
            files=known.files,
            disable_shuffling=known.ordered,
            **info,
        )
    except ValueError as error:
        if isinstance(error, BeamDatasetsError):
            raise
        raise UsageError(str(error)) from error
    say(f"{builder.info.display_name} in {builder.dataset_dir}\n{builder.info.features!r}")
    say(splits_table(builder.info.splits))
    return 0


def _parser() -> Parser:
    parser = Parser(
        "beam-datasets adopt",
        description="Makes a dataset of TFRecord files. Every record is checked; nothing that exists is overwritten.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("pattern", nargs="*", help="the files, with *, ? and [...]; their names say the split, else it is train")
    add("--split", action="append", metavar="NAME=PATTERN", help="the files of a split; can be repeated")
    add("--features", required=True, metavar="FILE", help="what the records hold: a features.json")
    add("--name", help="of the dataset; default: as the names of the files say")
    add("--version", help="of the dataset; default: the directory's name, or 1.0.0")
    add("--data_dir", help="make a directory <data_dir>/<name>/<version>; default: the files stay where they are")
    add("--files", choices=["copy", "link"], default="copy", help="how they come into that directory; default: copy")
    add("--description", help="of the dataset")
    add("--ordered", action="store_true", help="the order of the examples means something")
    return parser


def _splits(texts: Sequence[str]) -> dict[str, list[str]]:
    """Returns the patterns of each split."""
    splits: dict[str, list[str]] = {}
    for text in texts:
        name, separator, pattern = text.partition("=")
        if not (name and separator and pattern):
            raise UsageError(f"--split is {text!r}; write --split NAME=PATTERN, such as --split 'train=data/train-*'")
        splits.setdefault(name, []).append(pattern)
    return splits
