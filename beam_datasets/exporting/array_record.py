"""ArrayRecord: the records as they are, tf.train.Examples, for Grain and for `tfds.data_source`.

With dataset_info.json, features.json and the label files beside them, as TensorFlow Datasets has them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import ClassVar

from beam_datasets.exporting.schema import Struct
from beam_datasets.exporting.writing import Block, Format, Output
from beam_datasets.metadata.names import FilenameTemplate

FILE_FORMAT = "array_record"


class ArrayRecord(Format):
    """Writes ArrayRecord files by the package array_record."""

    name: ClassVar[str] = "arrayrecord"
    module: ClassVar[str] = "array_record.python.array_record_module"
    decodes: ClassVar[bool] = False

    def filename(self, dataset: str, split: str, shard: int, num_shards: int) -> str:
        """Returns the name of a shard."""
        return FilenameTemplate(dataset, split, FILE_FORMAT).filenames(num_shards)[shard]

    def write(self, blocks: Iterator[Block], schema: Struct, out: Output, split: str) -> None:
        """Writes a shard, by way of this machine's directory for temporary files."""
        with tempfile.TemporaryDirectory(prefix="beam_datasets-") as folder:
            path = os.path.join(folder, "shard")
            # each record is compressed alone, as by TensorFlow Datasets: reading one reads no other
            writer = self.package().ArrayRecordWriter(path, "group_size:1")
            try:
                for block in blocks:
                    for _ in block.map(writer.write):
                        pass
            finally:
                writer.close()
            with open(path, "rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
