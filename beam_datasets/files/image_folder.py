"""A dataset of images in folders named after their labels, without code.

    beam-datasets build image_folder --data_dir out --name flowers --root photos --split train=80% --split test=20%

`photos/label/image.jpg` is divided by percentages (without them all is train); `photos/split/label/image.jpg` has its
own splits. Every image is decoded once to check it; --skip_bad leaves out, counts and logs those that are broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from beam_datasets.features import ClassLabel, FeaturesDict, Image, Text
from beam_datasets.files.builder import Bad, Item
from beam_datasets.files.convert import storable_image
from beam_datasets.files.inputs import InputFile
from beam_datasets.files.labeled_folder import LabeledFile, LabeledFolder, labeled_rows
from beam_datasets.intake.streams import open_bytes
from beam_datasets.metadata.info import DatasetInfo


class ImageFolder(LabeledFolder):
    """Images in folders named after their labels; the features are `image`, `image/filename`, `label`, as of TFDS.

    Args:
        common: see LabeledFolder.
    """

    _content = "image"

    def _info(self) -> DatasetInfo:
        features = FeaturesDict({"image": Image(), "image/filename": Text(), "label": ClassLabel(names=self._labels)})
        return DatasetInfo(
            builder=self, features=features, supervised_keys=("image", "label"), description=self._description
        )

    @property
    def _reader(self) -> Callable[[Sequence[LabeledFile]], Iterator[Item | Bad]]:
        read = partial(image_features, exif_orientation=self._exif_orientation)
        return partial(labeled_rows, content="image", read=read, assign=self._assign)


def image_features(file: InputFile, exif_orientation: str) -> dict[str, Any]:
    """Returns the feature `image` of a file."""
    with open_bytes(file.path) as stream:
        return {"image": storable_image(stream.read(), exif_orientation)}
