"""`beam-datasets tag`, `prune` and `publish`: which versions of a dataset stay, and which result becomes one."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from beam_datasets import storage
from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, UsageError, as_usage_errors
from beam_datasets.cli.printing import plural, say, size_text, table
from beam_datasets.generate.publish import publish_as
from beam_datasets.materializing.history import add_tag, plan_prune, remove_tag, remove_version
from beam_datasets.metadata.version import Version

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
    known = TAG.parse(args)
    change = remove_tag if known.remove else add_tag
    with as_usage_errors():
        of = change(known.dataset, known.tag, known.data_dir, known.storage_options)
    say(f"{known.tag} {'is removed from' if known.remove else '->'} {of}")
    return 0


def run_prune(args: Sequence[str]) -> int:
    """Lists or removes the versions that nothing needs."""
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
        removed = {}
        for version in old:
            with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
                num_bytes = storage.freed([version.directory])  # of shared shards, those without another name by now
                if remove_version(version):
                    removed[version] = num_bytes
        done = f"{plural(len(removed), 'version')}, {size_text(sum(removed.values()))}, removed"
    else:
        freed = storage.freed(version.directory for version in old)
        done = f"{plural(len(old), 'version')}, {size_text(freed)}; --yes removes them"
    say(done if old else "nothing to remove")
    return 0


PUBLISH = Command(
    "publish",
    """\
Publishes a result of build --check_against that was refused, and kept, under the version number that it needs. The
shards are taken as they are; the metadata is written anew.""",
    f"""
result RESULT  directory of the result, as the refusal named it
--version VERSION  the new number, such as 2.0.0
{STORAGE_OPTIONS}
""",
    settings={"--version": {"required": True}},
)


def run_publish(args: Sequence[str]) -> int:
    """Publishes a kept result and prints where."""
    known = PUBLISH.parse(args)
    if not Version.is_valid(known.version):
        raise UsageError(f"--version: expected a version such as 2.0.0, got {known.version!r}")
    directory = publish_as(storage.with_options(known.result, known.storage_options), known.version)
    say(f"Published in {directory}")
    return 0
