"""Options of the format of files in `append`: those of the published version hold unless others are given."""

import json
import warnings

import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets.errors import InputError
from beam_datasets.files.csv import Csv
from beam_datasets.files.image_folder import ImageFolder
from beam_datasets.files.jsonl import Jsonl
from beam_datasets.files.text_lines import TextLines
from beam_datasets.metadata.inputs import DEFAULT_OPTIONS, Inputs

GERMAN = {"decimal": ",", "thousands": "."}


def write(folder, name, text, encoding="utf-8"):
    """Writes a file."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode(encoding))


def values(directory):
    """Returns the rows of the split train, sorted."""
    return sorted(map(repr, bd.builder_from_directory(directory).as_dataset("train")))


def recorded(directory):
    """Returns the content of inputs.json."""
    with open(f"{directory}/inputs.json") as file:
        return json.load(file)


def append_quietly(builder, root, **options):
    """Returns (directory of the next version, texts of the warnings)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        directory = bd.append("ds", builder, data_dir=root, **options)
    return directory, [str(one.message) for one in caught]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, suffix, options, first, second, encoding",
    [
        (Csv, "csv", {"decimal": ","}, 'id,x\n1,"1,5"\n', 'id,x\n2,"2,5"\n', "utf-8"),
        (Csv, "csv", {"thousands": ","}, 'id,x\n1,"1,500"\n', 'id,x\n2,"2,500"\n', "utf-8"),
        (Csv, "csv", {**GERMAN, "delimiter": ";"}, "id;x\n1;2.025,27\n", "id;x\n2;1.500\n", "utf-8"),
        (Csv, "csv", {"delimiter": "tab"}, "id\tx\n1\ta,b\n", "id\tx\n2\tc,d\n", "utf-8"),
        (Csv, "csv", {"quote": ""}, 'id,x\n1,"a"\n', 'id,x\n2,"b"\n', "utf-8"),
        (Csv, "csv", {"quote": "'"}, "id,x\n1,'a,b'\n", "id,x\n2,'c'\n", "utf-8"),
        (Csv, "csv", {"escapechar": "\\"}, "id,x\n1,a\\,b\n", "id,x\n2,c\\,d\n", "utf-8"),
        (Csv, "csv", {"comment": "#"}, "id,x\n#1,a\n2,b\n", "id,x\n#3,c\n4,d\n", "utf-8"),
        (
            Csv,
            "csv",
            {"missing": ["-", "k. A."], "features": {"x": "string?"}},
            "id,x\n1,-\n2,a\n",
            "id,x\n3,k. A.\n4,b\n",
            "utf-8",
        ),
        (TextLines, "txt", {"keep_blank": True}, "a\n\n", "b\n\nc\n", "utf-8"),
    ],
)
def test_values_are_those_of_a_build_of_all_files(tmp_path, kind, suffix, options, first, second, encoding):
    """The options are given to the first build only; the third version is appended to the second one."""
    folder = tmp_path / "in"

    def builder(name, **given):
        return kind(name=name, pattern=f"{folder}/*.{suffix}", data_dir=tmp_path, **given)

    write(folder, f"1.{suffix}", first, encoding)
    published = builder("ds", **options).build(num_workers=1)
    for number in (2, 3):
        write(folder, f"{number}.{suffix}", second, encoding)
        directory, notes = append_quietly(builder("ds"), tmp_path)
        assert any("new files are read with the options of" in note for note in notes), notes
        assert recorded(directory)["options"] == recorded(published)["options"]
        once = builder(f"once_{number}", **options).build(num_workers=1)
        assert values(directory) == values(once)


def test_a_given_option_replaces_only_itself(tmp_path):
    """A file with another delimiter has the numbers of the others: 1.500 is not 1.5."""
    write(tmp_path / "in", "1.csv", 'id,x\n1,"1.234,5"\n')
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, key="id", **GERMAN).build(num_workers=1)
    write(tmp_path / "in", "2.csv", "id;x\n2;1.500\n3;12.750\n")
    appended = Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, delimiter=";")
    directory, notes = append_quietly(appended, tmp_path)
    assert sorted(row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")) == [1234.5, 1500, 12750]
    assert "new files are read with the options of 1.0.0: --decimal , --thousands ." in notes
    assert recorded(directory)["options"] == {"csv": GERMAN}  # not the delimiter of one append


@pytest.mark.slow
def test_a_given_option_that_differs_is_reported(tmp_path):
    """Also one that has the default value."""
    write(tmp_path / "in", "1.csv", 'id,x\n1,"1,5"\n')
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, decimal=",").build(num_workers=1)
    write(tmp_path / "in", "2.csv", "id,x\n2,2.5\n")
    appended = Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, decimal=".")
    directory, notes = append_quietly(appended, tmp_path)
    assert sorted(row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")) == [1.5, 2.5]
    assert notes == ["new files are read with other options than those of 1.0.0, which was built with --decimal ,"]
    assert recorded(directory)["options"] == {"csv": {"decimal": ","}}


@pytest.mark.slow
def test_options_that_conflict_with_published_ones_name_them(tmp_path):
    """One of two separators is given, and is the other one of the published version."""
    write(tmp_path / "in", "1.csv", 'id,x\n1,"1.234,5"\n')
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, **GERMAN).build(num_workers=1)
    write(tmp_path / "in", "2.csv", "id,x\n2,2.5\n")
    appended = Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, decimal=".")
    with pytest.raises(InputError, match=r"thousands is '\.'.* built with --decimal , --thousands \."):
        bd.append("ds", appended, data_dir=tmp_path)


@pytest.mark.slow
def test_options_are_those_of_one_format(tmp_path):
    """JSON lines have no options of the CSV files of the published version."""
    write(tmp_path / "in", "1.csv", "x;y\nü;1,5\n")
    Csv(
        name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, delimiter=";", decimal=",", features={"y": "drop"}
    ).build(num_workers=1)
    write(tmp_path / "in", "2.jsonl", '{"x": "é"}\n')
    directory, notes = append_quietly(
        Jsonl(name="ds", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path), tmp_path, on_duplicate="keep_old"
    )
    assert sorted(row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")) == [
        b"\xc3\xa9",
        b"\xc3\xbc",
    ]
    assert not [note for note in notes if "options" in note]


@pytest.mark.parametrize(
    "options, first, more, expected",
    [
        (
            {"columns": "id,v", "skip_header": True},
            "a,b\n1,2\n",
            ("id,v\n3,30\n4,40\n", {}),
            [(1, 2), (3, 30), (4, 40)],
        ),
        (
            {"columns": "id,v", "skip_header": True},
            "a,b\n1,2\n",
            ("3,30\n4,40\n", {"columns": "id,v"}),
            [(1, 2), (3, 30), (4, 40)],
        ),
        ({"columns": "id,v"}, "1,2\n", ("v,id\n300,3\n", {}), [(1, 2), (3, 300)]),
        ({"encoding": "latin-1"}, "id,v\n1,ü\n", ("id,v\n3,é\n", {}), [(1, "ü".encode()), (3, "é".encode())]),
    ],
)
def test_options_of_one_file_are_not_those_of_others(tmp_path, options, first, more, expected):
    """Names of columns, skipped headers and encodings: they left out rows, swapped columns and changed text."""
    write(tmp_path / "in", "1.csv", first, options.get("encoding", "utf-8"))
    Csv(name="ds", pattern=f"{tmp_path}/in/1.csv", data_dir=tmp_path, **options).build(num_workers=1)
    text, given = more
    write(tmp_path / "in", "2.csv", text)
    directory, _ = append_quietly(Csv(name="ds", pattern=f"{tmp_path}/in/2.csv", data_dir=tmp_path, **given), tmp_path)
    rows = bd.builder_from_directory(directory).as_dataset("train")
    assert sorted((row["id"], row["v"]) for row in rows) == expected


def test_a_build_without_options_records_that(tmp_path):
    """An older inputs.json, without options, is valid."""
    write(tmp_path / "in", "1.csv", "id,x\n1,1.5\n")
    directory = Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path).build(num_workers=1)
    content = recorded(directory)
    assert content.keys() == {"files", "columns", "key", "splits", "checksums", "options"}
    assert content.pop("options") == {"csv": {}}
    assert Inputs.from_text(json.dumps(content)).options == {}
    assert Inputs.from_text(json.dumps({**content, "options": ["csv"]})) is None
    assert Inputs.from_text(json.dumps({**content, "differing": ["csv"]})) is None


def appended(root, number, text, **options):
    """Appends a new CSV file to the dataset `ds`; returns (directory of the next version, texts of the warnings)."""
    write(root / "in", f"{number}.csv", text)
    return append_quietly(Csv(name="ds", pattern=f"{root}/in/*.csv", data_dir=root, **options), root)


@pytest.mark.slow
def test_options_of_an_append_are_recorded(tmp_path):
    """The next append forgot them, and stored 1.5 for 1.500."""
    write(tmp_path / "in", "1.csv", "id,x\n1,1.5\n")
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, key="id").build(num_workers=1)
    directory, _ = appended(tmp_path, 2, 'id,x\n2,"1.234,5"\n', **GERMAN)
    assert recorded(directory)["differing"] == {"csv": ["decimal", "thousands"]}
    with pytest.raises(InputError, match=r"expected --decimal and --thousands for the new files, .* got none\."):
        appended(tmp_path, 3, "id,x\n3,1.500\n")
    with pytest.raises(InputError, match=r"expected --thousands for the new files"):
        appended(tmp_path, 3, "id,x\n3,1.500\n", decimal=",")
    directory, notes = appended(tmp_path, 3, "id,x\n3,1.500\n", **GERMAN)
    assert not [note for note in notes if "options" in note]
    directory, _ = appended(tmp_path, 4, "id,x\n4,1.500\n", decimal=".", thousands="")
    rows = {row["id"]: row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")}
    assert rows == {1: 1.5, 2: 1234.5, 3: 1500.0, 4: 1.5}
    assert recorded(directory)["differing"] == {"csv": ["decimal", "thousands"]}


def test_options_given_as_their_defaults_do_not_differ(tmp_path):
    """The next append, without them, was refused."""
    write(tmp_path / "in", "1.csv", "id,x\n1,1.5\n")
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, key="id").build()
    directory, _ = appended(tmp_path, 2, "id,x\n2,2.5\n", decimal=".", thousands="", frames="error")
    assert "differing" not in recorded(directory)
    directory, _ = appended(tmp_path, 3, "id,x\n3,3.5\n")
    assert len(values(directory)) == 3


@pytest.mark.parametrize("name", DEFAULT_OPTIONS)
def test_defaults_of_options_are_those_of_the_builders(name):
    kind = TextLines if name == "keep_blank" else Csv
    states = [
        {
            attribute: value
            for attribute, value in vars(kind(pattern="x", **given)).items()
            if attribute != "_format_options"
        }
        for given in ({}, {name: DEFAULT_OPTIONS[name]})
    ]
    assert repr(states[0]) == repr(states[1])


@pytest.mark.slow
def test_options_of_the_first_files_of_a_format_are_recorded(tmp_path):
    """The published version has no file of the format."""
    write(tmp_path / "in", "1.jsonl", '{"id": 1, "x": 1.5}\n')
    Jsonl(name="ds", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path, key="id").build(num_workers=1)
    directory, _ = appended(tmp_path, 2, 'id,x\n2,"1.234,5"\n', **GERMAN)
    assert recorded(directory)["options"] == {"csv": GERMAN, "jsonl": {}}
    directory, notes = appended(tmp_path, 3, "id,x\n3,1.500\n")
    assert "new files are read with the options of 2.0.0: --decimal , --thousands ." in notes
    assert sorted(row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")) == [1.5, 1234.5, 1500]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [{"split": "train[:50%]"}, {"where": "id < 3"}, {"split": {"train": "train[1:]"}, "where": "id < 9"}]
)
def test_a_slice_has_the_options_of_its_source(tmp_path, arguments):
    write(tmp_path / "in", "1.csv", 'id,x\n1,"1,5"\n2,"2,5"\n')
    source = Csv(name="source", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, key="id", **GERMAN).build(
        num_workers=1
    )
    made = bd.materialize(source, to="ds", data_dir=tmp_path, **arguments)
    assert recorded(made)["options"] == {"csv": GERMAN}
    assert list(recorded(made)["files"]) == ["1.csv"]
    for number in (3, 4):
        text = f"id,x\n{number},1.500\n"
        write(tmp_path / "more", f"{number}.csv", text)
        builder = Csv(name="ds", pattern=f"{tmp_path}/more/*.csv", data_dir=tmp_path, key="id")
        directory, notes = append_quietly(builder, tmp_path)
        assert any(note.endswith("--decimal , --thousands .") for note in notes)
        assert not any("no readable inputs.json names its files" in note for note in notes)
        rows = {row["id"]: row["x"] for row in bd.builder_from_directory(directory).as_dataset("train")}
        assert rows[number] == 1500.0
    assert list(recorded(directory)["files"]) == ["1.csv", "3.csv", "4.csv"]


@pytest.mark.slow
def test_options_for_images_are_those_of_the_published_version(tmp_path):
    """Files with two frames, which are errors by default."""
    for number, colors in enumerate([("red", "blue"), ("green", "white")], 1):
        first, second = (Image.new("RGB", (4, 4), color) for color in colors)
        write(tmp_path / "in", f"{number}.txt", "")
        first.save(tmp_path / "in" / f"{number}.gif", save_all=True, append_images=[second])

    def builder(name, **given):
        features = {"image": "image"}
        return Jsonl(name=name, pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path, features=features, **given)

    write(tmp_path / "in", "1.jsonl", '{"image": "1.gif"}\n')
    builder("ds", frames="first", exif_orientation="apply").build(num_workers=1)
    write(tmp_path / "in", "2.jsonl", '{"image": "2.gif"}\n')
    directory, notes = append_quietly(builder("ds"), tmp_path)
    assert "new files are read with the options of 1.0.0: --exif_orientation apply --frames first" in notes
    once = builder("once", frames="first", exif_orientation="apply").build(num_workers=1)
    assert values(directory) == values(once)


def test_all_problems_of_options_are_reported_at_once(tmp_path):
    """The format and the key of one builder, and the schema of another."""
    write(tmp_path / "in", "1.csv", 'id,x\n1,"1.234,5"\n')
    Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, key="id", **GERMAN).build(num_workers=1)
    write(tmp_path / "in", "2.csv", "id,x\n2,2.5\n")
    write(tmp_path / "in", "3.jsonl", '{"id": 3, "x": 1.5, "y": [1, "a"]}\n')
    builders = [
        Csv(name="ds", pattern=f"{tmp_path}/in/*.csv", data_dir=tmp_path, decimal=".", key="x"),
        Jsonl(name="ds", pattern=f"{tmp_path}/in/*.jsonl", data_dir=tmp_path),
    ]
    with pytest.raises(InputError) as caught:
        bd.append("ds", builders, data_dir=tmp_path)
    for text in ("thousands is '.', as decimal is", "--key id", "the values do not fit one type: int"):
        assert str(caught.value).count(text) == 1, caught.value


def test_files_that_are_left_out_are_named_once(tmp_path, caplog):
    """An append lists the files once."""
    write(tmp_path / "in", "1.csv", "id,x\n1,1.5\n")
    Csv(name="ds", pattern=f"{tmp_path}/in", data_dir=tmp_path, key="id").build(num_workers=1)
    write(tmp_path / "in", "2.csv", "id,x\n2,2.5\n")
    write(tmp_path / "in", "_log.csv", "id,x\n3,3.5\n")
    caplog.clear()
    append_quietly(Csv(name="ds", pattern=f"{tmp_path}/in", data_dir=tmp_path), tmp_path)
    [text] = [text for text in caplog.messages if "left out, because" in text]
    assert text.endswith("names that begin with . or _ are hidden: " + f"{tmp_path}/in/_log.csv")


@pytest.mark.parametrize("is_same", [True, False])
def test_few_images_of_a_folder_are_appended(tmp_path, is_same):
    """So few that the append needs no Beam."""
    folders = tmp_path / "in", tmp_path / ("in" if is_same else "more")
    for number, (folder, color) in enumerate(zip(folders, ("red", "blue")), 1):
        for label in ("cat", "dog"):
            (folder / label).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), color).save(folder / label / f"{number}.png")
        builder = ImageFolder(name="ds", root=str(folder), data_dir=tmp_path)
        if number == 1:
            builder.build(num_workers=1)
        else:
            directory, _ = append_quietly(builder, tmp_path, on_duplicate="skip_identical")
    rows = bd.builder_from_directory(directory).as_dataset("train")
    names = {row["image/filename"]: (row["label"], row["image"][0, 0].tolist()) for row in rows}
    red, blue = [255, 0, 0], [0, 0, 255]
    expected = {b"cat/1.png": (0, red), b"dog/1.png": (1, red), b"cat/2.png": (0, blue), b"dog/2.png": (1, blue)}
    assert names == expected
