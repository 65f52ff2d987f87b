"""Units of a split's source, and checkpoints of the encoded units, with which a later run continues.

A unit is one element of a source: a file, a range of a file, a day. A run that spills its payload writes a *checkpoint*
beside the blocks from time to time: the names of the units that were finished since the last one, and the blocks with
their examples and no others. Checkpoints are only created, each under a new name. So concurrent and late attempts do no
harm: of several checkpoints with a common unit, one is used.
"""

from __future__ import annotations

import contextlib
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
import struct
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from beam_datasets import storage
from beam_datasets._version import __version__
from beam_datasets.errors import (
    BeamDatasetsError,
    CorruptRecordError,
    InvalidKeyError,
    ResumeError,
    StorageError,
    without_passwords,
)
from beam_datasets.features import FeatureConnector, to_json_text
from beam_datasets.features.trees import iter_nested_features, strip_sequences
from beam_datasets.formats import tfrecord
from beam_datasets.generate import runs
from beam_datasets.generate.blocks import FileRange, SpilledBlocks, cuts, size_array
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.plan import Plan
from beam_datasets.generate.runs import CHECKPOINT_SUFFIX, SHARDS_SUFFIX, SPILL_SUFFIX, has_units
from beam_datasets.generate.shard_writer import Destination, WrittenShard
from beam_datasets.native import crc32c

MAX_NAME = 200  # characters of a unit's name
READS_AT_ONCE = 16
_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True, eq=False)
class SourceUnits:
    """A split's source that consists of independent units, such as files, which are read in parallel.

    A failed run that is started again with `--resume` reads the units that were not finished. A unit is identified by
    its `repr`, so give paths, numbers, or tuples and dataclasses of them, and let a unit's `repr` differ if its content
    does (add the size of a file, or its version).

    Attributes:
        units: arguments of `read`, which is called with each of them on a worker.
        read: unit -> iterable of (key, example), or of (key, example, split) if it chooses the split of each example.
            Splits with the same two objects as `units` and `read` are read once.
        keep: key -> whether the example belongs to the split; None for all.
    """

    units: Sequence[Any]
    read: Callable[[Any], Iterable[tuple[Any, ...]]]
    keep: Callable[[Any], bool] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.units, (str, bytes)) or not isinstance(self.units, Sequence):
            raise TypeError(f"units: expected a sequence such as a list of paths, got {self.units!r:.200}.")
        if not callable(self.read):
            raise TypeError(f"read: expected a function from a unit to (key, example) pairs, got {self.read!r:.200}.")


def pair_and_splits(
    item: Any, keeps: Mapping[str, Callable[[Any], bool] | None]
) -> tuple[tuple[Any, Any], Collection[str]]:
    """Returns ((key, example), names of the splits that the example belongs to) of an element that `read` yields.

    Args:
        item: (key, example), or (key, example, split).
        keeps: split -> its `keep`, of the splits that are read together.

    Raises:
        BeamDatasetsError: the item has another form, or its split is not one of `keeps`.

    >>> pair_and_splits(("k1", {"x": 1}), {"train": None, "test": lambda key: key == "k2"})
    (('k1', {'x': 1}), ['train'])
    """
    if type(item) is tuple and len(item) == 3:
        key, example, split = item
        if split not in keeps:
            names = ", ".join(map(repr, keeps))
            raise BeamDatasetsError(f"key {key!r:.60}: expected one of the splits {names}, got {split!r:.60}.")
        return (key, example), (split,)
    pair = pair_of(item, ", ".join(keeps))
    return pair, [split for split, keep in keeps.items() if keep is None or keep(pair[0])]


def pair_of(element: Any, split: str) -> tuple[Any, Any]:
    """Returns (key, example) of an element of a split's source.

    Raises:
        BeamDatasetsError: the element is not a pair. A dict or text of two items is not one: it is probably an example
            without its key.
    """
    try:
        if not isinstance(element, (dict, str, bytes)):
            key, example = element
            return key, example
    except (TypeError, ValueError):
        pass
    raise BeamDatasetsError(f"split {split!r}: an element is {element!r:.200}; expected a pair (key, example).")


def check_iterable(split: str, source: Any, builder: Any) -> None:
    """Checks that a builder's source is an iterable.

    Raises:
        BeamDatasetsError: it is not.
    """
    try:
        iter(source)
    except TypeError:
        raise BeamDatasetsError(
            f"{type(builder).__name__}, split {split!r}: expected an iterable of (key, example), got {source!r:.100}. "
            "Did a function forget yield or return?"
        ) from None


def iterated(split: str, builder: Any, source: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the (key, example) pairs of a builder's source.

    With `disable_shuffling`, a key that is not an integer is replaced by the position of the example, from 0.

    Args:
        split: name of the split, for errors.
        builder: the builder.
        source: an iterable of (key, example), or a function without arguments that returns one.

    Raises:
        BeamDatasetsError: the source is not an iterable or, with `disable_shuffling`, an element is not a pair.
        InvalidKeyError: a key is not an integer, and the examples will be appended to a published version, which has
            examples with these positions.
    """
    examples: Any = source() if callable(source) else source
    check_iterable(split, examples, builder)
    if not builder.info.disable_shuffling:
        yield from examples
        return
    for position, element in enumerate(examples):
        key, example = pair_of(element, split)
        is_integer = isinstance(key, (int, np.integer))
        if builder.is_appended and not is_integer:
            raise InvalidKeyError(
                f"split {split!r}: expected integer keys of what is appended with disable_shuffling, got {key!r:.60}. "
                "Its position would be the key, which published examples have. Give integer keys. If no published "
                "example has these positions, as of a new split: build the dataset, and append its directory."
            )
        yield (key if is_integer else position), example


def what_raised(error: BaseException, key: Any, count: int, split: str, unit: str = "") -> tuple[str, str]:
    """Returns two texts about an error of the code that yields examples: the error, and the last example before it.

    Args:
        error: the raised error.
        key: key of the last example before the error.
        count: number of examples that the unit, or the split without `unit`, yielded before the error.
        split: the split's name.
        unit: name of the unit that was read; '' if the split has only one unit.

    >>> what_raised(ValueError("bad"), "k3", 4, "train")
    ('ValueError: bad', "after key 'k3' (example 4 of 'train')")
    """
    location = f"unit {unit} of {split!r}" if unit else repr(split)
    message = error.args[0] if isinstance(error, KeyError) and error.args else error  # it shows the repr of its text
    return f"{type(error).__name__}: {message}", f"after key {key!r:.200} (example {count:,} of {location})"


def named_units(splits: Sequence[str], units: Sequence[Any]) -> list[tuple[str, Any]]:
    """Returns (name, unit) of all units that some splits are read from; the name has the splits and the unit's repr.

    Raises:
        BeamDatasetsError: two units have the same name.

    >>> named_units(["train", "test"], ["a.csv"])
    [("train, test: 'a.csv'", 'a.csv')]
    """
    label = ", ".join(splits)
    units_by_name = [(f"{label}: {_shorten_name(repr(unit))}", unit) for unit in units]
    name, count = Counter(name for name, _ in units_by_name).most_common(1)[0] if units_by_name else ("", 0)
    if count > 1:
        raise BeamDatasetsError(f"{name}: expected units that differ in their repr, got {count} such. Give each once.")
    return units_by_name


def _shorten_name(text: str) -> str:
    """Returns a text of at most `MAX_NAME` characters; a longer one ends with "... " and its MD5 digest."""
    if len(text) <= MAX_NAME:
        return text
    return f"{text[: MAX_NAME - 36]}... {hashlib.md5(text.encode('utf-8', 'replace')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Units that are encoded, and the blocks with all of their examples and no others.

    Attributes:
        units: names of the units.
        blocks: in one directory, each alone in its file.
        crc32c: CRC-32C of the keys and sizes of each block; its records contain their own.
        libraries: whose versions determined bytes of the examples.
    """

    units: tuple[str, ...]
    blocks: tuple[SpilledBlocks, ...]
    crc32c: tuple[int, ...]
    libraries: tuple[str, ...] = ()

    def save(self, directory: str) -> None:
        """Writes the checkpoint into the directory of its blocks, atomically, under a new name."""
        blocks = [
            {**asdict(block), "path": storage.basename(block.path), "crc32c": crc}
            for block, crc in zip(self.blocks, self.crc32c, strict=True)
        ]
        content = {"units": self.units, "blocks": blocks, "libraries": self.libraries}
        name = f"{uuid.uuid4().hex}-{len(self.units)}{CHECKPOINT_SUFFIX}"  # `progress.measure` reads the number
        storage.write_bytes(storage.join(directory, name), json.dumps(content).encode())

    @classmethod
    def load(cls, path: str) -> Checkpoint | None:
        """Returns the checkpoint of a file; None if it is damaged or deleted."""
        folder = storage.dirname(path)
        try:
            content = json.loads(storage.read_bytes(path))
            checksums = [block.pop("crc32c") for block in content["blocks"]]
            blocks = [SpilledBlocks(**block) for block in content["blocks"]]
            return cls(
                tuple(content["units"]),
                tuple(replace(block, path=storage.join(folder, block.path)) for block in blocks),
                tuple(checksums),
                tuple(content["libraries"]),
            )
        except (StorageError, ValueError, KeyError, TypeError):
            return None

    @property
    def is_whole(self) -> bool:
        """Whether the checksums of all keys, sizes and records of its blocks are right; reads all of them."""
        try:
            return all(_is_whole(block, crc) for block, crc in zip(self.blocks, self.crc32c, strict=True))
        except (StorageError, CorruptRecordError, ValueError, struct.error):
            return False


def checksum(keys: bytes, sizes: bytes) -> int:
    """Returns the CRC-32C of a block's keys and sizes, as a checkpoint records it."""
    return crc32c(sizes, crc32c(keys))


def _is_whole(blocks: SpilledBlocks, crc: int) -> bool:
    """Returns whether a block's keys and sizes match their CRC-32C, after checking all records, a chunk at a time.

    Raises:
        CorruptRecordError: a record is damaged.
    """
    (block,) = blocks.load()
    if checksum(block.keys, block.sizes) != crc or not isinstance(block.payload, FileRange):
        return False
    sizes = size_array(block.sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for first, stop in cuts(sizes, _CHUNK_BYTES):
        start, end = starts[[first, stop]].tolist()
        tfrecord.scan(
            block.payload.read(start, end), path=block.path, offset=block.payload.start + start, first_record=first
        )
    return int(starts[-1]) == len(block.payload)


def load_checkpoints(directories: Iterable[str]) -> list[Checkpoint]:
    """Returns the readable checkpoints in these directories."""
    all_paths = [
        storage.join(directory, name) for directory in directories for name in sorted(runs.names_in(directory))
    ]
    paths = [path for path in all_paths if path.endswith(CHECKPOINT_SUFFIX)]
    with ThreadPoolExecutor(READS_AT_ONCE) as executor:
        return [checkpoint for checkpoint in executor.map(Checkpoint.load, paths) if checkpoint is not None]


def choose(checkpoints: Iterable[Checkpoint], units: Collection[str]) -> list[Checkpoint]:
    """Returns checkpoints that have only requested units, and no unit twice; prefers those with many units."""
    remaining_units, selected = set(units), []
    for checkpoint in sorted(checkpoints, key=lambda each: (-len(each.units), each.units)):
        if checkpoint.units and remaining_units.issuperset(checkpoint.units):
            remaining_units.difference_update(checkpoint.units)
            selected.append(checkpoint)
    return selected


def read_together(sources: Mapping[str, SourceUnits]) -> list[list[str]]:
    """Returns lists of splits with the same units and function to read them, so that each list is read once."""
    together: dict[tuple[int, int], list[str]] = {}
    for split, source in sources.items():
        together.setdefault((id(source.units), id(source.read)), []).append(split)
    return list(together.values())


# ---------------------------------------------------------------------------------------------- continuing a failed run

# What a failed run leaves for `--resume`, how a later run finds it, and whether it may be used.
# A run that spills its payload writes `resume.json` into its spill directory when it starts: the fingerprint of all
# that decides which bytes a unit is encoded to. A later run has an id and directories of its own. It reads the
# checkpoints of earlier runs in place, and deletes these runs' directories when the version is published.

RESUME_FILE = "resume.json"
KEEP_SECONDS = 60.0
"""A run that fails after more seconds keeps its finished units; one that was started with --resume always does."""
CHANGED = "changed"
"""Value of the option `resume` that accepts units of a builder that has changed since."""

_MAX_TEXT = 100  # characters of an argument in the fingerprint
_CODECS = ("imagecodecs", "pillow", "numpy")
_PROGRAMS = {
    "/beam-datasets": "beam-datasets",
    "/beam_datasets/cli/__main__.py": "beam-datasets",
    "/beam_datasets/beam/main.py": "python -m beam_datasets.beam.main",
}
_SECRETS = (
    "secret",
    "access_key",
    "account_key",
    "api_key",
    "apikey",
    "private_key",
    "token",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "credential",
    "storage_options",
    "--storage",
)


@dataclass(frozen=True)
class Resumable:
    """The content of resume.json.

    Attributes:
        target: the version's directory, as URL without options.
        fingerprint: {name of an input that decides the bytes of units: its value or digest}.
        accepted: digests of other fingerprints whose units the user has said to be valid.
        always: whether units are kept however early the run fails.
        command: the command that starts the run again, for messages; None if it is unknown or contains credentials.
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
    """Returns {name: text} of everything that affects the encoded bytes of a builder's units.

    The names are `beam_datasets`, `python`, `library <name>` (versions), `features`, `code of <module>` (digests),
    `disable_shuffling`, and `argument <name>` of the builder (texts of their values; of one such as `api_token`, and of
    an entry such as `{"api_token": ...}`, only a digest, because resume.json stays on the disk if the run is killed).
    Paths are left out.
    """
    # Where files are does not decide what is in them, nor does the way in which the version was asked for.
    excluded_names = {"_root", "_downloads", "_download_root", "download_size", "requested_version"}
    for kind in type(builder).__mro__:
        attributes = vars(kind).items()
        excluded_names.update(name for name, value in attributes if isinstance(value, functools.cached_property))
    features = builder.info.features  # of a wrong type, the encoder refuses them
    schema = to_json_text(features) if isinstance(features, FeatureConnector) else repr(features)
    facts = {"beam_datasets": __version__, "python": ".".join(map(str, sys.version_info[:2]))}
    for library in _CODECS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            facts[f"library {library}"] = importlib.metadata.version(library)
    facts["features"] = _digest(schema.encode())
    facts["disable_shuffling"] = str(builder.info.disable_shuffling)
    classes = {type(builder)}
    for _, _, feature in iter_nested_features(features):
        connector = strip_sequences(feature)
        classes.add(type(getattr(connector, "connector", connector)))
    for kind in classes:
        for module, digest in _modules(kind):
            facts[f"code of {module}"] = digest
    for name, value in vars(builder).items():
        if name not in excluded_names:
            text = _digest(_describe_contents(value).encode()) if _is_secret(name) else _describe_value(value)
            facts[f"argument {name.lstrip('_')}"] = text
    return facts


def _is_secret(name: str) -> bool:
    """Returns whether the name of an argument or an option is that of a credential."""
    return any(word in name.lower() for word in _SECRETS)


def _modules(kind: type) -> Iterator[tuple[str, str]]:
    """Yields (name of a module, digest of its source) for a class and its bases outside of this package.

    The digest is 16 hexadecimal digits; of a module without source, a text that differs from every other.
    """
    for module in dict.fromkeys(each.__module__ for each in kind.__mro__):
        if module.partition(".")[0] in ("builtins", "abc", "typing", "beam_datasets"):
            continue
        try:
            source = inspect.getsource(sys.modules[module])
        except (OSError, TypeError, KeyError):  # as of a class that was typed into an interpreter
            source = f"unknown, process {os.getpid()} at {time.time()}"  # differs from every other
        yield module, _digest(source.encode())


def _describe_value(value: Any) -> str:
    """Returns a text that differs for values that differ, and is equal in every process for equal plain values.

    A text of more than `_MAX_TEXT` characters is cut, and one with the password of a URL, or with a value whose name is
    that of a credential, lacks it; both end with the digest of the whole text.

    >>> _describe_value({"a": [1, "x"], "b": {2, 1}})
    "{'a': [1, 'x'], 'b': {1, 2}}"
    >>> _describe_value([{"api_token": "123"}])
    "[{'api_token': ***}]... c22a2ee0260a62fe"
    """
    plain = _describe_contents(value)
    text = without_passwords(_describe_contents(value, with_secrets=False))
    if text == plain and len(plain) <= _MAX_TEXT:
        return plain
    return f"{text[:_MAX_TEXT]}... {_digest(plain.encode())}"


def _describe_contents(value: Any, name: Any = None, *, with_secrets: bool = True) -> str:
    """Returns a text for the value and its contents, such as "Point(x=1)" for a dataclass.

    The text of another object contains the digest of its pickle; if it cannot be pickled, the text differs from every
    other.

    Args:
        value: the value.
        name: its name: the key in a dict, the name of a field, or the first item of a pair, as of headers of HTTP;
            None if it has none.
        with_secrets: whether values whose names are those of credentials are described, in place of "***".
    """
    if not with_secrets and isinstance(name, str) and _is_secret(name):
        return "***"
    if isinstance(value, enum.Enum) or value is None or isinstance(value, (str, int, float, bool, bytes, os.PathLike)):
        return str(value) if isinstance(value, os.PathLike) else repr(value)
    parts: list[tuple[Any, Any]]  # name, value
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        parts = [(None, value[0]), (value[0], value[1])]
    elif isinstance(value, (set, frozenset, list, tuple)):
        parts = [(None, item) for item in value]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    else:
        return _describe_object(value)
    texts = []
    for part_name, part in parts:  # a loop needs one call for each level: values may be hundreds of levels deep
        texts.append(_describe_contents(part, part_name, with_secrets=with_secrets))
    if isinstance(value, Mapping):
        keys = [_describe_contents(key, with_secrets=with_secrets) for key in value]
        return f"{{{', '.join(f'{key}: {text}' for key, text in zip(keys, texts))}}}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(texts))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(texts)}]"
    return f"{type(value).__name__}({', '.join(f'{name}={text}' for (name, _), text in zip(parts, texts))})"


def _describe_object(value: Any) -> str:
    """Returns a text with the digest of the pickle of an object; one that differs from every other if it has none."""
    try:
        return f"{type(value).__name__} {_digest(pickle.dumps(value))}"
    except Exception:  # whatever the value's own code raises
        return f"{type(value).__name__} of process {os.getpid()} at {time.time()}"  # differs from every other


def _digest(content: bytes) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 digest."""
    return hashlib.sha256(content).hexdigest()[:16]


def find_attempts(resumable: Resumable, run: runs.Run, resume: bool | str) -> tuple[list[Attempt], Resumable]:
    """Returns the earlier runs whose finished units may be used, and `resumable` with the fingerprints that it accepts.

    Args:
        resumable: units of the run that is about to start.
        run: the run that is about to start. Directories of earlier runs are beside its own.
        resume: 'changed' accepts units of a builder that has changed since.

    Raises:
        ResumeError: the builder has changed, or a run of this machine is still active.
    """
    attempts, accepted = [], {resumable.digest}
    earlier_runs = list(_find_earlier_runs(run))
    for attempt, earlier in earlier_runs:
        owner = Owner.read(attempt.spill_dir) or Owner.read(attempt.staging_dir)
        if owner is not None and owner.is_here and owner.is_running and owner.is_local:
            raise ResumeError(
                f"{resumable.target}: run {attempt.job} ({owner.text}) is still active. Wait for its end."
            )
        if earlier.digest == resumable.digest:
            accepted.update(earlier.accepted)
        attempts.append(attempt)
    changed_runs = [earlier for _, earlier in earlier_runs if earlier.digest not in accepted]
    if changed_runs and resume != CHANGED:
        changes = "\n  ".join(_describe_changes(changed_runs[-1].fingerprint, resumable.fingerprint))
        raise ResumeError(
            f"{resumable.target}: the dataset has changed since the run that is to be resumed:\n  {changes}\n"
            f"If its finished units are valid nevertheless: --resume {CHANGED}. To encode all anew: without --resume."
        )
    accepted.update(earlier.digest for earlier in changed_runs)
    return attempts, dataclasses.replace(resumable, accepted=sorted(accepted - {resumable.digest}))


def _find_earlier_runs(run: runs.Run) -> Iterator[tuple[Attempt, Resumable]]:
    """Yields the earlier runs of a version that have finished units."""
    target = run.target
    for folder in dict.fromkeys((storage.dirname(target), storage.dirname(run.spill_dir or target))):
        for name in runs.names_in(folder):
            match = runs.STAGING_NAME.fullmatch(name)
            if match is None or match["name"] != storage.basename(target) + SPILL_SUFFIX or match["job"] == run.job:
                continue
            spill_dir = storage.join(folder, name)
            earlier = Resumable.load(spill_dir) if has_units(spill_dir) else None
            if earlier is not None and earlier.target == storage.url(target):
                yield Attempt(match["job"], runs.staging_dir(target, match["job"]), spill_dir), earlier


def _describe_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yields a line "name: old -> new" for each name whose value differs; "missing" is the value of an absent name."""
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'missing')} -> {new.get(name, 'missing')}"


def keeps_units(run: runs.Run, spill_dir: str) -> bool:
    """Returns whether the finished units of a run that has failed are to be kept."""
    resumable = Resumable.load(spill_dir)
    if resumable is None or not has_units(spill_dir):
        return False
    return resumable.always or time.time() - run.owner.started >= KEEP_SECONDS


def hint(spill_dir: str) -> str:
    """Returns the command that continues a failed run, in words if it is not known."""
    resumable = Resumable.load(spill_dir)
    return (resumable and resumable.command) or "the same command with --resume"


def command_to_resume() -> str | None:
    """Returns the command line of this process with `--resume`; None if it is another's or contains credentials."""
    program = next((text for path, text in _PROGRAMS.items() if sys.argv[0].endswith(path)), None)
    if program is None:
        return None
    text = f"{program} {shlex.join([*sys.argv[1:], *([] if '--resume' in sys.argv else ['--resume'])])}"
    return None if _is_secret(text) or without_passwords(text) != text else text


# -------------------------------------------------------------------------------------------------------- staged shards


@dataclass(frozen=True)
class ShardRecords:
    """Location of this run's record of staged shards, and of those of earlier runs.

    Attributes:
        spill_dir: spill directory of this run.
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
        start = int(split.takes[: number - split.first_group].sum())
        ranks = split.num_examples, split.num_shards, group.shard, group.part, group.num_parts, start, group.take
        return hashlib.sha256(f"{self.source} {group.split} {ranks}".encode()).hexdigest()[:32] + SHARDS_SUFFIX

    def save(self, number: int, plan: Plan, shard: WrittenShard) -> None:
        """Records the file of a group.

        Args:
            number: number of the group in the plan.
            plan: the plan.
            shard: the file.
        """
        content = json.dumps(dataclasses.asdict(shard)).encode()
        storage.write_bytes(storage.join(self.spill_dir, self._name(number, plan)), content)

    def reuse(self, number: int, plan: Plan, destination: Destination) -> WrittenShard | None:
        """Puts the file of a group that an earlier run has staged into the staging directory, and returns it.

        Returns None if there is none, or it does not have the checksums that were recorded.

        Args:
            number: number of the group in the plan.
            plan: the plan.
            destination: the staging directory of this run.
        """
        name = self._name(number, plan) if self.earlier else ""
        for directory in self.earlier:
            try:
                content = json.loads(storage.read_bytes(storage.join(directory, name)))
                shard = WrittenShard(**{**content, "requests": storage.Requests()})
                if _is_staged(shard):
                    return _take_shard(shard, destination.group_path(plan.group(number)))
            except (StorageError, ValueError, TypeError):  # missing, damaged, or deleted in the meantime
                continue
        return None


def _is_staged(shard: WrittenShard) -> bool:
    """Returns whether a shard and its index are in the staging directory with the recorded size and checksums.

    Raises:
        StorageError: a file does not exist or cannot be read.
    """
    size, checksum = runs.content_of(shard.path)
    return (size, checksum) == (shard.file_bytes, shard.crc32c) and (
        runs.content_of(f"{shard.path}.index")[1] == shard.index_crc32c
    )


def _take_shard(shard: WrittenShard, path: str) -> WrittenShard:
    """Links or copies a shard and its index of a previous run to a path; returns the shard with this path."""
    storage.make_dirs(storage.dirname(path))
    for suffix in ("", ".index"):
        storage.remove(path + suffix)  # of an attempt of the engine before
        runs.take(shard.path + suffix, path + suffix)
    return dataclasses.replace(shard, path=path)
