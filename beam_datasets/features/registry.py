"""The registry of user-defined connector classes, by their names in features.json.

Nothing is imported by such a name: a class must be registered before a dataset with it is read.
"""

from __future__ import annotations

import inspect
import json
import warnings
from typing import Any, TypeVar

from beam_datasets.features.base import FeatureConnector, FromJson, to_names
from beam_datasets.features.dtypes import Json

_REGISTERED: dict[str, type[FeatureConnector]] = {}
_Class = TypeVar("_Class", bound=type[FeatureConnector])


def register(kind: _Class) -> _Class:
    """Registers a class of connectors by its name in features.json, and returns it.

    Datasets with features of the class can then be read. The function may be used as a decorator. Names in an attribute
    `ALIASES` of the class, a tuple of texts, are registered too. A later class replaces an earlier one of its name.
    """
    for name in (class_name(kind), *to_names(f"{kind.__name__}.ALIASES", kind.__dict__.get("ALIASES", ()))):
        _REGISTERED[name] = kind
    return kind


def class_name(kind: type[FeatureConnector]) -> str:
    """Returns the name of a user's class in features.json: '<module>.<class>', without classes around it.

    The module of a script is `__main__`, also in its worker processes.
    """
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # the script, in its new processes
    return f"{module}.{kind.__name__}"


def find_registered(name: str) -> type[FeatureConnector] | None:
    """Returns the registered class with a name in features.json; None if there is none.

    If no class has exactly this name, the only one whose name differs in its leading packages, or whose module is a
    script, is taken; a warning names it in the latter case.

    Args:
        name: the name of the class in features.json.

    Raises:
        LookupError: several classes may be meant.
    """
    kind = _REGISTERED.get(name)
    if kind is None:  # the module may have another root now, or none if it is run as a script
        matches = {
            each: registered_name
            for registered_name, each in _REGISTERED.items()
            if _has_class_suffix(name, registered_name) or _has_class_suffix(registered_name, name)
        }
        if len(matches) > 1:
            raise LookupError(f"several registered classes have its name: {', '.join(sorted(matches.values()))}")
        if not matches:
            return None
        [(kind, registered_name)] = matches.items()
        if "__main__" in (name.partition(".")[0], registered_name.partition(".")[0]):
            warnings.warn(
                f"features.json names the class {name!r}, and the registered class {registered_name!r} is used: one of "
                "them was defined by a script, so only the names of the classes are compared. If they are the same "
                "class, set "
                f"ALIASES = ({name!r},) in it; if not, register the right one",
                stacklevel=2,
            )
    return kind


def build_connector(kind: Any, content: Json, from_json: FromJson) -> Any:
    """Returns the connector that a user's class makes from its content in features.json.

    Raises:
        Exception: the class failed to make it, or has other arguments than its base class and no `from_json_content`.
    """
    if hasattr(kind, "from_json_content"):
        return kind.from_json_content(json.loads(content["json"]) if "json" in content else content)
    ours = next(base for base in kind.__mro__ if base.__module__.startswith("beam_datasets."))
    if inspect.signature(kind) != inspect.signature(ours):
        raise TypeError(
            f"{kind.__name__} takes other arguments than {ours.__name__}, and has no class method "
            "from_json_content(content)"
        )
    return kind.from_content(content, from_json)


def _has_class_suffix(name: str, other: str) -> bool:
    """Returns whether a class name ends with the name `other`, after a dot; `__main__` stands for any module.

    >>> _has_class_suffix("project.money.Money", "money.Money"), _has_class_suffix("money.Money", "__main__.Money")
    (True, True)
    """
    return name.endswith(f".{other.removeprefix('__main__.')}")
