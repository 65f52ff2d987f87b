"""Damaged metadata: whatever stands in the files, it is read, or refused with an error that names the directory."""

import copy
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.materializing.plan import plan_job
from beam_datasets.materializing.run import run_in_process
from beam_datasets.options import EngineOptions
from tests.cases import repeated
from tests.facts import raises_with

DATA = Path(__file__).resolve().parents[1] / "data" / "tfds"

NUMBERS: list[Any] = [
    0, 1, -1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**18, 10**330, -(10**330), 1.5, 1e308, -0.0,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TEXTS: list[Any] = [
    "", "0", "-1", "9" * 330, "9" * 5000, "1.0", "NaN", "Infinity", "../..", "/etc/passwd", "a/b", "\0", "\ud800",
    "é" * 300, "train", "int64", "float32", "bfloat16", "string", "png", "tfrecord", "array_record", "parquet", "nope",
    "1.0.0", "latest",
    "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}", "{X}", "tensorflow_datasets.core.features.text_feature.Text",
    "tensorflow_datasets.core.features.features_dict.FeaturesDict", "tensor", "json_content",
]  # fmt: skip
DEEP = "deep nesting"
OTHERS: list[Any] = [None, True, False, [], {}, [None], [[]], {"": None}, {"a": {}}]


def hostile(random: Random) -> Any:
    """Returns a value that may stand anywhere in a JSON text."""
    draw = random.random()
    return (
        DEEP
        if draw < 0.02
        else copy.deepcopy(random.choice(NUMBERS if draw < 0.4 else TEXTS if draw < 0.8 else OTHERS))
    )


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Returns (container, key) of all that is in a JSON value."""
    found = []
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        found.append((value, key))
        if isinstance(inner, (dict, list)):
            found += nodes(inner)
    return found


def mutated(content: Any, random: Random) -> Any:
    """Returns a JSON value with one to three changes."""
    content = copy.deepcopy(content)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        places = nodes(content) if isinstance(content, (dict, list)) else []
        if not places:
            return hostile(random)
        container, key = random.choice(places)
        kind = random.random()
        other_container, other_key = random.choice(places)
        if kind < 0.55:
            container[key] = hostile(random)
        elif kind < 0.7:
            container[key] = copy.deepcopy(other_container[other_key])
        elif kind < 0.85:
            del container[key]
        elif isinstance(container, dict):
            name = random.choice([*map(str, container), *(k for _, k in places if isinstance(k, str)), "x", ""])
            container[name] = container.pop(key) if random.random() < 0.5 else hostile(random)
        else:
            container.insert(key, copy.deepcopy(container[key]))
    return content


def damaged(data: bytes, random: Random) -> bytes:
    """Returns bytes with some of them changed, put in, or taken away."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        place = random.randrange(len(changed) + 1)
        kind = random.random()
        if kind < 0.4 and place < len(changed):
            changed[place] = random.randrange(256)
        elif kind < 0.6:
            changed[place:place] = random.choice(
                [b"\xff", b"\0", b",", b"}", b"[", b'"', b"9" * 50, b"\\ud800", b"NaN"]
            )
        elif kind < 0.8:
            del changed[place : place + random.choice([1, 4, 100])]
        else:
            del changed[place:]
    return bytes(changed)


def doubled_keys(text: str, random: Random) -> str:
    """Returns a JSON text in which a line stands twice."""
    lines = text.splitlines(keepends=True)
    number = random.randrange(len(lines))
    return "".join([*lines[: number + 1], *lines[number:]])


class Fuzzed:
    """A dataset's directory, of which files are damaged and restored."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = {path.name: path.read_bytes() for path in directory.iterdir() if ".tfrecord" not in path.name}
        self.indexes = {path.name: path.read_bytes() for path in directory.glob("*.index")}
        self.manifest = json.loads(self.files["manifest.json"]) if "manifest.json" in self.files else None

    def damage(self, random: Random) -> dict[str, bytes]:
        """Returns a file that is damaged, and others that are made to fit it."""
        names = [name for name in (*self.files, *self.indexes) if name != "run.json"]
        name = random.choice([*names, *(2 * ["dataset_info.json", "features.json"])])
        data = {**self.files, **self.indexes}[name]
        if not name.endswith(".json") or random.random() < 0.15:
            changed = damaged(data, random)
        elif random.random() < 0.05:
            changed = doubled_keys(data.decode(), random).encode()
        else:
            value = json.dumps(mutated(json.loads(data), random), ensure_ascii=random.random() < 0.9)
            for opening, closing in (('{"feature":', "}"), ("[", "]")):
                depth = random.choice([50, 500, 50_000])
                value = value.replace(f'"{DEEP}"', opening * depth + "1" + closing * depth, 1)
            changed = value.encode("utf-8", "surrogatepass")
        if self.manifest is None or name.endswith(".index") or random.random() < 0.2:
            return {name: changed}
        return {name: changed, "manifest.json": self.sealed(name, changed)}

    def sealed(self, name: str, changed: bytes) -> bytes:
        """Returns the manifest with checksums that fit a damaged file, or with a digest that fits itself."""
        try:
            manifest = json.loads(changed) if name == "manifest.json" else copy.deepcopy(self.manifest)
        except (ValueError, RecursionError):
            return changed
        if not isinstance(manifest, dict):
            return changed
        if name != "manifest.json":
            manifest["metadata"][name] = hashlib.sha256(changed).hexdigest()
        manifest["digest"] = ""
        text = json.dumps({key: value for key, value in manifest.items() if key != "digest"}, indent=1)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f'{text[:-2]},\n "digest": "{digest}"\n}}'.encode()


def use(directory: Path) -> None:
    """Opens a dataset, lists what it has, and reads one example of each split."""
    builder = bd.builder_from_directory(directory)
    info = builder.info
    assert repr(builder), repr(info)
    assert repr(info.features), repr(info.splits)
    assert builder.lineage is None or builder.lineage.to_json()
    for name, dataset in builder.as_dataset().items():
        split = info.splits[name]
        assert split.num_examples >= 0
        assert repr(split), split.file_instructions
        if len(dataset):
            _ = dataset[0], dataset[len(dataset) - 1]
            next(iter(dataset))


def check(directory: Path, random: Random, count: int, use: Callable[[Path], None] = use) -> None:
    fuzzed = Fuzzed(directory)
    refused = 0
    for _ in range(count):
        files = fuzzed.damage(random)
        for name, data in files.items():
            (directory / name).write_bytes(data)
        try:
            use(directory)
        except BeamDatasetsError as error:
            refused += 1
            problem = "" if str(directory) in str(error) and len(str(error)) < 20_000 else f"no directory: {error}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:3000]
        else:
            problem = ""
        finally:
            for name in files:
                (directory / name).write_bytes({**fuzzed.files, **fuzzed.indexes}[name])
        if problem:
            name, data = next(iter(files.items()))
            raise AssertionError(f"{problem}\n{name}: {data[:5000]!r}")
    use(directory)  # it was restored
    assert count / 3 < refused < count


@pytest.fixture(scope="module")
def directories() -> Iterator[list[Path]]:
    """A dataset without manifest and indexes, the same with them, also in a new order; and one of two features.

    They are in memory, if the system has such a file system: opening files on a disk takes more than half of the time.
    """
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as root:
        yield made_below(Path(root))


def made_below(root: Path) -> list[Path]:
    source = Path(shutil.copytree(DATA / "spec_many" / "2.0.1", root / "spec_many" / "2.0.1"))
    jobs = [plan_job(source, to="made", data_dir=root / f"{salt}", reshuffle=salt) for salt in (None, "salt")]
    few = plan_job(DATA / "spec_inter" / "1.2.3", to="few", data_dir=root, num_shards=1)
    return [source, *(Path(run_in_process(job, EngineOptions())) for job in (*jobs, few))]


@pytest.mark.parametrize("number, count", [(0, 100), (1, 100), (2, 100), (3, 500)])
def test_fuzzed_metadata(directories: list[Path], number: int, count: int) -> None:
    """Damaged metadata raise documented errors alone, and each names the directory."""
    check(directories[number], Random(number), count)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, seed, count",
    [*((number, 10, repeated(1500)) for number in range(3)), *((3, 10 + chunk, repeated(4000)) for chunk in range(5))],
)
def test_fuzzed_metadata_at_length(directories: list[Path], number: int, seed: int, count: int) -> None:
    """Damaged files, most of them of the dataset that opens fastest."""
    check(directories[number], Random(seed + number), count)


def write(directory: Path, name: str, **changes: Any) -> Path:
    """Returns a copy of a dataset in which fields of a JSON file are changed: {path with dots: value}."""
    copied = Path(shutil.copytree(DATA / "spec_many" / "2.0.1", directory / "spec_many" / "2.0.1"))
    content = json.loads((copied / name).read_text())
    for path, value in changes.items():
        *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = content
        for part in outer:
            place = place[part]
        place[last] = value
    (copied / name).write_text(json.dumps(content))
    return copied


FEATURE = "featuresDict.features"


def test_a_dtype_that_no_record_contains_is_an_error_before_reading(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes", reason="bfloat16 is a dtype of ml_dtypes")
    directory = write(tmp_path, "features.json", **{f"{FEATURE}.mat.tensor.dtype": "bfloat16"})
    builder = bd.builder_from_directory(directory)
    with raises_with(bd.errors.FeatureValueError, mentions=[f"{directory}: mat: ", "bfloat16"]):
        builder.as_dataset("train")
    assert list(builder.as_dataset("train", decoders=bd.decode.PartialDecoding({"label"}))[0]) == ["label"]


@pytest.mark.parametrize(
    "name, path, value",
    [
        ("features.json", f"{FEATURE}.label.classLabel.numClasses", float("inf")),
        ("features.json", f"{FEATURE}.label.classLabel.numClasses", 1e308),
        ("features.json", f"{FEATURE}.mat.tensor.shape", {"dimensions": [float("inf"), "3"]}),
        ("features.json", f"{FEATURE}.mat.tensor.shape", {"dimensions": [2**63, 3]}),
        ("features.json", f"{FEATURE}.mat.tensor.shape", {"dimensions": ["9" * 5000, "3"]}),
        ("features.json", f"{FEATURE}.mat.tensor.shape", {"dimensions": [str(2**62), str(2**62)]}),
        ("features.json", f"{FEATURE}.objs.sequence.length", float("nan")),
        ("dataset_info.json", "splits.0.numBytes", "9" * 330),
        ("dataset_info.json", "splits.0.numBytes", 10**330),
        ("dataset_info.json", "splits.0.shardLengths", ["9" * 330]),
        ("dataset_info.json", "splits.0.shardLengths", [2**63]),
        ("dataset_info.json", "splits.0.shardLengths", [str(2**62)]),
        ("dataset_info.json", "splits.0.shardLengths", [str(2**60)] * 3),
        ("dataset_info.json", "splits.0.shardLengths", ["-1"]),
        ("dataset_info.json", "splits.0.name", "../train"),
        ("dataset_info.json", "splits.0.filepathTemplate", "../{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"),
        ("dataset_info.json", "splits.0.filepathTemplate", "/etc/{SPLIT}-{SHARD_X_OF_Y}"),
        ("dataset_info.json", "splits.0.filepathTemplate", "s3://bucket/{SPLIT}-{SHARD_X_OF_Y}"),
        ("dataset_info.json", "fileFormat", "nope"),
    ],
)
def test_metadata_that_cannot_be(tmp_path: Path, name: str, path: str, value: Any) -> None:
    """Huge numbers, infinities, unknown formats and paths that lead out are errors of the metadata."""
    directory = write(tmp_path, name, **{path: value})
    with pytest.raises(bd.errors.MetadataError) as caught:
        use(directory)
    assert f"{directory}" in f"{caught.value}"


def test_labels_that_do_not_fit_name_the_directory(tmp_path: Path) -> None:
    """The error of a label file names it, with its directory."""
    directory = write(tmp_path, "features.json")
    (directory / "label.labels.txt").write_text("one\n")
    with raises_with(bd.errors.MetadataError, mentions=[f"{directory}", "label.labels.txt", "1 ", "3 "]):
        bd.builder_from_directory(directory)
