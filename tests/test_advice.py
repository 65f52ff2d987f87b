"""Errors about missing names list those that exist, and advice with the caller's values can be written."""

from __future__ import annotations

import ast
import collections
import functools
import itertools
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets import advice, foreign_names
from tests.reading.conftest import write_dataset


class Owls(bd.DatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"

    def _info(self) -> bd.DatasetInfo:
        return self.colour  # type: ignore[no-any-return]

    def _split_generators(self, manager: Any) -> Any:
        del manager
        return {}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Objects of a small dataset, by the names that the tests use."""
    directory = write_dataset(tmp_path_factory.mktemp("advice") / "d" / "1.0.0", {"train": [7, 5], "test": [4]})
    builder = bd.builder_from_directory(directory)
    ds = builder.as_dataset("train")
    return {"bd": bd, "builder": builder, "ds": ds, "info": builder.info, "iterator": iter(ds), "owls": Owls()}


LISTED = {
    "bd.Split": "ALL, TEST, TRAIN, VALIDATION",
    "bd.Split.TRAIN": "ALL, TEST, TRAIN, VALIDATION",
    "bd.features.ClassLabel(names=['a'])": "dtype names num_classes int2str",
    "bd.features.Sequence('int64')": "feature length dtype",
    "builder": "info manifest digest as_dataset",
    "ds": "map batch features",
    "info": "splits features description",
    "info.splits": "total_num_examples",
    "info.splits['train']": "name num_examples shard_lengths",
    "iterator": "get_state set_state",
    "owls": "info build VERSION builder_config",
}


@pytest.mark.parametrize("expression, expected", LISTED.items(), ids=list(LISTED))
def test_the_names_in_an_error_are_those_of_the_object(names: dict[str, Any], expression: str, expected: str) -> None:
    target = eval(expression, names)
    with pytest.raises(AttributeError) as caught:
        target.zzyzx  # noqa: B018
    listed = str(caught.value).partition("It has ")[2].removesuffix(".").split(", ")
    assert set(expected.replace(",", "").split()) <= set(listed)
    internal = {"ascents", "pool", "program", "codec", "use_downloads", "values_at"}
    assert not (internal | {"mro", "upper"}) & set(listed)
    assert set(listed) <= set(dir(target))
    assert not internal & set(dir(target))  # which completion shows


def test_an_attribute_error_in_a_property_is_not_about_the_property() -> None:
    owls = Owls()
    for _ in range(2):
        with pytest.raises(AttributeError, match="Owls has no attribute 'colour'"):
            owls.info  # noqa: B018
    assert not hasattr(owls, "colour")
    with pytest.raises(AttributeError, match="no attribute 'verzion'. Did you mean 'version'"):
        owls.verzion  # noqa: B018
    assert pickle.loads(pickle.dumps(owls)).version == "1.0.0"


VALUES = ("lambda x: x", "['id', 'x']", "'it\\'s \"x\"'", "-3", "None", "n + 1", "a if b else c", "{'a': 'b'}")


def codes(sentence: str) -> Iterator[str]:
    """Yields the Python code of a sentence."""
    for code in sentence.split("`")[1::2]:
        if not code.startswith(("beam-datasets ", "--", "NAME", "import ", "from ")):
            is_header = re.fullmatch("with .*|for example in [a-z]+", code)
            yield f"{code.removesuffix(':')}: pass" if is_header else code


@pytest.mark.parametrize("value", VALUES)
def test_code_with_the_values_of_any_call_is_python(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    sentences = set()
    for receiver, table in foreign_names.ATTRIBUTES.items():
        for key in table:
            name, row = next(advice._rows_of({key: ""}))
            keywords = dict.fromkeys((*row.parameters, "name", "x"), value)
            for call in (advice.WrittenCall("ds", (value,) * 3), advice.WrittenCall("ds", (), keywords)):
                monkeypatch.setattr(advice, "_written_call", lambda name, call=call: call)
                sentences.add(advice.instead_of(receiver, name))
    for arguments in foreign_names.ARGUMENTS.values():
        for row in {advice.Row((), (), text) for text in arguments.values()}:
            fields = dict.fromkeys(re.findall(r"\{(\w+)", row.text), value)
            sentences.add(advice._sentence(row, {**fields, "ds": "ds", "argument": "x"}))
    assert sum(value in sentence for sentence in sentences) > 100
    for sentence in sentences:
        for code in codes(sentence):
            ast.parse(code)


# A call of another library, and plain Python with the same result; `es` are the examples.
FOLLOWED = [
    ("ds.map_dict(id=lambda x: x + 1)", "[{**e, 'id': e['id'] + 1} for e in es]"),
    ("ds.map_dict(id=lambda x: x + 1, text=len)", "[{**e, 'id': e['id'] + 1, 'text': len(e['text'])} for e in es]"),
    ("ds.map_dict(id=str if es else int)", "[{**e, 'id': str(e['id'])} for e in es]"),
    ("ds.rename_keys(number='id')", "[{('number' if n == 'id' else n): e[n] for n in e} for e in es]"),
    ("ds.rename_keys(n='id', t='text')", "[{'n': e['id'], 'key': e['key'], 't': e['text']} for e in es]"),
    ("ds.rename_column('id', 'it\\'s')", "[{(\"it's\" if n == 'id' else n): e[n] for n in e} for e in es]"),
    ("ds.rename({'id': 'n'})", "[{('n' if n == 'id' else n): e[n] for n in e} for e in es]"),
    ("ds.sort('id')", "sorted(es, key=lambda e: e['id'])"),
    ("ds.sort(['text', 'id'])", "sorted(es, key=lambda e: (e['text'], e['id']))"),
    ("ds.sort(['id'])", "sorted(es, key=lambda e: e['id'])"),
    ("ds.sort(lambda e: -e['id'])", "sorted(es, key=lambda e: -e['id'])"),
    ("ds.unique(['id', 'text'])", "{(e['id'], e['text']) for e in es}"),
    ("ds.column(('id', 'text'))", "[(e['id'], e['text']) for e in es]"),
    ("ds.get_column('id')", "[e['id'] for e in es]"),
    ("ds.pipe(lambda d: len(d))", "len(es)"),
    ("ds.map_with_index(lambda i, e: i + e['id'])", "[i + e['id'] for i, e in enumerate(es)]"),
    ("ds.any(lambda e: e['id'] > 3)", "True"),
    ("ds.all(lambda e: e['id'] > 3)", "False"),
    ("ds.find_index(lambda e: e['id'] == 7)", "next(i for i in range(12) if ds[i]['id'] == 7)"),
    ("ds.take_while(lambda e: e['id'] != 7)", "itertools.takewhile(lambda e: e['id'] != 7, es)"),
    ("ds.fold(lambda a, e: a + e['id'])", "sum(e['id'] for e in es)"),
    ("ds.reduce(-5, lambda a, e: a + e['id'])", "sum(e['id'] for e in es) - 5"),
    ("ds.scan(0, lambda a, e: a + e['id'])", "itertools.accumulate((e['id'] for e in es), initial=0)"),
    ("ds.tail(-3)", "[ds[i] for i in range(3, 12)]"),
    ("ds.tail(3)", "[ds[i] for i in range(9, 12)]"),
    ("ds.pad_batch(5)", "[5, 5, 2]"),
    ("ds.pad_and_batch(batch_size=6)", "[6, 6]"),
    ("ds.batched(7)", "[7, 5]"),
    ("ds.filter(lambda e, i: i > 8, with_indices=True)", "es[9:]"),
    ("ds.filter(lambda e, k: e['id'] < k, fn_kwargs={'k': 3})", "[e for e in es if e['id'] < 3]"),
    ("ds.map(lambda e, k: e['id'] + k, fn_kwargs={'k': -3})", "[e['id'] - 3 for e in es]"),
    ("ds.map(lambda e: e['id'], num_parallel_calls=-1)", "[e['id'] for e in es]"),
    ("ds.batch(5, partial=False)", "[5, 5]"),
    ("ds.batch(5, collate_fn=lambda b: len(b['id']))", "[5, 5, 2]"),
    ("ds.map_and_batch(lambda e: {'id': e['id']}, 8)", "[8, 4]"),
    ("ds.enumerate(-2)", "enumerate(es, -2)"),
    ("ds.union([ds])", "None"),
    ("pairs.map_tuple(lambda x: -x, lambda y: len(y))", "[(-e['id'], len(e['text'])) for e in es]"),
]


@pytest.mark.parametrize("guess, plain", FOLLOWED, ids=[guess for guess, _ in FOLLOWED])
def test_code_with_the_values_of_the_call_does_the_same(
    names: dict[str, Any], tmp_path: Any, guess: str, plain: str
) -> None:
    ds = names["ds"]
    scope = {**names, "es": list(ds), "functools": functools, "itertools": itertools, "other": ds.take(3)}
    scope |= {"pairs": ds.map(lambda e: (e["id"], e["text"]))}
    file = tmp_path / "guess.py"
    file.write_text(guess + "\n", encoding="utf-8")
    with pytest.raises((AttributeError, TypeError)) as caught:
        exec(compile(guess, str(file), "exec"), {**scope, "__name__": "__main__"})
    code = next(code for code in codes(str(caught.value)) if "..." not in code)
    result, expected = eval(code, {**scope, "__name__": "__main__"}), eval(plain, scope)
    if "batch" in guess and isinstance(expected, list):
        result = [batch if isinstance(batch, int) else len(batch["id"]) for batch in result]
    if expected is not None:
        iterable = isinstance(expected, collections.abc.Iterable) and not isinstance(expected, set)
        assert (list(result) if iterable else result) == (list(expected) if iterable else expected)
