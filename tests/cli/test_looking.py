"""What `head` and `slices` print, against what Python's slices and NumPy say."""

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features
from beam_datasets.cli.head import bar
from beam_datasets.display.values import to_image, value_text
from beam_datasets.errors import DatasetNotFoundError
from beam_datasets.features import ClassLabel
from beam_datasets.features.decode import SkipDecoding
from beam_datasets.formats import tfrecord
from beam_datasets.reading.opening import builder_from_directory
from beam_datasets.verifying.report import verify
from tests.diffing.versions import PETS, Made
from tests.reading.conftest import write_dataset

TFDS = Path(__file__).parents[1] / "data" / "tfds"
MANY = TFDS / "spec_many" / "2.0.1"


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    return PETS.but(num_shards=3).write(tmp_path_factory.mktemp("pets"), "1.0.0")


# --------------------------------------------------------------------------------------------------------------- head


def test_head_as_json(run):
    """Values are those of `ds[i]`, converted one by one."""

    def plain(value):
        if isinstance(value, bytes):
            return value.decode() if value[:1].isascii() else {"b64": base64.b64encode(value).decode()}
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, features.RaggedArray):
            return value.to_list()
        if isinstance(value, np.generic):
            return value.item() if value.dtype.kind != "f" else float(str(value))
        return value if value is None else list(map(plain, value))

    code, out, err = run("head", MANY, "--split", "train[3:]", "-n", 3, "--json")
    found = json.loads(out)
    files = {"image": SkipDecoding(), "gray": SkipDecoding(), "vid": SkipDecoding()}
    dataset = builder_from_directory(MANY).as_dataset("train[3:]", decoders=files)
    assert (code, err, found.pop("examples")) == (0, "", [plain(example) for example in dataset[:3]])
    assert found == {"dataset": "spec_many:2.0.1", "split": "train[3:]", "num_examples": 9, "undecoded": []}
    code, _, err = run("head", MANY, "--json", "--images", "images")
    assert (code, "leave out --images" in err) == (2, True)


URLS = ["https://me:word@host/a?token=abc&sig=x", 'see "https://host/a?token=a"b']


def test_values_that_look_like_secrets_are_shown(tmp_path, run):
    """Only messages and paths hide them: a dataset's values are its own, and JSON stays JSON."""
    texts = features.FeaturesDict({"label": ClassLabel(names=URLS[:1]), "text": features.Text()})
    made = Made(texts, {"train": {0: {"label": 0, "text": URLS[0]}, 1: {"label": 0, "text": URLS[1]}}}, num_shards=1)
    made = made.but(info={"description": f"See {URLS[1]}", "homepage": URLS[0]})
    old, new = made.write(tmp_path, "1.0.0"), made.but(splits={"train": {}}, num_shards=1).write(tmp_path, "2.0.0")
    code, out, _ = run("head", old, "--json")
    assert (code, sorted(example["text"] for example in json.loads(out)["examples"])) == (0, URLS)
    assert json.loads(run("info", old, "--json")[1])["description"] == f"See {URLS[1]}"
    for command in (["head", old], ["info", old], ["stats", old, "--no_save"], ["diff", old, new]):
        code, out, err = run(*command)
        assert "https://me:word@host/" in out, (command, code, out, err)
        assert "***" not in out, (command, out)
    values = [
        example["old"]["text"]
        for example in json.loads(run("diff", old, new, "--json")[1])["splits"]["train"]["examples"]
    ]
    assert sorted(values) == sorted(map(repr, URLS))


def test_head_names_the_record_that_does_not_decode(tmp_path, run):
    directory = write_dataset(tmp_path / "few" / "1.0.0", {"train": [2, 7]})
    file = next(directory.glob("*-00001-of-00002"))
    data = file.read_bytes()
    start, stop = tfrecord.scan(data, path="")[3:5].tolist()
    file.write_bytes(data[:start] + tfrecord.frame(data[start + 12 : stop - 4].replace(b"id", b"jd")) + data[stop:])
    code, out, err = run("head", directory, "--count", 9)
    assert (code, err) == (1, "")
    ids = [line for line in out.splitlines() if "id: " in line and "  (" not in line]
    missing = "  id: does not decode: id: the record does not have this feature, and it is not optional"
    assert ids == [*(f"  id: {i}" for i in range(5)), missing, *(f"  id: {i}" for i in range(6, 9))]
    assert f"It is in {file}, byte {start} (record 3))\n" in out
    assert "\nvalues that do not decode: in 1 of these 9 examples; beam-datasets verify --decode names all" in out


@pytest.mark.parametrize("nested", ["dataset_feature.Dataset", "sequence_feature.Sequence"])
def test_head_names_the_record_of_an_item_that_does_not_decode(tmp_path, run, nested):
    directory = write_dataset(tmp_path / "few" / "1.0.0", {"train": [3]})
    tree = features.FeaturesDict({"text": features.Dataset(features.Image())})
    text = features.to_json_text(tree).replace("dataset_feature.Dataset", nested)
    (directory / "features.json").write_text(text)
    code, out, _ = run("head", directory)
    assert (code, "00000-of-00001, byte 0 (record 0)" in out) == (1, True)


def test_head_shows_what_is_stored_of_an_unknown_feature(tmp_path, run):
    directory = write_dataset(tmp_path / "few" / "1.0.0", {"train": [3]})
    file = directory / "features.json"
    file.write_text(file.read_text().replace("core.features.text_feature.Text", "their.own.Connector"))
    code, out, _ = run("head", directory, "--count", 1)
    dataset = builder_from_directory(directory).as_dataset("train", decoders={"text": SkipDecoding()})
    assert code == 0
    assert f"text/text: ['{dataset[0]['text']['text'][0].decode()}']\n" in out


def test_imports_registers_what_a_dataset_needs(tmp_path, run):
    directory = write_dataset(tmp_path / "few" / "1.0.0", {"train": [3]})
    file = directory / "features.json"
    file.write_text(file.read_text().replace("tensorflow_datasets.core.features.text_feature.Text", "bd_shouts.Shout"))
    (tmp_path / "bd_shouts.py").write_text(
        "from beam_datasets import features as F\n\n\n@F.register\nclass Shout(F.CustomFeature):\n"
        "    def get_tensor_info(self):\n        return F.TensorInfo(shape=(), dtype='string')\n\n"
        "    def decode_example(self, value):\n        return value.upper()\n\n"
        "    encode_example = decode_example\n"
    )
    code, out, _ = run("info", directory)
    assert code == 0
    assert "bd_shouts.Shout(...) [not registered: --imports the module that registers it]" in out
    code, _, err = run("head", directory, "--imports", tmp_path / "bd_nothing.py")
    assert code == 2
    assert "bd_nothing.py does not exist" in err
    code, out, _ = run("head", directory, f"--imports={tmp_path / 'bd_shouts.py'}")
    assert code == 0
    assert re.findall("text: '(.*)'", out) == ["", "X", "XX"]


def test_head_shows_examples_in_dataset_order(pets, run):
    code, out, _ = run("head", pets, "--split", "train[5:]", "--count", 4)
    assert code == 0
    assert out.startswith("pets:1.0.0, train[5:]: 15 examples\n\nexample 0\n")
    examples = builder_from_directory(pets).as_dataset(split="train[5:]")
    names = ["cat", "dog", "owl"]
    shown = re.findall(r"^  (?:id|text|label): .*", out, re.MULTILINE)
    expected = [
        (f"  id: {e['id']}", f"  label: {e['label']} ({names[e['label']]})", f"  text: {e['text'].decode()!r}")
        for e in examples[:4]
    ]
    assert shown == [line for lines in expected for line in lines]


def test_head_of_every_feature(run):
    code, out, err = run("head", MANY, "--count", 12)
    assert (code, err) == (0, "")
    for line in ("label: 2 (fish)", "text: 'text é 2'", "opt: none", "objs.cls: [1 (y), 1 (y)]", "nest.s: 's2'"):
        assert f"  {line}\n" in out
    assert re.search(r"  image: uint8 \(3, 4, 3\), \d+ to \d+\n", out)
    assert max(map(len, out.splitlines())) <= 100


def test_head_writes_the_files_that_records_have(run, tmp_path):
    code, out, _ = run("head", MANY, "--count", 2, "--images", tmp_path / "new")
    assert code == 0
    names = ["gray", "image", "vid-000"]
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == [f"train-0000{i}-{name}.png" for i in range(2) for name in names]
    assert re.findall(r"^  -> (.*)", out, re.MULTILINE) == list(map(str, files))
    stored = builder_from_directory(MANY).as_dataset(split="train", decoders={"image": SkipDecoding()})
    assert [file.read_bytes() for file in files[1::3]] == [stored[0]["image"], stored[1]["image"]]


def test_images_of_floats_are_written_as_pictures(run, tmp_path):
    from PIL import Image

    tree = features.FeaturesDict({"depth": features.Image(shape=(2, 3, 1), dtype=np.float32)})
    depth = np.array([[0, 1, 2], [4, 3, 2]], np.float32)[..., None]
    made = Made(tree, {"train": {0: {"depth": depth}}}).write(tmp_path, "1.0.0")
    assert run("head", made, "--images", tmp_path / "out")[0] == 0
    (file,) = (tmp_path / "out").iterdir()
    assert np.array(Image.open(file))[..., 0].tolist() == (depth[..., 0] / 4 * 255).astype(np.uint8).tolist()


@pytest.mark.parametrize(
    "pixel, colour",
    [
        (np.array([7], np.uint8), (7, 7, 7)),
        (np.array([7, 255], np.uint8), (7, 7, 7)),
        (np.array([7, 0], np.uint8), (255, 255, 255)),
        (np.array([1, 2, 3, 255], np.uint8), (1, 2, 3)),
        (np.array([0x1234], np.uint16), (0x12, 0x12, 0x12)),
        (np.array([np.nan], np.float32), (0, 0, 0)),
    ],
)
def test_pixels_as_colours(pixel, colour):
    assert to_image(pixel.reshape(1, 1, -1)).getpixel((0, 0)) == colour


@pytest.mark.parametrize(
    "value, feature, text",
    [
        (b"plain", None, "'plain'"),
        (b"\x1b[31m red \n", None, r"'\x1b[31m red \n'"),
        (b"\xff\x00", None, r"b'\xff\x00'"),
        (b"\n" * 100, None, r"'\n\n\n\n\n\n\n\n\n\n' ... (100 characters)"),
        (b"x" * 1000, None, "'xxxxxxxxxxxxxxxxxxx' ... (1,000 characters)"),
        (np.int64(-1), ClassLabel(names=["a"]), "-1 (no label)"),
        (np.array([0, 1]), ClassLabel(names=["a", "b"]), "[0 (a), 1 (b)]"),
        (np.float32(0.1), None, "0.1"),
        (np.array([1.0, np.nan] * 9, np.float32), None, "float32 (18,), 1.0 to 1.0, and 9 not finite"),
        (np.zeros((0, 3)), None, "float64 (0, 3)"),
        (np.array([b"a", b"b"], object), None, "['a', 'b']"),
        (None, None, "none"),
    ],
)
def test_values_as_text(value, feature, text):
    assert value_text(value, feature, 44) == text


# -------------------------------------------------------------------------------------------------------------- slices


@pytest.mark.parametrize(
    "expression", ["train", "train[2:9]", "train[-30%:]+test", "train[5:5]", "all", "train[:3]+train[2:4]"]
)
@pytest.mark.parametrize("dataset", ["pets", "tfds"])
def test_slices_count_what_is_read(expression, dataset, pets, run):
    directory = pets if dataset == "pets" else MANY
    code, out, _ = run("slices", directory, expression, "--json")
    assert code == 0
    told = json.loads(out)
    records = builder_from_directory(directory).as_dataset(split=expression).raw()
    assert told["num_examples"] == len(records)
    assert told["num_bytes"] == sum(map(len, records[:]))
    read = b"".join((directory / f["filename"]).read_bytes()[f["start"] : f["stop"]] for f in told["files"])
    assert len(read) == told["num_bytes"] + 16 * told["num_examples"]
    assert all(record in read for record in records[:])
    code, text, _ = run("slices", directory, expression)
    assert code == 0
    assert f"{expression}: {len(records)} examples" in text
    for file in told["files"]:
        assert file["filename"] in text


def test_of_many_shards_the_first_are_shown(run, monkeypatch):
    monkeypatch.setattr("beam_datasets.cli.head.MAX_LINES", 3)
    lines = run("slices", TFDS / "spec_inter" / "1.2.3", "train[2shard:8shard]")[1].splitlines()
    assert [line[:41].strip() for line in lines[3:]] == [
        *(f"spec_inter-train.tfrecord-0000{i}-of-00020" for i in (2, 3, 4)),
        "... and 3 lines more; --json has all",
    ]


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted).map(tuple), max_size=5))
def test_a_bar_is_full_and_empty_where_the_slice_is(ranges):
    chosen = [any(start <= i < stop for start, stop in ranges) for i in range(64)]
    assert bar(0, 64, ranges, 64)[1:-1] == "".join("█" if there else "·" for there in chosen)
    quarters = [sum(chosen[i : i + 4]) for i in range(0, 64, 4)]
    assert bar(0, 64, ranges, 16)[1:-1] == "".join("·░▒▓█"[quarter] for quarter in quarters)


@pytest.mark.parametrize("count", [1, 2000])
def test_who_reads_the_output_may_stop(count, pets):
    command = f"set -o pipefail; {sys.executable} -m beam_datasets.cli head {pets} --count {count} --split all | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)


@pytest.mark.parametrize(
    "args, code, problem",
    [
        (["head", "nothing"], 1, "no dataset 'nothing'"),
        (["head", "{pets}", "--split", "trian"], 1, "Did you mean 'train'"),
        (["head", "{pets}", "--count", "-1"], 2, "--count is -1"),
        (["head", "{pets}", "--cuont=1"], 2, "unrecognized arguments: --cuont=1. Did you mean '--count'?"),
        (["head", "{pets}", "--images", "x"], 2, "has no images"),
        (["head", "{many}", "--images", __file__], 1, "test_looking.py"),
        (["slices", "{pets}"], 2, "required: SLICE"),
        (["slices", "{pets}", "train[:99]"], 1, "20 examples of train"),
        (["slices", "{pets}", "train[10%:20]"], 1, "'train[10%:20%]' or 'train[10:20]'"),
    ],
)
def test_errors(args, code, problem, pets, run, tmp_path):
    filled = [arg.format(pets=pets, many=MANY) for arg in args]
    got, out, err = run(*filled, "--data_dir", tmp_path)
    assert (got, problem in err) == (code, True), err
    assert out == ""


def test_what_is_no_dataset_is_one_line(run, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nothing")
    monkeypatch.chdir(tmp_path)
    texts = {
        "data/squares/1.0.0": "no dataset 'data' is published in .*The directory data/squares/1.0.0 does not exist.",
        "pets/1.0.0": "no dataset 'pets' is published in",
        "bad name!": "'bad name!' is not a dataset name; needed: name",
        "empty": "empty is not the directory of a version: it has no dataset_info.json.",
        "./nothere": f"{tmp_path / 'nothere'}.*: the directory does not exist",
        "./dangling": f"{tmp_path / 'dangling'}.*: the directory does not exist",
    }
    for command, *rest in (["info"], ["head"], ["stats"], ["verify"], ["slices", "train"], ["diff", "./empty"]):
        for text, words in texts.items():
            code, out, err = run(command, text, *rest)
            assert (code, out, err.count("\n")) == (2 if command == "diff" else 1, "", 1), err
            assert re.search(words, err)
    assert run("info", "./empty")[2].endswith("is not a published dataset: it has no dataset_info.json.\n")
    with pytest.raises(DatasetNotFoundError, match="it has no dataset_info.json"):  # a store's may be there, unlisted
        builder_from_directory("memory://nothere/ds/1.0.0")


def test_file_as_dataset_is_answered_with_its_build(pets, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("a\n1\n")
    (tmp_path / "notes.xyz").write_text("a\n1\n")
    shutil.copytree(pets, tmp_path / "pets" / "1.0.0")
    for command, *rest in (["info"], ["head"], ["stats"], ["verify"], ["slices", "train"], ["diff", "./sales.csv"]):
        for text in "./sales.csv", str(tmp_path / "sales.csv"):
            code, out, err = run(command, text, *rest)
            assert (code, out, err.count("\n")) == (2 if command == "diff" else 1, "", 1), err
            assert f"build csv --name sales --pattern {tmp_path / 'sales.csv'} --data_dir" in err
        if command != "diff":
            assert (
                "it is a file, not a directory. Files become a dataset first" in run(command, "./notes.xyz", *rest)[2]
            )
            err = run(command, "./pets/1.0.0/features.json", *rest)[2]
            assert f"it is a file, not a directory. The version is {tmp_path / 'pets' / '1.0.0'}." in err
    for function in verify, builder_from_directory:
        with pytest.raises(DatasetNotFoundError, match="sales.csv.*it is a file.* build csv --name sales"):
            function("sales.csv")


def test_a_path_near_versions_is_explained_as_a_path(pets, run, tmp_path, monkeypatch):
    shutil.copytree(pets, tmp_path / "data" / "pets" / "1.0.0")
    monkeypatch.chdir(tmp_path)
    for text in "data/pets", "data/pets/9.9.9":
        for command in "head", "verify", "info":
            code, _, err = run(command, text)
            assert code == 1
            assert re.match(
                rf"beam-datasets: (The directory )?{text} .* Versions in data/pets: 1.0.0. As a name: ", err
            )


def test_a_file_in_the_place_of_a_directory(run, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for command in (
        ["head", "pets", "--data_dir", file],
        ["list", "--data_dir", file],
        ["gc", file],
        ["site", file, "--to", tmp_path / "site"],
    ):
        code, _, err = run(*command)
        assert (code, "it is a file" in err, "does not exist" in err) == (1, True, False), err


def test_errors_list_the_versions_that_exist(pets, run, tmp_path, monkeypatch):
    for place in ("data/pets/1.0.0", "data/pets/1.10.0", "data/pets/1.2.0", "data/more/small/1.0.0"):
        shutil.copytree(pets, tmp_path / place)
    (tmp_path / "data/pets/9.0.0").mkdir()
    monkeypatch.chdir(tmp_path)
    pets_there = "pets: 1.0.0, 1.2.0, 1.10.0."
    for text, words in (
        ("./data/pets", pets_there),
        ("data/pets", pets_there),
        ("data/pets/3.0.0", pets_there),
        ("./data/pets/9.0.0", pets_there),
        ((tmp_path / "data/pets").as_uri(), pets_there),
        ("./data/more", "more: small/1.0.0."),
        ("./data", "data: more/small/1.0.0, pets/1.0.0, pets/1.2.0, pets/1.10.0."),
    ):
        code, out, err = run("info", text)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert words in err
        assert " Versions in " in err
    for text in ("./none", "./data/pets/1.0.0/none"):
        assert "Versions" not in run("info", text)[2]


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("config", [None, "small-1.x"])
def test_commands_take_the_names_that_they_print(config, tmp_path, run):
    """Every command prints `name[/config]:version`, and takes it, also with a slash before the version."""
    base = f"pets/{config}" if config else "pets"
    for version in ("1.0.0", "1.1.0"):
        made = PETS.write(tmp_path / "made", version)
        info = made / "dataset_info.json"
        changed = json.loads(info.read_text()) | {"name": "pets"} | ({"configName": config} if config else {})
        info.write_text(json.dumps(changed))
        for path in (made / "manifest.json", *made.glob("*.index")):  # the manifest names the config, too
            path.unlink()
        shutil.copytree(made, tmp_path / base / version)
    shutil.rmtree(tmp_path / "made")
    name = f"{base}:1.0.0"
    for spelled in (name, f"{base}/1.0.0"):
        for command, *rest in (
            ["info"], ["head"], ["slices", "train"], ["stats", "--no_save"], ["verify"],
            ["diff", f"{base}/1.1.0"], ["export", "--to", "x", "--format", "jsonl", "--dry_run"],
        ):  # fmt: skip
            to = [str(tmp_path / arg) if arg == "x" else arg for arg in rest]
            code, out, err = run(command, spelled, *to, "--data_dir", tmp_path)
            assert (code, out.startswith(name)) == (0, True), (command, out, err)
        assert run("materialize", spelled, "--to", "new:1.0.0", "--dry_run", "--data_dir", tmp_path)[0] == 0
        assert json.loads(run("info", spelled, "--json", "--data_dir", tmp_path)[1])["dataset"] == name
        assert json.loads(run("slices", spelled, "train", "--json", "--data_dir", tmp_path)[1])["dataset"] == name
        assert json.loads(run("stats", spelled, "--no_save", "--json", "--data_dir", tmp_path)[1])["dataset"] == name
        assert run("head", spelled, "--images", "x", "--data_dir", tmp_path)[2].startswith(f"beam-datasets: {name} has")
    assert [listed["dataset"] for listed in json.loads(run("list", "--json", "--data_dir", tmp_path)[1])] == [
        name,
        f"{base}:1.1.0",
    ]


# ------------------------------------------------------------------------------------------------------- info and list


def test_info_and_list_as_json(pets, run):
    code, out, _ = run("info", pets, "--json")
    told, info = json.loads(out), builder_from_directory(pets).info
    assert (code, told["dataset"], told["directory"]) == (0, "pets:1.0.0", str(pets))
    assert features.from_json_text(json.dumps(told["features"])) == features.from_json_text(
        (pets / "features.json").read_text()
    )
    assert told["supervised_keys"] == ["text", "label"]
    sizes = {
        name: {"examples": split.num_examples, "shards": split.num_shards, "bytes": split.num_bytes}
        for name, split in info.splits.items()
    }
    assert told["splits"] == sizes
    code, out, _ = run("list", "--data_dir", pets.parents[1], "--json")
    assert (code, json.loads(out)) == (0, [{"dataset": "pets:1.0.0", "directory": str(pets), "splits": sizes}])


def test_list_goes_on_behind_a_damaged_dataset(run, tmp_path):
    for name in ("spec_multi", "spec_path"):
        shutil.copytree(TFDS / name, tmp_path / name)
    broken = tmp_path / "spec_multi/small/1.0.0/dataset_info.json"
    broken.write_text("{")
    code, out, err = run("list", "--data_dir", tmp_path)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["dataset", "examples", "shards", "size"],
        ["spec_multi/big-2.x:3.1.4", "11", "1", "386", "B"],
        ["spec_multi/small:1.0.0", "?", "?", "?"],
        ["spec_path:10.0.0", "17", "2", "750", "B"],
    ]
    assert err.startswith(f"{broken}: expected JSON")
    assert json.loads(run("list", "--data_dir", tmp_path, "--json")[1])[1]["error"] == err.strip()


def test_list_of_a_directory_that_is_no_option(run, tmp_path):
    code, _, err = run("list", tmp_path)
    assert (code, f"Did you mean '--data_dir {tmp_path}'?" in err) == (2, True)
    assert run("list", "--data_dir", tmp_path)[0] == 0


def test_list_of_an_empty_directory(run, tmp_path):
    assert run("list", "--data_dir", tmp_path)[:2] == (0, f"nothing is published in {tmp_path}\n")
    assert run("list", "--data_dir", tmp_path, "--json")[:2] == (0, "[]\n")
    code, out, err = run("list", "--data_dir", tmp_path / "none")
    assert (code, out, "none: the directory does not exist. Give the directory" in err) == (1, "", True)
