"""Cases of TFDS's own tests that differ here, by the rows of docs/reference/tfds.md that document them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tfds.md"


def case(pattern: str, problem: str = "") -> Callable[[str, str], bool]:
    """Returns whether a case has a name, and a problem, that match patterns."""
    return lambda name, said: bool(re.search(pattern, name) and re.search(problem, said))


_INSIDE = "|".join(
    (
        r"core\.(naming|proto|deprecated|features\.feature)\.",
        r"core\.(dataset_builder\._|dataset_builder\.ShardBased|splits\.MultiSplit|splits\.SubSplit|utils\.version\._)",
        r"core\.utils\.file_utils\.|testing\.dummy_config_based_datasets\.",
    )
)

NOT_RUN = case("", r"testing/test_data/|No such file or directory: 'ffmpeg'|needs JAX")
"""Tests of files that the wheel does not contain, or of programs that are not here."""

DOCUMENTED: list[tuple[str, Callable[[str, str], bool]]] = [
    (
        "the module inside of TFDS that has it",
        case("", rf"no equivalent: tensorflow_datasets\.({_INSIDE})|'Name' and 'str'"),
    ),
    (
        "`save_metadata`, `save_config`, `from_json`, `from_proto`, `to_proto`",
        case("", r"attribute '(save_metadata|from_json|from_proto|to_proto|_registered_features)'"),
    ),
    (
        "`get_tensor_spec`, `TensorInfo.to_tensor_spec`, `sequence_rank`",
        case("", r"'(get_tensor_spec|to_tensor_spec|copy_from)'|sequence_rank|'_flatten'|_default_value"),
    ),
    (
        "`str` of features and instructions",
        case(r"_repr|splits_test::ReadInstructionTest::test_(add|valid)|test_split_enum"),
    ),
    ("`shape` of a `Dataset` is the shape of an item", case(r"dataset_feature_test.*/shape$")),
    ("2 for a bool is stored as True", case("test_bool_flat", "expected a bool")),
    ("bounds of a Tensor are not checked", case("test_shape_static", "outside the feature's bounds")),
    ("a missing optional value is read as", case("optional_feature_test", "here None, in TFDS")),
    ("an audio file with other channels", case("test_number_of_channels_is_changed", "channels, as in the feature")),
    (
        "16-bit images need OpenCV",
        case("test_cannot_decode_16_bit|test_fail_if_neither_opencv", "not raised|DID NOT RAISE"),
    ),
    ("`encode_example` of a sequence of sequences", case("test_encoding")),
    ("`decode_example` of uint64 accepts the int64 of the record", case("test_uint64_roundtrip")),
    (
        "errors are AssertionError, RuntimeError, KeyError",
        case(
            "test_(empty_split|with_unsupported_version|generate_old_versions|invalid_comparison)|"
            "optional_feature_test.*test_dict"
        ),
    ),
    ("a split with two units uses the unit of the left boundary", case("test_shard_api", "the same unit")),
    ("reading an empty selection fails", case("test_nodata_instruction", "not raised|DID NOT RAISE")),
    ("`shuffle_files` without a seed", case("ReaderTest::test_shuffle_files$", "not greater than")),
    ("`assert_cardinality`, `try_autocache`", case("test_assert_cardinality|test_autocache|test_read_config")),
    ("other texts; Python warnings", case("test_ordering_guard")),
    ("`file_instructions` contain paths", case("file_instructions", "FileInstructions")),
    ("`MultiSplitInfo`, `get_available_shards`", case("", "get_available_shards|as <no equivalent")),
    ("a DatasetInfo is created with the builder", case("test_bad_supervised_keys", "not raised|DID NOT RAISE")),
    (
        "`core.add_data_dir`, `get_reference`",
        case("", "get_reference|read_tfrecord_as_dataset|initialize_from_bucket|'_version'"),
    ),
    ("`download.GenerateMode`", case("test_reuse_cache_if_exists", "DownloadConfig")),
    ("`file_format` of a builder", case("", "unexpected keyword argument 'file_format'")),
    ("nothing is copied from TFDS's bucket", case("test_load_from_gcs")),
    ("graph mode", case("test_function_tracing")),
    ("`extra_ffmpeg_args` of a Video", case("", "extra_ffmpeg_args")),
]
