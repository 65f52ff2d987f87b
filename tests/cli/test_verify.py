"""`beam-datasets verify`: exit codes, what it prints, and which options go together."""

import io
import json
import random
import sys

import pytest

from beam_datasets.cli.printing import bytes_bar
from tests.directories import contents
from tests.published import flip
from tests.verifying import corruptions

SHARD = "ds-train.tfrecord-00001-of-00004"
REFUSAL = "only a good copy can restore it: give one by --from, or generate a new version"


def test_a_whole_dataset(published, run):
    for args in ([published], ["ds:1.*.*", "--data_dir", published.parents[1]], [published, "--decode", "--jobs", 1]):
        code, out, err = run("verify", *args)
        assert (code, err) == (0, "")
        assert out.startswith(f"ds:1.0.0 in {published}\nwhole; read 6 shards, 72 records, 6.8 KiB in ")


def test_a_damaged_one(copy, published, run):
    flip(copy / SHARD, 120)
    code, out, _ = run("verify", copy)
    assert code == 1
    assert out.splitlines()[1].startswith(f"{SHARD}, byte 96 (record 1): record: data CRC is 0x")
    assert out.splitlines()[2:5] == [
        "    lost: train[16:17], 1 example",
        "what can be done:",
        "    record: --repair --from COPY restores it",
    ]
    assert "1 finding in 1 file, 1 example lost: train[16:17]; read 6 shards" in out

    before = contents(copy)
    code, out, _ = run("verify", copy, "--repair")
    assert (code, contents(copy)) == (1, before)
    assert f"left as it is {SHARD}: {REFUSAL}\n" in out
    assert "--repair" not in out
    code, out, _ = run("verify", copy, "--repair", "--from", published, "--dry-run")
    assert (code, contents(copy)) == (1, before)
    assert f"would write {SHARD}: copied from {published}; its CRC-32C is the published one" in out
    assert out.endswith("nothing was written (--dry_run)\n")
    code, out, _ = run("verify", copy, "--repair", "--from", published)
    assert (code, contents(copy)) == (0, contents(published))
    assert out.startswith(f"wrote {SHARD}: copied from {published}")
    assert "\nwhole; read" in out


@pytest.mark.parametrize("dry_run", [(), ("--dry_run",)], ids=["done", "dry_run"])
def test_what_was_refused_is_not_recommended(copy, published, run, dry_run):
    """What else was found keeps its advice, also where it is of the same kind."""
    for file in (SHARD, f"{SHARD}.index"):
        (copy / file).unlink()
        (copy / file).mkdir()
    code, out, _ = run("verify", copy, "--repair", "--from", published, *dry_run)
    assert code == 1
    for file in (SHARD, f"{SHARD}.index"):
        assert f"left as it is {file}: a directory has its name; move that away first\n" in out
        assert f"{file}: unreadable: Is a directory\n" in out
    remedy = "check the disk and the permissions, move away a directory in its place; if needed, --repair --from COPY"
    assert f"what can be done:\n    unreadable: {remedy} restores it\n" in out
    for file in (SHARD, f"{SHARD}.index"):
        (copy / file).rmdir()
    (copy / SHARD).write_bytes(b"")
    (copy / "ds-train.tfrecord-00009-of-00004").touch()
    code, out, _ = run("verify", copy, "--repair", *dry_run)
    assert "what can be done:\n    extra: nothing reads it; move it away by hand\n" in out
    assert "--repair" not in out


def test_json(copy, published, run):
    code, out, _ = run("verify", copy, "--json")
    assert (code, json.loads(out)["whole"]) == (0, True)
    flip(copy / SHARD, 120)
    code, out, _ = run("verify", copy, "--json")
    assert (code, json.loads(out)["lost"]) == (1, ["train[16:17]"])
    code, out, _ = run("verify", copy, "--json", "--repair", "--dry_run")
    assert code == 1
    assert json.loads(out)["refused"] == {SHARD: REFUSAL}
    code, out, _ = run("verify", copy, "--json", "--repair", "--from", published)
    done = json.loads(out)
    assert (code, [step["file"] for step in done["steps"]], done["after"]["whole"]) == (0, [SHARD], True)


def test_names_and_directories_are_distinguished(copy, run):
    """A directory counts as one where it has any small file left; by its name only what is published is found."""
    (copy / "dataset_info.json").unlink()
    code, out, _ = run("verify", copy)
    assert code == 1
    assert "dataset_info.json: missing: the file does not exist" in out
    code, _, err = run("verify", "ds", "--data_dir", copy.parents[1])
    assert code == 1
    assert "no dataset 'ds' is published" in err


def test_half_of_a_surrogate_pair(copy, run):
    (copy / "manifest.json").unlink()
    info = copy / "dataset_info.json"
    info.write_text(info.read_text().replace('"name": "ds"', r'"name": "ds\ud800"'))
    code, out, err = run("verify", copy)
    assert (code, err) == (1, "")
    assert r"dataset_info.json: metadata: field 'name': expected text that UTF-8 can express, got 'ds\ud800'" in out


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["{}/nowhere"], 1, "directory does not exist"),
        (["{}/.."], 1, "is not a dataset"),
        ([], 2, "NAME_OR_DIR"),
        (["{}", "--from", "x"], 2, "--from means nothing without --repair"),
        (["{}", "--dry_run"], 2, "--dry_run means nothing without --repair"),
        (["{}", "--report", "x"], 2, "--report means nothing without --beam"),
        (["{}", "--beam", "--report", "{}"], 2, "ds/1.0.0', where no file can be written: {}: Is a directory"),
        (["{}", "--beam", "--report", "{}/nope/r.json"], 2, "written: {}/nope: the directory does not exist"),
        (["{}", "--beam", "--report", "{}/features.json/x"], 2, "features.json: Not a directory"),
        (["{}", "--num_workers", "2"], 2, "--num_workers means nothing without --beam"),
        (["{}", "--repair", "--from", "{}"], 1, "is the dataset itself"),
        (["{}", "--repair", "--from", "{}/nowhere"], 1, "directory to copy from does not exist"),
        (["{}", "--beam", "--repair"], 2, "leave out --beam"),
        (["{}", "--beam", "--jobs", "2"], 2, "--jobs is 2; leave it out with --beam"),
        (["{}", "--jobs", "0"], 2, "--jobs is 0; expected how many shards"),
        (["{}", "--jbos", "2"], 2, "unknown option --jbos; options of Beam need --beam"),
        (["{}", "--beam", "--jbos", "2"], 2, "unknown option --jbos: neither this command nor Beam has it"),
    ],
    ids=str,
)
def test_wrong_usage(published, run, args, code, message):
    got, out, err = run("verify", *(arg.format(published) for arg in args))
    assert (got, out) == (code, "")
    assert message.format(published) in err
    assert "Traceback" not in err


def test_many_findings_fit_a_screen(copy, run):
    for number in range(0, 14, 2):
        for shard in corruptions.shards(copy):
            content = bytearray(shard.read_bytes())
            if number * 96 + 20 < len(content):
                content[number * 96 + 20] ^= 1
                shard.write_bytes(content)
    code, out, _ = run("verify", copy)
    assert code == 1
    assert out.splitlines()[-1].startswith("34 findings in 6 files, 34 examples lost: test[0:1]+test[2:3]+")
    assert "+...; read" in out.splitlines()[-1]
    assert out.count("what can be done:") == 1


def test_nothing_else_is_printed_where_there_is_no_terminal(copy, run):
    corruptions.flip_in_shard(copy, random.Random(0))
    assert run("verify", copy)[2] == ""


def test_the_bar(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(out, "isatty", lambda: True)
    with bytes_bar("Verify") as show:
        assert show is not None
        show(1 << 20, 4 << 20)
        show(4 << 20, 4 << 20)
    assert "Verify: " in out.getvalue()
    assert "25%" in out.getvalue()
    monkeypatch.undo()
    with bytes_bar("Verify") as show:
        assert show is None
