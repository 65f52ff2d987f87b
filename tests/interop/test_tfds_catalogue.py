"""Every builder module of the installed TFDS, with only its imports replaced, against TFDS itself."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest

import beam_datasets as bd
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
    if name == "TranslationVariableLanguages":
        first, *others = sorted(feature.languages)[:3]
        return {first: "naïve", **{other: ["x", ""] for other in others}}
    if name in ("Sequence", "Dataset"):
        count = feature._length or rng.randrange(1, 4)
        items = [value_for(feature.feature, rng) for _ in range(count)]
        items = items[:1] * count if "Image(shape=(None" in repr(feature) else items  # TFDS stacks them
        return None if any(item is None for item in items) else items
    if name == "Text":
        return rng.choice(["", "a", "naïve text", "x" * 300])
    if name == "ClassLabel":
        return rng.randrange(feature.num_classes) if feature.num_classes else None
    if name == "BBoxFeature":
        return ours.BBox(0.0, 0.25, 0.5, 1.0)
    if name == "Video":
        return [value_for(feature.feature, rng)] * (feature.shape[0] or 2)
    if name == "Audio" and feature._lazy_decode:  # TFDS takes files alone
        return None
    if name not in ("Tensor", "Scalar", "Image", "LabeledImage", "Audio"):
        return None
    shape = tuple(size or rng.randrange(1, 4) for size in feature.shape)
    dtype = np.dtype(feature.np_dtype)
    if name in ("Image", "LabeledImage"):
        large = int(np.prod(shape)) > 100_000
        pixels = (np.zeros(shape) if large else np.random.default_rng(rng.randrange(99)).integers(0, 2, shape)).astype(
            dtype
        )
        return pixels if dtype.kind == "f" else bytes(imagecodecs.png_encode(pixels))
    if dtype.kind in "OSU":
        return np.array([b"some bytes"] * int(np.prod(shape)), object).reshape(shape) if shape else b"some bytes"
    return np.random.default_rng(rng.randrange(99)).integers(0, 2, shape).astype(dtype)


def compared(tfds: Any, name: str) -> str:
    """Returns what differs between TFDS's builder and the ported one; '' for nothing."""
    from google.protobuf import json_format

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
            compare_records(tfds, wanted.features, got.features, example)
    return ""


def compare_records(tfds: Any, theirs: Any, mine: Any, example: Any, *, same_bytes: bool = False) -> None:
    """Asserts that records of both have the same values for both readers; maybe the same bytes but for their order."""
    import tensorflow as tf
    from tensorflow_datasets.core import example_parser, example_serializer

    spec = theirs.get_serialized_info()
    record = example_serializer.ExampleSerializer(spec).serialize_example(theirs.encode_example(example))
    written = ours.compile_encoder(mine)(example)
    if same_bytes:
        assert tf.train.Example.FromString(record) == tf.train.Example.FromString(written)
    parser = example_parser.ExampleParser(theirs.get_tensor_spec() and spec)
    for data in (record, written):
        decoded = theirs.decode_example(parser.parse_example(data))
        same(ours.compile_decoder(mine)(data), next(iter(tfds.as_numpy([decoded]))))


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


def differing(part: int) -> tuple[int, dict[str, str]]:
    """Returns the number of builders in a part of TFDS's names, and what differs by name."""
    import tensorflow  # noqa: F401  # once, instead of in each child
    import tensorflow_datasets as tfds

    names = tfds.list_builders(with_community_datasets=False)[part::PARTS]
    return len(names), {name: said for name in names if (said := in_child(tfds, name))}


@pytest.mark.parametrize("part", range(PARTS))
def test_builders_describe_what_they_describe_in_tfds(tfds: Any, part: int) -> None:
    """In a new process: TensorFlow hangs in the child of one that has already used its threads."""
    command = [sys.executable, "-m", __name__, str(part)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    count, found = json.loads(printed.splitlines()[-1])
    offline = {name for name, said in found.items() if any(text in said for text in OFFLINE)}
    assert {name: said for name, said in found.items() if name not in offline | KNOWN.keys()} == {}
    assert len(offline) < count / 3


def test_the_pages_have_the_number_of_datasets_of_tfds(tfds: Any) -> None:
    root = Path(__file__).resolve().parents[2]
    code = "import tensorflow_datasets as tfds; print(len(tfds.list_builders(with_community_datasets=False)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    count = int(process.stdout)  # of a process of its own, as other tests define builders
    assert f"TFDS has {count} ready-made datasets" in (root / "README.md").read_text(encoding="utf-8")
    page = (root / "docs" / "reference" / "tfds.md").read_text(encoding="utf-8")
    assert f"TFDS {tfds.__version__} has {count} datasets" in page


@pytest.mark.parametrize("as_files", [True, False])
def test_records_of_every_connector(tfds: Any, as_files: bool) -> None:
    """Files of images are stored unchanged by both; pixels become PNG, or JPEG of quality 95, which keeps one gray."""
    from google.protobuf import json_format

    f = tfds.features
    theirs = f.FeaturesDict(
        {
            "png": f.Image(shape=(None, None, 3)),
            "gray": f.Image(shape=(9, 7, 1)),
            "deep": f.Image(shape=(4, 4, 1), dtype=np.uint16),
            "jpeg": f.Image(shape=(16, 16, 3), encoding_format="jpeg"),
            "mask": f.LabeledImage(labels=3, shape=(5, None, 1)),
            "video": f.Video(shape=(None, 6, 8, 3)),
            "sound": f.Audio(shape=(None, 2), dtype=np.int64),
            "text": f.Text(),
            "words": f.Sequence(f.Text()),
            "languages": f.Translation(["de", "en"]),
            "bounds": f.Tensor(shape=(None, 2), dtype=np.int64),
            "bytes": f.Scalar(dtype=np.uint8),
            "wide": f.Tensor(shape=(2,), dtype=np.uint64),
            "empty": f.Tensor(shape=(0, 3), dtype=np.float32),
            "maybe": f.Scalar(dtype=np.int64, optional=True),
            "ragged": f.Sequence(f.Sequence(np.int64)),
            "steps": f.Dataset({"boxes": f.BBoxFeature(), "n": np.int32}),
            "objects": f.Sequence({"box": f.BBoxFeature(), "label": f.ClassLabel(num_classes=3)}),
        }
    )
    mine = ours.from_json_text(json_format.MessageToJson(theirs.to_proto(), sort_keys=True))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        few = int(rng.integers(3))
        text = ["", "naïve", "\0 \u2028\n\U0001f600 a/b\\"][few]
        images = {
            "png": rng.integers(0, 256, (3, 1 + few, 3)).astype(np.uint8),
            "gray": rng.integers(0, 256, (9, 7, 1)).astype(np.uint8),
            "deep": rng.integers(0, 1 << 16, (4, 4, 1)).astype(np.uint16),
            "jpeg": np.full((16, 16, 3), seed * 50, np.uint8),
            "mask": rng.integers(0, 3, (5, 1 + few, 1)).astype(np.uint8),
        }
        frames = list(rng.integers(0, 256, (1 + few, 6, 8, 3)).astype(np.uint8))
        box = ours.BBox(0.0, 0.25, 0.5, 1.0)
        example = {
            **({name: imagecodecs.png_encode(pixels) for name, pixels in images.items()} if as_files else images),
            "video": [imagecodecs.png_encode(frame) for frame in frames] if as_files else frames,
            "sound": rng.integers(-(1 << 15), 1 << 15, (few, 2)),
            "text": text,
            "words": [text] * few,
            "languages": {"de": text, "en": "x"},
            "bounds": np.array([[-(1 << 63), (1 << 63) - 1]] * few, np.int64).reshape(few, 2),
            "bytes": [0, 1, 255][few],
            "wide": np.array([0, (1 << 64) - 1], np.uint64),
            "empty": np.zeros((0, 3), np.float32),
            "maybe": None if few else seed,
            "ragged": [list(range(n)) for n in range(few)],
            "steps": [{"boxes": box, "n": n} for n in range(few)],
            "objects": [{"box": box, "label": n} for n in range(few)],
        }
        compare_records(tfds, theirs, mine, example, same_bytes=as_files)


if __name__ == "__main__":
    print(json.dumps(differing(int(sys.argv[1]))))


@pytest.mark.parametrize(
    "declared",
    [
        [],
        [("a", None), ("b", None)],
        [("a", "1.0.0"), ("b", "1.0.0")],
        [("a", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0")],
        [("a", "1.0.0"), ("a", "1.0.0")],
        [("a", "1.0.0"), ("a", None), ("b", None)],
        [("a", "1.0.0"), ("a", "2.0.0"), ("b", None)],
        [("a", None), ("a", "3.0.0")],
    ],
)
def test_builder_configs_of_a_class(tfds: Any, declared: list[tuple[str, str | None]]) -> None:
    def configs_of(library: Any, base: Any, config: Any) -> Any:
        versions = [(name, version and library.Version(version)) for name, version in declared]
        attributes = {
            "VERSION": library.Version("3.0.0"),
            "BUILDER_CONFIGS": [config(name=name, version=version) for name, version in versions],
        }
        made = types.new_class(
            "_Configured", (base,), {"skip_registration": True}, lambda body: body.update(attributes)
        )
        try:
            return [(key, value.name) for key, value in made.builder_configs.items()]
        except ValueError:
            return ValueError

    theirs = configs_of(tfds.core, tfds.core.GeneratorBasedBuilder, tfds.core.BuilderConfig)
    assert configs_of(bd, bd.DatasetBuilder, bd.BuilderConfig) == theirs
