"""`beam-datasets diff`: compares two versions of a dataset, and reports the version number that is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, Flag, Option, UsageError, whole_number
from beam_datasets.cli.printing import line_width, progress_bar, say_values, table
from beam_datasets.diffing import DatasetDiff, ExampleChange, SplitDiff, diff
from beam_datasets.diffing.diffing import open_versions
from beam_datasets.diffing.result import KINDS
from beam_datasets.display.values import feature_at, value_text
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.features import FeatureConnector
from beam_datasets.features.trees import display_names

NOT_KEPT = 1
COMMAND = Command(
    "diff",
    """\
Compares two published versions of a dataset, and reports which version number the changes need: PATCH if readers get
the same data, MINOR if features were added and every slice has the same examples, MAJOR otherwise.

The exit code is 0 if the number of NEW suffices, 1 if it is too low for the changes, and 2 if the two cannot be
compared.""",
    (
        Option("old", "OLD", "name[/config]:version, or the directory of a version"),
        Option("new", "NEW", "the later version, in the same form"),
        DATA_DIR,
        STORAGE_OPTIONS,
        Option("--split", "SPLIT", "compare only this split; can be repeated", repeated=True),
        Option(
            "--examples",
            "N",
            "number of examples to show of each kind of difference; default: 3",
            type=whole_number,
            default=3,
        ),
        Flag("--json", "print the result as JSON"),
    ),
    example="NAME:1.0.0 NAME:2.0.0 --data_dir DIR",
)


def run(args: Sequence[str]) -> int:
    """Prints the differences of two versions; returns 0 if the new version's number suffices, else 1."""
    parsed = COMMAND.parse(args)
    try:
        old, new = open_versions(
            parsed.old, parsed.new, data_dir=parsed.data_dir, storage_options=parsed.storage_options
        )
        total = sum(split.num_examples for builder in (old, new) for split in builder.info.splits.values())
        with progress_bar("Compare", " examples", total) as bar:
            difference = diff(
                old,
                new,
                splits=parsed.split,
                examples=parsed.examples,
                progress=bar and bar.update,
            )
    except (BeamDatasetsError, ValueError) as error:  # 1 says that they were compared, as of diff(1)
        raise UsageError(str(error)) from error
    say_values(
        json.dumps(as_json(difference), indent=1)
        if parsed.json
        else "\n".join(text_lines(difference, old.info.features, new.info.features))
    )
    return 0 if difference.verdict.kept else NOT_KEPT


_SIGNS = {"added": "+", "removed": "-"}


def text_lines(difference: DatasetDiff, old: FeatureConnector, new: FeatureConnector) -> Iterator[str]:
    """Yields a comparison as text: the versions, the features that differ, a table of the splits, and the verdict.

    Args:
        difference: the comparison.
        old: features of the old version.
        new: features of the new one.
    """
    names = {**display_names(new), **display_names(old)}
    yield f"{difference.old} -> {difference.new}"
    if difference.features:
        yield "\nfeatures"
        for change in difference.features:
            yield f"  {_SIGNS.get(change.kind, '~')} {names.get(change.path, change.path) or '(all)'}: {change.text}"
    yield ""
    counts = [
        "same",
        *(["not_compared"] if any(split.not_compared for split in difference.splits.values()) else []),
        *KINDS,
    ]
    header = ["split", "old", "new", *(name.replace("_", " ") for name in counts), "paired by"]
    yield table(header, [_split_row(split, counts) for split in difference.splits.values()])
    if difference.not_compared:
        paths = ", ".join(names.get(path, path) or "(all)" for path in difference.not_compared)
        yield f"Not compared, because their types changed: {paths}"
    for split in difference.splits.values():
        yield from _notes(split)
    for split in difference.splits.values():
        for kind in KINDS:
            examples = [example for example in split.examples if example.kind == kind]
            if examples:
                count = getattr(split, kind)
                yield f"\n{split.name}, {kind}" + (f" ({len(examples)} of {count:,})" if len(examples) < count else "")
                yield from (line for example in examples for line in _example_lines(example, old, new))
    yield ""
    yield from (f"{reason.needs}  {reason.text}" for reason in difference.verdict.reasons)
    yield str(difference.verdict)
    if not difference.whole:
        yield f"Only {', '.join(difference.splits)} was compared: other splits may need more."


def _split_row(split: SplitDiff, counts: Sequence[str]) -> list[Any]:
    """Returns the cells of a split in the table: name, both numbers of examples ("-" if absent), counts, pairing."""
    examples = ["-" if count is None else count for count in (split.old_examples, split.new_examples)]
    return [split.name, *examples, *(getattr(split, count) for count in counts), split.by or "-"]


def _notes(split: SplitDiff) -> Iterator[str]:
    """Yields notes on how a split was compared, such as "train: paired index by index, because ..."."""
    if split.why:
        yield f"{split.name}: paired index by index, because {split.why}"
    if split.unmatched:
        yield f"{split.name}: what differs was not looked for elsewhere in the split; some of it may only have moved"
    yield from split.undecoded_lines()


def _example_lines(example: ExampleChange, old: FeatureConnector, new: FeatureConnector) -> Iterator[str]:
    """Yields the indices of a changed example, and its old and new values; a moved example's values once."""
    numbers = [index for index in (example.old_index, example.new_index) if index is not None]
    yield "  example " + " -> ".join(f"{number:,}" for number in dict.fromkeys(numbers))
    is_moved = example.kind == "moved"
    for path in {**example.old, **example.new}:
        for sign, values, tree in (
            ("-", {} if is_moved else example.old, old),
            (" " if is_moved else "+", example.new, new),
        ):
            if path in values:
                text = value_text(values[path], feature_at(tree, path), line_width() - len(path) - 8)
                yield f"    {sign} {display_names(tree).get(path, path)}: {text}"


def as_json(difference: DatasetDiff) -> dict[str, Any]:
    """Returns the JSON object of `diff --json` for a comparison.

    It has `old` and `new` (name and directory), `needed`, `given`, `kept`, `lowest` and `reasons` of the verdict,
    `whole`, `features`, `not_compared` and `splits`. Values of examples are shortened to texts of 200 characters.
    """
    verdict = difference.verdict
    return {
        "old": {"dataset": difference.old, "directory": difference.old_dir},
        "new": {"dataset": difference.new, "directory": difference.new_dir},
        "needed": verdict.needed,
        "given": verdict.given,
        "kept": verdict.kept,
        "lowest": str(verdict.lowest),
        "reasons": [asdict(reason) for reason in verdict.reasons],
        "whole": difference.whole,
        "features": [asdict(change) for change in difference.features],
        "not_compared": list(difference.not_compared),
        "splits": {name: _split_json(split) for name, split in difference.splits.items()},
    }


def _split_json(split: SplitDiff) -> dict[str, Any]:
    """Returns the fields of a `SplitDiff` without its name, as values of JSON."""
    fields = {name: value for name, value in vars(split).items() if name != "name"}
    examples = [{**vars(each), "old": _texts(each.old), "new": _texts(each.new)} for each in split.examples]
    return {**fields, "examples": examples}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {path: value in one line of about 200 characters}."""
    return {path: value_text(value, None, 200) for path, value in values.items()}
