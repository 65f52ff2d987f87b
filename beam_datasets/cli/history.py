"""`beam-datasets tag` and `beam-datasets prune`: which versions of a dataset stay, and the removal of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, as_usage_errors
from beam_datasets.cli.printing import plural, say, size_text, table

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = Command(
    "tag",
    "Gives a name to a published version, which `beam-datasets prune` keeps then.",
    f"""
dataset NAME  name[/config][:version]; without a version the highest
tag TAG  letters, digits, '.', '-' and '_'
--remove  take the tag from the version that has it
{DATA_DIR}
{STORAGE_OPTIONS}
""",
)
PRUNE = Command(
    "prune",
    """\
Lists the versions of a dataset that nothing needs, and removes them with --yes. The highest ones stay, and those that
the lineage of another dataset in DATA_DIR names.

  beam-datasets prune clicks --data_dir data --keep 7 --keep_tagged""",
    f"""
dataset NAME  name[/config]
--keep N  how many of the highest versions stay
--keep_tagged  versions with tags stay; without, an old one with a tag is an error
--yes  remove; without, only list
{DATA_DIR}
{STORAGE_OPTIONS}
""",
    settings={"--keep": {"required": True}},
)


def run_tag(args: Sequence[str]) -> int:
    """Gives a tag to a version, or removes it."""
    from beam_datasets.materializing.history import add_tag, remove_tag

    known = TAG.parse(args)
    change = remove_tag if known.remove else add_tag
    with as_usage_errors():
        of = change(known.dataset, known.tag, known.data_dir, known.storage_options)
    say(f"{known.tag} {'is removed from' if known.remove else '->'} {of}")
    return 0


def run_prune(args: Sequence[str]) -> int:
    """Lists or removes the versions that nothing needs."""
    from beam_datasets import storage
    from beam_datasets.materializing.history import plan_prune, remove_version

    known = PRUNE.parse(args)
    with as_usage_errors():
        judged = plan_prune(
            known.dataset,
            known.keep,
            keep_tagged=known.keep_tagged,
            data_dir=known.data_dir,
            storage_options=known.storage_options,
        )
    sizes = {version: storage.usage(version.directory).num_bytes for version in judged}
    rows = [[version.name, size_text(sizes[version]), version.kept or "to be removed"] for version in judged]
    say(table(["version", "files", ""], rows, left=(0, 2)))
    old = [version for version in judged if not version.kept]
    if known.yes:
        old = [version for version in old if remove_version(version)]
    total = f"{plural(len(old), 'version')}, {size_text(sum(sizes[version] for version in old))}"
    done = f"{total}, removed" if known.yes else f"{total}; --yes removes them"
    say(done if old else "nothing to remove")
    return 0
