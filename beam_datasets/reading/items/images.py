"""The item handler of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.errors import FeatureValueError
from beam_datasets.features import pictures
from beam_datasets.reading.items.handlers import ItemHandler
from beam_datasets.reading.items.values import flat, reshaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from beam_datasets.reading.items.handlers import Parsed

_RAW = (b"raw", b"RAW")


class Image(ItemHandler):
    """An encoded image, decoded by what its bytes are: JPEG, PNG, BMP, or GIF (which has its frames before the rest).

    Where the format is `raw` or `RAW`, the bytes are the pixels themselves, little-endian numbers of the dtype.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Sequence[int] | None = None,
        channels: int = 3,
        dtype: Any = np.uint8,
        repeated: bool = False,
    ) -> None:
        """Takes the keys.

        Args:
            image_key: where the bytes are; 'image/encoded' if not given.
            format_key: where the format is, 'image/format' if not given; only whether it is raw matters.
            shape: the shape that the image is brought to, for instance (height, width, channels); None: as it is, and
                one dimension where it is raw.
            channels: 1 for gray, 3 for RGB, 4 for RGB and alpha, 0 for as many as the image has.
            dtype: of the item. Images are decoded as uint8 and cast, without scaling.
            repeated: whether the key holds any number of images, and the item is the list of them.

        Raises:
            ValueError: there are no images of so many channels.
        """
        if channels not in (0, 1, 3, 4):
            raise ValueError(f"channels must be 0, 1, 3 or 4, got {channels!r}")
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        self._shape = shape
        self._channels = channels
        self._dtype: np.dtype[Any] = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
        self._repeated = repeated
        super().__init__([self._image_key, self._format_key])

    def tensors_to_item(self, keys_to_tensors: Parsed) -> Any:
        """Returns the pixels; a list of arrays where `repeated`."""
        raw = any(name in _RAW for name in flat(keys_to_tensors[self._format_key]))
        files = flat(keys_to_tensors[self._image_key]).tolist()
        if self._repeated:
            return [self._decode(data, raw) for data in files]
        if len(files) != 1:
            raise FeatureValueError(f"{self._image_key}: {len(files)} images, not one; is the item `repeated`?")
        return self._decode(files[0], raw)

    def _decode(self, data: bytes, raw: bool) -> NDArray[Any]:
        pixels = self._raw(data) if raw else self._pixels(data)
        image: NDArray[Any] = pixels if self._shape is None else reshaped(pixels, self._shape, self._image_key)
        return image

    def _raw(self, data: bytes) -> NDArray[Any]:
        if len(data) % self._dtype.itemsize:
            raise FeatureValueError(f"{self._image_key}: {len(data)} raw bytes are no whole numbers of {self._dtype}")
        return np.frombuffer(data, self._dtype.newbyteorder("<")).astype(self._dtype)

    def _pixels(self, data: bytes) -> NDArray[Any]:
        try:
            pixels = pictures.decoder(self._channels, np.dtype(np.uint8))(data)
        except ValueError as error:
            raise FeatureValueError(f"{self._image_key}: {error}") from error
        if self._channels not in (0, pixels.shape[-1]):
            raise FeatureValueError(
                f"{self._image_key}: the image has {pixels.shape[-1]} channels and cannot have {self._channels}"
            )
        return pixels.astype(self._dtype, copy=False)
