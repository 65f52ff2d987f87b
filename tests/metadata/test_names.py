import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import MetadataError
from beam_datasets.metadata import names
from beam_datasets.metadata.names import DatasetName, FilenameTemplate, ShardFilename

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/names.json").read_text("utf-8"))


def cast(tagged):
    kind, value = tagged
    return float(value) if kind == "float" else value


@pytest.mark.parametrize("case", VECTORS["parse"], ids=lambda case: repr(case["input"]))
def test_parse_agrees_with_tfds(case):
    if "error" in case:
        with pytest.raises(ValueError, match=r"not a dataset name|not an argument|twice"):
            DatasetName.parse(case["input"])
        return
    expected = {key: cast(tagged) for key, tagged in case["kwargs"].items()}
    parsed = DatasetName.parse(case["input"])
    assert (parsed.namespace, parsed.name) == (case["namespace"], case["name"])
    assert (parsed.config, parsed.version) == (expected.pop("config", None), expected.pop("version", None))
    assert parsed.kwargs == expected
    assert [type(value) for value in parsed.kwargs.values()] == [type(value) for value in expected.values()]


CONFIGS = st.from_regex(r"[a-z+\-.]*[a-z]", fullmatch=True)
VALUES = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False), st.from_regex(r"[g-m]{1,5}", fullmatch=True)
)


@given(
    st.builds(
        DatasetName,
        st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True),
        st.none() | CONFIGS,
        st.none() | st.from_regex(r"([0-9]|\*)\.([0-9]|\*)\.([0-9]|\*)", fullmatch=True),
        st.dictionaries(st.from_regex(r"k[a-z]*", fullmatch=True), VALUES, max_size=3),
        st.none() | st.from_regex(r"[a-z\-]+", fullmatch=True),
    )
)
def test_parse_reads_what_is_written(name):
    assert DatasetName.parse(str(name)) == name


@pytest.mark.parametrize("config", ["..", ".", "..."])
def test_a_config_cannot_climb(config):
    with pytest.raises(ValueError, match="not a config name"):
        DatasetName.parse(f"ds/{config}")


def test_long_garbage_is_refused_fast():
    with pytest.raises(ValueError, match="not a dataset name"):
        DatasetName.parse("ds/" + "a=b" * 10_000 + ",!")


def test_checks_of_single_names():
    assert names.check_dataset_name("a_1") == "a_1"
    assert names.check_config_name("big-2.x") == "big-2.x"
    for check in (names.check_dataset_name, names.check_config_name):
        for bad in ("a/b", "", "a b", "a\n"):
            with pytest.raises(ValueError, match=r"is not a (dataset|config) name; needed"):
                check(bad)


@pytest.mark.parametrize("case", VECTORS["split_name_errors"], ids=lambda case: repr(case["split"]))
def test_split_names(case):
    if "error" in case:
        with pytest.raises(ValueError, match="at least one letter or digit"):
            names.check_split_name(case["split"])
    else:
        assert names.check_split_name(case["split"]) == case["split"]


@pytest.mark.parametrize("bad", ["a/b", "a\\b", "../a", "a\0", "a\n"])
def test_a_split_cannot_climb(bad):
    with pytest.raises(ValueError, match="becomes part of a file name"):
        names.check_split_name(bad)


@pytest.mark.parametrize("bad", ["all", "ALL", "All"])
def test_all_is_reserved_for_writing(bad):
    with pytest.raises(ValueError, match="means every split"):
        names.check_split_name(bad, reserved=["all"])


def test_camel_to_snake():
    for camel, snake in VECTORS["camel_to_snake"].items():
        assert names.camel_to_snake(camel) == snake


@pytest.mark.parametrize("case", VECTORS["filename_info"], ids=lambda case: case["filename"])
def test_filenames_are_parsed(case):
    assert ShardFilename.is_valid(case["filename"]) is case["is_valid"]
    if "error" in case:
        with pytest.raises(ValueError, match="is not a shard"):
            ShardFilename.parse(case["filename"])
        return
    parsed = ShardFilename.parse(case["filename"])
    keys = ("dataset_name", "split", "filetype_suffix", "shard_index", "num_shards")
    assert parsed == ShardFilename(*[case[key] for key in keys])
    assert str(parsed) == case["str"]


@pytest.mark.parametrize("case", VECTORS["templates"], ids=str)
def test_templates(case):
    def filename():
        template = FilenameTemplate("ds", "train", template=case["template"] or names.DEFAULT_FILENAME_TEMPLATE)
        return template.filename(case["shard_index"], case["num_shards"])

    if "error" in case:
        with pytest.raises(
            ValueError, match=r"filename template .* (needs the number of shards|has the unknown variable)"
        ):
            filename()
    else:
        assert filename() == case["path"]


HOSTILE = [
    "../{SPLIT}",
    "/etc/{SPLIT}",
    "a/../../{SPLIT}",
    "..",
    "",
    "a//{SPLIT}",
    "s3://bucket/{SPLIT}",
    "C:{SPLIT}",
    "..\\{SPLIT}",
    "{SPLIT}\0",
    "./{SPLIT}",
    "{SPLIT.__class__}",
    "{{SPLIT}}",
    "{SPLIT",
]


@pytest.mark.parametrize("template", HOSTILE, ids=repr)
def test_a_hostile_template(template):
    with pytest.raises(MetadataError, match="filename template"):
        FilenameTemplate("ds", "train", template=template)


@pytest.mark.parametrize(
    "values", [("../x", "train"), ("ds", "a/b"), ("ds", "..\\b"), ("ds", "train", "x/y")], ids=repr
)
def test_hostile_values(values):
    with pytest.raises(MetadataError, match="would lead out"):
        FilenameTemplate(*values)


def test_braces_in_a_value_mean_nothing():
    assert FilenameTemplate("ds", "{0.x}{SPLIT}", template="{SPLIT}").filename(0) == "{0.x}{SPLIT}"


def test_values_cannot_make_a_step_up():
    with pytest.raises(MetadataError, match="could lie outside"):
        FilenameTemplate("ds", "..", template="{SPLIT}/{SHARD_INDEX}")


def test_filenames_of_many_shards():
    filenames = FilenameTemplate("ds", "train").filenames(100_000)
    assert len(filenames) == 100_000
    assert filenames[42] == "ds-train.tfrecord-000042-of-100000"
    assert filenames[-1] == "ds-train.tfrecord-099999-of-100000"
    assert filenames[1:3] == ["ds-train.tfrecord-000001-of-100000", "ds-train.tfrecord-000002-of-100000"]
    with pytest.raises(IndexError):
        filenames[100_000]
    assert list(filenames) == sorted(filenames)
    assert pickle.loads(pickle.dumps(filenames)) == filenames
    assert len(pickle.dumps(filenames)) < 1000


def test_several_shards_cannot_share_a_name():
    assert list(FilenameTemplate("ds", "train", template="{SPLIT}").filenames(1)) == ["train"]
    with pytest.raises(MetadataError, match=r"lacks \{SHARD_INDEX\}"):
        FilenameTemplate("ds", "train", template="{SPLIT}").filenames(2)
