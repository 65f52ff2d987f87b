"""TFRecords that others wrote: every record whole, or an error that names file, byte and record."""

import bz2
import gzip
import random
import re
import struct
import zlib
from functools import partial

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets import slim
from beam_datasets.errors import CorruptRecordError
from beam_datasets.files.bad_rows import Bad, with_errors_as_bad_rows
from beam_datasets.files.fields import parse_field
from beam_datasets.files.inputs import Piece, find
from beam_datasets.files.rows import RowReader
from beam_datasets.files.tfrecord import decoder, rows
from beam_datasets.formats import example_pb2, tfrecord
from beam_datasets.formats.example import ExampleError, parse, serialize
from beam_datasets.formats.tfrecord import frame, masked_crc32c
from beam_datasets.intake import examples
from beam_datasets.intake.examples import check_example, lists_of, record_blocks, regularity_checker
from beam_datasets.reading.opening import builder_from_directory
from tests.facts import raises_with
from tests.native import wire

RECORD = serialize({"b": [b"x", b""], "f": np.array([1.5, -2], np.float32), "n": [1], "many": [3, -4, 500]})
KINDS = {b"b": "bytes", b"f": "float", b"n": "int64", b"many": "int64"}


# Which records are whole. The oracle reads them by a message that has no map and no oneof, so that nothing is merged.


def loose_example():
    """Returns the class of Examples whose parts may all be repeated."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="loose.proto", package="loose", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, kind in enumerate(fields, 1):
            type_name = f".loose.{kind}" if isinstance(kind, str) else ""
            of = field.TYPE_MESSAGE if type_name else kind
            repeated = field.LABEL_REPEATED
            made.field.add(name=f"f{number}", number=number, label=repeated, type=of, type_name=type_name or None)

    message("Bytes", field.TYPE_BYTES)
    message("Floats", field.TYPE_FLOAT)
    message("Ints", field.TYPE_INT64)
    message("Feature", "Bytes", "Floats", "Ints")
    message("Entry", field.TYPE_STRING, "Feature")
    message("Features", "Entry")
    message("Example", "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("loose.Example"))


LOOSE = loose_example()


def knows_all(message):
    if len(UnknownFieldSet(message)):
        return False
    inner = [one for field, values in message.ListFields() if field.message_type for one in values]
    return all(map(knows_all, inner))


def is_whole(record):
    """Returns whether protobuf reads all of a record as a tf.train.Example."""
    try:
        example_pb2.Example.FromString(record)
        loose = LOOSE.FromString(record)
    except DecodeError:
        return False
    entries = [entry for features in loose.f1 for entry in features.f1]
    names = [name for entry in entries for name in entry.f1 or [""]]
    kinds = [[len(feature.f1), len(feature.f2), len(feature.f3)] for entry in entries for feature in entry.f2]
    return (
        knows_all(loose)
        and all(len(entry.f1) < 2 and len(entry.f2) < 2 for entry in entries)
        and len(set(names)) == len(entries)
        and all(sum(map(bool, counts)) < 2 for counts in kinds)
    )


def entries(*features):
    return wire.record(wire.entry(b"abc"[i : i + 1], feature) for i, feature in enumerate(features))


N, FLOAT = wire.integers([7]), wire.floats([1.5])
WHOLE = {
    "empty": b"",
    "no features": b"\x0a\x00",
    "no features, twice": b"\x0a\x00\x0a\x00",
    "regular": RECORD,
    "not packed": entries(wire.loose_integers([1, 300]), wire.loose_floats([1.5])),
    "packed in two parts": entries(wire.field(3, wire.field(1, b"\x01") + b"\x08\x02" + wire.field(1, b"\x03"))),
    "a list in two parts": entries(wire.integers([1]) + wire.integers([2])),
    "value before name": wire.record([wire.swapped(b"a", N)]),
    "without name": wire.record([wire.field(1, wire.field(2, N))]),
    "without value": wire.record([wire.field(1, wire.field(1, b"a"))]),
    "no list": entries(b"", wire.integers([]), wire.strings([])),
    "two maps": wire.record([wire.entry(b"a", N)]) + wire.record([wire.entry(b"b", N)]),
    "long lengths": b"\x0a" + wire.long_varint(len(wire.entry(b"a", N)), 4) + wire.entry(b"a", N),
}
LOST = {
    "field 2 of the Example": RECORD + wire.field(2, b"abc"),
    "field 5 of the Example": RECORD + b"\x28\x01",
    "field 1 of the Example, a number": b"\x08\x07",
    "field 1 of the Example, 8 bytes": b"\x09" + bytes(8),
    "a group": RECORD + b"\x1b\x1c",
    "field 2 of the features": wire.field(1, wire.entry(b"a", N) + wire.field(2, b"x")),
    "field 1 of the features, a number": wire.field(1, b"\x08\x01"),
    "field 3 of an entry": wire.record([wire.entry(b"a", N, b"\x18\x01")]),
    "a name twice": wire.record([wire.field(1, wire.field(1, b"a") + wire.field(1, b"b") + wire.field(2, N))]),
    "a value twice": wire.record([wire.field(1, wire.field(1, b"a") + wire.field(2, N) + wire.field(2, FLOAT))]),
    "field 4 of a Feature": entries(N + wire.field(4, b"x")),
    "field 4 of a Feature alone": entries(b"\x20\x00"),
    "field 2 of a list of bytes": entries(wire.field(1, wire.field(1, b"x") + wire.field(2, b"y"))),
    "field 2 of a list of floats": entries(wire.field(2, wire.field(2, b"abcd"))),
    "field 2 of a list of integers": entries(wire.field(3, b"\x10\x01")),
    "a float among integers": entries(wire.field(3, wire.field(1, b"\x01") + b"\x0d" + bytes(4))),
    "two kinds": entries(N + FLOAT),
    "a name of two features": wire.record([wire.entry(b"a", N), wire.entry(b"a", FLOAT)]),
    "a name of two maps": wire.record([wire.entry(b"a", N)]) * 2,
    "a name that is not UTF-8": wire.record([wire.entry(b"\xff", N)]),
    "no message": b"\xff\xff\xff",
    "cut": RECORD[:-3],
}


def values_in(lists):
    return {name: (getattr(values, "dtype", bytes), list(map(repr, values))) for name, values in lists.items()}


def is_taken(take, record):
    try:
        take(record)
    except ExampleError:
        return False
    return True


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", [*WHOLE, *LOST])
def test_a_record_is_whole_or_refused(name, native, monkeypatch):
    if not native:
        monkeypatch.setattr(examples, "core", None)
    record = (WHOLE | LOST)[name]
    assert is_whole(record) == (name in WHOLE)
    assert is_taken(check_example, record) == (name in WHOLE)
    assert is_taken(lists_of, record) == (name in WHOLE)
    of_all = KINDS | {b"a": "int64", b"c": "bytes"}
    assert name in WHOLE or "UTF-8" in name or not regularity_checker(of_all)([RECORD, record])
    if name in WHOLE:
        assert values_in(lists_of(record)) == values_in(parse(record))


def test_any_damaged_record_is_whole_or_refused():
    rng = random.Random(7)
    some = [record for record in (WHOLE | LOST).values() if record]
    taken = 0
    for _ in range(4000):
        record = bytearray(rng.choice(some))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(record) + 1)
            record[place : place + rng.choice([0, 1, 1, 2])] = rng.choice([b"", rng.randbytes(1), rng.choice(some)[:9]])
        record = bytes(record)
        expected = is_whole(record)
        taken += expected
        assert is_taken(check_example, record) == expected, record
        assert is_taken(lists_of, record) == expected, record
        if expected:
            assert values_in(lists_of(record)) == values_in(parse(record))
    assert taken > 50


def test_regular_records_need_no_protobuf(monkeypatch):
    monkeypatch.setattr(examples, "check_example", None)
    assert [*lists_of(RECORD)] == ["b", "f", "many", "n"]
    assert regularity_checker(KINDS)([RECORD] * 3)
    assert not regularity_checker(KINDS)([RECORD, WHOLE["not packed"]])


# What a damaged file still has


SMALL = [serialize({"n": [i], "t": [b"t" * i]}) for i in range(6)]
FRAMED = [frame(record) for record in SMALL]
DATA = b"".join(FRAMED)
STARTS = np.cumsum([0, *map(len, FRAMED)]).tolist()


class Hidden:
    """A stream that notes how much was asked for at once."""

    def __init__(self, data):
        self.rest, self.most = data, 0

    def read1(self, size):
        self.most = max(self.most, size)
        part, self.rest = self.rest[:size], self.rest[size:]
        return part

    read = read1


def found_in(data):
    """Returns {number: record, or the offset and problem of a bad one}, and the error that ends the file."""
    found, end = {}, None
    try:
        for block in record_blocks(Hidden(data), "f"):
            assert len(block.offsets) == len(block.records) + 1
            found |= dict(enumerate(block.records, block.first))
            if block.problem:
                found[block.first + len(block.records)] = block.offsets[-1], block.problem
    except CorruptRecordError as error:
        end = error
    return found, end


@pytest.fixture(params=[1 << 20, 40, 1])
def read_bytes(request, monkeypatch):
    monkeypatch.setattr(examples, "READ_BYTES", request.param)


def test_whole_file(read_bytes):
    assert found_in(DATA) == (dict(enumerate(SMALL)), None)
    assert found_in(b"") == ({}, None)


def test_file_cut_at_every_byte(read_bytes):
    for stop in range(len(DATA)):
        found, end = found_in(DATA[:stop])
        whole = max(i for i, start in enumerate(STARTS) if start <= stop)
        assert found == dict(enumerate(SMALL[:whole]))
        assert (end is None) == (stop in STARTS)
        if end is not None:
            assert (end.path, end.offset, end.record) == ("f", STARTS[whole], whole)
            assert "are left" in str(end) or (stop < 12 and "expected a TFRecord file" in str(end))


def test_every_damaged_byte(read_bytes):
    for place in range(len(DATA)):
        damaged = bytearray(DATA)
        damaged[place] ^= 0x55
        found, end = found_in(bytes(damaged))
        bad = max(i for i, start in enumerate(STARTS) if start <= place)
        if place - STARTS[bad] < 12:
            assert found == dict(enumerate(SMALL[:bad]))
            assert (end.offset, end.record) == (STARTS[bad], bad)
            assert end.problem.startswith("length CRC is 0x" if bad else "expected a TFRecord file")
        else:
            offset, problem = found.pop(bad)
            assert end is None
            assert offset == STARTS[bad]
            assert problem.startswith("data CRC is 0x")
            assert found == {i: record for i, record in enumerate(SMALL) if i != bad}


def test_many_damaged_records_in_a_row():
    bad = bytearray(frame(b"x" * 8))
    bad[-1] ^= 1
    found, _ = found_in(bytes(bad) * 50_000 + DATA)
    assert [found[50_000 + i] for i in range(6)] == SMALL
    assert sum(isinstance(one, tuple) for one in found.values()) == 50_000


@pytest.mark.parametrize("length", [1 << 20, 3 << 30, 2**31, 2**63, 2**64 - 1])
def test_a_length_beyond_the_end_takes_no_memory(length):
    header = struct.pack("<Q", length)
    stream = Hidden(DATA + header + struct.pack("<I", masked_crc32c(header)) + bytes(100))
    with raises_with(CorruptRecordError, path="f", offset=STARTS[-1], record=len(STARTS) - 1):
        list(record_blocks(stream, "f"))
    assert stream.most <= 16 << 20


def test_a_record_larger_than_a_block():
    large = serialize({"t": [bytes(3 << 20)]})
    assert found_in(frame(large) + DATA + frame(large)) == (dict(enumerate([large, *SMALL, large])), None)


def test_scan_stream_takes_no_memory_for_a_length_either():
    for length in (3 << 30, 2**64 - 1):
        header = struct.pack("<Q", length)
        stream = Hidden(DATA + header + struct.pack("<I", masked_crc32c(header)) + bytes(100))
        with raises_with(CorruptRecordError, path="f", offset=STARTS[-1], record=len(STARTS) - 1):
            list(tfrecord.scan_stream(stream, "f"))
        assert stream.most <= 16 << 20


# Datasets of such files


def rows_of(path, specs):
    [file] = find(str(path))
    fields = {name: parse_field(spec) for name, spec in specs.items()}
    found = RowReader(partial(rows, decoder=partial(decoder, fields)), fields)(Piece(file))
    found = with_errors_as_bad_rows(found)
    return [str(row) if isinstance(row, Bad) else row for row in found]


@pytest.mark.parametrize("name, compress", [("a.rec", zlib.compress), ("b", gzip.compress), ("c.rec", bz2.compress)])
def test_compressed_files_of_any_name(tmp_path, name, compress):
    path = tmp_path / name
    path.write_bytes(compress(DATA))
    assert [row["n"] for _, row in rows_of(path, {"n": "int64", "t": "string"})] == [*range(6)]
    path.write_bytes(compress(DATA)[:-6])
    *_, problem = rows_of(path, {"n": "int64", "t": "string"})
    assert problem.startswith(f"{path}, byte ")
    assert "cut off" in problem


def test_records_before_the_end_of_a_cut_stream(tmp_path):
    (tmp_path / "a").write_bytes(zlib.compress(DATA, 0)[: STARTS[3] + 20])  # level 0 stores them as they are
    *found, problem = rows_of(tmp_path / "a", {"n": "int64", "t": "string"})
    assert [row["n"] for _, row in found] == [0, 1, 2]
    assert "expected the end of the zlib stream, got the end of the file" in problem


def test_what_begins_like_zlib_and_is_none(tmp_path):
    (tmp_path / "a").write_bytes(b"x\x9c some other text")
    [problem] = rows_of(tmp_path / "a", {"n": "int64"})
    assert "expected a TFRecord file" in problem


def test_a_damaged_record_is_a_bad_row(tmp_path):
    data = bytearray(DATA)
    data[STARTS[2] + 14] ^= 1
    (tmp_path / "a").write_bytes(data[:-3])
    found = rows_of(tmp_path / "a", {"n": "int64", "t": "string"})
    assert [row[1]["n"] for row in found if not isinstance(row, str)] == [0, 1, 3, 4]
    assert found[2].startswith(f"{tmp_path}/a, byte {STARTS[2]} (record 2): data CRC is 0x")
    assert found[5].startswith(f"{tmp_path}/a, byte {STARTS[5]} (record 5): the record has ")


def test_records_without_features(tmp_path):
    path = tmp_path / "a"
    some = [b"", b"\x0a\x00", SMALL[0], b"", SMALL[1]]
    path.write_bytes(b"".join(map(frame, some)))
    found = rows_of(path, {"n": "int64?", "t": "string?"})
    assert [(key, row["n"]) for key, row in found] == [
        ("a:0", None),
        ("a:1", None),
        ("a:2", 0),
        ("a:3", None),
        ("a:4", 1),
    ]
    assert rows_of(path, {"n": "int64", "t": "string"})[1].startswith(f"{path}, byte 16 (record 1): 'n': the value is")
    path.write_bytes(frame(b"") * 3)
    [problem] = rows_of(path, {"n": "int64?"})
    assert problem.startswith(f"{path}: expected tf.train.Examples with features, got none in any of 3 records.")


def sequence_example(number):
    record = example_pb2.SequenceExample()
    record.context.feature["label"].int64_list.value.append(number)
    for step in range(number):
        record.feature_lists.feature_list["frames"].feature.add().float_list.value.extend([step, step + 0.5])
    return record.SerializeToString()


CLIPS = [sequence_example(number) for number in (0, 2, 3)]
SCENARIO = wire.field(5, b"scenario") + b"\x09" + bytes(8)  # as of another .proto


def test_builds(files, tmp_path):
    """Builds of records that are not Examples: the errors, and the records that --skip_bad leaves out."""
    files.write("a.rec", b"".join(map(frame, CLIPS)))
    problem = files.fails("tfrecord")
    expected = "byte 34 (record 1): the record is not a tf.train.Example: it is a tf.train.SequenceExample with the "
    assert f"{files.folder}/a.rec, {expected}feature lists 'frames'. Read it in a builder of your own by " in problem
    files.write("a.rec", DATA + frame(SCENARIO))
    files.write("b.rec", DATA[:-3])
    features = F.FeaturesDict({"n": np.int64, "t": F.Text()})
    known = files.folder.parent / "features.json"
    known.write_text(F.to_json_text(features))
    for options in ([], [f"--features_json={known}"]):
        assert f"a.rec, byte {STARTS[-1]} (record 6): the record is not a" in files.fails("tfrecord", *options)
        made = files.read("tfrecord", "--skip_bad", *options)
        said = files.said()
        assert sorted(int(one["n"]) for one in made if one["n"]) == [1, 1, 2, 2, 3, 3, 4, 4, 5]
        assert "another message: its field 5 at byte 2 is unknown" in said
        assert f"b.rec, byte {STARTS[5]} (record 5): the record has" in said
    files.write("a.rec", frame(b"") * 2)
    (files.folder / "b.rec").unlink()
    assert "a.rec: expected tf.train.Examples with features, got none in any of 2 records" in files.fails("tfrecord")


FRAMES = slim.TFSequenceExampleDecoder(
    {"label": slim.FixedLen((), "int64")},
    {"frames": slim.FixedLenSequence((2,), "float32", allow_missing=True)},
    {"label": slim.Tensor("label"), "frames": slim.Tensor("frames")},
)


class Clips(bd.GeneratorBasedBuilder):
    """The builder that the error about SequenceExamples advises."""

    VERSION = bd.Version("1.0.0")
    path = ""

    def _info(self):
        frames = F.Sequence(F.Tensor(shape=(2,), dtype=np.float32))
        return bd.DatasetInfo(builder=self, features={"label": np.int64, "frames": frames})

    def _split_generators(self):
        return {"train": bd.SourceUnits([self.path], read_clips)}


def read_clips(path):
    for place, record in slim.TFRecordReader().records(path):
        label, frames = FRAMES.decode(record, ["label", "frames"])
        yield f"{path}:{place.number}", {"label": label, "frames": frames}


def test_sequence_examples_are_read_as_advised(tmp_path, monkeypatch):
    monkeypatch.setattr(Clips, "path", str(tmp_path / "clips"))
    (tmp_path / "clips").write_bytes(b"".join(map(frame, CLIPS)))
    Clips(data_dir=tmp_path / "out").build(num_workers=1)
    found = {
        int(one["label"]): one["frames"].tolist() for one in bd.load("clips", split="train", data_dir=tmp_path / "out")
    }
    assert found == {0: [], 2: [[0, 0.5], [1, 1.5]], 3: [[0, 0.5], [1, 1.5], [2, 2.5]]}


def test_only_empty_lists_need_a_type(files):
    files.write("a.rec", b"".join(frame(serialize({"n": [i], "x": []})) for i in range(3)))
    problem = files.fails("tfrecord")
    assert f"feature 'x' holds only empty lists in the records of {files.folder}/a.rec; say" in problem
    for advice in re.findall(r"--feature ('x=[^']*'|x=\w+)", problem):
        made = files.read("tfrecord", f"--feature={advice.strip(chr(39))}")
        assert sorted(int(one["n"]) for one in made) == [0, 1, 2]
        assert all(len(one.get("x", ())) == 0 for one in made)


def test_a_nested_key_of_known_features(files, tmp_path):
    features = F.FeaturesDict({"user": {"id": np.int64, "name": F.Text()}, "n": np.int64})
    encode = F.compile_encoder(features)
    files.write("a.rec", b"".join(frame(encode({"user": {"id": 7 + n, "name": "x"}, "n": n})) for n in range(5)))
    known = tmp_path / "features.json"
    known.write_text(F.to_json_text(features))
    for key in ("user.id", "user/id"):
        published = builder_from_directory(files.build("tfrecord", f"--features_json={known}", f"--key={key}"))
        dataset = published.as_dataset("train")
        assert [int(dataset[dataset.find(7 + n)]["n"]) for n in range(5)] == list(range(5))
    assert "key 'user.no' is not in the features; they have " in files.fails(
        "tfrecord", f"--features_json={known}", "--key=user.no"
    )
