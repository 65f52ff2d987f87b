"""Variants and versions that the class of a builder declares, and the choice of a variant and a version."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from beam_datasets.advice import names_foreign_constructor_arguments
from beam_datasets.errors import DatasetNotFoundError
from beam_datasets.metadata.names import check_config_name, hint_for_config
from beam_datasets.metadata.version import Version, VersionOrStr, choose_version


@names_foreign_constructor_arguments
@dataclass
class BuilderConfig:
    """A variant of a dataset; authors add fields by subclassing it as a dataclass.

    Attributes:
        name: name of the variant; it becomes a directory.
        version: the variant's own version; None for the builder's.
        supported_versions: further versions of the variant that can be read; with `version` only.
        release_notes: version -> description of its changes.
        description: description of the variant.
        tags: tags of the variant.
    """

    name: str = ""
    version: VersionOrStr | None = None
    supported_versions: Iterable[VersionOrStr] = ()
    release_notes: Mapping[str, str] | None = None
    description: str | None = None
    tags: list[str] = field(default_factory=list)


class ClassProperty:
    """A property of a class and of its instances."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self._function(owner)


class DeclaredVariants:
    """The configs and versions that a class of builders declares. `DatasetBuilder` describes the attributes."""

    VERSION: ClassVar[VersionOrStr | None] = None
    SUPPORTED_VERSIONS: ClassVar[Iterable[VersionOrStr]] = ()
    BUILDER_CONFIGS: ClassVar[Sequence[Any]] = ()
    DEFAULT_BUILDER_CONFIG_NAME: ClassVar[str | None] = None
    name: str
    _builder_config: BuilderConfig | None

    @classmethod
    def configs(cls) -> dict[str, BuilderConfig]:
        """Returns {name: config}; of several configs with one name, {'name:version': config}."""
        names = [config.name for config in cls.BUILDER_CONFIGS]
        versioned = [f"{config.name}:{cls._config_version(config)}" for config in cls.BUILDER_CONFIGS]
        keys = [name if names.count(name) == 1 else both for name, both in zip(names, versioned)]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            name = twice.partition(":")[0]
            raise ValueError(f"{cls.name} has several configs called {name!r}; give each its own version.")
        return dict(zip(keys, cls.BUILDER_CONFIGS, strict=True))

    @ClassProperty
    def builder_configs(cls) -> dict[str, BuilderConfig]:
        """The configs of the class by name, as in TFDS: if several share a name, all are under 'name:version'.

        The version is then the config's own, and 'None' if it has none.
        """
        configs = cls.configs()
        if not any(":" in key for key in configs):
            return configs
        return {f"{config.name}:{config.version}": config for config in configs.values()}

    @classmethod
    def has_config(cls, config: str) -> bool:
        """Returns whether one or several configs have a name; or one 'name:version'."""
        return config in cls.configs() or any(each.name == config for each in cls.BUILDER_CONFIGS)

    @classmethod
    def _config_version(cls, config: BuilderConfig) -> VersionOrStr | None:
        """Returns the version of a config; that of the class if the config has none."""
        return config.version or cls.VERSION

    @property
    def _config_name(self) -> str | None:
        """Returns the name of the config; None if the dataset has no configs."""
        return self._builder_config.name if self._builder_config else None

    def _choose_config(self, config: str | BuilderConfig | None, version: VersionOrStr | None) -> BuilderConfig | None:
        """Returns the config of a name, or the default config; if several have the name, the one of the version."""
        if config is None and not self.BUILDER_CONFIGS:
            return None
        configs = self.configs()
        if isinstance(config, BuilderConfig):
            check_config_name(config.name)
            declared_config = configs.get(config.name) or configs.get(f"{config.name}:{self._config_version(config)}")
            if declared_config not in (None, config):
                raise ValueError(f"config {config.name!r} is not the one that {self.name} has under this name.")
            return config
        if config is None:
            default = self._default_config()
            config = default and default.name
        if config is None or config in configs:
            return configs[config] if config else None
        name, _, version_in_name = str(config).partition(":")
        if candidates := [each for each in configs.values() if each.name == name]:
            return self._config_of(candidates, version_in_name or version)
        names = ", ".join(map(repr, configs)) or "none"
        raise DatasetNotFoundError(
            f"{self.name} has no config {config!r}; it has {names}",
            expected=names,
            got=repr(config),
            advice=hint_for_config(self.name, str(config), configs).strip() or None,
        )

    def _config_of(self, candidates: list[BuilderConfig], version: VersionOrStr | None) -> BuilderConfig:
        """Returns, of several configs with the same name, the one of a version; by default the class's own version."""
        label = f"{self.name}/{candidates[0].name}"
        versions = [
            [
                Version(each)
                for each in (self._config_version(config), *(config.supported_versions or self.SUPPORTED_VERSIONS))
                if each
            ]
            for config in candidates
        ]
        known_versions = itertools.chain(*versions)
        chosen_version = choose_version(
            version or self.VERSION, known_versions, of=label, origin="versions in its code"
        )
        its_own = [
            config for config, config_versions in zip(candidates, versions) if chosen_version in config_versions[:1]
        ]
        return (
            its_own
            or [config for config, config_versions in zip(candidates, versions) if chosen_version in config_versions]
        )[0]

    @classmethod
    def _default_config(cls) -> BuilderConfig | None:
        """Returns the config that a name without one means."""
        default, configs = cls.DEFAULT_BUILDER_CONFIG_NAME, list(cls.BUILDER_CONFIGS)
        if default is None or not configs:
            return configs[0] if configs else None
        config = cls.configs().get(default) or next((each for each in configs if each.name == default), None)
        if config is None:
            raise ValueError(
                f"DEFAULT_BUILDER_CONFIG_NAME of {cls.name} is {default!r}; it has the configs {list(cls.configs())}."
            )
        return config

    def _versions(self) -> list[Version]:
        """Returns the canonical version first, then the others that can be read."""
        config = self._builder_config or BuilderConfig()
        canonical = config.version or self.VERSION
        if canonical is None:
            raise ValueError(f"{type(self).__name__} needs a version: VERSION = Version('1.0.0').")
        return [Version(version) for version in (canonical, *(config.supported_versions or self.SUPPORTED_VERSIONS))]

    def _choose_version(self, version: VersionOrStr | None) -> Version:
        """Returns the requested version; the canonical one for None.

        Args:
            version: a version, or a text that `choose_version` accepts.
        """
        versions = self._versions()
        if version is None:
            return versions[0]
        label = "/".join(filter(None, (self.name, self._config_name)))
        chosen_version = choose_version(version, versions, of=label, origin="versions in its code")
        return next(v for v in versions if v == chosen_version)
