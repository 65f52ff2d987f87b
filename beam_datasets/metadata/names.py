"""Names: of datasets (`ds/config:1.*.*/k=v`), of splits, and of shard files.

Names come from users and from files of any origin, and become parts of paths. So names that could lead out of the
dataset's directory are errors: `..`, an absolute path, or a separator within a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, overload

from beam_datasets.errors import MetadataError, did_you_mean
from beam_datasets.metadata.data_files import build_arguments, build_command
from beam_datasets.metadata.version import LATEST, Version

Scalar: TypeAlias = "bool | int | float | str"

USUAL_SPLITS = ("train", "test", "validation", "val", "dev")
RESERVED_SPLITS = ("all",)  # a split that is to be written cannot have these names, in any case
DEFAULT_FILENAME_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
NUM_DIGITS = 5  # shard numbers have this many digits at least

_DATASET = r"[a-zA-Z]\w*"
_CONFIG = r"[\w+\-.]+"
_VERSION = r"(?:\d+|\*)(?:\.(?:\d+|\*)){2}"
_LATEST = "|".join(LATEST)
_NAME = re.compile(
    rf"(?:(?P<namespace>[\w\-]+):(?!(?:{_LATEST})\b))?(?P<name>{_DATASET})(?:/(?P<config>{_CONFIG}))?"
    rf"(?::(?P<version>{_VERSION}|{_LATEST}))?(?:/(?P<kwargs>\w+=[^,]+(?:,\w+=[^,]+)*,?))?\Z"
)
_PATH = re.compile(rf"([^:]+)/({_VERSION})")
_FILENAME = re.compile(
    rf"(?P<dataset>{_DATASET})-(?P<split>[\w\-]+)\.(?P<fileformat>\w+)-(?P<index>\d{{5,}})-of-(?P<count>\d{{5,}})\Z"
)
_SCHEME_OR_DRIVE = re.compile(r"[a-zA-Z][\w+.\-]*:")
_UNSAFE_IN_A_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")


@dataclass(frozen=True)
class DatasetName:
    """Parsed name of a dataset, such as `digits/small:1.*.*/rate=0.5`.

    Attributes:
        name: name of the dataset, in snake case.
        config: name of the config; None for the default config.
        version: a version, a pattern, 'latest' or 'experimental_latest'; None for the default version.
        kwargs: further arguments for the builder.
        namespace: the text before a colon that precedes the name; None if there is none.
    """

    name: str
    config: str | None = None
    version: str | None = None
    kwargs: Mapping[str, Scalar] = field(default_factory=dict)
    namespace: str | None = None

    @classmethod
    def parse(cls, text: str) -> DatasetName:
        """Parses `[namespace:]name[/config][:version][/key=value,...]`.

        CamelCase names are converted to snake case, and values to bool, int or float if they have its form. Config and
        version may also be given as `config=` and `version=`.

        >>> DatasetName.parse("MyDigits/small:1.*.*/rate=0.5")
        DatasetName(name='my_digits', config='small', version='1.*.*', kwargs={'rate': 0.5}, namespace=None)

        Raises:
            TypeError: the argument is not a str.
            ValueError: the text has another form.
        """
        if not isinstance(text, str):
            raise _not_a_name_error(text)
        match = _NAME.match(text)
        if not match:
            raise ValueError(
                f"{text!r} is not a dataset name; needed: name[/config][:version][/key=value,...], for example "
                f"'digits', 'digits/small', 'digits:1.*.*' or 'digits/small:1.0.0'.{_hint_for(text)}"
            )
        components: dict[str, str | None] = {"config": match["config"], "version": match["version"]}
        kwargs = _parse_kwargs(match["kwargs"], text) if match["kwargs"] else {}
        for name, component in components.items():
            if name in kwargs:
                if component is not None:
                    raise ValueError(f"{text!r} gives {name} twice: {component!r} and {kwargs[name]!r}.")
                components[name] = str(kwargs.pop(name))
        if components["config"] is not None:
            check_config_name(components["config"])
        return cls(camel_to_snake(match["name"]), **components, kwargs=kwargs, namespace=match["namespace"])

    @classmethod
    def parse_path(cls, text: str) -> DatasetName:
        """Parses a name as `parse` does, or the relative path of a version's directory: `digits/small/1.0.0`.

        >>> str(DatasetName.parse_path("digits/small/1.0.0")), str(DatasetName.parse_path("digits/1.*.*"))
        ('digits/small:1.0.0', 'digits:1.*.*')

        Raises:
            ValueError: the text is neither a name nor such a path.
        """
        path = _PATH.fullmatch(text)
        return cls.parse(f"{path[1]}:{path[2]}" if path else text)

    def __str__(self) -> str:
        """Returns the text of the name, which `parse` can read."""
        return "".join(
            [
                f"{self.namespace}:" if self.namespace else "",
                self.name,
                f"/{self.config}" if self.config else "",
                f":{self.version}" if self.version else "",
                "/" + ",".join(f"{key}={value}" for key, value in self.kwargs.items()) if self.kwargs else "",
            ]
        )


def _not_a_name_error(value: object) -> TypeError:
    """Returns the error for a value that is not the text of a dataset's name; it names what can be read without one."""
    hint = " Its as_dataset('train') is a dataset." if hasattr(value, "as_dataset") else ""
    hint = " It is a dataset already." if hasattr(value, "as_torch") else hint
    return TypeError(f"a dataset's name is a str such as 'digits' or 'digits/small:1.0.0', not {value!r}.{hint}")


_APPENDED_VERSION = re.compile(r"(\w+)[-.]v?(\d+\.\d+\.\d+)")
_SHORT_VERSION = re.compile(r"(.*):(\d+)(?:\.(\d+))?$")


def _hint_for(text: str) -> str:
    """Returns advice, after a space, for text that is not a dataset's name; '' if what it means is unclear."""
    name, at, version = text.replace("==", "@").partition("@")
    if at and name:
        return f" A version is written '{name}:{version}'."
    if appended := _APPENDED_VERSION.fullmatch(text):
        return f" A version is written '{appended[1]}:{appended[2]}'."
    if short := _SHORT_VERSION.match(text):
        return f" A version has three numbers, or * for any: '{short[1]}:{short[2]}.{short[3] or '*'}.*'."
    if (slice_start := text.find("[")) > 0:
        return f" A slice is given by split='train{text[slice_start:]}' (--split)."
    if is_file_name(text):
        return hint_for_file(text)
    if "/" in text:
        return " The directory of the datasets is data_dir; builder_from_directory() takes that of a version."
    return ""


def is_file_name(text: str) -> bool:
    """Returns whether a text is the name of a file of data, or of a builder, by its suffix."""
    return text.lower().endswith(".py") or build_arguments(text) is not None


def hint_for_file(text: str) -> str:
    """Returns advice, after a space, to build the file with this name: " A file becomes a dataset first: ...".

    >>> print(hint_for_file("in/sales.csv").strip())
    A file becomes a dataset first: `beam-datasets build csv --name sales --pattern in/sales.csv --data_dir DIR`.
    """
    if build_arguments(text) is None or text.startswith(("http:", "https:")):
        return " Files become a dataset first: `beam-datasets build --help` lists the formats."
    return f" A file becomes a dataset first: `{build_command(text)} --data_dir DIR`."


def hint_for_config(name: str, config: str, configs: Iterable[str]) -> str:
    """Returns a sentence, after a space, on what was meant by a config that does not exist; '' if nothing is near.

    Args:
        name: name of the dataset.
        config: the text in the place of a config: in `reviews/1.0.0` a version, in `reviews/train` a split.
        configs: names of the configs that exist.
    """
    if Version.is_valid(config):
        return f" A version is '{name}:{config}'."
    if config in USUAL_SPLITS:
        return f" A split is split={config!r} (--split {config})."
    return did_you_mean(config, configs)


def _parse_kwargs(text: str, full_name: str) -> dict[str, Scalar]:
    """Parses `key=value,...`; `full_name` is the name that contains this text, for errors.

    Raises:
        ValueError: an item is not of the form key=value.
    """
    kwargs: dict[str, Scalar] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not equals or "=" in value:
            raise ValueError(f"{full_name!r}: {item!r} is not an argument; needed: key=value, separated by commas.")
        kwargs[name] = _parse_scalar(value)
    return kwargs


def _parse_scalar(text: str) -> Scalar:
    """Parses a Python literal of a bool, int or float; returns any other text unchanged.

    >>> _parse_scalar("True"), _parse_scalar("7"), _parse_scalar("1e3"), _parse_scalar("true")
    (True, 7, 1000.0, 'true')
    """
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_dataset_name(name: str) -> str:
    """Checks and returns a dataset's name, without config and version.

    Raises:
        ValueError: the name is not a letter followed by letters, digits and underscores.
    """
    if not re.fullmatch(_DATASET, name):
        fixed = re.sub(r"\W+", "_", name.partition(":")[0])
        example = f", such as {fixed!r}" if re.fullmatch(_DATASET, fixed) else ""
        raise ValueError(f"{name!r} is not a dataset name; needed: a letter, then letters, digits or '_'{example}.")
    return name


def check_config_name(name: str) -> str:
    """Checks and returns a config's name.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name has other characters than letters, digits, `_`, `+`, `-` and `.`, or only dots.
    """
    if not isinstance(name, str):
        raise TypeError(f"a config is named by a str, not {name!r}.")
    if not re.fullmatch(_CONFIG, name) or not name.strip("."):
        raise ValueError(
            f"{name!r} is not a config name; needed: letters, digits, '_', '+', '-' or '.', and not dots alone."
        )
    return name


def check_split_name(name: str, *, reserved: Iterable[str] = ()) -> str:
    """Checks and returns a split's name.

    Args:
        name: the name.
        reserved: names in lower case that the split must not have, such as 'all', if it will be written; its name must
            then also be valid in split expressions. Empty for a split that exists already.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name has no letter or digit, has a path separator or a control character, or is reserved.
    """
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not a split name; a split is named by a str.")
    if not any(map(str.isalnum, name)):
        raise ValueError(f"{name!r} is not a split name; needed: at least one letter or digit.")
    if _UNSAFE_IN_A_NAME.search(name):
        raise ValueError(
            f"{name!r} is not a split name; it becomes part of a file name, "
            "so it cannot hold '/', '\\' or control characters."
        )
    if name.lower() in reserved:
        raise ValueError(f"{name!r} cannot name a split: it means every split of a dataset. Choose another name.")
    if reserved and not re.fullmatch(r"[\w-]+", name):  # as `splits` reads it
        raise ValueError(f"{name!r} cannot name a split: expected letters, digits, '_' and '-', as in 'train[:10%]'.")
    return name


def check_file_name(name: str) -> str:
    """Checks and returns the name of a file in a dataset's directory, which must not lead to another directory.

    Raises:
        MetadataError: the name is empty, '.' or '..', or has a path separator or a control character.
    """
    if name in ("", ".", "..") or _UNSAFE_IN_A_NAME.search(name):
        raise MetadataError(
            expected="the name of a file in the dataset's directory, without '/', '\\' and control characters",
            got=repr(name),
        )
    return name


def camel_to_snake(name: str) -> str:
    """Returns a CamelCase name in snake case.

    >>> [camel_to_snake(name) for name in ("MyDataset", "HTTPServer", "CIFAR10", "mnist")]
    ['my_dataset', 'http_server', 'cifa_r10', 'mnist']
    """
    words = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", words).lower()


@dataclass(frozen=True)
class ShardFilename:
    """Parsed file name of a shard.

    Attributes:
        dataset: name of the dataset.
        split: name of the split.
        fileformat: file format, such as 'tfrecord'.
        shard_index: index of the shard, from 0.
        num_shards: number of shards of the split.
    """

    dataset: str
    split: str
    fileformat: str
    shard_index: int
    num_shards: int

    @classmethod
    def parse(cls, filename: str) -> ShardFilename:
        """Parses a name such as `digits-train.tfrecord-00000-of-00004`, or a path that ends with such a name.

        Raises:
            ValueError: the text has another form.
        """
        match = _FILENAME.match(re.split(r"[/\\]", filename)[-1])
        if not match:
            raise ValueError(
                f"{filename!r} is not a shard; needed: a name such as 'digits-train.tfrecord-00000-of-00004'."
            )
        return cls(match["dataset"], match["split"], match["fileformat"], int(match["index"]), int(match["count"]))

    @classmethod
    def is_valid(cls, filename: str) -> bool:
        """Returns whether a file name, without a directory, has the form of a shard's name."""
        return _FILENAME.match(filename) is not None

    def __str__(self) -> str:
        """Returns the text of the name, which `parse` can read."""
        template = FilenameTemplate(self.dataset, self.split, self.fileformat)
        return template.filename(self.shard_index, self.num_shards)


@dataclass(frozen=True)
class FilenameTemplate:
    """Template for the names of the shards of a split.

    The template's variables are `{DATASET}`, `{SPLIT}`, `{FILEFORMAT}`, `{SHARD_INDEX}`, `{NUM_SHARDS}` and
    `{SHARD_X_OF_Y}`, which is the index, `-of-` and the number of shards. Numbers have five digits, or more if the
    number of shards has more. The files are in the dataset's directory or in one below it.

    >>> FilenameTemplate("digits", "train").filename(3, 8)
    'digits-train.tfrecord-00003-of-00008'

    Raises:
        MetadataError: the template has another variable, or its names could be outside of the dataset's directory.
    """

    dataset: str
    split: str
    fileformat: str = "tfrecord"
    template: str = DEFAULT_FILENAME_TEMPLATE

    def __post_init__(self) -> None:
        """Checks the fields and the template.

        Raises:
            MetadataError: the template is invalid, or a name would lead out of the dataset's directory.
        """
        for label, value in (("dataset", self.dataset), ("split", self.split), ("file format", self.fileformat)):
            if _UNSAFE_IN_A_NAME.search(value):
                expected = f"a {label} without '/', '\\' and control characters, as it is a part of file names"
                raise MetadataError(expected=expected, got=repr(value))
        sample = self.filename(0, 1)
        parts = sample.split("/")
        if (
            _UNSAFE_IN_A_NAME.search("".join(parts))
            or _SCHEME_OR_DRIVE.match(sample)
            or not {"", ".", ".."}.isdisjoint(parts)
        ):
            raise MetadataError(
                expected=f"a filename template of files in the dataset's directory, as {DEFAULT_FILENAME_TEMPLATE!r}",
                got=f"{self.template!r}, whose first file is {sample!r}",
            )

    def pattern(self, num_shards: int | None = None) -> str:
        """Returns a format string; its `format(index)` is the name of a shard, relative to the dataset's directory.

        >>> FilenameTemplate("digits", "train").pattern(8)
        'digits-train.tfrecord-{0:05d}-of-00008'

        Raises:
            ValueError: the template contains the number of shards, and `num_shards` is None.
        """
        if num_shards is None and re.search(r"\{(NUM_SHARDS|SHARD_X_OF_Y)\}", self.template):
            raise ValueError(f"filename template {self.template!r} needs the number of shards.")
        width = max(NUM_DIGITS, len(str(num_shards or 0)))
        index, count = f"{{0:0{width}d}}", f"{num_shards or 0:0{width}d}"
        values = {
            "DATASET": _escape(self.dataset),
            "SPLIT": _escape(self.split),
            "FILEFORMAT": _escape(self.fileformat),
            "SHARD_INDEX": index,
            "NUM_SHARDS": count,
            "SHARD_X_OF_Y": f"{index}-of-{count}",
        }
        literals_and_variables = re.split(r"\{([^{}]*)\}", self.template)
        for text in literals_and_variables[::2]:
            if "{" in text or "}" in text:
                raise MetadataError(expected="a filename template with pairs of braces", got=repr(self.template))
        for i, variable in enumerate(literals_and_variables):
            if i % 2 and variable not in values:
                expected = f"a filename template with the variables {', '.join(values)}"
                raise MetadataError(expected=expected, got=f"{{{variable}}} in {self.template!r}")
            literals_and_variables[i] = values[variable] if i % 2 else variable
        return "".join(literals_and_variables)

    def filename(self, shard_index: int, num_shards: int | None = None) -> str:
        """Returns the name of a shard, relative to the dataset's directory.

        Raises:
            ValueError: the template contains the number of shards, and `num_shards` is None.
        """
        return self.pattern(num_shards).format(shard_index)

    def filenames(self, num_shards: int) -> Filenames:
        """Returns the names of all shards; each is computed when it is accessed.

        Raises:
            MetadataError: several shards would have the same name.
        """
        pattern = self.pattern(num_shards)
        if num_shards > 1 and pattern.format(0) == pattern.format(1):
            expected = f"a filename template with {{SHARD_INDEX}} for {num_shards} shards"
            raise MetadataError(expected=expected, got=repr(self.template))
        return Filenames(pattern, num_shards)

    def spec(self, num_shards: int) -> str:
        """Returns one text for all shards, with `@` and their number.

        >>> FilenameTemplate("digits", "train").spec(8)
        'digits-train.tfrecord@8'
        """
        name = self.filename(0, num_shards)
        return re.sub(r"-?0{5,}-of-\d{5,}", f"@{num_shards}", name)


def _escape(text: str) -> str:
    """Doubles the braces of a text, so that `str.format` returns it unchanged: "a{{b}}" for "a{b}"."""
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Filenames(Sequence[str]):
    """The names of a split's shards in order; each is computed when it is accessed.

    Attributes:
        pattern: see `FilenameTemplate.pattern`.
        num_shards: number of shards.
        folder: directory that precedes each name, with a slash at its end; '' for none.
    """

    pattern: str
    num_shards: int
    folder: str = ""

    def __len__(self) -> int:
        return self.num_shards

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.num_shards))]
        return self.folder + self.pattern.format(range(self.num_shards)[index])

    def __iter__(self) -> Iterator[str]:
        return (self.folder + self.pattern.format(i) for i in range(self.num_shards))
