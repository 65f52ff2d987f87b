"""Errors about missing names list those that exist, and advice with the caller's values can be written."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import beam_datasets as bd
from tests.reading.conftest import write_dataset


class Owls(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def _info(self) -> bd.DatasetInfo:
        return self.colour  # type: ignore[no-any-return]

    def _split_generators(self, manager: Any) -> Any:
        del manager
        return {}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Objects of a small dataset, by the names that the tests use."""
    directory = write_dataset(tmp_path_factory.mktemp("advice") / "d" / "1.0.0", {"train": [7, 5], "test": [4]})
    builder = bd.builder_from_directory(directory)
    ds = builder.as_dataset("train")
    return {"bd": bd, "builder": builder, "ds": ds, "info": builder.info, "iterator": iter(ds), "owls": Owls()}


LISTED = {
    "bd.Split": "ALL, TEST, TRAIN, VALIDATION",
    "bd.Split.TRAIN": "ALL, TEST, TRAIN, VALIDATION",
    "bd.features.ClassLabel(names=['a'])": "dtype names num_classes int2str",
    "bd.features.Sequence('int64')": "feature length dtype",
    "builder": "info manifest digest as_dataset",
    "ds": "map batch features",
    "info": "splits features description",
    "info.splits": "total_num_examples",
    "info.splits['train']": "name num_examples shard_lengths",
    "iterator": "get_state set_state",
    "owls": "info build VERSION builder_config",
}


@pytest.mark.parametrize("expression, expected", LISTED.items(), ids=list(LISTED))
def test_the_names_in_an_error_are_those_of_the_object(names: dict[str, Any], expression: str, expected: str) -> None:
    target = eval(expression, names)
    with pytest.raises(AttributeError) as caught:
        target.zzyzx  # noqa: B018
    listed = str(caught.value).partition("It has ")[2].removesuffix(".").split(", ")
    assert set(expected.replace(",", "").split()) <= set(listed)
    assert not {"ascents", "pool", "program", "codec", "mro", "upper", "use_downloads"} & set(listed)
    assert set(listed) <= set(dir(target))


def test_an_attribute_error_in_a_property_is_not_about_the_property() -> None:
    owls = Owls()
    for _ in range(2):
        with pytest.raises(AttributeError, match="Owls has no attribute 'colour'"):
            owls.info  # noqa: B018
    assert not hasattr(owls, "colour")
    with pytest.raises(AttributeError, match="no attribute 'verzion'. Did you mean 'version'"):
        owls.verzion  # noqa: B018
    assert pickle.loads(pickle.dumps(owls)).version == "1.0.0"
