"""The real TFDS opens an export of ArrayRecord files as a data source: the same examples as of the TFRecords."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporting.conftest import export

pytestmark = pytest.mark.filterwarnings("ignore")  # those of TensorFlow and TFDS are not ours to mend
DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"


@pytest.fixture(scope="session")
def tfds() -> Any:
    if os.environ.get("BEAM_DATASETS_INTEROP") != "required":
        pytest.importorskip("tensorflow_datasets", reason="make test-interop installs TensorFlow and TFDS")
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.mark.parametrize("name", ["spec_three/1.2.3", "spec_inter/1.2.3", "spec_multi/small/1.0.0"])
def test_a_data_source(tfds: Any, tmp_path: Path, name: str) -> None:
    made = export(DATA / name, tmp_path / "out", "arrayrecord")
    published, original = (tfds.builder_from_directory(str(path)) for path in (made, DATA / name))
    assert repr(published.info.features) == repr(original.info.features)
    assert published.info.file_format.value == "array_record"
    for split in original.info.splits:
        config = tfds.ReadConfig(interleave_cycle_length=1)
        expected = list(tfds.as_numpy(original.as_dataset(split=split, read_config=config, shuffle_files=False)))
        source = published.as_data_source(split)
        assert len(source) == len(expected)
        for index, example in enumerate(expected):
            found = source[index]
            assert found.keys() == example.keys()
            assert all(np.array_equal(found[key], example[key]) for key in found)
