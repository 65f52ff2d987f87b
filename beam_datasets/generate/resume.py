"""What a failed run leaves for `--resume`, how a later run finds it, and whether it may be used.

`units` has the records of encoded units; those of staged shards are here.

A run that spills its payload writes `resume.json` into its spill directory when it starts: the fingerprint of all that
decides which bytes a unit is encoded to. A later run has an id and directories of its own. It reads the checkpoints of
earlier runs in place, and deletes these runs' directories when the version is published.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import pickle
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets import __version__, storage
from beam_datasets.errors import ResumeError, StorageError
from beam_datasets.features import FeatureConnector, to_json_text
from beam_datasets.generate import runs
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.plan import Plan
from beam_datasets.generate.runs import SHARDS_SUFFIX, SPILL_SUFFIX, has_units
from beam_datasets.generate.shard_writer import Destination, WrittenShard

RESUME_FILE = "resume.json"
KEEP_SECONDS = 60.0
"""A run that fails after so many seconds keeps its finished units; one that was started with --resume always does."""
CHANGED = "changed"
"""Value of the option `resume` that accepts units of a builder that has changed since."""

_MAX_TEXT = 100  # characters of an argument in the fingerprint
_CODECS = ("imagecodecs", "pillow", "numpy")
_PROGRAMS = {
    "/beam-datasets": "beam-datasets",
    "/beam_datasets/cli/__main__.py": "beam-datasets",
    "/beam_datasets/beam/main.py": "python -m beam_datasets.beam.main",
}
_SECRETS = ("secret", "access_key", "token", "password", "--storage")


@dataclass(frozen=True)
class Resumable:
    """The content of resume.json.

    Attributes:
        target: the version's directory, as URL without options.
        fingerprint: what decides the bytes of units -> its value or digest.
        accepted: digests of other fingerprints whose units the user has said to be valid.
        always: whether units are kept however early the run fails.
        command: that starts the run again, for messages; None if it is unknown or contains credentials.
    """

    target: str
    fingerprint: Mapping[str, str]
    accepted: Sequence[str] = ()
    always: bool = False
    command: str | None = None

    @property
    def digest(self) -> str:
        """Identifies the fingerprint."""
        return hashlib.sha256(json.dumps(self.fingerprint, sort_keys=True).encode()).hexdigest()[:32]

    def save(self, spill_dir: str) -> None:
        """Writes resume.json."""
        content = json.dumps(dataclasses.asdict(self), indent=1)
        storage.write_bytes(storage.join(spill_dir, RESUME_FILE), content.encode())

    @classmethod
    def load(cls, spill_dir: str) -> Resumable | None:
        """Returns the content of resume.json; None if it is missing or damaged."""
        try:
            return cls(**json.loads(storage.read_bytes(storage.join(spill_dir, RESUME_FILE))))
        except (StorageError, ValueError, TypeError):
            return None


@dataclass(frozen=True)
class Attempt:
    """An earlier run of the same version.

    Attributes:
        job: the run's id.
        staging_dir: its staging directory, which need not exist any more.
        spill_dir: its spill directory.
    """

    job: str
    staging_dir: str
    spill_dir: str

    def remove(self) -> None:
        """Deletes its files."""
        for directory in (self.spill_dir, self.staging_dir):
            storage.remove_tree(directory)


def fingerprint(builder: Any) -> dict[str, str]:
    """Returns what decides the bytes to which a builder's units are encoded: code, arguments, features, libraries."""
    cached = {name for kind in type(builder).__mro__ for name, value in vars(kind).items() if _is_cached(value)}
    # Where files are does not decide what is in them.
    left_out = {*cached, "_root", "_downloads", "_download_root", "download_size"}
    arguments = {name: _text(value) for name, value in vars(builder).items() if name not in left_out}
    features = builder.info.features  # of a wrong type, the encoder refuses them
    schema = to_json_text(features) if isinstance(features, FeatureConnector) else repr(features)
    libraries = {name: version for name in _CODECS if (version := _version(name))}
    return {
        "beam_datasets": __version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        **{f"library {name}": version for name, version in libraries.items()},
        "features": _digest(schema.encode()),
        "disable_shuffling": str(builder.info.disable_shuffling),
        **{f"code of {name}": digest for name, digest in _modules(type(builder))},
        **{f"argument {name.lstrip('_')}": text for name, text in arguments.items()},
    }


def _is_cached(value: Any) -> bool:
    return isinstance(value, functools.cached_property)


def _modules(kind: type) -> Iterator[tuple[str, str]]:
    """Yields (module, digest of its source) of a class and its bases outside of this package."""
    for module in dict.fromkeys(each.__module__ for each in kind.__mro__):
        if module.partition(".")[0] in ("builtins", "abc", "typing", "beam_datasets"):
            continue
        try:
            source = inspect.getsource(sys.modules[module])
        except (OSError, TypeError, KeyError):  # as of a class that was typed into an interpreter
            source = f"unknown, process {os.getpid()} at {time.time()}"  # differs from every other
        yield module, _digest(source.encode())


def _text(value: Any) -> str:
    """Returns a text that differs for values that differ, and is equal in every process for equal plain values."""
    plain = _plain(value)
    return plain if len(plain) <= _MAX_TEXT else f"{plain[:_MAX_TEXT]}... {_digest(plain.encode())}"


def _plain(value: Any) -> str:
    if isinstance(value, enum.Enum) or value is None or isinstance(value, (str, int, float, bool, bytes, os.PathLike)):
        return str(value) if isinstance(value, os.PathLike) else repr(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_plain(key)}: {_plain(item)}' for key, item in value.items())}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (f"{field.name}={_plain(getattr(value, field.name, None))}" for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    try:
        return f"{type(value).__name__} {_digest(pickle.dumps(value))}"
    except Exception:  # whatever the value's own code raises
        return f"{type(value).__name__} of process {os.getpid()} at {time.time()}"  # differs from every other


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def find_attempts(own: Resumable, run: runs.Run, resume: bool | str) -> tuple[list[Attempt], Resumable]:
    """Returns the earlier runs whose finished units may be used, and `own` with the fingerprints that it accepts.

    Args:
        own: of the run that is about to start.
        run: that run. Directories of earlier runs are beside its own.
        resume: 'changed' accepts units of a builder that has changed since.

    Raises:
        ResumeError: the builder has changed, or a run of this machine is still active.
    """
    attempts, accepted = [], {own.digest}
    found = list(_earlier(run))
    for attempt, earlier in found:
        owner = Owner.read(attempt.spill_dir) or Owner.read(attempt.staging_dir)
        if owner is not None and owner.is_here and owner.is_running and owner.is_local:
            raise ResumeError(f"{own.target}: run {attempt.job} ({owner.text}) is still active. Wait for its end.")
        if earlier.digest == own.digest:
            accepted.update(earlier.accepted)
        attempts.append(attempt)
    others = [earlier for _, earlier in found if earlier.digest not in accepted]
    if others and resume != CHANGED:
        changes = "\n  ".join(_changes(others[-1].fingerprint, own.fingerprint))
        raise ResumeError(
            f"{own.target}: the dataset has changed since the run that is to be resumed:\n  {changes}\nIf its finished "
            f"units are valid nevertheless: --resume {CHANGED}. To encode all anew: without --resume."
        )
    accepted.update(earlier.digest for earlier in others)
    return attempts, dataclasses.replace(own, accepted=sorted(accepted - {own.digest}))


def _earlier(run: runs.Run) -> Iterator[tuple[Attempt, Resumable]]:
    """Yields the earlier runs of a version that have finished units."""
    target = run.target
    for folder in dict.fromkeys((storage.dirname(target), storage.dirname(run.spill_dir or target))):
        for name in _names(folder):
            match = runs.STAGING_NAME.fullmatch(name)
            if match is None or match["name"] != storage.basename(target) + SPILL_SUFFIX or match["job"] == run.job:
                continue
            spill_dir = storage.join(folder, name)
            earlier = Resumable.load(spill_dir) if has_units(spill_dir) else None
            if earlier is not None and earlier.target == storage.url(target):
                yield Attempt(match["job"], runs.staging_dir(target, match["job"]), spill_dir), earlier


def _names(folder: str) -> Iterable[str]:
    try:
        return storage.list_dir(folder)
    except StorageError:
        return ()


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name, 'missing')} -> {now.get(name, 'missing')}"


def keeps_units(run: runs.Run, spill_dir: str) -> bool:
    """Returns whether the finished units of a run that has failed are to be kept."""
    resumable = Resumable.load(spill_dir)
    if resumable is None or not has_units(spill_dir):
        return False
    return resumable.always or time.time() - run.owner.started >= KEEP_SECONDS


def hint(spill_dir: str) -> str:
    """Returns how to continue a failed run."""
    found = Resumable.load(spill_dir)
    return (found and found.command) or "the same command with --resume"


def command_to_resume() -> str | None:
    """Returns the command line of this process with `--resume`; None if it is another's or contains credentials."""
    program = next((text for path, text in _PROGRAMS.items() if sys.argv[0].endswith(path)), None)
    if program is None:
        return None
    text = f"{program} {shlex.join([*sys.argv[1:], *([] if '--resume' in sys.argv else ['--resume'])])}"
    return None if any(word in text.lower() for word in _SECRETS) else text


# -------------------------------------------------------------------------------------------------------- staged shards


@dataclass(frozen=True)
class ShardRecords:
    """Where a run records what it has staged, and where earlier runs did.

    Attributes:
        spill_dir: of this run.
        earlier: spill directories of earlier runs.
        source: digest of all that decides the bytes of shards: fingerprint, names of units, options.
    """

    spill_dir: str
    earlier: Sequence[str]
    source: str

    @classmethod
    def of(cls, spill_dir: str, earlier: Sequence[str], *source: Any) -> ShardRecords:
        """Returns the records of a run, given all that decides the bytes of shards as JSON values."""
        return cls(spill_dir, earlier, hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest())

    def _name(self, number: int, plan: Plan) -> str:
        """Returns the name of the record of a group's files, which depends on all that decides their content."""
        group = plan.group(number)
        split = plan.split(group.split)
        start = int(split.takes[: split.firsts[number - split.first_group]].sum())
        ranks = split.num_examples, split.num_shards, group.shard, group.part, group.num_parts, start, group.takes
        return hashlib.sha256(f"{self.source} {group.split} {ranks}".encode()).hexdigest()[:32] + SHARDS_SUFFIX

    def save(self, number: int, plan: Plan, written: Sequence[WrittenShard]) -> None:
        """Records the files of a group."""
        content = json.dumps([dataclasses.asdict(shard) for shard in written]).encode()
        storage.write_bytes(storage.join(self.spill_dir, self._name(number, plan)), content)

    def reuse(self, number: int, plan: Plan, destination: Destination) -> list[WrittenShard] | None:
        """Puts the files of a group that an earlier run has staged into the staging directory, and returns them.

        Returns None if there are none, or they do not have the checksums that were recorded.
        """
        name = self._name(number, plan) if self.earlier else ""
        for directory in self.earlier:
            try:
                content = json.loads(storage.read_bytes(storage.join(directory, name)))
                found = [WrittenShard(**{**shard, "requests": storage.Requests()}) for shard in content]
                if all(map(_is_whole, found)):
                    folder = storage.dirname(destination.group_path(plan.group(number)))
                    return [_taken(shard, storage.join(folder, storage.basename(shard.path))) for shard in found]
            except (StorageError, ValueError, TypeError):  # missing, damaged, or deleted in the meantime
                continue
        return None


def _is_whole(shard: WrittenShard) -> bool:
    size, checksum = runs.content_of(shard.path)
    return (size, checksum) == (shard.file_bytes, shard.crc32c) and (
        runs.content_of(f"{shard.path}.index")[1] == shard.index_crc32c
    )


def _taken(shard: WrittenShard, path: str) -> WrittenShard:
    storage.make_dirs(storage.dirname(path))
    for suffix in ("", ".index"):
        storage.remove(path + suffix)  # of an attempt of the engine before
        runs.take(shard.path + suffix, path + suffix)
    return dataclasses.replace(shard, path=path)
