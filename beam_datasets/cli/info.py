"""`beam-datasets info` and `beam-datasets list`: what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets import catalog, storage
from beam_datasets.cli.options import DATA_DIR_HELP, Parser, add_store_options, with_underscores
from beam_datasets.cli.tables import splits_table
from beam_datasets.cli.terminal import say
from beam_datasets.errors import PathNotFoundError
from beam_datasets.model.lineage import Lineage
from beam_datasets.reading.opening import open_published

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def run_info(args: Sequence[str]) -> int:
    """Prints what a published dataset is."""
    parser = Parser("beam-datasets info", description="What a published dataset is.", allow_abbrev=False)
    parser.add_argument("dataset", metavar="NAME_OR_DIR", help="name[/config][:version], or the directory of a version")
    parser.add_argument("--data_dir", help=DATA_DIR_HELP)
    add_store_options(parser)
    known = parser.parse_args(with_underscores(args))
    published = open_published(known.dataset, known.data_dir, known.storage_options)
    info = published.info
    for text in (info.full_name, info.description, info.homepage):
        if text:
            say(text)
    say(f"{info.data_dir}\n{info.features!r}")
    if info.supervised_keys:
        say(f"supervised keys: {info.supervised_keys}")
    say(splits_table(info.splits))
    if published.lineage:
        say("\n".join(lineage_lines(published.lineage)))
    return 0


def lineage_lines(lineage: Lineage, indent: str = "") -> Iterator[str]:
    """Yields where a materialized dataset came from, a fact a line, and where that came from, indented."""
    for name, split in lineage.splits.items():
        yield f"{indent}{name} = {split.expression}"
    if lineage.features is not None:
        yield f"{indent}only the features {', '.join(lineage.features)}"
    if lineage.filter is not None:
        yield f"{indent}only examples for which {lineage.filter} returned True"
    if lineage.reshuffle is not None:
        yield f"{indent}in a new order, of the salt {lineage.reshuffle!r}"
    for number, dataset in enumerate(lineage.datasets):
        words = "of" if number == 0 else "and of"
        yield f"{indent}{words} {dataset.full_name} (SHA-256 of its {dataset.digest_of}: {dataset.digest[:12]}...)"
        if dataset.source is not None:
            path = f"the lineage of {dataset.full_name}"
            yield from lineage_lines(Lineage.from_json(dataset.source, path=path), f"{indent}  ")


def run_list(args: Sequence[str]) -> int:
    """Prints the published datasets of a data_dir, a version a line."""
    parser = Parser("beam-datasets list", description="What is published.", allow_abbrev=False)
    parser.add_argument("--data_dir", help=DATA_DIR_HELP)
    add_store_options(parser)
    known = parser.parse_args(with_underscores(args))
    root = catalog.root_dir(known.data_dir, known.storage_options)
    names = [full_name for name in catalog.list_datasets(root) for full_name in catalog.list_published(name, root)]
    if not names and not storage.is_dir(root):
        raise PathNotFoundError(f"{root}: there is no such directory")
    say("\n".join(names) if names else f"nothing is published in {root}")
    return 0
