"""Completion of a command line by argcomplete, which asks for it by environment variables."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

from beam_datasets.cli.options import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from beam_datasets.cli.options import Command


def complete(commands: Mapping[str, tuple[str, str]]) -> None:
    """Prints what may stand at the cursor and ends the process; returns without argcomplete.

    Commands, options, choices, directories, and the names of published datasets and of their splits are completed.

    Args:
        commands: name -> its module, and its function there. Only the module of the command that is typed is imported.
    """
    try:
        import argcomplete
        from argcomplete.completers import DirectoriesCompleter, FilesCompleter
    except ImportError:
        return
    directories, sources = DirectoriesCompleter(), FilesCompleter(("py",))
    datasets = lambda prefix, **given: directories(prefix) if "/" in prefix else _datasets(prefix, **given)  # noqa: E731
    completers: dict[str, Any] = dict.fromkeys(("NAME_OR_DIR", "SOURCE", "OLD", "NEW"), datasets)
    completers["NAME_OR_FILE"] = lambda prefix, **_: [*_builders(), *sources(prefix)]
    completers |= dict.fromkeys(("SPLIT", "SLICE"), _splits) | dict.fromkeys(("DATA_DIR", "DIR"), directories)
    parser = Parser("beam-datasets")
    below = parser.add_subparsers()
    words = os.environ.get("COMP_LINE", "").split()
    for name, (file, _) in commands.items():
        command = below.add_parser(name)
        if name in words[1:2]:
            command_of(name, file).add_to(command, completers)
    argcomplete.autocomplete(parser, validator=lambda found, prefix: found.startswith(prefix))


def command_of(name: str, file: str) -> Command:
    """Returns the options of a command; a module with several commands names each in capitals."""
    module = importlib.import_module(f"beam_datasets.cli.{file}")
    found: Command = getattr(module, name.upper(), None) or module.COMMAND
    return found


def _builders(**_: Any) -> list[str]:
    """Returns what `build` knows by name."""
    from beam_datasets import catalog
    from beam_datasets.cli.resolve import known_names

    return [*catalog.registered(), *known_names()]


def _datasets(prefix: str, parsed_args: Any, **_: Any) -> Iterator[str]:
    """Yields the datasets of the data_dir: their names, and the versions of the one that is typed."""
    from beam_datasets import catalog

    with contextlib.suppress(Exception):  # without a data_dir there is nothing to propose
        root = catalog.root_dir(getattr(parsed_args, "data_dir", None), None)
        for name in catalog.list_datasets(root):
            yield name
            if prefix.startswith(name):
                yield from catalog.list_published(name, root)


def _splits(parsed_args: Any, **_: Any) -> Iterator[str]:
    """Yields the splits of the dataset that was named."""
    from beam_datasets.reading.opening import open_published

    with contextlib.suppress(Exception):  # a dataset that does not exist has none to propose
        yield from open_published(parsed_args.dataset, parsed_args.data_dir, None).info.splits
