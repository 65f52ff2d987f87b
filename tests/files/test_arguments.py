"""The types of arguments that are passed on name those of the base class, all of them and no others."""

import dataclasses
import inspect
from functools import partial
from typing import Any

import pytest

from beam_datasets.files.arguments import FilesArguments, LabeledFolderArguments, RowsArguments
from beam_datasets.files.builder import FilesBuilder, RowsBuilder
from beam_datasets.files.csv import Csv
from beam_datasets.files.image_folder import ImageFolder
from beam_datasets.files.labeled_folder import LabeledFolder
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo, InfoArguments


@pytest.mark.parametrize(
    ("arguments", "builder"),
    [(FilesArguments, FilesBuilder), (RowsArguments, RowsBuilder), (LabeledFolderArguments, LabeledFolder)],
)
def test_arguments_of_builders(arguments: Any, builder: type) -> None:
    annotations = {}
    for kind in builder.__mro__[: builder.__mro__.index(FilesBuilder) + 1]:
        for name, parameter in inspect.signature(kind.__init__).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                annotations[name] = parameter.annotation
    assert {name: hint.__forward_arg__ for name, hint in arguments.__annotations__.items()} == annotations


@pytest.mark.parametrize("builder", [partial(Csv, pattern="a.csv"), partial(ImageFolder, root="a")])
def test_builders_of_files_have_no_configs(builder: Any) -> None:
    with pytest.raises(ValueError, match=r"config: expected none, .* got 'x'. Give the dataset another name, with "):
        builder(data_dir="/not/written", name="made", config="x")
    builder(data_dir="/not/written", name="made", config=None)


def test_arguments_of_the_metadata() -> None:
    identity = {field.name for field in dataclasses.fields(DatasetIdentity)}
    fields = set(inspect.signature(DatasetInfo).parameters) - identity
    written_by_the_library = {"builder", "features", "splits", "file_format", "stored"}
    assert set(InfoArguments.__annotations__) == fields - written_by_the_library
