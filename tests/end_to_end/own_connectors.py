"""Connectors as users write them."""

from typing import Any

import numpy as np

from beam_datasets import features as F


class Money(F.CustomFeature):
    """A text such as '1.25 EUR', read as a dict."""

    def __init__(self, *, optional: bool = False) -> None:
        super().__init__()
        self.optional = optional

    def get_tensor_info(self) -> Any:
        given = {"optional": self.optional}
        return {"cents": F.TensorInfo((), np.int64, **given), "currency": F.TensorInfo((), np.str_, **given)}

    def encode_example(self, value: str | None) -> Any:
        if value is None:
            return {"cents": None, "currency": None}
        return {"cents": int(value[:-4].replace(".", "")), "currency": value[-3:]}

    def to_json_content(self) -> Any:
        return {"optional": self.optional}


class Colour(F.CustomFeature):
    """A text such as '#010203', stored as it is and read as three numbers."""

    def get_tensor_info(self) -> Any:
        return F.TensorInfo((3,), np.uint8)

    def get_serialized_info(self) -> Any:
        return F.Text()

    def encode_example(self, value: str) -> Any:
        return value

    def decode_example(self, stored: bytes) -> Any:
        return np.frombuffer(bytes.fromhex(stored[1:].decode()), np.uint8)


class Negative(F.Image):
    """An image that is read with its values inverted."""

    def decode_example(self, stored: Any) -> Any:
        return 255 - stored


class Pair(F.FeaturesDict):
    """An image, and how many there are."""

    def __init__(self) -> None:
        super().__init__({"image": F.Image(shape=(2, 2, 1)), "count": np.int64})

    def encode_example(self, image: Any) -> Any:
        return {"image": image, "count": 1}

    @classmethod
    def from_json_content(cls, content: Any) -> Any:
        del content
        return cls()


class Grade(F.ClassLabel):
    """A class that is given as its letter."""

    def encode_example(self, letter: str) -> Any:
        return "abc".index(letter)

    @classmethod
    def from_json_content(cls, content: Any) -> Any:
        return cls(num_classes=int(content["numClasses"]))
