"""Equivalents of the names that builder modules of TensorFlow Datasets use.

`import beam_datasets.tfds as tfds` replaces `import tensorflow_datasets as tfds`, and `beam_datasets.tfds.` replaces
`tensorflow_datasets.` in the imports of submodules. This module only maps names: each is implemented in another module.
TensorFlow is imported when a builder first uses it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import importlib.util
import itertools
import os
import pathlib
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from beam_datasets import builders, downloads
from beam_datasets import decode as decoding
from beam_datasets import features as connectors
from beam_datasets._version import __version__ as __version__
from beam_datasets.advice import names_foreign_arguments
from beam_datasets.builders.builder import is_shell
from beam_datasets.builders.variants import ClassProperty
from beam_datasets.catalog import list_builders as list_builders
from beam_datasets.display.examples import as_dataframe as as_dataframe
from beam_datasets.display.examples import show_examples as show_examples
from beam_datasets.downloads import http
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError, nearest_name
from beam_datasets.features import image_codec
from beam_datasets.features.base import to_feature
from beam_datasets.features.numbers import enable_tfds_conversions, iter_connectors
from beam_datasets.metadata.info import DatasetIdentity, DatasetInfo, MetadataDict
from beam_datasets.metadata.names import camel_to_snake
from beam_datasets.metadata.split_expressions import ReadInstruction, Split
from beam_datasets.metadata.split_expressions import even_splits as even_splits
from beam_datasets.metadata.split_expressions import split_for_jax_process as split_for_jax_process
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.metadata.version import BlockedVersions, Experiment, IsBlocked, Version, VersionOrStr
from beam_datasets.reading import opening
from beam_datasets.reading.config import ReadConfig as ReadConfig
from beam_datasets.reading.directories import builder_from_directories as builder_from_directories
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.reading.opening import builder as builder
from beam_datasets.reading.opening import builder_from_directory as builder_from_directory

__all__ = [  # names of TFDS; the module has others, which it uses
    *("ReadConfig", "Split", "as_dataframe", "as_numpy", "beam", "builder", "builder_from_directories"),
    *("builder_from_directory", "core", "data_source", "dataset_builders", "decode", "deprecated"),
    *("disable_progress_bar", "display_progress_bar", "download", "enable_progress_bar", "even_splits", "features"),
    *("list_builders", "load", "show_examples", "split_for_jax_process", "testing", "typing", "visualization"),
]
_DUMMY = "write a small builder in the test, derived from tfds.core.GeneratorBasedBuilder"
_ROUND_TRIP = "compare `features.deserialize_example(features.serialize_example(example))` with the example"
_CATALOGUE = "the datasets of TFDS are not in beam_datasets; docs/reference/tfds.md says how to build or read them"
_NOT_HERE = {
    **dict.fromkeys(("Dataset", "core.Dataset"), "use beam_datasets.Dataset, which load() returns"),
    "core.example_parser": "read the dataset with beam_datasets.load()",
    "core.ShardBasedBuilder": "return an iterable or a Beam PTransform for each split; shards are cut by the plan",
    "core.SequentialWriter": "write a Beam pipeline, or `beam_datasets.beam.WriteDataset`",
    "deprecated.text": "features.Text stores text; encode it where it is read",
    "visualization": "use `beam-datasets head` and `beam-datasets stats`",
    "beam.ReadFromTFDS": "use beam_datasets.beam.ReadDataset(builder.dataset_dir, split)",
    "show_statistics": "use `beam-datasets stats`",
    "folder_dataset": "build the files as docs/how-to/files.md describes",
    "ImageFolder": "build the files as docs/how-to/files.md describes",
    "TranslateFolder": "build the files as docs/how-to/files.md describes",
    "GenerateMode": "build(overwrite=True) replaces a published version; a new version number is better",
    "download.GenerateMode": "build(overwrite=True) replaces a published version; a new version number is better",
    "download.ComputeStatsMode": "use `beam-datasets stats`",
    "dataset_collection": "load each dataset by its name",
    "benchmark": "measure a loop over the dataset, such as `sum(1 for _ in ds)`",
    "builder_cls": "use the class, or beam_datasets.builder(name)",
    "core.add_data_dir": "give data_dir=",
    "dataset_builders.ConllBuilderConfig": "derive from tfds.core.BuilderConfig",
    "dataset_builders.AdhocBuilder": "use beam_datasets.beam.WriteDataset",
    "dataset_builders.TfDataBuilder": "use beam_datasets.beam.WriteDataset",
    "dataset_builders.store_as_tfds_dataset": "use beam_datasets.beam.WriteDataset",
    "features.TopLevelFeature": "derive from tfds.features.FeatureConnector",
    "features.top_level_feature": "derive from tfds.features.FeatureConnector",
    "is_dataset_on_gcs": "nothing is read from the bucket of TFDS; build the dataset",
    "rlds": "use features.Dataset for the steps of episodes",
    "list_dataset_collections": "load each dataset by its name",
    "transform": "use Dataset.map(), or a builder that reads the other dataset",
    "decode.DeserializeMethod": "as_dataset(...).raw() yields records as bytes; decode.SkipDecoding() what they store",
    "core.add_dataset_builder_provider": "import the module of the builder, which registers it",
    "core.DatasetBuilderProvider": "import the module of the builder, which registers it",
    "core.DatasetCollectionLoader": "load each dataset by its name",
    "core.as_path": "use pathlib.Path",
    "core.BenchmarkResult": "measure the iteration itself",
    "core.ExampleWriter": "write a Beam pipeline, or `beam_datasets.beam.WriteDataset`",
    "core.FileFormat": "datasets are written as TFRecord; `beam-datasets export` writes other formats",
    "core.Permissions": "files get the permissions that the umask leaves",
    "core.ShardedFileTemplate": "info.splits[name].filepaths are the shards",
    "core.utils": "it is a helper inside of TFDS: use what Python, NumPy or tf.nest have for it",
    "typing": "use the types of beam_datasets.features",
    "folder_dataset.compute_split_info": "use `beam-datasets adopt`, or bd.adopt()",
    "core.visualization": "use bd.show_examples(ds) or `beam-datasets head`",
    "core.registered": "use bd.list_builders(), and an import of the builder's module, which registers it",
    "core.dataset_metadata": "use bd.builder(name, data_dir=directory).info",
    "core.logging": "use logging.getLogger('beam_datasets')",
    "features.text": "features.Text stores text; encode it where it is read, in ds.map(function)",
    "features.SubwordTextEncoder": "features.Text stores text; encode it where it is read, in ds.map(function)",
    "features.TokenTextEncoder": "features.Text stores text; encode it where it is read, in ds.map(function)",
    "features.ByteTextEncoder": "features.Text stores text; encode it where it is read, in ds.map(function)",
    "features.AnyFeature": "use Any of typing",
    "beam.inc_counter": "use beam.metrics.Metrics.counter() of Apache Beam",
    "testing.PickableDataSourceMock": "mock_data(as_data_source_fn=) takes a function that returns any source",
    "testing.TestCase": "use unittest.TestCase, or plain functions that pytest runs",
    "testing.test_case": "use unittest.TestCase, or plain functions that pytest runs",
    "testing.SubTestCase": "use subTest() of unittest.TestCase, or pytest.mark.parametrize",
    "testing.FeatureExpectationsTestCase": _ROUND_TRIP,
    "testing.FeatureExpectationItem": _ROUND_TRIP,
    "testing.assert_features_equal": "compare features by ==",
    "testing.tmp_dir": "use tempfile.TemporaryDirectory(), or tmp_path of pytest",
    "testing.make_tmp_dir": "use tempfile.mkdtemp(), or tmp_path of pytest",
    "testing.rm_tmp_dir": "use shutil.rmtree(directory)",
    "testing.fake_examples_dir": "DatasetBuilderTestCase reads dummy_data beside the test, or its EXAMPLE_DIR",
    "testing.mock_kaggle_api": "use unittest.mock.patch",
    "testing.mock_tf": "use unittest.mock.patch",
    "testing.MockFs": "use tmp_path of pytest",
    "testing.run_in_graph_and_eager_modes": "values are NumPy's: nothing depends on a mode of TensorFlow",
    "testing.RaggedConstant": "use tf.ragged.constant of TensorFlow, or a list of arrays",
    "testing.DummyDataset": _DUMMY,
    "testing.DummyMnist": _DUMMY,
    "testing.DummyBeamDataset": _DUMMY,
    "testing.DummyDatasetSharedGenerator": _DUMMY,
    "testing.DummyDatasetCollection": _DUMMY,
    "testing.DummyParser": _DUMMY,
    "testing.DummySerializer": _DUMMY,
    "testing": "beam_datasets.testing has DatasetBuilderTestCase and mock_data; other tests use pytest",
    **dict.fromkeys(("audio", "image", "image_classification", "object_detection", "text", "translation"), _CATALOGUE),
    **dict.fromkeys(("video", "structured", "question_answering", "summarization", "datasets"), _CATALOGUE),
}


class _Names(types.ModuleType):
    """A module of names, which can be imported like one that is a file.

    `find` returns the object with another name when it is first used; None for a name without equivalent.
    """

    def __init__(self, path: str, find: Callable[[str], Any] = lambda _: None, /, **members: object) -> None:
        super().__init__(f"{__name__}.{path}")
        self.__dict__.update(members, _find=find, __path__=[])  # a package, so that an import of others has advice
        sys.modules[self.__name__] = self

    def __reduce__(self) -> Any:  # of a script's global, which is pickled with the classes of `__main__`
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        member = self._find(name)
        return _raise_missing(f"{self.__name__.removeprefix(__name__ + '.')}.{name}") if member is None else member


def _import_later(modules: Mapping[str, str], name: str) -> Any:
    """Returns a name of one of the modules, which is imported when it is first used; None for any other name."""
    return getattr(importlib.import_module(modules[name]), name) if name in modules else None


class _Lazy(types.ModuleType):
    """A module that is imported when it is first used."""

    def __reduce__(self) -> Any:
        return _Lazy, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_import_package(self.__name__), name)


_PACKAGES = {"PIL_Image": "PIL.Image", "PIL_ImageDraw": "PIL.ImageDraw", "gcsfs_store": "gcsfs"}


def _import_package(name: str) -> Any:
    """Imports a package that builders need and this library does not.

    Raises:
        ImportError: it is not installed; the message contains the name to install it by.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = {"tensorflow": "tensorflow", "cv2": "opencv-python", "PIL": "pillow", "bs4": "beautifulsoup4"}
        top = name.partition(".")[0]
        raise ImportError(
            f"this builder needs the package {top!r} ({error}). Install it: pip install {package.get(top, top)}"
        ) from error


def _raise_missing(path: str) -> NoReturn:
    """Raises the error about a name of TFDS that this package does not have.

    Raises:
        AttributeError: always.
    """
    instead = next((replacement for name, replacement in _NOT_HERE.items() if f"{path}.".startswith(f"{name}.")), None)
    instead = instead or _equivalent_elsewhere(path.rpartition(".")[2])
    raise AttributeError(
        f"tfds.{path} has no equivalent in beam_datasets; "
        f"{instead or 'docs/reference/tfds.md lists the names that have an equivalent'}."
    )


def _equivalent_elsewhere(name: str) -> str:
    """Returns "use tfds.NAME" with the module in which a name exists, or a similar name; '' if there is none."""
    types_of_features = {member for member in vars(features) if member[0].isupper()} - {"Dataset"}  # not modules
    spaces = {"": __all__, "core.": vars(core), "download.": vars(download), "features.": types_of_features}
    spaces |= {"decode.": vars(decode), "testing.": _tests}
    paths = {
        member: f"{prefix}{member}" for prefix, members in spaces.items() for member in members if member[0] != "_"
    }
    near = paths.get(name) or paths.get(nearest_name(name, paths, cutoff=0.8))
    return f"use tfds.{near}" if near else ""


def tfds_path(*relative: str) -> pathlib.Path:
    """Returns a path within the package of TensorFlow Datasets that is installed.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    spec = importlib.util.find_spec("tensorflow_datasets")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("tfds_path() needs the files of TFDS: pip install tensorflow-datasets")
    return pathlib.Path(spec.submodule_search_locations[0], *relative)


class _NumpyDataset:
    """A tf.data dataset whose items are NumPy's; it can be iterated any number of times."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return map(as_numpy, self._dataset)

    def __len__(self) -> int:
        return len(self._dataset)

    @property
    def element_spec(self) -> Any:
        """The types of the items: TensorFlow's."""
        return self._dataset.element_spec


def as_numpy(dataset: Any) -> Any:
    """Converts tf.data datasets and tensors, or dicts, lists and tuples of them, to NumPy values.

    Datasets, also nested ones, become iterables. Ragged tensors are unchanged, as in TensorFlow Datasets, and so are
    all other values, such as datasets of this package, whose values are already NumPy values.
    """
    if isinstance(dataset, Mapping):
        kind: Any = OrderedDict if isinstance(dataset, OrderedDict) else dict  # as TensorFlow Datasets keeps it
        return kind((key, as_numpy(value)) for key, value in dataset.items())
    if isinstance(dataset, tuple) and hasattr(dataset, "_fields"):
        return type(dataset)(*map(as_numpy, dataset))
    if type(dataset) in (list, tuple):
        return type(dataset)(map(as_numpy, dataset))
    if hasattr(dataset, "as_numpy_iterator"):
        return _NumpyDataset(dataset)
    is_tensor = hasattr(dataset, "numpy") and not hasattr(dataset, "to_tensor")  # not a RaggedTensor
    return dataset.numpy() if is_tensor else dataset


_CHECKSUM_DIRS: list[pathlib.Path] = []


def add_checksums_dir(checksums_dir: str | os.PathLike[str]) -> None:
    """Adds a directory of files `<dataset>.txt`, for builders without a checksums.tsv beside their module."""
    _CHECKSUM_DIRS.append(pathlib.Path(checksums_dir))


class GeneratorBasedBuilder(builders.DatasetBuilder, skip_registration=True):
    """A builder whose floats are rounded to the float32 of a record and whose text of numbers is parsed, as in TFDS."""

    @classmethod
    def checksums_file(cls) -> pathlib.Path:
        """Returns the path of checksums.tsv next to the module, or else of a file in a directory of checksums.

        The builders of TFDS itself have such a directory too.
        """
        tsv_path = super().checksums_file()
        folders = [*_CHECKSUM_DIRS]
        if importlib.util.find_spec("tensorflow_datasets") and tsv_path.is_relative_to(tfds_path()):
            folders.append(tfds_path("url_checksums"))
        older = (folder / f"{cls.name}.txt" for folder in folders)
        return tsv_path if tsv_path.is_file() else next((path for path in older if path.is_file()), tsv_path)

    @property
    def data_path(self) -> pathlib.Path:
        """Directory of this version."""
        return pathlib.Path(self.dataset_dir)

    @ClassProperty
    def default_builder_config(cls) -> Any:
        """The default config, also of the class; None if there are no configs."""
        return cls._default_config()

    @classmethod
    def get_builder_config(cls, name: str, version: Any = None) -> Any:
        """Returns the config with a name, and with the version if configs share the name; None if it does not exist."""
        configs = cls.configs()
        return configs.get(f"{name}:{version}") or configs.get(name)

    @property
    def builder_config_name(self) -> str | None:
        """The name of the builder's config; None without configs."""
        return self.builder_config.name if self.builder_config else None

    @property
    def blocked_versions(self) -> BlockedVersions | None:
        """The versions that must not be used."""
        return self.BLOCKED_VERSIONS

    def is_blocked(self) -> IsBlocked:
        """Returns whether this version, or this config of it, must not be used."""
        blocked = self.BLOCKED_VERSIONS
        return blocked.is_blocked(self.version, self.builder_config_name) if blocked else IsBlocked(False)

    def assert_is_not_blocked(self) -> None:
        """Raises a BeamDatasetsError if this version, or this config of it, must not be used."""
        if status := self.is_blocked():
            raise BeamDatasetsError(str(status.blocked_msg))

    def get_file_spec(self, split: str) -> str | None:
        """Returns the shards of a split in one text, such as `/data/digits/1.0.0/digits-train.tfrecord@4`."""
        spec: str | None = self.info.splits[split].file_spec()
        return spec

    @property
    def versions(self) -> list[Version]:
        """The versions of the code, the canonical one first."""
        return [self.canonical_version, *self.supported_versions]

    def as_data_source(self, split: Any = None, *, decoders: Any = None) -> Any:
        """Returns `as_dataset(split, decoders=decoders)`, which has a length and items by position."""
        return self.as_dataset(split, decoders=decoders)

    def _build_described_info(self) -> DatasetInfo:
        """Returns the metadata; its features accept what those of TFDS convert. See `DatasetBuilder`."""
        info = super()._build_described_info()
        if info.features is not None:
            enable_tfds_conversions(info.features)
        return info

    def _sources(self, pipeline: Any) -> dict[str, Any]:
        """Returns the sources, once the class names that generators set before their first example are known.

        They are published by the launcher, but generators run on workers.
        """
        sources = super()._sources(pipeline)
        if self._downloads is None or not self._downloads.offline:  # not on a worker
            for split, source in sources.items():
                if isinstance(source, types.GeneratorType) and any(
                    isinstance(each, connectors.ClassLabel) and each.label_names is None
                    for each in iter_connectors(self.info.features)
                ):
                    sources[split] = itertools.chain(list(itertools.islice(source, 1)), source)
        return sources


class BeamBasedBuilder(GeneratorBasedBuilder, builders.BeamBasedBuilder, skip_registration=True):
    """The same with `_build_pcollection`."""


class FeatureConnector(connectors.CustomFeature):
    """The base class of custom connectors; a subclass is registered when it is defined, as in TensorFlow Datasets."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not is_shell(cls):
            connectors.register(cls)


class ClassLabel(connectors.ClassLabel):
    """A ClassLabel whose names a builder may set once it has read them in a downloaded file."""

    @property
    def names(self) -> list[str]:
        """The names of the classes; '0', '1', ... if they have no names."""
        return super().names

    @names.setter
    def names(self, names: Iterable[str]) -> None:
        """Sets the names of the labels, once.

        Raises:
            ValueError: other names, or another number of them, are already set.
        """
        labeled = connectors.ClassLabel(names=names)
        if self.num_classes not in (None, labeled.num_classes) or self.label_names not in (None, labeled.label_names):
            raise ValueError(f"{self!r}: expected its names, got {labeled.names!r:.200}. Set them once.")
        self._set_fields(num_classes=labeled.num_classes, label_names=labeled.label_names)

    def __eq__(self, other: object) -> bool:
        """Returns whether the other, of this class or the base class, has the same classes."""
        return isinstance(other, connectors.ClassLabel) and (self.num_classes, self.label_names) == (
            other.num_classes,
            other.label_names,
        )

    __hash__ = connectors.ClassLabel.__hash__


@names_foreign_arguments("load")
def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    download_and_prepare_kwargs: Mapping[str, Any] | None = None,
    as_dataset_kwargs: Mapping[str, Any] | None = None,
    builder_kwargs: Mapping[str, Any] | None = None,
    try_gcs: bool = False,
    config: Any = None,
    version: VersionOrStr | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    decoders: Any = None,
    read_config: ReadConfig | None = None,
    as_supervised: bool = False,
    text: str = "bytes",
    with_info: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Returns `beam_datasets.load`, after the dataset was generated if it is not published and its code is known.

    Args:
        name: see there, as for all arguments that are not described here.
        split: see there.
        data_dir: see there.
        download: whether to generate it.
        download_and_prepare_kwargs: arguments of the builder's `download_and_prepare`.
        as_dataset_kwargs: further arguments of this function, such as {"batch_size": 32}.
        builder_kwargs: see there.
        try_gcs: has no meaning here.
        config: see there.
        version: see there.
        batch_size: see there.
        shuffle_files: see there.
        decoders: see there.
        read_config: see there.
        as_supervised: see there.
        text: see there.
        with_info: see there.
        storage_options: see there.
    """
    if download:
        options = {"config": config, "version": version, **(builder_kwargs or {})}
        dataset_builder = builder(name, data_dir=data_dir, storage_options=storage_options, **options)
        prepare = getattr(dataset_builder, "download_and_prepare", None)
        if prepare is not None:
            prepare(**(download_and_prepare_kwargs or {}))
    reading_options = {
        "split": split,
        "batch_size": batch_size,
        "shuffle_files": shuffle_files,
        "decoders": decoders,
        "read_config": read_config,
        "as_supervised": as_supervised,
    }
    return opening.load(
        name,
        data_dir=data_dir,
        config=config,
        version=version,
        text=text,
        with_info=with_info,
        builder_kwargs=dict(builder_kwargs or {}),
        storage_options=storage_options,
        **(reading_options | dict(as_dataset_kwargs or {})),
    )


def display_progress_bar(enable: bool = True) -> None:
    """Lets terminals show bars of downloads, or not."""
    http.show_progress = enable


def enable_progress_bar() -> None:
    """Lets terminals show bars of downloads."""
    display_progress_bar(True)


def disable_progress_bar() -> None:
    """Shows no bars of downloads."""
    display_progress_bar(False)


def optional(feature: Any) -> Any:
    """Returns the feature as one that may be None: `tfds.features.Optional`.

    Raises:
        TypeError: the feature must have a value; it is not a Tensor, Scalar or Text.
    """
    feature = to_feature(feature)
    if not hasattr(feature, "optional"):
        raise TypeError(f"{feature!r} cannot be optional; Tensor, Scalar and Text can.")
    optional_feature = copy.copy(feature)
    object.__setattr__(optional_feature, "optional", True)
    return optional_feature


def parse_bool(value: bool | int | str) -> bool:
    """Returns the bool that a text such as "true" or "0" means.

    Raises:
        ValueError: the text is not one of the known ones.
    """
    meanings = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    meaning = meanings.get(str(value).strip().lower())
    if meaning is None:
        raise ValueError(f"{value!r} is neither true nor false; needed: one of {', '.join(meanings)}.")
    return meaning


def to_rgb_jpeg(image_bytes: bytes, quality: int = 100) -> bytes:
    """Returns an image file as JPEG of red, green and blue: `png_to_jpeg` and `jpeg_cmyk_to_rgb`."""
    return image_codec.encode(image_codec.decoder(3, np.dtype(np.uint8))(image_bytes), "jpeg", quality)


def gcs_path(*relative: str) -> str:
    """Returns a path within the public bucket of TensorFlow Datasets."""
    return "/".join(("gs://tfds-data", *relative))


@dataclasses.dataclass(frozen=True)
class TextEncoderConfig:
    """Encoding of text; this package does not encode it.

    Attributes:
        encoder: None.
        encoder_cls: None.
        name: name of the config.
    """

    encoder: None = None
    encoder_cls: None = None
    name: str = "plain_text"


lazy_imports = _Names("core.lazy_imports", lambda name: _import_package(_PACKAGES.get(name, name)))
_CHANGED = {"ClassLabel": ClassLabel, "DocArg": Any, "FeatureConnector": FeatureConnector, "Optional": optional}
decode = _Names("decode", **{n: v for n, v in vars(decoding).items() if n[0] != "_"})
features = _Names("features", **{n: v for n, v in vars(connectors).items() if n[0] != "_"} | _CHANGED)
for _file, _class in {
    "feature": "FeatureConnector",
    "features_dict": "FeaturesDict",
    "class_label_feature": "ClassLabel",
    "sequence_feature": "Sequence",
    "text_feature": "Text",
}.items():
    setattr(features, _file, _Names(f"core.features.{_file}", **{_class: getattr(features, _class)}))
_READERS = {
    f"iter_{name.lower()}": functools.partial(downloads.iter_archive, method=downloads.ExtractMethod[name])
    for name in ("TAR", "TAR_STREAM", "ZIP", "GZIP", "BZIP2")
}
download = _Names(
    "download",
    DownloadConfig=builders.DownloadConfig,
    DownloadManager=downloads.DownloadManager,
    DownloadError=downloads.DownloadError,
    ExtractMethod=downloads.ExtractMethod,
    Resource=downloads.Resource,
    iter_archive=downloads.iter_archive,
    add_checksums_dir=add_checksums_dir,
    extractor=_Names("core.download.extractor", iter_archive=downloads.iter_archive, **_READERS),
)
beam = _Names("beam")
_CONLL = "beam_datasets.testing.tfds_catalogue.core.dataset_builders.conll"  # of the TFDS that is installed
_conll_builders = {f"{name}DatasetBuilder": f"{_CONLL}.{name.lower()}_dataset_builder" for name in ("Conll", "ConllU")}
dataset_builders = _Names("dataset_builders", functools.partial(_import_later, _conll_builders))
deprecated = _Names("deprecated", text=_Names("deprecated.text", TextEncoderConfig=TextEncoderConfig))
visualization = _Names("visualization", GraphVisualizerMetadataDict=MetadataDict)
_builder_names = {
    "DatasetBuilder": GeneratorBasedBuilder,
    "GeneratorBasedBuilder": GeneratorBasedBuilder,
    "BeamBasedBuilder": BeamBasedBuilder,
    "BuilderConfig": builders.BuilderConfig,
}
_versions = {"IsBlocked": IsBlocked, "Version": Version, "BlockedVersions": BlockedVersions, "Experiment": Experiment}
_infos = {"DatasetInfo": DatasetInfo, "MetadataDict": MetadataDict}
_splits = {"Split": Split, "ReadInstruction": ReadInstruction, "SplitInfo": SplitInfo}
_utils = _Names(
    "core.utils",
    **_versions,
    VersionOrStr=Any,
    DatasetVariantBlockedError=BeamDatasetsError,
    display_progress_bar=display_progress_bar,
    enable_progress_bar=enable_progress_bar,
    disable_progress_bar=disable_progress_bar,
    classproperty=ClassProperty,
    tfds_path=tfds_path,
    gcs_path=gcs_path,
    png_to_jpeg=to_rgb_jpeg,
    jpeg_cmyk_to_rgb=to_rgb_jpeg,
    memoize=lambda: functools.lru_cache(maxsize=None),
    lazy_imports_utils=_Names("core.utils.lazy_imports_utils", _Lazy),
    type_utils=_Names("core.utils.type_utils", PathLike=Any),
    bool_utils=_Names("core.utils.bool_utils", parse_bool=parse_bool),
    version=_Names("core.utils.version", **_versions),
    read_config=_Names("core.utils.read_config", ReadConfig=ReadConfig),
)
core = _Names(
    "core",
    Version=Version,
    Experiment=Experiment,
    **_builder_names,
    dataset_builder=_Names("core.dataset_builder", **_builder_names),
    dataset_info=_Names("core.dataset_info", **_infos),
    dataset_utils=_Names("core.dataset_utils", as_numpy=as_numpy),
    split_builder=_Names("core.split_builder", SplitGenerator=Any),
    beam_utils=beam,
    decode=decode,
    SplitGenerator=builders.SplitGenerator,
    DatasetNotFoundError=DatasetNotFoundError,
    DatasetIdentity=DatasetIdentity,
    **_infos,
    **_splits,
    Metadata=MetadataDict,
    BeamMetadataDict=MetadataDict,
    SplitDict=SplitDict,
    Path=pathlib.Path,
    lazy_imports=lazy_imports,
    lazy_imports_lib=_Names("core.lazy_imports_lib", lazy_imports=lazy_imports),
    tfds_path=tfds_path,
    gcs_path=gcs_path,
    utils=_utils,
    features=features,
    download=download,
    naming=_Names("core.naming", camelcase_to_snakecase=camel_to_snake),
    splits=_Names("core.splits", **_splits, SplitDict=SplitDict, even_splits=even_splits),
    load=_Names("core.load", load=load, builder=builder, data_source=load),
    ReadOnlyBuilder=ReadOnlyBuilder,
    read_only_builder=_Names(
        "core.read_only_builder",
        ReadOnlyBuilder=ReadOnlyBuilder,
        builder_from_directory=builder_from_directory,
        builder_from_directories=builder_from_directories,
    ),
)
for _path, _module in {
    "core.features": features,
    "core.download": download,
    "core.beam_utils": beam,
    "core.visualization": visualization,
    "core.decode": decode,
    "public_api": sys.modules[__name__],
}.items():
    sys.modules[f"{__name__}.{_path}"] = _module
_tests = dict.fromkeys(("DatasetBuilderTestCase", "MockPolicy", "mock_data", "test_main"), "beam_datasets.testing")
testing = _Names("testing", functools.partial(_import_later, _tests))
typing = _Names("typing", PathLike=Any, FeatureConnectorArg=Any)
data_source = load
public_api = sys.modules[__name__]


__path__: list[str] = []  # a package, so that an import of what it lacks has advice


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _raise_missing(name)
