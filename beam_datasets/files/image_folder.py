"""A dataset of images in folders named after their labels, without code.

    beam-datasets build image_folder --data_dir out --name flowers --root photos --split train=80% --split test=20%

`photos/label/image.jpg` is divided by percentages (without them all is train); `photos/split/label/image.jpg` has its
own splits. Every image is decoded once to check it; --skip_bad leaves out, counts and logs those that are broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from beam_datasets.features import ClassLabel, FeaturesDict, Text
from beam_datasets.files.bad_rows import Bad
from beam_datasets.files.fields import IMAGE_DTYPES, Field, to_feature
from beam_datasets.files.images import ImageOptions, storable_image
from beam_datasets.files.inputs import InputFile
from beam_datasets.files.labeled_folder import LabeledFile, LabeledFolder, labeled_rows
from beam_datasets.files.rows import Item
from beam_datasets.intake.streams import open_bytes
from beam_datasets.metadata.info import DatasetInfo

if TYPE_CHECKING:
    from beam_datasets.files.arguments import LabeledFolderArguments


class ImageFolder(LabeledFolder):
    """Images in folders named after their labels; the features are `image`, `image/filename`, `label`, as in TFDS.

    Args:
        image_dtype: dtype of the pixels: uint8, or uint16 if all images have more than 8 bits per channel.
        channels: number of channels of the images: 1 for gray, 2 for gray and alpha, 3 for RGB, 4 for RGB and alpha.
        exif_orientation: what to do with images that EXIF rotates or mirrors: `keep` stores them unchanged, and readers
            ignore the orientation; `apply` stores upright pixels as PNG; `error` fails.
        frames: what to do with images of several frames, pages, views or sizes (GIF, TIFF, ...): `first` stores the
            first one; `error` fails.
        common: see LabeledFolder.
    """

    _content = "image"

    def __init__(
        self,
        *,
        image_dtype: str = "uint8",
        channels: int = 3,
        exif_orientation: str = "keep",
        frames: str = "error",
        **common: Unpack[LabeledFolderArguments],
    ) -> None:
        self._images = ImageOptions(exif_orientation, frames)
        if image_dtype not in IMAGE_DTYPES:
            raise ValueError(f"image_dtype is {image_dtype!r}; expected one of {', '.join(IMAGE_DTYPES)}")
        if channels not in range(1, 5):
            raise ValueError(f"channels is {channels!r}; expected 1 to 4")
        self._field = Field("image", dtype=image_dtype, channels=channels)
        super().__init__(**common)

    def _info(self) -> DatasetInfo:
        """Returns the metadata of the dataset, with the features `image`, `image/filename` and `label`."""
        image = to_feature(self._field)
        features = FeaturesDict({"image": image, "image/filename": Text(), "label": ClassLabel(names=self._labels)})
        return DatasetInfo(
            builder=self, features=features, supervised_keys=("image", "label"), description=self._description
        )

    @property
    def _reader(self) -> Callable[[Sequence[LabeledFile]], Iterator[Item | Bad]]:
        """Returns the function that reads the examples and bad rows of a batch of files; see the base class."""
        read = partial(image_features, field=self._field, options=self._images)
        return partial(labeled_rows, content="image", read=read, assign=self._assign)


def image_features(file: InputFile, field: Field, options: ImageOptions) -> dict[str, Any]:
    """Returns {'image': `storable_image` of the file's content}.

    Args:
        file: the image file.
        field: field of the image, with its dtype and channels.
        options: options for images that cannot be stored unchanged.
    """
    with open_bytes(file.path) as stream:
        return {"image": storable_image(stream.read(), field, options)}
