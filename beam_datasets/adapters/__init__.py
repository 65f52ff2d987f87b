"""Adapters for training frameworks; each framework is imported by the function that needs it."""

from beam_datasets.adapters.grain_source import as_grain_source
from beam_datasets.adapters.jax_arrays import as_jax
from beam_datasets.adapters.tf_data import as_tf_dataset
from beam_datasets.adapters.torch_data import as_torch

__all__ = ["as_grain_source", "as_jax", "as_tf_dataset", "as_torch"]
