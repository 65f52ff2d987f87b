"""Finding datasets: from a data_dir and a name to the directory of a version, and the registry of builders.

    <data_dir>/<name>/[<config>/]<version>/

Only published versions are found: directories with dataset_info.json and features.json. Unfinished or emptied
directories are skipped, and do not hide a lower version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_datasets import storage
from beam_datasets.advice import instead_of_argument, instead_of_format, names_foreign_arguments
from beam_datasets.errors import DatasetNotFoundError, MetadataError, PathPermissionError, StorageError, did_you_mean
from beam_datasets.metadata.info import INFO_FILE
from beam_datasets.metadata.manifest import MANIFEST_FILE
from beam_datasets.metadata.names import (
    USUAL_SPLITS,
    DatasetName,
    check_config_name,
    hint_for_config,
    hint_for_file,
    is_file_name,
)
from beam_datasets.metadata.version import Version, VersionOrStr, choose_version, is_requested

if TYPE_CHECKING:
    from beam_datasets.features import FeatureConnector

DataDir: TypeAlias = "str | os.PathLike[str] | None"
Options: TypeAlias = "Mapping[str, Any] | None"
BuilderClass: TypeAlias = "type[Any]"  # of builders.DatasetBuilder, of a later layer

FEATURES_FILE = "features.json"
CONFIG_DIR = ".config"
CONFIG_FILE = "metadata.json"
DATA_DIR_VARIABLES = ("BEAM_DATASETS_DATA_DIR", "TFDS_DATA_DIR")
DEFAULT_DATA_DIR = "~/beam_datasets"

_MAX_SUBDIRS = 20  # that an error looks into

_registered: dict[str, BuilderClass] = {}


def register(builder: BuilderClass) -> None:
    """Registers a builder class under its name.

    Raises:
        ValueError: another class has this name. A new definition of the same class, as in a notebook, replaces it.
    """
    registered = _registered.get(builder.name)
    if registered is not None and (registered.__module__, registered.__name__) != (
        builder.__module__,
        builder.__name__,
    ):
        raise ValueError(
            f"two builders are called {builder.name!r}: {registered.__module__}.{registered.__name__} and "
            f"{builder.__module__}.{builder.__name__}. Rename one, or declare it with skip_registration=True."
        )
    _registered[builder.name] = builder


def registered() -> dict[str, BuilderClass]:
    """Returns the registered builder classes by name."""
    return dict(_registered)


def code_of(name: str, kwargs: Mapping[str, Any]) -> BuilderClass | None:
    """Returns the registered builder class of a name; None if there is none.

    Also returns None if the builder needs arguments and none are given, as builders of files do: then its code does not
    determine the canonical version.

    Raises:
        DatasetNotFoundError: there are arguments, and no builder that could take them.
    """
    builder: Any = _registered.get(name)
    if kwargs and (builder is None or _is_of_files(builder)):
        arguments = {"name": name, **kwargs}
        hints = (instead_of_argument("builder_kwargs", argument, arguments) for argument in kwargs)
        advice = instead_of_format("builder", name) or next(filter(None, hints), "")
        raise DatasetNotFoundError(
            f"no builder called {name!r} is registered that could take {', '.join(kwargs)}. "
            + (advice or "Import the module that has it; or leave that out, to read what is published.")
        )
    return None if builder is not None and not kwargs and _needs_arguments(builder) else builder


def _is_of_files(builder: BuilderClass) -> bool:
    """Returns whether a builder class is one of this package's for files, such as `Csv`, which are called directly."""
    return builder.__module__.startswith(f"{__package__}.files.")


@functools.lru_cache(maxsize=1000)
def _needs_arguments(builder: BuilderClass) -> bool:
    """Returns whether a builder class cannot be instantiated without arguments of its own."""
    if _is_of_files(builder):
        return True  # it reads the files that its arguments name
    try:
        inspect.signature(builder).bind(data_dir=None, config=None, version=None)
    except TypeError:
        return True
    return False


def root_dir(data_dir: DataDir = None, storage_options: Options = None) -> str:
    """Returns the root of the datasets; for None $BEAM_DATASETS_DATA_DIR, $TFDS_DATA_DIR or ~/beam_datasets.

    Args:
        data_dir: the root.
        storage_options: options of its store.

    Raises:
        TypeError: data_dir is not a path.
        ValueError: it is empty, or there are options for a local path.
    """
    if data_dir is None:
        data_dir = next(filter(None, map(os.environ.get, DATA_DIR_VARIABLES)), DEFAULT_DATA_DIR)
    if not isinstance(data_dir, (str, os.PathLike)):
        raise TypeError(f"data_dir must be a str or an os.PathLike, not {data_dir!r}.")
    if data_dir == "":
        raise ValueError("data_dir is empty; is a variable unset? None is the default directory.")
    return storage.with_options(data_dir, storage_options)


def is_published(dataset_dir: str) -> bool:
    """Returns whether a directory holds a published version."""
    return all(storage.exists(storage.join(dataset_dir, name)) for name in (INFO_FILE, FEATURES_FILE))


def read_features(path: str | os.PathLike[str]) -> FeatureConnector:
    """Returns the features that a features.json describes, with the names in the label files beside it.

    Raises:
        MetadataError: the file is damaged.
        FileNotFoundError: it does not exist.
    """
    from beam_datasets.features import from_json_text

    def read(name: str) -> str | None:
        """Returns the text of a file beside features.json; None if it does not exist."""
        label_path = storage.join(storage.dirname(file), name)
        return storage.read_bytes(label_path).decode() if storage.exists(label_path) else None

    file = storage.normalize(path)
    return from_json_text(storage.read_bytes(file).decode(), path=file).load_labels(read)


def find_dataset_dir(
    name: str | DatasetName,
    data_dir: DataDir = None,
    *,
    config: str | None = None,
    version: VersionOrStr | None = None,
) -> str:
    """Returns the directory of the published version that a name means.

    Without a version that is the canonical one where a builder of this name is registered, as in TensorFlow Datasets,
    else the highest published one. Where both exist and differ, a warning names both. A pattern means the highest that
    matches.

    Args:
        name: such as 'digits', 'digits/small', 'digits:1.*.*', 'digits:latest'.
        data_dir: see `root_dir`.
        config: instead of one in the name; without any it is the default one.
        version: instead of one in the name; a version, a pattern, or 'latest' for the highest of all.

    Raises:
        DatasetNotFoundError: the dataset, config or version does not exist; the message lists what exists.
        ValueError: the name or the version cannot be read.
    """
    parsed_name = DatasetName.parse(name) if isinstance(name, str) else name
    config, version = split_config(config or parsed_name.config, version or parsed_name.version)
    root = root_dir(data_dir)
    builder = code_of(parsed_name.name, parsed_name.kwargs)
    if builder is not None and version is None and (config is None or builder.has_config(config)):
        instance = builder(data_dir=root, config=config, **parsed_name.kwargs)
        directory = _canonical(instance, root)
        warn_of_higher(instance, root)
        return directory
    version_dir = _find_version(_dataset_path(root, parsed_name.name, config), version)
    if version_dir is None and config is None and not list_versions(parsed_name.name, data_dir=root):
        config = default_config(parsed_name.name, root)
        if config is not None:
            version_dir = _find_version(_dataset_path(root, parsed_name.name, config), version)
    if version_dir is not None:
        return version_dir
    versions = list_versions(parsed_name.name, config, data_dir=root)
    if not versions:
        raise _not_found(parsed_name.name, config, root)
    chosen = choose_version(version, versions, of=f"{_join_config(parsed_name.name, config)} in {root}")
    return storage.join(_dataset_path(root, parsed_name.name, config), str(chosen))


def _find_version(folder: str, requested: VersionOrStr | None) -> str | None:
    """Returns the directory of the highest published version in a folder that matches a request; None if none does.

    Looks whether a version is published only until one is, as each look may be a request to a store.

    Args:
        folder: directory of a dataset or of a config.
        requested: a version, a pattern, or 'latest' or None for any version.
    """
    exact = storage.join(folder, str(requested))
    if Version.is_valid(requested) and is_published(exact):
        return exact
    for version in reversed(_list_version_dirs(folder)):
        directory = storage.join(folder, str(version))
        if is_requested(version, requested) and _unless_denied(is_published, directory):
            return directory
    return None


def split_config(config: Any, version: VersionOrStr | None) -> tuple[Any, VersionOrStr | None]:
    """Returns (config, version), after dividing a config such as 'small:1.0.0', which contains a version, into both.

    Raises:
        ValueError: the config has a colon without a version, or another version than `version`.
    """
    if not isinstance(config, str) or ":" not in config:
        return config, version
    name, _, version_in_config = config.partition(":")
    if not version_in_config:
        raise ValueError(f"config={config!r}: expected a version after the colon. Write '{name}:1.0.0', or {name!r}")
    if version is not None and str(version) != version_in_config:
        raise ValueError(
            f"config={config!r}, version={str(version)!r}: expected one version, got two. Leave out one of them"
        )
    return name, version_in_config


def note_on_names(label: str, dataset_dir: str, version: VersionOrStr) -> str:
    """Returns advice to ask for a version explicitly, if higher ones are published beside it; '' otherwise.

    Args:
        label: name of the dataset without a version, such as 'digits' or 'digits/small'.
        dataset_dir: directory of the version; other versions are beside it.
        version: the version.
    """
    higher = versions_in(storage.dirname(dataset_dir), above=Version(version))
    if not higher:
        return ""
    return (
        f"Higher versions are published: without its builder imported, {label!r} means {higher[-1]}; ask for "
        f"'{label}:{version}' or '{label}:latest'."
    )


def note_on_builder(name: str, config: str | None, version: VersionOrStr, root: str) -> str:
    """Returns a sentence about the version that a bare name means where the builder is imported; '' if it is this one.

    Also returns '' if no builder of this name is registered, or if its code cannot be asked.

    Args:
        name: name of the dataset.
        config: name of its config, if any.
        version: the version.
        root: root of the datasets.
    """
    label, canonical = _join_config(name, config), version
    with contextlib.suppress(Exception):  # of the author's constructor: the version is published without a sentence
        builder = code_of(name, {})
        if builder is not None and (config is None or builder.has_config(config)):
            canonical = builder(data_dir=root, config=config).version
    if Version(canonical) == Version(version):
        return ""
    return (
        f"Where its builder is imported, {label!r} means {canonical}, the version of the code; ask for "
        f"'{label}:{version}' or '{label}:latest'."
    )


_warned: set[str] = set()  # directories of versions that a higher one was named beside


def warn_of_higher(builder: Any, root: str, *, stacklevel: int = 4) -> None:
    """Warns once if the version of a builder's code is not the highest published one, which other processes read.

    Args:
        builder: the `DatasetBuilder` of this version.
        root: root of the datasets, which contains the directory of the builder.
        stacklevel: number of frames from this function to the one that is warned; see `warnings.warn`.
    """
    directory, version = builder.dataset_dir, builder.version
    if directory in _warned:
        return
    higher: list[Version] = []
    with contextlib.suppress(StorageError):  # of a store that cannot list: the dataset is read without that
        higher = versions_in(storage.dirname(directory), above=version)
    if higher:
        _warned.add(directory)
        label = _join_config(builder.name, builder.builder_config and builder.builder_config.name)
        warnings.warn(
            f"'{label}' means {version} here, because a builder of this version is imported; without it '{label}' "
            f"means {higher[-1]}, the highest published version in {root}. Name one: '{label}:{version}' or "
            f"'{label}:latest'.",
            stacklevel=stacklevel,
        )


def find_published(
    name_or_dir: str | os.PathLike[str], data_dir: DataDir = None, storage_options: Options = None
) -> str:
    """Returns the directory of a dataset, given its name or the directory itself, whose content is not checked.

    Args:
        name_or_dir: a name as `find_dataset_dir` takes it, or with '/' before the version, as in 'digits/small/1.0.0';
            or a directory: a URL, a path that begins with '/', '.' or '~', or any other one that holds a version.
        data_dir: root of the datasets, for a name; see `root_dir`.
        storage_options: options of the store of the directory, or for a name of `data_dir`.

    Raises:
        DatasetNotFoundError: no published version has this name; the message lists what exists. Or it is not a name.
        ValueError: there are options for a local path.
    """
    text = storage.as_text(name_or_dir)
    if _is_directory(name_or_dir):
        return storage.with_options(text, storage_options) if storage_options else text
    if ":/" in text or "//" in text:  # no name has these
        storage.check_slashes(text)
    root, is_local_dir = root_dir(data_dir, storage_options), os.path.isdir(text)
    try:
        parsed_name = DatasetName.parse_path(text)
    except ValueError as error:
        raise DatasetNotFoundError(_no_version(text) if is_local_dir else _with_path_hint(text, str(error))) from None
    try:
        return find_dataset_dir(parsed_name, root)
    except DatasetNotFoundError as error:
        is_path = f"{_no_version(text)} As a name: {error}" if is_local_dir else _with_path_hint(text, str(error))
        raise DatasetNotFoundError(is_path) from None


def _with_path_hint(text: str, problem: str) -> str:
    """Returns the problem of a text as a name; adds that there is no such directory if the text may be a path.

    That comes first if versions are near the path, because then the text probably means a directory.

    Args:
        text: the text, which is not the path of a directory.
        problem: the problem of the text as a name.
    """
    near = versions_near(text) if "/" in text else ""
    if near:
        return f"The directory {text} does not exist.{near} As a name: {problem}"
    return f"{problem} The directory {text} does not exist." if text.count("/") > 1 else problem


def version_rule(name_or_dir: str | os.PathLike[str], directory: str) -> str:
    """Returns the rule that selects the version in `directory` for a name without one.

    It is '' for other names, or if the version is the only published one and no builder decides.

    >>> version_rule("digits:1.0.0", "/data/digits/1.0.0")
    ''
    """
    if _is_directory(name_or_dir):
        return ""
    parsed_name = DatasetName.parse_path(os.fspath(name_or_dir))
    if parsed_name.version is not None:
        return ""
    builder, version = code_of(parsed_name.name, parsed_name.kwargs), storage.basename(directory)
    if builder is not None and (parsed_name.config is None or builder.has_config(parsed_name.config)):
        return f"version {version}: the one of the builder that is imported"
    num_published = len(versions_in(storage.dirname(directory)))
    return f"version {version}: the highest of {num_published} that are published" if num_published > 1 else ""


def _is_directory(name_or_dir: str | os.PathLike[str]) -> bool:
    """Returns whether a text means a directory, by its form or because there is a version in that directory."""
    text = os.fspath(name_or_dir)
    is_path = not isinstance(name_or_dir, str) or "://" in text or os.path.isabs(text) or text.startswith((".", "~"))
    files = (INFO_FILE, FEATURES_FILE, MANIFEST_FILE)  # of a damaged version one may be missing
    return is_path or any(os.path.exists(os.path.join(text, name)) for name in files)


def latest(name_or_dir: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Returns a name without a version with 'latest', so that it means the highest one also where code is registered.

    >>> latest("digits/small"), latest("digits:1.0.0"), latest("/data/digits/1.0.0")
    ('digits/small:latest', 'digits:1.0.0', '/data/digits/1.0.0')
    """
    with contextlib.suppress(ValueError):
        if isinstance(name_or_dir, str) and not _is_directory(name_or_dir):
            parsed_name = DatasetName.parse_path(name_or_dir)
            return name_or_dir if parsed_name.version else str(dataclasses.replace(parsed_name, version="latest"))
    return name_or_dir


def _no_version(directory: str) -> str:
    """Returns the error text "<directory> is not the directory of a version: ..."; see `explain_unpublished`."""
    return f"{directory} is not the directory of a version: {explain_unpublished(directory)}"


def list_datasets(data_dir: DataDir = None) -> list[str]:
    """Returns the names of the datasets that have a published version, or whose directories this user may not read."""
    root = root_dir(data_dir)
    is_there: Any = lambda name: list_versions(name, data_dir=root) or list_configs(name, root)  # noqa: E731
    return [name for name in _subdirs(root) if _unless_denied(is_there, name)]


def _unless_denied(is_there: Callable[..., bool], *path: str) -> bool:
    """Returns the result of `is_there`; True without permission, because opening then reports the reason."""
    try:
        return is_there(*path)
    except PathPermissionError:
        return True


@names_foreign_arguments("list_builders")
def list_builders(data_dir: DataDir = None) -> list[str]:
    """Returns the names that `load` and `builder` accept: those of registered builders and of published datasets.

    Args:
        data_dir: see `root_dir`.
    """
    return sorted({*_registered, *list_datasets(data_dir)})


def list_configs(name: str, data_dir: DataDir = None) -> list[str]:
    """Returns the names of a dataset's configs that have a published version."""
    root = root_dir(data_dir)
    configs = [config for config in _subdirs(_dataset_path(root, name)) if not Version.is_valid(config)]
    return [config for config in configs if list_versions(name, config, data_dir=root)]


def list_versions(name: str, config: str | None = None, *, data_dir: DataDir = None) -> list[Version]:
    """Returns the published versions of a dataset, or of a config of it; see `versions_in`."""
    return versions_in(_dataset_path(root_dir(data_dir), name, config))


def versions_in(folder: str, *, above: Version | None = None) -> list[Version]:
    """Returns the published versions in a directory, lowest first.

    A version that this user may not look into counts: opening it gives the reason.

    Args:
        folder: the directory.
        above: returns only higher versions than this one; None for all.
    """
    versions = [version for version in _list_version_dirs(folder) if above is None or above < version]
    return [version for version in versions if _unless_denied(is_published, storage.join(folder, str(version)))]


def _list_version_dirs(folder: str) -> list[Version]:
    """Returns the versions that are names of entries of a directory, published or not, lowest first."""
    names = storage.list_dir(folder, missing_ok=True)
    return sorted(Version(name) for name in names if Version.is_valid(name) and str(Version(name)) == name)


def list_published(name: str, data_dir: DataDir = None) -> list[str]:
    """Returns the full names of all published versions of a dataset, such as 'digits/small:1.0.0'."""
    root = root_dir(data_dir)
    configs = [None, *list_configs(name, root)]
    return [
        f"{_join_config(name, config)}:{v}" for config in configs for v in list_versions(name, config, data_dir=root)
    ]


def published_versions_text(name: str, root: str) -> str:
    """Returns a clause for errors: "published versions: digits:1.0.0", or "... none", or the reason for no list.

    Args:
        name: name of the dataset.
        root: the data_dir.
    """
    try:
        names = ", ".join(list_published(name, root))
        if not storage.is_dir(root):
            return f"{root}: {explain_missing_directory(root)}"
        return f"published versions: {names or 'none'}"
    except StorageError:
        return "what else is published there cannot be listed"


def explain_unpublished(directory: str) -> str:
    """Returns a clause such as "it has no dataset_info.json." or "the directory does not exist.", for errors.

    Advice follows: the versions that are near the directory (see `versions_near`), or for a file the command that
    builds it.
    """
    if is_local_file(directory):
        parent = storage.dirname(directory)
        advice = f" The version is {parent}." if is_published(parent) else hint_for_file(directory)
        return f"{explain_missing_directory(directory)}.{advice}"
    is_missing = not storage.is_remote(directory) and not storage.is_dir(directory)  # of a store that may not be listed
    lacks = explain_missing_directory(directory) if is_missing else f"it has no {INFO_FILE}"
    return f"{lacks}.{versions_near(directory)}"


def is_local_file(path: str) -> bool:
    """Returns whether a path is that of an existing local file, and not of a directory."""
    return not storage.is_remote(path) and storage.exists(path) and not storage.is_dir(path)


def explain_missing_directory(path: str) -> str:
    """Returns why a path is not a directory, as a clause: it does not exist, or is a file."""
    return "it is a file, not a directory" if storage.exists(path) else "the directory does not exist"


def _versions_below(folder: str, depth: int = 2) -> list[str]:
    """Returns the paths of the versions in the first `_MAX_SUBDIRS` subdirectories of a folder, relative to it.

    Configs are searched only on local disks, in datasets without versions.

    Args:
        folder: a directory of datasets or of configs.
        depth: 1 searches the subdirectories, 2 also theirs.
    """
    paths: list[str] = []
    for name in _subdirs(folder)[:_MAX_SUBDIRS]:
        subdir = storage.join(folder, name)
        versions = [str(version) for version in versions_in(subdir)]
        if not versions and depth > 1 and not storage.is_remote(subdir):  # a store may take a second for each list
            versions = _versions_below(subdir, depth - 1)
        paths += [f"{name}/{version}" for version in versions]
    return paths


def versions_near(directory: str) -> str:
    """Returns a sentence for an error about the versions in a directory or beside it.

    It is '' if there are none, or they cannot be listed.
    """
    try:
        for folder in (directory, storage.dirname(directory) or "."):
            versions = [str(version) for version in versions_in(folder)]
            if not versions and folder == directory:
                versions = _versions_below(folder)
            if versions:
                return f" Versions in {folder}: {', '.join(versions)}."
    except StorageError:
        pass
    return ""


def default_config(name: str, data_dir: DataDir = None) -> str | None:
    """Returns the default config of a dataset, as recorded in its directory; None if none is recorded.

    Raises:
        MetadataError: the file of the directory is damaged.
    """
    path = storage.join(_dataset_path(root_dir(data_dir), name), CONFIG_DIR, CONFIG_FILE)
    if not storage.exists(path):
        return None
    try:
        return check_config_name(json.loads(storage.read_bytes(path))["default_config_name"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MetadataError(
            f"it does not name a default config ({error}); write the dataset again.", path=path
        ) from error


def write_default_config(name: str, config: str, data_dir: DataDir = None) -> None:
    """Writes the default config of a dataset: the one that its name means without a config.

    It is the file `CONFIG_DIR`/`CONFIG_FILE` in the dataset's directory, {"default_config_name": config}, as TFDS
    writes it. An existing file is replaced.
    """
    folder = storage.join(_dataset_path(root_dir(data_dir), name), CONFIG_DIR)
    storage.make_dirs(folder)
    content = json.dumps({"default_config_name": check_config_name(config)})
    storage.write_bytes(storage.join(folder, CONFIG_FILE), content.encode())


def _canonical(builder: Any, root: str) -> str:
    """Returns the directory of the published version that a builder's code declares.

    Raises:
        DatasetNotFoundError: that version is not published; the message lists those that are.
    """
    directory: str = builder.dataset_dir
    if is_published(directory):
        return directory
    config = builder.builder_config.name if builder.builder_config else None
    label = _join_config(builder.name, config)
    advice = _advise_root_above(builder.name, root) or " Generate it with build(), or ask for one that is there."
    raise DatasetNotFoundError(
        f"{label}:{builder.version}, the version of its code, is not published in {root}; "
        f"{published_versions_text(builder.name, root)}.{advice}"
    )


def _not_found(name: str, config: str | None, root: str) -> DatasetNotFoundError:
    """Returns the error for a dataset or config that does not exist; it lists what is published in `root`."""
    configs = list_configs(name, root)
    if config is None and configs:
        return DatasetNotFoundError(
            f"{name} in {root} has the configs {', '.join(configs)} and no default one; "
            f"ask for one, such as '{name}/{configs[0]}'."
        )
    if configs or list_versions(name, data_dir=root):
        names_text = ", ".join(configs) or "none"
        hint = hint_for_config(name, str(config), configs)
        return DatasetNotFoundError(
            f"{name} in {root} has no config {config!r}; published configs: {names_text}.{hint}"
        )
    if config and is_file_name(path := f"{name}/{config}"):
        return DatasetNotFoundError(f"{path!r} is not a dataset name.{hint_for_file(path)}")
    names = list_datasets(root)
    names_text = ", ".join(names) or "none"
    foreign = instead_of_format("load", name) or instead_of_format("load", config or "")  # such as 'owner/mnist'
    advice = _explain_incomplete_version(_dataset_path(root, name, config)) or did_you_mean(name, names)
    advice = advice or (foreign and f" {foreign}")
    if name in USUAL_SPLITS:  # such as 'digits:train'
        advice = f" A split is split={name!r} (--split {name})."
    if config and storage.is_dir(storage.join(name, config)):
        advice = f" For the directory {name}/{config}: {config!r} with data_dir={name!r} (--data_dir {name})."
    if not storage.is_dir(root):
        advice = advice or " Give the directory of the datasets as data_dir (--data_dir)."
        return DatasetNotFoundError(
            f"no dataset {name!r} is published in {root}: {explain_missing_directory(root)}.{advice}"
        )
    return DatasetNotFoundError(
        f"no dataset {name!r} is published in {root}; published datasets: {names_text}."
        f"{advice or _advise_root_above(name, root)}"
    )


def _explain_incomplete_version(folder: str) -> str:
    """Returns a sentence about the lowest version in a folder that has a manifest; '' if there is none.

    For a dataset without published versions, such a version is incomplete.
    """
    for version in _list_version_dirs(folder):
        directory = storage.join(folder, str(version))
        if storage.exists(storage.join(directory, MANIFEST_FILE)):
            return (
                f" {directory} is not complete: it is being published, was partly removed, or is damaged. "
                f"To check it: beam-datasets verify {directory}."
            )
    return ""


def _advise_root_above(name: str, root: str) -> str:
    """Returns " This is the directory of a dataset: give the one above, ..." if `root` is one of `name`; else ''."""
    parent = _root_above(name, root)
    return parent and f" This is the directory of a dataset: give the one above, data_dir={parent!r} (--data_dir)."


def _root_above(name: str, directory: str) -> str:
    """Returns the data_dir of the directory of a published dataset, of its config or of its version.

    For '/data/digits/small/1.0.0' it is '/data', if 'digits' is published there; '' for any other directory.

    Args:
        name: name of the dataset.
        directory: the directory.
    """
    for _ in range(3):  # name/config/version
        parent, folder = storage.dirname(directory), storage.basename(directory)
        with contextlib.suppress(StorageError):  # of a store whose parent may not be listed
            if folder == name and list_published(name, parent):
                return parent
        directory = parent
    return ""


def _join_config(name: str, config: str | None) -> str:
    """Returns "name/config"; the name alone without a config."""
    return f"{name}/{config}" if config else name


def _dataset_path(root: str, name: str, config: str | None = None) -> str:
    """Returns the path of the directory of a dataset, or of one of its configs.

    Args:
        root: root of the datasets.
        name: name of the dataset.
        config: name of a config; None or '' for the dataset's own directory.

    >>> _dataset_path("/data", "digits"), _dataset_path("/data", "digits", "small")
    ('/data/digits', '/data/digits/small')
    """
    return storage.join(root, name, *([check_config_name(config)] if config else []))


def _subdirs(folder: str) -> list[str]:
    """Returns the names of the directories in a directory, but for hidden and unfinished ones."""
    names = storage.list_dir(folder, missing_ok=True)
    names = [name for name in names if not name.startswith((".", "incomplete."))]
    return [name for name in names if storage.is_dir(storage.join(folder, name))]
