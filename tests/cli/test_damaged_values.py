"""Values that were published damaged: what verify, head, stats, diff and export say of the same dataset."""

import base64
import json
import re
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from beam_datasets import features as F
from beam_datasets.features import image_codec
from beam_datasets.formats import tfrecord
from beam_datasets.metadata.keys import hash_key
from tests.diffing.versions import Made
from tests.sounds import encoded, wav

PIXELS = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
PNG, JPEG = (image_codec.encode(PIXELS, kind) for kind in ("png", "jpeg"))
WAV = wav(np.arange(50, dtype=np.int16).tobytes())


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_checksums(data: bytes) -> bytes:
    """Returns a TFRecord file with the checksums of its records computed anew."""
    records, position = [], 0
    while position < len(data):
        (size,) = struct.unpack_from("<Q", data, position)
        records.append(data[position + 12 : position + 12 + size])
        position += size + 16
    return b"".join(tfrecord.frame_all(records))


def with_flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


UNPACKABLE = PNG[:33] + chunk(b"IDAT", b"no deflate") + chunk(b"IEND", b"")  # all checksums are right
HUGE = PNG[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0)) + PNG[33:]
IMAGES = {
    "whole": PNG,
    "huge": HUGE,
    "cut": PNG[:-8],
    "flipped": with_flip(PNG, 45),
    "no end": JPEG[:-2],
    "unpackable": UNPACKABLE,
}
STRUCTURE = {"huge", "cut", "flipped", "no end", "silent"}
DAMAGED = {*STRUCTURE, "unpackable", "unzipped"}
NAMES = [*IMAGES, "silent", "unzipped", "last"]
TREE = F.FeaturesDict(
    {
        "name": F.Text(),
        "image": F.Image(),
        "all": {"sounds": F.Sequence(F.Audio(lazy_decode=True))},
        "zipped": F.Tensor(shape=(3,), dtype=np.int64, encoding="zlib"),
    }
)
BYTES = F.Tensor(shape=(), dtype=np.str_)
STORED = F.FeaturesDict({"name": F.Text(), "image": BYTES, "all": {"sounds": F.Sequence(BYTES)}, "zipped": BYTES})


def examples():
    zipped = zlib.compress(np.arange(3).tobytes())
    return {
        name: {
            "name": name,
            "image": IMAGES.get(name, PNG),
            "all": {"sounds": [WAV, WAV[:-9]] if name == "silent" else [WAV]},
            "zipped": b"no deflate" if name == "unzipped" else zipped,
        }
        for name in NAMES
    }


MADE = Made(TREE, {"train": examples()}, num_shards=1, encode=F.compile_encoder(STORED))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return MADE.write(tmp_path_factory.mktemp("damaged"), "1.0.0")


@pytest.fixture(scope="module")
def places(made):
    """{name: place of the record, as messages name it}, found without the project's readers of datasets."""
    shard = next(path for path in made.iterdir() if path.suffix == ".tfrecord-00000-of-00001")
    data = shard.read_bytes()
    offsets = tfrecord.scan(data, path="").tolist()
    order = sorted(NAMES, key=lambda name: hash_key("train", name))
    for name, start, stop in zip(order, offsets, offsets[1:]):
        assert name.encode() in data[start:stop]
    return {name: f"{shard}, byte {offsets[i]} (record {i})" for i, name in enumerate(order)}


@pytest.mark.parametrize("decode", [False, True])
def test_verify(made, places, run, decode):
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    code, out, _ = run("verify", made, *["--decode"] * decode)
    found = {line.split(": ")[0]: line for line in out.splitlines() if ": value: " in line}
    damaged = DAMAGED if decode else STRUCTURE
    assert code == 1
    assert found.keys() == {places[name].rpartition("/")[2] for name in damaged}
    for name in damaged:
        line = found[places[name].rpartition("/")[2]]
        index = int(re.search(r"record (\d+)", places[name])[1])
        assert line.endswith(f"; example train[{index}], sort key {hash_key('train', name).hex()}")
        path = {"silent": "all.sounds[1]", "unzipped": "zipped"}.get(name, "image")
        assert f": {path}: " in line
    assert "value: it was published so, and --repair does not help: restore or leave it out in the source" in out
    assert "features.json" not in out
    assert f"{len(damaged)} findings in 1 file, no example is lost" in out
    code, out, _ = run("verify", made, "--repair", *["--decode"] * decode)
    assert code == 1
    assert "wrote" not in out
    assert out.count(": value: ") == len(damaged)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    content = json.loads(run("verify", made, "--json", *["--decode"] * decode)[1])
    assert {finding["kind"] for finding in content["findings"]} == {"value"}


@pytest.mark.parametrize("change", ["replaced record", "damaged record", "no manifest"])
def test_verify_does_not_blame_the_publisher_of_another_file(made, run, tmp_path, change):
    """The advice on a damaged value agrees with the finding about its file; a copy restores what it can."""
    shutil.copytree(made, tmp_path / "copy")
    shard = next((tmp_path / "copy").glob("*.tfrecord-00000-of-00001"))
    whole = shard.read_bytes()
    if change == "replaced record":
        data = whole.replace(JPEG[:-2], JPEG[:-3] + b"x")
        assert data != whole
        shard.write_bytes(with_checksums(data))
    elif change == "damaged record":
        shard.write_bytes(with_flip(whole, len(whole) - 6))
    else:
        (tmp_path / "copy" / "manifest.json").unlink()
    code, out, _ = run("verify", tmp_path / "copy")
    assert code == 1
    assert "value: it was published so" not in out
    assert "decoding: it may have been published so or not" in out
    kinds = {finding["kind"] for finding in json.loads(run("verify", tmp_path / "copy", "--json")[1])["findings"]}
    more = {"replaced record": {"replaced"}, "damaged record": {"record"}, "no manifest": {"manifest"}}[change]
    assert kinds == {"decoding"} | more
    if change != "no manifest":
        code, out, _ = run("verify", tmp_path / "copy", "--repair", "--from", made)
        assert (code, "value: it was published so" in out) == (1, True)
        assert shard.read_bytes() == whole


def test_head(made, places, run):
    code, out, err = run("head", made, "--count", 99)
    assert (code, err) == (1, "")
    assert re.findall("name: '(.*)'", out) == sorted(NAMES, key=lambda name: hash_key("train", name))
    for name, text in zip(re.findall("name: '(.*)'", out), out.split("\nexample ")[1:]):
        assert ("does not decode: " in text) == (name in DAMAGED)
        assert (places[name] in text) == (name in DAMAGED)
    assert "  all.sounds: does not decode: all.sounds" in out
    assert f"\nvalues that do not decode: in {len(DAMAGED)} of these {len(NAMES)} examples; beam-datasets verify" in out
    code, out, _ = run("head", made, "--count", 99, "--json")
    content = json.loads(out)
    assert code == 1
    assert len(content["examples"]) == len(NAMES)
    for example in content["examples"]:
        values = {"image": example["image"], "zipped": example["zipped"], "all.sounds": example["all"]["sounds"]}
        problems = {path: value["undecoded"] for path, value in values.items() if "undecoded" in value}
        assert bool(problems) == (example["name"] in DAMAGED)
        assert all(problem.startswith(path) for path, problem in problems.items())
        if not problems:
            assert base64.b64decode(example["image"]["b64"]) == IMAGES.get(example["name"], PNG)
    assert {place for place in places.values() if any(place in text for text in content["undecoded"])} == {
        places[name] for name in DAMAGED
    }
    assert len(content["undecoded"]) == len(DAMAGED)


def test_stats(made, run):
    code, out, err = run("stats", made, "--json", "--no_save")
    assert (code, err) == (0, "")
    found = json.loads(out)["slices"]["train"]["features"]
    assert {path: feature.get("damaged") for path, feature in found.items()} == {
        "name": None,
        "image": 4,
        "all.sounds": 1,
        "zipped": 1,
    }
    assert found["image"]["values"] == len(NAMES)
    assert (found["zipped"]["values"], found["zipped"]["missing"]) == (3 * (len(NAMES) - 1), 0)
    assert "4 damaged" in run("stats", made, "--no_save")[1]


def test_diff(made, places, run, tmp_path):
    """A damaged value that is stored alike is not compared; another one differs."""
    other = examples()
    other["cut"] |= {"image": PNG[:-9]}
    other["unzipped"] |= {"name": "other"}
    other["last"] |= {"image": UNPACKABLE}
    new = MADE.but(splits={"train": other}).write(tmp_path, "1.0.1")
    code, out, err = run("diff", made, new)
    assert (code, err) == (1, "")
    assert "train    9    9     6        3" in out
    assert "train: 5 examples have values that do not decode, which were compared as they are stored:" in out
    assert f"  {places['cut']}: image: " in out
    assert "    - image: does not decode: image: " in out
    assert "    - name: 'unzipped'\n    + name: 'other'\n" in out
    assert "zipped: does not" not in out.partition("MAJOR")[0].partition("train, changed")[2]
    assert "--repair" not in out
    assert json.loads(run("diff", made, new, "--json")[1])["splits"]["train"]["undecoded"] == 5
    same = MADE.write(tmp_path, "1.0.2")
    code, out, _ = run("diff", made, same)
    assert code == 0
    assert "do not decode" not in out


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset", "arrayrecord"])
def test_export(made, places, run, tmp_path, format):
    to = ["--to", tmp_path / "out", "--format", format]
    code, _, err = run("export", made, *to, "--features", "image,all")
    assert code == 1
    [name] = [name for name, place in places.items() if f"{place}: " in err]
    assert name in STRUCTURE
    assert re.search(r"\): (image|all\.sounds\[1\]): .*export the other features \(--features\)", err)
    assert not (tmp_path / "out").exists()
    if format == "jsonl":
        code, _, err = run("export", made, *to, "--features", "zipped")
        assert (code, f"{places['unzipped']}: zipped: the stored bytes" in err) == (1, True)
        assert run("export", made, *to, "--features", "name")[0] == 0


def test_a_damaged_frame_within_a_flac(run, tmp_path):
    """Its structure is whole; only decoding finds it."""
    flac = encoded(form="FLAC")
    sounds = {"whole": flac, "flipped": with_flip(flac, len(flac) // 2), "last": flac}
    tree = F.FeaturesDict({"name": F.Text(), "sound": F.Audio(lazy_decode=True)})
    encode = F.compile_encoder(F.FeaturesDict({"name": F.Text(), "sound": BYTES}))
    examples = {name: {"name": name, "sound": sound} for name, sound in sounds.items()}
    published = Made(tree, {"train": examples}, num_shards=1, encode=encode).write(tmp_path, "1.0.0")
    assert run("verify", published)[0] == 0
    code, out, _ = run("verify", published, "--decode")
    assert (code, out.count(": value: a stored value does not decode: sound: ")) == (1, 1)
    code, out, _ = run("head", published, "--count", 9)
    assert (code, out.count("does not decode: ")) == (1, 1)
    found = json.loads(run("stats", published, "--json", "--no_save")[1])["slices"]["train"]["features"]
    assert found["sound"]["damaged"] == 1
    for format in ("parquet", "jsonl", "webdataset"):
        to = ["--to", tmp_path / "out", "--format", format]
        code, _, err = run("export", published, *to)
        assert (code, "): sound: " in err, (tmp_path / "out").exists()) == (1, True, False)
    assert run("export", published, *to, "--split", "train", "--features", "name")[0] == 0


def test_check_against(made, tmp_path):
    from beam_datasets.errors import ResultKeptError
    from beam_datasets.publishing.compatibility import check

    other = examples()
    other["cut"] |= {"image": PNG[:-9]}
    new = MADE.but(splits={"train": other}).write(tmp_path, "1.0.1")
    with pytest.raises(ResultKeptError) as caught:
        check(str(made), str(new))
    assert "2 examples have values that do not decode" in str(caught.value)
    assert "--repair" not in str(caught.value)


def test_flac_that_cannot_be_decoded_here_is_named():
    """Without soundfile only the structure is checked, which must not pass for a check of the frames."""
    script = f"""if True:
        import sys
        sys.modules["soundfile"] = None
        from beam_datasets.features.stored_files import find_damage
        flac = bytes.fromhex("{encoded(form="FLAC").hex()}")
        flipped = bytearray(flac)
        flipped[len(flac) // 2] ^= 1
        assert [find_damage(bytes(data), "audio") for data in (flac, flipped, flac[:20])][:2] == [None, None]
        """
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, check=True)
    [said] = done.stderr.splitlines()
    assert re.search(r"damaged frames within FLAC files are not found: .* pip install .*\[audio\]", said), said
