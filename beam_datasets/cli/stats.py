"""`beam-datasets stats`: statistics of the features of a dataset, as a table, as JSON and as an HTML page.

In the signatures, `feature` is the JSON object of the statistics of a feature, which `statistics.report` describes.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from beam_datasets import storage
from beam_datasets.cli.options import (
    DATASET,
    SHARED_DISK,
    STALL_TIMEOUT,
    Command,
    Flag,
    Group,
    Option,
    UsageError,
    as_usage_errors,
    comma_separated,
    engine_options,
    whole_number,
)
from beam_datasets.cli.printing import plural, say, say_values, table
from beam_datasets.display.text import printable, truncate
from beam_datasets.errors import FeatureError, StorageError
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.statistics import Statistics
from beam_datasets.statistics.page import COUNTS, page
from beam_datasets.statistics.report import compute_request, json_text, read_saved, save
from beam_datasets.statistics.summary import StatisticsRequest, prepare_request
from beam_datasets.statistics.texts import SIZES, constant_size, is_bool, number_text, share_text
from beam_datasets.statistics.texts import value_text as frequent_text

MIN_BEAM_BYTES = 1 << 30
"""From this size on, a local pipeline takes less time than one process: 1 GiB of rows of six features took 87 s in one
process and 60 s with two workers, 1 GiB of images 14 s and 15 s. Starting a pipeline takes 3 to 5 s."""

COMMAND = Command(
    "stats",
    """\
Computes statistics of each feature for each split: counts, extremes, means, quantiles, distinct and most frequent
values, lengths, labels.

By default, one process reads the dataset. A Beam pipeline is used with --num_workers 2 or more, with options of Beam,
and for datasets of 1 GiB or more.
Statistics of a whole dataset are saved next to its versions and reused the next time.

  beam-datasets stats digits --html digits.html
  beam-datasets stats digits --split 'train[:10%]' --split test --features image,label""",
    (
        *DATASET,
        Option(
            "--split",
            "SPLIT",
            "split or slice, such as 'train[:10%]'; can be repeated. Default: each split separately",
            repeated=True,
        ),
        Option(
            "--features",
            "A,B.C",
            "only these features, including nested features; can be repeated",
            repeated=True,
            type=comma_separated,
        ),
        Flag("--json", "print the result as JSON"),
        Option("--html", "FILE", "write a page with plots to FILE, which is replaced if it exists"),
        Flag("--no_save", "do not save the statistics next to the dataset"),
        Flag("--again", "compute the statistics even if saved ones exist"),
        Group(
            "engine (these options do not affect the statistics)",
            Option(
                "--num_workers",
                "N",
                "number of processes; default: 1, or one per core for datasets of 1 GiB or more",
                type=whole_number,
            ),
            Option(
                "--report",
                "FILE",
                "file for the statistics of remote workers; this machine and all workers must be able to access it",
            ),
            STALL_TIMEOUT,
            SHARED_DISK,
        ),
    ),
    usage="NAME_OR_DIR [options] [options of Beam]",
    example="NAME --data_dir DIR",
)
_HEADER = ("values", "missing", "distinct", "min", "median", "mean", "max", "std")
_PARTS = ("items", "bytes", *SIZES)
_SHOWN, _LABEL_WIDTH, _LINE = 5, 24, 100


def run(args: Sequence[str]) -> int:
    """Prints the statistics of a dataset."""
    parsed, beam_options = COMMAND.parse_with_beam(args)
    features = None if parsed.features is None else [name for each in parsed.features for name in each if name]
    if features == []:
        raise UsageError("--features has no name; write names with commas between, such as image,label")
    _check_html(parsed.html)
    if parsed.num_workers is not None and parsed.num_workers < 1:
        raise UsageError(f"--num_workers is {parsed.num_workers}; expected how many processes, 1 or more")
    request = prepare_request(parsed.dataset, parsed.split, features, parsed.data_dir, parsed.storage_options)
    start_time = time.monotonic()
    statistics = None if parsed.again or not request.is_complete else read_saved(request)
    save_status = "saved before" if statistics is not None else ""
    if statistics is None:
        statistics = _compute(request, parsed, beam_options)
        save_status = _save_statistics(statistics, request, parsed)
    if parsed.html:
        storage.write_bytes(parsed.html, printable(page(statistics, embedded_images(statistics))).encode())
    if parsed.json:
        sys.stdout.write(json_text(statistics))
        return 0
    say_values("\n".join(lines(statistics)))
    took = "" if save_status == "saved before" else f" in {time.monotonic() - start_time:.1f} s"
    say(
        f"\n{_format_count(statistics)}{took}{save_status and '; ' + save_status}"
        f"{'; page in ' + parsed.html if parsed.html else ''}"
    )
    return 0


def _check_html(path: str | None) -> None:
    """Checks that the HTML page can be written to `path`, before the dataset is read.

    Args:
        path: the argument of `--html`; None if no page is to be written.

    Raises:
        UsageError: `path` is not a regular file, or its directory does not exist or is not writable.
    """
    try:
        if path is not None:
            storage.check_writable(path, in_dir=True)
    except (StorageError, ValueError) as error:
        raise UsageError(f"--html is {path!r}, where no file can be written: {error}") from error


def embedded_images(statistics: Statistics) -> dict[str, list[tuple[str, str]]]:
    """Returns {name of a feature: [(data URL, description)]} of images of the first slice; {} without Pillow.

    The URL is '' for an image, or an example, that cannot be read.
    """
    expression = next(iter(statistics.slices), None)
    if expression is None or not importlib.util.find_spec("PIL"):
        return {}
    from beam_datasets.cli.explorer.pages import media, sample_images
    from beam_datasets.cli.explorer.searching import opened

    published = opened(statistics.directory)

    def url(index: int, path: str, item: int) -> str:
        """Returns an image as a `data:` URL with a small PNG; "" for a damaged image.

        Args:
            index: index of the example in the slice.
            path: path of the feature.
            item: index of the image in the feature.
        """
        with contextlib.suppress(FeatureError):  # a damaged image
            image = media(published, expression, index, path, item, 96)[0]
            return f"data:image/png;base64,{base64.b64encode(image).decode()}"
        return ""

    return sample_images(published, expression, url)


def _compute(request: StatisticsRequest, parsed: argparse.Namespace, beam_options: Sequence[str]) -> Statistics:
    """Computes statistics by Beam if options ask for it or it probably takes less time; otherwise in this process.

    Args:
        request: the requested statistics.
        parsed: parsed options of the command.
        beam_options: options for Beam, such as '--runner=FlinkRunner'.
    """
    asks_for_beam = beam_options or parsed.report or parsed.shared_disk or (parsed.num_workers or 1) > 1
    pays = parsed.num_workers is None and request.num_bytes >= MIN_BEAM_BYTES and usable_cores() > 1
    if not asks_for_beam and not (pays and importlib.util.find_spec("apache_beam")):
        return compute_request(request)
    from beam_datasets.beam.reports import run_stats as run_pipeline

    with as_usage_errors("stats"):
        return run_pipeline(request, engine_options(parsed, beam_options), report=parsed.report)


def _save_statistics(statistics: Statistics, request: StatisticsRequest, parsed: argparse.Namespace) -> str:
    """Saves the statistics of a whole dataset, and returns "saved in <path>"; '' if they are not saved.

    Args:
        statistics: the statistics.
        request: the request that they answer, which knows whether they are those of the whole dataset.
        parsed: parsed options of the command; `parsed.save` is False with --no_save.
    """
    if not parsed.save or not request.is_complete:
        return ""
    try:
        return f"saved in {save(statistics)}"
    except StorageError as error:
        say(f"not saved: {error} (--no_save does not try)", file=sys.stderr)
        return ""


def _format_count(statistics: Statistics) -> str:
    """Returns the number of features and examples: "3 features of 1,000 examples"."""
    features = len(next(iter(statistics.slices.values()))["features"]) if statistics.slices else 0
    examples = sum(slice_statistics["examples"] for slice_statistics in statistics.slices.values())
    return f"{plural(features, 'feature')} of {plural(examples, 'example')}"


# -------------------------------------------------------------------------------------------------------------- a table


def lines(statistics: Statistics) -> Iterator[str]:
    """Yields statistics as text: for each slice a table of its features, and its most frequent and special values."""
    for number, (name, slice_statistics) in enumerate(statistics.slices.items()):
        yield from [""] * bool(number)
        yield f"{statistics.dataset}, {name}: {plural(slice_statistics['examples'], 'example')}"
        yield from [""] * bool(slice_statistics["features"])
        rows = [
            row
            for feature_name, feature in slice_statistics["features"].items()
            for row in _feature_rows(feature_name, feature)
        ]
        if rows:
            yield table(["feature", "type", *_HEADER], rows, left_aligned=(0, 1), fold=(0,))
        for title, text_of in (("most frequent", _frequent), ("also", _special_values)):
            texts = [
                (feature_name, text)
                for feature_name, feature in slice_statistics["features"].items()
                if (text := text_of(feature))
            ]
            if texts:
                yield f"\n{title}\n{table(texts[0], texts[1:], left_aligned=(0, 1), short=(1,), fold=(0,))}"
    if statistics.unknown:
        yield f"\nleft out; --imports the module that registers their class: {', '.join(statistics.unknown)}"


def _feature_rows(path: str, feature: dict[str, Any]) -> Iterator[list[Any]]:
    """Yields the table row of a feature, and one for each of its parts, such as the height of its images.

    A row is [name, type, number of values, number of missing values, number of distinct values, and five texts about
    the distribution]; numbers that were estimated begin with '~'.

    Args:
        path: name of the feature.
        feature: its statistics, from `Statistics.slices`.
    """
    distinct = f"{'' if feature['distinct_exact'] else '~'}{feature['distinct']:,}"
    size = constant_size(feature)
    kind = f"{feature['type']} {size}" if size else feature["type"]
    yield [path, kind, feature["values"], feature["missing"], distinct, *_format_spread(feature)]
    for name in _PARTS:
        if name in feature and not (size and name in SIZES):
            yield [f"  {name}", "", "", "", "", *_format_spread(feature[name])]


def _format_spread(spread: dict[str, Any]) -> list[str]:
    """Returns the cells [minimum, median, mean, maximum, standard deviation] as text; all are empty without a mean."""
    if "mean" not in spread:
        return [""] * 5
    values = spread["min"], spread["quantiles"]["0.5"], spread["mean"], spread["max"], spread["std"]
    return [number_text(value) for value in values]


def _frequent(feature: dict[str, Any]) -> str:
    """Returns the most frequent values of a feature with their shares on a line, such as "cat 33.3%, ..."."""
    if "labels" in feature:
        labels = sorted(feature["labels"], key=lambda label: -label[2])
        top = [(name if name is not None else str(number), count) for number, name, count in labels if count]
    else:
        top = [(v if isinstance(v, str) else frequent_text(v, feature), n) for v, n in feature.get("top", ())]
    about = "" if feature.get("top_exact", True) else "~"
    texts, width = [], 0
    for value, count in top[:_SHOWN]:
        value_text = value if feature["kind"] == "number" else truncate(value, _LABEL_WIDTH)
        value_text = repr(value_text) if feature["kind"] == "text" else value_text
        texts.append(f"{value_text} {about}{share_text(count, feature['values'])}")
        width += len(texts[-1]) + 2
        if width > _LINE:
            break
    num_more = feature["distinct"] - len(texts)
    return ", ".join(texts) + (", ..." if texts and num_more > 0 else "")


def _special_values(feature: dict[str, Any]) -> str:
    """Returns the counts of zeros, NaN, infinite and empty values on a line, such as "3 zero, 1 NaN"; '' for none."""
    counts = COUNTS.items() if not is_bool(feature) else ()  # False is no zero
    return ", ".join(f"{feature[key]:,} {name}" for key, name in counts if feature.get(key))
