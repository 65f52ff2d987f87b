"""`beam-datasets new`: creates the files of a new dataset, with a test that passes."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Sequence

from beam_datasets import storage
from beam_datasets.cli.options import Command, Option, UsageError
from beam_datasets.cli.printing import say
from beam_datasets.errors import StorageError
from beam_datasets.metadata.names import camel_to_snake, check_dataset_name

COMMAND = Command(
    "new",
    """\
Creates a directory for a new dataset: a builder, its test with fake sources, checksums, description and citation. The
test passes; replace the parts that are marked TODO before you build the dataset.""",
    (
        Option("name", "NAME", "the dataset's name, in snake_case"),
        Option("--to", "DIR", "directory in which to create it; default: the current directory"),
    ),
    example="NAME",
)
_BUILDER = '''"""{title}."""

import csv

import beam_datasets as bd

URL = "https://example.org/{name}.zip"  # TODO: where the sources are


class {cls}(bd.DatasetBuilder):
    """{title}."""

    VERSION = bd.Version("1.0.0", "First release.")

    def _info(self):
        return self.dataset_info_from_configs(  # description and citation: README.md and CITATIONS.bib
            features=bd.features.FeaturesDict(  # TODO: what an example has
                {{"text": bd.features.Text(), "label": bd.features.ClassLabel(names=["no", "yes"])}}
            ),
            supervised_keys=("text", "label"),
        )

    def _split_generators(self, dl_manager):
        folder = dl_manager.download_and_extract(URL)
        return {{split: self._generate_examples(folder / f"{{split}}.csv") for split in ("train", "test")}}

    def _generate_examples(self, path):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):  # TODO: how examples are made
                yield row["id"], {{"text": row["text"], "label": row["label"]}}  # a key, unique in the split
'''
_TEST = """from {name} import {cls}

from beam_datasets import testing


class {cls}Test(testing.DatasetBuilderTestCase):
    DATASET_CLASS = {cls}
    SPLITS = {{"train": 3, "test": 1}}  # TODO: how many examples the fake sources in dummy_data have
    SKIP_CHECKSUMS = True  # TODO: record them by build --register_checksums, then take this line away


if __name__ == "__main__":
    testing.test_main()
"""
_FILES = {
    "{name}.py": _BUILDER,
    "{name}_test.py": _TEST,
    "README.md": "TODO: what {name} is, where it comes from, and what it is for.\n",
    "CITATIONS.bib": "@misc{{{name}, title = {{TODO}}}}\n",
    "checksums.tsv": "",
    "dummy_data/train.csv": "id,text,label\n1,a fake text,yes\n2,another,no\n3,the third,yes\n",
    "dummy_data/test.csv": "id,text,label\n1,one more,no\n",
}


def _is_remote(path: str) -> bool:
    """Returns whether a path is a URL of a store, also one without its two slashes, such as s3:/bucket."""
    try:
        storage.check_slashes(path)
    except StorageError:
        return not path.lower().startswith("file:")
    return storage.is_remote(path)


def run(args: Sequence[str]) -> int:
    """Creates the files of a new dataset and prints the next steps."""
    parsed = COMMAND.parse(args)
    try:
        check_dataset_name(parsed.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not re.fullmatch("[a-z][a-z0-9_]*", parsed.name) or keyword.iskeyword(parsed.name):
        example = f"{camel_to_snake(parsed.name)}{'_data' * keyword.iskeyword(parsed.name)}"
        raise UsageError(f"{parsed.name!r}: expected a name in snake_case that Python can import, such as {example}")
    if parsed.name in sys.stdlib_module_names:
        raise UsageError(f"{parsed.name!r} is a module of Python; give another name, such as {parsed.name}_data")
    if _is_remote(parsed.to or "."):
        raise UsageError(f"--to: expected a directory of this machine, got the URL {parsed.to}")
    folder = storage.join(*filter(None, [parsed.to, parsed.name]))
    if storage.exists(folder):
        raise UsageError(f"{folder} exists already; give another name, or another place by --to")
    words = parsed.name.split("_")
    names = {"name": parsed.name, "cls": "".join(map(str.capitalize, words)), "title": " ".join(words).capitalize()}
    for file, text in _FILES.items():
        path = storage.join(folder, file.format(**names))
        try:
            storage.write_bytes(path, text.format(**names).encode())
        except StorageError as error:
            raise UsageError(f"{folder} cannot be created: {error}. Give another place by --to") from None
        say(path)
    say(f"Test it: cd {folder}; python {parsed.name}_test.py\nThen change what is marked TODO.")
    return 0
