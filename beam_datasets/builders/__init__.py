"""Base classes of dataset authors: `DatasetBuilder`, and the types of its arguments.

The API follows TensorFlow Datasets: to port a builder, change its imports. The layer comes after `beam`,
because `build()` runs a pipeline.
"""

from beam_datasets.builders.builder import BeamBasedBuilder as BeamBasedBuilder
from beam_datasets.builders.builder import DatasetBuilder as DatasetBuilder
from beam_datasets.builders.builder import GeneratorBasedBuilder as GeneratorBasedBuilder
from beam_datasets.builders.builder import SplitGenerator as SplitGenerator
from beam_datasets.builders.download_config import DownloadConfig as DownloadConfig
from beam_datasets.builders.variants import BuilderConfig as BuilderConfig
