"""Folders of tables (Delta Lake, Hudi, Iceberg): a log in them lists the files that belong to the table.

Their folders keep files of rows that were changed or deleted, so that all files together are no version of the table.
"""

from __future__ import annotations

import glob
import re
from contextlib import suppress
from typing import NamedTuple

from beam_datasets.errors import InputError
from beam_datasets.files.glob import match_by_beam


class _TableFormat(NamedTuple):
    """A format of tables.

    Attributes:
        name: its name.
        spark_name: its name in Spark.
        log: pattern of the files of its log below the folder of the table.
        log_names: regular expression of their names.
    """

    name: str
    spark_name: str
    log: str
    log_names: str = ".*"


_FORMATS = (
    _TableFormat("a Delta Lake table", "delta", "_delta_log/*"),
    _TableFormat("a Hudi table", "hudi", ".hoodie/*"),
    _TableFormat(  # <number>-<uuid> in catalogs, v<number> without one; compressed with .gz before or after
        "an Iceberg table",
        "iceberg",
        "metadata/*.metadata.json*",
        r"(v\d+|\d{5,}-[\da-fA-F-]+)(\.gz)?\.metadata\.json(\.gz)?",
    ),
)


def table_error(folder: str, path: str) -> InputError | None:
    """Returns the error for a file or folder of a listing that belongs to the log of a table; None for others.

    Its `path` is that of the table.

    Args:
        folder: the folder that was listed, with its last separator.
        path: path of the file relative to it; that of a folder ends with a slash.
    """
    for table in _FORMATS:
        name = table.log.partition("/")[0]
        parent, separator, log_path = f"/{path}".rpartition(f"/{name}/")
        if separator and re.fullmatch(table.log_names, log_path):
            return _error(table, folder + parent[1:])
    return None


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
            if _has_log(parent, table):
                raise _error(table, parent)
        parent = parent[: parent.rfind("/")].rstrip("/")


def _has_log(folder: str, table: _TableFormat) -> bool:
    """Returns whether a folder has the log of a table; False if a store does not let the folder be listed."""
    paths: list[str] = []
    if "://" not in folder:
        paths = glob.glob(f"{glob.escape(folder)}/{table.log}")
    else:
        with suppress(Exception):  # credentials for the files may not allow to list the folders above them
            [result] = match_by_beam(f"{folder}/{table.log}")
            paths = [file.path for file in result.metadata_list]
    return any(re.fullmatch(table.log_names, path[path.rfind("/") + 1 :]) for path in paths)


def _error(table: _TableFormat, folder: str) -> InputError:
    """Returns the error for a table in a folder."""
    return InputError(
        expected="Parquet files that all belong to the dataset",
        got=f"{table.name} ({table.log}), whose folder may also have files of rows that were changed or deleted",
        advice=f"Write its rows as Parquet, in Spark by spark.read.format({table.spark_name!r}).load(PATH)"
        ".write.parquet(OUT); or name each file that belongs to it: --split train=FILE --split train=FILE",
        path=folder.rstrip("/"),
    )
