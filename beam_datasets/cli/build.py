"""`beam-datasets build` and `plan`: parse the command line and call the builder's `build`, or estimate the build."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from beam_datasets import catalog
from beam_datasets.builders import DatasetBuilder
from beam_datasets.cli.builder_options import add_builder_options, builder_arguments
from beam_datasets.cli.options import (
    DATA_DIR,
    MAX_REJECTED,
    SHARDS,
    Command,
    Flag,
    Group,
    Option,
    UsageError,
    as_usage_errors,
    engine_group,
    engine_options,
    given,
    near_option,
    parse_with_beam,
    storage_options,
    whole_number,
    with_underscores,
)
from beam_datasets.cli.printing import announced, progress_bars, progress_lines, say, splits_table, table
from beam_datasets.cli.resolve import BuilderRequest, builder_file, file_of_folder, known_names, resolve
from beam_datasets.display import progress
from beam_datasets.display.text import size_text, wrapped
from beam_datasets.errors import AlreadyPublishedError
from beam_datasets.extras import importing_beam
from beam_datasets.features import compile_encoder
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.options import BuildOptions, ShardingOptions
from beam_datasets.publishing import compatibility, run_report
from beam_datasets.publishing.progress import Progress
from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.shuffle.rejected import format_rejected, merge_rejections
from beam_datasets.sources import estimate as estimates

NUM_SHOWN = 20  # strings of a set that a dataset counted


def _resume_value(text: str) -> str:
    """Returns the value of `--resume changed`; raises an ArgumentTypeError for any other value."""
    if text == "changed":
        return text
    raise argparse.ArgumentTypeError(f"expected --resume without a value or --resume changed, got {text!r}")


COMMAND = Command(
    "build",
    """\
Generates a dataset and publishes it.

NAME_OR_FILE is name[/config][:version], path/to/file.py[:Class][/config][:version], or a directory that contains one
file with a builder; default: the current directory.
Without --runner, the pipeline runs on this machine with one worker process per core.""",
    (
        Option("dataset", "NAME_OR_FILE"),
        DATA_DIR,
        Option("--config", "NAME", "name of the config, if NAME_OR_FILE does not contain it"),
        storage_options("--storage_options", "the store of --data_dir"),
        Flag(
            "--dry_run",
            "print an estimate of the run, as `beam-datasets plan` does, and build nothing; encodes a sample of "
            "the source",
        ),
        Option(
            "--sample",
            "SHARE",
            "share of the source to encode for an estimate, more than 0 and at most 1; default: 0.01",
        ),
        Option(
            "--trial",
            "N",
            "build the first N examples of each split in a temporary directory, show them, and publish nothing",
            type=whole_number,
        ),
        Flag(
            "--overwrite",
            "build a published version again and replace it when the new one is complete; only on local disks; "
            "asks for confirmation",
        ),
        Flag(
            "--yes",
            "with --overwrite: do not ask for confirmation; required if there is no terminal",
        ),
        Flag("--skip_published", "do nothing, and exit with 0, if the version is already published"),
        Option(
            "--check_against",
            "VERSION",
            "compare the result with a published version; default: the highest one below the version that is built. If "
            "the changes need a larger version bump, do not publish, but keep the result, so that `publish` can "
            "publish it under another version",
            value_is_optional=True,
            const="latest",
        ),
        Option(
            "--resume",
            "changed",
            "reuse the units that failed runs of this version have finished, and keep finished units if this run "
            "fails. An error if the dataset's code or options have changed since, unless --resume changed is "
            "given",
            type=_resume_value,
            value_is_optional=True,
            const=True,
        ),
        Option(
            "--check_images",
            "HOW",
            "check of the image files: structure (whether they are whole), or decode (also decode each of them, which "
            "is slower); default: the check of each image feature, structure unless the builder sets another",
            choices=("structure", "decode"),
        ),
        Group(
            SHARDS.title,
            *SHARDS.options,
            Option(
                "--max_examples_per_split",
                "N",
                "keep only the N examples of each split whose keys have the lowest hashes",
                type=whole_number,
            ),
            MAX_REJECTED,
            Flag("--ignore_duplicates", "keep one example per key; without it, repeated keys are an error"),
        ),
        Group(
            "downloads",
            Option(
                "--download_dir",
                "DIR",
                "directory of downloaded files, accessible to all workers; default: `downloads` in --data_dir",
            ),
            Option(
                "--manual_dir",
                "DIR",
                "directory of files that you must download yourself; default: `manual` in --download_dir",
            ),
            Flag(
                "--register_checksums",
                "record the checksums of downloads in checksums.tsv next to the builder, instead of checking them",
            ),
            Flag("--force_checksums", "refuse downloads without a recorded checksum"),
            Flag("--no_verify_ssl", "accept any certificate of the servers of downloads"),
        ),
        engine_group("one per core"),
    ),
    usage="NAME_OR_FILE [options] [options of the dataset] [options of Beam]",
    example="csv --name NAME --pattern FILES --data_dir DIR",
)
PLAN = Command(
    "plan",
    """\
Prints the features and splits of a dataset, and an estimate of its build: shards, memory, requests and hours. Encodes
a sample of the source on this machine, and builds nothing. It takes the options of `beam-datasets build`.""",
    [
        option
        if isinstance(option, Group) or option.name not in ("--dry_run", "--trial", "--yes")
        else option._replace(help=None)
        for option in COMMAND.options
    ],
    usage=COMMAND.usage,
    example=COMMAND.example,
)


def run_plan(args: Sequence[str]) -> int:
    """Runs `beam-datasets plan`, which is `build --dry_run`."""
    return run([*args, "--dry_run"], PLAN)


def run(args: Sequence[str], command: Command = COMMAND) -> int:
    """Runs `COMMAND` or `PLAN` and returns the exit code."""
    with announced("Apache Beam is being imported"):
        parsed, beam_options, request = _parse_build(args, command)
        _use_beam_options(beam_options)
    _check_code(parsed, beam_options)
    builder = _make_builder(request, parsed)
    if parsed.skip_published and parsed.overwrite:
        raise UsageError("--skip_published and --overwrite: expected one of them")
    if parsed.skip_published and builder.is_prepared():
        say(f"{builder.info.display_name} is published already in {builder.dataset_dir}")
        return 0
    say(f"{builder.info.display_name} -> {builder.dataset_dir}{_note_on_configs(request, parsed)}")
    if parsed.trial is not None:
        return _try_build(builder, parsed, beam_options)
    if parsed.check_against:
        with as_usage_errors("--check_against"):
            earlier = compatibility.earlier_version(builder.dataset_dir, parsed.check_against)
        say(f"To be compared with: {earlier or 'none, for no version below is published'}")
    if parsed.dry_run:
        fails = builder.is_prepared() and not parsed.overwrite
        if not fails:
            _check_run(builder, parsed, beam_options)
        published_note = " The version is published already; building it again fails." if fails else ""
        read = "A sample of the source was read and encoded; nothing was built."
        say(f"{builder.info.features!r}\n{_plan_of(builder, parsed)}\n{read}{published_note}")
        return 0
    if parsed.overwrite and builder.is_prepared():
        _confirm_overwrite(builder, parsed)
    start_time = time.monotonic()
    with publishing_in(builder.dataset_dir):
        try:
            with as_usage_errors("build"), progress_bars() as bar:
                directory = builder.build(beam_options=beam_options, **_build_options(parsed, bar))
        except AlreadyPublishedError as error:  # by another run, meanwhile; or of one that this run has finished
            if not (parsed.skip_published and builder.is_prepared()):
                raise
            say(str(error))
            return 0
        _say_published(builder, directory, time.monotonic() - start_time)
    return 0


_MAX_CONFIGS = 10  # named in the line about configs that are not built


def _note_on_configs(request: BuilderRequest, parsed: argparse.Namespace) -> str:
    """Returns a line that names the configs that are not built, if the command names none; otherwise ''."""
    configs = list(request.builder.configs())
    if request.config or parsed.config or len(configs) < 2:
        return ""
    names = ", ".join(map(repr, configs[:_MAX_CONFIGS])) + ", ..." * (len(configs) > _MAX_CONFIGS)
    return f"\nThis is the default of {len(configs)} configs: {names}. Build others with --config NAME."


def _check_run(builder: DatasetBuilder, parsed: argparse.Namespace, beam_options: Sequence[str]) -> None:
    """Makes the checks that `build` makes before a job, also of the engine's servers and of the directories.

    Args:
        builder: builder of the dataset.
        parsed: parsed options of the command.
        beam_options: options for Beam, such as '--runner=FlinkRunner'.
    """
    from beam_datasets.beam.generate import prepare_run
    from beam_datasets.engines.running import check_engine
    from beam_datasets.publishing.phases import check_can_run

    with as_usage_errors("build"), tempfile.TemporaryDirectory() as folder:
        checked = builder.elsewhere(folder) if parsed.overwrite and builder.is_prepared() else builder
        sharding, engine = ShardingOptions.of(**given(parsed, ShardingOptions)), engine_options(parsed, beam_options)
        chosen, publication, _ = prepare_run(checked, BuildOptions(sharding, engine, **given(parsed, BuildOptions)))
        check_engine(chosen)
        check_can_run(publication)


def _say_published(builder: DatasetBuilder, directory: str, seconds: float) -> None:
    """Prints the features, unless --quiet, and the published splits, or that a submitted job will publish them.

    Args:
        builder: builder of the dataset.
        directory: directory of the version.
        seconds: duration of the build.
    """
    if progress.is_shown:
        say(repr(builder.info.features))
    if not builder.is_prepared():
        say(f"Submitted; it will publish in {directory}")
        return
    _say_rejected(directory)
    say(splits_table(builder.info.splits))
    say(f"Published in {directory} after {seconds:.1f} s")
    if note := catalog.note_on_names(_builder_label(builder), builder.dataset_dir, builder.version):
        say(note)


def _say_rejected(directory: str) -> None:
    """Prints the examples that the builder of a version has rejected; nothing for a builder of files."""
    rejected = [each for each in run_report.left_out_of(directory) if "examples" in each]
    if rejected:
        say(format_rejected(rejected))


def _builder_label(builder: DatasetBuilder) -> str:
    """Returns the builder's name and config, without the version."""
    return builder.info.display_name.rpartition(":")[0]


def _confirm_overwrite(builder: DatasetBuilder, parsed: argparse.Namespace) -> None:
    """Asks on the terminal whether to replace the published version; with --yes it does not ask.

    Raises:
        UsageError: it may not, or nobody can be asked.
    """
    if parsed.yes:
        return
    subject = f"the published version {builder.info.display_name} in {builder.dataset_dir}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"--overwrite: expected --yes to replace {subject}, because there is no terminal to ask on")
    question = f"Replace {subject}? Its readers, saved states and lineage will not fit any more. [y/N] "
    print(question, end="", file=sys.stderr)
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("--overwrite: nothing was replaced; a new version number keeps the published one")


def _try_build(builder: DatasetBuilder, parsed: argparse.Namespace, beam_options: Sequence[str]) -> int:
    """Builds the first examples of each split in a temporary place, and shows them.

    Args:
        builder: builder of the dataset.
        parsed: parsed options of the command; `parsed.trial` is the number of examples of each split.
        beam_options: options for Beam, such as '--runner=FlinkRunner'.

    Returns:
        The exit code, 0.
    """
    from beam_datasets.cli import head

    refused = {name: getattr(parsed, name) for name in ("overwrite", "resume", "check_against", "dry_run")}
    for name, is_given in {**refused, "no_wait": not parsed.wait}.items():
        if is_given:
            raise UsageError(f"--trial publishes nothing, so it takes no --{name}")
    if parsed.trial < 1:
        raise UsageError(f"--trial {parsed.trial}: expected 1 or more")
    count = min(parsed.trial, parsed.max_examples_per_split or parsed.trial)
    with tempfile.TemporaryDirectory(prefix="beam_datasets-trial-") as folder, as_usage_errors("build"):
        with progress_bars() as bar:
            options = _build_options(parsed, bar) | {"max_examples_per_split": count, "num_shards": 1}
            trial = builder.elsewhere(folder, first=count)
            directory = trial.build(beam_options=beam_options, **options)
        _say_rejected(directory)
        say(repr(builder.info.features))
        for split in builder_from_directory(directory).info.splits:
            head.run_head([directory, "--split", split, "--count", str(count)])
            say("")
    hashed = ", ".join(trial.uncut_splits)
    say(f"Nothing was published (--trial).{hashed and f' Beam makes {hashed}: these have the lowest hashes.'}")
    return 0


def _use_beam_options(beam_options: Sequence[str]) -> None:
    """Lets builders list files with the options of a store, such as the address of its server."""
    with importing_beam():
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions

    FileSystems.set_options(PipelineOptions(list(beam_options)))


def _check_code(parsed: argparse.Namespace, beam_options: Sequence[str]) -> None:
    """Checks that Beam's workers can import the dataset's file if the dataset is given by a path.

    Args:
        parsed: the parsed options.
        beam_options: options of Beam from the command line, which may send code to workers.

    Raises:
        UsageError: workers cannot import the file.
    """
    from beam_datasets.engines.engine import check_code_is_shared

    file = re.match(r".+\.py(?=[:/]|$)", parsed.dataset)
    if file:
        with as_usage_errors("build"):
            check_code_is_shared(file[0], beam_options, shared_disk=parsed.shared_disk)


def _parse_build(args: Sequence[str], command: Command) -> tuple[argparse.Namespace, list[str], BuilderRequest]:
    """Returns (Namespace of the command's and the builder's options, arguments for Beam, request for the builder).

    Raises:
        UsageError: there is no dataset, or an option is invalid.
    """
    parser = command.parser()
    args = _with_dataset(args)
    if not args or args[0] in ("-h", "--help"):
        parser.epilog = wrapped(f"Known datasets: {', '.join(sorted({*catalog.registered(), *known_names()}))}")
        parser.parse_args(with_underscores(args))
    with importing_beam():
        try:
            request = resolve(args[0])
        except UsageError as error:
            raise UsageError(f"{error}{_note_if_published(args, parser)}") from None
    add_builder_options(parser, request.builder)
    parsed, beam_options = parse_with_beam(parser, args)
    if parsed.trial is not None and command is PLAN:
        raise UsageError("--trial: expected build, got plan, which builds no examples")
    return parsed, beam_options, request


def _note_if_published(args: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """Returns ". digits is published in ...: ..." if the first argument names a published dataset; otherwise ''."""
    parsed, _ = parser.parse_known_args(with_underscores(args))
    data_dir = str(parsed.data_dir or catalog.root_dir(None))
    if "://" in data_dir or not re.fullmatch(r"[a-zA-Z]\w*", args[0]):  # no store is asked to word an error
        return ""
    if not catalog.list_versions(args[0], data_dir=data_dir):
        return ""
    rest = f"{args[0]} --data_dir {shlex.quote(data_dir)}" if parsed.data_dir else args[0]
    return (
        f". {args[0]} is published in {data_dir}: `beam-datasets info {rest}` prints it, and `beam-datasets append "
        f"{rest} --from SOURCE` adds examples"
    )


def _with_dataset(args: Sequence[str]) -> Sequence[str]:
    """Returns the arguments with a builder's file first: that of a given directory, or else of this directory."""
    if args and (args[0] in ("-h", "--help") or not args[0].startswith("-")):
        return [file_of_folder(args[0]), *args[1:]]
    try:
        return [builder_file("."), *args]
    except UsageError as error:
        if not args:
            return args  # prints help
        if position := _position_of_dataset(args):
            ordered = shlex.join([args[position], *args[:position], *args[position + 1 :]])
            raise UsageError(f"the dataset comes first: `beam-datasets build {ordered}`") from None
        hint = near_option(args, COMMAND.parser())
        raise UsageError(f"the dataset comes first: {COMMAND.usage}.{hint}\n{error}") from None


def _position_of_dataset(args: Sequence[str]) -> int | None:
    """Returns the position of the argument that is the dataset, behind options; None if none is.

    It is a known dataset or the file of a builder, else an argument that does not follow an option. The value of an
    option, such as `jsonl` in `--name jsonl csv`, is none.
    """
    names = {*catalog.registered(), *known_names()}
    positions = [i for i in range(1, len(args)) if not args[i].startswith("-")]
    datasets = [i for i in positions if args[i] in names or re.search(r"\.py\b", args[i])]
    if known := [i for i in datasets if not _takes_value(args[i - 1], args[i])]:
        return min(known, key=lambda i: args[i - 1].startswith("-"))  # better none after an option
    flags = {name for name, action in COMMAND.parser()._option_string_actions.items() if action.nargs == 0}
    before = with_underscores(args)
    return next((i for i in positions if before[i - 1] in flags or not re.match(r"-[^=]*$", before[i - 1])), None)


def _takes_value(option: str, dataset: str) -> bool:
    """Returns whether an argument is an option of `build`, or of a dataset's builder, that needs a value."""
    if not option.startswith("-"):
        return False
    parser = COMMAND.parser()
    with contextlib.suppress(UsageError), importing_beam():  # the proposed command will print it
        add_builder_options(parser, resolve(dataset).builder)
    action = parser._option_string_actions.get(with_underscores([option])[0])
    return action is not None and action.nargs is None


def _make_builder(request: BuilderRequest, parsed: argparse.Namespace) -> DatasetBuilder:
    """Creates the builder from the command's options, and reads its metadata, which may infer the schema.

    Raises:
        UsageError: two configs are given, or the builder rejects an argument.
    """
    kwargs: dict[str, Any] = {**(request.kwargs or {}), **builder_arguments(parsed, request.builder)}
    name_parts = {"config": request.config or parsed.config, "version": request.version}
    if request.config and parsed.config:
        raise UsageError(f"--config {parsed.config}: {parsed.dataset} names the config {request.config!r} already")
    kwargs |= {name: value for name, value in name_parts.items() if value is not None}
    with as_usage_errors(request.builder.__name__):
        builder = request.builder(data_dir=catalog.root_dir(parsed.data_dir, parsed.storage_options), **kwargs)
        builder.info  # noqa: B018  # looks at the source, where the schema comes from there
    return builder


@contextlib.contextmanager
def publishing_in(directory: str) -> Iterator[None]:
    """Context manager: if Ctrl-C ends it after the version was published, the KeyboardInterrupt says so."""
    try:
        yield
    except KeyboardInterrupt:
        if not catalog.is_published(directory):
            raise
        raise KeyboardInterrupt(f"{directory} is published") from None


def _build_options(parsed: argparse.Namespace, bar: Callable[[Progress], None]) -> dict[str, Any]:
    """Returns the keyword arguments of `DatasetBuilder.build` from the parsed options: name -> value.

    Args:
        parsed: the parsed options of the command.
        bar: function that shows the progress in a terminal; elsewhere, lines are printed.
    """
    options = given(parsed, DatasetBuilder.build)
    options.pop("storage_options", None)  # the builder has them
    return options | {"counters": _show_counters, "progress": bar if sys.stderr.isatty() else progress_lines()}


def _plan_of(builder: DatasetBuilder, parsed: argparse.Namespace) -> str:
    """Returns the text of `build --dry_run`: an estimate of a run's resources, from samples of its source."""
    from beam_datasets.beam.generate import units_of
    from beam_datasets.engines.engine import unused_pipeline

    with tempfile.TemporaryDirectory() as folder:  # where no published version says what the features are
        trial_builder = builder.elsewhere(folder)
        trial_builder.use_downloads(builder.download_settings(**given(parsed, builder.download_settings)))
        sources = trial_builder.split_generators(unused_pipeline())
        return _plan_of_sources(trial_builder, sources, parsed, units_of(trial_builder, sources))


def _plan_of_sources(builder: DatasetBuilder, sources: Any, parsed: argparse.Namespace, units: Any) -> str:
    """Returns text about the splits and resources of a run, estimated from a sample of its units.

    Args:
        builder: the builder.
        sources: split -> source.
        parsed: the options of the command.
        units: split -> `SourceUnits`, of the sources that can be sampled.

    Raises:
        UsageError: an option for shards or `--sample` is invalid.
    """
    with as_usage_errors("build"):
        sharding = ShardingOptions(**given(parsed, ShardingOptions))
        sharding.check_splits(sources)
        share = estimates.SAMPLE if parsed.sample is None else float(parsed.sample)
        if not 0 < share <= 1:
            raise ValueError(f"--sample: expected a share above 0 and at most 1, got {parsed.sample}.")
    samples = estimates.take_samples(units, compile_encoder(builder.info.features), share)
    estimate = estimates.estimate(samples, sharding)
    rows = [
        [name, s.examples, s.shards, size_text(s.num_bytes - OVERHEAD * s.examples)]
        for name, s in estimate.splits.items()
    ]
    unknown = [name for name in sources if name not in estimate.splits]
    rows += [[name, "unknown", "", ""] for name in unknown]
    splits = table(["split", "examples", "shards", "size"], rows)
    rejections = merge_rejections(sample.rejections for sample in samples.values())
    if rejections.total:
        limit = f"The builder has rejected examples of the sample; a build allows {sharding.max_rejected:,}"
        splits = f"{splits}\n{limit} (--max_rejected).\n{rejections}"
    if not estimate.splits:
        return f"{splits}\nWhat a run takes is unknown: only a source of units can be sampled in a short time."
    core_hours = f"{estimate.core_hours:.2f}"
    lines = [
        splits,
        *([f"Without {', '.join(unknown)}: only a source of units can be sampled in a short time."] if unknown else ()),
        f"memory of a worker: {size_text(estimate.worker_bytes)}",
        f"intermediate files: {size_text(estimate.spilled_bytes)}",
        f"requests to a store: {estimate.reads:,} reads, {estimate.writes:,} writes",
        f"machine hours, of one core: {'less than 0.01' if core_hours == '0.00' else core_hours}",
    ]
    return "\n".join(lines)


def _show_counters(counters: Mapping[str, Any]) -> None:
    """Prints the counters of a dataset's own transforms.

    Args:
        counters: {'namespace/name': integer or frozenset of strings}; those of `files/` are printed as by `report`.
    """
    if any(name.startswith("files/") for name in counters):
        from beam_datasets.files.bad_rows import report

        for text in report(counters):
            say(text)
    dataset_counters = {name: value for name, value in counters.items() if not name.startswith("files/")}
    for name, value in sorted(dataset_counters.items(), key=lambda item: isinstance(item[1], frozenset)):
        value_text = (
            f"{value:,}" if isinstance(value, int) else "".join(f"\n  {text}" for text in sorted(value)[:NUM_SHOWN])
        )
        say(f"{name}: {value_text}")
