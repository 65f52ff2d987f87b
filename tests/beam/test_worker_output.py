"""What workers of a local run print is shown and kept, and can neither hang a run nor fail it."""

import multiprocessing
import os
import time

import pytest

from beam_datasets.beam import worker_output
from beam_datasets.beam.worker_output import OutputReader, WorkerStream
from beam_datasets.generate.leftovers import find_leftovers
from beam_datasets.generate.owners import Owner
from beam_datasets.generate.runs import Run
from tests.beam import talking_dataset

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.beam.talking_dataset"])


def build(folder, manner, *options, data_dir=None):
    """Builds a dataset in a new process; returns (exit code, what was said, seconds)."""
    arguments = (str(folder), manner, str(data_dir or folder / "data"), *options)
    process, start = CONTEXT.Process(target=talking_dataset.build, args=arguments), time.monotonic()
    process.start()
    process.join(60)
    seconds = time.monotonic() - start
    process.kill()
    return process.exitcode, (folder / "said").read_text(), seconds


def test_what_workers_say_is_shown_and_kept(tmp_path):
    code, said, _ = build(tmp_path, "talk")
    assert code == 0
    log = (tmp_path / "data" / "talking" / "1.0.0" / "workers.log").read_text()
    for part in range(4):
        for text in (f"printed {part}", f"printed as an error {part}", f"logged {part}", f"UserWarning: warned {part}"):
            [line] = [line for line in said.splitlines() if line.endswith(text)]
            assert line.startswith(("worker 1: ", "worker 2: "))
            assert line in log.splitlines()
        assert f"written {part}" in said
    assert "WARNING talking: logged 0" in said


def test_what_workers_said_survives_a_failure(tmp_path):
    code, said, _ = build(tmp_path, "fail")
    assert code == 1
    assert not [line for line in said.splitlines() if line.startswith("worker ") and "boo" in line]  # Beam's traceback
    [log] = (tmp_path / "data" / "talking").glob("incomplete.log.*")
    assert "before it failed" in log.read_text()
    assert f"What the workers printed is kept in {log}" in said
    [leftover] = find_leftovers(tmp_path / "data", older_than=0)
    assert leftover.path == str(log)


def test_the_log_of_a_run_in_a_temporary_directory_is_kept_beside_it():
    run = Run("/data/sq/incomplete.0a1b_1.0.0/sq/1.0.0", Owner.of_this_process("0c2d", 0.0, ""))
    assert run.kept_log == "/data/sq/incomplete.log.0c2d"


@pytest.mark.slow
def test_a_flood_is_counted(tmp_path):
    code, said, _ = build(tmp_path, "flood")
    assert code == 0
    shown = said.count("line ")
    assert worker_output.SHOWN_AT_ONCE <= shown < 1000
    assert f"{4000 - shown:,} more lines of workers are not shown" in said
    log = (tmp_path / "data" / "talking" / "1.0.0" / "workers.log").read_text()
    assert log.count("line ") == 4000


@pytest.mark.slow
def test_a_run_that_does_nothing_is_ended(tmp_path):
    code, said, seconds = build(tmp_path, "wait", "--stall_timeout=2")
    assert code == 1
    assert "StalledError: the run was ended, because its worker processes computed and printed nothing for" in said
    assert "nothing was published" in said
    assert seconds < 20
    code, said, _ = build(tmp_path, "wait and print", "--stall_timeout=1.5")
    assert code == 0, said


def test_streams_that_nobody_reads_do_not_fail():
    shown, kept = os.pipe(), os.pipe()
    for descriptor in (shown[0], kept[0], kept[1], shown[1]):
        os.close(descriptor)
    stream = WorkerStream("worker 1: ", shown[1], kept[1])
    print("\udc80 text", file=stream)


def test_a_log_that_cannot_be_written_does_not_fail(tmp_path, capsys):
    reader = OutputReader(str(tmp_path / "missing" / "log"))
    ends = tuple(map(os.dup, reader.writing_ends))
    reader.start()
    stream = WorkerStream("worker 1: ", *ends)
    print("one\ntwo\rthree", file=stream)
    print("unfinished", end="", file=stream)
    for end in ends:
        os.close(end)
    reader.close(keep=True)
    assert capsys.readouterr().err == "worker 1: one\nworker 1: two\nworker 1: three\n"
