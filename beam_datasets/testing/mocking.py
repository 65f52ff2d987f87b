"""`mock_data`: random examples in place of datasets that do not exist."""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from beam_datasets import builders, catalog, storage, tfds
from beam_datasets import features as F
from beam_datasets.arguments import integer
from beam_datasets.errors import DatasetNotFoundError
from beam_datasets.execute import in_process
from beam_datasets.features.base import dtype_of, shape_of
from beam_datasets.features.dtypes import STRING
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.split_expressions import AbstractSplit, map_splits
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from beam_datasets.options import ShardingOptions
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.sources.units import SourceUnits

if TYPE_CHECKING:
    from beam_datasets.builders.builder import DatasetBuilder


_LETTERS = np.array(list(" abcdefghij"))
_MAX_VALUE = 255
_MAX_ITEMS = 5
_CLASSES = 10  # of a label whose classes are known only once the dataset is generated
_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # until the process ends: a dataset may be read after the context


class MockPolicy(enum.Enum):
    """The source of the features and splits of `mock_data`.

    Attributes:
        AUTO: uses metadata files if there are any, else the builder's class.
        USE_CODE: uses the builder's class.
        USE_FILES: uses metadata files; without them reading is an error.
    """

    AUTO = enum.auto()
    USE_CODE = enum.auto()
    USE_FILES = enum.auto()


@contextlib.contextmanager
def mock_data(
    num_examples: int = 1,
    num_sub_examples: int = 1,
    max_value: int | None = None,
    *,
    policy: MockPolicy = MockPolicy.AUTO,
    as_dataset_fn: Callable[..., Any] | None = None,
    as_data_source_fn: Callable[..., Any] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Lets `load` and builders read random examples, which are the same each time; nothing is downloaded or built.

    Each split, and each slice of it, has `num_examples` examples. Features of your own have values of the shape and
    the dtype that `get_tensor_info` declares.

    Args:
        num_examples: number of examples of each split.
        num_sub_examples: items of a `Dataset` feature.
        max_value: the largest integer; None for 255.
        policy: source of features and splits.
        as_dataset_fn: a function `(builder, split=..., **options)` in place of `as_dataset`.
        as_data_source_fn: the same in place of `as_data_source`.
        data_dir: root of metadata files (dataset_info.json, features.json and label files, without shards), in place of
            any that is given to `load`; None for that one.

    Raises:
        TypeError: a number is not an int.
        ValueError: a number is too small, or the policy does not exist.
    """
    num_examples = integer("num_examples", num_examples, at_least=1)
    num_sub_examples = integer("num_sub_examples", num_sub_examples, at_least=0)
    max_value = None if max_value is None else integer("max_value", max_value, at_least=0)
    mocked = _Mocked(num_examples, num_sub_examples, max_value, MockPolicy(policy))
    as_dataset = as_dataset_fn or (lambda builder, split=None, **options: mocked.as_dataset(builder, split, options))
    as_source = as_data_source_fn or as_dataset
    with contextlib.ExitStack() as stack:
        replace: Any = lambda *args: stack.enter_context(mock.patch.object(*args))  # noqa: E731
        for kind in (builders.DatasetBuilder, ReadOnlyBuilder):
            replace(kind, "as_dataset", _as_method(as_dataset))
        for kind in (tfds.GeneratorBasedBuilder, ReadOnlyBuilder):
            replace(kind, "as_data_source", _as_method(as_source))
        replace(builders.DatasetBuilder, "download_and_prepare", lambda self, **options: None)
        if data_dir is not None:
            root = catalog.root_dir(data_dir)
            replace(catalog, "root_dir", lambda data_dir=None, storage_options=None: root)
        yield


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method `as_dataset` for builders that calls a function.

    Args:
        function: the function (builder, split=split, **options); `split` is also positional in the method.
    """

    def method(self: Any, split: Any = None, **options: Any) -> Any:
        """Calls the function with the builder, the split and the options."""
        return function(self, split=split, **options)

    return method


class _Mocked:
    """Datasets of random examples, each generated when it is first read.

    Args:
        num_examples: number of examples of each split.
        num_sub_examples: number of items of a `Dataset` feature.
        max_value: the largest integer; None for `_MAX_VALUE`.
        policy: source of features and splits.
    """

    def __init__(self, num_examples: int, num_sub_examples: int, max_value: int | None, policy: MockPolicy) -> None:
        self.num_examples, self.num_sub_examples = num_examples, num_sub_examples
        self.max_value = _MAX_VALUE if max_value is None else max_value
        self._policy = policy
        self._readers: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._as_dataset: Any = ReadOnlyBuilder.as_dataset

    def as_dataset(self, builder: DatasetBuilder | ReadOnlyBuilder, split: Any, options: dict[str, Any]) -> Any:
        """Returns the result of the builder's `as_dataset`, with random examples.

        Args:
            builder: the builder.
            split: argument of `as_dataset`: an expression or a structure of them; None for all splits.
            options: other arguments of `as_dataset`, by name.
        """
        info = self._describe_dataset(builder)
        if split is None:
            split = {name: name for name in info.splits}
            if not split:
                raise ValueError(
                    f"{info.name}: its code does not say which splits it has. Name one: split='train', or give "
                    "mock_data(data_dir=) metadata files."
                )
        return map_splits(lambda each: self._open_first_split(builder, info, each, options), split)

    def _open_first_split(
        self, builder: DatasetBuilder | ReadOnlyBuilder, info: DatasetInfo, expression: Any, options: dict[str, Any]
    ) -> Any:
        """Returns the dataset of the first split that an expression names.

        Args:
            builder: the builder.
            info: description of the dataset.
            expression: expression of a slice.
            options: other arguments of `as_dataset`, by name.
        """
        recorder = _Asked(info.splits, self.num_examples)
        AbstractSplit.from_spec(expression).to_absolute(recorder)
        name = recorder.names[0] if recorder.names else "train"
        key = (builder.dataset_dir, (name,))
        if key not in self._readers:
            self._readers[key] = self._generate_dataset(info, name)
        return self._as_dataset(self._readers[key], name, **options)

    def _describe_dataset(self, builder: DatasetBuilder | ReadOnlyBuilder) -> DatasetInfo:
        """Returns the description of a dataset; of files or of code, see `MockPolicy`."""
        if isinstance(builder, ReadOnlyBuilder):
            return builder.info
        has_files = self._policy is not MockPolicy.USE_CODE and builder.is_prepared()
        if not has_files and self._policy is MockPolicy.USE_FILES:
            raise DatasetNotFoundError(
                f"{builder.dataset_dir} has no metadata files, which MockPolicy.USE_FILES asks for. Copy "
                "dataset_info.json and features.json there, or give mock_data(data_dir=)."
            )
        info: DatasetInfo = builder.info if has_files else builder._build_described_info()
        return info

    def _generate_dataset(self, info: DatasetInfo, split: str) -> ReadOnlyBuilder:
        """Generates a dataset of one split, and returns its builder."""
        root = tempfile.TemporaryDirectory(prefix="beam_datasets-mock-")
        _KEPT.append(root)
        features = with_classes(info.features.decoded())
        mock_info = info.replace(
            features=features, data_dir=storage.join(root.name, "data"), splits=SplitDict(), is_blocked=None
        )
        source = SourceUnits(["mock"], functools.partial(self._examples, features))
        sharding = ShardingOptions.of(ordered=mock_info.disable_shuffling)
        return ReadOnlyBuilder(in_process.generate(mock_info, f"{__name__}:mock_data", {split: source}, sharding))

    def _examples(self, features: Any, _: str) -> Iterator[tuple[int, Any]]:
        """Yields (number, random example) pairs; the number alone determines the example.

        Args:
            features: features of the dataset.
            _: ignored; the split.
        """
        for number in range(self.num_examples):
            seed = int.from_bytes(hashlib.md5(str(number).encode()).digest()[:8], "big")
            yield number, self.value(features, np.random.default_rng(seed))

    def value(self, feature: Any, random: np.random.Generator) -> Any:
        """Returns a random value of a feature."""
        if isinstance(feature, F.TranslationVariableLanguages):
            return {language: _random_text(random) for language in feature.languages or ("en",)}
        if isinstance(feature, F.FeaturesDict):
            return {name: self.value(child, random) for name, child in feature.items()}
        if isinstance(feature, F.Video):
            return self._random_array(tuple(_lengths(feature.shape, random)), np.dtype(np.uint8), random)
        if isinstance(feature, F.Sequence):
            num_items = self.num_sub_examples if isinstance(feature, F.Dataset) else int(random.integers(1, _MAX_ITEMS))
            count = num_items if feature.length is None else feature.length
            return [self.value(feature.feature, random) for _ in range(count)]
        if isinstance(feature, F.ClassLabel):
            return int(random.integers(feature.num_classes or 1))
        if isinstance(feature, F.BBoxFeature):
            low, high = np.sort(random.random((2, 2), np.float32), axis=0)
            return F.BBox(*map(float, (*low, *high)))
        return self._random_value_of(feature, random)

    def _random_value_of(self, feature: Any, random: np.random.Generator) -> Any:
        """Returns a random array of a feature's shape and dtype, or a text."""
        shape = shape_of(feature) or ()
        dtype = dtype_of(feature)
        if isinstance(feature, F.Audio) and feature.lazy_decode:
            return _wav(feature.sample_rate or 8000, (*feature.shape, 1)[1] or 1)
        array = self._random_array(tuple(_lengths(shape, random)), dtype, random)
        low, high = getattr(feature, "minimum", None), getattr(feature, "maximum", None)
        if low is not None or high is not None:
            array = np.clip(array, low, high).astype(dtype)
        if isinstance(feature, F.LabeledImage) and feature.label.num_classes:
            array = array % np.array(feature.label.num_classes, dtype) if feature.label.num_classes <= 256 else array
        return array if shape else array[()]

    def _random_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], random: np.random.Generator) -> Any:
        """Returns a random array; integers are from 0 to `max_value`, floats from 0 to 1.

        Args:
            shape: shape of the array.
            dtype: dtype of the array; strings make an array of objects.
            random: the generator of random numbers.
        """
        if dtype == STRING:
            texts = np.empty(shape, object)
            for index in np.ndindex(shape):
                texts[index] = _random_text(random)
            return texts
        if dtype.kind == "b":
            return random.integers(2, size=shape).astype(np.bool_)
        if dtype.kind in "iu":
            maximum = min(self.max_value, int(np.iinfo(dtype).max))
            return random.integers(maximum, size=shape, endpoint=True).astype(dtype)
        return random.random(shape, np.float32).astype(np.float16).astype(dtype)  # every dtype of floats holds these


class _Asked(dict[str, SplitInfo]):
    """Splits that are recorded when an expression asks for them; without known ones any name is one."""

    def __init__(self, splits: Any, num_examples: int) -> None:
        super().__init__({name: SplitInfo(name, [1 << 40], 0) for name in splits})
        self.names: list[str] = []
        self.dataset_name = getattr(splits, "dataset_name", "")

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) if len(self) else True

    def __getitem__(self, name: str) -> SplitInfo:
        self.names.append(name)
        return SplitInfo(name, [1 << 40], 0)


def with_classes(feature: Any) -> Any:
    """Returns the features with a number of classes for each label that has none yet."""
    if isinstance(feature, F.FeaturesDict):
        return feature.with_features({name: with_classes(child) for name, child in feature.items()})
    if isinstance(feature, F.Sequence):
        return feature.with_feature(with_classes(feature.feature))
    if isinstance(feature, F.ClassLabel) and feature.num_classes is None:
        return F.ClassLabel(num_classes=_CLASSES, doc=feature.doc)
    return feature


def _lengths(shape: Any, random: np.random.Generator) -> Iterator[int]:
    """Yields the lengths of the dimensions of a shape; a random one for None."""
    return (int(random.integers(1, _MAX_ITEMS)) if length is None else length for length in shape)


def _random_text(random: np.random.Generator) -> str:
    """Returns a text of 10 to 19 random letters."""
    return "".join(random.choice(_LETTERS, size=int(random.integers(10, 20))))


def _wav(rate: int, channels: int) -> bytes:
    """Returns a WAV file of a tenth of a second of silence, 16 bits, with `rate` samples per second."""
    import io
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(np.zeros((rate // 10, channels), "<i2").tobytes())
    return file.getvalue()
