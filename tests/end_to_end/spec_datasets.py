"""The datasets of tests/data/tfds, declared for this project: the same inputs must give the same datasets."""

import random
from pathlib import Path

import apache_beam as beam
import numpy as np

from beam_datasets import features as F
from beam_datasets.builders import BuilderConfig, DatasetBuilder
from beam_datasets.formats import example as example_format
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.info import DatasetInfo, MetadataDict
from beam_datasets.metadata.version import Version

TFDS_DATA = Path(__file__).parents[1] / "data" / "tfds"


def text_key(split: str, i: int) -> str:
    return f"{split}-{i:04d}"


def int_key(split: str, i: int) -> int:
    return i


def square_key(split: str, i: int) -> int:
    return i * i


def path_key(split: str, i: int) -> str:
    return f"dir\\sub/{i}.png"


def small(
    name_, sizes, seed, key, *, ordered=False, on_beam=False, shuffled=False, version="1.2.3", skip_registration=True
):
    """Returns a builder of examples with a number and a text."""

    class Small(DatasetBuilder, skip_registration=True):
        name = name_
        VERSION = Version(version)
        RELEASE_NOTES = {version: "small " + name_, "1.0.0": "first"}  # noqa: RUF012

        def _info(self):
            return DatasetInfo(
                builder=self,
                description=f"Dataset {name_}.\n\n    Indented second paragraph é.",
                features=F.FeaturesDict({"idx": np.int64, "name": F.Text()}),
                supervised_keys=("name", "idx"),
                homepage="https://example.org/" + name_,
                citation="@misc{x,\n  title={y}}",
                disable_shuffling=ordered,
                license="CC-BY-4.0",
                metadata=MetadataDict({"note": "hello", "n": [1, 2]}),
            )

        def _split_generators(self):
            return {split: self._generate_examples(split, n) for split, n in sizes.items()}

        def _generate_examples(self, split, n):
            rng = random.Random(f"{seed}/{split}")
            rows = [(key(split, i), {"idx": i, "name": f"{split}_{i}_" + "x" * rng.randint(0, 12)}) for i in range(n)]
            if shuffled:
                rng.shuffle(rows)
            return beam.Create(rows) if on_beam else iter(rows)

    return Small


def _stored_frames(split: str) -> dict[int, dict[str, list[bytes]]]:
    """Returns {i: stored image bytes} of spec_many: pixels are not encoded alike everywhere, so take the files."""
    path = TFDS_DATA / "spec_many" / "2.0.1" / f"spec_many-{split}.tfrecord-00000-of-00001"
    data = path.read_bytes()
    records = tfrecord.unframe(data, tfrecord.scan(data, path=str(path)), path=str(path))
    parsed = [example_format.parse(record) for record in records]
    return {int(p["nest/deep/v"][0]): {name: p[name] for name in ("image", "gray", "vid")} for p in parsed}


class SpecMany(DatasetBuilder, skip_registration=True):
    """Every kind of feature."""

    name = "spec_many"
    VERSION = Version("2.0.1")
    RELEASE_NOTES = {"2.0.1": "Many features"}  # noqa: RUF012

    def _info(self):
        return DatasetInfo(
            builder=self,
            description="Many feature types",
            supervised_keys=({"a": "image", "b": "text"}, "label"),
            features=F.FeaturesDict(
                {
                    "image": F.Image(shape=(None, None, 3), doc="an image"),
                    "gray": F.Image(shape=(3, 4, 1), encoding_format="png"),
                    "text": F.Text(),
                    "label": F.ClassLabel(names=["cat", "dog", "fish"]),
                    "n": F.ClassLabel(num_classes=5),
                    "flag": np.bool_,
                    "u8": np.uint8,
                    "u64": F.Tensor(shape=(1,), dtype=np.uint64),
                    "f16": F.Tensor(shape=(), dtype=np.float16, allow_rounding=True),
                    "f64": F.Tensor(shape=(), dtype=np.float64, allow_rounding=True),
                    "mat": F.Tensor(shape=(2, 3), dtype=np.float32),
                    "var": F.Tensor(shape=(None, 2), dtype=np.int32),
                    "zl": F.Tensor(shape=(4,), dtype=np.int16, encoding="zlib"),
                    "dyn": F.Tensor(shape=(None, None), dtype=np.uint8, encoding="bytes"),
                    "seq": F.Sequence(np.int64),
                    "toks": F.Sequence(F.Text()),
                    "rag": F.Sequence(F.Sequence(np.int64)),
                    "objs": F.Sequence({"bbox": F.BBoxFeature(), "cls": F.ClassLabel(names=["x", "y"])}),
                    "nest": {"deep": {"v": np.int64, "lab": F.ClassLabel(names=["p", "q"])}, "s": F.Text()},
                    "opt": F.Scalar(np.int64, optional=True),
                    "tr": F.Translation(["en", "fr"]),
                    "tv": F.TranslationVariableLanguages(["en", "fr", "de"]),
                    "vid": F.Video(shape=(None, 2, 2, 3)),
                    "aud": F.Audio(dtype=np.int32, sample_rate=8000),
                    "steps": F.Dataset({"r": np.float32, "o": F.Tensor(shape=(2,), dtype=np.float32)}),
                }
            ),
        )

    def _split_generators(self):
        return {"train": self._generate_examples("train", 12), "test": self._generate_examples("test", 3)}

    def _generate_examples(self, split, n):
        stored = _stored_frames(split)
        for i in range(n):
            r = np.random.RandomState(100 * (split == "test") + i)
            r.randint(0, 256, (3 + i % 2, 4, 3))  # the random numbers of `image` and `gray`, which come as stored
            r.randint(0, 256, (3, 4, 1))
            yield (
                f"{split}/{i}",
                {
                    "image": stored[i]["image"][0],
                    "gray": stored[i]["gray"][0],
                    "text": f"text é {i}",
                    "label": ["cat", "dog", "fish"][i % 3],
                    "n": -1 if i == 5 else i % 5,
                    "flag": bool(i % 2),
                    "u8": i * 7 % 256,
                    "u64": np.array([2**63 + i], np.uint64),
                    "f16": i / 3,
                    "f64": i / 7,
                    "mat": r.randn(2, 3).astype(np.float32),
                    "var": r.randint(-9, 9, (i % 4, 2)).astype(np.int32),
                    "zl": r.randint(-99, 99, 4).astype(np.int16),
                    "dyn": r.randint(0, 256, (1 + i % 2, 3)).astype(np.uint8),
                    "seq": list(range(i % 4)),
                    "toks": [f"t{j}" for j in range(i % 3)],
                    "rag": [list(range(j)) for j in range(i % 4)],
                    "objs": [{"bbox": F.BBox(0.0, 0.25, 0.5, 1.0), "cls": "y"}] * (i % 3),
                    "nest": {"deep": {"v": i, "lab": "q" if i % 2 else "p"}, "s": f"s{i}"},
                    "opt": None if i % 3 == 0 else i,
                    "tr": {"en": f"e{i}", "fr": f"f{i}"},
                    "tv": {"en": "a", "de": ["c", "b"]},
                    "vid": stored[i]["vid"],
                    "aud": np.arange(i % 5, dtype=np.int32),
                    "steps": [{"r": j / 2, "o": [j, -j]} for j in range(i % 3)],
                },
            )


class SpecMulti(DatasetBuilder, skip_registration=True):
    """Two configs, one with a version of its own."""

    name = "spec_multi"
    VERSION = Version("1.0.0")
    SUPPORTED_VERSIONS = [Version("0.9.0")]  # noqa: RUF012
    RELEASE_NOTES = {"1.0.0": "init"}  # noqa: RUF012
    BUILDER_CONFIGS = [  # noqa: RUF012
        BuilderConfig(name="small", description="small cfg", tags=["content.data-type.tabular"]),
        BuilderConfig(name="big-2.x", version=Version("3.1.4"), release_notes={"3.1.4": "pi"}, description="big cfg"),
    ]
    DEFAULT_BUILDER_CONFIG_NAME = "big-2.x"

    def _info(self):
        features = F.FeaturesDict({"id": F.Text(), "y": F.ClassLabel(names=["neg", "pos"])})
        return DatasetInfo(builder=self, description="multi", features=features)

    def _split_generators(self):
        return {"train": self._generate_examples(4 if self.builder_config.name == "small" else 11)}

    def _generate_examples(self, n):
        for i in range(n):
            yield i, {"id": f"{self.builder_config.name}-{i}", "y": i % 2}


SIZES = {"train": 23, "validation": 7, "test": 5}
# (builder, its arguments, number of shards, where it stands)
DATASETS = [
    (SpecMany, {}, None, "spec_many/2.0.1"),
    (SpecMulti, {"config": "small"}, None, "spec_multi/small/1.0.0"),
    (SpecMulti, {}, None, "spec_multi/big-2.x/3.1.4"),
    (small("spec_three", SIZES, 1, text_key), {}, 4, "spec_three/1.2.3"),
    (
        small("spec_ordered", {"train": 23, "test": 5}, 3, int_key, ordered=True, shuffled=True),
        {},
        3,
        "spec_ordered/1.2.3",
    ),
    (
        small("spec_ordered_str", {"train": 5}, 3, text_key, ordered=True, shuffled=True),
        {},
        None,
        "spec_ordered_str/1.2.3",
    ),
    (small("spec_inter", {"train": 411}, 4, int_key), {}, 20, "spec_inter/1.2.3"),
    (small("spec_path", {"train": 17}, 7, path_key, version="10.0.0"), {}, 2, "spec_path/10.0.0"),
]
# Written there by its Beam writer, which cuts elsewhere: the order over all shards is the same.
BEAM_DATASETS = [
    (
        small("spec_beam", {"train": 150, "test": 5}, 5, text_key, on_beam=True),
        {"train": 6, "test": 5},
        "spec_beam/1.2.3",
    ),
    (
        small("spec_beam_ordered", {"train": 40}, 6, square_key, on_beam=True, ordered=True),
        5,
        "spec_beam_ordered/1.2.3",
    ),
]
