"""inputs.json: the files from which a version was built, so that `append --from` finds the new ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from beam_datasets.errors import InputError
from beam_datasets.metadata.keys import Key, hash_key
from beam_datasets.metadata.split_by import meaning_of

INPUTS_FILE = "inputs.json"
DELETE = "--delete"
"""The option in `Inputs.selected_by` that an append with deleted keys adds."""
Stamp: TypeAlias = "tuple[int, float]"
"""A file's size in bytes, and the time of its last change in seconds since the epoch."""
FormatOptions: TypeAlias = "Mapping[str, str | bool | list[str]]"
"""Name of an option of a builder of files -> its value."""

DEFAULT_OPTIONS: FormatOptions = {
    "comment": "",
    "decimal": ".",
    "escapechar": "",
    "exif_orientation": "keep",
    "frames": "error",
    "keep_blank": False,
    "missing": [],
    "quote": '"',
    "thousands": "",
}
"""Values of options of builders of files that are not given; without options whose default depends on the files."""


@dataclass(frozen=True)
class Inputs:
    """The files from which a version was built, and their columns.

    Attributes:
        files: name of a file -> (size, time of the last change).
        columns: name of a column -> its type, as in the argument `features` of a builder of files.
        key: the option for the keys of rows, such as '--key id'; '' for none, None if it is unknown.
        splits: the options for the splits of rows; '' if the files determine them, None if they are unknown.
        checksums: name of a file -> its checksum, such as `crc32c:9a71bb4c`; without unknown ones.
        options: name of a format -> the given options that decide how the bytes of its files become values, such as
            {'csv': {'decimal': ','}}; formats that are not read, or were read by an older version, are absent.
        differing: name of a format -> the options that its files do not share, because an append gave other ones;
            written only if there are any.
        selected_by: the options by which rows of the files were left out on purpose, such as `--where 'n > 0'` of
            `materialize` and `--delete` of `append`; written only if there are any.
        deleted: the hashes of the keys that `--delete` removed, see `deleted_hashes`; written only if there are any.
            Older versions did not record them.
        unselected_splits: the splits of the source that `--split` of `materialize` did not select; written only if
            there are any.
    """

    files: Mapping[str, Stamp] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    splits: str | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, FormatOptions] = field(default_factory=dict)
    differing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    selected_by: Sequence[str] = ()
    deleted: Sequence[str] = ()
    unselected_splits: Sequence[str] = ()

    def with_files(self, other: Inputs) -> Inputs:
        """Returns these inputs with the files and the record of left-out rows of `other`, too.

        The latter are `selected_by`, `deleted` and `unselected_splits`.
        Files of `other` replace files of the same name.
        """
        kept_checksums = {name: checksum for name, checksum in self.checksums.items() if name not in other.files}
        return replace(
            self,
            files={**self.files, **other.files},
            checksums={**kept_checksums, **other.checksums},
            selected_by=tuple(dict.fromkeys([*self.selected_by, *other.selected_by])),
            deleted=tuple(dict.fromkeys([*self.deleted, *other.deleted])),
            unselected_splits=tuple(dict.fromkeys([*self.unselected_splits, *other.unselected_splits])),
        )

    def with_options_of(self, all_inputs: Iterable[Inputs]) -> Inputs:
        """Returns these inputs with `options` and `differing` of others.

        The options of a format are those of the first inputs that have it. An option differs if later inputs have
        another value of it; one that is given as its default is equal to one that is not given.

        >>> one, other = Inputs(options={"csv": {"decimal": ","}}), Inputs(options={"csv": {}, "text_lines": {}})
        >>> joined = Inputs().with_options_of([one, other])
        >>> joined.options, joined.differing
        ({'csv': {'decimal': ','}, 'text_lines': {}}, {'csv': ['decimal']})
        """
        options: dict[str, FormatOptions] = {}
        differing: dict[str, set[str]] = {}
        for inputs in all_inputs:
            for name, values in inputs.options.items():
                first = options.setdefault(name, values)
                other = {
                    each for each in {**first, **values} if _option_value(first, each) != _option_value(values, each)
                }
                differing.setdefault(name, set()).update(other, inputs.differing.get(name, ()))
        return replace(
            self, options=options, differing={name: sorted(names) for name, names in differing.items() if names}
        )

    def check_options(self, other: Inputs) -> None:
        """Checks that rows of `other` get their keys and splits by the same options, as far as these are known.

        Raises:
            InputError: the options differ.
        """
        is_key_other = None not in (self.key, other.key) and _dotted_options(self.key) != _dotted_options(other.key)
        are_splits_known = None not in (self.splits, other.splits)
        if is_key_other or (
            are_splits_known and meaning_of(_dotted_options(self.splits)) != meaning_of(_dotted_options(other.splits))
        ):
            raise InputError(
                expected=f"the options by which the published version was built, {self._options}",
                got=str(other._options),
                advice=(
                    "Give the same ones, or examples are doubled or move to another split; to change them, "
                    "build a new version of all files."
                ),
            )

    @property
    def _options(self) -> str:
        """The options for keys and splits as text; "none" if there are none."""
        return " ".join(filter(None, (self.key, self.splits))) or "none"

    def to_text(self) -> str:
        """Returns the text of inputs.json."""
        content = asdict(self)
        for name in ("options", "differing", "selected_by", "deleted", "unselected_splits"):
            if not content[name]:
                del content[name]
        return json.dumps(content, indent=1, sort_keys=True)

    @classmethod
    def from_text(cls, text: str | bytes) -> Inputs | None:
        """Parses an inputs.json; returns None if it is damaged.

        >>> inputs = Inputs({"a.csv": (7, 1.5)}, {"id": "int64"}, "--key id", options={"csv": {"decimal": ","}})
        >>> Inputs.from_text(inputs.to_text()) == inputs, Inputs.from_text("[]")
        (True, None)
        """
        try:
            content = json.loads(text)
            files = {name: (int(size), float(time)) for name, (size, time) in content["files"].items()}
            key, splits = (value if isinstance(value := content.get(name), str) else None for name in ("key", "splits"))
            columns = {name: str(spec) for name, spec in content["columns"].items()}
            checksums = {name: str(text) for name, text in content.get("checksums", {}).items()}  # older: none
            options = {name: dict(values) for name, values in content.get("options", {}).items()}  # older: none
            differing = {name: [*map(str, names)] for name, names in content.get("differing", {}).items()}
            selected_by = tuple(map(str, content.get("selected_by", ())))
            deleted = tuple(map(str, content.get("deleted", ())))
            unselected_splits = tuple(map(str, content.get("unselected_splits", ())))
            rows = selected_by, deleted, unselected_splits
            return cls(files, columns, key, splits, checksums, options, differing, *rows)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


@dataclass(frozen=True)
class Inheritance:
    """The facts that decide what a version made of published ones takes from their inputs.json.

    Attributes:
        sources: directories of the published versions.
        are_splits_kept: whether each split is made of examples of the split of its name.
        dropped: names of the features of the first source that are left out.
        selected_by: see `Inputs`.
        unselected_splits: see `Inputs`.
    """

    sources: Sequence[str]
    are_splits_kept: bool = True
    dropped: Sequence[str] = ()
    selected_by: Sequence[str] = ()
    unselected_splits: Sequence[str] = ()

    def derive(self, all_inputs: Sequence[Inputs | None]) -> Inputs | None:
        """Returns the inputs of the version; None if those of no source are known.

        The files of the only source are known to the version even if it lacks some of their rows, so that an append
        does not bring these back. Files of several sources may have the same names, so they are all unknown.

        Args:
            all_inputs: the inputs of each source; None if they are unknown.
        """
        known_inputs = [inputs for inputs in all_inputs if inputs is not None]
        if not known_inputs:
            return None
        first = known_inputs[0]
        if len(all_inputs) > 1:
            keys = {None if inputs is None else inputs.key for inputs in all_inputs}
            first = Inputs(key=keys.pop() if len(keys) == 1 else None).with_options_of(known_inputs)
            for inputs in known_inputs:
                first = first.with_files(Inputs(selected_by=inputs.selected_by, deleted=inputs.deleted))
        return replace(
            first,
            splits=first.splits if self.are_splits_kept else None,
            columns={**first.columns, **dict.fromkeys(self.dropped, "drop")},
            selected_by=tuple(dict.fromkeys([*first.selected_by, *self.selected_by])),
            unselected_splits=tuple(dict.fromkeys([*first.unselected_splits, *self.unselected_splits])),
        )


def _option_value(options: FormatOptions, name: str) -> object:
    """Returns the value of an option: the given one, or its default."""
    return options.get(name, DEFAULT_OPTIONS.get(name))


def deleted_hashes(keys: Iterable[Key]) -> tuple[str, ...]:
    """Returns a hash of each key to delete, so that no text of it is stored; an integer and its digits have one hash.

    >>> deleted_hashes([7]) == deleted_hashes(["7"]) == deleted_hashes([b"7"])
    True
    """
    return tuple(hash_key(DELETE, key)[:8].hex() for key in keys)


def _dotted_options(options: str | None) -> str:
    """Returns options such as 'user/id', as older versions wrote fields of objects, with dots: 'user.id'; '' for None.

    Every slash of the text is replaced, as the results are only compared.
    """
    return (options or "").replace("/", ".")
