"""The exceptions of the project: a small tree, so that callers can catch the errors that they handle.

Each class also derives from the built-in exception that a Python programmer would expect in its place,
so `except ValueError` or `except FileNotFoundError` keep working. Programming mistakes (a wrong type of argument)
stay plain `TypeError` and `ValueError`.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

from beam_datasets.passwords import without_passwords

_OF_DATASET = re.compile(r"\.tfrecord-\d{5,}-of-\d{5,}$|/(dataset_info|features)\.json$")


class FeatureName(str):
    """The name of a feature in records, in which slashes join the names of nested features.

    Attributes:
        steps: the names of the features that lead to the feature, from the outermost, and its own name.
        shown: the name in messages, tables and expressions, in which dots join the names. If one of them contains a dot
            or a slash, slashes join them, as in records.

    >>> name = FeatureName(["product", "title"])
    >>> name, name.shown, FeatureName(["image/encoded"]).shown
    ('product/title', 'product.title', 'image/encoded')
    """

    steps: tuple[str, ...]
    shown: str

    def __new__(cls, steps: Sequence[str]) -> Self:
        """Returns the name of the feature that the steps lead to."""
        name = super().__new__(cls, "/".join(steps))
        name.steps = tuple(steps)
        name.shown = ("/" if any("." in step or "/" in step for step in steps) else ".").join(steps)
        return name

    def __getnewargs__(self) -> tuple[Any]:
        """Returns the arguments with which a pickled name is made again."""
        return (self.steps,)


def shown_name(name: str) -> str:
    """Returns the name of a feature for messages, with dots if `name` is a `FeatureName`; else unchanged."""
    return name.shown if isinstance(name, FeatureName) else name


class BeamDatasetsError(Exception):
    """Base of every error that the project raises on purpose. Its message shows no password of a URL.

    The facts of an error are attributes, so that a program need not parse the message. An error has those that are
    known where it is raised; the others are None.

    Attributes:
        problem: the message without location and advice; of an error from an engine's worker, the whole message.
        path: the file, directory or URL.
        line: number of the line in the file, from 1.
        field: name of the field of a JSON file, such as `splits[0].name`.
        offset: offset in the file in bytes; of a record, that of its first byte.
        record: number of the record in the file, from 0.
        feature: name of the feature, with dots for nested ones.
        split: name of the split.
        key: the key of the example.
        expected: the expected content or value.
        got: the actual content or value.
        outcome: the result of the run that raised it, such as 'nothing was published'.
        advice: the recommended action.
    """

    _field_format = "field '{}'"  # in messages
    problem: str = ""
    path: str | None = None
    line: int | None = None
    field: str | None = None
    offset: int | None = None
    record: int | None = None
    feature: str | None = None
    split: str | None = None
    key: object = None
    expected: str | None = None
    got: str | None = None
    outcome: str | None = None
    advice: str | None = None

    def __init__(
        self,
        *problem: object,
        path: str | None = None,
        line: int | None = None,
        field: str | None = None,
        offset: int | None = None,
        record: int | None = None,
        feature: str | None = None,
        split: str | None = None,
        key: object = None,
        expected: str | None = None,
        got: str | None = None,
        outcome: str | None = None,
        advice: str | None = None,
    ) -> None:
        """Composes the message: `<path>, line <line>, byte <offset> (record <record>): <field>: <feature>: <problem>;
        <outcome>. <advice>`.

        Each argument sets the attribute of its name; None leaves it out.

        Args:
            *problem: the problem; further arguments become items of `args`. Without it, the problem is
                `expected <expected>, got <got>`.
            path: a part of the message.
            line: a part of the message, after the path, as `line 3`.
            field: a part of the message, after the path, as `field 'name'`.
            offset: a part of the message, after the path, as `byte 3`.
            record: a part of the message, after the path, as `(record 3)`.
            feature: a part of the message, as `shown_name` has it; '' for the whole example, which is not shown.
            split: is not a part of the message, except of a `SplitError`.
            key: is not a part of the message.
            expected: a part of the message without `problem`.
            got: a part of the message without `problem`.
            outcome: a part of the message, after the problem.
            advice: the last sentence of the message.
        """
        feature = None if feature is None else shown_name(feature)
        facts = {
            "path": path, "line": line, "field": field, "offset": offset, "record": record, "feature": feature,
            "split": split, "key": key, "expected": expected, "got": got, "outcome": outcome, "advice": advice,
        }  # fmt: skip
        for name, fact in facts.items():
            if fact is not None:  # the default, which the class has
                setattr(self, name, without_passwords(fact) if isinstance(fact, str) else fact)
        if expected is not None and got is not None and not problem:
            problem = (f"expected {expected}, got {got}",)
        self.problem = without_passwords(str(problem[0])) if problem else ""
        if (prefix := self._location) or outcome or advice:
            sentences = [f"{prefix}{self.problem}".removesuffix("." if outcome or advice else ""), advice]
            if outcome:
                sentences[0] = f"{sentences[0]}; {outcome}"
            problem = (". ".join(filter(None, sentences)), *problem[1:])
        super().__init__(*(without_passwords(text) if isinstance(text, str) else text for text in problem))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_error, (type(self), self.args, self.__dict__)

    @property
    def _location(self) -> str:
        """The prefix of the message: file, place in it and feature, each with a colon after it; '' without them."""
        places = (("", self.path), ("line ", self.line), ("byte ", self.offset))
        location = ", ".join(f"{word}{fact}" for word, fact in places if fact is not None)
        if self.record is not None:
            location += f" (record {self.record})"
        field = None if self.field is None else self._field_format.format(self.field)
        return "".join(f"{text}: " for text in (location, field, self.feature) if text)

    @property
    def without_outcome(self) -> str:
        """The message without the outcome, for a caller that knows it better."""
        if not self.outcome:
            return str(self)
        return ". ".join(filter(None, [f"{self._location}{self.problem}".removesuffix("."), self.advice]))

    def with_path(self, path: str) -> Self:
        """Returns a copy of the error whose message begins with a path, for a caller that knows the file."""
        error = self.with_message(f"{path}: {self}")
        error.path = without_passwords(path)
        return error

    def with_message(self, message: str) -> Self:
        """Returns a copy of the error with the same facts and another message."""
        error = copy.copy(self)
        error.args = (without_passwords(message),)
        return error


def _rebuild_error(
    kind: type[BeamDatasetsError], args: tuple[object, ...], facts: dict[str, object]
) -> BeamDatasetsError:
    """Returns an error that was pickled, without composing its message again.

    Args:
        kind: the class of the error.
        args: its `args`.
        facts: its attributes.
    """
    error = kind.__new__(kind, *args)
    error.args = args
    for name, fact in facts.items():
        setattr(error, name, fact)
    return error


class DatasetNotFoundError(BeamDatasetsError, FileNotFoundError, ValueError):
    """No published dataset has this name, config or version."""


class AlreadyPublishedError(BeamDatasetsError, FileExistsError):
    """The version is published already; a published version never changes."""


class AbandonedError(BeamDatasetsError, RuntimeError):
    """The run was abandoned, by its launcher or by `beam-datasets gc`; it publishes nothing."""


class ResumeError(BeamDatasetsError, RuntimeError):
    """A failed run cannot be resumed: its builder has changed, or it is still active."""


class VersionError(BeamDatasetsError, ValueError):
    """A version bump is too small for the changes, or the version to compare with does not exist."""


class ResultKeptError(VersionError):
    """The version bump is too small for the changes; the result is kept, to be published under another number."""


class SplitError(BeamDatasetsError, ValueError):
    """A split expression cannot be parsed, or does not fit the dataset.

    Attributes:
        split: the split or the expression, with which the message begins, as `split 'train[9:3]': `.
    """

    @property
    def _location(self) -> str:
        """The prefix of the message: that of other errors, then "split 'train': "."""
        return super()._location + ("" if self.split is None else f"split {self.split!r:.1000}: ")


class MetadataError(BeamDatasetsError, ValueError):
    """A metadata file (dataset_info.json, features.json, manifest.json, an index) is damaged or unknown."""


class StorageError(BeamDatasetsError, OSError):
    """A path cannot be read or written; the message names it."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_error, (type(self), self.args, {**self.__dict__, "errno": self.errno})


class PathNotFoundError(StorageError, FileNotFoundError):
    """The file or directory does not exist."""


class PathExistsError(StorageError, FileExistsError):
    """There is a file or directory where none may be."""


class PathPermissionError(StorageError, PermissionError):
    """This user may not read or write the path."""


class StoreOptionsError(BeamDatasetsError, ValueError):
    """Options of an object store are given for a local path, or for an engine whose workers cannot get them."""


class GenerationError(BeamDatasetsError, RuntimeError):
    """A run failed in the author's code or in the engine; nothing was published."""


class CorruptRecordError(BeamDatasetsError, ValueError):
    """A record of a shard is damaged.

    Attributes:
        path: the shard.
        offset: offset of the record in the file in bytes.
        record: number of the record in the file, from 0; None where it cannot be known.
        repairable: whether `beam-datasets verify --repair --from COPY` may help; False if the file was never published,
            or was already damaged when it was published.
    """

    path: str
    offset: int

    def __init__(
        self, problem: str, *, path: str, offset: int, record: int | None = None, repairable: bool = True
    ) -> None:
        advice = None
        has_advice = "beam-datasets verify" in problem or "environment variable" in problem
        if repairable and not has_advice:
            advice = repair_advice(path)
        super().__init__(problem, path=path, offset=offset, record=record, advice=advice)
        self.repairable = repairable


def repair_advice(path: str) -> str | None:
    """Returns the commands that list the damage and restore a file, given a path in a dataset; None for another file.

    Without a copy of the dataset, no shard can be restored.
    """
    if not _OF_DATASET.search(path):
        return None
    return (
        f"To list the damage: beam-datasets verify {os.path.dirname(path)}; to restore the file from a copy of the "
        "dataset, add --repair --from COPY"
    )


class WorkerError(BeamDatasetsError, RuntimeError):
    """A worker process of a reader died, or raised an exception that cannot be sent to another process."""


class FeatureError(BeamDatasetsError):
    """A value does not fit its feature; the message begins with the feature's path."""


class FeatureValueError(FeatureError, ValueError):
    """The value's shape, range or content does not fit."""


class FeatureTypeError(FeatureError, TypeError):
    """The value's type does not fit."""


class FeatureKeyError(FeatureError, KeyError):
    """A feature is missing from the example, or one is there that the dataset does not have."""

    __str__ = Exception.__str__  # KeyError would print the repr of the message


class FeatureOverflowError(FeatureError, OverflowError):
    """The number does not fit the feature's dtype."""


class InputError(BeamDatasetsError, ValueError):
    """A source file, or a row of it, cannot be used; the message names the file and the line."""


class NoExamplesError(InputError):
    """A source, or a split, has no examples."""


class TooManyRejectedError(BeamDatasetsError, ValueError):
    """A builder has rejected more examples than the run allows; nothing was published."""


class InvalidKeyError(BeamDatasetsError, TypeError):
    """A key is of a type that cannot be hashed, or cannot be ordered where shuffling is disabled."""


class DuplicateKeyError(BeamDatasetsError, ValueError):
    """Two examples of a split have the same key; keys decide the order, so they must be unique.

    Attributes:
        split: the split.
        key: the key; None where it is not known, as after a run on an engine.
        sort_key: the hash of the key, 16 bytes, by which the examples are sorted; None for integers in their order.
    """

    sort_key: bytes | None = None

    def __init__(self, *problem: object, split: str | None = None, key: object = None, sort_key: bytes | None = None):
        super().__init__(*problem, split=split, key=key)
        if sort_key is not None:
            self.sort_key = sort_key


class LostExamplesError(BeamDatasetsError, RuntimeError):
    """The numbers of examples read, planned and written differ; nothing was published."""


class JobStateUnknownError(BeamDatasetsError, RuntimeError):
    """The engine cannot be asked whether a job still runs; nothing of the job was deleted."""


class StateError(BeamDatasetsError, ValueError):
    """An iterator's saved state belongs to another dataset, slice or configuration, or is malformed.

    Attributes:
        field: the field of the state, a part of the message, as `the state's position: `.
    """

    _field_format = "the state's {}"


class MissingDependencyError(BeamDatasetsError, ImportError):
    """An optional package is missing; the message names the extra to install."""


MIN_PREFIX = 3  # characters of a beginning that stands for a name, as "val" for "validation"


def did_you_mean(name: object, known_names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns ` Did you mean 'x'?` for the known name that is most similar; '' if none is, or if the name is known.

    `cutoff` is the smallest similarity in [0, 1] that counts; see `difflib.get_close_matches`.

    >>> did_you_mean("trian", ["test", "train"])
    " Did you mean 'train'?"
    >>> did_you_mean("lsit", ["site", "list"])
    " Did you mean 'list'?"
    >>> did_you_mean("x", ["id", "box/x"])
    " Did you mean 'box/x'?"
    """
    near = nearest_name(name, known_names, cutoff=cutoff)
    return f" Did you mean {shown_name(near)!r}?" if near else ""


def nearest_name(name: object, known_names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns the known name that is most similar to a name; '' if none is similar, or if the name itself is known.

    Args:
        name: the name that may be a mistake.
        known_names: the known names.
        cutoff: the least similarity, from 0 to 1; see `difflib.get_close_matches`.
    """
    import difflib  # only a mistake waits for the import

    text, names = str(name), list(known_names)
    near = difflib.get_close_matches(text, names, cutoff=cutoff)
    near = near or [other for other in names if other.endswith(f"/{text}")]
    near = near or [other for other in names if len(text) >= MIN_PREFIX and other.startswith(text)]
    near.sort(key=lambda other: sorted(other) != sorted(text))  # letters in another order are the likeliest mistake
    return near[0] if near and near[0] != text else ""
