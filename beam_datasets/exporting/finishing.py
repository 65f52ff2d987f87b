"""An export becomes visible: all at once on a disk, and on an object store with `_export.json` last."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import crc32c

from beam_datasets import features as feature_trees
from beam_datasets import storage
from beam_datasets.errors import (
    AlreadyPublishedError,
    JobStateUnknownError,
    LostExamplesError,
    PathExistsError,
    StorageError,
)
from beam_datasets.exporting.array_record import FILE_FORMAT, ArrayRecord
from beam_datasets.exporting.plan import check_free
from beam_datasets.features.class_label import parse_names
from beam_datasets.generate import runs
from beam_datasets.generate.owners import OWNER_FILE
from beam_datasets.generate.runs import EXPORT_FILE
from beam_datasets.generate.shard_writer import new_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from beam_datasets.exporting.plan import ExportPlan
    from beam_datasets.exporting.shards import WrittenFile

FORMAT_VERSION = 1


def worker_log(plan: ExportPlan) -> str:
    """Returns the file that takes what the worker processes of a local run log."""
    folder = tempfile.gettempdir() if storage.is_remote(plan.staging_dir) else plan.staging_dir
    return storage.join(folder, f"workers-{plan.job}.log")


@contextlib.contextmanager
def staging(plan: ExportPlan) -> Iterator[None]:
    """Makes the staging directory for a run, and removes it if the run fails; on an object store reserves the place.

    Nothing is removed if the engine has not confirmed that the job ended (JobStateUnknownError).

    Raises:
        PathExistsError: another run has reserved the place.
    """
    try:
        if storage.is_remote(plan.directory):
            _reserve(plan)
        storage.make_dirs(plan.staging_dir)
        plan.owner.write(plan.staging_dir)
    except PathExistsError:
        raise
    except StorageError as error:  # which names what nobody gave
        raise type(error)(str(error).replace(plan.staging_dir, plan.directory)) from error
    try:
        yield
    except JobStateUnknownError:
        raise
    except BaseException:
        with contextlib.suppress(StorageError):  # why the run failed is what matters; gc finds what is left
            if storage.is_remote(plan.directory):
                runs.discard(plan.run, by="its launcher")
            else:
                storage.remove_tree(plan.staging_dir)
        raise
    finally:
        storage.remove(worker_log(plan))


def _reserve(plan: ExportPlan) -> None:
    try:
        runs.reserve(plan.run)
    except AlreadyPublishedError as error:
        raise PathExistsError(str(error)) from None


def staged_bytes(plan: ExportPlan) -> int:
    """Returns how many bytes of the export stand in the staging directory, unfinished too; 0 on an object store."""
    found, others = 0, (OWNER_FILE, storage.basename(worker_log(plan)))
    with contextlib.suppress(OSError):  # a file is finished, or all is put in place, meanwhile
        for name in [] if storage.is_remote(plan.staging_dir) else storage.list_dir(plan.staging_dir):
            if name not in others:
                found += storage.size(storage.join(plan.staging_dir, name))
    return found


def finish(plan: ExportPlan, written: Sequence[WrittenFile]) -> str:
    """Puts an export in its place and returns its directory; done again by the same run it only tidies up.

    Raises:
        LostExamplesError: the files do not hold just the examples that were planned.
        PathExistsError: something came into its place meanwhile, or another run has reserved it.
        AbandonedError: this run was given up.
    """
    files = _checked(plan, written)
    texts = _metadata(plan, files)
    if _is_done(plan, texts[EXPORT_FILE]):
        storage.remove_tree(plan.staging_dir)  # an engine that ran all again has staged all again
        return plan.directory
    folder = new_dir(plan.staging_dir)
    for name, text in texts.items():
        storage.write_bytes(storage.join(folder, name), text)
    chosen = [file for split in files.values() for file in split]
    if not storage.is_remote(plan.directory):
        for name in {*storage.list_dir(plan.staging_dir)} - {*texts, *(file.filename for file in chosen)}:
            storage.remove(storage.join(plan.staging_dir, name))
        _rename_in_place(plan)
        return plan.directory
    staged = [(storage.join(folder, name), len(text), crc32c.crc32c(text)) for name, text in texts.items()]
    staged += [(file.path, file.num_bytes, file.crc32c) for file in chosen]
    root = len(plan.staging_dir) + 1
    named = [runs.StagedFile(storage.basename(path), path[root:], *facts) for path, *facts in staged]
    try:
        decision = runs.decide(plan.run, named, hashlib.sha256(texts[EXPORT_FILE]).hexdigest())
        runs.commit_all(plan.run, decision)
        runs.complete(plan.run, decision)
    except AlreadyPublishedError as error:
        if not _is_done(plan, texts[EXPORT_FILE]):
            raise PathExistsError(str(error)) from None
    return plan.directory


def _checked(plan: ExportPlan, written: Sequence[WrittenFile]) -> dict[str, list[WrittenFile]]:
    """Returns the files of each split in order, having seen that all are there, once, and complete."""
    files = {}
    for split in plan.splits:
        own = sorted((file for file in written if file.split == split.name), key=lambda file: file.number)
        found = sum(file.num_examples for file in own)
        if [file.number for file in own] != list(range(split.num_shards)) or found != split.num_examples:
            raise LostExamplesError(
                f"split {split.name!r}: {len(own)} files with {found} examples were written, planned were "
                f"{split.num_shards} with {split.num_examples}. The engine lost or doubled some; run it again."
            )
        files[split.name] = own
    return files


def _metadata(plan: ExportPlan, files: Mapping[str, Sequence[WrittenFile]]) -> dict[str, bytes]:
    """Returns {file name: content} of what describes the export."""
    texts = {EXPORT_FILE: _json(_description(plan, files))}
    if isinstance(plan.format, ArrayRecord):  # the files that TensorFlow Datasets reads
        tree, info = plan.info.features, plan.info.replace(file_format=FILE_FORMAT, alternative_file_formats=())
        lengths = {name: [file.num_examples for file in split] for name, split in files.items()}
        sizes = {split.name: (lengths[split.name], split.num_bytes) for split in plan.splits}
        texts["dataset_info.json"] = info.to_json_text(sizes).encode()
        texts["features.json"] = feature_trees.to_json_text(tree).encode()
        texts |= {name: text.encode() for name, text in tree.label_files().items()}
    return texts


def _description(plan: ExportPlan, files: Mapping[str, Sequence[WrittenFile]]) -> dict[str, Any]:
    columns = {
        name: {
            "filenames": [file.filename for file in split],
            "num_examples": [file.num_examples for file in split],
            "num_bytes": [file.num_bytes for file in split],
            "crc32c": [f"{file.crc32c:08x}" for file in split],
        }
        for name, split in files.items()
    }
    return {
        "format_version": FORMAT_VERSION,
        "format": plan.format.name,
        "options": plan.options,
        "splits": columns,
        "source": _source(plan),
        "features": plan.info.features.to_json(),
        "class_names": {
            name.removesuffix(".labels.txt"): parse_names(text)
            for name, text in plan.info.features.label_files().items()
        },
    }


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    lists = re.compile(r"\[\n *([^\[\]]*)\n *\]")  # of values: they stand on one line (a string has no line break)
    return lists.sub(lambda found: re.sub(r"\n *", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text).encode()


def _is_done(plan: ExportPlan, description: bytes) -> bool:
    """Returns whether this export stands in its place already: its last step was done before."""
    path = storage.join(plan.directory, EXPORT_FILE)
    return storage.exists(path) and storage.read_bytes(path) == description


def _source(plan: ExportPlan) -> dict[str, Any]:
    """Returns what `_export.json` says of where the examples come from: as a manifest does, but for their keys."""
    splits = {name: replace(split, keys=None) for name, split in plan.lineage.splits.items()}
    return replace(plan.lineage, splits=splits).to_json()


def _rename_in_place(plan: ExportPlan) -> None:
    try:
        storage.rename_dir(plan.staging_dir, plan.directory)
    except FileExistsError:
        check_free(plan.directory)
        raise
