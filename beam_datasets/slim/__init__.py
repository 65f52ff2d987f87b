"""Items of records written by other programs, by a specification of their layout, with TF-Slim's names."""

from beam_datasets.slim.examples import DataDecoder as DataDecoder
from beam_datasets.slim.examples import FixedLen as FixedLen
from beam_datasets.slim.examples import FixedLenSequence as FixedLenSequence
from beam_datasets.slim.examples import TFExampleDecoder as TFExampleDecoder
from beam_datasets.slim.examples import TFSequenceExampleDecoder as TFSequenceExampleDecoder
from beam_datasets.slim.examples import VarLen as VarLen
from beam_datasets.slim.handlers import BackupHandler as BackupHandler
from beam_datasets.slim.handlers import BoundingBox as BoundingBox
from beam_datasets.slim.handlers import BoundingBoxSequence as BoundingBoxSequence
from beam_datasets.slim.handlers import Image as Image
from beam_datasets.slim.handlers import ItemHandler as ItemHandler
from beam_datasets.slim.handlers import ItemHandlerCallback as ItemHandlerCallback
from beam_datasets.slim.handlers import KeypointsSequence as KeypointsSequence
from beam_datasets.slim.handlers import LookupTensor as LookupTensor
from beam_datasets.slim.handlers import NumBoxesSequence as NumBoxesSequence
from beam_datasets.slim.handlers import SparseTensor as SparseTensor
from beam_datasets.slim.handlers import SparseTensorValue as SparseTensorValue
from beam_datasets.slim.handlers import Tensor as Tensor
from beam_datasets.slim.provider import DatasetDataProvider as DatasetDataProvider
from beam_datasets.slim.provider import DatasetSpecification as DatasetSpecification
from beam_datasets.slim.provider import RecordReader as RecordReader
from beam_datasets.slim.provider import TextLineReader as TextLineReader
from beam_datasets.slim.provider import TFRecordReader as TFRecordReader
