"""ArrayRecord: the records as they are, tf.train.Examples, for Grain and for `tfds.data_source`.

With dataset_info.json, features.json and the label files beside them, as TensorFlow Datasets has them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.adapters.framework import framework
from beam_datasets.metadata.names import FilenameTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beam_datasets.exporting.output import Block, Output
    from beam_datasets.exporting.schema import Struct

FILE_FORMAT = "array_record"


@dataclass(frozen=True)
class ArrayRecord:
    """Writes ArrayRecord files by the package array_record.

    Attributes:
        group_size: how many records are compressed together; with 1, as TensorFlow Datasets has it, reading one of them
            reads no other.
    """

    group_size: int = 1

    name: ClassVar[str] = "arrayrecord"
    decodes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.group_size < 1:
            raise ValueError(f"group_size is {self.group_size}; give at least 1.")

    def check(self, schema: Struct) -> None:
        """Checks that it can be written.

        Raises:
            MissingDependencyError: array_record is not installed.
        """
        _array_record()

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""
        return FilenameTemplate(dataset, split, FILE_FORMAT).filenames(num_shards)[shard]

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard. It stands as a whole in this machine's directory for temporary files first."""
        with tempfile.TemporaryDirectory(prefix="beam_datasets-") as folder:
            path = os.path.join(folder, "shard")
            writer = _array_record().ArrayRecordWriter(path, f"group_size:{self.group_size}")
            try:
                for block in blocks:
                    for row in block.rows():
                        writer.write(row.value)
            finally:
                writer.close()
            with open(path, "rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)


def _array_record() -> Any:
    name = "the package array_record"
    return framework("array_record.python.array_record_module", needed_by="ArrayRecord", name=name, extra="export")
