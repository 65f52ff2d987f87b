"""Rules by which sort keys are computed. Appended records must have the rules of the published version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from beam_datasets.errors import BeamDatasetsError, InvalidKeyError
from beam_datasets.materializing.selection import SelectedSplit, SortedRun
from beam_datasets.metadata.keys import Key
from beam_datasets.metadata.lineage import KeyRule

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def common_rules(name: str, parts: Sequence[SelectedSplit], has_published: bool) -> tuple[KeyRule, ...]:
    """Returns the key rules of a split.

    Args:
        name: name of the split.
        parts: selected parts of the split, in the order of the datasets.
        has_published: whether the first part is that of the published version.

    Raises:
        BeamDatasetsError: its runs cannot be merged by key, because keys are missing or their rules or order differ.
    """
    runs = [run for selected_split in parts for run in selected_split.runs]
    for run in runs:
        if not run.rules:
            raise BeamDatasetsError(
                f"{run.name}, split {run.split!r}: expected shards with recorded keys, got shards without, as "
                "TensorFlow Datasets and `adopt` write them. Their order cannot be continued",
                split=run.split,
                expected="shards with recorded keys",
                advice="Generate the dataset with beam_datasets.",
            )
    if has_published and len(parts[0].runs) > 1:
        raise BeamDatasetsError(
            f"{runs[0].name}, split {name!r}: expected keys that ascend, got a concatenation of {len(parts[0].runs)} "
            "parts",
            split=name,
            expected="keys that ascend",
            got=f"a concatenation of {len(parts[0].runs)} parts",
            advice="Append to its source, and materialize that again.",
        )
    if len(runs) > 1 and len(runs[0].rules) > 1:  # equal keys of two rules are stored as different ones
        raise BeamDatasetsError(
            f"split {name!r}: expected keys made by one rule, got {_format_rules(runs[0])}, by which repeated keys "
            "are not found",
            split=name,
            expected="keys made by one rule",
            got=_format_rules(runs[0]),
            advice="Append to its source, and materialize that again.",
        )
    for run in runs[1:]:
        if run.rules != runs[0].rules:
            raise BeamDatasetsError(
                f"split {name!r}: expected keys made by one rule, got {_format_rules(runs[0])} and "
                f"{_format_rules(run)}",
                split=name,
                expected="keys made by one rule",
                got=f"{_format_rules(runs[0])} and {_format_rules(run)}",
                advice=f"Append examples that were generated for the split {runs[0].split!r}, in the same order.",
            )
    return runs[0].rules


def _format_rules(run: SortedRun) -> str:
    """Returns the key rules of a run for errors, such as "hashes of 'train', shuffled by 'a' (digits:1.0.0:train)"."""
    rules = [
        ("integer keys" if rule.split is None else f"hashes of {rule.split!r}")
        + "".join(f", shuffled by {salt!r}" for salt in rule.salts)
        for rule in run.rules
    ]
    return f"{' and '.join(rules)} ({run.name}:{run.split})"


def sort_keys_to_delete(keys: Iterable[Key], rules: Iterable[KeyRule]) -> list[tuple[int, bytes]]:
    """Returns (index in `keys`, sort key) for each key and each rule; a sort key has 16 bytes.

    For keys a, b and rules r, s the indices are 0, 0, 1, 1.
    """
    return [
        (number, rule.sort_key(_as_key(key, rule.split is None))) for number, key in enumerate(keys) for rule in rules
    ]


def _as_key(key: Key, is_integer: bool) -> Key:
    """Returns a key to delete, converted from text to an integer if the dataset has integer keys.

    Raises:
        InvalidKeyError: the text is not an integer.
    """
    if not (is_integer and isinstance(key, str)):
        return key
    if not _INTEGER.fullmatch(key):  # int() also reads 1_000, 007 and digits of other scripts
        raise InvalidKeyError(
            expected="an integer as key to delete, as all keys of this dataset are integers", got=f"{key!r:.60}"
        )
    return int(key)
