"""The one error that is made of what a runner raises, and what a script says on standard error."""

import pickle
import re
import subprocess
import sys
import traceback
import types
from multiprocessing.pool import ThreadPool
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

from beam_datasets import errors
from beam_datasets.engines.failures import SourceError, reason
from beam_datasets.errors import GenerationError
from beam_datasets.sources.units import describe_source_error, unpack_example
from tests.facts import raises_with


class Unlucky(Exception):
    """An author's own error, whose name does not end in Error."""


def unlucky() -> None:
    raise Unlucky("row 7 is bad [while running 'Generate train']")


def chained() -> None:
    try:
        int("x")
    except ValueError as error:
        raise Unlucky("row 7 [while running 'Generate train']") from error


def several_lines() -> None:
    raise ValueError("cannot read row\nKeyError: not the reason\nlast line [while running 'Generate train']")


def missing_key() -> None:
    raise KeyError("no such column [while running 'Generate train']")


def without_words() -> None:
    raise Unlucky


def sent_by_a_worker(fault) -> RuntimeError:
    """Returns what FnApiRunner raises for an error in another process: its traceback as text."""
    try:
        fault()
    except Exception:
        return RuntimeError(traceback.format_exc())
    raise AssertionError


@pytest.mark.parametrize(
    "fault, message",
    [
        (unlucky, "Unlucky: row 7 is bad\n"),
        (chained, "Unlucky: row 7\n"),
        (several_lines, "ValueError: cannot read row\nKeyError: not the reason\nlast line\n"),
        (missing_key, "KeyError: no such column\n"),
        (without_words, "Unlucky: \n"),
    ],
)
def test_the_last_exception_is_the_reason_and_names_the_place(fault, message):
    made = reason(sent_by_a_worker(fault))
    assert type(made) is GenerationError
    assert str(made).startswith(message)
    assert str(made).endswith(f"in {fault.__name__})")
    assert "Traceback" not in str(made)


def test_an_exception_group_is_the_error_in_it_and_no_traceback():
    frame = '  |   File "/home/me/dataset.py", line 24, in rows\n  |     raise ExceptionGroup("several", found)\n'
    text = f"  + Exception Group Traceback (most recent call last):\n{frame}"
    text += "  | ExceptionGroup: several [while running 'Generate train'] (1 sub-exception)\n"
    text += "  +-+---------------- 1 ----------------\n    | ValueError: a\n    +------------------------------------\n"
    made = str(reason(RuntimeError(text)))
    assert made == "ExceptionGroup: several\n  (in stage 'Generate train', at /home/me/dataset.py:24 in rows)"


def function_of(module: types.ModuleType, file: str = "/home/me/my_single_file.py") -> Any:
    """Returns a function of a module, which gets the code of a file."""
    code = "def square(number): return number * number\ndef rows(dump): return dump(square)"
    exec(compile(code, file, "exec"), module.__dict__)
    return module.square


def pickling_error(module: types.ModuleType) -> str:
    """Returns the traceback of an error of the function `rows` of a module, as an engine reports it."""
    with pytest.raises(pickle.PicklingError) as caught:
        module.rows(ForkingPickler.dumps)  # as `multiprocessing.Pool.map` does
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("is_other_copy", [False, True])
def test_processes_that_cannot_import_the_code_of_a_single_file(monkeypatch, is_other_copy):
    module = types.ModuleType("my_single_file")
    square = function_of(module)
    if is_other_copy:
        other = types.ModuleType("my_single_file")
        function_of(other)
        monkeypatch.setitem(sys.modules, "my_single_file", other)
    text = pickling_error(module)
    with raises_with(GenerationError, mentions=["PicklingError: Can't pickle <function square", "ThreadPool"]):
        raise reason(RuntimeError(text))
    with ThreadPool(2) as pool:  # which the error advises
        assert pool.map(square, range(3)) == [0, 1, 4]
    other_text = text.replace("import of module", "x").replace("not the same object", "x")
    assert "ThreadPool" not in str(reason(RuntimeError(other_text)))


@pytest.mark.parametrize("is_other_copy", [False, True])
@pytest.mark.parametrize(
    "name, file",
    [
        ("clicks.rows", "/home/me/clicks/rows.py"),
        ("clicks.rows", "/venv/lib/python3.12/site-packages/clicks/rows.py"),
        ("clicks", "/venv/lib/python3.12/site-packages/clicks.py"),
        ("no_such_module", "/home/me/clicks.py"),
    ],
)
def test_a_function_that_cannot_be_pickled_outside_of_a_single_file(monkeypatch, name, file, is_other_copy):
    """Such as one that another of the same name has replaced: the advice for single files would mislead."""
    module = types.ModuleType(name)
    function_of(module, file)
    if is_other_copy:
        for imported in (name.partition(".")[0], name):
            other = types.ModuleType(imported)
            function_of(other)
            monkeypatch.setitem(sys.modules, imported, other)
    message = str(reason(RuntimeError(pickling_error(module))))
    assert message.startswith("PicklingError: Can't pickle <function square")
    assert "single file" not in message


def test_versions_that_a_worker_pool_has_compared():
    text = (
        "java.lang.RuntimeException: versions differ: the worker on h has apache-beam 2.66.0.\n\tat org.apache.A.java"
    )
    assert str(reason(RuntimeError(text))) == (
        "versions differ: the worker on h has apache-beam 2.66.0. Nothing was published."
    )


def test_a_worker_that_has_died_is_named():
    """The relay of its pool answers with the process and the signal; Flink adds its own words around it."""
    died = "a worker process died: 1-2 (pid 7 on host): signal 9 (SIGKILL), as the system does when memory is short"
    text = f"java.lang.RuntimeException: Error received from SDK harness for instruction 5: {died}\n\tat A.b(A)"
    text += "\nSuppressed: java.lang.IllegalStateException: call already cancelled"
    made = reason(RuntimeError(text))
    assert made.problem == died
    assert str(made).startswith(f"{died}; nothing was published")


def test_a_job_server_that_beam_cannot_download():
    address = "https://repository/beam-runners-flink-2.2-job-server-2.77.0.jar"
    text = str(reason(RuntimeError(f"Unable to fetch remote job server jar at {address}: HTTP Error 404: Not Found.")))
    assert text.startswith("Beam could not download its job server, beam-runners-flink-2.2-job-server-2.77.0.jar;")
    assert "--job_endpoint HOST:PORT" in text


JAVA = """org.apache.flink.runtime.client.JobInitializationException: Could not start the JobMaster.
\tat org.apache.flink.runtime.A.create(A.java:97)
\tat java.base/java.lang.Thread.run(Thread.java:840) [?:?]
Caused by: java.util.concurrent.CompletionException: java.lang.RuntimeException: no quorum
\tat java.base/java.util.concurrent.B.run(B.java:1)
\t... 3 more
Caused by: java.lang.RuntimeException: no quorum
\t... 4 more
\tSuppressed: java.lang.Exception: not the reason
\t\tat org.apache.C.close(C.java:1)
"""


def test_an_error_of_java_is_its_message_and_its_cause():
    assert str(reason(RuntimeError(f"Pipeline job_1 failed in state FAILED: {JAVA}"))) == (
        "RuntimeError: JobInitializationException: Could not start the JobMaster.\n"
        "Caused by: RuntimeException: no quorum"
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("org.apache.flink.runtime.client.JobCancellationException: Job was cancelled.", "the job was cancelled on"),
        ("RestClientException: [org.apache.flink.FlinkJobNotFoundException: no job]", "the JobManager does not know"),
        (
            "java.util.concurrent.CompletionException: org.apache.flink.runtime.jobmanager.scheduler."
            "NoResourceAvailableException: Slot request bulk is not fulfillable! Could not allocate the required slot",
            "the cluster had too few free slots for the job",
        ),
        (
            "java.lang.RuntimeException: java.util.concurrent.TimeoutException: No client connected within timeout",
            "a worker could not start its part of the job, or died while it started; the output of its worker pool",
        ),
    ],
)
def test_a_job_that_flink_has_lost(text: str, message: str) -> None:
    assert str(reason(RuntimeError(f"Pipeline job_1 failed in state FAILED: {text}"))).startswith(message)


def ours() -> None:
    raise errors.DuplicateKeyError("split 'train': two examples\n  a: 1 [while running 'Write']")


def test_our_own_error_comes_back_as_its_class():
    made = reason(sent_by_a_worker(ours))
    assert type(made) is errors.DuplicateKeyError
    assert str(made) == "split 'train': two examples\n  a: 1"


def test_a_folder_called_as_the_package_may_hold_an_author_s_files():
    frame = 'Traceback (most recent call last):\n  File "{}", line 3, in f\nValueError: bad'
    for file in ("/home/me/beam_datasets/my.py", "/home/me/beam_datasets/datasets/transforms.py"):
        assert f"{file}:3 in f" in str(reason(RuntimeError(frame.format(file))))
    for file in ("/x/beam_datasets/beam/write.py", "/x/beam_datasets/builders/builder.py"):
        assert file not in str(reason(RuntimeError(frame.format(file))))


def test_the_place_is_the_author_s_and_not_where_it_was_raised():
    site = "/usr/local/lib/python3.11/site-packages"
    author, ours, library = "/home/me/digits.py", "/opt/beam_datasets/statistics/sketches.py", f"{site}/pandas/core.py"
    around = ["apache_beam/runners/common.py", "/usr/local/lib/python3.11/concurrent/futures/thread.py"]

    def place(*files: str) -> str:
        lines = [f'  File "{file}", line {n}, in f{n}' for n, file in enumerate([*around, *files])]
        text = "\n".join(["Traceback (most recent call last):", *lines, "ValueError: bad [while running 'Read']"])
        return str(reason(RuntimeError(text))).removeprefix("ValueError: bad\n")

    assert place(author, library, "numpy/random/mtrand.pyx") == f"  (in stage 'Read', at {author}:2 in f2)"
    assert place(ours, author, ours, library) == f"  (in stage 'Read', at {author}:3 in f3)"
    assert place(ours) == place(f"{site}/beam_datasets/jobs.py") == "  (in stage 'Read')"
    # Workers that got the author's code as a package.
    assert place(ours, f"{site}/mine/digits.py", library) == f"  (in stage 'Read', at {site}/mine/digits.py:3 in f3)"


def damaged() -> None:
    raise errors.CorruptRecordError("data CRC differs", path="/data/a, b/x-00000-of-00001", offset=12, record=3)


@pytest.mark.parametrize(
    "raised",
    [
        sent_by_a_worker(damaged),
        # As Beam makes it, which cannot make another error of such a class.
        RuntimeError(
            "beam_datasets.errors.CorruptRecordError: /data/a, b/x-00000-of-00001, byte 12 (record 3): "
            "data CRC differs [while running 'Copy']"
        ),
    ],
    ids=["a worker", "this process"],
)
def test_a_damaged_record_keeps_its_place(raised):
    made = reason(raised)
    assert type(made) is errors.CorruptRecordError
    assert str(made) == "/data/a, b/x-00000-of-00001, byte 12 (record 3): data CRC differs"
    assert (made.path, made.offset, made.record) == ("/data/a, b/x-00000-of-00001", 12, 3)


@pytest.mark.parametrize(
    "text",
    [
        "io.grpc.StatusRuntimeException: CANCELLED: client cancelled\n\tat io.grpc.A.b(A.java:1)",
        "java.lang.IllegalStateException: call already cancelled",
        "java.lang.Exception: The user defined 'open()' method caused an exception: java.lang.RuntimeException: "
        "a worker process ended before it had connected: 2-1 (pid 16969)\n\tat org.apache.flink.A.b(A.java:1)",
        "bundle inst017 stage-019 failed:SDK worker disconnected: worker[job-001], 2 active instructions",
        "panic in stage.Execute bundle processing goroutine: send on closed channel, stage: &{ID:stage-022},stackTrace:"
        "\ngoroutine 89 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e",
    ],
    ids=["Flink", "Flink, again", "Flink, starting", "Prism, working", "Prism, about to"],
)
def test_a_worker_that_a_runner_has_lost(text):
    assert "a worker process died" in str(reason(RuntimeError(text)))


def behind_example(error: Exception) -> None:
    try:
        raise error
    except Exception as caught:
        raised, after = describe_source_error(caught, "a]'b", 2000, "train")
        told = SourceError(f"{raised} [{after}] [while running 'Encode train']")
        raise told.with_traceback(caught.__traceback__) from None


@pytest.mark.parametrize(
    "error, message",
    [
        (Unlucky("row: 7"), "Unlucky: row: 7\n"),
        (Unlucky(), "Unlucky: \n"),
        (KeyError("a'b"), "KeyError: a'b\n"),
        (KeyError(5), "KeyError: 5\n"),
        (FileNotFoundError(2, "nothing there", "x.csv"), "FileNotFoundError: [Errno 2] nothing there: 'x.csv'\n"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"),
    ],
)
@pytest.mark.parametrize("in_worker", [True, False])
def test_what_a_generator_raises_names_the_example_before(error, message, in_worker):
    if in_worker:
        raised = sent_by_a_worker(lambda: behind_example(error))
    else:
        with pytest.raises(SourceError) as told:
            behind_example(error)
        raised = told.value
    made = str(reason(raised))
    assert made.startswith(message)
    assert "\n  (in stage 'Encode train', after key \"a]'b\" (example 2,000 of 'train'), at " in made
    assert made.endswith("in behind_example)")
    assert made.count("after key") == 1


def test_an_example_is_counted_within_its_unit():
    raised, after = describe_source_error(ValueError("bad row"), "a", 1000, "train, test", "'b) of c'")
    after_key = "after key 'a' (example 1,000 of unit 'b) of c' of 'train, test')"
    assert after == after_key
    made = str(reason(SourceError(f"{raised} [{after}] [while running 'Encode train']")))
    assert made == f"ValueError: bad row\n  (in stage 'Encode train', {after_key})"


def test_a_pair_is_one():
    assert unpack_example(("key", {"n": 1}), "train") == unpack_example(["key", {"n": 1}], "train") == ("key", {"n": 1})


@pytest.mark.parametrize("element", [{"n": 1, "t": ""}, {"n": 1}, "ab", b"ab", 7, None, (1, 2, 3), ()])
def test_what_is_no_pair_is_shown(element):
    with raises_with(errors.BeamDatasetsError, split="train", got=repr(element), mentions=["(key, example)"]):
        unpack_example(element, "train")


# What somebody's own script says, on standard error, when it builds a dataset: in a process of its own


SCRIPT = """\
import sys
import beam_datasets as bd
from beam_datasets import features as F


class Shapes(bd.DatasetBuilder):
    VERSION = "1.0.0"

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Scalar("int64")}))

    def _split_generators(self):
        return {"train": self._shapes()}

    def _shapes(self):
        for n in range(40):
            BODY
            yield f"shape-{n:05d}", {"n": n}


if __name__ == "__main__":
    Shapes(data_dir="data").build(num_workers=int(sys.argv[1]), block_size=100)
"""


def run_script(script: str, num_workers: int, directory: Path) -> tuple[str, str]:
    (directory / "shapes.py").write_text(script)
    command = [sys.executable, "shapes.py", str(num_workers)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout, done.stderr


def said_where(body: str, num_workers: int, directory: Path) -> str:
    out, said = run_script(SCRIPT.replace("BODY", body), num_workers, directory)
    assert out == ""
    return said


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_run_that_fails_says_why_and_little_else(tmp_path, num_workers):
    lines = said_where("assert n != 30, 'boom'", num_workers, tmp_path).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2].endswith("GenerationError: AssertionError: boom")
    assert lines[-1].endswith(
        f"after key 'shape-00029' (example 30 of 'train'), at {tmp_path}/shapes.py:17 in _shapes)"
    )
    assert len(lines) < 30
    assert "apache_beam" not in "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("thread", ["", "threading.Thread(target=threading.Event().wait, daemon=True).start()"])
def test_what_workers_print_comes_to_standard_error(tmp_path, thread):
    """Of forked workers, which have text that this process has still to print; beside a thread of new processes."""
    script = SCRIPT.replace(
        "    Shapes(", f"    import threading\n    {thread}\n    print('begun', end='')\n    Shapes("
    )
    out, said = run_script(script.replace("BODY", "print('row', n)"), 2, tmp_path)
    assert out == "begun"
    assert [re.sub("^worker [12]: ", "", line) for line in said.splitlines()] == [f"row {n}" for n in range(40)]


@pytest.mark.slow
def test_a_run_that_ends_well_says_nothing(tmp_path):
    assert said_where("pass", 2, tmp_path) == ""


def of_a_tool() -> None:
    raise RuntimeError("ffmpeg exited with return code 1")


def of_two_files() -> None:
    raise ValueError("versions differ: 1 and 2")


@pytest.mark.parametrize("fault", [of_a_tool, of_two_files])
def test_an_author_s_error_that_reads_like_one_of_the_engine(fault) -> None:
    """It is shown as it is, with its place."""
    with pytest.raises(Exception) as raised:  # of any class
        fault()
    error = reason(sent_by_a_worker(fault))
    assert str(error).startswith(f"{type(raised.value).__name__}: {raised.value}")
    assert f"in {fault.__name__}" in str(error)
