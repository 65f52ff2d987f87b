"""Expected content of a dataset's directory according to its small files, and the findings about those files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from beam_datasets import catalog, features, storage
from beam_datasets.errors import DatasetNotFoundError, MetadataError, PathNotFoundError, StorageError
from beam_datasets.features.config import UnknownFeature
from beam_datasets.features.decode import skip_decoding
from beam_datasets.features.trees import iter_nested_features, strip_sequences
from beam_datasets.formats.tfrecord import OVERHEAD
from beam_datasets.metadata.info import INFO_FILE, METADATA_FILE, DatasetInfo
from beam_datasets.metadata.lineage import Lineage
from beam_datasets.metadata.manifest import MANIFEST_FILE, RUN_FILE, Manifest, ShardColumns
from beam_datasets.metadata.names import DatasetName, FilenameTemplate, ShardFilename
from beam_datasets.reading.records.shards import INDEX_SUFFIX

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector


_MAX_EXAMPLES = 1 << 60  # of a split, as in a reader


@dataclass(frozen=True)
class ExpectedSplit:
    """Expected content of a split.

    Attributes:
        name: name of the split.
        filenames: names of its shards, relative to the directory.
        num_examples: number of examples of each shard; None if no file records it.
        num_bytes: size of all its records without framing; None if no file records it.
        columns: sizes and checksums of the shards in the manifest; None without a valid manifest.
        new_starts: the examples, except the first, at which the sort keys begin again; None if no file records it.
    """

    name: str
    filenames: Sequence[str]
    num_examples: Sequence[int] | None
    num_bytes: int | None
    columns: ShardColumns | None
    new_starts: frozenset[int] | None = frozenset()

    @cached_property
    def starts(self) -> list[int]:
        """The index in the split of each shard's first example."""
        return list(accumulate(self.num_examples or (), initial=0))


class Expected:
    """Expected content of a dataset by its small files; a file among these that cannot be read becomes a finding.

    Attributes:
        directory: directory of the version.
        manifest: the manifest; None if it is missing or damaged.
        manifest_text: content of manifest.json, damaged or not; None if it is missing.
        info: content of dataset_info.json, without features; None if it cannot be read.
        features: content of features.json, with labels; None if they cannot be read.
        splits: expected content of each split.
        names: names of the files in the directory; None if it cannot be listed.
        indexed: whether each shard should have an index.
        findings: findings about the small files, and about files that should not exist.
        not_known: properties that cannot be checked because no file records them.
    """

    def __init__(self, directory: str) -> None:
        """Reads the small files of a version and compares them with each other; see `read_expected`."""
        self.directory = directory
        self._texts: dict[str, bytes | None] = {}
        self._findings: dict[str, Finding] = {}
        self.not_known: list[str] = []
        self.manifest: Manifest | None = None
        self.info: DatasetInfo | None = None
        self.features: Any = None
        self._lineage: Lineage | None = None
        self.names = self._list_files()
        self.indexed = any(name.endswith(INDEX_SUFFIX) or name == RUN_FILE for name in self.names or ())
        texts = {name: self._read_file(name) for name in (MANIFEST_FILE, INFO_FILE, catalog.FEATURES_FILE)}
        has_shards = any(map(ShardFilename.is_valid, self.names or ()))
        if not has_shards and all(text is None for text in texts.values()):
            raise DatasetNotFoundError(f"it is not a dataset: it has no {INFO_FILE}, and no shards", path=directory)
        self.manifest_text = texts[MANIFEST_FILE]
        self._read_manifest()
        self._check_sums()
        for name, read in ((INFO_FILE, self._read_info), (catalog.FEATURES_FILE, self._read_features)):
            text = texts[name]
            if text is None:
                self._add_missing_file(name)
            else:
                read(text)
        self._read_metadata()
        self._compare()
        self.splits = tuple(self._expected_splits())
        self._find_unexpected()

    def __getstate__(self) -> dict[str, Any]:
        """Returns the expectations that workers need: without the names and contents of files."""
        return self.__dict__ | {"names": None, "manifest_text": None, "_texts": {}}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, at most one for each file."""
        return tuple(self._findings.values())

    @property
    def full_name(self) -> str:
        """The dataset's name, config and version, such as 'digits/small:1.0.0'; '' if no file contains them."""
        if self.manifest is not None:
            return str(DatasetName(self.manifest.name, self.manifest.config, self.manifest.version))
        return self.info.display_name if self.info is not None else ""

    @cached_property
    def filenames(self) -> tuple[str, ...]:
        """The names of all shards, split by split."""
        return tuple(chain.from_iterable(split.filenames for split in self.splits))

    @cached_property
    def places(self) -> dict[str, tuple[ExpectedSplit, int]]:
        """For each shard its split, and its number in it."""
        return {name: (split, number) for split in self.splits for number, name in enumerate(split.filenames)}

    @property
    def file_bytes(self) -> int | None:
        """Size of all shards in bytes; None if no file records it."""
        totals = [
            sum(split.columns.file_bytes)
            if split.columns
            else (split.num_bytes or 0) + OVERHEAD * sum(split.num_examples or ())
            for split in self.splits
        ]
        return sum(totals) or None

    def record_features(self, *, decode: bool) -> Any:
        """Returns the features to check records against; None if they are not known.

        With `decode`, features of unknown classes are left as they are stored, as their values cannot be decoded.
        """
        if self.features is None or not decode:
            return self.features
        return self.features.with_decoders(skip_decoding(self.features, UnknownFeature))

    def _list_files(self) -> tuple[str, ...] | None:
        """Returns the names of the files in the directory; None if an object store cannot list them.

        Raises:
            DatasetNotFoundError: the directory does not exist, or is a file.
            StorageError: a local directory cannot be listed.
        """
        try:
            return tuple(storage.list_dir(self.directory))
        except PathNotFoundError:
            raise DatasetNotFoundError("the directory does not exist.", path=self.directory) from None
        except StorageError as error:
            if catalog.is_local_file(self.directory):
                raise DatasetNotFoundError(catalog.explain_unpublished(self.directory), path=self.directory) from None
            if not storage.is_remote(self.directory):
                raise
            self.not_known.append(f"whether there are unexpected files: {error}")
            return None

    def _read_file(self, name: str) -> bytes | None:
        """Returns the content of a file, read once; None if it is missing, or unreadable, which adds a finding.

        Raises:
            StorageError: nothing can be read or listed, as of a store that does not answer.
        """
        if name not in self._texts:
            self._texts[name] = None
            try:
                self._texts[name] = storage.read_bytes(storage.join(self.directory, name))
            except PathNotFoundError:
                pass
            except StorageError as error:
                if self.names is None and not any(self._texts.values()):
                    raise
                self._add_finding(name, "unreadable", str(error))
        return self._texts[name]

    def _add_finding(self, name: str, kind: str, message: str) -> None:
        """Adds a finding about a file, unless the file has one already.

        Args:
            name: name of the file in the dataset's directory.
            kind: a key of `REMEDIES`.
            message: the actual and the expected state; a path of the file at its beginning is left out.
        """
        message = message.removeprefix(storage.join(self.directory, name)).lstrip(": ")
        self._findings.setdefault(name, Finding(name, None, None, kind, message))

    def _add_missing_file(self, name: str) -> None:
        """Records the finding that a file does not exist."""
        self._add_finding(name, "missing", "the file does not exist")

    def _read_manifest(self) -> None:
        """Sets `manifest` and the lineage; adds a finding if the manifest is damaged, or missing beside indexes."""
        if self.manifest_text is None:
            if self.indexed:
                self._add_finding(MANIFEST_FILE, "manifest", "the file does not exist, though the shards have indexes")
            self.not_known.append(
                "checksums of files, because manifest.json is missing: a record has its own, but a file that was "
                "replaced by a whole one of as many records looks the same, and so do small files that still make sense"
            )
            return
        try:
            self.manifest = Manifest.from_text(self.manifest_text, path=storage.join(self.directory, MANIFEST_FILE))
            self.indexed = True
            if self.manifest.source is not None:
                self._lineage = Lineage.from_json(self.manifest.source, path=MANIFEST_FILE)
        except MetadataError as error:
            self._add_finding(MANIFEST_FILE, "manifest", str(error))
            self.not_known.append("checksums of files, as manifest.json is damaged")

    def _check_sums(self) -> None:
        """Compares the small files with their checksums in the manifest."""
        for name, published in self.manifest.metadata.items() if self.manifest else ():
            content = self._read_file(name)
            if content is None:
                self._add_missing_file(name)
            elif (digest := hashlib.sha256(content).hexdigest()) != published:
                self._add_finding(name, "metadata", f"its SHA-256 is {digest}, published was {published}")

    def _read_info(self, text: bytes) -> None:
        """Sets `info`; adds a finding if the file is damaged, or a split has more examples than readers allow."""
        path = storage.join(self.directory, INFO_FILE)
        try:
            info = DatasetInfo.from_json_text(text, path=path, directory=self.directory)
            for split in info.splits.values():
                if sum(split.shard_lengths) > _MAX_EXAMPLES:
                    raise MetadataError(
                        f"split {split.name!r} cannot have {sum(split.shard_lengths)} examples", split=split.name
                    )
            self.info = info
        except MetadataError as error:
            self._add_finding(INFO_FILE, "metadata", str(error))

    def _read_features(self, text: bytes) -> None:
        """Sets `features`, with the labels of their files, unless features.json has a finding."""
        path = storage.join(self.directory, catalog.FEATURES_FILE)
        try:
            tree = features.from_json_text(text.decode(), path=path)
        except (MetadataError, UnicodeDecodeError) as error:
            self._add_finding(catalog.FEATURES_FILE, "metadata", str(error))
            return
        label_files: list[str] = []
        tree.load_labels(lambda name: label_files.append(name))
        for name in label_files:
            tree = self._with_labels(tree, name)
        if unknown := [
            name
            for name, _, feature in iter_nested_features(tree)
            if isinstance(strip_sequences(feature), UnknownFeature)
        ]:
            names = ", ".join(unknown)
            self.not_known.append(f"what the features {names} hold: --imports the module that registers their class")
        if catalog.FEATURES_FILE not in self._findings:
            self.features = tree  # features of another version would fit no record

    def _with_labels(self, tree: FeatureConnector, file: str) -> FeatureConnector:
        """Returns the features with the labels of one label file, or unchanged with a finding if the file is damaged.

        Args:
            tree: the features.
            file: name of the label file in the directory.
        """
        content = self._read_file(file)
        try:
            text = None if content is None else content.decode()
            return tree.load_labels(lambda name: text if name == file else None)
        except (MetadataError, UnicodeDecodeError) as error:
            self._add_finding(file, "metadata", str(error))
            return tree

    def _read_metadata(self) -> None:
        """Records a finding if metadata.json is not a JSON object; accepts a missing file."""
        text = self._read_file(METADATA_FILE) if self.names is None or METADATA_FILE in self.names else None
        try:
            content = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            self._add_finding(METADATA_FILE, "metadata", f"it is not a JSON object: {error}")
            return
        if not isinstance(content, dict):
            self._add_finding(METADATA_FILE, "metadata", f"it is not a JSON object: got {content!r:.100}")

    def _compare(self) -> None:
        """Compares manifest.json with dataset_info.json."""
        if self.manifest is None or self.info is None:
            return
        lengths = {name: list(split.shard_lengths) for name, split in self.info.splits.items()}
        published = {name: list(columns.num_examples) for name, columns in self.manifest.splits.items()}
        identity = self.info.name, self.info.config_name, str(self.info.version)
        if identity != (self.manifest.name, self.manifest.config, self.manifest.version):
            self._add_finding(
                INFO_FILE, "metadata", f"it is of {self.info.display_name}, {MANIFEST_FILE} of another dataset"
            )
        elif lengths != published:
            self._add_finding(
                INFO_FILE, "metadata", f"its splits or shard lengths differ from those of {MANIFEST_FILE}"
            )
        else:
            for name, columns in self.manifest.splits.items():
                if (size := self.info.splits[name].num_bytes) != sum(columns.num_bytes):
                    message = f"by it split {name!r} has {size} bytes, by {MANIFEST_FILE} {sum(columns.num_bytes)}"
                    self._add_finding(INFO_FILE, "metadata", message)

    def _expected_splits(self) -> Iterator[ExpectedSplit]:
        """Yields the expected content of each split, by the manifest, dataset_info.json or the names of files."""
        if self.manifest is not None:
            for name, columns in self.manifest.splits.items():
                template = self._template(self.manifest.name, name, columns.num_shards)
                examples, size = list(columns.num_examples), sum(columns.num_bytes)
                filenames, starts = template.filenames(columns.num_shards), self._new_starts(name)
                yield ExpectedSplit(name, filenames, examples, size, columns, starts)
        elif self.info is not None:
            for name, split in self.info.splits.items():
                starts = self._new_starts(name)
                yield ExpectedSplit(name, split.shard_names, split.shard_lengths, split.num_bytes or None, None, starts)
        else:
            yield from self._splits_by_name()

    def _new_starts(self, split: str) -> frozenset[int] | None:
        """Returns the examples at which the sort keys begin again, as they may in a materialized dataset."""
        if self._lineage is not None and split in self._lineage.splits:
            return frozenset(ascent.start for ascent in self._lineage.splits[split].keys or ())
        materialized = self.manifest_text is not None and b'"source": {' in self.manifest_text
        return None if materialized else frozenset()

    def _template(self, dataset: str, split: str, num_shards: int) -> FilenameTemplate:
        """Returns the template of shard names: by dataset_info.json, unless it is damaged and no such shards exist.

        Args:
            dataset: name of the dataset.
            split: name of the split.
            num_shards: number of shards of the split.
        """
        usual = FilenameTemplate(dataset, split)
        split_info = self.info.splits.get(split) if self.info is not None else None
        if split_info is None or split_info.filename_template is None:
            return usual
        recorded = FilenameTemplate(dataset, split, template=split_info.filename_template.template)
        exists = usual.filename(0, num_shards) in (self.names or ())
        return usual if INFO_FILE in self._findings and exists else recorded

    def _splits_by_name(self) -> Iterator[ExpectedSplit]:
        """Yields the splits that the names of shards in the directory show, with unknown numbers of examples."""
        self.not_known.append("how many examples each shard should have: no file records it")
        shards = [ShardFilename.parse(name) for name in self.names or () if ShardFilename.is_valid(name)]
        for split in dict.fromkeys((shard.dataset, shard.split, shard.num_shards) for shard in shards):
            yield ExpectedSplit(split[1], FilenameTemplate(split[0], split[1]).filenames(split[2]), None, None, None)

    def _find_unexpected(self) -> None:
        """Adds a finding for each file that looks like a shard, an index or an unfinished file and is not expected."""
        shards = set(self.filenames)
        unexpected_names = [
            name for name in self._list_data_files(shards) if name.removesuffix(INDEX_SUFFIX) not in shards
        ]
        forms = {_mask_numbers(name) for name in shards} if unexpected_names else set()
        other_formats = self.info.alternative_file_formats if self.info is not None else ()
        for name in unexpected_names:
            shard = storage.basename(name).removesuffix(INDEX_SUFFIX)
            if storage.is_temporary(shard):
                self._add_finding(name, "leftover", "an unfinished file, left by a run that was killed")
            elif _mask_numbers(name.removesuffix(INDEX_SUFFIX)) in forms or (
                ShardFilename.is_valid(shard) and ShardFilename.parse(shard).fileformat not in other_formats
            ):
                self._add_finding(name, "extra", "no split of the dataset has this file")

    def _list_data_files(self, shards: Collection[str]) -> Iterator[str]:
        """Yields the files in the directory, and in those below it that should contain shards."""
        yield from self.names or ()
        for folder in sorted({name.rpartition("/")[0] for name in shards} - {""}) if self.names is not None else ():
            with contextlib.suppress(PathNotFoundError):  # each of its shards has a finding
                yield from (f"{folder}/{name}" for name in storage.list_dir(storage.join(self.directory, folder)))


def read_expected(dataset_dir: str) -> Expected:
    """Returns the expected content of a dataset's directory.

    Args:
        dataset_dir: the directory, or its URL.

    Raises:
        DatasetNotFoundError: the directory does not exist, or contains no file of a dataset.
        MetadataError: the shards have a format that cannot be read.
    """
    expected = Expected(storage.normalize(dataset_dir))
    info = expected.info
    if info is not None and info.file_format != "tfrecord" and not any(f.file == INFO_FILE for f in expected.findings):
        raise MetadataError(
            expected="examples that are stored as tfrecord", got=f"{info.file_format}", path=expected.directory
        )
    return expected


def _mask_numbers(name: str) -> str:
    """Returns a name with its numbers of five digits and more replaced.

    >>> _mask_numbers("digits-train.tfrecord-00007-of-00010")
    'digits-train.tfrecord-#-of-#'
    """
    return re.sub(r"\d{5,}", "#", name)


# ------------------------------------------------------------------------------------------------------------- findings


_FROM_COPY = "--repair --from COPY restores it"

REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(("record", "cut", "missing", "replaced", "count", "size", "metadata"), _FROM_COPY),
    "unreadable": f"check the disk and the permissions, move away a directory in its place; if needed, {_FROM_COPY}",
    "limit": "it was not read, so nothing is known of it: set the environment variable, and verify again",
    "example": "features.json and the records are of different versions: restore the one that is wrong",
    "value": "it was published so, and --repair does not help: restore or leave it out in the source, and generate a "
    "new version",
    "decoding": "it may have been published so or not, as the file is not the published one, or no checksum of it is "
    "recorded: compare it with a copy; if that has it too, restore or leave it out in the source, and generate a new "
    "version",
    "index": f"--repair rebuilds it, with its keys where these can be proved; {_FROM_COPY} in any case",
    "keys": f"only find() needs them; {_FROM_COPY}",
    "manifest": "copy it by hand from a good copy, and verify again: all files are compared with it",
    "extra": "nothing reads it; move it away by hand",
    "leftover": "nothing reads it; beam-datasets gc removes it",
}
"""The advice on each kind of finding."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Examples [start, stop) of a split that cannot be read, or are not the published ones.

    >>> str(Lost("train", 10, 12)), len(Lost("train", 10, 12))
    ('train[10:12]', 2)
    """

    split: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.split}[{self.start}:{self.stop}]"

    @classmethod
    def from_text(cls, text: str) -> Lost:
        """Returns the range of a text such as "train[10:20]", the `str` of a `Lost`."""
        split, _, numbers = text.removesuffix("]").rpartition("[")
        start, stop = map(int, numbers.split(":"))
        return cls(split, start, stop)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference from the published version.

    Attributes:
        file: name in the dataset's directory.
        offset: byte where the damage begins; None if it has no single place.
        record: number in the file of the first affected record; None if no record is affected.
        kind: a key of `REMEDIES`.
        message: the actual and the expected state.
        lost: the lost examples; None if no example is lost, or if it is not known, for the kind `limit`.
    """

    file: str
    offset: int | None
    record: int | None
    kind: str
    message: str
    lost: Lost | None = None

    @property
    def place(self) -> str:
        """The location for people, such as "digits-train.tfrecord-00000-of-00001, byte 1200 (record 7)"."""
        record = "" if self.record is None else f" (record {self.record})"
        return self.file if self.offset is None else f"{self.file}, byte {self.offset}{record}"

    @property
    def remedy(self) -> str:
        """Advice on what to do, which depends on `kind`; see `REMEDIES`."""
        return REMEDIES[self.kind]

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Returns the attributes of the finding as a dict of JSON values, with `lost` as text and its `remedy`."""
        return asdict(self) | {"lost": None if self.lost is None else str(self.lost), "remedy": self.remedy}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Parses the result of `to_json`."""
        lost_examples = None if value["lost"] is None else Lost.from_text(value["lost"])
        return cls(value["file"], value["offset"], value["record"], value["kind"], value["message"], lost_examples)


@dataclass(frozen=True)
class Report:
    """The result of verifying a dataset.

    Attributes:
        dataset: its full name; '' if no file contains it.
        directory: directory of the version.
        findings: in the order of files, then of bytes.
        not_known: properties that could not be checked because no file records them.
        num_shards: shards that were read.
        num_records: records that were found in them.
        num_bytes: their size in bytes, without indexes.
    """

    dataset: str
    directory: str
    findings: tuple[Finding, ...]
    not_known: tuple[str, ...]
    num_shards: int
    num_records: int
    num_bytes: int

    @property
    def whole(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def lost(self) -> tuple[Lost, ...]:
        """All lost examples, as ranges that neither overlap nor touch."""
        lost_ranges = [finding.lost for finding in self.findings if finding.lost is not None]
        order = list(dict.fromkeys(one.split for one in lost_ranges))
        united: list[Lost] = []
        for one in sorted(lost_ranges, key=lambda one: (order.index(one.split), one.start)):
            if united and united[-1].split == one.split and one.start <= united[-1].stop:
                one = Lost(one.split, united[-1].start, max(one.stop, united.pop().stop))
            united.append(one)
        return tuple(united)

    @property
    def num_lost(self) -> int:
        """Number of lost examples."""
        return sum(map(len, self.lost))

    @property
    def num_unread(self) -> int:
        """Number of places with records that are too large to be read, so that their examples may be lost or not."""
        return sum(finding.kind == "limit" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return {
            "dataset": self.dataset,
            "directory": self.directory,
            "whole": self.whole,
            "shards": self.num_shards,
            "records": self.num_records,
            "bytes": self.num_bytes,
            "lost": [str(lost_range) for lost_range in self.lost],
            "examples_lost": self.num_lost,
            "findings": [finding.to_json() for finding in self.findings],
            "not_known": list(self.not_known),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Report:
        """Returns the report of the JSON values of `to_json`."""
        return cls(
            dataset=value["dataset"],
            directory=value["directory"],
            findings=tuple(map(Finding.from_json, value["findings"])),
            not_known=tuple(value["not_known"]),
            num_shards=value["shards"],
            num_records=value["records"],
            num_bytes=value["bytes"],
        )
