"""Encoders and decoders of examples, compiled from a tree of connectors.

They are compiled once per dataset, so that nothing about the tree is decided per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from beam_datasets.errors import FeatureValueError
from beam_datasets.features.base import Decoders, FeatureConnector, to_feature
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.decode import select
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.raw import record_libraries
from beam_datasets.features.sequence import Sequence
from beam_datasets.formats.example import Buffer, record


def compile_encoder(
    feature: FeatureConnector | Mapping[str, Any], libraries: set[str] | None = None
) -> Callable[[Any], bytes]:
    """Returns the function from an example to its record: a canonical, serialized tf.train.Example.

    The values of the example are checked during encoding. The example is not changed.

    Args:
        feature: the features of a dataset: a FeaturesDict (or a dict that means one), or a Sequence of dicts.
        libraries: a set to which the returned function adds the libraries whose versions determine the bytes of
            values that it encodes, as "zlib 1.3.1".

    Raises:
        FeatureError: the features cannot be encoded, because two would have the same name in the record. The returned
            function raises it where a value does not fit: FeatureKeyError for a missing or unknown feature, else
            FeatureTypeError, FeatureValueError or FeatureOverflowError; the message begins with the feature's path.

    >>> import numpy as np
    >>> compile_encoder({"a": np.int64})({"a": 300}).hex()
    '0a0d0a0b0a016112061a040a02ac02'
    """
    top = _to_example_features(feature)
    with record_libraries(libraries):
        if isinstance(top, FeaturesDict):
            return top.record_encoder()
        encode_entries = top.encoder("")

    def encode(example: Any) -> bytes:
        """Returns the record of an example."""
        return record(encode_entries(example))

    return encode


def compile_decoder(
    feature: FeatureConnector | Mapping[str, Any], *, decoders: Decoders = None, partial: Any = None
) -> Callable[[Buffer], Any]:
    """Returns the function from a record to its example: NumPy values, in the structure of the features.

    Numbers of shape () are NumPy scalars, strings are bytes, images are arrays of shape (height, width, channels).
    Sequences are arrays of one dimension more, sequences of sequences `RaggedArray`; a sequence of dicts is a dict of
    sequences. A `Dataset` feature is a `NestedDataset`, whose items are decoded one by one. An optional feature that
    the record lacks is None (TensorFlow Datasets, reading with TensorFlow, yields a number instead).

    Args:
        feature: the features of a dataset, as a connector or a dict of features by name.
        decoders: a nest with the structure of the features and a `decode.Decoder` in place of each feature that another
            decoder decodes; or a `decode.PartialDecoding`.
        partial: a nest of the names of the features to decode, see `decode.PartialDecoding`. Others are not read.

    Raises:
        ValueError: `decoders` or `partial` name features that do not exist. The returned function raises FeatureError
            where a value cannot be decoded, with the feature's path, and ExampleError where the bytes are not a record.
    """
    return ColumnarDecoder(select_decoded(feature, decoders, partial)).one()


def select_decoded(
    feature: FeatureConnector | Mapping[str, Any], decoders: Decoders = None, partial: Any = None
) -> FeatureConnector:
    """Returns the features of an example, reduced to `partial` and with `decoders` in place of their connectors.

    Args:
        feature: the features of a dataset.
        decoders: see `compile_decoder`.
        partial: see `compile_decoder`.

    Raises:
        ValueError: `decoders` or `partial` name features that do not exist.
    """
    top = _to_example_features(feature)
    if partial is not None:
        top = select(top, partial)
    return top.with_decoders(decoders)


def _to_example_features(feature: FeatureConnector | Mapping[str, Any]) -> FeatureConnector:
    """Returns the connector of whole examples: a FeaturesDict, or a Sequence of dicts, whose features have names.

    Args:
        feature: a connector, or a dict of features, as `to_feature` takes it.

    Raises:
        FeatureValueError: the argument is another feature, such as a Tensor.
    """
    top = to_feature(feature)
    if isinstance(top, FeaturesDict) or (isinstance(top, Sequence) and isinstance(top.feature, FeaturesDict)):
        return top
    raise FeatureValueError(f"the features of an example are a dict of features or a Sequence of dicts, not {top!r}")
