"""Names of data files, and the commands that build a dataset from them."""

from __future__ import annotations

import os
import re
import shlex

DATA_FILE = re.compile(r".*\.(csv|tsv|tab|jsonl|ndjson|json|parquet|txt|tfrecords?)(\.(gz|bz2|xz|zst))?", re.IGNORECASE)
_FORMAT_OF = {
    "tsv": "csv",
    "tab": "csv",
    "json": "jsonl",
    "ndjson": "jsonl",
    "txt": "text_lines",
    "tfrecords": "tfrecord",
}
"""Suffix -> format, where they differ."""


def build_arguments(text: str) -> str | None:
    """Returns the arguments of `build` for a data file, such as "csv --pattern a.csv"; None for an unknown suffix.

    >>> build_arguments("a.tsv.gz"), build_arguments("x.py")
    ('csv --pattern a.tsv.gz', None)
    """
    data = DATA_FILE.fullmatch(text)
    if data is None:
        return None
    suffix = data[1].lower()
    return f"{_FORMAT_OF.get(suffix, suffix)} --pattern {shlex.quote(text)}"


def build_command(pattern: str) -> str:
    """Returns the command that builds data files: "beam-datasets build csv --name a --pattern a.csv".

    The name is that of the file, or NAME if a dataset cannot have it.

    >>> print(build_command("in/My houses.csv"))
    beam-datasets build csv --name my_houses --pattern 'in/My houses.csv'
    >>> print(build_command("*.jsonl.gz"))
    beam-datasets build jsonl --name NAME --pattern '*.jsonl.gz'
    """
    stem = re.sub(r"\W+", "_", os.path.basename(pattern).partition(".")[0].lower())
    name = stem if re.fullmatch(r"[a-z]\w*", stem) else "NAME"
    return f"beam-datasets build {(build_arguments(pattern) or '').replace(' ', f' --name {name} ', 1)}"
