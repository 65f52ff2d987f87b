"""The names of this package in place of those of TFDS, for test modules of the wheel; see `tfds_own.py`."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import operator
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adapters
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_datasets import testing as their_testing
from tensorflow_datasets.testing import feature_test_case

import beam_datasets as bd
import beam_datasets.tfds as ours
from beam_datasets import features as F
from beam_datasets.metadata.split_expressions import map_splits

TFDS = "tensorflow_datasets"
CASES: dict[str, str] = {}
"""The values that tests of features compared: '' for the same, else what differs."""

TESTS_OF_VALUES: set[str] = set()
"""Tests that consist of such values."""


class NoEquivalent(AttributeError):
    """A name of TFDS that this package does not have was used."""


def tfds_root() -> Path:
    """Returns the directory of the installed TFDS."""
    spec = importlib.util.find_spec(TFDS)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


class Name:
    """A module or a name of TFDS; `resolve` has another one for what is looked up in it.

    Attributes:
        path: of the module or name.
        swaps: the adapters for the test module that uses it.
    """

    importing = False

    def __init__(self, path: str, swaps: dict[str, Any]) -> None:
        self.__dict__.update(path=path, swaps=swaps)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return resolve(f"{self.path}.{name}", self.swaps)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if Name.importing:  # of a decorator, or of a value of a parameter
            return Name(f"{self.path}()", self.swaps)
        raise NoEquivalent(f"no equivalent: {self.path}")

    def __iter__(self) -> Iterator[Any]:
        if Name.importing:
            return iter((Name(f"{self.path}[0]", self.swaps),))
        raise NoEquivalent(f"no equivalent: {self.path}")

    def __mro_entries__(self, bases: Any) -> Any:
        path = self.path

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NoEquivalent(f"no equivalent: {path}")

        members = {"__init__": refuse, "__init_subclass__": lambda *args, **kwargs: None}
        return (type("NoEquivalentBase", (), members),)

    def __repr__(self) -> str:
        return f"<no equivalent: {self.path}>"


def resolve(path: str, swaps: dict[str, Any]) -> Any:
    """Returns what stands for a name of TFDS: an adapter, a name of this package, or one that cannot be used."""
    if path in swaps:
        return swaps[path]
    tail = path.removeprefix(f"{TFDS}.").removeprefix("public_api.")
    if tail.startswith("testing."):
        return resolve_testing(tail.removeprefix("testing."), swaps)
    places = [tail]
    if tail.startswith("core.features."):
        places.append(f"features.{tail.rpartition('.')[2]}")
    for place in places:
        with contextlib.suppress(AttributeError):
            found = operator.attrgetter(place)(ours)
            is_module = isinstance(found, types.ModuleType) and found.__name__.startswith(ours.__name__)
            return Name(path, swaps) if is_module else found
    return Name(path, swaps)


def resolve_testing(name: str, swaps: dict[str, Any]) -> Any:
    """Returns a tool of tests: TFDS's own, or with the names of this package."""
    made = {
        "FeatureExpectationsTestCase": FeatureExpectationsTestCase,
        "run_in_graph_and_eager_modes": lambda function=None, **kwargs: function or (lambda each: each),
        "TestCase": TestCase,
        "SubTestCase": SubTestCase,
        "assert_features_equal": assert_features_equal,
        "mock_data": ours.testing.mock_data,
        "MockPolicy": ours.testing.MockPolicy,
    }
    if name in made:
        return made[name]
    if name.startswith("Dummy"):
        return getattr(dummies(), name, Name(f"{TFDS}.testing.{name}", swaps))
    file = tfds_root() / "testing" / f"{name.replace('.', '/')}.py"
    if "." in name and file.is_file():
        return load(file)
    return getattr(their_testing, name, Name(f"{TFDS}.testing.{name}", swaps))


_LOADED: dict[str, Any] = {}


def dummies() -> Any:
    """Returns TFDS's module of builders for tests, with other names."""
    return load(tfds_root() / "testing" / "test_utils.py")


def load(path: Path) -> Any:
    """Imports a module of the wheel with other names."""
    if str(path) in _LOADED:
        return _LOADED[str(path)]
    name = f"swapped_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": importer(adapters.swaps(path.stem))}
    _LOADED[str(path)] = module
    sys.modules[name] = module
    before, Name.importing = Name.importing, True
    try:
        exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
    finally:
        Name.importing = before
    return module


def importer(swaps: dict[str, Any]) -> Callable[..., Any]:
    """Returns what stands for `__import__` in a module with these adapters."""

    def find(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if name == "pytest":
            return _Pytest("pytest")
        if name.partition(".")[0] == "jax" and importlib.util.find_spec("jax") is None:
            numpy = types.SimpleNamespace(bfloat16=tf.bfloat16.as_numpy_dtype, array=np.array)  # all that tests use
            return numpy if name == "jax.numpy" and fromlist else types.SimpleNamespace(numpy=numpy)
        if name.partition(".")[0] != TFDS:
            return builtins.__import__(name, globals, locals, fromlist, level)
        return swaps.get(name, Name(name, swaps)) if fromlist else Name(TFDS, swaps)

    return find


def build(self: Any, **options: Any) -> Any:
    return _BUILD(self, **{"num_workers": 1} | options)  # other processes could not import the modules


def as_dataset(self: Any, split: Any = None, **options: Any) -> Any:
    """Returns tf.data datasets, as tests look into."""
    found = _AS_DATASET(self, split, **options)
    return map_splits(lambda each: each.as_tf_dataset() if isinstance(each, bd.Dataset) else each, found)


_AS_DATASET = ours.core.GeneratorBasedBuilder.as_dataset
ours.core.GeneratorBasedBuilder.as_dataset = as_dataset
_BUILD = ours.core.GeneratorBasedBuilder.build
ours.core.GeneratorBasedBuilder.build = build


# ------------------------------------------------------------------------------------------------- features, by values


class _OnlyClasses:
    """Assertions about errors that leave out their texts, which differ on purpose."""

    def assertRaisesWithPredicateMatch(self, kind: Any, text: Any) -> Any:
        return pytest.raises(kind)

    def assertRaisesRegex(self, kind: Any, text: Any) -> Any:
        return pytest.raises(kind)


class TestCase(_OnlyClasses, their_testing.TestCase):
    """TFDS's, without texts of errors."""


def assert_features_equal(one: Any, other: Any) -> None:
    """Asserts that features are the same."""
    _equal(F.FeaturesDict({"f": one}), F.FeaturesDict({"f": other}))


class SubTestCase(_OnlyClasses, feature_test_case.SubTestCase):
    """TFDS's, with values of this package."""

    def assertAllEqualNested(self, one: Any, other: Any, *, atol: float | None = None) -> None:
        _same(_plain(one), _plain(other), atol)


class _Pytest(types.ModuleType):
    """pytest, without texts of errors."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pytest, name)

    def raises(self, kind: Any, match: Any = None) -> Any:
        return pytest.raises(kind)


class FeatureExpectationsTestCase(_OnlyClasses, feature_test_case.SubTestCase):
    """Compares what this package encodes and decodes with what TFDS's tests expect."""

    def assertFeature(self, feature: Any, shape: Any, dtype: Any, tests: Any, **options: Any) -> None:
        self.assertFeatureEagerOnly(feature, shape, dtype, tests, **options)

    def assertFeatureEagerOnly(
        self,
        feature: Any,
        shape: Any,
        dtype: Any,
        tests: Any,
        serialized_info: Any = None,
        test_tensor_spec: bool = True,
        skip_feature_tests: bool = False,
        test_attributes: Any = None,
    ) -> None:
        del test_tensor_spec
        test = f"{type(self).__module__.removeprefix('swapped_')}::{type(self).__name__}::{self._testMethodName}"
        TESTS_OF_VALUES.add(test)
        number = sum(case.startswith(f"{test}/") and case.endswith("/shape") for case in CASES)
        test = f"{test}/{number}"
        restored = [feature]
        if not skip_feature_tests:
            text = F.to_json_text(feature)
            with _case(f"{test}/json"):
                restored.append(F.from_json_text(text, path="features.json").load_labels(feature.label_files().get))
        with _case(f"{test}/shape"):
            _equal(_nest(feature.shape), _nest(shape))
        with _case(f"{test}/dtype"):
            _equal(_nest(feature.dtype, _dtype), _nest(dtype, _dtype))
        if serialized_info:
            with _case(f"{test}/serialized_info"):
                infos = [_nest(each, _info) for each in (feature.get_serialized_info(), serialized_info)]
                _equal(*infos)
        for key, value in (test_attributes or {}).items():
            if key.startswith("_"):
                key = key[1:]
            with _case(f"{test}/attribute {key}"):
                _equal(getattr(feature, key), value)
        for number, each in enumerate(tests):
            for which, tree in zip(("", " restored"), restored):
                self._value(f"{test}/value {number}{which}", tree, each)

    def _value(self, name: str, feature: Any, test: Any) -> None:
        """Compares one value."""
        tree = F.FeaturesDict({"inner": feature})

        def passed() -> Any:
            decoders = None if test.decoders is None else {"inner": test.decoders}
            found = tree.deserialize_example(tree.serialize_example({"inner": test.value}), decoders=decoders)["inner"]
            return _plain(found)

        if test.raise_cls is not None or test.raise_cls_np is not None:
            with _case(f"{name} raises"):
                kind: type[Exception] = test.raise_cls or test.raise_cls_np
                try:
                    passed()
                except kind:
                    return
                raise AssertionError("not raised")
            return
        if test.expected_serialized is not None:
            with _case(f"{name} serialized"):
                _same(_plain(feature.encode_example(test.value)), _plain(test.expected_serialized))
        if test.expected is not None:
            with _case(name):
                _same(passed(), _plain(test.expected), test.atol)
        expected = test.expected_np
        if expected is not None:
            is_none = isinstance(expected, feature_test_case.TestValue)
            with _case(f"{name} numpy"):
                _same(passed(), None if is_none else _plain(expected), test.atol)


@contextlib.contextmanager
def _case(name: str) -> Iterator[None]:
    """Counts a case, and goes on after one that differs."""
    CASES[name] = ""
    try:
        yield
    except (Exception, AssertionError) as error:
        CASES[name] = f"{type(error).__name__}: {error}"


def _equal(one: Any, other: Any) -> None:
    assert one == other, f"here {one!r}, in TFDS {other!r}"


def _nest(value: Any, convert: Callable[[Any], Any] = lambda each: each) -> Any:
    if isinstance(value, dict):
        return {name: _nest(child, convert) for name, child in value.items()}
    return convert(value)


def _dtype(dtype: Any) -> str:
    name = np.dtype(getattr(dtype, "as_numpy_dtype", dtype)).name
    return "string" if name.startswith(("str", "bytes", "object")) else name


def _info(info: Any) -> Any:
    return tuple(info.shape), _dtype(info.dtype)


def _plain(value: Any) -> Any:
    """Returns a value as nested lists, dicts and arrays."""
    if isinstance(value, feature_test_case.RaggedConstant):
        value = value.build()
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, (tf.RaggedTensor, tf.compat.v1.ragged.RaggedTensorValue)):
        return value.to_list()
    if isinstance(value, tf.data.Dataset) or hasattr(value, "_make_iterator_fn"):
        return [_plain(each) for each in value]
    if isinstance(value, (list, tuple, F.NestedDataset)):
        return [_plain(each) for each in value]
    if isinstance(value, F.RaggedArray):
        return [_plain(each) for each in value]
    return value.numpy() if isinstance(value, tf.Tensor) else value


def _same(one: Any, other: Any, atol: float | None = None) -> None:
    """Asserts that values are equal; text as str and as bytes is."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), f"here {sorted(one)}, in TFDS {sorted(other)}"
        for name in one:
            _same(one[name], other[name], atol)
        return
    if one is None or other is None:
        assert one is other, f"here {one!r:.100}, in TFDS {other!r:.100}"
        return
    is_list = isinstance(one, list) or isinstance(other, list)
    if is_list and (_is_ragged(one) or _is_ragged(other)):
        one, other = list(one), list(other)
        assert len(one) == len(other), f"here {len(one)} items, in TFDS {len(other)}"
        for mine, its in zip(one, other):
            _same(mine, its, atol)
        return
    first, second = (np.vectorize(_bytes, otypes=[object])(each) if each.dtype.kind in "OSU" and each.size else each
                     for each in map(np.asarray, (one, other)))  # fmt: skip
    assert first.shape == second.shape, f"here the shape {first.shape}, in TFDS {second.shape}"
    if atol:
        np.testing.assert_allclose(np.asarray(first, float), np.asarray(second, float), atol=atol)
    else:
        np.testing.assert_array_equal(first, second)


def _is_ragged(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return isinstance(value, list)
    if any(isinstance(each, dict) for each in value):
        return True
    return any(isinstance(each, list) for each in value) or len({np.shape(each) for each in value}) > 1


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
