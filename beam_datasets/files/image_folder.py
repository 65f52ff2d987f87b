"""A dataset of images in folders named after their labels, without code.

    beam-datasets build image_folder --data_dir out --name flowers --root photos --split train=80% --split test=20%

`photos/label/image.jpg` is divided by percentages (without them all is train); `photos/split/label/image.jpg` has its
own splits. Every image is decoded once to check it; --skip_bad leaves out, counts and logs those that are broken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, FeaturesDict, Image, Text
from beam_datasets.files.builder import FilesBuilder, of_share
from beam_datasets.files.images import storable_image
from beam_datasets.files.inputs import find, open_bytes
from beam_datasets.files.rows import Bad, ReadFiles
from beam_datasets.files.splits import shares
from beam_datasets.metadata.info import DatasetInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import apache_beam as beam

    from beam_datasets.files.inputs import InputFile
    from beam_datasets.files.rows import Example, Key

_BATCH = 32  # images that a worker is given at once
_CLUTTER = ("Thumbs.db", "desktop.ini", "__MACOSX")


class ImageFolder(FilesBuilder):
    """Images in folders named after their labels; the features are `image`, `image/filename`, `label`.

    Args:
        root: the folder above the labels, or above the splits.
        splits: name -> percentage ("80%"), if the folders name labels alone.
        common: see FilesBuilder.
    """

    def __init__(self, *, root: str, splits: Mapping[str, str] | None = None, **common: Any) -> None:
        self._images_root = root
        self._shares = shares(splits, root)
        self._has_splits = bool(splits)
        super().__init__(**common)

    @cached_property
    def _folder(self) -> Folder:
        folder = look_into(self._images_root)
        if folder.misplaced and not self._skip_bad:
            shown = ", ".join(file.path for file in folder.misplaced[:5])
            raise InputError(
                f"{len(folder.misplaced)} files are not in the folder of a label: {shown}\n"
                "Move them away, or leave them out by --skip_bad."
            )
        if folder.splits and self._has_splits:
            raise InputError(f"{self._images_root} has the splits {folder.splits} as folders; give none by --split")
        return folder

    def _info(self) -> DatasetInfo:
        features = FeaturesDict(
            {"image": Image(), "image/filename": Text(), "label": ClassLabel(names=self._folder.labels)}
        )
        return DatasetInfo(
            builder=self, features=features, supervised_keys=("image", "label"), description=self._description
        )

    def _split_generators(self, pipeline: beam.Pipeline) -> dict[str, beam.PCollection[tuple[Key, Example]]]:
        folder = self._folder
        if folder.splits:
            return {split: pipeline | f"Images of {split}" >> self._read(split) for split in folder.splits}
        images = pipeline | "Images" >> self._read("")
        return {name: of_share(name, images, share) for name, share in self._shares.items()}

    def _read(self, split: str) -> ReadFiles:
        folder = self._folder
        images: list[tuple[str, InputFile]] = [(label, file) for s, label, file in folder.files if s == split]
        if split in ("", *folder.splits[:1]):
            images += [("", file) for file in folder.misplaced]  # to be counted, once
        batches = [images[i : i + _BATCH] for i in range(0, len(images), _BATCH)]
        return ReadFiles(ImageRows(self._exif_orientation), batches, self._skip_bad)


@dataclass(frozen=True)
class Folder:
    """The files of a folder of images.

    Attributes:
        files: (split, label, file) of each; the split is "" if folders name labels alone.
        misplaced: files that are in no label's folder.
    """

    files: tuple[tuple[str, str, InputFile], ...]
    misplaced: tuple[InputFile, ...]

    @property
    def labels(self) -> list[str]:
        """Names of the labels, in the order of their bytes."""
        return sorted({label for _, label, _ in self.files})

    @property
    def splits(self) -> list[str]:
        """Names of the splits that the folders give."""
        return sorted({split for split, _, _ in self.files} - {""})


def look_into(root: str) -> Folder:
    """Returns the images below `root/split/label/` or `root/label/`, whichever has most files.

    Files of operating systems (names that begin with a dot, Thumbs.db, desktop.ini, __MACOSX) are left out.

    Raises:
        InputError: there is no file.
    """
    files = [file for file in find(root, hidden=()) if not _is_clutter(file.name)]
    depths = Counter(file.name.count("/") for file in files)
    depth = max((1, 2), key=lambda d: depths[d])
    if not depths[depth]:
        shown = ", ".join(file.name for file in files[:3])
        raise InputError(f"{root}: images are expected as label/image or split/label/image; found {shown or 'no file'}")
    placed = [(("", *file.name.split("/"))[-3:], file) for file in files if file.name.count("/") == depth]
    misplaced = tuple(file for file in files if file.name.count("/") != depth)
    return Folder(tuple((split, label, file) for (split, label, _), file in placed), misplaced)


def _is_clutter(name: str) -> bool:
    return any(part.startswith(".") or part in _CLUTTER for part in name.split("/"))


@dataclass(frozen=True)
class ImageRows:
    """Reads images as examples with the features of TFDS's ImageFolder: image, image/filename, label."""

    exif_orientation: str = "keep"

    def read(self, piece: Sequence[tuple[str, InputFile]]) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the images of a batch of (label, file); a file with an empty label is in no label's folder."""
        for label, file in piece:
            if not label:
                yield Bad(file, "it is not in the folder of a label", "")
                continue
            try:
                with open_bytes(file.path) as stream:
                    image = storable_image(stream.read(), self.exif_orientation)
            except ValueError as error:
                yield Bad(file, str(error), "")
                continue
            yield file.name, {"image": image, "image/filename": file.name, "label": label}
