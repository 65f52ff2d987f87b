"""ReadConfig and the files of an epoch."""

import dataclasses
import hashlib
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from beam_datasets.reading.config import ReadConfig, chosen_files, shuffled_files

VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/interleave.json").read_text())


@dataclass(frozen=True)
class Context:
    num_input_pipelines: int
    input_pipeline_id: int


def test_defaults_are_those_of_tfds():
    config = ReadConfig()
    assert config.cycle_length(ordered=False) == 16
    assert config.cycle_length(ordered=True) == 1
    assert config.block_length == 16
    assert config.seed == 0
    assert ReadConfig(interleave_block_length=None).block_length == 1
    assert ReadConfig(interleave_cycle_length=3).cycle_length(ordered=True) == 3


def test_takes_what_has_no_effect_here():
    config = ReadConfig(
        options=object(),
        try_autocache=False,
        skip_prefetch=True,
        num_parallel_calls_for_decode=4,
        num_parallel_calls_for_interleave_files=-1,
        override_buffer_size=1,
        assert_cardinality=False,
        file_format="tfrecord",
    )
    plain = ReadConfig()
    for ordered in (False, True):
        key = config.order_key(ordered=ordered, shuffle_files=True)
        assert key == plain.order_key(ordered=ordered, shuffle_files=True)


@pytest.mark.parametrize(
    "fields,error,message",
    [
        ({"interleave_cycle_length": 0}, ValueError, "interleave_cycle_length must be at least 1, got 0"),
        ({"interleave_block_length": -2}, ValueError, "interleave_block_length must be at least 1, got -2"),
        ({"interleave_cycle_length": 1.5}, TypeError, "interleave_cycle_length must be an int, not 1.5"),
        ({"interleave_cycle_length": True}, TypeError, "interleave_cycle_length must be an int, not True"),
        ({"shuffle_seed": "7"}, TypeError, "shuffle_seed must be an int, not '7'"),
        ({"shuffle_reshuffle_each_iteration": 2}, TypeError, "must be True or False, not 2"),
        ({"add_tfds_id": None}, TypeError, "add_tfds_id must be True or False, not None"),
        ({"repeat_filenames": True}, ValueError, r"repeat_filenames must be False, got True.*repeat\(\)"),
        ({"interleave_sort_fn": 3}, TypeError, "interleave_sort_fn must be a function"),
        ({"interleave_sort_fn": len, "experimental_interleave_sort_fn": len}, ValueError, "give one of them"),
        ({"input_context": (2, 0)}, TypeError, "must have num_input_pipelines and input_pipeline_id"),
        ({"input_context": Context(2, 2)}, ValueError, r"input_pipeline_id must be in \[0, 2\), got 2"),
        ({"no_such_field": 1}, TypeError, "no_such_field"),
    ],
)
def test_refuses(fields, error, message):
    with pytest.raises(error, match=message):
        ReadConfig(**fields)


def test_takes_numbers_and_flags_of_numpy():
    given = ReadConfig(shuffle_seed=np.int64(3), interleave_block_length=np.uint8(4), add_tfds_id=np.True_)
    assert given == ReadConfig(shuffle_seed=3, interleave_block_length=4, add_tfds_id=True)
    assert [type(value) for value in (given.shuffle_seed, given.interleave_block_length, given.add_tfds_id)] == [
        int,
        int,
        bool,
    ]
    with pytest.raises(TypeError, match="interleave_cycle_length must be an int, not"):
        ReadConfig(interleave_cycle_length=np.True_)


def test_ordering_guard():
    ReadConfig().check_order(ordered=True, shuffle_files=False)
    ReadConfig(interleave_cycle_length=1).check_order(ordered=True, shuffle_files=False)
    ReadConfig(interleave_cycle_length=4).check_order(ordered=False, shuffle_files=True)
    with pytest.raises(ValueError, match=r"shuffle_files=True reads.*enable_ordering_guard=False"):
        ReadConfig().check_order(ordered=True, shuffle_files=True)
    with pytest.raises(ValueError, match="interleave_cycle_length=16 mixes"):
        ReadConfig(interleave_cycle_length=16).check_order(ordered=True, shuffle_files=False)
    with pytest.warns(UserWarning, match="interleave_cycle_length=16 mixes"):
        ReadConfig(interleave_cycle_length=16, enable_ordering_guard=False).check_order(
            ordered=True, shuffle_files=False
        )


def test_files_are_sorted_then_chosen_then_shuffled():
    files = list(range(12))
    assert chosen_files(files, ReadConfig()) == files
    backwards = ReadConfig(interleave_sort_fn=lambda files: files[::-1], input_context=Context(4, 1))
    assert chosen_files(files, backwards) == [10, 6, 2]
    shuffled = dataclasses.replace(backwards, shuffle_seed=7)
    order = VECTORS["file_shuffle"][4]
    assert (order["num_files"], order["shuffle_seed"]) == (3, 7)
    for epoch, expected in enumerate(order["epochs"]):
        assert shuffled_files(chosen_files(files, shuffled), shuffled, epoch) == [[10, 6, 2][i] for i in expected]
    assert files == list(range(12))


def test_input_contexts_take_each_file_once():
    taken = [chosen_files(range(11), ReadConfig(input_context=Context(4, i))) for i in range(4)]
    assert sorted(itertools.chain(*taken)) == list(range(11))
    with pytest.raises(ValueError, match="3 files cannot be divided among 4 input pipelines"):
        chosen_files(range(3), ReadConfig(input_context=Context(4, 0)))
    assert chosen_files([], ReadConfig(input_context=Context(1, 0))) == []


def test_order_key_says_what_the_order_depends_on():
    config = ReadConfig(
        shuffle_seed=5, experimental_interleave_sort_fn=sorted, input_context=Context(4, 1), add_tfds_id=True
    )
    key = {"cycle": 16, "block": 16, "seed": 5, "reshuffle": 1, "files": "1 of 4"}
    assert config.order_key(ordered=False, shuffle_files=True, files=[1, 5, 9]) == key
    order = "SHA-256 " + hashlib.sha256(b"9,5,1").hexdigest()[:24]
    assert config.order_key(ordered=False, shuffle_files=True, files=[9, 5, 1]) == key | {"order": order}
    assert ReadConfig(shuffle_seed=5).order_key(ordered=True, shuffle_files=False) == {"cycle": 1, "block": 16}
