"""Folders of tables (Delta Lake, Hudi, Iceberg): a log in them lists the files that belong to the table.

Their folders keep files of rows that were changed or deleted, so that all files together are no version of the table.
"""

from __future__ import annotations

import fnmatch
import glob
from contextlib import suppress
from typing import NamedTuple

from beam_datasets.errors import InputError
from beam_datasets.files.glob import match_by_beam


class _TableFormat(NamedTuple):
    """A format of tables: its name, that of Spark, and the pattern of its log below the folder of the table."""

    name: str
    spark_name: str
    log: str


_FORMATS = (
    _TableFormat("a Delta Lake table", "delta", "_delta_log/*"),
    _TableFormat("a Hudi table", "hudi", ".hoodie/*"),
    _TableFormat("an Iceberg table", "iceberg", "metadata/*.metadata.json*"),
)


def check_not_in_log(folder: str, path: str) -> None:
    """Checks that a file or folder of a listing does not belong to the log of a table.

    Args:
        folder: the folder that was listed, with its last separator.
        path: path of the file relative to it; that of a folder ends with a slash.

    Raises:
        InputError: it belongs to one.
    """
    for table in _FORMATS:
        if fnmatch.fnmatchcase(f"/{path}", f"*/{table.log}"):
            name = table.log.partition("/")[0]
            raise _error(table, folder + path[: f"/{path}".rindex(f"/{name}/")])


def check_not_in_table(folder: str) -> None:
    """Checks that neither a folder nor a folder that contains it is the folder of a table.

    Args:
        folder: absolute path or URL with its last separator.

    Raises:
        InputError: it is in the folder of a table, or is one.
    """
    root = "://" in folder and folder.index("://") + 3
    parent = folder.rstrip("/")
    while parent and len(parent) > root:
        for table in _FORMATS:
            if _has_file(parent, table.log):
                raise _error(table, parent)
        parent = parent[: parent.rfind("/")].rstrip("/")


def _has_file(folder: str, pattern: str) -> bool:
    """Returns whether a file in a folder matches a pattern; False if a store does not let the folder be listed."""
    if "://" not in folder:
        return bool(glob.glob(f"{glob.escape(folder)}/{pattern}"))
    with suppress(Exception):  # credentials for the files may not allow to list the folders above them
        [result] = match_by_beam(f"{folder}/{pattern}", limit=1)
        return bool(result.metadata_list)
    return False


def _error(table: _TableFormat, folder: str) -> InputError:
    """Returns the error for a table in a folder."""
    return InputError(
        expected="Parquet files that all belong to the dataset",
        got=f"{table.name} ({table.log}), whose folder may also have files of rows that were changed or deleted",
        advice=f"Write its rows as Parquet, in Spark by spark.read.format({table.spark_name!r}).load(PATH)"
        ".write.parquet(OUT); or name each file that belongs to it: --split train=FILE --split train=FILE",
        path=folder.rstrip("/"),
    )
