"""Steps on many items at once, against the same one by one."""

from typing import Any

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.errors import FeatureError
from beam_datasets.features.stacking import stack
from beam_datasets.formats.example import serialize
from beam_datasets.reading.blocks import sizes
from beam_datasets.reading.decoding import Batch, Decode, Maker, Map, Raw, compose, compose_many
from tests.strategies import assert_equal

FEATURES = F.FeaturesDict({"id": np.int64, "text": F.Text(), "numbers": F.Sequence(np.float32)})
RECORDS = [serialize({"id": [i], "text": [b"x" * i], "numbers": np.full(i % 3, 0.5, np.float32)}) for i in range(300)]
PAIRS = [(b"shard__%d" % i, record) for i, record in enumerate(RECORDS)]


def doubled(example: Any) -> Any:
    return {**example, "id": 2 * example["id"]}


STEPS: list[tuple[Any, list[Any]]] = [
    ((Raw(),), RECORDS),
    ((Raw(with_ids=True),), PAIRS),
    ((Decode(FEATURES),), RECORDS),
    ((Decode(FEATURES), Map(doubled)), RECORDS),
    ((Decode(FEATURES, with_ids=True),), PAIRS),
    ((Decode(FEATURES, with_ids=True, supervised_keys=("text", "id")), Map(list)), PAIRS),
    ((Decode(FEATURES, supervised_keys=({"a": "text"}, "id")),), RECORDS),
    ((Decode(F.FeaturesDict({"id": np.int64, "nested": F.Dataset({"a": np.int64})})),), RECORDS),
]


def assert_alike(got: Any, want: Any) -> None:
    if isinstance(want, (list, tuple)):
        assert (type(got), len(got)) == (type(want), len(want))
        for a, b in zip(got, want):
            assert_alike(a, b)
    else:
        assert_equal(got, want)


@pytest.mark.parametrize("steps, items", STEPS)
@pytest.mark.parametrize("count", [0, 1, 7, 256, 300])
def test_many_items_are_as_each(steps: Any, items: list[Any], count: int) -> None:
    each = compose(steps)
    assert_alike(compose_many(steps)(items[:count]), [each(item) for item in items[:count]])


@pytest.mark.parametrize("place", [0, 100, 299])
def test_the_error_is_that_of_the_bad_item(place: int) -> None:
    steps = (Decode(FEATURES), Map(doubled))
    bad = serialize({"id": [place, place], "text": [b""]})
    records = [*RECORDS[:place], bad, *RECORDS[place + 1 :]]
    with pytest.raises(FeatureError, match="^id: ") as one:
        compose(steps)(bad)
    with pytest.raises(FeatureError) as many:
        compose_many(steps)(records)
    assert str(many.value) == str(one.value)


@pytest.mark.parametrize("steps, items", STEPS[2:-1])
def test_batches_are_stacked_examples(steps: Any, items: list[Any]) -> None:
    each = compose(steps)
    batch = Batch(steps, pad=True).compile()
    assert_alike(batch(items[:20]), stack([each(item) for item in items[:20]], pad=True))


def test_a_block_is_decoded_at_once_and_not_all_of_a_long_list() -> None:
    maker = Maker.of((Raw(),))
    lengths = list(map(len, maker.make(iter([RECORDS]), sizes(100_000))))
    assert (lengths[:3], max(lengths)) == ([1, 2, 2], 2)
    assert list(map(len, maker.make(iter([RECORDS]), sizes(10)))) == [1, 8, 64, 227]
