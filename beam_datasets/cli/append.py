"""`beam-datasets append`: publishes the next version of a dataset, with new examples."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog
from beam_datasets.cli.build import publishing_in
from beam_datasets.cli.builder_options import add_builder_options, builder_arguments
from beam_datasets.cli.options import (
    MAX_REJECTED,
    SHARDS,
    SOURCES,
    Command,
    Flag,
    Group,
    Option,
    UsageError,
    as_usage_errors,
    given,
    with_underscores,
)
from beam_datasets.cli.printing import bytes_bar, say, table
from beam_datasets.cli.resolve import (
    FORMATS,
    BuilderRequest,
    build_arguments_of_file,
    is_builder,
    resolve,
    way_to_build,
)
from beam_datasets.display.text import size_text
from beam_datasets.errors import did_you_mean
from beam_datasets.extras import importing_beam
from beam_datasets.metadata.inputs import DELETE

if TYPE_CHECKING:
    from beam_datasets.builders.builder import DatasetBuilder
    from beam_datasets.materializing.append_options import AppendOptions
    from beam_datasets.materializing.append_plan import AppendPlan
    from beam_datasets.materializing.merging import MergedSplit


COMMAND = Command(
    "append",
    """\
Publishes the next version of a dataset: the published version with new examples added, or with examples deleted. The
examples have the same order as if all were generated again. Records are not decoded. If nothing changes, nothing is
published.

  beam-datasets append clicks --data_dir data --from incoming/day_2/1.0.0 --on_duplicate skip_identical
  beam-datasets append clicks --data_dir data --delete takedown.txt --dry_run""",
    (
        Option("dataset", "NAME_OR_DIR", "name[/config][:version], or the directory of a version"),
        Option(
            "--from",
            "SOURCE",
            "examples to append: a published dataset (name or directory), or a builder (path/to/file.py, "
            "package.module:Class, or a file format such as jsonl) followed by its options, such as --pattern "
            "'logs/*.jsonl' --key id. A builder is run in a temporary directory, also with --dry_run, on the "
            "files that are not in the published version yet. If the dataset has a config, the builder's config "
            "of the same name is used. Can be repeated",
            repeated=True,
            dest="new",
        ),
        Option(
            "--split",
            "[NAME=]EXPRESSION",
            "slices of each SOURCE to append, such as 'train=train[:80%]'; default: all splits, each to the split"
            " of the same name",
            repeated=True,
        ),
        Flag(
            "--union_features",
            "make features that one of the datasets lacks optional in the next version; without it, they are an error",
        ),
        Flag(
            "--take_changed",
            "with a builder of files: also append files of the published version that have changed since it was built",
        ),
        Flag(
            "--compare_checksums",
            "with a builder of files: compare the checksums of all files of the published version, even if their size "
            "and time are the same",
        ),
        Flag("--new_splits", "add splits that the published version does not have; without it, they are an error"),
        Option(
            "--version",
            "VERSION",
            "version to publish, or 'next' (the default): the smallest increase that the change allows. New "
            "examples change the slices, which is a MAJOR change, so the next version after 1.2.3 is 2.0.0",
        ),
        Option(
            "--on_duplicate",
            help="what to do if a new example has an existing key: fail (the default), keep the published "
            "example, replace it, or skip the new example if the records are equal and fail otherwise",
            choices=("error", "keep_old", "replace", "skip_identical"),
        ),
        MAX_REJECTED,
        Option(
            "--delete",
            "FILE",
            "text file (UTF-8) with one key per line; examples with these keys are deleted, published and new "
            "ones. Can be repeated",
            repeated=True,
        ),
        *SOURCES,
        Group(
            SHARDS.title,
            *SHARDS.options,
            Flag(
                "--share_shards",
                "link unchanged published shards (on an object store: copy them there) instead of writing all "
                "shards again. Applies to splits without changes, and to datasets ordered by integer keys "
                "(disable_shuffling)",
            ),
        ),
    ),
    usage="NAME_OR_DIR --from SOURCE [options] [options of a builder]",
    example="NAME --from csv --pattern NEW.csv --data_dir DIR",
)
_KEYS = {  # by what `AppendPlan.deletions` has for a key
    True: "deleted keys",
    False: "keys to delete of new examples, which are left out",
    None: "keys to delete that were not found",
}
NUM_SHOWN = 20  # keys of a list


def run(args: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    from beam_datasets.materializing.append_options import AppendOptions
    from beam_datasets.materializing.append_plan import plan_append
    from beam_datasets.materializing.append_sources import NOT_TAKEN, build_sources
    from beam_datasets.materializing.appending import run_append

    parsed, texts, builders = _parse_append(args)
    start_time = time.monotonic()
    with as_usage_errors("append"):
        keys = dict.fromkeys(key for path in parsed.delete or () for key in _read_keys(path))
        options = AppendOptions(**given(parsed, AppendOptions) | {"delete": keys})
        builders = {text: _with_config_of(parsed.dataset, options, request) for text, request in builders.items()}
        new = [_create_builder(builders[text], parsed) if text in builders else text for text in texts]
        comparison = {name: getattr(parsed, name) for name in ("take_changed", "compare_checksums")}
        with build_sources(parsed.dataset, new, options, **comparison) as (parent, sources, notes):
            for note in notes:
                say(note)
            plan = plan_append(parent, sources, options)
            say(_format_plan(plan))
            if parsed.dry_run or not plan.has_changes:
                ran = builders if parsed.dry_run else ()
                say(_why_not_published(plan, ran, has_changed=any(note.endswith(NOT_TAKEN) for note in notes)))
                return 0
            with publishing_in(plan.dataset_dir), bytes_bar("Append") as show:
                total = plan.num_bytes
                directory = run_append(
                    plan, None if show is None else lambda progress: show(progress.bytes_written, total)
                )
    say(f"Published in {directory} after {time.monotonic() - start_time:.1f} s")
    info = plan.info
    if note := catalog.note_on_builder(info.name, info.config_name, info.version, catalog.root_dir(parsed.data_dir)):
        say(note)
    return 0


def _parse_append(args: Sequence[str]) -> tuple[argparse.Namespace, Sequence[str], dict[str, BuilderRequest]]:
    """Returns (parsed options, texts of `--from`, {text that names a builder: the request of that builder}).

    The options of builders are known only when `--from` is parsed.

    Raises:
        UsageError: an option is unknown or missing, or has no meaning for what is appended.
    """
    parser, args = COMMAND.parser(), with_underscores(args)
    texts = parser.parse_known_args(args)[0].new or ()
    builders = {text: _parse_request(text) for text in texts if not _is_published(text)}
    for request in builders.values():
        add_builder_options(parser, request.builder)
    unknown = parser.parse_known_args(args)[1]
    _check_stray_arguments(unknown)
    for text in texts if unknown else ():
        if text not in builders and (hint := did_you_mean(text, FORMATS)):
            raise UsageError(f"--from {text}: expected a builder or a format of files, got {text!r}.{hint}")
    parsed = parser.parse_args(args)
    if not (parsed.new or parsed.delete):
        raise UsageError(
            f"expected --from SOURCE or --delete FILE, got neither. Type `beam-datasets append {COMMAND.example}`"
        )
    if builders:
        _check_slices(parsed.split or ())
    return parsed, texts, builders


def _check_stray_arguments(unknown: Sequence[str]) -> None:
    """Checks that no builder is given without `--from`, as in `append NAME csv`.

    Args:
        unknown: the arguments that the parser does not know, in the order of the command line.

    Raises:
        UsageError: one of them names a builder, and is not the value of an unknown option.
    """
    for previous, text in zip(["", *unknown], unknown):
        if previous[:1] != "-" and text[:1] != "-" and is_builder(text):
            raise UsageError(
                f"expected a builder after --from, got {text!r} without it. Use `--from {shlex.quote(text)}`."
            )


def _why_not_published(plan: AppendPlan, builders: Iterable[str], *, has_changed: bool) -> str:
    """Returns the text about a run that published nothing: a dry run, or one without changes.

    Args:
        plan: the plan.
        builders: the builders that a dry run has run.
        has_changed: whether known files have changed that were not taken.
    """
    names = ", ".join(builders)
    ran = f" What builds the new examples was run: {names}." if names else ""
    if plan.has_changes:
        return f"Nothing was published (--dry_run).{ran}"
    reason = f"{plan.parent_dir} has all of it"
    if has_changed:
        reason = "no file is new, and those that have changed were not taken"
    elif plan.inputs and not {*plan.inputs.selected_by} <= {DELETE}:
        reason = "no file is new"
    return f"Nothing changes: {reason}. Nothing was published.{ran}"


_SHARE_OR_PATTERN = re.compile(r"(?:\w+=)?[^\[\]:]*[%*/.][^\[\]:]*")  # a slice has brackets, or is a name


def _check_slices(texts: Iterable[str]) -> None:
    """Checks that the values of `--split` are not those of the builder of files, whose option is `--splits` here.

    Raises:
        UsageError: one is a share of rows, or a pattern of files.
    """
    for text in filter(_SHARE_OR_PATTERN.fullmatch, texts):
        raise UsageError(
            f"--split {text}: expected a slice of SOURCE, such as 'train=train[:80%]', got a share or files. Those of "
            f"the rows of files are given by --splits here: --splits {text}"
        )


def _is_published(text: str) -> bool:
    """Returns whether a SOURCE names a published dataset, and not a format of files or a builder.

    Raises:
        UsageError: it is a file of data, such as `a.csv`.
    """
    if build_text := build_arguments_of_file(text):
        raise UsageError(f"--from {text}: expected a dataset, got a file of data. Give its format: --from {build_text}")
    if way := way_to_build(text):
        raise UsageError(f"--from {text}: expected a dataset, a builder or a format of files, got another file. {way}")
    return not is_builder(text)


def _parse_request(text: str) -> BuilderRequest:
    """Returns the builder and its options that a text names; see `resolve`."""
    with importing_beam():  # if the module does it: what is small is appended without
        return resolve(text)


def _with_config_of(dataset: str, options: AppendOptions, request: BuilderRequest) -> BuilderRequest:
    """Returns the request; if it names no config, with that of the published version, if its builder has it.

    Args:
        dataset: name or directory of the published version.
        options: options of the append, which open the published version.
        request: the builder whose rows are appended.
    """
    if request.config or not request.builder.BUILDER_CONFIGS:
        return request
    _, info = options.open_parent(dataset)
    is_known = info.config_name is not None and request.builder.has_config(info.config_name)
    return replace(request, config=info.config_name) if is_known else request


def _create_builder(request: BuilderRequest, parsed: argparse.Namespace) -> DatasetBuilder:
    """Creates the builder; in its errors `--split` becomes `--splits`, because this command has its own `--split`.

    Raises:
        UsageError: an option does not fit its type.
        ValueError: the constructor rejects an argument.
    """
    kwargs: dict[str, Any] = {"config": request.config, "version": request.version, **(request.kwargs or {})}
    try:
        kwargs |= builder_arguments(parsed, request.builder)
        return request.builder(**{name: value for name, value in kwargs.items() if value is not None})
    except (ValueError, UsageError) as error:  # `--split` is an option of this command
        hint = ". --split selects from SOURCE; the option of the builder is --splits here" if parsed.split else ""
        raise type(error)(re.sub(r"--split\b", "--splits", str(error)) + hint) from None


def _read_keys(path: str) -> list[str]:
    """Returns the lines of a file that are not blank, without outer spaces."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [key for line in file if (key := line.strip())]
    except OSError as error:
        raise UsageError(
            f"--delete {path}: expected a file of keys, one per line, got: {error.strerror}. Write it, as in "
            f"`printf '%s\\n' KEY > keys.txt`, and give --delete keys.txt."
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"--delete {path}: expected text in UTF-8, got other bytes ({error}). Convert it.") from None


def _format_plan(plan: AppendPlan) -> str:
    """Returns the plan as lines: its directories, a table of the changes of each split, and the keys to delete."""
    kinds = ("added", "replaced", "deleted", "skipped")
    rows = [
        [s.split, *(getattr(s.counts, kind) for kind in kinds), s.num_examples, size_text(s.size), _shards_text(s)]
        for s in plan.splits
    ]
    lines = [f"{plan.parent_dir} -> {plan.dataset_dir}"]
    lines += [f"appended: {each}" for each in plan.appended]
    lines.append(table(["split", *kinds, "examples", "size", "shards"], rows))
    if plan.moved:
        moves = [f"{count:,} from {split} to {other}" for (split, other), count in sorted(plan.moved.items())]
        lines.append(f"moved to another split: {', '.join(moves)}")
    for is_published, words in _KEYS.items():
        if keys := [key for key, status in plan.deletions if status is is_published]:
            ellipsis = f" and {len(keys) - NUM_SHOWN:,} more" if len(keys) > NUM_SHOWN else ""
            lines.append(f"{words}: {len(keys):,}: {', '.join(map(str, keys[:NUM_SHOWN]))}{ellipsis}")
    return "\n".join(lines)


def _shards_text(split: MergedSplit) -> str:
    """Returns the number of shards of a split as text: "8", or "8 (3 shared)" with those of the published version."""
    return f"{split.num_shards:,}" + (f" ({len(split.shared):,} shared)" if split.shared else "")
