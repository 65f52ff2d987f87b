"""A dataset of images in folders named after their labels, without code.

    beam-datasets build image_folder --data_dir out --name flowers --root photos --split train=80% --split test=20%

`photos/label/image.jpg` is divided by percentages (without them all is train); `photos/split/label/image.jpg` has its
own splits. Every image is decoded once to check it; --skip_bad leaves out, counts and logs those that are broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, FeaturesDict, Image, Text
from beam_datasets.files.builder import Assignment, Bad, FilesBuilder, Item, SplitBy, assigned, assignment, read_piece
from beam_datasets.files.convert import storable_image
from beam_datasets.files.inputs import InputFile, find, open_bytes
from beam_datasets.generate.units import SourceUnits
from beam_datasets.metadata.info import DatasetInfo

LabeledFile = tuple[str, InputFile]

_BATCH = 32  # images that a worker is given at once
_CLUTTER = ("Thumbs.db", "desktop.ini", "__MACOSX")


class ImageFolder(FilesBuilder):
    """Images in folders named after their labels; the features are `image`, `image/filename`, `label`.

    Args:
        root: the folder above the labels, or above the splits.
        splits: name -> percentage ("80%"), if the folders name labels alone; or what `split_by` says.
        split_by: what decides the split of an image: `group=COLUMN` or `column=COLUMN` of its label or file name.
        stratify: `label`, of each of which every split has its share.
        common: see FilesBuilder.
    """

    def __init__(
        self,
        *,
        root: str,
        splits: Mapping[str, str | Sequence[str]] | None = None,
        split_by: SplitBy | None = None,
        stratify: str | None = None,
        **common: Any,
    ) -> None:
        self._images_root = root
        self._assign = assignment(splits or {}, root, split_by, stratify=stratify)
        if self._assign is not None:
            column, columns = self._assign.column, ("label", "image/filename")
            if column not in (None, *columns) or self._assign.split_of is None:
                raise ValueError(f"expected a column of {columns} and the splits to split by, got {column!r}, {splits}")
        super().__init__(**common)

    @cached_property
    def _folder(self) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
        splits, misplaced = look_into(self._images_root)
        if misplaced and not self._skip_bad:
            shown = ", ".join(file.path for file in misplaced[:5])
            raise InputError(
                f"{len(misplaced)} files are not in the folder of a label: {shown}\n"
                "Move them away, or leave them out by --skip_bad."
            )
        if "" not in splits and self._assign is not None:
            raise InputError(f"{self._images_root} has the splits {[*splits]} as folders; give none by --split")
        return splits, misplaced

    def _info(self) -> DatasetInfo:
        labels = sorted({label for images in self._folder[0].values() for label, _ in images})
        features = FeaturesDict({"image": Image(), "image/filename": Text(), "label": ClassLabel(names=labels)})
        return DatasetInfo(
            builder=self, features=features, supervised_keys=("image", "label"), description=self._description
        )

    def _split_generators(self) -> dict[str, SourceUnits]:
        splits, rest = self._folder
        misplaced = [("", file) for file in rest]  # to be counted, once
        reader = partial(image_rows, exif_orientation=self._exif_orientation, assign=self._assign)
        read = partial(read_piece, reader=reader, skip_bad=self._skip_bad)
        sources = {}
        for split, images in splits.items():
            listed, misplaced = [*images, *misplaced], []
            batches = [listed[i : i + _BATCH] for i in range(0, len(listed), _BATCH)]
            sources[split or "train"] = SourceUnits(batches, read)
        return assigned(sources, self._assign)


def look_into(root: str) -> tuple[dict[str, list[LabeledFile]], list[InputFile]]:
    """Returns {split: images} of `root/split/label/` or `root/label/`, whichever has most files, and the other files.

    The split is "" if folders name labels alone. Files of operating systems (names that begin with a dot, Thumbs.db,
    desktop.ini, __MACOSX) are left out.

    Raises:
        InputError: the folder has no file at either depth.
    """
    files = [(file.name.split("/"), file) for file in find(root, hidden=())]
    files = [(parts, file) for parts, file in files if not any(p.startswith(".") or p in _CLUTTER for p in parts)]
    depths = Counter(len(parts) for parts, _ in files)
    depth = max((2, 3), key=lambda d: depths[d])
    if not depths[depth]:
        shown = ", ".join(file.name for _, file in files[:3])
        raise InputError(f"{root}: images are expected as label/image or split/label/image; found {shown or 'no file'}")
    splits: dict[str, list[LabeledFile]] = {}
    for parts, file in sorted(files, key=lambda each: each[0][:-2]):
        if len(parts) == depth:
            splits.setdefault(parts[0] if depth == 3 else "", []).append((parts[-2], file))
    return splits, [file for parts, file in files if len(parts) != depth]


def image_rows(piece: Sequence[LabeledFile], exif_orientation: str, assign: Assignment | None) -> Iterator[Item | Bad]:
    """Yields the images of a batch of (label, file) as examples with the features of TFDS's ImageFolder.

    A file with an empty label is in no label's folder.
    """
    for label, file in piece:
        try:
            if not label:
                raise ValueError("it is not in the folder of a label")
            with open_bytes(file.path) as stream:
                image = storable_image(stream.read(), exif_orientation)
            example = {"image": image, "image/filename": file.name, "label": label}
            split = assign and (assign(file.name, example),)
        except ValueError as error:
            yield Bad(file.path, str(error))
        else:
            yield (file.name, example, *(split or ()))
