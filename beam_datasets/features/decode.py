"""Decoders that take the place of a feature's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_datasets.features.base import FeatureConnector


def apply_decoders(feature: FeatureConnector, decoders: Any) -> FeatureConnector:
    """Returns the features with decoders in place of some."""
    if decoders is None:
        return feature
    raise NotImplementedError


def select(feature: FeatureConnector, spec: Any) -> FeatureConnector:
    """Returns the features that a partial decoding asks for."""
    raise NotImplementedError
