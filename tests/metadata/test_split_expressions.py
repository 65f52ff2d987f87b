import json
import pickle
import re
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import SplitError
from beam_datasets.metadata.names import FilenameTemplate
from beam_datasets.metadata.split_expressions import (
    EvenSplit,
    ReadInstruction,
    SplitAdd,
    SplitAll,
    even_splits,
    map_splits,
    split_for_jax_process,
)
from beam_datasets.metadata.splits import SplitDict, SplitInfo
from tests.cases import repeated
from tests.facts import raises_with

DATA = Path(__file__).parents[1] / "data/vectors"
VECTORS = json.loads((DATA / "splits.json").read_text("utf-8"))
EVEN = json.loads((DATA / "even_splits.json").read_text("utf-8"))


def make_splits(lengths, **kwargs):
    infos = [
        SplitInfo(name, list(L), 1000, FilenameTemplate("ds", name), "/data/ds/1.0.0") for name, L in lengths.items()
    ]
    return SplitDict(infos, dataset_name="ds:1.0.0", **kwargs)


LAYOUTS = {name: make_splits(lengths) for name, lengths in VECTORS["layouts"].items()}


def mixes_units(expression):
    for begin, end in re.findall(r"\[([^:\]]+):([^:\]]+)\]", expression):
        units = [re.sub(r"[-\d_.]", "", item) for item in (begin, end)]
        if units[0] != units[1]:
            return True
    return False


def ends_at_shard_zero(expression):
    return re.search(r":-?0shard\]", expression) is not None


def normal(absolute):
    """Puts ranges into one form: a begin of 0 may be written None."""
    return [[name, begin or None, end] for name, begin, end in absolute]


def same(found, expected):
    """Whether a list is the expected one; a long one is recorded by its length, its head and its tail."""
    if isinstance(expected, dict):
        shown = expected["head"], expected["tail"]
        return (len(found), found[:3], found[-3:]) == (expected["count"], *shown)
    return found == expected


def check(info, expected):
    assert type(info).__name__ == expected["kind"]
    assert [info.num_examples, info.num_shards] == [expected["num_examples"], expected["num_shards"]]
    assert same(info.shard_lengths, expected["shard_lengths"])
    assert same(info.filenames, expected["filenames"])
    assert info.filepaths == [f"/data/ds/1.0.0/{name}" for name in info.filenames]
    runs = [[f.filename, f.skip, f.take, f.examples_in_shard, f.takes_all] for f in info.file_instructions]
    assert same(runs, expected["file_instructions"])
    # TFDS does not know the bytes of a slice and says 0; here it is None
    assert info.num_bytes == (expected["num_bytes"] if isinstance(info, SplitInfo) else None)


def absolute(split, splits):
    return [[part.splitname, part.from_, part.to] for part in split.to_absolute(splits)]


def kind_of(case):
    expression, expected = case["expr"], case["result"]
    if "error" in expected or expression.endswith("\n"):  # which TFDS passes over
        return "error"
    if mixes_units(expression):
        return "mixed units"
    if expected["reversed_slice"]:
        return "reversed"
    return "ends at shard 0" if ends_at_shard_zero(expression) else "agreed"


CASES = [(kind_of(case), case) for case in VECTORS["cases"]]


def test_expressions_agree_with_tfds():
    agreed = [case for kind, case in CASES if kind == "agreed"]
    assert len(agreed) > 790
    for case in agreed:
        splits, expression, expected = LAYOUTS[case["layout"]], case["expr"], case["result"]
        assert absolute(ReadInstruction.from_spec(expression), splits) == normal(expected["absolute"]), expression
        check(splits[expression], expected)


@pytest.mark.parametrize("kind, at_least", [("error", 500), ("mixed units", 60), ("reversed", 100)])
def test_expressions_are_refused(kind, at_least):
    refused = [case for its_kind, case in CASES if its_kind == kind]
    assert len(refused) >= at_least
    for case in refused:
        with pytest.raises(SplitError):
            LAYOUTS[case["layout"]][case["expr"]]


@pytest.mark.parametrize("case", VECTORS["read_instruction"], ids=lambda case: f"{case['layout']}-{case['kwargs']}")
def test_read_instructions_agree_with_tfds(case):
    splits, expected = LAYOUTS[case["layout"]], case["result"]
    fractional = any(
        isinstance(value, float) and value % 1 for part in expected.get("absolute", []) for value in part[1:]
    )
    if "error" in expected or fractional:
        with pytest.raises(SplitError):
            splits[ReadInstruction(case["split"], **case["kwargs"])]
        return
    instruction = ReadInstruction(case["split"], **case["kwargs"])
    assert repr(instruction) == case["repr"]
    assert absolute(instruction, splits) == normal(expected["absolute"])
    check(splits[instruction], expected)


OTHER_REPRS = {
    "train[-1shard]": "ReadInstruction('train[-1shard:]')",  # 0shard is not an end here
    "train[:1234567]": "ReadInstruction('train[:1234567]')",  # numbers are not rounded
    "train[:33.3333333%]": "ReadInstruction('train[:33.3333333%]', rounding='closest')",
    "all": "SplitAll()",
}


@pytest.mark.parametrize("case", VECTORS["from_spec_repr"], ids=lambda case: case["spec"])
def test_repr(case):
    if "result" in case:
        with pytest.raises(SplitError):
            ReadInstruction.from_spec(case["spec"])
        return
    instruction = ReadInstruction.from_spec(case["spec"])
    assert repr(instruction) == OTHER_REPRS.get(case["spec"], case["repr"])
    assert type(instruction).__name__ == case["type"].lstrip("_")


@pytest.mark.parametrize("case", VECTORS["addition"], ids=lambda case: f"{case['left']}+{case['right']}")
def test_addition(case):
    names = {"ReadInstruction": ReadInstruction.from_spec, "_EvenSplit": EvenSplit}
    left, right = eval(case["left"], names), eval(case["right"], names)
    if "error" in case["result"]:
        with pytest.raises(TypeError, match="cannot be added"):
            left + right
        return
    both = left + right
    assert repr(both) == case["sum"].replace("_Even", "Even")
    assert absolute(both, LAYOUTS["uneven"]) == normal(case["result"]["absolute"])
    check(LAYOUTS["uneven"][both], case["result"])


def split_error_facts(split, layout):
    """Returns the facts of the error about a split that a layout does not have."""
    if split == "nope":
        return {"expected": ", ".join(repr(name) for name in sorted(layout)), "got": "'nope'"}
    if split == "train[5:2]":
        return {"split": split, "expected": ["not after the end"], "got": ["start 5 and end 2"]}
    return {"split": split, "expected": ["NAME[from:to]"], "got": repr(split)}


def test_even_splits_agree_with_tfds():
    layouts = {name: make_splits(lengths) for name, lengths in EVEN["layouts"].items()}
    for case in EVEN["cases"]:
        parts = even_splits(case["split"], case["n"], drop_remainder=case["drop_remainder"])
        if "error" in (case["absolute"] or [{}])[0]:
            with raises_with(SplitError, **split_error_facts(case["split"], EVEN["layouts"][case["layout"]])):
                parts[0].to_absolute(layouts[case["layout"]])
            continue
        found = [absolute(part, layouts[case["layout"]]) for part in parts]
        assert found == [normal(part) for part in case["absolute"]], case


def test_even_splits_nest():
    for case in EVEN["nested"]:
        parts = even_splits(even_splits("train", case["outer"])[case["i"]], case["inner"])
        assert [absolute(part, LAYOUTS["uneven"]) for part in parts] == case["absolute"]


def test_arguments_of_even_splits():
    assert even_splits("train", 2, drop_remainder=1) == even_splits("train", 2, drop_remainder=True)
    with pytest.raises(TypeError, match="drop_remainder must be True or False, not 'no'"):
        split_for_jax_process("train", process_index=0, process_count=2, drop_remainder="no")
    assert even_splits("train", 0) == even_splits("train", -1) == []
    with pytest.raises(TypeError, match="n must be an int, not '2'"):
        even_splits("train", "2")


@pytest.mark.parametrize("case", EVEN["split_for_jax_process"], ids=str)
def test_split_for_jax_process(case):
    index, count = case["process_index"], case["process_count"]
    if "result" in case:
        with pytest.raises(IndexError):
            split_for_jax_process("train", process_index=index, process_count=count)
    else:
        part = split_for_jax_process("train", process_index=index, process_count=count)
        assert absolute(part, LAYOUTS["uneven"]) == case["absolute"]


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 9), st.booleans())
def test_even_splits_partition(lengths, n, drop_remainder):
    splits = make_splits({"train": lengths})
    parts = [splits[part] for part in even_splits("train", n, drop_remainder=drop_remainder)]
    runs = [
        (run.filename, i)
        for part in parts
        for run in part.file_instructions
        for i in range(run.skip, run.skip + run.take)
    ]
    everything = [(name, i) for name, length in zip(splits["train"].shard_names, lengths) for i in range(length)]
    sizes = [part.num_examples for part in parts]
    assert runs == everything[: sum(sizes)]
    assert max(sizes) - min(sizes) <= (0 if drop_remainder else 1)
    assert len(everything) - len(runs) < (n if drop_remainder else 1)


INDICES = st.none() | st.integers(-12, 12)


NAMES = st.sampled_from(["train", "a-b", "x_1"])
PERCENT = st.floats(-100, 100).filter(lambda x: x == 0 or abs(x) > 1e-3)
INSTRUCTIONS = st.one_of(
    st.builds(ReadInstruction, NAMES, INDICES, INDICES),
    st.builds(ReadInstruction, NAMES, st.none() | PERCENT, st.none() | PERCENT, st.just("%")),
    st.builds(ReadInstruction, NAMES, INDICES, INDICES, st.just("shard")),
)


@given(st.lists(INSTRUCTIONS, min_size=1, max_size=3))
def test_reading_what_is_written(terms):
    split = terms[0] if len(terms) == 1 else SplitAdd(tuple(terms))
    again = ReadInstruction.from_spec(str(split))
    assert str(again) == str(split)
    assert again.to_absolute(ANY) == split.to_absolute(ANY) if fits(split) else True


ANY = make_splits({name: [40, 0, 60, 1] for name in ("train", "a-b", "x_1")})


def fits(split):
    try:
        split.to_absolute(ANY)
    except SplitError:
        return False
    return True


@pytest.mark.parametrize(
    "expression, wanted",
    [
        ("train[10%:20]", {"got": ["percentage, '10%'", "index, '20'"], "advice": ["[10%:20%]'", "[10:20]'"]}),
        ("test+train[1shard:50%]", {"got": ["'1shard'", "'50%'"], "advice": ["[1shard:50shard]", "[1%:50%]"]}),
        ("train[9:3]", {"got": ["start 9", "end 3"]}),
        ("train[:1000]", {"expected": ["31 examples of train"], "got": ["1000"]}),
        ("train[3]", {"expected": ["a range"], "got": ["'[3]'"], "advice": ["'train[10:20]'"]}),
        ("train[:x]", {"expected": ["NAME"], "got": ["'x'"]}),
        ("train[:1.5]", {"expected": ["an integer"], "got": ["'1.5'"], "advice": ["'10%'"]}),
        ("train[:1.2.3%]", {"expected": ["a number"], "got": ["'1.2.3%'"]}),
        ("train[:101%]", {"expected": ["[-100%, 100%]"], "got": ["101%"]}),
        ("test+train[-100.5%:]", {"expected": ["[-100%, 100%]"], "got": ["-100.5%"]}),
        ("train[:110%] + test[:1]", {"expected": ["[-100%, 100%]"], "got": ["110%"]}),
        (f"train[{2**62}shard]", {"expected": "a shard", "got": "a number beyond 2**62"}),
        ("test+ train[", {"expected": ["NAME"], "got": ["'train['"]}),
        ("all[:10]", {"advice": ["'train[:10]+test[:10]'"]}),
    ],
)  # fmt: skip
def test_errors_show_the_offending_part(expression, wanted):
    with raises_with(SplitError, **{"split": expression, **wanted}):
        LAYOUTS["uneven"][expression]


def test_an_unknown_split():
    with raises_with(SplitError, got="'trian'", expected="'test', 'train', 'validation'", advice=["'train'"]) as caught:
        LAYOUTS["uneven"]["trian"]
    assert "'trian' in ds:1.0.0" in str(caught.value)


def test_what_shard_zero_ends():
    splits = LAYOUTS["uneven"]
    assert splits["train[:0shard]"].num_examples == splits["train[0shard:0shard]"].num_examples == 0
    with raises_with(SplitError, split="train[-1shard:0shard]", got=["start 30", "end 0"]):
        splits["train[-1shard:0shard]"]
    assert splits["train[-1shard]"].shard_lengths == [1]


def test_an_empty_selection_is_fine():
    info = LAYOUTS["uneven"]["train[5:5]"]
    assert (info.num_examples, info.num_shards, info.filenames) == (0, 0, [])


def test_no_splits():
    with raises_with(SplitError, got="'train'", expected="none"):
        SplitDict()["train"]


def test_wrong_types():
    with pytest.raises(TypeError, match="5 of type int"):
        ReadInstruction.from_spec(5)
    with raises_with(SplitError, split="train", expected=["a shard", "an integer"], got="1.5"):
        ReadInstruction("train", 1.5, unit="shard")
    with raises_with(SplitError, split="train[1%:2%]", expected=["100 examples"], got="31"):
        LAYOUTS["uneven"][ReadInstruction("train", 1, 2, "%", "pct1_dropremainder")]
    with raises_with(SplitError, split="train[:12.3%]", expected=["whole number"], got=["24.6", "12.3% of 200"]):
        make_splits({"train": [200]})[ReadInstruction("train", None, 12.3, "%", "pct1_dropremainder")]


def test_nests():
    assert map_splits(str, [SplitAll(), ("a", {"b": "c"})]) == ["all", ("a", {"b": "c"})]


def test_expressions_are_values():
    for spec in ("train", "train[1%:2%]+all", "all"):
        split = ReadInstruction.from_spec(spec)
        assert split == ReadInstruction.from_spec(split) == pickle.loads(pickle.dumps(split))
        assert hash(split) == hash(ReadInstruction.from_spec(spec))
    assert hash(even_splits("train", 2)[0]) == hash(EvenSplit("train", 0, 2))


def fuzzed_expression(random):
    """Returns a text by the grammar, with units and numbers of all sizes, and half of the time damaged."""

    def number():
        digits = random.choice([1, 1, 1, 2, 3, 19, 20, 25, 310, 400, 4300, 4301]) if random.random() < 0.2 else 1
        text = (str(random.randrange(10**8, 10**9)) * (digits // 9 + 1))[:digits]
        return random.choice(["", "", "-", "+"]) + text + random.choice(["", "", "", ".5", "." + "9" * 30, "_0", "."])

    def term():
        name = random.choice(["train", "train", "test", "all", "empty", "x", "träin", ""])
        if random.random() < 0.2:
            return name
        begin, end = (
            number() + random.choice(["", "%", "shard", "shards"]) if random.random() < 0.7 else "" for _ in "be"
        )
        return f"{name}[{begin}{random.choice(['', ':', ':', ':', '::'])}{end}]"

    blanks = ["", " ", "\t", "\n", " " * 20]
    text = "".join(term() + random.choice(blanks) + "+" + random.choice(blanks) for _ in range(random.randrange(3)))
    text += term()
    if random.random() < 0.5:
        place = random.randrange(len(text) + 1)
        length = random.randrange(3)
        text = (
            text[:place]
            + random.choice(["", "[", "]", ":", "%", "e9", "∞", "nan", "\0", "\ud800", "٣"])
            + text[place + length :]
        )
    return text


def check_fuzzed_expressions(seed, count):
    random = Random(seed)
    splits = make_splits({"train": [3, 4, 2**59], "test": [1] * 150, "empty": []})
    read = longest = 0
    for _ in range(count):
        text = fuzzed_expression(random)
        try:
            split = ReadInstruction.from_spec(text)
            assert ReadInstruction.from_spec(str(split)) == split
            assert splits[split].num_examples >= 0
            read += 1
        except SplitError as error:
            longest = max(longest, len(str(error)))
        except Exception as error:
            raise AssertionError(f"{text!r}: {type(error).__name__}") from error
    assert count / 50 < read < count
    assert longest < 2500  # expressions are cut, too


def test_fuzzed_expressions_raise_split_errors_alone():
    """Whatever text stands where a split expression is expected, it is read or refused with a SplitError."""
    check_fuzzed_expressions(1, 4000)
    long = ReadInstruction.from_spec("train" + " " * 10**6 + "+" + " " * 10**6 + "test")  # in linear time
    assert str(long) == "train+test"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_many_fuzzed_expressions_raise_split_errors_alone(seed):
    """Texts by the grammar, and damaged."""
    check_fuzzed_expressions(seed, repeated(60_000))


@pytest.mark.parametrize("selector", ["", "[1%:2]", "[1:y]", "[5]"])
def test_an_error_does_not_repeat_a_long_name(selector):
    with pytest.raises(SplitError) as caught:
        make_splits({"train": [1]})["x" * 100_000 + selector]
    assert len(str(caught.value)) < 3500


def test_any_border_of_a_slice_raises_split_errors_alone():
    """Of objects, too."""
    inf, nan = float("inf"), float("nan")
    values = [inf, -inf, nan, 10**400, -(10**5000), 1e300, 99.5, "5", b"5", [], {}, 1j, object(), None, True]
    for value in values:
        for unit in ("abs", "%", "shard"):
            for args in ((value, None), (None, value)):
                with suppress(SplitError):
                    LAYOUTS["uneven"][ReadInstruction("train", *args, unit)]
