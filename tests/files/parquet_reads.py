"""Parquet files that are written and read as the builder reads them."""

import json
import shlex
from functools import partial

import pytest

from beam_datasets.features import FeaturesDict, compile_decoder, compile_encoder
from beam_datasets.files.bad_rows import Bad
from beam_datasets.files.fields import override, problems, to_feature, with_labels
from beam_datasets.files.inputs import find
from beam_datasets.files.parquet import distinct, row_groups, rows
from beam_datasets.files.rows import RowReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FILES = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
WAV = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x08\0\0\0\1\0\2\0\3\0\4\0"


def label(*names):
    """Returns the description of a class label in the metadata of Hugging Face's datasets."""
    return {"names": list(names), "_type": "ClassLabel"}


def table_of(columns, features=None):
    """Returns a table, whose metadata describe features as Hugging Face's datasets do."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    described = {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    return table.replace_schema_metadata(described)


class Read:
    """A build of Parquet files: its `fields`, `problems`, examples (`rows`) and problems of rows (`bad`)."""

    def __init__(self, path, specs=None):
        specs = specs or {}
        fields, pieces = row_groups(find(str(path)))
        self.fields = override(fields, specs)
        self.problems = list(problems(self.fields))
        self.rows, self.bad = [], []
        if self.problems:
            return
        values_at = partial(distinct, find(str(path)))
        self.fields = {name: with_labels(field, name, values_at) for name, field in self.fields.items()}
        dropped = frozenset(name for name, spec in specs.items() if spec == "drop")
        read = partial(rows, column_names={*self.fields}, fields=self.fields, typed_paths=frozenset(specs))
        for piece in pieces:
            for row in RowReader(read, self.fields, dropped)(piece):
                if isinstance(row, Bad):
                    self.bad.append(str(row))
                else:
                    self.rows.append(row[1])

    @property
    def types(self):
        return {name: str(field) for name, field in self.fields.items()}

    @property
    def stored(self):
        """The examples as they are after they were stored."""
        features = FeaturesDict({name: to_feature(field) for name, field in self.fields.items()})
        return [compile_decoder(features)(compile_encoder(features)(row)) for row in self.rows]


def reader(folder):
    """Returns a function that writes columns, or several sets of them, into files of a folder, and reads these."""

    def read(*tables, specs=None, features=None, **options):
        for number, columns in enumerate(tables):
            pq.write_table(table_of(columns, features), folder / f"{number}.parquet", **options)
        return Read(folder, specs)

    return read


def advised(text):
    """Returns the types of columns that a text advises."""
    words = shlex.split(text.replace(",", " ").replace(";", " "))
    return [words[i + 1].partition("=")[::2] for i, word in enumerate(words) if word == "--feature"]
