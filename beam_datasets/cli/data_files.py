"""Advice on files and folders that are passed in place of a builder or a dataset: the commands that build them."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator

from beam_datasets.metadata.data_files import DATA_FILE, build_command

_IMAGE_FILE = re.compile(r".*\.(jpe?g|png|gif|bmp|tiff?|webp|heic|avif)", re.IGNORECASE)
_SOUND_FILE = re.compile(r".*\.(wav|flac|ogg|mp3|aiff?)", re.IGNORECASE)
_AS_CSV = "Save it as CSV, then `beam-datasets build csv --name NAME --pattern FILE.csv`"
_AS_PARQUET = (
    "Write it as Parquet, such as by pandas, then `beam-datasets build parquet --name NAME --pattern FILE.parquet`"
)
_UNPACK = "Unpack it, and build the files in it: `beam-datasets build --help` lists their formats"
_WAYS = {
    **dict.fromkeys(("xlsx", "xls", "xlsm", "ods", "numbers"), _AS_CSV),
    **dict.fromkeys(("zip", "tar", "tgz", "7z", "rar"), _UNPACK),
    **dict.fromkeys(
        (
            "arrow",
            "feather",
            "orc",
            "avro",
            "h5",
            "hdf5",
            "pkl",
            "pickle",
            "npz",
            "npy",
            "mat",
            "sqlite",
            "db",
            "lance",
        ),
        _AS_PARQUET,
    ),
    **dict.fromkeys(("dta", "sas7bdat", "rds", "xml", "yaml", "yml", "duckdb", "mds", "bin", "dat"), _AS_PARQUET),
    **dict.fromkeys(
        ("md", "html", "pdf", "docx", "log"),
        "Write its text to .txt files, then `beam-datasets build text_lines "
        "--name NAME --pattern FILES`, or write a builder",
    ),
    **dict.fromkeys(
        ("mp4", "avi", "mov", "mkv", "webm"), "Write a builder with `features.Video`: `beam-datasets new NAME`"
    ),
    "ipynb": "Give the file of a builder, which ends in .py",
}
"""Suffix of a file that no format reads -> what to do."""


def way_to_build(text: str) -> str:
    """Returns a sentence that says how to build a file of a kind that no command reads; '' for any other text.

    >>> way_to_build("b.xlsx")
    'Save it as CSV, then `beam-datasets build csv --name NAME --pattern FILE.csv`'
    >>> way_to_build("numbers"), way_to_build("photos/*.png")
    ('', 'Build images by folders, one per label: `beam-datasets build image_folder --root DIR --name NAME`')
    """
    if os.path.isdir(text):
        return ""
    suffix = text.rpartition(".")[2].lower() if "." in text else ""  # none in a name such as "numbers"
    if suffix in _WAYS:
        return _WAYS[suffix]
    paths = glob.glob(text) if glob.has_magic(text) else []
    if any(_IMAGE_FILE.fullmatch(path) or (os.path.isdir(path) and has_images(path)) for path in (text, *paths)):
        return "Build images by folders, one per label: `beam-datasets build image_folder --root DIR --name NAME`"
    if _SOUND_FILE.fullmatch(text):
        return "Build sounds by folders, one per label: `beam-datasets build sound_folder --root DIR --name NAME`"
    if "." in os.path.basename(text) and os.path.isfile(text) and not text.endswith(".py"):
        return "If it is data, `beam-datasets build --help` lists the formats; a file with code ends in .py"
    return ""


def ways_to_build_folder(folder: str) -> Iterator[str]:
    """Yields each way to build the files of a folder: "images by their folders: beam-datasets build ...".

    The names of the files decide which there are: first one for data files, then for images, then for sounds.
    """
    files = filter(None, map(DATA_FILE.fullmatch, sorted(os.listdir(folder))))
    alike = {os.path.join(folder, f"*{file[0][file.start(1) - 1 :]}") for file in files}
    yield from (f"data files by their format: {build_command(one)}" for one in sorted(alike)[:1])
    for pattern, noun, kind in ((_IMAGE_FILE, "images", "image_folder"), (_SOUND_FILE, "sounds", "sound_folder")):
        if _has_files(folder, pattern):
            yield f"{noun} by their folders: beam-datasets build {kind} --root {shlex.quote(folder)} --name NAME"


def has_images(folder: str) -> bool:
    """Returns whether there is an image in a directory, or in a directory in it, by the names of the files."""
    return _has_files(folder, _IMAGE_FILE)


def _has_files(folder: str, pattern: re.Pattern[str]) -> bool:
    """Returns whether a file in a directory, or in a directory in it, has a name of this pattern."""
    patterns = (os.path.join(glob.escape(folder), *parts) for parts in (("*",), ("*", "*")))
    return any(pattern.fullmatch(path) for one in patterns for path in glob.iglob(one))
