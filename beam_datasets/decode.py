"""Partial decoding and custom decoders: the public names of `features.decode`."""

from beam_datasets.features.decode import Decoder as Decoder
from beam_datasets.features.decode import PartialDecoding as PartialDecoding
from beam_datasets.features.decode import SkipDecoding as SkipDecoding
from beam_datasets.features.decode import make_decoder as make_decoder
