"""Finds the builder class of a dataset, given the argument of the command line."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from beam_datasets import catalog, storage
from beam_datasets.advice import instead_of_format
from beam_datasets.cli import data_files
from beam_datasets.cli.options import UsageError
from beam_datasets.errors import did_you_mean
from beam_datasets.metadata.data_files import build_arguments, build_command
from beam_datasets.metadata.names import DatasetName, Scalar

if TYPE_CHECKING:
    from beam_datasets.builders import DatasetBuilder

FORMATS = (
    "csv",
    "image_folder",
    "jsonl",
    "parquet",
    "sound_folder",
    "text_lines",
    "tfrecord",
)  # modules of `beam_datasets.files`
FOLDER = "pipelines"  # a folder of the current directory whose datasets are found by name

_BUILDER = re.compile(
    r"^class \w+\((\w+\.)*(Dataset|GeneratorBased|BeamBased|Files|Rows)Builder[,)](?! abc)", re.MULTILINE
)
# A top-level module is code only with a class behind it, because a name with a colon may also have a tag.
_CODE = re.compile(
    r"(?P<where>.+\.py|\w+(?:\.\w+)+|[A-Za-z_]\w*(?=:_*[A-Z]))(?::(?P<kind>[A-Za-z_]\w*))?(?P<rest>[/:].*)?"
)


@dataclass(frozen=True)
class BuilderRequest:
    """The dataset that the user asks for.

    Attributes:
        builder: its class.
        config: None for the default one.
        version: None for the canonical one.
        kwargs: further arguments for the builder.
    """

    builder: type[DatasetBuilder]
    config: str | None = None
    version: str | None = None
    kwargs: Mapping[str, Scalar] | None = None


def resolve(text: str) -> BuilderRequest:
    """Returns the dataset that a text means.

    It is `name[/config][:version]` of a registered builder, of a format of files (`csv`), or of `pipelines/name.py`
    below the current directory; or `path/to/file.py[:Class][/config][:version]`; or `package.module[:Class]...`, or
    `module:Class...`. A name may also be that of a directory with the file of one builder. A slash may replace the
    colon before the version.

    Raises:
        UsageError: the dataset does not exist, or the file does not say which of its builders is meant.
    """
    text = file_of_folder(text)
    code = _CODE.fullmatch(text)
    if build_arguments_of_file(text):
        raise UsageError(
            f"{text}: expected a dataset or the file of a builder, got a file of data. Build it by its format, with "
            f"your other options: {build_command(text)}"
        )
    if way := way_to_build(text):
        raise UsageError(f"{text}: expected a dataset or the file of a builder, got another file. {way}")
    try:
        name = DatasetName.parse_path(f"code{code['rest'] or ''}" if code else text)
    except ValueError as error:
        expected_form = "expected [:Class][/config][:version] after the file or module"
        missing = f"{text}: the file or directory does not exist. " if _is_missing_path(text) else ""
        raise UsageError(f"{text}: {expected_form}, got {code['rest']!r}" if code else f"{missing}{error}") from None
    if not code:
        return BuilderRequest(_by_name(name.name), name.config, name.version, name.kwargs)
    [module] = import_code([code["where"]])
    return BuilderRequest(_builder_of(module, code["kind"]), name.config, name.version, name.kwargs)


def file_of_folder(text: str) -> str:
    """Returns the path of the builder's file in a directory whose path is given; any other text unchanged.

    A text such as `digits/small`, which is the name of a dataset with a config, is not a path even if there is such a
    directory; neither is a name without a slash, which `resolve` looks for elsewhere first.

    Raises:
        UsageError: the directory does not contain exactly one builder.
    """
    if not os.path.isdir(text):
        return text
    folder = text.rstrip("/") or text
    head, slash, _ = folder.partition("/")
    is_name = not slash or head in {*catalog.registered(), *known_names()} or _datasets_in(head)
    return folder if is_name and head not in ("", ".", "..") else builder_file(folder)


def _is_missing_path(text: str) -> bool:
    """Returns whether a text means a path of this machine, by its form, where no file or directory is."""
    is_path = text.startswith(("/", ".", "~")) or text.count("/") > 1
    return is_path and "://" not in text and not os.path.exists(os.path.expanduser(text))


def is_builder(text: str) -> bool:
    """Returns whether a text means a format of files, or a builder by its file or module; else it is a dataset."""
    code = _CODE.fullmatch(text)
    if code is None or code["where"].endswith(".py"):
        return code is not None or text in FORMATS
    has_class = code["kind"] is not None and "." in code["where"]  # otherwise `name:Tag` is a dataset
    return not os.path.exists(text) and (has_class or _exists(code["where"]))


def build_arguments_of_file(text: str) -> str | None:
    """Returns the arguments of `build` for a data file; None for code, or for an unknown suffix."""
    return None if _is_code(text) else build_arguments(text)


def way_to_build(text: str) -> str:
    """Returns `data_files.way_to_build` of a text, a sentence with a command; '' for the name of a module of code."""
    return "" if _is_code(text) else data_files.way_to_build(text)


def _is_code(text: str) -> bool:
    """Returns whether a text is the name of a module that exists, such as beam_datasets.files.csv."""
    code = _CODE.fullmatch(text)
    return code is not None and code["where"] == text and (text.endswith(".py") or _exists(text))


def _by_name(name: str) -> type[DatasetBuilder]:
    """Finds a builder among registered names, file formats, modules of FOLDER and directories, in this order.

    Raises:
        UsageError: the name is unknown, or does not lead to exactly one builder.
    """
    registered = catalog.registered()
    if name in registered:
        return registered[name]
    if name in FORMATS:
        return _builder_of(importlib.import_module(f"beam_datasets.files.{name}"), None)
    if name in _datasets_in(FOLDER):
        return _builder_of(import_code([os.path.join(FOLDER, f"{name}.py")])[0], None)
    if os.path.isdir(name):
        return _builder_of(import_code([builder_file(name)])[0], None)
    names = {*registered, *known_names()}
    near = did_you_mean(name, [*names, *(f"{module}.py" for module in _datasets_in("."))]).strip()
    hint = instead_of_format("build", name) or near
    raise UsageError(
        f"unknown dataset {name!r}; known are {', '.join(sorted(names)) or 'none'}.{hint and f' {hint}'} "
        "A file is given by its path: path/to/my_dataset.py"
    )


def builder_file(folder: str) -> str:
    """Returns the file of the builder in a directory: `*_dataset_builder.py` if there is one, as TFDS calls it.

    Raises:
        UsageError: the directory has no file of a builder, or several.
    """
    names = [f"{name}.py" for name in _datasets_in(folder)]
    candidates = [name for name in names if name.endswith("_dataset_builder.py")] or names
    if len(candidates) != 1:
        ways = "".join(f", or {way}" for way in data_files.ways_to_build_folder(folder))
        names_text = ", ".join(candidates) or "none"
        raise UsageError(
            f"{os.path.abspath(folder)}: expected one file with a builder, got {names_text}. Give the file: "
            f"path/to/my_dataset.py{ways or '; `beam-datasets build --help` lists the formats of files'}"
        )
    return os.path.join(folder, candidates[0])


def known_names() -> list[str]:
    """Returns the names of the formats of files, and of the datasets in `pipelines/` below the current directory."""
    return [*FORMATS, *_datasets_in(FOLDER)]


def _datasets_in(folder: str) -> list[str]:
    """Returns the names of the modules in a folder that define a builder, sorted: "digits" for digits.py."""
    modules = []
    for path in sorted(glob.glob(os.path.join(folder, "*.py"))):
        with open(path, encoding="utf-8", errors="replace") as file:
            if _BUILDER.search(file.read()):
                modules.append(os.path.basename(path)[:-3])
    return modules


def _exists(module: str) -> bool:
    """Returns whether a module can be found by its dotted name; imports only its parent packages."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def import_code(names: Iterable[str]) -> list[ModuleType]:
    """Returns modules that are given by their names or their files, imported.

    Raises:
        UsageError: there is no such module, or it imports TFDS or TensorFlow, which is not installed.
        ModuleNotFoundError: another module that it imports is missing.
    """
    modules = []
    for name in names:
        try:
            modules.append(_load_file(name) if name.endswith(".py") else _load_module(name))
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _REPLACEMENTS:
                raise
            raise UsageError(
                f"{name}: it imports {package}, which is not installed. {_REPLACEMENTS[package]}: "
                "docs/reference/tfds.md says how a builder is ported"
            ) from error
    return modules


_REPLACEMENTS = {
    "tensorflow_datasets": "Write `import beam_datasets.tfds as tfds` in the place of `import tensorflow_datasets as "
    "tfds`, and `from beam_datasets.tfds` for `from tensorflow_datasets`",
    "tensorflow": "Write np.int64 for tf.int64 and path.open() for tf.io.gfile.GFile(path), or install it by `pip "
    "install tensorflow`",
}
"""What builders for TensorFlow Datasets import, and what to write in its place."""


def _load_module(name: str) -> ModuleType:
    """Imports a module by its dotted name.

    Raises:
        UsageError: there is no such module.
    """
    if not _exists(name):
        module, _, kind = name.rpartition(".")
        form = "A file with code ends in .py"
        if module and kind[0].isupper():
            form = f"A class stands after a colon: {module}:{kind}"
        raise UsageError(f"cannot find module {name!r}; it must be importable from here (PYTHONPATH). {form}")
    return importlib.import_module(name)


def _load_file(path: str) -> ModuleType:
    """Returns the module of a file, imported by its name so that workers can import it too."""
    storage.check_slashes(path)
    file = os.path.abspath(path)
    if not os.path.isfile(file):
        raise UsageError(f"the file {path} does not exist")
    folder, name = os.path.dirname(file), os.path.basename(file)[:-3]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    make_importable(folder)
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin or not os.path.samefile(spec.origin, file):
        raise UsageError(f"{path} would be imported as {name!r}, and that is {spec and spec.origin} already; rename it")
    return importlib.import_module(name)


def make_importable(folder: str) -> None:
    """Lets this process, and the worker processes that it starts, import from a folder."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    python_path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in python_path:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *python_path]))


def _builder_of(module: ModuleType, kind: str | None) -> type[DatasetBuilder]:
    """Returns the builder that a module defines: the one of this name, or the only one if the name is None.

    Raises:
        UsageError: the module does not define it, or defines several.
    """
    from beam_datasets.builders import DatasetBuilder

    builders = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, DatasetBuilder) and value.__module__ == module.__name__
    }
    if kind is not None and kind not in builders:
        hint = ". Leave out :latest: the version is the one of the code" if kind == "latest" else ""
        raise UsageError(f"{module.__file__} has no builder {kind!r}; it has {', '.join(builders) or 'none'}{hint}")
    if kind is None and len(builders) != 1:
        if not builders:
            raise UsageError(f"{module.__file__} has no builder; it needs a class that derives from DatasetBuilder")
        raise UsageError(
            f"{module.__file__} has the builders {', '.join(builders)}; say which: {module.__file__}:{min(builders)}"
        )
    return builders[kind] if kind is not None else next(iter(builders.values()))
