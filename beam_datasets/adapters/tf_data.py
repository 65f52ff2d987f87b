"""Datasets for tf.data; their element_spec is derived from the features, without reading an example.

In the signatures, `tf` is the module tensorflow, and a *spec* is a `tf.TypeSpec`, such as `tf.TensorSpec`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.adapters.callers import is_probed_by_keras, is_repeated_by_keras
from beam_datasets.errors import FeatureValueError
from beam_datasets.extras import framework
from beam_datasets.features import Dataset as DatasetFeature
from beam_datasets.features import FeatureConnector, FeaturesDict, NestedDataset, RaggedArray, Sequence
from beam_datasets.features.base import dtype_of, shape_of
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.dtypes import STRING
from beam_datasets.features.sequence import replace_inner_datasets
from beam_datasets.metadata.supervised_keys import value_at

if TYPE_CHECKING:
    from types import ModuleType

    import tensorflow as tf

    from beam_datasets.reading.dataset import Dataset
    from beam_datasets.reading.elements.transforms import Decode, Step

Convert = Callable[[Any], Any]

_MAX_TRANSFER_BYTES = 1 << 20
_MAX_TRANSFER_EXAMPLES = 64
_ESTIMATED_STRING_BYTES = 64  # an estimate


def as_tf_dataset(
    dataset: Dataset,
    *,
    output_signature: Any = None,
    state: Mapping[str, Any] | None = None,
    fill: Any = None,
    epoch: int | None = None,
) -> tf.data.Dataset:
    """Returns a dataset as a `tf.data.Dataset`; see `Dataset.as_tf_dataset` for the arguments and errors."""
    tf = framework("tensorflow", needed_by="as_tf_dataset()", name="TensorFlow", extra="tf")
    dataset = dataset._with(steps=tuple(map(_replace_inner_datasets_of_step, dataset._steps)))
    derived_spec = _derive_item_spec(tf, dataset._steps) if output_signature is None else None
    cardinality = _compute_cardinality(tf, dataset, state, epoch)
    num_per_transfer = _count_per_transfer(tf, dataset._steps, derived_spec)
    if num_per_transfer > 1:
        batches = dataset._batch_for_framework(num_per_transfer, fill)
        tf_dataset = _build_from_generator(tf, batches, _derive_item_spec(tf, batches._steps), state, epoch).unbatch()
    else:
        filled = dataset._with_filler(fill)
        tf_dataset = _build_from_generator(
            tf, filled, output_signature or derived_spec or _derive_first_item_spec(tf, filled), state, epoch
        )
    if cardinality == tf.data.UNKNOWN_CARDINALITY:
        return tf_dataset
    return tf_dataset.apply(tf.data.experimental.assert_cardinality(cardinality))


def _replace_inner_datasets_of_step(step: Any) -> Any:
    """Returns a decoding step of a dataset, or a batch step, in which inner datasets are decoded as sequences.

    Inner datasets are those in sequences or other datasets; they become ragged tensors. Other steps are unchanged.
    """
    if step.kind == "batch":
        return replace(step, steps=tuple(map(_replace_inner_datasets_of_step, step.steps)))
    return replace(step, features=replace_inner_datasets(step.features)) if step.kind == "decode" else step


def _build_from_generator(
    tf: ModuleType, dataset: Dataset, spec: Any, state: Mapping[str, Any] | None, epoch: int | None
) -> tf.data.Dataset:
    """Returns a tf.data.Dataset of a dataset's items; each iteration over it reads the next pass over `dataset`.

    Args:
        tf: the module tensorflow.
        dataset: the dataset to read.
        spec: the nest of specs of an item.
        state: the state at which the first iteration starts; None for the beginning of an epoch.
        epoch: the epoch of the first iteration; None for 0.
    """
    converted = dataset.map(_build_converter(tf, spec))  # map() adds the record to errors of decoding
    next_pass = dataset._pass_of((epoch or 0) if state is None else state["epoch"])
    first_state = state  # None after the first iteration has begun

    def generate() -> Iterator[Any]:
        """Returns an iterator over the items of the next pass; the first pass starts at `state`."""
        nonlocal next_pass, first_state
        in_pass, epoch = converted._in_pass(next_pass)
        start = first_state
        if not is_probed_by_keras():
            next_pass, first_state = next_pass + 1, None
        if start is None:
            return in_pass.iterate(epoch=epoch)
        iterator = in_pass.iterate(state=start)
        _check_epochs_of_keras(operator.length_hint(iterator), in_pass)
        return iterator

    return tf.data.Dataset.from_generator(generate, output_signature=spec)


def _check_epochs_of_keras(num_left: int, dataset: Dataset) -> None:
    """Checks, if Keras repeats the dataset, that the first epoch is complete: Keras cuts all later ones to its length.

    Args:
        num_left: number of items of the first epoch, which continues at a saved state.
        dataset: the items of a complete epoch.

    Raises:
        ValueError: Keras repeats the dataset, and the first epoch has fewer items than a complete one.
    """
    num_items = operator.length_hint(dataset.iterate())
    if num_left < num_items and is_repeated_by_keras():
        raise ValueError(
            f"as_tf_dataset(state=...): the first epoch has {num_left} items left of {num_items}, and fit() of Keras "
            "would end each further epoch after as many. Expected an endless dataset and the number of its batches in "
            f"an epoch: ds.repeat() before batch(), and fit(steps_per_epoch={num_items})."
        )


def _count_per_transfer(tf: ModuleType, steps: tuple[Step, ...], spec: Any) -> int:
    """Returns the number of examples per transfer to TensorFlow, in [1, _MAX_TRANSFER_EXAMPLES].

    It is 1 if the examples have no fixed shapes or are in batches; otherwise as many as have _MAX_TRANSFER_BYTES.

    Args:
        tf: the module tensorflow.
        steps: the steps of the dataset.
        spec: the nest of specs of an item; None if it is not known.
    """
    parts = tf.nest.flatten(spec)
    if spec is None or steps[0].kind == "batch":
        return 1
    if not all(isinstance(component, tf.TensorSpec) and component.shape.is_fully_defined() for component in parts):
        return 1
    sizes = [_ESTIMATED_STRING_BYTES if component.dtype == tf.string else component.dtype.size for component in parts]
    size = sum(int(component.shape.num_elements()) * size for component, size in zip(parts, sizes))
    return max(1, min(_MAX_TRANSFER_BYTES // max(size, 1), _MAX_TRANSFER_EXAMPLES))


def _compute_cardinality(tf: ModuleType, dataset: Dataset, state: Mapping[str, Any] | None, epoch: int | None) -> int:
    """Returns the cardinality for tf.data: the number of items of each iteration, or a negative constant.

    Raises:
        StateError: the state does not fit the dataset or the epoch.
        ValueError: no iteration begins with the epoch, because each reads several epochs of `repeat(epochs)`.
    """
    if state is None:
        dataset._first_pass(epoch or 0)
    else:
        dataset.iterate(state=state, epoch=epoch)
    try:
        return len(dataset) if state is None else int(tf.data.UNKNOWN_CARDINALITY)
    except TypeError:
        return int(tf.data.INFINITE_CARDINALITY)


# -------------------------------------------------------------------------------------------------- what an element is


def _derive_item_spec(tf: ModuleType, steps: tuple[Any, ...]) -> Any:
    """Returns the nest of specs of the items that the steps of a dataset make; None if functions make the items.

    A nest is a `tf.TensorSpec`, `tf.RaggedTensorSpec` or `tf.data.DatasetSpec`, or a dict or tuple of nests.

    Args:
        tf: the module tensorflow.
        steps: the steps of the dataset, or of a batch step.
    """
    first_step = steps[0]
    if len(steps) > 1 or first_step.kind not in ("raw", "decode", "batch"):
        return None
    if first_step.kind == "batch":
        spec = _derive_item_spec(tf, first_step.steps)
        return (
            None if spec is None else tf.nest.map_structure(lambda component: _add_batch_dimension(tf, component), spec)
        )
    if first_step.kind == "raw":
        record = tf.TensorSpec((), tf.string)
        return (record, record) if first_step.with_ids else record
    return _derive_example_spec(tf, first_step)


def _derive_example_spec(tf: ModuleType, step: Decode) -> Any:
    """Returns the nest of specs of the examples of a decoding step; None if a decoder is a function.

    It is a dict by feature, with `tfds_id` if the step adds it; or the nest of the supervised keys, such as a pair.
    """
    try:
        spec = _derive_feature_spec(tf, select_decoded(step.features, step.decoders))
    except LookupError:
        return None
    if step.with_ids:
        spec["tfds_id"] = tf.TensorSpec((), tf.string)
    if step.supervised_keys is None:
        return spec
    return tf.nest.map_structure(functools.partial(value_at, spec), step.supervised_keys)


def _derive_feature_spec(tf: ModuleType, feature: FeatureConnector, lengths: tuple[int | None, ...] = ()) -> Any:
    """Returns the nest of specs of a feature.

    Args:
        tf: the module tensorflow.
        feature: the connector.
        lengths: the lengths of the sequences around it, outer ones first; None means any length.

    Raises:
        LookupError: a function decodes the feature, so its type is not known.
    """
    if isinstance(feature, FeaturesDict):
        return {name: _derive_feature_spec(tf, child, lengths) for name, child in feature.items()}
    if isinstance(feature, DatasetFeature) and not lengths:
        return tf.data.DatasetSpec(_derive_feature_spec(tf, feature.feature))
    if isinstance(feature, Sequence):
        return _derive_feature_spec(tf, feature.feature, (*lengths, feature.length))
    if shape_of(feature) is None:
        raise LookupError("a function may decode to any type")
    return _derive_leaf_spec(tf, shape_of(feature), dtype_of(feature), lengths)


def _derive_leaf_spec(tf: ModuleType, shape: Any, dtype: Any, lengths: tuple[int | None, ...]) -> Any:
    """Returns the spec of a leaf, ragged if it is in several sequences; for dicts of shapes, a dict of specs.

    For shape (3,) it is `TensorSpec((None, 3))` in one sequence, and `RaggedTensorSpec((None, None, 3))` in two.

    Args:
        tf: the module tensorflow.
        shape: the shape of a value, None in it means any length; or a dict of shapes by name.
        dtype: the NumPy dtype of a value; or a dict of dtypes by name.
        lengths: the lengths of the sequences around the leaf, outer ones first.
    """
    if isinstance(shape, dict):
        return {name: _derive_leaf_spec(tf, shape[name], dtype[name], lengths) for name in shape}
    dtype = tf.string if dtype == STRING else tf.as_dtype(dtype)
    if len(lengths) < 2:
        return tf.TensorSpec((*lengths, *shape), dtype)
    return tf.RaggedTensorSpec((lengths[0], *[None] * (len(lengths) - 1), *shape), dtype, len(lengths) - 1, tf.int64)


def _add_batch_dimension(tf: ModuleType, spec: Any) -> tf.TypeSpec:
    """Returns the spec of a batch of values with a spec: a first dimension of any length is added.

    Args:
        tf: the module tensorflow.
        spec: a `tf.TensorSpec` or `tf.RaggedTensorSpec`.

    Raises:
        FeatureValueError: the items are datasets.
    """
    if isinstance(spec, tf.RaggedTensorSpec):
        shape = (None, *[None] * (spec.ragged_rank + 1), *spec.shape[spec.ragged_rank + 1 :])
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank + 1, tf.int64)
    if isinstance(spec, tf.TensorSpec):
        return tf.TensorSpec((None, *spec.shape), spec.dtype)
    raise FeatureValueError("datasets in examples cannot be in a batch of tf.data: leave batch() out, or map() them.")


def _derive_first_item_spec(tf: ModuleType, dataset: Dataset) -> Any:
    """Returns the nest of specs of the first item of a dataset, after reading this item; see `_derive_value_spec`.

    Raises:
        ValueError: the dataset is empty.
    """
    with dataset.iterate() as iterator:
        for value in iterator:
            return _derive_value_spec(tf, value)
    raise ValueError(
        "the dataset is empty: expected an item to derive its type. Give as_tf_dataset(output_signature=...)."
    )


def _derive_value_spec(tf: ModuleType, value: Any) -> Any:
    """Returns the nest of specs of values with the rank and dtype of `value`; all lengths are None.

    Raises:
        ValueError: the value, or a part of it, is None or an empty nested dataset.
    """
    if isinstance(value, dict):
        return {name: _derive_value_spec(tf, item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_derive_value_spec(tf, item) for item in value)
    if isinstance(value, NestedDataset) and len(value):
        return tf.data.DatasetSpec(_derive_value_spec(tf, value[0]))
    if value is None or isinstance(value, NestedDataset):
        raise ValueError(
            f"the first item has {value!r}: expected a value with a type. Give as_tf_dataset(output_signature=...)."
        )
    dtype = tf.string if (numpy_dtype := np.asarray(value).dtype).kind in "OSU" else tf.as_dtype(numpy_dtype)
    if isinstance(value, RaggedArray):
        ragged_rank = len(value.row_lengths)
        rank = 1 + ragged_rank + np.ndim(value.flat_values[0]) if len(value.flat_values) else 1 + ragged_rank
        return tf.RaggedTensorSpec([None] * rank, tf.as_dtype(value.dtype), ragged_rank, tf.int64)
    return tf.TensorSpec([None] * np.ndim(value), dtype)


# -------------------------------------------------------------------------------------------- from NumPy to an element


def _build_converter(tf: ModuleType, spec: Any) -> Convert:
    """Returns the function from an item of NumPy values to an element that fits a nest of specs.

    The function converts ragged arrays and nested datasets to those of TensorFlow, and keeps other values.
    """
    if isinstance(spec, dict):
        parts = {name: _build_converter(tf, item_spec) for name, item_spec in spec.items()}
        return lambda value: {name: convert(value[name]) for name, convert in parts.items()}
    if isinstance(spec, tuple):
        converters = [_build_converter(tf, item_spec) for item_spec in spec]
        return lambda value: tuple([convert(item) for convert, item in zip(converters, value)])
    if isinstance(spec, tf.RaggedTensorSpec):
        return lambda value: _to_ragged_tensor(tf, spec, value) if isinstance(value, RaggedArray) else value
    if isinstance(spec, tf.data.DatasetSpec):
        return lambda value: _to_tf_dataset(tf, spec.element_spec, value) if isinstance(value, NestedDataset) else value
    return lambda value: value


def _to_ragged_tensor(tf: ModuleType, spec: tf.RaggedTensorSpec, value: RaggedArray) -> tf.RaggedTensor:
    """Returns a RaggedArray as a tf.RaggedTensor of the spec's dtype.

    Raises:
        FeatureValueError: the items have different shapes.
    """
    flat = value.flat_values
    if not isinstance(flat, np.ndarray):
        shapes = sorted({np.shape(item) for item in flat})[:2]
        raise FeatureValueError(f"items of the shapes {shapes} cannot be in a ragged tensor: map() them to one shape.")
    flat = tf.convert_to_tensor(flat, spec.dtype)
    return tf.RaggedTensor.from_nested_row_lengths(flat, value.row_lengths, validate=False)


def _to_tf_dataset(tf: ModuleType, spec: Any, value: NestedDataset) -> tf.data.Dataset:
    """Returns a nested dataset as a tf.data.Dataset of tensors; one of a generator would not outlive its element.

    Args:
        tf: the module tensorflow.
        spec: the nest of specs of an item.
        value: the nested dataset.
    """

    def column(spec: Any, *items: Any) -> Any:
        """Returns the tensor of a component of all items; without items, an empty tensor.

        Args:
            spec: the `tf.TensorSpec` of the component.
            *items: its value in each item.
        """
        if not items:
            return tf.zeros([0, *(length or 0 for length in spec.shape)], spec.dtype)
        return tf.stack([tf.convert_to_tensor(item, spec.dtype) for item in items])

    return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(column, spec, *value))
