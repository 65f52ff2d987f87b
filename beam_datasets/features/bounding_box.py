"""BBoxFeature: rectangles in an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from beam_datasets.arguments import shown
from beam_datasets.errors import FeatureTypeError, FeatureValueError
from beam_datasets.features.base import FeatureConnector, FromJson, to_member
from beam_datasets.features.dtypes import Json, Shape, drop_unset
from beam_datasets.features.leaf import Leaf
from beam_datasets.features.numbers import check_rounding, check_unmasked, number_codec
from beam_datasets.features.tensor import Tensor

if TYPE_CHECKING:
    from beam_datasets.features.leaf import Codec


class BBox(NamedTuple):
    """A rectangle, given by the coordinates of its sides; see `BBoxFormat` for the units."""

    ymin: float
    xmin: float
    ymax: float
    xmax: float


class BBoxFormat(Enum):
    """Meanings of the four numbers of a box. The numbers are stored in the order of the value.

    Attributes:
        REL_YXYX: ymin, xmin, ymax, xmax, each in [0, 1], as fractions of the height and width.
        REL_XYXY: xmin, ymin, xmax, ymax, each in [0, 1], as fractions of the width and height.
        YXYX: ymin, xmin, ymax, xmax in pixels.
        XYXY: xmin, ymin, xmax, ymax in pixels.
        XYWH: xmin, ymin, width, height in pixels.
    """

    XYXY = "XYXY"
    YXYX = "YXYX"
    XYWH = "XYWH"
    REL_XYXY = "REL_XYXY"
    REL_YXYX = "REL_YXYX"


_RELATIVE = (BBoxFormat.REL_YXYX, BBoxFormat.REL_XYXY)
_ORDERED = (BBoxFormat.REL_YXYX, BBoxFormat.YXYX)
_BOX = Tensor(shape=(4,), dtype=np.float32)
_NOT_NUMBERS = (str, bytes, bytearray, Mapping, set, frozenset)  # although some can be iterated to numbers


@dataclass(frozen=True, repr=False)
class BBoxFeature(Leaf):
    """A rectangle: a `BBox`, or an array of four numbers. Decodes to an array of four float32.

    Attributes:
        bbox_format: the meaning of the numbers; None if it is not known. Encoding checks that relative numbers are
            floats in [0, 1], and for formats that begin with y that each minimum is at most its maximum.
        allow_rounding: whether numbers that no float32 holds exactly are rounded; see `Tensor`.
        doc: the documentation of the feature.
    """

    bbox_format: BBoxFormat | str | None = field(default=BBoxFormat.REL_YXYX, kw_only=True)
    allow_rounding: bool = field(default=False, kw_only=True, compare=False)

    PATH: ClassVar[str] = "bounding_boxes.BBoxFeature"
    shape: ClassVar[Shape] = (4,)
    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_fields(bbox_format=None if self.bbox_format is None else to_member(BBoxFormat, self.bbox_format))
        self._set_fields(allow_rounding=check_rounding(self.allow_rounding, self.dtype))

    def codec(self, path: str) -> Codec:
        """Returns the conversion between boxes and four numbers in a list of float32; `path` is for errors."""
        numbers = number_codec(self.dtype, self.shape, path, allow_rounding=self.allow_rounding)
        check = self._checker(path)
        return replace(numbers, pack=lambda value: numbers.pack(check(value)), pack_many=None)

    def _checker(self, path: str) -> Callable[[Any], list[Any]]:
        """Returns the function that validates a box and converts it to a list of its four numbers.

        Args:
            path: the feature, for errors.

        Raises:
            FeatureTypeError: the returned function raises it if the value does not contain numbers, or is masked.
            FeatureValueError: the returned function raises it if the numbers do not fit `bbox_format`.
        """
        relative, has_ordered_corners = self.bbox_format in _RELATIVE, self.bbox_format in _ORDERED

        def check(value: Any) -> list[Any]:
            """Returns the four numbers of a box, after checking them."""
            is_array = isinstance(value, np.ndarray)
            if isinstance(value, _NOT_NUMBERS):
                raise FeatureTypeError(f"{shown(value)} is not a box; expected a BBox or four numbers", feature=path)
            if is_array:
                check_unmasked(value, path)
            try:
                numbers = value.tolist() if is_array else list(value)
                if len(numbers) != 4:
                    raise FeatureValueError(f"a box has four numbers, not {len(numbers)}", feature=path)
                if relative and not is_array and not all(isinstance(n, (float, np.floating)) for n in numbers):
                    raise FeatureValueError(f"a relative box has floats, not {shown(numbers)}", feature=path)
                if relative and not all(0 <= number <= 1 for number in numbers):
                    raise FeatureValueError(
                        f"a relative box has numbers from 0 to 1, not {shown(numbers)}", feature=path
                    )
                if has_ordered_corners and (numbers[0] > numbers[2] or numbers[1] > numbers[3]):
                    raise FeatureValueError(
                        f"a minimum is above its maximum in (ymin, xmin, ymax, xmax) = {shown(numbers)}", feature=path
                    )
            except TypeError:
                raise FeatureTypeError(
                    f"{shown(value)} is not a box; expected a BBox or four numbers", feature=path
                ) from None
            return numbers

        return check

    def stored(self) -> FeatureConnector:
        """Returns the connector of the stored form: a Tensor of four float32."""
        return _BOX

    def content_json(self) -> tuple[str, Json]:
        """Returns ('boundingBox', {'shape': ..., 'dtype': 'float32', 'bboxFormat': name}); without the name if None."""
        kind = self.bbox_format and BBoxFormat(self.bbox_format).value
        return "boundingBox", {"shape": {"dimensions": ["4"]}, "dtype": "float32", **drop_unset({"bboxFormat": kind})}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> BBoxFeature:
        """Returns the BBoxFeature of `content`, the second value of `content_json`."""
        return cls(bbox_format=content.get("bboxFormat") or None)
