"""LabeledImage: an image whose values are classes, as segmentations are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from beam_datasets.features.class_label import ClassLabel
from beam_datasets.features.image import Image, image_arguments
from beam_datasets.features.values import int_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from beam_datasets.features.base import DocArg, Json, Shape


@dataclass(frozen=True, repr=False, init=False)
class LabeledImage(Image):
    """An image of one channel whose values are classes. Takes and decodes to what `Image` does.

    Args:
        labels: the classes' names; or a file with one name a line; or how many classes there are; or None.
        shape: (height, width, 1); height and width may be None.
        dtype: uint8 or uint16.
        encoding_format: 'png', or None for the same.
        doc: what it means.

    Attributes:
        label: the classes.
    """

    label: ClassLabel

    PATH: ClassVar[str] = "labeled_image.LabeledImage"

    def __init__(
        self,
        *,
        labels: Iterable[str] | str | os.PathLike[str] | int | None,
        shape: Shape | None = None,
        dtype: Any = None,
        encoding_format: str | None = None,
        doc: DocArg = None,
    ) -> None:
        self._set(label=_class_label(labels))
        shape = shape or (None, None, 1)
        super().__init__(shape=shape, dtype=dtype, encoding_format=encoding_format, use_colormap=True, doc=doc)

    @property
    def num_classes(self) -> int | None:
        """How many classes there are, or None."""
        return self.label.num_classes

    @property
    def names(self) -> list[str]:
        """The classes' names."""
        return self.label.names

    def content_json(self) -> tuple[str, Json]:
        """Returns what the image says, and the number of classes."""
        key, content = super().content_json()
        return key, {**content, "label": self.label.content_json()[1]}

    @classmethod
    def from_content(cls, content: Json) -> LabeledImage:
        """Returns the LabeledImage of such a value, still without names."""
        count = int_from_json(content.get("label", {}).get("numClasses", content.get("labels")))
        return cls(**image_arguments(content), labels=count or None)

    def label_files(self, prefix: str = "") -> dict[str, str]:
        """Returns the text of `<prefix>.labels.txt`, where there are names."""
        return self.label.label_files(prefix)

    def load_labels(self, read: Callable[[str], str | None], prefix: str = "") -> LabeledImage:
        """Returns the LabeledImage with the names of `<prefix>.labels.txt`."""
        return self._with(label=self.label.load_labels(read, prefix))

    def __repr__(self) -> str:
        return super().__repr__().removesuffix(")") + f", num_classes={self.num_classes})"


def _class_label(labels: Any) -> ClassLabel:
    if labels is None or isinstance(labels, int):
        return ClassLabel(num_classes=labels)
    if isinstance(labels, (str, os.PathLike)):
        return ClassLabel(names_file=labels)
    return ClassLabel(names=labels)
