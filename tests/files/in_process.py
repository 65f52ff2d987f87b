"""Builds of files without a run: rows are read, encoded as records and decoded in this process."""

import argparse
import functools
import importlib
import os
import pickle
import re
import resource
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import DatasetBuilder
from beam_datasets.cli.builder_options import add_builder_options, builder_arguments
from beam_datasets.cli.options import UsageError
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.files.inputs import counted_here

SECONDS = 60


# ---------------------------------------------------------------------------------------------------------- publishing


class Published(NamedTuple):
    """The result of a build.

    Attributes:
        features: of the examples.
        rows: the examples of all splits, as plain Python; see `plain`.
        counted: what was counted for the summary.
    """

    features: F.FeaturesDict
    rows: list[dict[str, Any]]
    counted: dict[str, Any]


def builder_class(kind: str) -> type[DatasetBuilder]:
    """Returns the builder that `beam-datasets build KIND` runs."""
    module = importlib.import_module(f"beam_datasets.files.{kind}")
    [found] = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__ and
               isinstance(each, type) and issubclass(each, DatasetBuilder)]  # fmt: skip
    return found


def option_names(kind: str) -> set[str]:
    """Returns the options of a builder on the command line, such as --feature."""
    return set(_parser(kind)._option_string_actions)


@functools.cache
def _parser(kind: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    add_builder_options(parser, builder_class(kind))
    return parser


def make_builder(kind: str, path: str | Path, *options: str) -> DatasetBuilder:
    """Returns the builder of a file, or of a folder, with options as on the command line; "" if they name the files.

    Raises:
        UsageError: there are no such options.
    """
    builder = builder_class(kind)
    given = [*([f"--{'root' if kind.endswith('_folder') else 'pattern'}={path}"] if path else []), *options]
    try:
        found, unknown = _parser(kind).parse_known_args(given)
    except (argparse.ArgumentError, SystemExit) as error:
        raise UsageError(f"{options}: {error}") from None
    if unknown:
        raise UsageError(f"{unknown} are no options of {kind}")
    return builder(data_dir="/not/written", name="made", **builder_arguments(found, builder))


def publish(kind: str, path: str | Path, *options: str) -> Published:
    """Returns what a build of a file, or a folder, publishes, as it is read back."""
    builder = make_builder(kind, path, *options)
    rows = []
    with counted_here() as counted:
        features = builder.info.features
        encode, decode = F.compile_encoder(features), F.compile_decoder(features)
        records = [encode(row[1]) for source in builder.split_generators(None).values() for unit in source.units
                   for row in source.read(unit)]  # fmt: skip
        for number, record in enumerate(records):
            try:
                rows.append(plain(features, decode(record)))
            except Exception as error:
                raise UnreadableError(f"record {number} is published and cannot be read: {error!r}") from error
    return Published(features, rows, counted)


class UnreadableError(Exception):
    """A record that a build would publish cannot be decoded."""


def plain(feature: Any, value: Any) -> Any:
    """Returns a decoded value as dicts, lists, bytes, bools, ints and NumPy's floats; images and sounds are arrays."""
    if value is None:
        return None
    if isinstance(feature, F.FeaturesDict):
        return {name: plain(inner, value[name]) for name, inner in feature.items()}
    if isinstance(feature, F.Image | F.Audio):
        return value
    if isinstance(feature, F.Sequence):
        return [plain(feature.feature, item) for item in items_of(value)]
    return _nested(value)


def items_of(value: Any) -> list[Any]:
    """Returns the items of a decoded sequence; those of a dict of columns are dicts."""
    if isinstance(value, dict):
        columns = {name: items_of(column) for name, column in value.items()}
        return [dict(zip(columns, each)) for each in zip(*columns.values())]
    return [value[i] for i in range(len(value))]


def _nested(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return [_nested(item) for item in value]
    return value.item() if isinstance(value, np.bool_ | np.integer) else value


# -------------------------------------------------------------------------------------------------------------- advice

_OPTION = re.compile(r"(?<![\w-])--(?P<name>[a-z]\w*)(?:[ =](?P<value>(?:'[^']*'|[^\s,;()'])+))?")


def advised(problem: str) -> Iterator[tuple[str, str]]:
    """Yields (option, value) of the options in an error, as a shell would take them.

    >>> list(advised("x: say so: --feature 'a b=string?', --feature c=drop leaves it out; --skip_bad."))
    [('--feature', 'a b=string?'), ('--feature', 'c=drop'), ('--skip_bad', '')]
    """
    for match in _OPTION.finditer(problem):
        value = re.sub(r"(?<!\.)[.:]$", "", " ".join(shlex.split(match["value"] or "")))
        yield f"--{match['name']}", value


# ----------------------------------------------------------------------------------------------------- other processes


class Crashed(NamedTuple):
    """The end of a call in another process that returned no result."""

    reason: str


def apart(function: Callable[..., Any], *args: Any, seconds: float = SECONDS) -> Any:
    """Returns function(*args), run in a process of its own, or Crashed: it was killed, or took too long."""
    readable, writable = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(readable)
            with os.fdopen(writable, "wb") as pipe:
                pickle.dump(function(*args), pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writable)
    chunks, stop = [], time.monotonic() + seconds
    with os.fdopen(readable, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, stop - time.monotonic()))[0] and (chunk := pipe.read(1 << 20)):
            chunks.append(chunk)
    is_late = time.monotonic() >= stop
    if is_late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_late:
        return Crashed(f"took longer than {seconds:.0f} s")
    if status:
        return Crashed(f"the process ended with {os.waitstatus_to_exitcode(status)}")
    return pickle.loads(b"".join(chunks))


def peak_memory() -> int:
    """Returns the most memory that this process had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def is_refusal(error: BaseException, name: str) -> bool:
    """Returns whether an error is one that a user can act on: one of this project that names the file."""
    return isinstance(error, BeamDatasetsError) and name in str(error)
