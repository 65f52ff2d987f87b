from beam_datasets.reading.config import ReadConfig as ReadConfig
from beam_datasets.reading.dataset import Dataset as Dataset
from beam_datasets.reading.dataset import DatasetIterator as DatasetIterator
from beam_datasets.reading.opening import ReadOnlyBuilder as ReadOnlyBuilder
from beam_datasets.reading.opening import builder as builder
from beam_datasets.reading.opening import builder_from_directory as builder_from_directory
from beam_datasets.reading.opening import load as load
