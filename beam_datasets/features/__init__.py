"""Feature connectors: the types of the values of examples, and how records store them."""

import typing as _typing

from beam_datasets.advice import instead_of as _instead_of
from beam_datasets.features.audio import Audio as Audio
from beam_datasets.features.base import Documentation as Documentation
from beam_datasets.features.base import FeatureConnector as FeatureConnector
from beam_datasets.features.base import TensorInfo as TensorInfo
from beam_datasets.features.bounding_box import BBox as BBox
from beam_datasets.features.bounding_box import BBoxFeature as BBoxFeature
from beam_datasets.features.bounding_box import BBoxFormat as BBoxFormat
from beam_datasets.features.class_label import ClassLabel as ClassLabel
from beam_datasets.features.compiler import compile_decoder as compile_decoder
from beam_datasets.features.compiler import compile_encoder as compile_encoder
from beam_datasets.features.config import UnknownFeature as UnknownFeature
from beam_datasets.features.config import from_json as from_json
from beam_datasets.features.config import from_json_text as from_json_text
from beam_datasets.features.config import to_json_text as to_json_text
from beam_datasets.features.custom import CustomFeature as CustomFeature
from beam_datasets.features.features_dict import FeaturesDict as FeaturesDict
from beam_datasets.features.image import Image as Image
from beam_datasets.features.image import LabeledImage as LabeledImage
from beam_datasets.features.image import Video as Video
from beam_datasets.features.ragged import RaggedArray as RaggedArray
from beam_datasets.features.registry import register as register
from beam_datasets.features.sequence import Dataset as Dataset
from beam_datasets.features.sequence import NestedDataset as NestedDataset
from beam_datasets.features.sequence import Sequence as Sequence
from beam_datasets.features.tensor import Encoding as Encoding
from beam_datasets.features.tensor import Scalar as Scalar
from beam_datasets.features.tensor import Tensor as Tensor
from beam_datasets.features.tensor import Text as Text
from beam_datasets.features.translation import Translation as Translation
from beam_datasets.features.translation import TranslationVariableLanguages as TranslationVariableLanguages

if not _typing.TYPE_CHECKING:  # so that a type checker reports missing names

    def __getattr__(name: str) -> _typing.Any:
        from beam_datasets.errors import did_you_mean

        names = [other for other in globals() if other[0].isupper()]
        hint = _instead_of("features", name) or did_you_mean(name, names, cutoff=0.7).strip()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}. {hint}".strip(), name=name, obj=None)
