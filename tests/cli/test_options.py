"""Options: a builder's constructor on the command line, sizes, and what belongs to Beam."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import pytest

from beam_datasets.builders import DatasetBuilder
from beam_datasets.cli.options import (
    Parser,
    UsageError,
    add_builder_options,
    builder_arguments,
    check_beam_options,
    num_shards,
    size_in_bytes,
    with_underscores,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Base(DatasetBuilder, skip_registration=True):
    """Base.

    Args:
        splits: which rows
            go where.
        rate: 10% or so.
    """

    VERSION = "1.0.0"

    def __init__(
        self, *, splits: Mapping[str, str] | None = None, rate: float = 0.5, data_dir: str | None = None
    ) -> None:
        super().__init__(data_dir=data_dir)


class Derived(Base, skip_registration=True):
    def __init__(
        self,
        *,
        root: str,
        tags: Sequence[str] = (),
        deep: bool = False,
        wide: bool = True,
        size: int = 3,
        files: Mapping[str, str | Sequence[str]] | None = None,
        **common: Any,
    ) -> None:
        """Looks at the files.

        Args:
            root (str): where the files
                stand.
            tags: which of them.
            size (int, optional): rows of each.
        """
        super().__init__(**common)


def parse(args: list[str], builder: type[DatasetBuilder] = Derived) -> dict[str, Any]:
    parser = Parser("test", allow_abbrev=False)
    add_builder_options(parser, builder)
    return builder_arguments(parser.parse_args(args), builder)


def test_every_kind() -> None:
    args = "--root r --split train=a --splits test=b=c --rate 1 --tag x --tag y --deep --no-wide --size 4"
    assert parse(args.split()) == {
        "root": "r",
        "splits": {"train": "a", "test": "b=c"},
        "rate": 1.0,
        "tags": ["x", "y"],
        "deep": True,
        "wide": False,
        "size": 4,
    }
    assert parse(["--root", "r"]) == {"root": "r"}


def test_a_repeated_name() -> None:
    args = ["--root", "r", "--file", "a=x", "--file", "a=y", "--file", "b=z"]
    assert parse(args)["files"] == {"a": ["x", "y"], "b": "z"}
    with pytest.raises(UsageError, match="--split train is given twice, as 'x' and as 'y'"):
        parse(["--root", "r", "--split", "train=x", "--split", "train=y"])
    with pytest.raises(UsageError, match="--num_shards train is given twice, as '2' and as '3'"):
        num_shards(["train=2", "test=1", "train=3"])


@pytest.mark.parametrize("args", [[], ["--root"], ["--root", "r", "--split", "train"], ["--root", "r", "--size", "x"]])
def test_wrong_usage(args: list[str]) -> None:
    with pytest.raises(UsageError, match="--help"):
        parse(args)


def test_help_is_the_docstring() -> None:
    parser = Parser("test")
    add_builder_options(parser, Derived)
    text = " ".join(parser.format_help().split())
    assert "which rows go where." in text
    assert "10% or so." in text


def test_help_is_the_docstring_of_the_constructor_too() -> None:
    parser = Parser("test")
    add_builder_options(parser, Derived)
    text = " ".join(parser.format_help().split())
    assert "--root ROOT where the files stand. --tag TAGS, --tags TAGS which of them. --deep" in text
    assert "--size SIZE rows of each. --file" in text


def test_names_with_hyphens() -> None:
    assert with_underscores(["--data-dir=a-b", "--key", "x-y", "-v"]) == ["--data_dir=a-b", "--key", "x-y", "-v"]
    assert with_underscores(["--no-keep-blank"]) == ["--no-keep_blank"]


@pytest.mark.parametrize("text", ["", "x", "-1", "1 XB", "1KK"])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size_in_bytes(text)


def test_beam_options() -> None:
    parser = Parser("test")
    parser.add_argument("--num_shards")
    check_beam_options([], parser)
    check_beam_options(["--runner", "FlinkRunner", "--flink_master=localhost:8081", "--experiments", "x"], parser)
    with pytest.raises(UsageError, match=r"no option --num_shard, .* Did you mean --num_shards\?"):
        check_beam_options(["--num_shard", "3"], parser)
    with pytest.raises(UsageError, match=r"no option --runer, .* Did you mean --runner\?"):
        check_beam_options(["--runer=x"], parser)
    with pytest.raises(UsageError, match="what is 'stray'"):
        check_beam_options(["--streaming", "stray"], parser)
    words = r"what is 'test=1'\? .* is repeated for each split, as in --num_shards train=8 --num_shards test=1; see"
    with pytest.raises(UsageError, match=words):
        check_beam_options(parser.parse_known_args(["--num_shards", "train=8", "test=1"])[1], parser)


@pytest.mark.parametrize("values", [["train=8,test=1"], ["train=8", "1"], ["8", "1"], ["train"]])
def test_no_numbers_of_shards(values: list[str]) -> None:
    with pytest.raises(UsageError, match="write --num_shards 8, or --num_shards train=8 --num_shards test=1"):
        num_shards(values)
