"""`adopt`: makes a dataset of TFRecord files without metadata, after checking every record."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import posixpath
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets import features as feature_trees
from beam_datasets.advice import names_foreign_arguments
from beam_datasets.errors import (
    AlreadyPublishedError,
    BeamDatasetsError,
    CorruptRecordError,
    FeatureError,
    FeatureValueError,
    InputError,
    StorageError,
)
from beam_datasets.features.base import to_feature
from beam_datasets.formats import tfrecord
from beam_datasets.formats.example import Buffer, ExampleError
from beam_datasets.intake.contents import HEAD_BYTES, other_content, text_format
from beam_datasets.intake.examples import check_example, has_features
from beam_datasets.intake.streams import BZIP2, GZIP, XZ, ZSTD, Codec, codec_of_content
from beam_datasets.metadata.info import INFO_FILE, DatasetIdentity, DatasetInfo
from beam_datasets.metadata.manifest import MANIFEST_FILE, Manifest, ShardColumns
from beam_datasets.metadata.names import (
    DEFAULT_FILENAME_TEMPLATE,
    NUM_DIGITS,
    RESERVED_SPLITS,
    FilenameTemplate,
    ShardFilename,
    check_dataset_name,
    check_file_name,
    check_split_name,
)
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.metadata.version import Version, VersionOrStr
from beam_datasets.publishing.content import columns_of
from beam_datasets.publishing.disk_commit import beside
from beam_datasets.publishing.shard_file import ShardFile
from beam_datasets.reading.elements.error_location import Check, block_check, decoding_check, names_check
from beam_datasets.reading.opening import ReadOnlyBuilder, builder_from_directory
from beam_datasets.reading.records.shards import INDEX_SUFFIX

if TYPE_CHECKING:
    from beam_datasets.metadata.info import InfoArguments

Path = str | os.PathLike[str]
Patterns = Path | Sequence[Path]
Write = Callable[[str, bytes], None]

_UNPACKED_BY_COMMAND = (GZIP, BZIP2, XZ, ZSTD)
"""Compression formats for which a command of the same name exists."""

_METADATA_SUFFIXES = (".json", ".txt")

_X_OF_Y = re.compile(r"(\d+)-of-(\d+)")


@names_foreign_arguments("adopt")
def adopt(
    pattern: Patterns | Mapping[str, Patterns],
    features: Any,
    *,
    name: str | None = None,
    version: VersionOrStr | None = None,
    split: str | None = None,
    data_dir: Path | None = None,
    decoders: Any = None,
    **info: Unpack[InfoArguments],
) -> ReadOnlyBuilder:
    """Makes a dataset of TFRecord files, and returns its read-only builder.

    Every record is read: its checksums must be right, and it must decode. Then an index of each file,
    dataset_info.json, features.json and manifest.json are written: beside the files, or with them in a new directory.
    Nothing that exists is overwritten, and if there is an error, nothing new remains.

    Examples are in the order of the files' names. They have no keys, so `find()` does not work.

    Args:
        pattern: the files: a path with `*`, `?` and `[...]`, or several, or {split: such patterns}.
        features: schema of the records: a FeaturesDict, a dict that means one, or the path of a features.json.
        name: name of the dataset; None takes it from names of files, or of directories, in the form of a dataset's.
        version: version of the dataset; None takes it from the name of the files' directory if that is a version, else
            it is 1.0.0.
        split: the split of the files; None takes it from their names if they contain it, else it is 'train'.
        data_dir: root of datasets, on a local disk; the files are copied to the new directory
            <data_dir>/<name>/<version>. None leaves them where they are; then one template must give their names.
        decoders: decoders of features, as in `as_dataset`; features with `decode.SkipDecoding` are not checked.
        **info: further arguments of DatasetInfo: description, supervised_keys, disable_shuffling, homepage, ...

    Raises:
        CorruptRecordError: a file is truncated or damaged, or contains other records than tf.train.Examples.
        FeatureValueError: a record does not fit the features. Both name the file, the byte offset and the record.
        InputError: a pattern matches no file, files are missing, or they cannot be adopted.
        AlreadyPublishedError: the directory contains a dataset, or part of one.
        ValueError: a name or an argument is unusable.
    """
    files = find_files(pattern, split)
    is_file = isinstance(features, (str, os.PathLike))
    tree: Any = catalog.read_features(features) if is_file else to_feature(features)
    is_new = data_dir is not None
    directory = files.directory if data_dir is None else catalog.root_dir(data_dir)
    identity = _make_identity(files, directory, name, version, new=is_new)
    info_of_dataset = DatasetInfo(builder=identity, features=tree, **info)
    checks = _Checks(names_check(tree), decoding_check(tree, decoders), block_check(tree, decoders))
    _check_free(identity.data_dir, new=is_new)
    templates = {}
    for split_name in files.splits:
        template = DEFAULT_FILENAME_TEMPLATE if is_new else _make_template(files, split_name, identity)
        templates[split_name] = FilenameTemplate(info_of_dataset.name, split_name, template=template)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_staging(identity.data_dir)) if is_new else identity.data_dir
        write = stack.enter_context(_undone_on_error())
        splits: dict[str, ShardColumns] = {}
        for split_name, paths in files.splits.items():
            targets = [storage.join(folder, file) for file in templates[split_name].filenames(len(paths))]
            shards = [
                _adopt_shard(checks, path, target).finish(split_name, number, write_index=write)
                for number, (path, target) in enumerate(zip(paths, targets))
            ]
            splits[split_name] = columns_of(shards)
        _write_metadata(info_of_dataset, templates, splits, folder, write)
    return builder_from_directory(identity.data_dir)


def _make_identity(
    files: BareFiles, directory: str, name: str | None, version: VersionOrStr | None, *, new: bool
) -> DatasetIdentity:
    """Returns the identity of the dataset, with its directory.

    Args:
        files: the files to adopt, grouped by split.
        directory: root of the new directory if `new` is True, otherwise the directory of the files.
        name: name of the dataset; None takes it from the names of the files, or from the directory above that of a
            version.
        version: version of the dataset; None takes it from the name of the files' directory if that is a version,
            otherwise '1.0.0'.
        new: whether the files are copied to <directory>/<name>/<version>; if not, they stay in `directory`.

    Returns:
        The name, the version and the directory of the dataset.
    """
    folder = storage.basename(files.directory)
    is_version = Version.is_valid(folder)
    parent_name = storage.basename(storage.dirname(files.directory)) if is_version else None
    name = name or files.dataset or parent_name
    if name is None:
        raise ValueError(
            "the names of the files do not begin with the name of a dataset, as 'digits-train.tfrecord-00000-of-00001' "
            "does. Give the name by --name (name=...)."
        )
    check_dataset_name(name)
    chosen_version = Version(version or (folder if is_version else "1.0.0"))
    if is_version and not new and chosen_version != Version(folder):
        raise ValueError(
            f"version is {chosen_version}, but the files are in {directory}: give no other version than {folder}."
        )
    return DatasetIdentity(
        name, chosen_version, storage.join(directory, name, str(chosen_version)) if new else directory
    )


def _make_template(files: BareFiles, split: str, identity: DatasetIdentity) -> str:
    """Returns the template of the names of a split's files, relative to the data_dir; see `FilenameTemplate`.

    Raises:
        InputError: no template describes the names.
    """
    template = files.template(split, identity.name, identity.data_dir)
    if template is None:
        paths = files.splits[split]
        raise InputError(
            f"split {split!r}: dataset_info.json names files by a template with five-digit numbers, and there is none "
            f"for {paths[0]} ... {paths[-1]}. Give --data_dir (data_dir=...) for a directory of its own with usual "
            "names."
        )
    return template


def _check_free(directory: str, *, new: bool) -> None:
    """Checks that a dataset can be made in a directory.

    Args:
        directory: the directory.
        new: whether the directory is created; otherwise it has the files, and must have no metadata.

    Raises:
        StorageError: a directory to create is not local.
        AlreadyPublishedError: the directory contains metadata or, if it is to be created, any file.
    """
    if new and storage.is_remote(directory):
        raise StorageError(f"{directory} is not local: adopt() makes directories on local disks only; upload it after.")
    names = storage.list_dir(directory, missing_ok=True)
    existing = set(names) if new else {INFO_FILE, catalog.FEATURES_FILE, MANIFEST_FILE}.intersection(names)
    if existing:
        raise AlreadyPublishedError(
            f"{storage.join(directory, min(existing))} is there already. adopt() overwrites nothing, for a published "
            "version never changes: move it away, or give another version or data_dir."
        )


# --------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class _Checks:
    """Functions that check the records of a file.

    Attributes:
        names: checks the names of the features in a record.
        decodes: checks that a record decodes.
        block: returns whether records all decode; None if only `decodes` can tell.
    """

    names: Check
    decodes: Check
    block: Callable[[list[Buffer]], bool] | None

    def are_good(self, records: list[bytes]) -> bool:
        """Returns whether all records are Examples and pass the check of a block; if not, check them one by one."""
        try:
            for record in records if self.block is not None else ():
                check_example(record)
        except ExampleError:
            return False
        return self.block is not None and self.block(records)  # type: ignore[arg-type]


def _adopt_shard(checks: _Checks, path: str, target: str) -> ShardFile:
    """Checks a file and copies it to `target`; returns the shard, whose index is not written yet.

    Args:
        checks: checks of its records.
        path: path of the TFRecord file.
        target: path of the shard; equal to `path` if the file stays where it is.
    """
    count, is_empty = 0, True
    with storage.open_reader(path) as reader, ShardFile(target, exists=path == target) as shard_file:
        for chunk in _read_checked(reader, path):
            records = chunk.records()
            _check_records(checks, path, chunk, records)
            is_empty = is_empty and not any(map(has_features, records))
            count += len(records)
            shard_file.write([chunk.buffer])
            shard_file.add_to_index(np.diff(chunk.offsets), None)
    if is_empty and count:
        raise InputError(expected="tf.train.Examples with features", got=f"none in any of {count} records.", path=path)
    return shard_file


def _read_checked(reader: storage.Reader, path: str) -> Iterator[tfrecord.Chunk]:
    """Yields the checked chunks of a file.

    Raises:
        InputError: the file is compressed, or of another format that is known.
        CorruptRecordError: a record is damaged; the error proposes no repair, because the file was never published.
    """
    try:
        yield from tfrecord.scan_file(reader, path)
    except CorruptRecordError as error:
        head = bytes(reader.read(0, min(HEAD_BYTES, reader.size))) if error.offset == 0 else b""
        is_other = bool(head) and bool(tfrecord.find_signature_problem(head))
        if is_other and (other := other_content(head) or text_format(head)):
            raise InputError(expected="a TFRecord file", got=f"{other}.", path=path) from error
        codec = codec_of_content(head)
        if codec is not None:
            raise InputError(
                f"{path} is compressed by {codec.name}; a dataset's shards are not. {_way_to_unpack(path, codec)}"
            ) from error
        # it is no dataset yet, which could be repaired
        raise CorruptRecordError(
            error.problem, path=path, offset=error.offset, record=error.record, repairable=False
        ) from None


def _way_to_unpack(path: str, codec: Codec) -> str:
    """Returns advice for a compressed TFRecord file: the command that unpacks it, and the one that reads it as it is.

    Args:
        path: path of the file.
        codec: its compression format.
    """
    name = storage.basename(path)
    suffix = next((each for each in codec.suffixes if name.lower().endswith(each)), "")
    target = shlex.quote(f"unpacked/{name[: len(name) - len(suffix)]}")
    command = f"`beam-datasets build tfrecord --name NAME --pattern {shlex.quote(path)}`"
    build = f"uild a shuffled dataset of such files: {command}"
    if codec not in _UNPACKED_BY_COMMAND or storage.is_remote(path):
        return f"B{build}."
    return f"Unpack it: `mkdir -p unpacked && {codec.name} -dc {shlex.quote(path)} > {target}`. Or b{build}."


def _check_records(checks: _Checks, path: str, chunk: tfrecord.Chunk, records: list[bytes]) -> None:
    """Checks the names of the features in a file's first record, and that each record of a chunk decodes as a whole.

    Args:
        checks: checks of the records.
        path: path of the file, for errors.
        chunk: the chunk, with its position in the file.
        records: the records of the chunk, without framing.

    Raises:
        CorruptRecordError, FeatureValueError: one is not an example of the dataset; the error names the place.
    """
    number = 0
    try:
        if not chunk.first_record:
            check_example(records[0])
            checks.names(records[0])
        if checks.are_good(records):
            return
        for number, record in enumerate(records):  # noqa: B007 - the error names it
            check_example(record)
            checks.decodes(record)
    except (ExampleError, FeatureError) as error:
        offset, number = chunk.start + int(chunk.offsets[number]), chunk.first_record + number
        if isinstance(error, ExampleError):
            problem = f"the record is not a tf.train.Example: {error}"
            raise CorruptRecordError(problem, path=path, offset=offset, record=number, repairable=False) from error
        raise FeatureValueError(
            f"{path}, byte {offset} (record {number}): the record does not fit the features: {error}"
        ) from error


# ------------------------------------------------------------------------------------------------------------ metadata


@contextlib.contextmanager
def _undone_on_error() -> Iterator[Write]:
    """Provides a function that creates files; if an error follows, it removes those that it created."""
    paths: list[str] = []

    def write(path: str, data: bytes) -> None:
        """Creates a file, unless it exists with the same content.

        Raises:
            AlreadyPublishedError: the file exists with other content.
        """
        try:
            storage.create_bytes(path, data)
        except FileExistsError:
            if storage.read_bytes(path) != data:
                raise AlreadyPublishedError(f"{path} is there already, and adopt() overwrites nothing.") from None
        else:
            paths.append(path)

    try:
        yield write
    except BaseException:
        for path in reversed(paths):
            storage.remove(path)
        raise


@contextlib.contextmanager
def _staging(directory: str) -> Iterator[str]:
    """Provides a directory that is renamed to `directory` at the end; if an error occurs, it is removed."""
    with storage.empty_new_dirs_removed(directory), beside(directory) as folder:
        staging = storage.join(folder, storage.basename(directory))
        storage.make_dirs(staging)
        yield staging
        storage.rename_dir(staging, directory)


def _write_metadata(
    info: DatasetInfo,
    templates: Mapping[str, FilenameTemplate],
    splits: Mapping[str, ShardColumns],
    directory: str,
    write: Write,
) -> None:
    """Writes the metadata; the last file makes the directory a published dataset.

    Args:
        info: description of the dataset, without splits.
        templates: split -> template of the names of its shards.
        splits: split -> facts about its shards.
        directory: directory of the files, which may be a staging directory.
        write: function (path, content) that writes a file.
    """
    split_infos = [
        SplitInfo(name, list(c.num_examples), sum(c.num_bytes), templates[name]) for name, c in splits.items()
    ]
    complete_info = info.replace(splits=SplitDict(split_infos))
    texts = {
        **complete_info.extra_files(),
        **complete_info.features.label_files(),
        catalog.FEATURES_FILE: feature_trees.to_json_text(complete_info.features),
        INFO_FILE: complete_info.to_json_text(),
    }
    contents = {check_file_name(name): text.encode() for name, text in texts.items()}
    manifest = Manifest(
        name=complete_info.name,
        config=None,
        version=str(complete_info.version),
        splits=splits,
        metadata={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
        builder=f"{__name__}:adopt",
    )
    for name, content in {MANIFEST_FILE: manifest.to_text().encode(), **contents}.items():
        write(storage.join(directory, name), content)


# ---------------------------------------------------------------------------------------- files and their names


@dataclass(frozen=True)
class BareFiles:
    """The files of each split, in the order of their examples.

    Attributes:
        splits: split -> paths.
        dataset: the dataset that all names contain; None if they differ or contain none.
    """

    splits: Mapping[str, Sequence[str]]
    dataset: str | None = None

    @property
    def directory(self) -> str:
        """The innermost directory that all files are in or below."""
        paths = [path for files in self.splits.values() for path in files]
        parts = [storage.dirname(path).split("/") for path in paths]
        common = posixpath.commonprefix(parts)  # compares lists item by item, too
        return "/".join(common) or "/"

    def template(self, split: str, dataset: str, directory: str) -> str | None:
        """Returns the template of the names of a split's files, relative to `directory`; None if none describes them.

        `dataset` is the dataset's name, which the template may contain as a variable.
        """
        names = [path[len(directory.rstrip("/")) + 1 :] for path in self.splits[split]]
        for template in _possible_templates(names[0], len(names)):
            try:
                expected = FilenameTemplate(dataset, split, template=template).filenames(len(names))
                if list(expected) == names:
                    return template
            except BeamDatasetsError:
                continue  # such as a name with braces
        return None


def find_files(pattern: Patterns | Mapping[str, Patterns], split: str | None = None) -> BareFiles:
    """Returns the files that patterns match.

    Args:
        pattern: a path with `*`, `?` and `[...]`, or several; or such for each split.
        split: whose files they are. None goes by their names where these are like
            'digits-train.tfrecord-00000-of-00004', else it is 'train'.

    Raises:
        InputError: a pattern matches nothing or a directory, a file is there twice, or one is missing by the names.
        ValueError: a split cannot be called so.
    """
    if isinstance(pattern, Mapping):
        if split is not None:
            raise ValueError(f"split={split!r} means nothing where patterns are given for each split: leave it out.")
        splits = {name: _match_files(patterns) for name, patterns in pattern.items()}
    else:
        splits = _by_split(_match_files(pattern), split)
    if not splits:
        raise InputError(expected="patterns of the files to adopt", got="none.")
    for name, files in splits.items():
        check_split_name(name, reserved=RESERVED_SPLITS)
        _check_complete(name, files)
    path_counts = Counter(path for files in splits.values() for path in files)
    if twice := [path for path, count in path_counts.items() if count > 1]:
        raise InputError(f"{twice[0]} is matched twice; its examples would be in the dataset twice.")
    datasets = {shard.dataset for files in splits.values() for shard in _parse_shard_names(files) or []}
    return BareFiles(splits, datasets.pop() if len(datasets) == 1 else None)


def _match_files(patterns: Patterns) -> list[str]:
    """Returns the files that match each pattern, sorted by name within a pattern; leaves out index files."""
    listed = [patterns] if isinstance(patterns, (str, os.PathLike)) else list(patterns)
    matches: list[str] = []
    for pattern in listed:
        paths = storage.glob(pattern)
        if not paths:
            raise InputError(f"{os.fspath(pattern)}: no file matches.")
        for path in paths:
            if storage.is_dir(path):
                raise InputError(f"{path} is a directory; write a pattern of its files, such as {path}/*.tfrecord*.")
            if path.endswith(_METADATA_SUFFIXES) and not _begins_with_record(path):
                advice = f"Write a pattern of the record files alone{_pattern_of_records(path, paths)}."
                raise InputError(expected="TFRecord files", got="a file of metadata", path=path, advice=advice)
        matches += paths
    indexes = {path + INDEX_SUFFIX for path in matches}
    return [path for path in matches if path not in indexes]


def _begins_with_record(path: str) -> bool:
    """Returns whether a file begins with the length of a TFRecord and its checksum."""
    with storage.open_reader(path) as reader:
        return not tfrecord.find_signature_problem(reader.read(0, min(HEAD_BYTES, reader.size)))


def _pattern_of_records(path: str, paths: Sequence[str]) -> str:
    """Returns a clause for advice: ", such as" a pattern of the record files alone; '' if there is none.

    Args:
        path: a file of metadata that was matched, too.
        paths: all files that were matched.
    """
    folder = storage.dirname(path)
    names = [storage.basename(other) for other in paths if storage.dirname(other) == folder]
    metadata = [name for name in names if name.endswith(_METADATA_SUFFIXES)]
    records = [name for name in names if name not in metadata and not name.endswith(INDEX_SUFFIX)]
    patterns = ["*.tfrecord*", "*-of-*", f"{posixpath.commonprefix(records)}*"] if records else []
    for pattern in patterns:
        if fnmatch.filter(records, pattern) and not fnmatch.filter(metadata, pattern):
            return f", such as {folder}/{pattern}"
    return ""


def _parse_shard_names(paths: Sequence[str]) -> list[ShardFilename] | None:
    """Returns the parts of the names; None if one of them is not of the default form."""
    names = [storage.basename(path) for path in paths]
    return [ShardFilename.parse(name) for name in names] if all(map(ShardFilename.is_valid, names)) else None


def _by_split(paths: list[str], split: str | None) -> dict[str, list[str]]:
    """Groups paths by the split in their names.

    If `split` is given, all paths belong to it; otherwise a file without a split in its name belongs to 'train'.
    """
    shards = _parse_shard_names(paths)
    if split is not None or shards is None:
        return {split or "train": paths} if paths else {}
    paths_by_split = defaultdict(list)
    for path, shard in zip(paths, shards):
        paths_by_split[shard.split].append(path)
    return dict(paths_by_split)


def _check_complete(split: str, paths: Sequence[str]) -> None:
    """Checks that the files of a split are complete, if their names contain `<i>-of-<n>`."""
    numbers_by_set = defaultdict(set)
    for path in paths:
        if match := _X_OF_Y.search(path, path.rfind("/") + 1):
            numbers_by_set[path[: match.start()], int(match[2]), path[match.end() :]].add(int(match[1]))
    for (prefix, total, suffix), indices in numbers_by_set.items():
        missing = next((index for index in range(total) if index not in indices), None)
        if missing is not None:
            raise InputError(
                f"split {split!r}: by their names {prefix}*-of-{total}{suffix} are {total} files, but {len(indices)} "
                f"are there; the first that is missing is number {missing}."
            )
        if max(indices) >= total:
            raise InputError(
                f"split {split!r}: by their names {prefix}*-of-{total}{suffix} are {total} files, but number "
                f"{max(indices)} is there, too. Leave out the files of another set by the pattern."
            )


def _possible_templates(first: str, count: int) -> list[str]:
    """Returns possible templates of the names of `count` files, of which `first` is the first one.

    For "a-00000-of-00002" they are the default template, "a-{SHARD_X_OF_Y}" and "a-{SHARD_INDEX}-of-00002".
    """
    width = max(NUM_DIGITS, len(str(count)))
    zero, total = "0" * width, f"{count:0{width}d}"
    candidates = [DEFAULT_FILENAME_TEMPLATE]
    for text, variable in ((f"{zero}-of-{total}", "{SHARD_X_OF_Y}"), (zero, "{SHARD_INDEX}")):
        places = [offset for offset in range(len(first)) if first.startswith(text, offset)]
        candidates += [first[:offset] + variable + first[offset + len(text) :] for offset in places]
    return candidates if count > 1 else [*candidates, first]
