"""Items of records that somebody else wrote, by a specification of their layout: the public names of this package."""

from beam_datasets.reading.items.decoders import DataDecoder, TFExampleDecoder, TFSequenceExampleDecoder
from beam_datasets.reading.items.handlers import (
    BackupHandler,
    ItemHandler,
    ItemHandlerCallback,
    LookupTensor,
    SparseTensor,
    Tensor,
)
from beam_datasets.reading.items.images import Image
from beam_datasets.reading.items.parsing import FixedLen, FixedLenSequence, VarLen
from beam_datasets.reading.items.provider import DatasetDataProvider
from beam_datasets.reading.items.readers import RecordReader, TextLineReader, TFRecordReader
from beam_datasets.reading.items.sequence_handlers import (
    BoundingBox,
    BoundingBoxSequence,
    KeypointsSequence,
    NumBoxesSequence,
)
from beam_datasets.reading.items.specification import DatasetSpecification
from beam_datasets.reading.items.values import SparseTensorValue

__all__ = [
    "BackupHandler",
    "BoundingBox",
    "BoundingBoxSequence",
    "DataDecoder",
    "DatasetDataProvider",
    "DatasetSpecification",
    "FixedLen",
    "FixedLenSequence",
    "Image",
    "ItemHandler",
    "ItemHandlerCallback",
    "KeypointsSequence",
    "LookupTensor",
    "NumBoxesSequence",
    "RecordReader",
    "SparseTensor",
    "SparseTensorValue",
    "TFExampleDecoder",
    "TFRecordReader",
    "TFSequenceExampleDecoder",
    "Tensor",
    "TextLineReader",
    "VarLen",
]
