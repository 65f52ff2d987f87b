"""Every builder module of the installed TFDS, with only its imports replaced, against TFDS itself."""

from __future__ import annotations

import json
import os
import random
import signal
from typing import Any

import numpy as np
import pytest

from beam_datasets import features as ours
from beam_datasets.testing import load_tfds_builder
from tests.interop.conftest import same

# What of TFDS 4.9.10 is not ported, and why; or what TFDS itself cannot describe here.
KNOWN: dict[str, str] = {}
OFFLINE = (
    "FailedPrecondition",
    "No such file",
    "NotFoundError",
    "gs://",
    "wmt_translate does not have",
    "MissingDepend",
)
PARTS = 8
CONFIGS = 2


def value_for(feature: Any, rng: random.Random) -> Any:
    """Returns a random value that a feature of TFDS takes; None where none is made here."""
    name = type(feature).__name__
    if name in ("FeaturesDict", "Translation"):
        found = {key: value_for(child, rng) for key, child in feature.items()}
        return None if any(value is None for value in found.values()) else found
    if name in ("Sequence", "Dataset"):
        count = feature._length or rng.randrange(1, 4)
        items = [value_for(feature.feature, rng) for _ in range(count)]
        return None if any(item is None for item in items) else items
    if name == "Text":
        return rng.choice(["", "a", "naïve text", "x" * 300])
    if name == "ClassLabel":
        return rng.randrange(feature.num_classes) if feature.num_classes else None
    if name == "BBoxFeature":
        return [0.0, 0.25, 0.5, 1.0]
    if name not in ("Tensor", "Scalar"):
        return None
    shape = tuple(size or rng.randrange(1, 4) for size in feature.shape)
    dtype = np.dtype(feature.np_dtype)
    if dtype.kind in "OSU":
        return np.array([b"some bytes"] * int(np.prod(shape)), object).reshape(shape) if shape else b"some bytes"
    if dtype.kind not in "biuf" or int(np.prod(shape)) > 100_000:
        return None
    return np.array([rng.randrange(2) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)


def compared(tfds: Any, name: str) -> str:
    """Returns what differs between TFDS's builder and the ported one; '' for nothing."""
    from google.protobuf import json_format
    from tensorflow_datasets.core import example_parser, example_serializer

    theirs = tfds.builder_cls(name)
    ported = load_tfds_builder(theirs.__module__, theirs.__name__)
    configs = list(theirs.builder_configs) or [None]
    for config in dict.fromkeys([*configs[: CONFIGS - 1], configs[-1]]):
        wanted = theirs(config=config, data_dir="/nowhere").info
        builder = ported(config=config, data_dir="/nowhere")
        got = builder.info
        for field in ("version", "description", "citation", "supervised_keys", "disable_shuffling", "config_name"):
            mine, other = (getattr(info, field) for info in (got, wanted))
            if (str(mine) if field == "version" else mine or None) != (
                str(other) if field == "version" else other or None
            ):
                return f"{config}: {field} is {mine!r:.200}, in TFDS {other!r:.200}"
        text = json_format.MessageToJson(wanted.features.to_proto(), sort_keys=True)
        mine_json = json.loads(ours.to_json_text(got.features))
        if mine_json != json.loads(text):
            return f"{config}: features are {mine_json}, in TFDS {text}"
        example = value_for(wanted.features, random.Random(name))
        if example is not None:
            spec = wanted.features.get_serialized_info()
            record = example_serializer.ExampleSerializer(spec).serialize_example(
                wanted.features.encode_example(example)
            )
            written = ours.compile_encoder(got.features)(example)
            parser = example_parser.ExampleParser(wanted.features.get_tensor_spec() and spec)
            for data in (record, written):
                decoded = wanted.features.decode_example(parser.parse_example(data))
                same(ours.compile_decoder(got.features)(data), next(iter(tfds.as_numpy([decoded]))))
    return ""


def in_child(tfds: Any, name: str) -> str:
    """Returns what `compared` says in a process of its own, or the error."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            said = compared(tfds, name)
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.close(reads)
        with os.fdopen(writes, "w") as pipe:
            pipe.write(said)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"ended with status {status}"


@pytest.mark.parametrize("part", range(PARTS))
def test_builders_describe_what_they_describe_in_tfds(tfds: Any, part: int) -> None:
    import tensorflow  # noqa: F401  # once, instead of in each child

    names = tfds.list_builders(with_community_datasets=False)[part::PARTS]
    differing = {name: said for name in names if (said := in_child(tfds, name))}
    offline = {name for name, said in differing.items() if any(text in said for text in OFFLINE)}
    assert {name: said for name, said in differing.items() if name not in offline | KNOWN.keys()} == {}
    assert len(offline) < len(names) / 3
