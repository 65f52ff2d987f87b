"""What the author of a dataset tests it with."""

from beam_datasets.testing.builder_case import DatasetBuilderTestCase as DatasetBuilderTestCase
from beam_datasets.testing.builder_case import test_main as test_main
from beam_datasets.testing.tfds_catalogue import load_tfds_builder as load_tfds_builder
