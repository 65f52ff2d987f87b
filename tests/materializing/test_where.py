"""Conditions of `where=` against the same in Python, and filters of files."""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.formats.tfrecord import frame_all
from beam_datasets.helper_process import HelperProcess
from beam_datasets.materializing import database
from beam_datasets.materializing.filters import Filter
from beam_datasets.materializing.plan import plan_job
from beam_datasets.materializing.where import ExpressionLimitError, Where
from tests.facts import raises_with

TREE = F.FeaturesDict(
    {
        "n": np.int64,
        "weight": F.Scalar(np.float32, optional=True),
        "text": F.Text(),
        "label": F.ClassLabel(names=["cat", "dog"]),
        "tags": F.Sequence(F.Text()),
        "labels": F.Sequence(F.ClassLabel(names=["a", "b"])),
        "box": {"xmin": np.int32, "flag": np.bool_},
        "grid": F.Tensor(shape=(2, 2), dtype=np.uint8),
        "image": F.Image(shape=(1, 1, 3)),
    }
)
ROWS: list[dict[str, Any]] = [
    {
        "n": i,
        "weight": None if i % 5 == 0 else i / 4,
        "text": "é" * i,
        "label": i % 3 - 1,
        "tags": ["new"] * (i % 2) + ["x"],
        "labels": [i % 2],
        "box": {"xmin": 7 - i, "flag": i % 4 == 0},
        "grid": np.full((2, 2), i, np.uint8),
        "image": np.zeros((1, 1, 3), np.uint8),
    }
    for i in range(23)
]


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    encode = F.compile_encoder(TREE)
    return [encode(row) for row in ROWS]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> Path:
    folder = tmp_path_factory.mktemp("where")
    (folder / "rows.tfrecord").write_bytes(b"".join(frame_all(records)))
    return Path(bd.adopt(str(folder / "rows.tfrecord"), TREE, name="rows").dataset_dir)


@pytest.mark.parametrize(
    "expression,expected",
    [
        ("label == 'dog' and length(text) > 10", lambda row: row["label"] == 1 and row["n"] > 10),
        ("label is null", lambda row: row["label"] == -1),
        ("n between 3 and 5 or n in (7, 9)", lambda row: row["n"] in (3, 4, 5, 7, 9)),
        ("weight > 2", lambda row: row["weight"] is not None and row["weight"] > 2),
        ("weight is null", lambda row: row["weight"] is None),
        ("list_contains(tags, 'new')", lambda row: "new" in row["tags"]),
        ("labels[1] = 'b'", lambda row: row["labels"] == [1]),
        ("box.xmin > 2 and not box.flag", lambda row: row["box"]["xmin"] > 2 and not row["box"]["flag"]),
        ("grid[2][1] = 4", lambda row: row["n"] == 4),
        ("N % 2 = 0 -- even", lambda row: row["n"] % 2 == 0),
        ("true", lambda row: True),
        ("len(list_filter(tags, lambda x: x = 'new')) = 1", lambda row: "new" in row["tags"]),
        ("n + 1 > 3 and -n < 2", lambda row: row["n"] > 2),
        ("n <\n 3", lambda row: row["n"] < 3),
    ],
)
def test_chooses_as_python_does(records: list[bytes], expression: str, expected: Any) -> None:
    chosen = Where(expression).compile(TREE)
    wanted = [i for i, row in enumerate(ROWS) if expected(row)]
    assert chosen(records) == wanted
    assert [i for i, record in enumerate(records) if chosen([record])] == wanted


@pytest.mark.parametrize(
    "expression,words",
    [
        ("", "expected a condition such as 'n > 3', got an empty text"),
        (" \n", "got an empty text"),
        ("label = = 'dog'", r"syntax error at or near \"=\"\nlabel = = 'dog'\n        \^ character 9"),
        ("n >", "syntax error"),
        ("1) or (1=1", "syntax error"),
        ("n > 1 order by n", "syntax error"),
        ("n > 1; select 2", "syntax error"),
        (
            "lanel = 'dog'",
            r"unknown feature 'lanel'.*label.*\nlanel = 'dog'\n\^ character 1\n.*features: box, grid, label,",
        ),
        ("text > 3", "(?s)Cannot compare values of type VARCHAR.*\\^"),
        ("n > 'x'", "(?s)Could not convert string 'x'.*\\^"),
        ("nosuch(n)", "nosuch"),
        ("n + 1", "expected a condition, which is true or false, got"),
        ("count(*) > 1", "aggregates"),
        ("n in (select 3)", "got a subquery"),
        ("random() < 0.5", r"random\(\) does not depend on the example alone"),
        ("current_date > '2020-01-01'", "unknown feature 'current_date'"),
        ("label = 'dgo' or n > 3", r"'dgo' is not a label: expected one of 'cat', 'dog'\..*'dog'"),
        ("n > 3 and label not in ('cat', 'x')", "'x' is not a label: expected one of 'cat', 'dog'"),
        *(
            (expression, f"the label '[lL]abel' is compared by its names: expected one of 'cat', 'dog', got {number}\n")
            for expression, number in {
                "label = 0": "0",
                "1 <> Label": "1",
                "n > 3 and (label in ('cat', 7) or n = 1)": "7",
                "label > 0.5": "0.5",
                "label between 0 and 1": "0",
                "case when label is distinct from 3 then true else false end": "3",
                "label = true": "true",
            }.items()
        ),
        ("label + 1 = 2", "(?s)No function matches.*\nThe label 'label' is text, one of 'cat', 'dog'.\n"),
        ("list_contains(labels, 0)", "(?s)incompatible.*\nThe label 'labels' is text, one of 'a', 'b'.\n"),
        ("image is null", "feature 'image', .* has no column"),
        ('"#" > 3', "unknown feature '#'"),
        ('label = "dog"', "unknown feature 'dog'. A text is in single quotes: 'dog'."),
        (3, "expected a text such as 'n > 3', got 3"),
    ],
)
def test_mistakes_are_errors_before_the_work(source: Path, tmp_path: Path, expression: Any, words: str) -> None:
    with pytest.raises(BeamDatasetsError, match=words):
        plan_job(str(source), to="some", data_dir=str(tmp_path), where=expression)


@pytest.mark.parametrize("expression", ["x" * 100_000, "(" * 5000 + "n < 3" + ")" * 5000, "+".join(["n"] * 20_000)])
def test_errors_of_long_expressions_are_short(expression: str) -> None:
    with pytest.raises(BeamDatasetsError) as caught:
        Where(expression).compile(TREE)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    "expression",
    [
        "not " * 900 + "(n > 3)",
        "- " * 990 + "n > 3",
        "list_transform(" * 490 + "[n]" + ", lambda x: x)" * 490 + " is null",
        "(" * 2000 + "n > 3" + ")" * 2000,
        "case when n > 1 then " * 3000 + "true" + " else false end" * 3000,
    ],
)
def test_expressions_of_many_levels_are_errors(expression: str) -> None:
    with raises_with(BeamDatasetsError, mentions=[repr(expression)[:200], "nested too deeply", "filter="]):
        Where(expression).compile(TREE)


@pytest.mark.parametrize("expression", ["n % 0 = 1", "(" * 2000 + "n" + ")" * 2000])
def test_errors_advise_no_setting(records: list[bytes], expression: str) -> None:
    """Settings of DuckDB are locked, so that SET would be a syntax error."""
    with pytest.raises(BeamDatasetsError) as caught:
        Where(expression).compile(TREE)(records)
    assert "SET" not in str(caught.value)


def test_a_text_that_the_parser_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_BYTES", 64 << 20)
    with raises_with(ExpressionLimitError, mentions=["0.0625 GiB of memory"]):
        Where(f"text > '{'a' * 10_000_000}'").compile(TREE)


@pytest.mark.parametrize(
    "text",
    [
        "Allocation failure",
        "Failed to allocate block of 16777216 bytes (bad allocation)\n\nPossible solutions:",
        "Parser Error: std::bad_alloc",
    ],
)
def test_texts_of_duckdb_about_memory(text: str) -> None:
    assert isinstance(database.to_error(text), database.LimitError)


@pytest.mark.parametrize(
    "expression,words",
    [
        ("text = 'bad_alloc' and nope(1)", "Function with name nope does not exist"),
        ("nope('allocation failure')", "Function with name nope does not exist"),
        ("n = 'std::bad_alloc'::int", "Could not convert string 'std::bad_alloc'"),
        ("'Out of Memory Error: Allocation failure'::bool", "Could not convert string 'Out of Memory Error"),
        ("text = 'Failed to allocate' and", "syntax error"),
        ('"bad_alloc" > 3', "unknown feature 'bad_alloc'"),
    ],
)
def test_texts_about_memory_in_an_expression(expression: str, words: str) -> None:
    with raises_with(BeamDatasetsError, mentions=[words]) as caught:
        Where(expression).compile(TREE)
    assert type(caught.value) is BeamDatasetsError
    assert "GiB" not in str(caught.value)


def test_times_are_in_utc(records: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        chosen = Where("'2020-01-01 00:00:00'::timestamptz = '2020-01-01 00:00:00+00'::timestamptz").compile(TREE)
        assert chosen(records) == list(range(len(records)))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_bytes_that_are_not_text() -> None:
    tree = F.FeaturesDict({"text": F.Text()})
    record = F.compile_encoder(tree)({"text": b"\xff\xfe"})
    with raises_with(BeamDatasetsError, mentions=["'text'", "UTF-8"]):
        Where("text = 'a'").compile(tree)([record])


def test_labels_without_a_name_are_null() -> None:
    encode = F.compile_encoder(F.FeaturesDict({"label": np.int64, "labels": F.Sequence(np.int64)}))
    records = [encode({"label": number, "labels": [number, 0]}) for number in (0, 1, 2, -1, -2, 99, -(2**63))]
    tree = F.FeaturesDict({"label": TREE["label"], "labels": TREE["labels"]})
    assert Where("label IS NULL AND labels = [NULL, 'a']").compile(tree)(records) == [2, 3, 4, 5, 6]
    assert Where("label = 'dog' OR labels[1] = 'b'").compile(tree)(records) == [1]


@pytest.mark.parametrize("expression", ["label = n", "cast(label as int) = 0", "labels[1] = 0"])
def test_an_error_of_a_label_that_is_read_as_a_number_has_the_names(records: list[bytes], expression: str) -> None:
    chosen = Where(expression).compile(TREE)
    with pytest.raises(
        BeamDatasetsError, match=r"(?s)Could not convert string.*\nThe label 'labels?' is text, one of 'a|cat'"
    ):
        chosen(records)


def test_labels_whose_names_are_numbers_are_compared_as_numbers() -> None:
    tree = F.FeaturesDict({"digit": F.ClassLabel(num_classes=10)})
    encode = F.compile_encoder(tree)
    records = [encode({"digit": number}) for number in range(10)]
    for expression in ("digit = 3", "digit = '3'", "digit in (3)"):
        assert Where(expression).compile(tree)(records) == [3]


def test_labels_of_which_some_names_are_numbers_are_compared_with_those() -> None:
    tree = F.FeaturesDict({"label": F.ClassLabel(names=["0", "1", "unknown"])})
    encode = F.compile_encoder(tree)
    records = [encode({"label": number}) for number in (0, 1, 0, 1)]
    assert Where("label = 1").compile(tree)(records) == [1, 3]


def test_labels_are_ordered_beside_any_text() -> None:
    tree = F.FeaturesDict({"pet": {"kind": F.ClassLabel(names=["cat", "dog"])}})
    encode = F.compile_encoder(tree)
    records = [encode({"pet": {"kind": number}}) for number in (0, 1, 0, 1)]
    assert Where("pet.kind > 'cax'").compile(tree)(records) == [1, 3]


def test_labels_inside_other_features_are_named() -> None:
    tree = F.FeaturesDict({"Pet": {"kind": F.ClassLabel(names=["cat", "dog"]), "ages": F.Sequence(np.int64)}})
    record = F.compile_encoder(tree)({"Pet": {"kind": 1, "ages": [0]}})
    for expression, words in {
        "Pet.kind = 1": "the label 'Pet.kind' is compared by its names: expected one of 'cat', 'dog', got 1\n",
        "pet.kind = 'dgo'": "'dgo' is not a label: expected one of 'cat', 'dog'. Did you mean 'dog'",
        "pet.kind::int = 1": "The label 'Pet.kind' is text, one of 'cat', 'dog'.\n",
    }.items():
        with pytest.raises(BeamDatasetsError, match=words):
            Where(expression).compile(tree)([record])
    assert Where("pet.kind = 'dog'").compile(tree)([record]) == [0]


def test_errors_have_ten_names_of_a_label() -> None:
    tree = F.FeaturesDict({"many": F.ClassLabel(names=[f"it's {i}" for i in range(30)])})
    for expression in ("many = 1", "many = 'x'", "many + 1 = 2"):
        with pytest.raises(BeamDatasetsError, match=r"one of 'it''s 0', .*, 'it''s 9', \.\.\. \(of 30\)"):
            Where(expression).compile(tree)


def test_materializes_what_is_chosen(source: Path, tmp_path: Path) -> None:
    request: Any = {"data_dir": str(tmp_path), "where": "label = 'dog'"}
    job = plan_job(str(source), to="dogs", **request)
    wanted = [row["n"] for row in ROWS if row["label"] == 1]
    assert job.count_chosen() == {"train": len(wanted)}
    assert pickle.loads(pickle.dumps(job.transform)).where == Where("label = 'dog'")
    made = bd.builder_from_directory(bd.materialize(str(source), to="dogs", **request))
    assert [int(example["n"]) for example in made.as_dataset("train")] == wanted
    assert made.lineage.filter == "where label = 'dog'"
    both = bd.materialize(str(source), to="both", features=["n"], filter=is_large, **request)
    assert [int(example["n"]) for example in bd.builder_from_directory(both).as_dataset("train")] == [
        n for n in wanted if n > 9
    ]
    assert "where label = 'dog' and " in str(bd.builder_from_directory(both).lineage.filter)


def is_large(example: Any) -> bool:
    assert example["label"] == 1
    return bool(example["n"] > 9)


@pytest.mark.parametrize("options", [{"where": "TRUE"}, {"reshuffle": "x"}])
def test_a_record_that_is_too_large_is_named(
    source: Path, tmp_path: Path, records: list[bytes], monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    largest = max(map(len, records))
    place = next(i for i, record in enumerate(records) if len(record) == largest)
    for module in ("shuffle.block_builder", "materializing.records"):
        monkeypatch.setattr(f"beam_datasets.{module}.MAX_COPIED_BYTES", largest - 1)
    with raises_with(BeamDatasetsError, mentions=[f"record {place};", f" {largest - 1} bytes", f"got {largest}"]):
        bd.materialize(source, to="copy", data_dir=tmp_path, num_workers=1, **options)
    assert not list(tmp_path.rglob("dataset_info.json"))


# A filter of a file: any ordinary file, whose functions work in other processes too


ORDINARY = """\
import enum
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

class Kind(enum.Enum):
    EVEN = 0

class Pair(NamedTuple):
    a: int

@dataclass(frozen=True)
class Limits:
    step: ClassVar[int] = 2
    kinds: list[Kind] = field(default_factory=lambda: [Kind.EVEN])

    def hold(self, example: dict) -> bool:
        return Kind(Pair(example["id"]).a % self.step) is Kind.EVEN if example["id"] % 2 == 0 else False

LIMITS = Limits()

def keep(example: dict) -> bool:
    return LIMITS.hold(example)
"""


@pytest.mark.parametrize("name", ["chosen", "json", "two.words", "not a name"])
def test_a_file_with_dataclasses_here_and_in_another_process(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(ORDINARY)
    before = dict(sys.modules)
    found = Filter.of(f"{file}:keep")
    assert sys.modules == before
    assert sys.modules["json"] is json
    assert found.name == f"{name}:keep"
    assert [found.function({"id": i}) for i in range(4)] == [True, False, True, False]
    (tmp_path / "filter").write_bytes(cloudpickle.dumps(found.function))
    code = (
        f"import pickle; f = pickle.load(open({str(tmp_path / 'filter')!r}, 'rb'));"
        "print([f({'id': i}) for i in range(4)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "[True, False, True, False]\n", done.stderr


def test_what_a_file_raises_passes_through_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("import dataclasses\nraise RuntimeError('no')\n")
    with pytest.raises(RuntimeError, match="^no$"):
        Filter.of(f"{file}:keep")
    assert "broken" not in sys.modules
    with raises_with(BeamDatasetsError, mentions=["does not exist"]):
        Filter.of(f"{tmp_path}/nothing.py:keep")


@pytest.mark.parametrize(
    "expression,words",
    [
        ("COLUMNS(*) is not null", r"got a \* or COLUMNS\(\)\. Name the features"),
        ("* is null", r"got a \* or COLUMNS\(\)"),
        ("columns('n|#') > 3", r"got a \* or COLUMNS\(\)"),
        ("list_contains([columns(*)]::varchar[], 'x')", r"got a \* or COLUMNS\(\)"),
        ("#1 > 3", "got a positional reference"),
        ("$1 > 3", "got a parameter"),
        ("row_number() over () > 3", "got a window"),
        ("n > (select max(n) from examples)", "got a subquery"),
        ("exists (from read_csv('/etc/passwd'))", "got a subquery"),
        ("read_text('/etc/passwd') is not null", "read_text"),
        ("read_csv('/etc/passwd') is not null", "read_csv"),
        ("glob('/etc/*') is not null", "glob"),
        ("getenv('HOME') = '/root'", r"getenv\(\) does not depend on the example alone"),
        ("current_setting('threads') = '1'", r"current_setting\(\) does not depend on the example alone"),
        ("current_user = 'duckdb'", "unknown feature 'current_user'"),
        ("current_role() = 'duckdb'", r"current_role\(\) does not depend on the example alone"),
        ("pg_catalog.pg_sleep(1) is null", r"pg_sleep\(\) does not depend on the example alone"),
        ("version() like 'v%'", r"version\(\) does not depend on the example alone"),
        ("list_filter(tags, lambda x: x = '#' or examples is null) = []", "unknown feature 'examples'"),
        ("list_filter(tags, lambda x: y = 3) = []", "unknown feature 'y'"),
        ("n > 3; attach 'x.db'", "syntax error"),
        ("n > 3); copy (select 1) to 'x'; select (1", "Only SELECT statements"),
        ("unnest([true, true])", "UNNEST"),
        ("text = '\ud83d'", "expected text in Unicode, got half of a surrogate pair"),
        ("n > 3\0 and n < 0", "expected text in Unicode, got .* a NUL"),
        (
            "box/xmin > 2",
            r"unknown feature 'xmin'\. In an expression box/xmin is a division; the feature is box\.xmin\.",
        ),
        ("2 < BOX/XMIN and n > 0", r"In an expression box/xmin is a division; the feature is box\.xmin"),
    ],
)
def test_an_expression_sees_the_example_alone(expression: str, words: str) -> None:
    with pytest.raises(BeamDatasetsError, match=words):
        Where(expression).compile(TREE)


@pytest.mark.parametrize(
    ("expression", "proposed"),
    [
        ("price > 1", "product.price"),
        ("Price > 1 and n = 2", "product.price"),
        ("d.e = 1", "product.d.e"),
        ("Order-Nr > 1", '"Order-Nr"'),
        ("n > 0 and order-nr > 1", '"Order-Nr"'),
        ("unit cost > 1", '"unit cost"'),
        ("product.to pay > 1", 'product."to pay"'),
        ("2nd > 1", '"2nd"'),
        ("order > 1", '"order"'),
    ],
)
def test_a_proposed_name_is_the_feature(expression: str, proposed: str) -> None:
    tree = F.FeaturesDict(
        {
            "product": {"price": np.int64, "d": {"e": np.int64}, "to pay": np.int64},
            **dict.fromkeys(["n", "Order-Nr", "unit cost", "2nd", "order"], np.int64),
        }
    )
    with raises_with(BeamDatasetsError, mentions=[proposed]):
        Where(expression).compile(tree)
    nested = {"price": 3, "d": {"e": 3}, "to pay": 3}
    record = F.compile_encoder(tree)({"product": nested, **dict.fromkeys(tree.keys() - {"product"}, 3)})
    assert Where(f"{proposed} = 3").compile(tree)([record]) == [0]


def test_names_with_several_parents_are_all_proposed() -> None:
    tree = F.FeaturesDict({"a": {"title": np.int64}, "b": {"title": np.int64}})
    with raises_with(BeamDatasetsError, mentions=["unknown feature 'title'. Did you mean 'a.title' or 'b.title'?"]):
        Where("title = 1").compile(tree)


@pytest.mark.parametrize(
    "expression, proposed",
    [
        ("x > 1", None),
        ("z > 1", None),
        ("pixels > 1", None),
        ("imgg > 1", None),
        ("y > 1", "'q.y'"),
        ("a-b > 1", None),
        ("order_id > 1", '"order-id"'),
        ("orderid > 1", '"order-id"'),
        ("deep > 1", 'q."b-c".deep'),
        ("order-id > 1", '"order-id"'),
        ("1 < order-id", '"order-id"'),
        ("order > 1", '"order"'),
    ],
)
def test_only_names_that_a_condition_can_use_are_proposed(expression: str, proposed: str | None) -> None:
    """None inside sequences, and none without a column; each as SQL needs it."""
    inner = {"y": np.int64, "b-c": {"deep": np.int64}, "pixels": F.Image(), "r": F.Sequence({"z": np.int64})}
    numbers = dict.fromkeys(["order", "order-id"], np.int64)
    tree = F.FeaturesDict({"s": F.Sequence({"x": np.int64, "a-b": np.int64}), "q": inner, "img": F.Image(), **numbers})
    with raises_with(BeamDatasetsError, mentions=[]) as caught:
        Where(expression).compile(tree)
    problem = str(caught.value)
    assert ("Did you mean" in problem or "in double quotes" in problem) == (proposed is not None)
    if proposed is not None:
        assert f"Did you mean {proposed}?" in problem or f"in an expression: {proposed}." in problem
        assert Where(f"{proposed.strip(chr(39))} > 3").compile(tree)([]) == []


def test_nested_names_are_proposed_at_any_depth() -> None:
    tree = F.FeaturesDict({"a": {"b": {"c": np.int64}, "d": np.int64}, "n": np.int64})
    with raises_with(BeamDatasetsError, mentions=["a/b/c", "a.b.c."]):
        Where("a/b/c > 1").compile(tree)
    with raises_with(BeamDatasetsError, mentions=["a/d is a division", "a.d."]):
        Where("a / d > 1").compile(F.FeaturesDict({**dict(tree), "d": F.Scalar(np.int64)}))
    with raises_with(BeamDatasetsError, mentions=["unknown feature 'a.b.c'. Without quotes", "the feature a.b.c."]):
        Where('"a.b.c" > 1').compile(tree)
    encode = F.compile_encoder(tree)
    records = [encode({"a": {"b": {"c": i}, "d": 2}, "n": 4}) for i in range(3)]
    assert Where("a.b.c = n/a.d").compile(tree)(records) == [2]
    odd = F.FeaturesDict({"a.b": np.int64, "c/d": np.int64, "#": np.int64})
    records = [F.compile_encoder(odd)({"a.b": i, "c/d": -i, "#": i}) for i in range(3)]
    assert Where('"a.b" > 0 and "c/d" > -2 and "#" = 1').compile(odd)(records) == [1]


@pytest.mark.parametrize(
    "expression,expected",
    [
        ("a.b/a.d >= 1", lambda b, d, n: b / 2 >= 1),
        ("A.B / a.D >= 1", lambda b, d, n: b / 2 >= 1),
        ("a.b / d > 0.5", lambda b, d, n: b / d > 0.5),
        ("(a.b)/d > 0.5", lambda b, d, n: b / d > 0.5),
        ("a.b/b > 0.5", lambda b, d, n: b / 3 > 0.5),
        ("a.b/d/a.d > 0.5", lambda b, d, n: b / d / 2 > 0.5),
        ("n/a.d/a.d > 1", lambda b, d, n: n / 2 / 2 > 1),
        ("n/(d/a.d) > 1", lambda b, d, n: n / (d / 2) > 1),
        ("e.f.g/a.d < 0.5", lambda b, d, n: b % 2 / 2 < 0.5),
        ("e.f.g/f.g < 1", lambda b, d, n: b % 2 / 5 < 1),
        ("b/d < 1", lambda b, d, n: 3 / d < 1),
        ("len(list_filter(s, lambda x: x / a.d > 1)) > 0", lambda b, d, n: n / 2 > 1),
    ],
)
def test_divisions_of_nested_features(expression: str, expected: Any) -> None:
    """Also if another feature has the name of the divisor, such as b beside a.b."""
    tree = F.FeaturesDict(
        {
            "a": {"b": np.int64, "d": np.int64},
            "e": {"f": {"g": np.int64}},
            "f": {"g": np.int64},
            "b": np.int64,
            "d": np.int64,
            "n": np.int64,
            "s": F.Sequence(np.int64),
        }
    )
    rows: list[Any] = [
        {"a": {"b": i, "d": 2}, "b": 3, "d": 4, "n": i, "s": [i], "e": {"f": {"g": i % 2}}, "f": {"g": 5}}
        for i in range(9)
    ]
    indices = [i for i, row in enumerate(rows) if expected(row["a"]["b"], row["d"], row["n"])]
    assert Where(expression).compile(tree)([F.compile_encoder(tree)(row) for row in rows]) == indices


def test_only_structs_in_divisions_are_proposed_with_dots() -> None:
    tree = F.FeaturesDict({"a": {"b": {"c": np.int64}, "d": np.int64}, "b": np.int64, "n": np.int64})
    for expression, words in [
        ("a.b/c > 1", r"unknown feature 'c'\. In an expression a\.b/c is a division; the feature is a\.b\.c\."),
        ("n/a/b > 1", r"In an expression a/b is a division; the feature is a\.b\."),
        ("a.d/x > 1", r"unknown feature 'x'\. (?!In an expression)"),
    ]:
        with pytest.raises(BeamDatasetsError, match=words):
            Where(expression).compile(tree)


@pytest.mark.parametrize(
    "expression",
    [
        "len(repeat('x', 3000000000 + n)) > 1",
        "list_sum(range(2000000000 + n)) > 1",
        "len(list_transform(range(10000000 + n), lambda x: repeat('y', 10000))) > 1",
    ],
)
def test_an_expression_that_takes_much_memory(records: list[bytes], expression: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(database, "MAX_BYTES", 256 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = Where(expression).compile(TREE)  # its trial has no value for n
    with raises_with(BeamDatasetsError, mentions=["0.25 GiB"]):
        chosen(records)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10


@pytest.mark.parametrize("num_kills", [1, 2])
def test_a_process_that_was_killed_is_replaced_once(num_kills: int, monkeypatch: Any) -> None:
    kills, start = iter(range(num_kills)), HelperProcess._start

    def start_and_kill(helper: HelperProcess) -> Any:
        process = start(helper)
        if next(kills, None) is not None:
            process.kill()
        return process

    monkeypatch.setattr(HelperProcess, "_start", start_and_kill)
    if num_kills == 1:
        assert database.LimitedDatabase().evaluate("select 42")[1].tolist() == [42]
    else:
        with pytest.raises(database.DatabaseError, match=r"was killed \(SIGKILL\)"):
            database.LimitedDatabase().evaluate("select 42")


@pytest.mark.parametrize(
    "expression,quoted",
    [
        ("product.Bestell-Nr > 3", 'product."Bestell-Nr"'),
        ("artikel.Bestell-Nr > 3", 'product."Bestell-Nr"'),
        ("goods.bestell-nr > 3", 'product."Bestell-Nr"'),
        ("Bestell-Nr > 3", 'product."Bestell-Nr"'),
        ("product.deep-er > 3", 'product.a."deep-er"'),
        ("a.deep-er > 3", 'product.a."deep-er"'),
        ("we-ird.x > 3", 'artikel."we-ird".x'),
        ("artikel.same-x > 3", 'artikel."same-x"'),
        ("product.same-x > 3", 'product."same-x"'),
    ],
)
def test_a_name_that_needs_quotes_is_proposed_with_its_parents(expression: str, quoted: str) -> None:
    """Also if the expression has other parents, or none."""
    tree = F.FeaturesDict(
        {
            "product": {"title": F.Text(), "Bestell-Nr": np.int64, "same-x": np.int64, "a": {"deep-er": np.int64}},
            "artikel": {"same-x": np.int64, "x": np.int64, "we-ird": {"x": np.int64}},
            "n": np.int64,
        }
    )
    with raises_with(BeamDatasetsError, mentions=[f"The feature is in double quotes in an expression: {quoted}."]):
        Where(expression).compile(tree)
    assert Where(f"{quoted} > 3").compile(tree)([]) == []


@pytest.mark.parametrize(
    "expression",
    [
        "levenshtein(repeat('a', 300000 + n), repeat('b', 300000 + n)) > 1",
        "length(regexp_replace(repeat('x', 3000000 + n), '(x*)y|x', 'z', 'g')) > 3",  # an hour without an interruption
        "jaro_similarity(repeat('x', 3000000 + n), repeat('y', 3000000)) > 1",
    ],
)
def test_an_expression_that_takes_long(records: list[bytes], monkeypatch: Any, expression: str) -> None:
    chosen = Where(expression).compile(TREE)
    monkeypatch.setattr(database, "MAX_SECONDS", 0.5)
    began = time.monotonic()
    with raises_with(BeamDatasetsError, mentions=["0.5 s"]):
        chosen(records)
    assert time.monotonic() - began < 10
    monkeypatch.undo()
    assert Where("n > 20").compile(TREE)(records) == [21, 22]


@pytest.mark.parametrize(
    "tree,row,expression,words",
    [
        ({"Size": np.int64, "size": np.int64}, {"Size": 1, "size": 9}, "size > 6", "'Size', 'size' differ only in"),
        ({"s": {"A": np.int64, "a": np.int64}}, {"s": {"A": 1, "a": 9}}, "s['a'] > 6", r"'s\.A', 's\.a' differ"),
    ],
)
def test_names_that_sql_cannot_tell_apart(tree: Any, row: Any, expression: str, words: str) -> None:
    features = F.FeaturesDict({**tree, "other": np.int64})
    with pytest.raises(BeamDatasetsError, match=words):
        Where(expression).compile(features)
    record = F.compile_encoder(features)({**row, "other": 7})
    assert Where("other > 6").compile(features)([record]) == [0]


def test_a_feature_with_the_name_of_the_table() -> None:
    features = F.FeaturesDict({"examples": {"n": np.int64, "examples_": np.int64}, "n": np.int64})
    records = [F.compile_encoder(features)({"examples": {"n": i, "examples_": i}, "n": 9 - i}) for i in range(10)]
    assert Where("examples.n > 6 and n >= 0").compile(features)(records) == [7, 8, 9]


def test_half_floats() -> None:
    features = F.FeaturesDict({"x": np.float16, "many": F.Sequence(np.float16)})
    records = [F.compile_encoder(features)({"x": i / 4, "many": [i / 4]}) for i in range(8)]
    assert Where("x > 1 and many[1] < 1.75").compile(features)(records) == [5, 6]


def test_records_whose_condition_takes_long_are_named(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    slow = "length(regexp_replace(repeat('x', 3000000 + n), '(x*)y|x', 'z', 'g')) > 3"
    job = plan_job(str(source), to="slow", data_dir=str(tmp_path), where=slow)
    monkeypatch.setattr(database, "MAX_SECONDS", 0.5)
    with raises_with(BeamDatasetsError, mentions=["record 0", " 22 ", "0.5 s"]):
        job.count_chosen()


HOUR = "length(regexp_replace(repeat('x', 3000000), '(x*)y|x', 'z', 'g')) > 3"
ASKING = f"""\
from beam_datasets import features
from beam_datasets.materializing.where import _DATABASE, Where
tree = features.FeaturesDict({{}})
Where("true").compile(tree)
print(_DATABASE._helper._process.pid, flush=True)
Where({HOUR!r}).compile(tree)
"""


def test_the_process_of_expressions_ends_with_the_one_that_asks() -> None:
    """Even if it is killed while an expression is evaluated."""
    with subprocess.Popen([sys.executable, "-c", ASKING], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        helper = int(asking.stdout.readline())
        time.sleep(1)
        os.kill(helper, 0)
        asking.kill()
    end = time.monotonic() + 10
    while Path(f"/proc/{helper}").exists() and "Z" not in Path(f"/proc/{helper}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.05)
