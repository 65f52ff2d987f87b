"""A dataset of images in folders named after their labels, without code.

    beam-datasets build image_folder --data_dir out --name flowers --root photos --split train=80% --split test=20%

`photos/label/image.jpg` is split by percentages (all is train without them); `photos/split/label/image.jpg` has its
own splits. Every image is decoded once to see that it is whole; --skip_bad leaves out, counts and logs what is broken.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from beam_datasets.builders import DatasetBuilder
from beam_datasets.errors import InputError
from beam_datasets.features import ClassLabel, FeaturesDict, Image, Text
from beam_datasets.model.info import DatasetInfo
from beam_datasets.model.names import check_dataset_name
from pipelines.files.builder import of_share
from pipelines.files.image_rows import BATCH, Folder, ImageRows, look_into
from pipelines.files.source import ReadFiles, log_left_out
from pipelines.files.splits import shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    import apache_beam as beam

    from pipelines.files.inputs import InputFile
    from pipelines.files.source import Example, Key


class ImageFolder(DatasetBuilder):
    """Images in folders named after their labels; the features are `image`, `image/filename`, `label`.

    Args:
        root: the folder above the labels, or above the splits.
        splits: name -> percentage ("80%"), where the folders name labels alone.
        skip_bad: leave out, count and log files that are no images; else the first ends the run.
        data_dir: where datasets stand.
        name: of the dataset; None for image_folder.
        version: of the dataset; raise it when the images have changed.
        description: of the dataset.
    """

    def __init__(
        self,
        *,
        root: str,
        splits: Mapping[str, str] | None = None,
        skip_bad: bool = False,
        data_dir: str | None = None,
        name: str | None = None,
        version: str = "1.0.0",
        description: str = "",
    ) -> None:
        self.name = check_dataset_name(name or type(self).name)
        self._folder_path = root
        self._shares = shares(splits, root)
        self._has_splits = bool(splits)
        self._skip_bad = skip_bad
        self._description = description
        self.VERSION = version  # type: ignore[misc]  # the user's images have the version that the user gives them
        super().__init__(data_dir=data_dir)

    def build(self, **options: Any) -> str:
        """Generates the dataset, and logs what was left out unless somebody takes the counters; see DatasetBuilder."""
        return super().build(**{"counters": log_left_out, **options})

    @cached_property
    def _folder(self) -> Folder:
        folder = look_into(self._folder_path)
        if folder.misplaced:
            shown = ", ".join(file.path for file in folder.misplaced[:5])
            problem = f"{len(folder.misplaced)} files stand in no folder of a label: {shown}"
            if not self._skip_bad:
                raise InputError(f"{problem}\nMove them away, or leave them out by --skip_bad.")
        if folder.splits and self._has_splits:
            raise InputError(f"{self._folder_path} has the splits {folder.splits} as folders; give none by --split")
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
        batches = [images[i : i + BATCH] for i in range(0, len(images), BATCH)]
        return ReadFiles(ImageRows(), batches, self._skip_bad)
