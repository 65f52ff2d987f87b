"""What the author of a dataset tests it with."""

from beam_datasets.testing.tfds_catalogue import load_tfds_builder as load_tfds_builder
