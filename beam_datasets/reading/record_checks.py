"""Checks whether a record is an example of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_datasets.errors import FeatureError, FeatureValueError
from beam_datasets.features.compiler import compile_block_decoder, compile_decoder
from beam_datasets.features.sequence import NestedDataset
from beam_datasets.formats.example import ExampleError, spans_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from beam_datasets.formats.example import Buffer

    Check = Callable[[Buffer], None]


def decoding_check(features: Any, decoders: Any = None) -> Check:
    """Returns the function that raises an ExampleError or a FeatureError if a record does not decode entirely.

    Args:
        features: the features of the dataset.
        decoders: for some of them, as in `as_dataset`.
    """
    decode = compile_decoder(features, decoders=decoders)
    return lambda record: touch(decode(record))


def block_check(features: Any) -> Callable[[list[Buffer]], bool] | None:
    """Returns the function that returns whether records all decode; None if they must be checked one by one.

    That is so if examples may be large, or are decoded item by item.
    """
    decode = compile_block_decoder(features)
    if decode is None:
        return None

    def check(records: list[Buffer]) -> bool:
        try:
            decode(records)
        except (FeatureError, ExampleError):
            return False
        return True

    return check


def touch(example: Any) -> None:
    """Decodes the nested datasets of an example or of a tuple of its features, which are decoded on demand."""
    if isinstance(example, dict):
        for value in example.values():
            touch(value)
    elif isinstance(example, (NestedDataset, tuple)):
        for item in example:
            touch(item)


def names_check(features: Any) -> Check:
    """Returns the function that raises a FeatureValueError if a feature has another name in a record.

    An optional feature that is absent decodes without an error, so decoding alone does not find that.
    """
    expected = frozenset(name.encode() for name in features.wire_names(""))

    def check(record: Buffer) -> None:
        there = spans_of(record)[1].keys()
        missing, unknown = sorted(expected - there), sorted(there - expected)
        if missing and unknown:
            raise FeatureValueError(
                f"it has {', '.join(name.decode(errors='replace') for name in unknown)}, which the features do not "
                f"name, and not {', '.join(name.decode() for name in missing)}, which they do"
            )

    return check
