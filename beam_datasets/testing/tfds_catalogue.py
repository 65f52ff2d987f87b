"""The builder modules of an installed TensorFlow Datasets, with its names replaced by those of this package.

`beam_datasets.testing.tfds_catalogue.X` is the module `tensorflow_datasets.X`, read from its source. TFDS itself is not
imported, and may be imported beside it. Workers import the modules by the same names.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TFDS = "tensorflow_datasets"
_OURS = "beam_datasets.tfds"
_OF_BUILDERS = f"{_TFDS}.core.dataset_builders."  # base classes of families; the rest of `core` is what we replace
__path__: list[str] = []


def load_tfds_builder(module: str, name: str = "Builder") -> Any:
    """Returns a builder class of an installed TensorFlow Datasets, as one of this package.

    Args:
        module: module of the class, such as 'tensorflow_datasets.image_classification.mnist'.
        name: name of the class.

    Raises:
        ModuleNotFoundError: TFDS is not installed, or has no such module.
        AttributeError: the module has no such class, or uses a name of TFDS that has no equivalent.
    """
    return getattr(importlib.import_module(_rename_module(module)), name)


def _rename_module(module: str) -> str:
    """Returns the name of the module here that stands for a module of TFDS."""
    for theirs in (f"{_TFDS}.public_api", f"{_TFDS}.core"):
        if (module == theirs or module.startswith(f"{theirs}.")) and not f"{module}.".startswith(_OF_BUILDERS):
            return _OURS + module.removeprefix(_TFDS)
    if module == _TFDS:
        return _OURS
    return __name__ + module.removeprefix(_TFDS) if module.startswith(f"{_TFDS}.") else module


class _Renaming(ast.NodeTransformer):
    """Replaces imports of TFDS by imports of the modules here that stand for it."""

    def visit_Import(self, node: ast.Import) -> Any:
        """Returns the `import` statements that replace those of modules of TensorFlow Datasets."""
        nodes: list[ast.stmt] = []
        for alias in node.names:
            new = _rename_module(alias.name)
            if new != alias.name and alias.asname is None:  # `import tensorflow_datasets.x` binds its first part
                nodes.append(ast.Import([ast.alias(new)]))
                nodes.append(ast.Import([ast.alias(_OURS, _TFDS)]))
            else:
                nodes.append(ast.Import([ast.alias(new, alias.asname)]))
        return [ast.copy_location(new, node) for new in nodes]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        """Returns the `from ... import` statements, one per name, that replace one of TensorFlow Datasets."""
        if node.level or node.module is None or node.module.partition(".")[0] != _TFDS:
            return node
        nodes = []
        for alias in node.names:
            full_name = f"{node.module}.{alias.name}"
            parent = _rename_module(full_name).rpartition(".")[0]
            nodes.append(ast.copy_location(ast.ImportFrom(parent, [alias], 0), node))
        return nodes


class _Catalogue(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules in the files of TFDS, without the imports of their packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a module of the installed catalogue; None for other modules. See `MetaPathFinder`.

        Raises:
            ModuleNotFoundError: TensorFlow Datasets is not installed.
        """
        if not fullname.startswith(f"{__name__}."):
            return None
        tfds_spec = importlib.util.find_spec(_TFDS)
        if tfds_spec is None or not tfds_spec.submodule_search_locations:
            raise ModuleNotFoundError("TensorFlow Datasets is not installed: pip install tensorflow-datasets")
        base = Path(tfds_spec.submodule_search_locations[0], *fullname.removeprefix(f"{__name__}.").split("."))
        if base.is_dir():
            return importlib.machinery.ModuleSpec(fullname, self, origin=str(base), is_package=True)
        file = base.with_suffix(".py")
        if not file.is_file():
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(file))
        spec.has_location = True
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        """Executes the source of a module with renamed imports; see `importlib.abc.Loader.exec_module`."""
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        if spec.submodule_search_locations is not None:
            if module.__name__.endswith(".proto"):
                generated = importlib.import_module(f"{module.__name__}.waymo_dataset_generated_pb2")
                module.__dict__["waymo_dataset_pb2"] = generated
            return
        tree = _Renaming().visit(ast.parse(Path(spec.origin).read_text("utf-8"), spec.origin))
        exec(compile(ast.fix_missing_locations(tree), spec.origin, "exec"), module.__dict__)


class LazyBuilderImport:
    """A builder class that is loaded when it is first used; modules of TFDS contain it for classes that have moved."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(load_tfds_builder(f"{_TFDS}.datasets.{self._name}.{self._name}_dataset_builder"), name)


_lazy_import = types.ModuleType("beam_datasets.tfds.core.lazy_builder_import")
_lazy_import.LazyBuilderImport = LazyBuilderImport  # type: ignore[attr-defined]
sys.modules[_lazy_import.__name__] = _lazy_import
sys.meta_path.append(_Catalogue())
