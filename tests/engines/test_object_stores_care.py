"""Commands on datasets in object stores print and do the same as on a local disk."""

import dataclasses
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli.main import main
from beam_datasets.publishing.owners import Owner
from tests.end_to_end.numbers_dataset import Numbers
from tests.engines.object_stores import SECRET, ObjectStore

pytest.importorskip("obstore")
SHARDS = {"train": 3, "test": 1}
VERSION = "numbers/1.0.0"
SHARD = "numbers-train.tfrecord-00001-of-00003"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data_dir on this machine's disk, and one with ten examples less."""
    root = tmp_path_factory.mktemp("original")
    for name, count in (("data", 500), ("less", 490)):
        Numbers(data_dir=root / name, count=count).build(num_shards=SHARDS, num_workers=1)
    return root


class Both:
    """The same files on this machine's disk and in a store, and the command on either."""

    def __init__(self, store: ObjectStore, original: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.local, self.url = str(folder / "here"), f"{store.url}/{folder.name}"
        self.remote = storage.with_options(self.url, store.options)
        self.secrets = folder / "options.json"
        self.secrets.write_text(json.dumps(store.options))
        self.capsys = capsys
        for name in ("data", "less"):
            for file in (original / name / VERSION).iterdir():
                self.write(f"{name}/{VERSION}/{file.name}", file.read_bytes())

    def write(self, name: str, content: bytes) -> None:
        for root in (self.local, self.remote):
            storage.write_bytes(storage.join(root, name), content)

    def change(self, name: str, edit: Callable[[bytes], bytes | None]) -> None:
        """Changes a file in both places; removes it if `edit` returns None."""
        content = edit(storage.read_bytes(storage.join(self.local, name)))
        if content is not None:
            self.write(name, content)
            return
        for root in (self.local, self.remote):
            storage.remove(storage.join(root, name))

    def command(self, *args: str) -> tuple[int, str]:
        """Returns the exit code and output of a command in the store; asserts that they are the same on the disk."""
        found = []
        for root, more in ((self.local, []), (self.url, ["--storage_options", str(self.secrets)])):
            code = main([*(arg.replace("ROOT", root) for arg in args), *more, "--quiet"])
            out, err = self.capsys.readouterr()
            assert SECRET not in out + err
            text = re.sub(r" (in|after) \d+\.\d+ s|\d+ min ago", "", (out + err).replace(root, "ROOT"))
            found.append((code, re.sub(r" +", " ", text)))
        assert found[1] == found[0]
        return found[1]


@pytest.fixture
def both(store: ObjectStore, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Both:
    return Both(store, original, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["list", "--data_dir", "ROOT/data"],
        ["info", "numbers", "--data_dir", "ROOT/data"],
        ["head", f"ROOT/data/{VERSION}", "--split", "train[7:]"],
        ["slices", "numbers", "train[10%:20%]+test", "--data_dir", "ROOT/data"],
        ["stats", "numbers", "--data_dir", "ROOT/data", "--json", "--num_workers", "1"],
        ["verify", "numbers", "--data_dir", "ROOT/data", "--decode"],
        ["diff", f"ROOT/data/{VERSION}", f"ROOT/less/{VERSION}"],
        ["gc", "ROOT/data"],
        ["export", "numbers", "--data_dir", "ROOT/data", "--format", "jsonl", "--to", "ROOT/x", "--num_workers", "1"],
        ["materialize", "numbers:1.*.*", "--split", "few=train[:9]", "--data_dir", "ROOT/data", "--to", "few"],
        ["build", f"{Numbers.__module__}:Numbers", "--count", "50", "--data_dir", "ROOT/new", "--num_workers", "1"],
        ["info", "nambers", "--data_dir", "ROOT/data"],
    ],
    ids=lambda args: args[0],
)
def test_output_is_the_same(both: Both, args: list[str]) -> None:
    code, text = both.command(*args)
    assert code == (1 if args[0] == "diff" or "nambers" in args else 0)
    assert text


@pytest.mark.slow
def test_statistics_are_saved_there(both: Both) -> None:
    for _ in range(2):
        main(["stats", f"{both.url}/data/{VERSION}", "--num_workers", "1", "--storage_options", str(both.secrets)])
    assert "saved before" in both.capsys.readouterr().out
    assert storage.list_dir(storage.join(both.remote, "data/numbers/.stats")) == ["1.0.0.json"]


def flip(content: bytes) -> bytes:
    return content[:700] + bytes([content[700] ^ 1]) + content[701:]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    SHARD: flip,
    f"{SHARD}.index": lambda content: None,
    "numbers-test.tfrecord-00000-of-00001": lambda content: content[:-100],
    "dataset_info.json": lambda content: content.replace(b"Numbers", b"numbers"),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", DAMAGES)
def test_damage_is_found_and_repaired(both: Both, original: Path, file: str) -> None:
    version = f"data/{VERSION}"
    both.change(f"{version}/{file}", DAMAGES[file])
    code, text = both.command("verify", f"ROOT/{version}")
    assert (code, text.splitlines()[0]) == (1, "numbers:1.0.0 in ROOT/data/numbers/1.0.0")
    assert file in text
    good = str(original / version)
    code, text = both.command("verify", f"ROOT/{version}", "--repair", "--from", good)
    assert (code, f"wrote {file}: " in text) == (0, True)
    for path in (original / version).iterdir():
        if path.name != "run.json":
            assert storage.read_bytes(storage.join(both.remote, version, path.name)) == path.read_bytes()


def test_reading_what_is_damaged_names_the_url(both: Both, store: ObjectStore) -> None:
    both.change(f"data/{VERSION}/{SHARD}", flip)
    dataset = bd.load("numbers", split="train", data_dir=f"{both.url}/data", storage_options=store.options)
    with pytest.raises(bd.errors.CorruptRecordError, match=f"{both.url}/data/{VERSION}/{SHARD}"):
        list(dataset)


def test_a_local_copy_is_repaired_from_the_store(both: Both, original: Path) -> None:
    path = f"{both.local}/data/{VERSION}"
    storage.write_bytes(f"{path}/{SHARD}", flip(storage.read_bytes(f"{path}/{SHARD}")))
    more = ["--from", f"{both.url}/data/{VERSION}", "--from_storage_options", str(both.secrets)]
    assert main(["verify", path, "--repair", *more]) == 0
    assert storage.read_bytes(f"{path}/{SHARD}") == (original / "data" / VERSION / SHARD).read_bytes()


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_what_killed_runs_left(both: Both, dead: int) -> None:
    here = Owner.of_this_process("00000001", time.time(), "FnApiRunner")
    gone = dataclasses.replace(here, pid=dead, start_ticks=None)
    for owner, name in ((gone, "incomplete.aaaaaaaa_1.1.0"), (here, "incomplete.bbbbbbbb_1.2.0")):
        both.write(f"data/numbers/{name}/owner.json", json.dumps(dataclasses.asdict(owner)).encode())
        both.write(f"data/numbers/{name}/some.block", bytes(1000))
    text = both.command("gc", "ROOT/data")[1]
    assert re.findall(r"numbers/incomplete\.([\w.]+) .* (abandoned|kept): ", text) == [
        ("aaaaaaaa_1.1.0", "abandoned"),
        ("bbbbbbbb_1.2.0", "kept"),
    ]
    assert both.command("gc", "ROOT/data", "--yes")[0] == 0
    kept = ["1.0.0", "incomplete.bbbbbbbb_1.2.0", "incomplete.runs.1.1.0"]  # the latter says that the run was given up
    assert storage.list_dir(storage.join(both.remote, "data/numbers")) == kept
    assert both.command("verify", f"ROOT/data/{VERSION}")[0] == 0


@pytest.mark.parametrize(
    "text, problem",
    [
        (None, "No such file"),
        ("{", "is not a JSON object"),
        ('["a"]', "is not a JSON object"),
        ('{"bogus": "' + SECRET + '"}', "not valid for store"),
    ],
)
def test_a_file_of_options_that_is_none(
    tmp_path: Path, text: str | None, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "options.json"
    if text is not None:
        file.write_text(text)
    assert main(["info", "s3://bucket/x/1.0.0", "--storage_options", str(file)]) in (1, 2)
    error = capsys.readouterr().err
    assert problem in error
    assert SECRET not in error


@pytest.mark.parametrize("given", ['{"secret_access_key": "' + SECRET + '"}', f"secret_access_key={SECRET}"])
def test_secrets_are_not_taken_from_the_command_line(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "s3://bucket/x/1.0.0", "--storage_options", given]) == 2
    error = capsys.readouterr().err
    assert "shell's history" in error
    assert SECRET not in error


@pytest.mark.parametrize(
    "args",
    [
        ["build", f"{Numbers.__module__}:Numbers", "--count", "9", "--data_dir", "ROOT/new"],
        ["materialize", "numbers", "--split", "few=train[:9]", "--data_dir", "ROOT/data", "--to", "few"],
        ["export", "numbers", "--data_dir", "ROOT/data", "--format", "jsonl", "--to", "ROOT/x"],
    ],
    ids=lambda args: args[0],
)
def test_a_run_whose_job_service_does_not_answer_leaves_nothing(
    both: Both, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    """Not even the reservation of the version, which would hold it until `gc` is called."""
    monkeypatch.setattr("beam_datasets.engines.checks.CONNECT_SECONDS", 0.1)
    before = storage.file_sizes(both.remote)
    words = [arg.replace("ROOT", both.url) for arg in args]
    engine = ["--runner", "PortableRunner", "--job_endpoint", "localhost:1", "--environment_type", "LOOPBACK"]
    assert main([*words, *engine, "--storage_options", str(both.secrets), "--quiet"]) == 1
    assert "no job service listens at localhost:1" in both.capsys.readouterr().err
    assert storage.file_sizes(both.remote) == before
