"""Statistics of datasets, against NumPy on all their values."""

import io
import json
import re
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets import errors
from beam_datasets.cli.stats import lines
from beam_datasets.features import RaggedArray
from beam_datasets.features.trees import display_names, leaves_with_features
from beam_datasets.metadata.shards import FileInstruction
from beam_datasets.statistics import Statistics, compute
from beam_datasets.statistics.page import content, page
from beam_datasets.statistics.report import conclude, json_text, read_saved, save
from beam_datasets.statistics.summary import ShardRange, divide_range, gather, image_size, merge, prepare_request
from beam_datasets.statistics.texts import number_text
from tests.exporting.conftest import DATA, MANY, dataset_of
from tests.facts import raises_with

f = bd.features
TREE = {
    "n": np.int64,
    "x": np.float32,
    "wide": f.Tensor(shape=(), dtype=np.float64, encoding="bytes"),
    "big": np.uint64,
    "flag": np.bool_,
    "text": f.Text(),
    "maybe": f.Scalar(np.int32, optional=True),
    "words": f.Text(optional=True),
    "pair": f.Tensor(shape=(2,), dtype=np.float64, optional=True, allow_rounding=True),
    "tags": f.Tensor(shape=(2, 2), dtype=np.str_, optional=True),
    "tokens": f.Sequence(np.int32),
    "rows": f.Sequence(f.Sequence(np.int64)),
    "label": f.ClassLabel(names=["a", "b", "never"]),
    "at": {"point": f.Tensor(shape=(2,), dtype=np.float32), "names": f.Sequence(f.Text())},
    "constant": np.int8,
    "image": f.Image(shape=(None, None, 1)),
}
NUMBERS = ("n", "x", "wide", "big", "flag", "maybe", "pair", "tokens", "rows", "at.point", "constant")


def examples_of(count):
    random = np.random.default_rng(count)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    return [
        {
            "n": int(random.integers(-(2**63), 2**63)),
            "x": np.float32(special[i % 50] if i % 50 < 5 else random.normal()),
            "wide": float(1e9 + random.normal() * 1e-6),
            "big": int(random.integers(0, 2**64, dtype=np.uint64)),
            "flag": bool(i % 3),
            "text": "" if i % 10 == 0 else f"ä{random.integers(0, 30)}",
            "maybe": None if i % 4 == 0 else i % 7,
            "pair": None if i % 3 == 0 else [i / 7, -i],
            "tags": None if i % 4 == 0 else [[f"t{i % 5}", "t"], ["", "u"]],
            "words": None if i % 5 else "w" * (i % 100),
            "tokens": random.integers(0, 9, random.integers(0, 6)).astype(np.int32),
            "rows": [[1] * int(n) for n in random.integers(0, 3, i % 3)],
            "label": -1 if i % 40 == 39 else i % 2,
            "at": {"point": random.normal(size=2).astype(np.float32), "names": ["n"] * (i % 3)},
            "constant": 7,
            "image": np.zeros((1 + i % 3, 4, 1), np.uint8),
        }
        for i in range(count)
    ]


@pytest.fixture(scope="module", params=[1, 700])
def made(request, tmp_path_factory):
    examples = examples_of(request.param)
    return dataset_of(tmp_path_factory.mktemp("made"), TREE, examples, 1 if request.param == 1 else 3), examples


def column(examples, path):
    values = []
    for example in examples:
        for key in path.split("."):
            example = example[key]
        values.append(example)
    return values


def flat(values, dtype):
    """Returns all numbers of examples, one by one."""
    found = []
    for value in values:
        if isinstance(value, RaggedArray):
            value = value.flat_values
        if value is not None:
            found += np.asarray(value).reshape(-1).tolist()
    return np.array(found, dtype)


def decoded(directory):
    published = bd.builder_from_directory(directory)
    config = bd.ReadConfig(interleave_cycle_length=1)
    return list(published.as_dataset("train", read_config=config))


@pytest.mark.parametrize("path", NUMBERS)
def test_numbers(made, path):
    directory, _ = made
    found = compute(directory, features=[path]).slices["train"]["features"][path]
    values = column(decoded(directory), path)
    kind = (
        np.uint64 if path in ("big", "flag") else np.float64 if path in ("x", "wide", "pair", "at.point") else np.int64
    )
    numbers = flat(values, kind)
    finite = numbers[np.isfinite(numbers)]
    assert found["values"] == len(numbers)
    assert found["missing"] == sum(value is None for value in values)
    assert found["zeros"] == int((finite == 0).sum())
    if kind is np.float64:
        counts = int(np.isnan(numbers).sum()), int(np.isposinf(numbers).sum()), int(np.isneginf(numbers).sum())
        assert tuple(found[key] for key in ("nan", "inf", "-inf")) == counts
    if not len(finite):
        assert "mean" not in found
        return
    assert (found["min"], found["max"]) == (finite.min().item(), finite.max().item())
    whole = finite.astype(object)
    mean = sum(whole) / len(whole) if kind is not np.float64 else finite.mean()
    assert found["mean"] == pytest.approx(mean, rel=1e-12, abs=1e-12)
    deviation = float(np.std((whole - finite[0].item()).astype(np.float64)))
    assert found["std"] == pytest.approx(deviation, rel=1e-9)
    for share, value in found["quantiles"].items():
        exact = np.quantile(finite, float(share), method="inverted_cdf").item()
        assert abs(value - exact) <= found["quantile_errors"][share]
    assert (found["distinct"], found["distinct_exact"]) == (len(set(finite.tolist())), True)
    common = Counter(finite.tolist()).most_common()
    assert [count for _, count in found["top"]] == [count for _, count in common if count > 1][:20]
    assert all(Counter(finite.tolist())[value] == count for value, count in found["top"])


def test_texts_labels_sequences_and_images(made):
    directory, examples = made
    found = compute(directory).slices["train"]["features"]
    assert set(found) == {*NUMBERS, "text", "words", "tags", "label", "at.names", "image"}
    texts = [example["text"].encode() for example in examples]
    assert found["text"]["distinct"] == len(set(texts))
    assert found["text"]["empty"] == texts.count(b"")
    assert found["text"]["bytes"]["mean"] == np.mean([len(text) for text in texts])
    assert all(texts.count(value.encode()) == count for value, count in found["text"]["top"])
    assert found["words"]["missing"] == sum(example["words"] is None for example in examples)
    tags = flat(column(decoded(directory), "tags"), object).tolist()
    assert (found["tags"]["values"], found["tags"]["distinct"]) == (len(tags), len(set(tags)))
    assert found["tags"]["missing"] == sum(example["tags"] is None for example in examples)
    assert found["tags"]["empty"] == tags.count(b"")
    labels = Counter(example["label"] for example in examples)
    assert {(n, count) for n, _, count in found["label"]["labels"] if count} == set(labels.items())
    assert [2, "never", 0] in found["label"]["labels"]
    for path in ("tokens", "rows", "at.names"):
        lengths = [len(value) for value in column(examples, path)]
        assert (found[path]["items"]["min"], found[path]["items"]["max"]) == (min(lengths), max(lengths))
        assert found[path]["items"]["mean"] == pytest.approx(np.mean(lengths))
    heights = [example["image"].shape[0] for example in examples]
    assert (found["image"]["height"]["max"], found["image"]["width"]["min"]) == (max(heights), 4)
    assert (found["image"]["channels"]["max"], found["image"]["unreadable"]) == (1, 0)
    assert found["image"]["distinct"] == len(set(heights))


def test_grouping_changes_no_byte(made):
    directory, _ = made
    expected = json_text(compute(directory))
    request = prepare_request(directory)
    for seed in range(4):
        random = np.random.default_rng(seed)
        parts = [part for run in request.runs() for part in pieces(run, random)]
        gathered = [gather(parts[i], request) for i in random.permutation(len(parts))]
        while len(gathered) > 1:
            gathered.append(merge([gathered.pop(0), gathered.pop(0)]))
        assert json_text(conclude(gathered[0], request)) == expected


def test_ranges_that_the_engine_lost_or_doubled(made):
    directory, examples = made
    request = prepare_request(directory)
    runs = list(request.runs())
    for wrong in ([], runs[1:], runs[:-1], [*runs, runs[0]]):
        gathered = {}
        for run in wrong:
            gathered = merge([gathered, gather(run, request)])
        read = sum(run.run.take for run in wrong)
        with raises_with(errors.LostExamplesError, split="train", expected=f"{len(examples)} examples", got=f"{read}"):
            conclude(gathered, request)


def pieces(whole, random):
    run = whole.run
    cuts = sorted({0, run.take, *random.integers(0, run.take + 1, 4).tolist()})
    return [
        ShardRange(
            whole.number,
            whole.first + start,
            FileInstruction(run.filename, run.skip + start, stop - start, run.examples_in_shard),
        )
        for start, stop in pairwise(cuts)
    ]


def test_long_texts_are_cut_off(tmp_path):
    texts = ["a" * 79, "b" * 80, "c" * 81, "é" * 40, "é" * 41, "x" + "é" * 40]
    directory = dataset_of(tmp_path, {"text": f.Text()}, [{"text": text} for text in texts * 2])
    top = compute(directory).slices["train"]["features"]["text"]["top"]
    cut_off = {"c" * 80 + "...", "é" * 40 + "...", "x" + "é" * 39 + "..."}
    assert {text for text, _ in top} == {"a" * 79, "b" * 80, "é" * 40} | cut_off


@pytest.mark.parametrize(
    ("tree", "example"),
    [
        ({"a": {"c": np.int64}, "a/b": np.int64}, {"a": {"c": 1}, "a/b": 2}),
        ({"a": f.Sequence({"c": np.int64}), "a/b": f.Text()}, {"a": {"c": [1, 2]}, "a/b": "x"}),
        ({"a/b": {"c": np.int64}, "a": {"b/d": f.Text(), "b": {"e": f.Text()}}},
         {"a/b": {"c": 1}, "a": {"b/d": "x", "b": {"e": "y"}}}),
    ],
)  # fmt: skip
def test_names_with_slashes(tmp_path, tree, example):
    """A name with a slash may begin like the path of another feature; it is kept, and others have dots."""
    directory = dataset_of(tmp_path, tree, [example] * 9)
    found = compute(directory).slices["train"]["features"]
    names = display_names(f.FeaturesDict(tree))
    expected = {names[path]: value for path, value, _ in leaves_with_features(example, None)}
    assert {"a.c", "a/b"} <= set(expected) or {"a/b/c", "a/b/d", "a.b.e"} == set(expected)
    for path, value in expected.items():
        assert [top[0] for top in found[path]["top"]] == (value if isinstance(value, list) else [value])
        assert found[path]["top"][0][1] == 9
    below = {path for path in expected if path not in ("a/b", "a/b/c")}
    assert set(compute(directory, features=["a"]).slices["train"]["features"]) == below


def test_sequences_of_dicts_in_sequences(tmp_path):
    inner = f.Sequence({"b": f.Text(), "deep": {"c": f.Sequence(np.int64)}})
    tree = {"a": f.Sequence({"x": np.int64, "in": inner}), "d": f.Dataset({"in": f.Dataset({"b": f.Text()})})}
    box = {"b": "yes", "deep": {"c": [1, 2]}}
    examples = [{"a": [{"x": 3, "in": [box] * (i % 3)}] * i, "d": [{"in": [{"b": "no"}] * i}] * 2} for i in range(1, 5)]
    found = compute(dataset_of(tmp_path, tree, examples)).slices["train"]["features"]
    boxes = sum(i * (i % 3) for i in range(1, 5))
    counts = {"a.x": 10, "a.in.b": boxes, "a.in.deep.c": 2 * boxes, "d.in.b": 20}
    assert {path: feature["values"] for path, feature in found.items()} == counts
    assert found["a.in.deep.c"]["top"] == [[1, boxes], [2, boxes]]
    assert found["a.in.b"]["type"] == "text[][]"


def test_a_slice_of_empty_sequences_has_a_page(tmp_path):
    examples = [{"n": [1.5] * (i % 3)} for i in range(9)]
    found = compute(dataset_of(tmp_path, {"n": f.Sequence(np.float32)}, examples), ["train", "train[:1]"])
    assert found.slices["train[:1]"]["features"]["n"]["values"] == 0
    assert '<th scope="row">train[:1]</th>' in page(found)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_large_integers_are_whole(tmp_path, dtype):
    """Integers of 10**15 and more are shown with all of their digits, and have bars of their own."""
    random = np.random.default_rng(5)
    numbers = [int(n) for n in 2**60 + random.integers(0, 900, 500)]
    directory = dataset_of(tmp_path, {"n": dtype}, [{"n": n} for n in numbers])
    found = compute(directory)
    n = found.slices["train"]["features"]["n"]
    common = Counter(numbers).most_common(1)[0][1]
    assert n["top"][0][1] == common
    assert all(numbers.count(value) == count for value, count in n["top"])
    edges = n["histogram"]["edges"]
    assert (edges[0], edges[-1] > max(numbers), len(set(edges))) == (min(numbers), True, len(edges))
    counts = [sum(low <= number < high for number in numbers) for low, high in pairwise(edges)]
    assert n["histogram"]["counts"] == counts
    html, text = page(found), "\n".join(lines(found))
    assert "e+18" not in (html + text).replace(number_text(n["mean"]), "")
    for value, _ in n["top"][:3]:
        assert f"{value:,} " in text
        assert f"{value:,}<" in html
    assert f"{min(numbers):,}" in text
    assert f"<title>{edges[0]:,} to {edges[1] - 1:,}: {counts[0]:,}</title>" in html


def test_slices_of_large_integers_are_compared_exactly(tmp_path):
    """Integers that one float stands for are in bars of their own, and differ."""
    directory = dataset_of(tmp_path, {"n": np.int64}, [{"n": 2**62 + i // 50} for i in range(200)])
    html = page(compute(directory, ["train[:50]", "train[50:]"]))
    assert "largest difference of cumulative shares 100.0%" in html
    bars = re.findall(r"<title>([\d,]+): ([\d.]+%) of (.*?)</title>", html)
    expected = [("100.00%", "train[:50]"), *[("33.33%", "train[50:]")] * 3]
    assert bars == [(f"{2**62 + i:,}", *share) for i, share in enumerate(expected)]


def test_an_empty_slice_has_no_shares():
    """Of an empty slice, no label makes up 100%."""
    found = compute(DATA / "spec_multi" / "small" / "1.0.0", ["train[:0]"])
    labels = compute(MANY, ["train[:0]"])
    for statistics in (found, labels):
        assert "%" not in re.sub(
            r"<style>.*?</style>|<script>.*?</script>|train\[.*?\]|error 1.6%", "", page(statistics), flags=re.DOTALL
        )
        assert "%" not in "\n".join(lines(statistics))
    assert '<td class="number">0</td><td class="number">-</td>' in page(labels)


@pytest.mark.parametrize(
    ("format", "mode", "channels"),
    [
        *(("PNG", mode, n) for mode, n in {"L": 1, "RGB": 3, "RGBA": 4, "LA": 2, "P": 3, "I;16": 1, "1": 1}.items()),
        *(("JPEG", mode, n) for mode, n in {"L": 1, "RGB": 3, "CMYK": 4}.items()),
        *(("GIF", "P", 3), ("BMP", "RGB", 3), ("WEBP", "RGB", 3)),
    ],
)
def test_sizes_of_images(format, mode, channels):
    target = io.BytesIO()
    Image.fromarray(np.zeros((5, 300), np.uint8)).convert(mode).save(target, format)
    assert image_size(target.getvalue()) == (5, 300, channels)
    for stop in range(0, 60, 3):
        assert image_size(target.getvalue()[:stop]) in (None, (5, 300, channels))


@pytest.mark.parametrize("data", [b"", b"no image", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"\xff\xd8" + b"\xff" * 9])
def test_what_is_no_image_has_no_size(data):
    assert image_size(data) is None


# ------------------------------------------------------------------------------------------------- others' directories


INFOS = chain(DATA.glob("*/*/dataset_info.json"), DATA.glob("*/*/*/dataset_info.json"))
DIRECTORIES = sorted(path.parent for path in INFOS)


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.relative_to(DATA).as_posix())
def test_directories_of_tfds(directory):
    found = compute(directory)
    published = bd.builder_from_directory(directory)
    assert {name: part["examples"] for name, part in found.slices.items()} == {
        name: split.num_examples for name, split in published.info.splits.items()
    }
    for part in found.slices.values():
        for path, feature in part["features"].items():
            assert feature["missing"] + feature["values"] >= part["examples"] or "items" in feature, path
    assert "</html>" in page(found)
    assert Statistics.from_json(json.loads(json_text(found)), found.directory) == found


def test_all_kinds_of_features():
    found = compute(MANY, ["train"]).slices["train"]["features"]
    published = bd.builder_from_directory(MANY)
    examples = list(published.as_dataset("train"))
    assert {"vid", "tv.language", "steps.o", "dyn", "zl", "u64", "aud", "objs.bbox", "nest.deep.lab"} <= set(found)
    assert found["vid"]["items"]["max"] == max(len(example["vid"]) for example in examples)
    assert found["vid"]["height"]["max"] == examples[0]["vid"].shape[1]
    assert found["dyn"]["values"] == sum(example["dyn"].size for example in examples)
    assert found["steps.r"]["items"]["mean"] == pytest.approx(np.mean([len(example["steps"]) for example in examples]))
    assert found["opt"]["missing"] == sum(example["opt"] is None for example in examples)
    assert found["u64"]["max"] == max(int(example["u64"].max()) for example in examples)


def test_slices():
    whole = compute(DATA / "spec_three" / "1.2.3").slices
    assert list(whole) == list(bd.builder_from_directory(DATA / "spec_three" / "1.2.3").info.splits)
    some = compute(DATA / "spec_three" / "1.2.3", ["train[10%:20%]+test[:3]", "train[:0]"], ["idx"]).slices
    published = bd.builder_from_directory(DATA / "spec_three" / "1.2.3")
    ids = [int(example["idx"]) for example in published.as_dataset("train[10%:20%]+test[:3]")]
    found = some["train[10%:20%]+test[:3]"]
    assert (found["examples"], found["features"]["idx"]["min"]) == (len(ids), min(ids))
    assert found["features"]["idx"]["mean"] == pytest.approx(np.mean(ids))
    assert some["train[:0]"]["features"]["idx"]["values"] == 0
    assert "</html>" in page(compute(DATA / "spec_three" / "1.2.3", ["train[:0]"]))


def test_cut_has_all_records(made):
    request = prepare_request(made[0])
    parts = [part for run in request.runs() for part in divide_range(run, request, 1000)]
    assert sum(part.run.take for part in parts) == len(made[1])
    assert [part.first for part in parts] == np.cumsum([0, *(part.run.take for part in parts)])[:-1].tolist()


def test_saved_ones_that_are_damaged_are_not_read(tmp_path):
    directory = dataset_of(tmp_path, {"n": np.int64, "text": f.Text()}, [{"n": 2**60, "text": "ä"}] * 9)
    request, found = prepare_request(directory), compute(directory)
    path = Path(save(found))
    assert read_saved(request) == found
    whole = path.read_text()
    content = json.loads(whole)
    n = content["slices"]["train"]["features"]["n"]
    some = [{}, [], None, {"train": {"examples": 9}}, {"train": {"examples": 9, "features": {"n": {**n, "min": 1}}}}]
    damaged = [*({**content, "slices": slices} for slices in some), {**content, "unknown": "n"}, {**content, "more": 1}]
    texts = ["", whole[:-9], "[" * 100_000, "\xff", *map(json.dumps, (*damaged, {"format": 1}, [content], [], 5, None))]
    for text in texts:
        path.write_text(text, "latin-1")
        assert read_saved(request) is None, text
    path.write_text(json.dumps(content))
    assert read_saved(request) == found  # another layout of the same
    path.write_text(json.dumps({**content, "unknown": ["colour"]}))  # whose class is known now
    assert read_saved(request) is None
    path.unlink()
    assert read_saved(request) is None


# ------------------------------------------------------------------------------------------------------------- mistakes


def test_mistakes(tmp_path):
    with raises_with(errors.FeatureKeyError, got="'nest/sep'", advice=["'nest.s"]):
        prepare_request(MANY, features=["nest/sep"])
    with raises_with(errors.SplitError, got="'trian'"):
        prepare_request(MANY, ["trian"])
    with raises_with(errors.SplitError, got="train, train"):
        prepare_request(MANY, ["train", "train"])
    with pytest.raises(errors.DatasetNotFoundError):
        prepare_request(tmp_path / "nothing")


def test_damage_is_named(tmp_path):
    directory = dataset_of(tmp_path, {"n": np.int64, "s": f.Sequence(np.int64)}, [{"n": 1, "s": [1]}] * 9)
    other = dataset_of(tmp_path / "other", {"n": np.float32, "s": f.Sequence(np.int64)}, [{"n": 1.0, "s": [1]}] * 9)
    shard = directory / "made-train.tfrecord-00001-of-00002"
    whole = shard.read_bytes()
    shard.write_bytes((other / shard.name).read_bytes())
    with raises_with(errors.FeatureError, path=str(shard), offset=0, record=0, feature="n"):
        compute(directory)
    shard.write_bytes(whole[:-10] + b"x" + whole[-9:])
    with raises_with(errors.CorruptRecordError, path=str(shard), record=4):
        compute(directory)


def test_extremes_have_the_first_example(tmp_path):
    random = np.random.default_rng(3)
    examples = [
        {
            "x": np.float32(random.choice([np.nan, np.inf, -1.5, 0, 2.5])),
            "text": "a" * int(random.integers(0, 9)),
            "n": random.integers(0, 5, int(random.integers(0, 4))).tolist(),
        }
        for _ in range(300)
    ]
    features = {"x": np.float32, "text": bd.features.Text(), "n": bd.features.Sequence(np.int64)}
    directory = dataset_of(tmp_path, features, examples)
    stored = list(bd.builder_from_directory(directory).as_dataset("train[20%:]"))
    found = compute(directory, ["train[20%:]"]).slices["train[20%:]"]["features"]
    numbers = {
        "x": [[x] if np.isfinite(x := float(example["x"])) else [] for example in stored],
        "text": [[len(example["text"])] for example in stored],
        "n": [example["n"].tolist() for example in stored],
        "items": [[len(example["n"])] for example in stored],
    }
    spreads = {"x": found["x"], "text": found["text"]["bytes"], "n": found["n"], "items": found["n"]["items"]}
    for name, spread in spreads.items():
        for side in ("min", "max"):
            assert spread[f"{side}_at"] == next(i for i, row in enumerate(numbers[name]) if spread[side] in row), name


def test_the_page_marks_identifiers_and_differences(tmp_path):
    features = {"id": np.int64, "few": np.int64, "moved": np.int64}
    examples = [{"id": 7 * n, "few": n % 9, "moved": n % 50 + n} for n in range(400)]
    directory = dataset_of(tmp_path, features, sorted(examples, key=lambda example: example["moved"]))
    html = page(compute(directory))
    assert "<mark>identifier</mark>" in html
    assert html.count('<svg class="plot"') == 2
    low, high = (dataset_of(tmp_path / part, {"moved": np.int64}, rows) for part, rows in _HALVES.items())
    halves = {name: compute(path).slices["train"] for name, path in (("a", low), ("b", high))}
    assert "<mark>differs</mark>" in content(halves)
    assert "<mark>differs</mark>" not in content({"a": halves["a"], "again": halves["a"]})


def test_marks_are_of_all_values_and_drift_of_the_texts(tmp_path):
    """Values that are not finite are values, and texts of one length differ."""
    examples = [
        {"mixed": (np.nan, np.inf, -np.inf, 1.5)[n % 4], "nan": np.nan, "same": 1.5, "text": "cat" if n % 10 else "dog"}
        for n in range(120)
    ]
    features = {"mixed": np.float32, "nan": np.float32, "same": np.float32, "text": bd.features.Text()}
    other = [example | {"text": "dog" if example["text"] == "cat" else "cat"} for example in examples]
    found = {
        name: compute(dataset_of(tmp_path / name, features, rows)).slices["train"]
        for name, rows in (("a", examples), ("b", other))
    }
    html = content(found)
    rows = {name: re.search(rf'<tr><th scope="row">(?:<a[^>]*>)?{name}.*?</tr>', html)[0] for name in features}
    assert [name for name, row in rows.items() if "constant in a" in row] == ["same"]
    assert [name for name, row in rows.items() if "only NaN in a" in row] == ["nan"]
    assert "80.0%" in rows["text"]
    assert "differs" in rows["text"]


def test_a_difference_of_what_is_missing_is_marked_and_lists_that_are_empty(tmp_path):
    features = {name: bd.features.Scalar(np.int64, optional=True) for name in ("lost", "all", "some")}
    features |= {"empty": bd.features.Sequence(np.int64), "texts": bd.features.Sequence(bd.features.Text())}
    full, lost = dict.fromkeys(("lost", "all", "some"), 5), {"empty": [], "texts": []}
    parts = {
        "a": [full | lost for _ in range(50)],
        "b": [{"lost": None if n % 10 else 5, "all": None, "some": None if n == 7 else 5} | lost for n in range(50)],
    }
    found = {name: compute(dataset_of(tmp_path / name, features, rows)).slices["train"] for name, rows in parts.items()}
    html = content(found)
    rows = {name: re.search(rf'<tr><th scope="row">(?:<a[^>]*>)?{name}.*?</tr>', html)[0] for name in features}
    assert [name for name, row in rows.items() if "<mark>differs</mark>" in row] == ["lost", "all"]
    assert [re.findall(r">([-.\d]+%?)</td><td", row)[-1] for row in rows.values()] == [
        "90.0%",
        "100.0%",
        "2.0%",
        "0.0%",
        "0.0%",
    ]
    assert [name for name, row in rows.items() if "<mark>always empty in b</mark>" in row] == ["empty", "texts"]


_HALVES = {"low": [{"moved": n} for n in range(200)], "high": [{"moved": n} for n in range(150, 350)]}
