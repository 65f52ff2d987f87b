"""Lineage: the sources of a materialized dataset, and the rules by which its sort keys were computed.

A materialized record keeps its sort key, or gets a key derived from it if it is shuffled again. So a sort key is
computed from the author's key by a *rule*: the salt of the first hash, and the salts of the later shuffles. The sort
keys of a split ascend within *stretches*, one for each part of a source that was appended to the others.

In the field `source` of manifest.json, a rule is a list that begins with the split's name (null for integer keys, which
are not hashed); a stretch is [first example, rules]; a read is [number of the dataset, split, start, stop].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_datasets.errors import MetadataError
from beam_datasets.metadata.keys import Key, hash_key, ordered_key, reshuffled_keys
from beam_datasets.metadata.names import DatasetName


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rule by which an author's key is converted to the sort key in an index.

    Attributes:
        split: the split whose name salts the hash; None for integer keys, which keep their order.
        salts: salts of later shuffles, the first one first.
    """

    split: str | None
    salts: tuple[str, ...] = ()

    def sort_key(self, key: Key) -> bytes:
        """Returns the sort key of an author's key, 16 bytes.

        Raises:
            InvalidKeyError: the key is not an integer, if there is no hash; or it has a type that keys cannot have.
        """
        result = ordered_key(key) if self.split is None else hash_key(self.split, key)  # type: ignore[arg-type]
        for salt in self.salts:
            result = reshuffled_keys(salt, [result])
        return result

    def reshuffled(self, salt: str) -> KeyRule:
        """Returns the rule of the same keys after one more shuffle with a salt."""
        return KeyRule(self.split, (*self.salts, salt))


@dataclass(frozen=True, slots=True)
class Ascent:
    """A stretch of a split in which the sort keys ascend, up to the start of the next one.

    Attributes:
        start: index of the first example in the split.
        rules: rules of the keys; several if examples of several stretches were shuffled into one.
    """

    start: int
    rules: tuple[KeyRule, ...]


def between(ascents: Sequence[Ascent], start: int, stop: int) -> Iterator[tuple[tuple[KeyRule, ...], int, int]]:
    """Yields (rules, start, stop) of the part of each stretch that is in [start, stop), in order.

    Args:
        ascents: the stretches of a split, in order.
        start: index of an example in the split.
        stop: index after the last example.

    >>> a, b = KeyRule("train"), KeyRule("test")
    >>> [(s, e) for _, s, e in between([Ascent(0, (a,)), Ascent(10, (b,))], 4, 12)]
    [(4, 10), (10, 12)]
    """
    ends = [ascent.start for ascent in ascents[1:]] + [stop]
    for ascent, end in zip(ascents, ends):
        if max(start, ascent.start) < min(stop, end):
            yield ascent.rules, max(start, ascent.start), min(stop, end)


@dataclass(frozen=True, slots=True)
class SourceDataset:
    """A dataset from which examples were read.

    Attributes:
        name: name of the dataset; for examples that were built to be appended, the class of the builder.
        config: name of the config; None if the dataset has no configs.
        version: version of the dataset; None for examples that were built to be appended, which cannot be opened.
        digest: digest of its manifest; without a manifest, SHA-256 of its other metadata files.
        digest_of: the file that `digest` identifies: 'manifest' or 'metadata'.
        source: the field `source` of its own manifest; None for a generated dataset.
    """

    name: str
    config: str | None
    version: str | None
    digest: str
    digest_of: str
    source: Mapping[str, Any] | None = None

    @property
    def full_name(self) -> str:
        """Name, config and version as text: `name/config:version`."""
        return str(DatasetName(self.name, self.config, self.version))


@dataclass(frozen=True, slots=True)
class Read:
    """Examples [start, stop) of a split of a dataset, given the index of the dataset in `Lineage.datasets`."""

    dataset: int
    split: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class SplitLineage:
    """Origin of the examples of a split.

    Attributes:
        expression: the requested split expression, such as 'train[:10%]+test'.
        reads: the slices of the expression, in order.
        keys: the stretches of the sort keys; None if the split has no sort keys.
    """

    expression: str
    reads: tuple[Read, ...]
    keys: tuple[Ascent, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Returns the lineage as a dict of JSON values, the argument of `from_json`.

        `reads` is a list of [dataset, split, start, stop]; `keys` is None or a list of [start, [[split, *salts], ...]].
        """
        keys = self.keys and [[a.start, [[rule.split, *rule.salts] for rule in a.rules]] for a in self.keys]
        reads = [[read.dataset, read.split, read.start, read.stop] for read in self.reads]
        return {"expression": self.expression, "reads": reads, "keys": keys}

    @classmethod
    def from_json(cls, value: Any) -> SplitLineage:
        """Returns the lineage from the result of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the value has another form; `Lineage.from_json` converts these errors.
        """
        keys = value["keys"]
        if keys is not None:
            ascents = [(_check_type(int, start), rules) for start, rules in keys]
            keys = tuple(Ascent(start, tuple(map(_rule, rules))) for start, rules in ascents)
            if [a.start for a in keys] != sorted({a.start for a in keys}) or (keys and keys[0].start):
                raise ValueError("the stretches of the keys do not follow one another")
        return cls(
            _check_type(str, value["expression"]),
            tuple(Read(*map(_check_type, (int, str, int, int), read)) for read in value["reads"]),
            keys,
        )


def _rule(value: Any) -> KeyRule:
    """Returns the key rule of its JSON list: ["train", "salt"] has the split "train" and one salt.

    Raises:
        TypeError: an item is not a string; the first may be None.
    """
    split, *salts = value
    return KeyRule(split if split is None else _check_type(str, split), tuple(_check_type(str, salt) for salt in salts))


def _check_type(kind: type, value: object) -> Any:
    """Returns a JSON value whose class must be exactly `kind`.

    Raises:
        TypeError: the value has another class.
    """
    if type(value) is not kind:
        raise TypeError(f"{value!r:.100} is not a {kind.__name__}")
    return value


@dataclass(frozen=True, slots=True)
class Lineage:
    """Origin of a materialized dataset.

    Attributes:
        datasets: the source datasets.
        splits: origin of each split.
        filter: name of the function that selected examples, as `module:function`; None if all were kept.
        features: names of the features that were kept; None if all were kept.
        reshuffle: salt of the new order; None if the order was kept.
        appended: changes by `append`, if this is the next version of the first dataset: for each split the numbers of
            added, replaced, deleted and skipped examples; None for a materialized dataset.
    """

    datasets: tuple[SourceDataset, ...]
    splits: Mapping[str, SplitLineage]
    filter: str | None = None
    features: tuple[str, ...] | None = None
    reshuffle: str | None = None
    appended: Mapping[str, Mapping[str, int]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the field `source` of a manifest."""
        return {
            "datasets": [{name: getattr(dataset, name) for name in _DATASET} for dataset in self.datasets],
            "splits": {name: split.to_json() for name, split in self.splits.items()},
            "filter": self.filter,
            "features": None if self.features is None else list(self.features),
            "reshuffle": self.reshuffle,
            **({} if self.appended is None else {"appended": self.appended}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, path: str) -> Lineage:
        """Returns the lineage in the field `source` of a manifest.

        Args:
            value: the field.
            path: the manifest, for errors.

        Raises:
            MetadataError: the field has another form.
        """
        try:
            features = value["features"]
            return cls(
                tuple(SourceDataset(**{name: dataset[name] for name in _DATASET}) for dataset in value["datasets"]),
                {name: SplitLineage.from_json(split) for name, split in value["splits"].items()},
                value["filter"],
                None if features is None else tuple(features),
                value["reshuffle"],
                None if (counts := value.get("appended")) is None else {k: dict(v) for k, v in counts.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MetadataError(
                f"it does not contain the lineage of the dataset ({error})",
                path=path,
                field="source",
                advice="Restore the file, or use the version of beam_datasets that wrote it.",
            ) from error


_DATASET = ("name", "config", "version", "digest", "digest_of", "source")
