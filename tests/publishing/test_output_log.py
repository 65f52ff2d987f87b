"""The log of a run in this process: it has what the code of a dataset prints, logs and warns, as the terminal does."""

import contextlib
import io
import logging
import os
import signal
import sys
import threading
import warnings

import pytest

import beam_datasets as bd
from beam_datasets import features as F
from beam_datasets.engines.worker_output import WorkerStream
from beam_datasets.passwords import without_passwords
from beam_datasets.publishing import output_log
from beam_datasets.publishing.output_log import recorded_output


class Talking(bd.DatasetBuilder, skip_registration=True):
    """Two examples from `first` on, before each of which the source says something; fails at the example `bad`."""

    VERSION = "1.0.0"

    def __init__(self, *, first=0, bad=None, **options):
        super().__init__(**options)
        self.first, self.bad = first, bad

    def _info(self):
        return bd.DatasetInfo(builder=self, features=F.FeaturesDict({"n": F.Text()}))

    def _split_generators(self):
        return {"train": self._examples()}

    def _examples(self):
        for number in range(self.first, self.first + 2):
            print(f"printed {number}")
            print(f"printed as an error {number}", file=sys.stderr)
            logging.getLogger("talking").warning("logged %d for http://user:hidden@host/", number)
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
                warnings.warn(f"warned {number}", stacklevel=1)
            if number == self.bad:
                raise ValueError("boo")
            yield number, {"n": "x"}


def check_is_complete(log, numbers):
    texts = [f"{kind} {n}" for n in numbers for kind in ("printed", "printed as an error", "warned")]
    texts += [f"logged {n} for http://***@host/" for n in numbers]
    assert not [text for text in texts if f"\n{text}\n" not in f"\n{log}" and f": {text}\n" not in log]
    assert "hidden" not in log


@contextlib.contextmanager
def terminal():
    """Context manager: provides the standard streams in the place of a terminal; a handler logs to standard error."""
    out, err = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(err)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        logging.getLogger().addHandler(handler)
        try:
            yield out, err
        finally:
            logging.getLogger().removeHandler(handler)
        assert (sys.stderr, handler.stream) == (err, err)


def test_one_worker_keeps_what_the_code_says(tmp_path):
    with terminal() as (out, err):
        Talking(data_dir=tmp_path).build(num_workers=1)
    check_is_complete((tmp_path / "talking" / "1.0.0" / "workers.log").read_text(), [0, 1])
    assert out.getvalue() == "printed 0\nprinted 1\n"
    assert "printed as an error 1\n" in err.getvalue()
    assert "logged 1 for http://***@host/\n" in err.getvalue()
    assert "hidden" not in err.getvalue()


def test_an_append_keeps_what_the_builders_say(tmp_path):
    with terminal():
        Talking(data_dir=tmp_path).build(num_workers=1)
        bd.append("talking", [Talking(first=5), Talking(first=8)], data_dir=tmp_path)
    check_is_complete((tmp_path / "talking" / "2.0.0" / "workers.log").read_text(), [5, 6, 8, 9])


def test_a_log_of_builders_that_cannot_be_copied_is_reported(tmp_path, caplog):
    (tmp_path / "workers.log").write_text("said\n")
    (tmp_path / "file").write_text("")
    output_log.join_logs([str(tmp_path)], str(tmp_path / "file" / "workers.log"))
    assert "The output of the builders is not kept: " in caplog.text
    assert str(tmp_path / "file" / "workers.log") in caplog.text


def test_a_failed_run_keeps_it_too(tmp_path):
    with terminal(), pytest.raises(bd.errors.GenerationError) as caught:
        Talking(data_dir=tmp_path, bad=1).build(num_workers=1)
    [log] = (tmp_path / "talking").glob("incomplete.log.*")
    check_is_complete(log.read_text(), [0, 1])
    assert caught.value.__notes__ == [f"What the workers printed is kept in {log}"]


def test_a_silent_run_has_no_log(tmp_path):
    with terminal(), recorded_output(str(tmp_path / "log")):
        print(end="")
    assert not list(tmp_path.iterdir())


def test_a_log_that_cannot_be_written_is_reported(tmp_path):
    with terminal() as (out, err), recorded_output(str(tmp_path / "missing" / "log")):
        print("text", end="")
    assert out.getvalue() == "text"
    assert "missing/log: No such file or directory" in err.getvalue()


def test_streams_that_the_code_replaces_stay_replaced(tmp_path):
    replacement = io.StringIO()
    with terminal():
        with recorded_output(str(tmp_path / "log")):
            sys.stdout = replacement
            print("text")
        assert sys.stdout is replacement
    assert replacement.getvalue() == "text\n"


def test_a_handler_of_another_stream_for_the_same_descriptor_is_recorded(tmp_path):
    """As in a process that was forked after its parent has logged something."""
    with open(2, "w", closefd=False) as stream:
        handler = logging.StreamHandler(stream)
        logging.getLogger("forked").addHandler(handler)
        try:
            with terminal(), recorded_output(str(tmp_path / "log")):
                logging.getLogger("forked").warning("text")
            assert handler.stream is stream
        finally:
            logging.getLogger("forked").removeHandler(handler)
    assert (tmp_path / "log").read_text().splitlines().count("text") >= 1


def test_a_handler_whose_stream_is_a_property_is_recorded(tmp_path):
    """`logging.lastResort` looks up sys.stderr at each record; packages such as absl have handlers of its class."""
    logger = logging.getLogger("beam_datasets_of_last_resort")
    logger.addHandler(logging.lastResort)
    logger.propagate = False
    try:
        with terminal() as (_, err), recorded_output(str(tmp_path / "log")):
            logger.warning("once")
        assert err.getvalue() == "once\n"
    finally:
        logger.removeHandler(logging.lastResort)
    assert (tmp_path / "log").read_text() == "once\n"


def test_a_handler_that_the_code_has_made_works_after_the_run(tmp_path):
    logger = logging.getLogger("made in a run")
    with terminal() as (_, err):
        with recorded_output(str(tmp_path / "log")):
            logger.addHandler(logging.StreamHandler())
            logger.warning("during it")
        logger.warning("after it")
    logger.handlers.clear()
    assert err.getvalue().count("after it\n") == 2  # also by the handler of the root logger
    assert "Logging error" not in err.getvalue()
    assert set((tmp_path / "log").read_text().splitlines()) == {"during it"}


def test_a_print_during_a_print_is_recorded(tmp_path, monkeypatch):
    """As by a signal handler or a `__del__`, which Python may call at any time."""
    add = output_log.OutputLog.add

    def add_and_print(log, line, *, by_beam):
        if "first" in line:
            print("second")
            print("third", file=sys.stderr)
        add(log, line, by_beam=by_beam)

    monkeypatch.setattr(output_log.OutputLog, "add", add_and_print)
    with terminal() as (out, err), recorded_output(str(tmp_path / "log")):
        thread = threading.Thread(target=print, args=("first",), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
    assert (tmp_path / "log").read_text() == "first\nsecond\nthird\n"
    assert (out.getvalue(), err.getvalue()) == ("first\nsecond\n", "third\n")


@contextlib.contextmanager
def recording(path):
    with terminal(), recorded_output(str(path)):
        yield sys.stdout


@contextlib.contextmanager
def worker(path):
    with open(path, "wb", buffering=0) as file:
        yield WorkerStream("", file.fileno(), file.fileno())


@pytest.mark.parametrize("provide", [recording, worker])
def test_a_process_that_is_forked_during_a_print_can_print(tmp_path, monkeypatch, provide):
    is_writing, add = threading.Event(), output_log.LineBuffer.add

    def add_slowly(line, text):
        if text == "first\n":
            is_writing.set()
            threading.Event().wait(0.3)
        return add(line, text)

    monkeypatch.setattr(output_log.LineBuffer, "add", add_slowly)
    with provide(tmp_path / "log") as stream:
        thread = threading.Thread(target=stream.write, args=("first\n",))
        thread.start()
        is_writing.wait()
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            stream.write("second\n")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        thread.join()
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["first", "second"]


@pytest.mark.parametrize("parts", [
    ("password:", " ", "Hunter2222"), ("pass", "word: Hunter2222"), ("GET http", "://me:", "Hunter2222", "@h/x"),
    ("1 of 2, ", "api_key", "=", "Hunter2222"), ("connect(", "'", "jdbc:x://h;", "PWD=", "Hunter2222", ";x=1')"),
])  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r"])
def test_secrets_that_are_printed_in_parts_are_not_shown(tmp_path, parts, end):
    with terminal() as (out, _), recorded_output(str(tmp_path / "log")):
        print(*parts, sep="", end=end)
        for part in parts:
            sys.stdout.write(part)
    expected = without_passwords("".join(parts))
    assert "Hunter2222" not in expected
    assert out.getvalue() == expected + end + expected
    assert (tmp_path / "log").read_text() == f"{expected}\n{expected}\n"


def test_a_line_without_secrets_is_shown_before_its_end(tmp_path):
    with terminal() as (out, _), recorded_output(str(tmp_path / "log")):
        for number in range(5):
            print(number, end=" ")
            assert out.getvalue() == "0 1 2 3 4 "[: 2 * number + 2]
        print("\nnext", end="")
        assert out.getvalue() == "0 1 2 3 4 \nnext"
    assert out.getvalue() == "0 1 2 3 4 \nnext"
    assert (tmp_path / "log").read_text() == "0 1 2 3 4 \nnext\n"


def test_text_without_line_ends_is_cut(tmp_path):
    with terminal() as (out, _), recorded_output(str(tmp_path / "log")):
        for _ in range(2 * output_log.MAX_LINE + 10):
            print(".", end="")
    assert out.getvalue() == "." * (2 * output_log.MAX_LINE + 10)
    lines = (tmp_path / "log").read_text().splitlines()
    assert [len(line) for line in lines] == [output_log.MAX_LINE + 1] * 2 + [8]


def test_recordings_that_end_in_any_order_restore_the_streams(tmp_path):
    """As of two runs in threads of a process; `terminal` checks the streams and its handler."""
    with terminal() as (out, err):
        first, second = (recorded_output(str(tmp_path / name)) for name in ("first", "second"))
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        print("text")
        second.__exit__(None, None, None)
        assert (sys.stdout, sys.stderr) == (out, err)
    assert out.getvalue() == "text\n"
    assert [path.name for path in tmp_path.iterdir()] == ["second"]
