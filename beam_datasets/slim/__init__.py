"""Items of records that somebody else wrote, by a specification of their layout, with TF-Slim's names."""

from beam_datasets.slim.boxes import BoundingBox, BoundingBoxSequence, KeypointsSequence, NumBoxesSequence
from beam_datasets.slim.examples import (
    DataDecoder,
    FixedLen,
    FixedLenSequence,
    TFExampleDecoder,
    TFSequenceExampleDecoder,
    VarLen,
)
from beam_datasets.slim.handlers import (
    BackupHandler,
    Image,
    ItemHandler,
    ItemHandlerCallback,
    LookupTensor,
    SparseTensor,
    SparseTensorValue,
    Tensor,
)
from beam_datasets.slim.provider import DatasetDataProvider, DatasetSpecification
from beam_datasets.slim.records import RecordReader, TextLineReader, TFRecordReader

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
