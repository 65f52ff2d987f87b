"""The names of TensorFlow Datasets, and builders that are written with them."""

import importlib
import io
import operator
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets import tfds
from beam_datasets.errors import FeatureError
from beam_datasets.features import compile_encoder, registry
from beam_datasets.features.numbers import enable_tfds_conversions

ROOT = Path(__file__).resolve().parents[1]
LISTED = """
import apache_beam as beam
import beam_datasets.tfds as tfds
from beam_datasets.tfds.core.utils.lazy_imports_utils import tensorflow as tf


class Size(tfds.features.FeatureConnector):
    def get_tensor_info(self):
        return tfds.features.TensorInfo(shape=(), dtype="int64")

    def encode_example(self, text):
        return len(text)


class Old(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Put a.txt there."

    def _info(self):
        features = tfds.features.FeaturesDict({"a": tfds.features.Text(), "n": Size()})
        return self.dataset_info_from_configs(features=features)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager):
        path = dl_manager.manual_dir / "a.txt"
        return [tfds.core.SplitGenerator(name=tfds.Split.TRAIN, gen_kwargs={"path": path})]

    def _generate_examples(self, path):
        for number, line in enumerate(path.read_text().splitlines()):
            yield number, {"a": line, "n": line}


class OldBeam(tfds.core.BeamBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"a": tfds.features.Text()}))

    def _split_generators(self, dl_manager):
        return [tfds.core.SplitGenerator(name="test", gen_kwargs={"count": 7})]

    def _build_pcollection(self, pipeline, count):
        return pipeline | beam.Create(range(count)) | beam.Map(lambda n: (n, {"a": str(n)}))
"""


@pytest.mark.slow
def test_builders_with_lists_of_splits(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "old.py").write_text(LISTED)
    (tmp_path / "README.md").write_text("About it.")
    (tmp_path / "CITATIONS.bib").write_text("@x{}")
    (tmp_path / "by_hand").mkdir()
    (tmp_path / "by_hand" / "a.txt").write_text("x\nyy\n")
    for name in ("Old", "OldBeam"):
        command = [sys.executable, "-m", "beam_datasets.beam.main", "build", f"old.py:{name}", "--data_dir", "data"]
        done = subprocess.run(
            [*command, "--manual_dir", "by_hand", "--num_workers", "1"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("old")
    old = module.Old(data_dir=tmp_path / "data")
    monkeypatch.setattr(registry, "_REGISTERED", {})
    assert sorted((e["a"], e["n"]) for e in old.as_dataset("train")) == [(b"x", 1), (b"yy", 2)]  # by the code
    known = bd.builder_from_directory(old.dataset_dir).as_dataset("train", decoders={"n": bd.decode.SkipDecoding()})
    assert {int(e["n"]["n"][0]) for e in known} == {1, 2}
    bd.features.register(module.Size)
    assert {int(e["n"]) for e in bd.builder_from_directory(old.dataset_dir).as_dataset("train")} == {1, 2}
    assert (old.info.description, old.info.citation) == ("About it.", "@x{}")
    assert len(bd.load("old_beam", split="test", data_dir=tmp_path / "data")) == 7


@pytest.mark.parametrize(
    "path, said",
    [
        ("core.example_parser", "beam_datasets.load"),
        ("beam.ReadFromTFDS", "ReadDataset"),
        ("deprecated.text.Tokenizer", "features.Text"),
        ("show_statistics", "beam-datasets stats"),
        ("core.nothing", "docs/reference/tfds.md"),
    ],
)
def test_a_name_without_equivalent_says_what_to_use(path: str, said: str) -> None:
    with pytest.raises(AttributeError, match=f"tfds.{path} has no equivalent in beam_datasets.*{said}"):
        operator.attrgetter(path)(tfds)


@pytest.mark.parametrize(
    "path",
    [
        "core.Mapping",
        "core.http",
        "core.np",
        "core.opening",
        "core.is_shell",
        "core.pathlib",
        "core.numbers",
        "features.Any",
        "features.np",
        "core.camel_to_snake",
        "core.connectors",
        "Mappings",
        "core.Iterator",
    ],
)
def test_imports_of_the_module_are_not_proposed(path: str) -> None:
    with pytest.raises(AttributeError, match=r"; docs/reference/tfds\.md lists the names that have an equivalent\.$"):
        operator.attrgetter(path)(tfds)


@pytest.mark.parametrize("path", ["Dataset", "core.Dataset"])
def test_a_dataset_of_tfds_is_not_the_feature_of_that_name(path: str) -> None:
    with pytest.raises(AttributeError, match=r"use beam_datasets\.Dataset"):
        operator.attrgetter(path)(tfds)


def test_each_public_name_exists() -> None:
    assert [name for name in tfds.__all__ if not hasattr(tfds, name)] == []


def test_names_cost_neither_tensorflow_nor_tfds() -> None:
    code = (
        "import sys; import beam_datasets.tfds as tfds; "
        "from beam_datasets.tfds.core.utils.lazy_imports_utils import tensorflow as tf; "
        "tfds.core.lazy_imports, tfds.Split.TRAIN, tfds.features.Optional(tfds.features.Text()); "
        "assert not {'tensorflow', 'tensorflow_datasets', 'apache_beam', 'requests'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


class Loaded(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc, name-defined]
    VERSION = "1.0.0"

    def _info(self) -> Any:
        label = tfds.features.ClassLabel(names=["owl ", "tit"])
        features = tfds.features.FeaturesDict({"bird": {"label": label}, "n": np.int64})
        return tfds.core.DatasetInfo(builder=self, features=features, supervised_keys=("bird/label", "n"))

    def _split_generators(self, dl_manager: Any) -> Any:
        del dl_manager
        return {"train": [(n, {"bird": {"label": name}, "n": n}) for n, name in enumerate(("owl ", "owl", "tit"))]}


def test_load_generates_what_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(bd.errors.DatasetNotFoundError):
        tfds.load("loaded", data_dir=tmp_path, download=False)
    given = {"download_and_prepare_kwargs": {"num_workers": 1}, "try_gcs": True, "data_dir": tmp_path}
    data, info = tfds.load("loaded", split="train", as_supervised=True, with_info=True, batch_size=-1, **given)
    assert sorted(zip(*(column.tolist() for column in data))) == [(0, 0), (0, 1), (1, 2)]
    assert info.features["bird"]["label"].names == ["owl", "tit"]
    builder = tfds.builder("loaded", data_dir=tmp_path)
    assert builder.as_data_source("train")[0].keys() == {"bird", "n"}
    assert (builder.data_path, builder.versions) == (tmp_path / "loaded" / "1.0.0", ["1.0.0"])
    assert (tmp_path / "loaded" / "1.0.0" / "bird-label.labels.txt").read_text() == "owl\ntit\n"


class Sized(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc, name-defined]
    VERSION = "1.0.0"
    BUILDER_CONFIGS = (tfds.core.BuilderConfig(name="small"), tfds.core.BuilderConfig(name="large"))

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"n": np.int64}))

    def _split_generators(self, dl_manager: Any) -> Any:
        del dl_manager
        return {"train": [(n, {"n": n}) for n in range({"small": 2, "large": 5}[self.builder_config.name])]}


def test_load_generates_the_config_that_is_named(tmp_path: Path) -> None:
    prepare = {"download_and_prepare_kwargs": {"num_workers": 1}}
    assert len(tfds.load("sized", split="train", config="large", data_dir=tmp_path, **prepare)) == 5
    assert [path.name for path in (tmp_path / "sized").iterdir() if path.is_dir() and path.name[0] != "."] == ["large"]
    config = tfds.core.BuilderConfig(name="large")
    for options in ({"builder_kwargs": {"config": config}, "version": "1.0.0"}, {"config": config, "version": "1.*.*"}):
        read = bd.load("sized", split="train", data_dir=tmp_path, **options)
        assert len(read) == 5
    batches = tfds.load(
        "sized", data_dir=tmp_path, config="large", as_dataset_kwargs={"split": "train", "batch_size": 4}
    )
    assert [len(batch["n"]) for batch in batches] == [4, 1]
    with pytest.raises(TypeError, match="parallel_interleave"):
        tfds.load("sized", split="train", parallel_interleave=True, data_dir=tmp_path)


def test_options_without_equivalent() -> None:
    with pytest.raises(ValueError, match=r"download_mode='x'.*build\(overwrite=True\)"):
        tfds.download.DownloadConfig(download_mode="x")


def test_optional_features() -> None:
    assert tfds.features.Optional(tfds.features.Scalar("int64")).optional
    with pytest.raises(TypeError, match="cannot be optional"):
        tfds.features.Optional(tfds.features.ClassLabel(num_classes=2))


class FromText(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        row = {"n": np.int32, "x": tfds.features.Tensor(shape=(2,), dtype=np.float32)}
        features = {"row": row, "many": tfds.features.Sequence(np.int64)}
        labels = {"label": tfds.features.ClassLabel(), "late": tfds.features.ClassLabel(num_classes=2)}
        return tfds.core.DatasetInfo(builder=self, features=features | labels)

    def _split_generators(self):
        self.info.features["label"].names = ["no", "yes"]
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        self.info.features["late"].names = ["a", "b"]
        row = {"n": "7", "x": ["0.1", "nan"]}
        yield 0, {"row": row, "many": [" 3", 4.7], "label": "yes", "late": "b"}


def test_text_is_parsed_and_names_are_set_as_in_tfds(tmp_path: Path) -> None:
    builder = FromText(data_dir=tmp_path)
    builder.build(num_workers=1)
    (example,) = builder.as_dataset("train")
    np.testing.assert_array_equal(example["row"]["x"], np.float32([0.1, np.nan]))
    assert (example["row"]["n"], list(example["many"]), example["label"], example["late"]) == (7, [3, 4], 1, 1)
    assert builder.info.features["label"].names == ["no", "yes"]
    with pytest.raises(ValueError, match="Set them once"):
        tfds.features.ClassLabel(num_classes=3).names = ["a"]


@pytest.mark.parametrize(("dtype", "text"), [(np.int32, "1.5"), (np.float32, "x"), (np.uint8, "300"), (np.bool_, "1")])
def test_text_that_is_not_a_number_of_the_dtype_is_an_error(dtype: Any, text: str) -> None:
    feature = tfds.features.FeaturesDict({"v": tfds.features.Scalar(dtype)})
    enable_tfds_conversions(feature)
    with pytest.raises(FeatureError, match="^v: "):
        compile_encoder(feature)({"v": text})


def test_image_files_become_rgb_jpeg() -> None:
    gray = np.full((8, 9, 3), 100, np.uint8)
    for mode, kind in (("RGB", "PNG"), ("CMYK", "JPEG")):
        file = io.BytesIO()
        Image.fromarray(gray).convert(mode).save(file, kind)
        convert = tfds.core.utils.png_to_jpeg if kind == "PNG" else tfds.core.utils.jpeg_cmyk_to_rgb
        made = Image.open(io.BytesIO(convert(file.getvalue())))
        assert (made.format, made.mode) == ("JPEG", "RGB")
        assert abs(np.asarray(made).astype(int) - gray).max() <= 3
