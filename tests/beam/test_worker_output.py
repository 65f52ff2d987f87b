"""Output of the workers of a local run: it is shown and kept, and can neither hang a run nor fail it."""

import multiprocessing
import os
import subprocess
import sys

import pytest

from beam_datasets.engines import local_runner, worker_output
from beam_datasets.engines.worker_output import OutputReader, WorkerStream
from beam_datasets.publishing import output_log
from beam_datasets.publishing.leftovers import find_leftovers
from beam_datasets.publishing.owners import Owner
from beam_datasets.publishing.runs import Run
from tests.beam import talking_dataset

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.beam.talking_dataset"])


def build(folder, manner, *options, data_dir=None):
    """Builds a dataset in a new process; returns its exit code, None after a minute, and what it said."""
    arguments = (str(folder), manner, str(data_dir or folder / "data"), *options)
    process = CONTEXT.Process(target=talking_dataset.build, args=arguments)
    process.start()
    process.join(60)
    code = process.exitcode
    process.kill()
    return code, (folder / "said").read_text()


def test_what_workers_say_is_shown_and_kept(tmp_path):
    code, said = build(tmp_path, "talk")
    assert code == 0
    log = (tmp_path / "data" / "talking" / "1.0.0" / "workers.log").read_text()
    for part in range(4):
        for text in (f"printed {part}", f"printed as an error {part}", f"logged {part}", f"UserWarning: warned {part}"):
            [line] = [line for line in said.splitlines() if line.endswith(text)]
            assert line.startswith(("worker 1: ", "worker 2: "))
            assert line in log.splitlines()
        assert f"written {part}" in said
    assert "WARNING talking: logged 0" in said


@pytest.mark.slow
def test_what_workers_said_survives_a_failure(tmp_path):
    code, said = build(tmp_path, "fail")
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
    code, said = build(tmp_path, "flood")
    assert code == 0
    shown = said.count("line ")
    assert worker_output.SHOWN_AT_ONCE <= shown < 1000
    assert f"{4000 - shown:,} more lines of workers are not shown" in said
    log = (tmp_path / "data" / "talking" / "1.0.0" / "workers.log").read_text()
    assert log.count("line ") == 4000


@pytest.mark.slow
def test_a_run_that_does_nothing_is_ended(tmp_path):
    code, said = build(tmp_path, "wait", "--stall_timeout=2")
    assert code == 1
    assert "StalledError: the run was ended, because its worker processes computed and printed nothing for" in said
    assert "nothing was published" in said
    code, said = build(tmp_path, "wait and print", "--stall_timeout=1.5")
    assert code == 0, said


def test_streams_that_nobody_reads_do_not_fail():
    shown, kept = os.pipe(), os.pipe()
    for descriptor in (shown[0], kept[0], kept[1], shown[1]):
        os.close(descriptor)
    stream = WorkerStream("worker 1: ", shown[1], kept[1])
    print("\udc80 text", file=stream)


def read_all(reader, *texts):
    """Has a reader read texts that a worker writes, to its end."""
    ends = tuple(map(os.dup, reader.writing_ends))
    reader.start()
    stream = WorkerStream("worker 1: ", *ends)
    for text in texts:
        stream.write(text)
    stream.finish()
    for end in ends:
        os.close(end)
    reader.close()


def test_a_log_that_cannot_be_written_is_reported(tmp_path, capsys):
    read_all(OutputReader(str(tmp_path / "missing" / "log")), "one\ntwo\rthree\n", "without an end")
    said = capsys.readouterr().err.splitlines()
    assert said[:4] == [f"worker 1: {text}" for text in ("one", "two", "three", "without an end")]
    assert said[4].startswith("The output of the workers is not kept completely: ")
    assert said[4].endswith("missing/log: No such file or directory")


def test_a_long_log_has_its_first_and_its_last_lines(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output_log, "MAX_LOG_BYTES", 30)
    monkeypatch.setattr(output_log, "NUM_LAST_LINES", 2)
    lines = [f"{number}\n" for number in range(7)]
    read_all(OutputReader(str(tmp_path / "log")), *lines)
    assert "is not kept completely: 3 lines in its middle are left out" in capsys.readouterr().err
    expected = [*lines[:2], *lines[5:]]
    kept = (tmp_path / "log").read_text().splitlines(keepends=True)
    assert kept.pop(2) == "... 3 lines are left out here ...\n"
    assert kept == [f"worker 1: {line}" for line in expected]


@pytest.mark.parametrize("num_lines", [2, 3, 5, 40, 1000])
def test_the_last_lines_are_on_the_disk_at_any_time(tmp_path, monkeypatch, num_lines):
    """The launcher may be killed, as when memory is short; its log then has the first and the last lines."""
    monkeypatch.setattr(output_log, "MAX_LOG_BYTES", 30)
    monkeypatch.setattr(output_log, "MAX_LAST_BYTES", 50)
    monkeypatch.setattr(output_log, "NUM_LAST_LINES", 3)
    log, latest, earlier = (tmp_path / f"log{suffix}" for suffix in ("", ".last", ".last.1"))
    reader = OutputReader(str(log))
    lines = [f"worker 1: {number}\n" for number in range(num_lines)]
    reader._log_lines([line.encode().rstrip() for line in [*lines, "worker 1: the last one"]], is_shown=True)
    texts = [line for path in (earlier, latest) if path.exists() for line in path.read_text().splitlines(keepends=True)]
    expected = [*lines, "worker 1: the last one\n"]
    assert log.read_text() == f"{lines[0]}{lines[1]}... the next lines are in {latest} ...\n"
    assert texts == expected[-len(texts) :]
    assert len(texts) >= min(3, num_lines - 1)
    assert {path.stat().st_size <= 50 for path in (latest, earlier) if path.exists()} == {True}
    reader.close()
    assert sorted(os.listdir(tmp_path)) == ["log"]
    num_left_out = max(num_lines + 1 - 2 - 3, 0)
    note = [f"... {num_left_out} lines are left out here ...\n"] * (num_left_out > 0)
    assert log.read_text().splitlines(keepends=True) == [*lines[:2], *note, *expected[2 + num_left_out :]]


def test_a_log_that_is_only_a_little_too_long_is_complete(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output_log, "MAX_LOG_BYTES", 30)
    read_all(OutputReader(str(tmp_path / "log")), "one\n", "two\n", "three\n")
    assert "is not kept completely" not in capsys.readouterr().err
    assert (tmp_path / "log").read_text() == "worker 1: one\nworker 1: two\nworker 1: three\n"


def test_a_process_that_keeps_the_pipes_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_output, "CLOSE_SECONDS", 0.2)
    reader = OutputReader(str(tmp_path / "log"))
    ends = tuple(map(os.dup, reader.writing_ends))  # as of a process that the author's code has started
    reader.start()
    os.write(ends[0], b"one\n")
    reader.close()
    assert (tmp_path / "log").read_text() == "one\n"
    with pytest.raises(BrokenPipeError):  # nobody reads from a descriptor that another file may have got
        os.write(ends[0], b"two\n")
    for end in ends:
        os.close(end)


def test_passwords_of_urls_are_neither_shown_nor_kept(tmp_path, capsys):
    reader = OutputReader(str(tmp_path / "log"))
    ends = tuple(map(os.dup, reader.writing_ends))
    reader.start()
    for end in ends:
        os.write(end, b"GET http://me:secret@host/x \xff\n")
        os.close(end)
    reader.close()
    assert (tmp_path / "log").read_text() == 2 * "GET http://***@host/x \\xff\n"
    assert capsys.readouterr().err == "GET http://***@host/x \\xff\n"


@pytest.mark.slow
def test_only_handlers_of_the_terminal_are_replaced(tmp_path):
    code = (
        "import io, logging, os, sys\n"
        "from beam_datasets.engines.worker_output import redirect\n"
        "memory = io.StringIO()\n"
        "logging.basicConfig(handlers=[logging.StreamHandler(), logging.StreamHandler(memory)], force=True)\n"
        "file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "redirect('worker 1', file, file)\n"
        "logging.warning('said')\n"
        "assert 'said' in memory.getvalue()\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "out"], check=True)
    assert (tmp_path / "out").read_text().count("said") == 1


def test_time_in_which_the_launcher_was_stopped_is_not_idle(tmp_path, monkeypatch):
    """After Ctrl-Z and `fg` the processes have computed nothing for as long as they were stopped."""
    now = [1000.0]
    monkeypatch.setattr(local_runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(local_runner, "processor_seconds", lambda root: 5.0)
    reader = OutputReader(str(tmp_path / "log"))
    reader.last_time = 0.0
    activity = local_runner.Activity(1, reader, timeout=100)
    for seconds in (10, 10, 3600, 10):
        now[0] += seconds
        idle = activity.idle_seconds()
    assert idle == 10 + 10 + 20 + 10
    reader.last_time = now[0]
    assert activity.idle_seconds() == 0
    reader.start()
    reader.close()


def test_hidden_processes_are_not_idle():
    assert local_runner.processor_seconds(os.getpid()) > 0
    assert local_runner.processor_seconds(2**22 + 1) is None
