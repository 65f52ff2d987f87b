"""`beam-datasets adopt`: creates a dataset from TFRecord files without metadata."""

from __future__ import annotations

from collections.abc import Sequence

from beam_datasets.cli.options import Command, Flag, Option, UsageError, as_usage_errors
from beam_datasets.cli.printing import say, splits_table

COMMAND = Command(
    "adopt",
    "Creates a dataset from existing TFRecord files. Checks every record, and never overwrites files.",
    (
        Option(
            "pattern",
            help="paths of the files, with wildcards *, ? and [...]; the split is taken from the file names, "
            "default: train",
            repeated=True,
        ),
        Option("--split", "NAME=PATTERN", "the files of a split; can be repeated", repeated=True),
        Option("--features", "FILE", "features.json with the schema of the records", required=True),
        Option("--name", "NAME", "name of the dataset; default: taken from the file names"),
        Option(
            "--version",
            "VERSION",
            "version of the dataset; default: the name of the files' directory if that is a version, otherwise 1.0.0",
        ),
        Option(
            "--data_dir",
            "DATA_DIR",
            "copy the files to a directory <data_dir>/<name>/<version>; default: the files stay where they are",
        ),
        Option("--description", "DESCRIPTION", "description of the dataset"),
        Flag("--ordered", "read examples in the order of the files by default, because the order is meaningful"),
    ),
    example="'FILES*.tfrecord' --features features.json --data_dir DIR",
)


def run(args: Sequence[str]) -> int:
    """Adopts files, and prints the name and the splits of the dataset that they are now."""
    from beam_datasets.adopting import adopt

    parsed = COMMAND.parse(args)
    if bool(parsed.pattern) == bool(parsed.split):
        raise UsageError("give either patterns, or --split NAME=PATTERN for each split")
    with as_usage_errors():
        builder = adopt(
            _split_patterns(parsed.split) if parsed.split else parsed.pattern,
            parsed.features,
            name=parsed.name,
            version=parsed.version,
            data_dir=parsed.data_dir,
            disable_shuffling=parsed.ordered,
            **({"description": parsed.description} if parsed.description else {}),
        )
    say(f"{builder.info.display_name} in {builder.dataset_dir}\n{builder.info.features!r}")
    say(splits_table(builder.info.splits))
    return 0


def _split_patterns(texts: Sequence[str]) -> dict[str, list[str]]:
    """Returns {split: patterns} of the values NAME=PATTERN of `--split`, which may be repeated.

    Raises:
        UsageError: a value has another form.
    """
    splits: dict[str, list[str]] = {}
    for text in texts:
        name, separator, pattern = text.partition("=")
        if not (name and separator and pattern):
            raise UsageError(f"--split is {text!r}; write --split NAME=PATTERN, such as --split 'train=data/train-*'")
        splits.setdefault(name, []).append(pattern)
    return splits
