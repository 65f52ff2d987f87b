"""Versions of datasets: MAJOR.MINOR.PATCH, their order, patterns such as `1.*.*`, and the choice of a version."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.errors import DatasetNotFoundError

VersionOrStr: TypeAlias = "Version | str"

LATEST = ("latest", "experimental_latest")  # requests that mean the highest version
_NUMBER = r"(\d|[1-9]\d*)"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}\Z")
_PATTERN = re.compile(rf"({_NUMBER}|\*)\.({_NUMBER}|\*)\.({_NUMBER}|\*)\Z")


class Experiment(enum.Enum):
    """Changes that an author enables for single versions; an author may define another enum."""

    DUMMY = 1  # does nothing; for tests


@names_foreign_constructor_arguments
@functools.total_ordering
class Version:
    """A version of a dataset, ordered by its three numbers.

    It compares with strings, too; two versions are equal if their numbers are. A higher major version may have other
    examples, a higher minor version more features of the same examples, a higher patch the same examples.

    Attributes:
        major: the first number.
        minor: the second number.
        patch: the third number.
        description: description of the version.
        prepare_with: the version of the library that can generate this version; None if this library can.

    Examples:
        >>> Version("1.9.0") < "1.10.0", Version("1.9.0").match("1.*.*")
        (True, True)
    """

    __slots__ = ("_experiments", "description", "major", "minor", "patch", "prepare_with")

    major: int
    minor: int
    patch: int
    description: str
    prepare_with: str | None
    _experiments: Mapping[enum.Enum, bool]

    def __init__(
        self,
        version: VersionOrStr,
        description: str | Mapping[enum.Enum, bool] = "",
        *,
        experiments: Mapping[enum.Enum, bool] | None = None,
        prepare_with: str | None = None,
        tfds_version_to_prepare: str | None = None,
    ) -> None:
        """Parses a version.

        Args:
            version: 'x.y.z', three numbers without leading zeros; or a Version, whose attributes replace arguments that
                are not given.
            description: description of the version. A mapping is taken as `experiments`.
            experiments: {experiment: whether the version implements it}; it does not implement others.
            prepare_with: the version of the library that can generate this version, if this one no longer can.
            tfds_version_to_prepare: another name of `prepare_with`, that of TensorFlow Datasets.

        Raises:
            ValueError: `version` does not have the form 'x.y.z'.
            TypeError: `version` is not a str.
        """
        if isinstance(description, Mapping):
            experiments, description = description, ""
        prepare_with = prepare_with or tfds_version_to_prepare
        if isinstance(version, Version):
            description = description or version.description
            experiments = version._experiments if experiments is None else experiments
            prepare_with = prepare_with or version.prepare_with
        self.major, self.minor, self.patch = _parse_numbers(version)
        self.description = description
        self.prepare_with = prepare_with
        self._experiments = dict(experiments or {})

    def implements(self, experiment: enum.Enum) -> bool:
        """Returns whether the version implements an experiment."""
        return self._experiments.get(experiment, False)

    @property
    def tuple(self) -> tuple[int, int, int]:
        """(major, minor, patch), such as (1, 0, 2)."""
        return self.major, self.minor, self.patch

    @property
    def tfds_version_to_prepare(self) -> str | None:
        """Another name of `prepare_with`, that of TensorFlow Datasets."""
        return self.prepare_with

    def match(self, pattern: VersionOrStr) -> bool:
        """Returns whether the version matches a pattern of three parts, each a number or `*`.

        Examples:
            >>> [Version("1.2.3").match(p) for p in ("1.*.*", "*.2.3", "2.*.*")]
            [True, True, False]

        Raises:
            ValueError: the pattern does not have three parts (such as '1' or '1.2').
        """
        match = _PATTERN.match(str(pattern))
        if not match:
            raise ValueError(
                f"{str(pattern)!r} is not a version pattern; "
                "needed: 'x.y.z', each part a number without leading zeros or '*', such as '1.*.*'."
            )
        return all(want == "*" or int(want) == have for want, have in zip(match.group(1, 3, 5), self.tuple))

    @classmethod
    def is_valid(cls, version: VersionOrStr | None) -> bool:
        """Returns whether a value is a Version, or a text of the form 'x.y.z'.

        Examples:
            >>> Version.is_valid("1.2.3"), Version.is_valid("1.2"), Version.is_valid("1.*.*")
            (True, False, False)
        """
        return isinstance(version, Version) or (isinstance(version, str) and _VERSION.match(version) is not None)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self.tuple)

    def __eq__(self, other: object) -> bool:
        return other is not None and self.tuple == _parse_numbers(other)

    def __lt__(self, other: VersionOrStr) -> bool:
        return self.tuple < _parse_numbers(other)


def _parse_numbers(version: object) -> tuple[int, int, int]:
    """Returns the three numbers of a version or of its text.

    Raises:
        TypeError: the value is neither a Version nor a str.
        ValueError: the text is not of the form 'x.y.z'.
    """
    if isinstance(version, Version):
        return version.tuple
    if not isinstance(version, str):
        kind = type(version).__name__
        raise TypeError(f"a version is a str such as '1.0.0', or a Version, not {version!r:.100} of type {kind}.")
    match = _VERSION.match(version)
    if not match:
        raise ValueError(f"{version!r} is not a version; needed: 'x.y.z', three numbers without leading zeros.")
    return int(match[1]), int(match[2]), int(match[3])


@dataclass(frozen=True)
class IsBlocked:
    """Whether a version must not be used, with the reason; its truth value is `result`.

    Attributes:
        result: whether the version is blocked.
        blocked_msg: the reason; None if the version may be used.
    """

    result: bool
    blocked_msg: str | None = None

    def __bool__(self) -> bool:
        return self.result


@dataclass(frozen=True)
class BlockedVersions:
    """Versions, or configs of versions, that must not be used any more.

    Attributes:
        versions: version -> the reason, or None for an unknown reason; all configs of the version are blocked.
        configs: version -> config -> the reason, or None for an unknown reason.
    """

    versions: Mapping[str, str | None] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    def reason(self, version: VersionOrStr, config: str | None = None) -> str | None:
        """Returns why a version, or its config, is blocked; None if it is not blocked.

        If it is blocked for an unknown reason, the text only states that it is blocked.
        """
        name = str(version)
        if name in self.versions:
            return self.versions[name] or f"version {name} is blocked."
        of_version = self.configs.get(name, {})
        if config is not None and config in of_version:
            return of_version[config] or f"config {config!r} of version {name} is blocked."
        return None

    def is_blocked(self, version: VersionOrStr, config: str | None = None) -> IsBlocked:
        """Returns whether a version, or its config, is blocked, in the form of TensorFlow Datasets; see `reason`."""
        reason, name = self.reason(version, config), str(version)
        message = self.versions.get(name) if name in self.versions else self.configs.get(name, {}).get(str(config))
        subject = f"Version {name}" if name in self.versions else f"Config {config} for version {name}"
        return IsBlocked(reason is not None, reason and (message or f"{subject} is blocked."))


def is_requested(version: Version, requested: VersionOrStr | None) -> bool:
    """Returns whether a version matches a request: a version, a pattern, or 'latest' or None for any version.

    Raises:
        ValueError: the request is neither a version nor a pattern.
    """
    return requested is None or str(requested) in LATEST or version.match(requested)


def choose_version(
    requested: VersionOrStr | None,
    available: Iterable[VersionOrStr],
    *,
    of: str,
    origin: str = "published versions",
) -> Version:
    """Returns the highest available version that matches a request.

    Args:
        requested: a version, or a pattern such as '1.*.*'; 'latest' or None for any version.
        available: the available versions.
        of: the dataset that has these versions, for the error.
        origin: what the available versions are, for the error.

    Examples:
        >>> choose_version("1.*.*", ["1.0.0", "1.2.0", "2.0.0"], of="digits")
        Version('1.2.0')

    Raises:
        DatasetNotFoundError: no version matches; the message lists the available ones.
        ValueError: the request is neither a version nor a pattern.
    """
    versions = sorted({Version(version) for version in available})
    fitting = [version for version in versions if is_requested(version, requested)]
    if not fitting:
        description = "version" if requested is None or str(requested) in LATEST else f"version {requested}"
        versions_text = ", ".join(map(str, versions)) or "none"
        raise DatasetNotFoundError(
            f"{of} has no {description}; {origin}: {versions_text}.",
            expected=versions_text,
            got=None if requested is None else str(requested),
        )
    return fitting[-1]
