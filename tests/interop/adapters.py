"""Classes with the interfaces inside of TFDS that its tests use, which do what the classes of this package do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_datasets.core import file_adapters, naming, writer
from tensorflow_datasets.core.utils import shard_utils

import beam_datasets as bd
from beam_datasets.metadata.names import DatasetName, FilenameTemplate
from beam_datasets.metadata.split_expressions import AbstractSplit, ReadInstruction, map_splits
from beam_datasets.metadata.splits import SplitDict, SplitInfo, SubSplitInfo
from beam_datasets.reading import directories

CORE = "tensorflow_datasets.core"


def swaps(module: str) -> dict[str, Any]:
    """Returns what stands for names of TFDS in one of its test modules."""
    if module == "naming_test":
        return {f"{CORE}.naming._dataset_name_and_kwargs_from_name_str": name_and_kwargs}
    if module not in ("splits_test", "reader_test", "subsplits_utils_test"):
        return {}
    found: dict[str, Any] = {
        f"{CORE}.naming": naming,  # how files are called is compared in naming_test
        f"{CORE}.utils.shard_utils": shard_utils,
        f"{CORE}.writer": writer,
        f"{CORE}.file_adapters": file_adapters,
        f"{CORE}.reader.Reader": Reader,
        f"{CORE}.reader._get_tfds_id_prefixes": id_prefixes,
        f"{CORE}.subsplits_utils.even_splits": bd.even_splits,
        f"{CORE}.subsplits_utils.split_for_jax_process": bd.split_for_jax_process,
        f"{CORE}.splits._AbsoluteInstruction": Absolute,
    }
    classes = {"SplitInfo": Split, "SplitDict": Splits, "ReadInstruction": Instruction}
    found |= {f"{CORE}.splits.{name}": kind for name, kind in classes.items()}
    return (
        found
        | {f"tensorflow_datasets.public_api.core.{n}": k for n, k in classes.items()}
        | {f"{CORE}.{n}": k for n, k in classes.items()}
    )


def name_and_kwargs(text: str) -> tuple[str, dict[str, Any]]:
    """Returns what `DatasetName.parse` reads, as a name and the arguments of a builder."""
    found = DatasetName.parse(text)
    named = {"config": found.config, "version": found.version}
    return found.name, {key: value for key, value in named.items() if value} | dict(found.kwargs)


def files(instructions: Any, directory: str) -> list[Any]:
    """Returns runs of shards as TFDS has them: with paths, and -1 for all that is left."""
    return [
        shard_utils.FileInstruction(
            filename=os.path.join(directory, run.filename),
            skip=run.skip,
            take=-1 if run.skip + run.take == run.examples_in_shard else run.take,
            examples_in_shard=run.examples_in_shard,
        )
        for run in instructions
    ]


class Runs(list[Any]):
    """Runs of shards by their paths."""

    def filename(self, run: int) -> str:
        return str(self[run].filename)


def id_prefixes(instructions: list[Any]) -> dict[str, str]:
    """Returns how the shards of several directories are called in `tfds_id`."""
    name = directories._Pool("/").namer(Runs(instructions))  # type: ignore[arg-type]
    return {run.filename: name(run.filename) for run in instructions}


class Split(SplitInfo):
    """A SplitInfo that is made of a template of TFDS."""

    def __init__(self, name: str, shard_lengths: list[int], num_bytes: int = 0, filename_template: Any = None) -> None:
        ours = filename_template and FilenameTemplate(
            filename_template.dataset_name, name, filename_template.filetype_suffix or "tfrecord"
        )
        directory = str(filename_template.data_dir) if filename_template else ""
        super().__init__(name, shard_lengths, num_bytes, ours, directory)

    @property
    def file_instructions(self) -> Any:
        return files(super().file_instructions, self.directory)


class View:
    """A slice whose runs are those of TFDS."""

    def __init__(self, info: SubSplitInfo) -> None:
        self._info = info
        self.file_instructions = files(info.file_instructions, info.directory)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._info, name)


class Splits(SplitDict):
    """A SplitDict whose slices have the runs of TFDS."""

    def __init__(self, split_infos: Any) -> None:
        super().__init__(split_infos)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Absolute):
            key = ReadInstruction(key[0], key[1], key[2])
        found = super().__getitem__(getattr(key, "spec", key))
        return View(found) if isinstance(found, SubSplitInfo) else found


class Absolute(tuple[Any, ...]):
    """A slice as TFDS has it: None for a border that leaves out nothing."""

    def __new__(cls, splitname: str, from_: int | None, to: int | None) -> Absolute:
        return super().__new__(cls, (splitname, from_, to))


class Instruction:
    """A ReadInstruction, or a sum of them, that is resolved to such slices."""

    def __init__(self, *args: Any, spec: AbstractSplit | None = None, **kwargs: Any) -> None:
        self.spec = ReadInstruction(*args, **kwargs) if spec is None else spec

    @classmethod
    def from_spec(cls, spec: Any) -> Instruction:
        return cls(spec=AbstractSplit.from_spec(getattr(spec, "spec", spec)))

    def to_absolute(self, splits: Any) -> list[Absolute]:
        parts = self.spec.to_absolute(splits)
        totals = {name: info.num_examples for name, info in splits.items()}
        return [
            Absolute(part.splitname, part.start or None, None if part.stop == totals[part.splitname] else part.stop)
            for part in parts
        ]

    def __add__(self, other: Instruction) -> Instruction:
        return Instruction(spec=self.spec + other.spec)

    def __repr__(self) -> str:
        return repr(self.spec)


class Reader:
    """Reads the records of a directory whose splits are given, as a tf.data.Dataset."""

    def __init__(self, path: str, file_format: str) -> None:
        self._path = Path(path)
        del file_format

    def read(
        self,
        *,
        instructions: Any,
        split_infos: Any,
        read_config: Any = None,
        shuffle_files: bool = False,
        disable_shuffling: bool = False,
    ) -> Any:
        template = split_infos[0].filename_template
        splits = [
            {"name": info.name, "shardLengths": [str(n) for n in info.shard_lengths], "numBytes": "0"}
            for info in split_infos
        ]
        info = {
            "name": template.dataset,
            "version": "1.0.0",
            "fileFormat": "tfrecord",
            "splits": splits,
            "disableShuffling": disable_shuffling,
        }
        (self._path / "dataset_info.json").write_text(json.dumps(info))
        (self._path / "features.json").write_text(bd.features.to_json_text(bd.features.FeaturesDict({})))
        builder = bd.builder_from_directory(self._path)
        options = {"read_config": read_config, "shuffle_files": shuffle_files}

        def read(each: Any) -> Any:
            return builder.as_dataset(getattr(each, "spec", each), **options).raw().as_tf_dataset()

        return map_splits(read, instructions)

    def read_files(self, file_instructions: Any, **options: Any) -> Any:
        first = file_instructions[0].filename
        names = sorted(Path(first).parent.glob(f"{Path(first).name.partition('-of-')[0][:-6]}-*"))
        lengths = [sum(1 for _ in tf.data.TFRecordDataset(str(name))) for name in names]
        template = naming.ShardedFileTemplate(
            dataset_name=names[0].name.partition("-")[0], split="train", filetype_suffix="tfrecord", data_dir=str(first)
        )
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        parts = []
        for run in file_instructions:
            at = [name.name for name in names].index(Path(run.filename).name)
            start = starts[at] + run.skip
            parts.append(f"train[{start}:{starts[at] + lengths[at] if run.take < 0 else start + run.take}]")
        return self.read(instructions="+".join(parts), split_infos=[Split("train", lengths, 0, template)], **options)
