"""Random corruptions of a dataset, and what they damage; tests of `verify` find them, others repair or report them."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from beam_datasets.formats import tfrecord
from beam_datasets.formats.index import Index
from beam_datasets.metadata.manifest import Manifest
from tests.published import edit_json


class Damaged(NamedTuple):
    """The files that were damaged; finding one of each group is enough."""

    groups: list[set[str]]


Corrupt = Callable[[Path, random.Random], Damaged]


def of(*names: str) -> Damaged:
    return Damaged([{name} for name in names])


def shards(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if ".tfrecord-" in path.name and path.suffix != ".index")


def checked_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name != "run.json")


def index_of(shard: Path) -> Path:
    return shard.with_name(shard.name + ".index")


def records(shard: Path) -> list[bytes]:
    offsets = tfrecord.scan(shard.read_bytes(), path=str(shard))
    return [bytes(record) for record in tfrecord.unframe(shard.read_bytes(), offsets, path=str(shard))]


def write_records(shard: Path, content: list[bytes]) -> None:
    shard.write_bytes(b"".join(map(tfrecord.frame, content)))


def other_than(value: int, rng: random.Random) -> int:
    return value + rng.choice([-1, 1, 7])


# ------------------------------------------------------------------------------------------------- what can go wrong


def flip(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(checked_files(directory))
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return of(path.name)


def flip_in_shard(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(shards(directory))
    content = bytearray(path.read_bytes())
    for place in rng.sample(range(len(content)), rng.randint(1, 5)):
        content[place] ^= rng.randrange(1, 256)
    path.write_bytes(content)
    return of(path.name)


def cut(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(checked_files(directory))
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])
    return of(path.name)


def cut_between_records(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(shards(directory))
    whole = records(path)
    write_records(path, whole[: rng.randrange(len(whole))])
    return of(path.name)


def append(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice([path for path in checked_files(directory) if path.suffix != ".json" or path.name < "features"])
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 100)))
    return of(path.name)


def change_records(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(shards(directory))
    whole = records(path)
    here = rng.randrange(len(whole) - 1)
    action = rng.choice(["drop", "double", "swap", "append", "another"])
    if action == "drop":
        del whole[here]
    elif action == "double":
        whole.insert(here, whole[here])
    elif action == "swap":
        whole[here], whole[here + 1] = whole[here + 1], whole[here]
    elif action == "append":
        whole.append(whole[here])
    else:
        whole[here] = whole[here][:-1] + bytes([whole[here][-1] ^ 1])
    write_records(path, whole)
    return of(path.name)


def zero_a_stretch(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(shards(directory))
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content) - 64)
    content[start : start + 64] = bytes(64)
    path.write_bytes(content)
    return of(path.name)


def swap_shards(directory: Path, rng: random.Random) -> Damaged:
    one, other = rng.sample(shards(directory), 2)
    swap(one, other)
    if rng.random() < 0.5:
        swap(index_of(one), index_of(other))
    return of(one.name, other.name)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def stale_index(directory: Path, rng: random.Random) -> Damaged:
    one, other = rng.sample(shards(directory), 2)
    path = index_of(one)
    index = Index.from_bytes(path.read_bytes(), path="")
    action = rng.choice(["of another", "shifted", "short", "no keys", "other keys"])
    offsets, keys = np.array(index.offsets), np.array(index.keys)
    if action == "of another":
        shutil.copy(index_of(other), path)
    elif action == "shifted":
        offsets[rng.randrange(1, len(offsets) - 1)] += 1
        path.write_bytes(Index(offsets, keys, unsorted=True).to_bytes())
    elif action == "short":
        path.write_bytes(Index(offsets[:-1], keys[:-1], unsorted=True).to_bytes())
    elif action == "no keys":
        path.write_bytes(Index(offsets).to_bytes())
    else:
        keys[-1, -1] ^= 1
        path.write_bytes(Index(offsets, keys, unsorted=True).to_bytes())
    return of(path.name)


def edit_info(directory: Path, rng: random.Random) -> Damaged:
    def change(info: dict[str, object]) -> None:
        split = rng.choice(info["splits"])  # type: ignore[arg-type]
        if rng.random() < 0.3:
            split["numBytes"] = str(other_than(int(split["numBytes"]), rng))
        else:
            shard = rng.randrange(len(split["shardLengths"]))
            split["shardLengths"][shard] = str(other_than(int(split["shardLengths"][shard]), rng))

    edit_json(directory / "dataset_info.json", change)
    return of("dataset_info.json")


def edit_manifest(directory: Path, rng: random.Random) -> Damaged:
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    column = rng.choice(["num_examples", "num_bytes", "file_bytes", "crc32c", "index_crc32c"])
    entries = rng.choice(list(content["splits"].values()))[column]
    shard = rng.randrange(len(entries))
    entries[shard] = f"{rng.randrange(1 << 32):08x}" if "crc" in column else other_than(entries[shard], rng)
    path.write_text(json.dumps(content, indent=1))
    return of("manifest.json")


def edit_manifest_with_digest(directory: Path, rng: random.Random) -> Damaged:
    """Makes a manifest that is whole by itself, but not of this dataset."""
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    split = rng.choice(list(content["splits"]))
    column = rng.choice(["num_examples", "num_bytes", "crc32c", "index_crc32c"])
    entries = content["splits"][split][column]
    shard = rng.randrange(len(entries))
    entries[shard] = f"{rng.randrange(1 << 32):08x}" if "crc" in column else other_than(entries[shard], rng)
    path.write_text(Manifest._from_json(content).to_text())
    name = f"ds-{split}.tfrecord-{shard:05d}-of-{len(entries):05d}"
    return Damaged([{"manifest.json", "dataset_info.json", name, f"{name}.index"}])


def remove(directory: Path, rng: random.Random) -> Damaged:
    path = rng.choice(checked_files(directory))
    path.unlink()
    return of(path.name)


def add(directory: Path, rng: random.Random) -> Damaged:
    shard = rng.choice(shards(directory))
    count = len(list(directory.glob(f"{shard.name[:8]}*.index")))
    name = rng.choice(
        [
            f"ds-train.tfrecord-{4:05d}-of-{4:05d}",
            f"ds-valid.tfrecord-{0:05d}-of-{1:05d}",
            f"other-train.tfrecord-{0:05d}-of-{count:05d}",
            shard.name.replace("-of-0000", "-of-0001"),
            f".tmp-{rng.randbytes(16).hex()}",
        ]
    )
    name += rng.choice(["", ".index"]) if not name.startswith(".tmp-") else ""
    shutil.copy(shard, directory / name)
    return of(name)


ALL: list[Corrupt] = [
    flip, flip_in_shard, cut, cut_between_records, append, change_records, zero_a_stretch, swap_shards, stale_index,
    edit_info, edit_manifest, edit_manifest_with_digest, remove, add,
]  # fmt: skip
OF_TFDS: list[Corrupt] = [flip_in_shard, cut, cut_between_records, zero_a_stretch, edit_info, remove, add]
