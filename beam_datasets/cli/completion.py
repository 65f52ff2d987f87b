"""Completion of commands, options and names in a shell, by argcomplete."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog
from beam_datasets.cli.options import Command, Parser
from beam_datasets.cli.resolve import known_names

if TYPE_CHECKING:
    from beam_datasets.metadata.info import DatasetInfo


def complete(commands: Mapping[str, tuple[str, str]]) -> None:
    """Prints the completions at the cursor and exits, if the shell asks for them and argcomplete is installed.

    Commands, options, choices, directories, and the names of published datasets, their splits and features are
    completed.

    Args:
        commands: name -> its module, and its function there. Only the module of the command that is typed is imported.
    """
    try:
        import argcomplete
        from argcomplete.completers import DirectoriesCompleter, FilesCompleter
    except ImportError:
        return
    directories, sources = DirectoriesCompleter(), FilesCompleter(("py",))
    datasets = lambda prefix, **arguments: [*_datasets(prefix, **arguments), *directories(prefix)]  # noqa: E731
    completers: dict[str, Any] = dict.fromkeys(("NAME_OR_DIR", "SOURCE", "OLD", "NEW"), datasets)
    completers["DATASET"] = _datasets
    completers["NAME_OR_FILE"] = lambda prefix, **_: [*_builders(), *sources(prefix)]
    completers |= dict.fromkeys(("SPLIT", "SLICE", "[NAME=]EXPRESSION"), _complete_splits) | {
        "A,B.C": _complete_features
    }
    completers |= dict.fromkeys(("DATA_DIR", "DIR"), directories)
    parser = Parser("beam-datasets")
    subparsers = parser.add_subparsers(parser_class=argparse.ArgumentParser)
    words = os.environ.get("COMP_LINE", "").split()
    for name, (file, _) in commands.items():
        command = subparsers.add_parser(name)
        if name in words[1:2]:
            command_of(name, file).add_to(command, completers)
    argcomplete.autocomplete(parser, validator=lambda candidate, prefix: candidate.startswith(prefix))


def command_of(name: str, file: str) -> Command:
    """Returns the options of a command: the constant of its name in capitals, or else COMMAND, of its module."""
    module = importlib.import_module(f"beam_datasets.cli.{file}")
    command: Command = getattr(module, name.upper(), None) or module.COMMAND
    return command


def _builders(**_: object) -> list[str]:
    """Returns the datasets and formats that `build` knows by name."""
    return [*catalog.registered(), *known_names()]


def _datasets(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Iterator[str]:
    """Yields the names of the datasets in the data_dir, and the versions of those with which `prefix` begins.

    Args:
        prefix: the typed text.
        parsed_args: the Namespace of the options before the cursor.
    """
    if prefix.startswith(("/", ".", "~")):  # a path
        return
    with contextlib.suppress(Exception):  # without a data_dir there is nothing to propose
        root = catalog.root_dir(getattr(parsed_args, "data_dir", None), None)
        for name in catalog.list_datasets(root):
            yield name
            if prefix.startswith(name):
                yield from catalog.list_published(name, root)


def _complete_splits(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Returns completions of a split expression: ['train=a+train', 'train=a+test'] for the typed text `train=a+t`.

    Args:
        prefix: the typed text.
        parsed_args: the Namespace of the options before the cursor, which name a dataset.
    """
    prefix_of_split = re.sub("[^=+]*$", "", prefix)
    return [prefix_of_split + split for info in _infos(parsed_args) for split in info.splits]


def _complete_features(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Returns completions of a list of features: ['a,a', 'a,b'] for the typed text `a,`; see `_complete_splits`."""
    from beam_datasets.features.trees import iter_nested_features, join_steps

    *start, last = prefix.rpartition(",")
    features = [each for info in _infos(parsed_args) for each in iter_nested_features(info.features)]
    return ["".join(start) + (name if "/" in last else join_steps(steps)) for name, steps, _ in features]


def _infos(parsed_args: argparse.Namespace) -> Iterator[DatasetInfo]:
    """Yields the `DatasetInfo` of the dataset that the options name; for `append` and `diff`, of the new datasets.

    Yields nothing for a dataset that cannot be opened.
    """
    from beam_datasets.reading.opening import open_published

    data_dir = getattr(parsed_args, "source_data_dir", None) or getattr(parsed_args, "data_dir", None)
    words = (getattr(parsed_args, name, None) for name in ("new", "dataset", "source"))
    names: Any = next(filter(None, words), [])
    for name in [names] if isinstance(names, str) else names:
        with contextlib.suppress(Exception):  # of one that cannot be opened, nothing is proposed
            yield open_published(name, data_dir).info
