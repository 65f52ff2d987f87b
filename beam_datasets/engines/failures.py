"""Conversion of a runner's exceptions to one error for the user.

Beam wraps the error of a worker in its own, as text, under hundreds of lines of its own frames. The reason is below the
last of them. An error of this project keeps its class; any other becomes a GenerationError that names the place in the
author's code.

Beam's log is filtered, too: a local run shows none of it, since one error says why it failed; a remote job shows its
progress and problems. Handlers get a filter for the time of the run; no hook of the process is replaced.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator

import grpc

from beam_datasets import errors, frames
from beam_datasets.errors import GenerationError
from beam_datasets.passwords import without_passwords
from beam_datasets.shuffle.block_builder import NOT_UTF8

_EXCEPTION = re.compile(r"^(?:[\w.<>]+\.)?(\w+)(?:: |$)", re.MULTILINE)
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)
_GROUP_MARGIN = re.compile(r"^ +(?:\| ?|\+ )", re.MULTILINE)  # of an ExceptionGroup's traceback
_FACTS = re.compile(r"\s*\[facts (?=\{)")  # as `add_facts_to_message` writes them, before JSON and ]
_RECORD = re.compile(r"(?P<path>.+?), byte (?P<offset>\d+)(?: \(record (?P<record>\d+)\))?: ")
_WRAPPED = re.compile(r"beam_datasets\.errors\.(\w+): ")
ENDED_EARLY = "a worker process ended before it had connected"
"""Beginning of the error of a worker pool about a worker that has ended before the runner has seen it."""
DIED = "a worker process died"
"""Beginning of the answer of a worker pool to the instructions for a dead worker; the process and the cause follow."""
NOT_PUBLISHED = "nothing was published"
_WORKER_LOST = (
    "exited with return code",
    "SDK worker disconnected",  # Prism; and what it says where it was just about to send it something:
    "panic in stage.Execute bundle processing goroutine: send on closed channel",
)
_CONNECTION_LOST = (  # Flink; the last one also in a restart
    "Channel closed prematurely",
    "CANCELLED: client cancelled",
    "call already cancelled",
)
_NO_POOL, _GRPC = "java.net.ConnectException", "io.grpc."
_JOB = re.compile(r"^Pipeline \S+ failed in state \w+: ")  # as job services begin
_CAUSE = "Caused by: "
_JAVA_PACKAGE = re.compile(r"\b(?:java|org\.apache|io\.grpc)(?:\.\w+)*\.(?=\w*(?:Exception|Error)\b)")
_JAVA_FRAME = re.compile(r"^\s+at [\w.$/<>]+\(", re.MULTILINE)
_STAGE = re.compile(r"\s*\[while running '(.*?)'\]")
_SOURCE = re.compile(r"(?:.*/)?WriteExamples/Encode (.+?)/Read(?:/.*)?")  # of what is not Beam's; see `beam.encode`
_NOT_IMPORTED = re.compile(r"import of module '([\w.]+)' failed|not the same object as (\w+)\.")  # as pickle says it
_AFTER = re.compile(r"\s*\[(after key [^\n]* \(example [\d,]+ of (?:unit [^\n]* of )?'[\w, ]+'\))\]")


class WorkerDiedError(GenerationError):
    """A process of a local run was killed, exited, or is stuck.

    Attributes:
        advice: the advice to the user.
    """

    advice = "Run it again, with fewer workers (--num_workers) if memory was short."


class StalledError(WorkerDiedError):
    """No process of a local run does anything."""

    advice = "Code that is silent for longer should print its progress; or allow more time by --stall_timeout SECONDS."


class SourceError(Exception):
    """Error of an author's source of examples, with its location as text, because a worker cannot send more."""


def interrupted(error: BaseException | None, earlier_error: BaseException | None = None) -> bool:
    """Returns whether Ctrl-C caused an error; Beam may have wrapped it.

    Args:
        error: error that a run raised. Its chain of causes may be a cycle (`raise error from error`).
        earlier_error: error that was being handled when the run began: its causes do not belong to the run.
    """
    met = {id(earlier_error)}
    while error is not None and id(error) not in met:
        if isinstance(error, KeyboardInterrupt):
            return True
        met.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def reason(error: BaseException) -> errors.BeamDatasetsError:
    """Returns the error to show for one that a runner raised."""
    text = _JOB.sub("", str(error))
    if isinstance(error, errors.BeamDatasetsError):
        return _rebuild(type(error), _split_where(text)[0]) if _STAGE.search(text) or _FACTS.search(text) else error
    if isinstance(error, grpc.RpcError):
        status = ": ".join(filter(None, [error.code().name, error.details()]))
        return GenerationError(
            f"the runner's job service reported an error ({status}). Its log has the reason; `beam-datasets info` "
            "shows whether the version is published."
        )
    if not _is_raised_by_code(text) and (engine_error := _engine_error(text)):
        return engine_error
    if "Traceback" not in text:
        text = _JAVA_PACKAGE.sub("", without_java_frames(text))
    else:
        text = _GROUP_MARGIN.sub("", text)
    places = list(_FRAME.finditer(text)) if "Traceback" in text else []
    last = _EXCEPTION.search(text, places[-1].end()) if places else None
    name = last.group(1) if last else type(error).__name__
    message, call_path = _split_where(text[last.end() :] if last else text)
    if wrapped := _WRAPPED.match(message):  # of a class whose arguments are not just a message, Beam says the name only
        name, message = wrapped.group(1), message[wrapped.end() :]
    error_class = getattr(errors, name, None)
    if isinstance(error_class, type) and issubclass(error_class, errors.BeamDatasetsError):
        return _rebuild(error_class, message)
    call_frames = [frames.Frame(p[1], int(p[2]), p[3]) for p in places] if last else frames.of(error)
    location = frames.format_location(call_path, call_frames)
    if name == SourceError.__name__:
        name, _, message = message.partition(":")
    if name == "UnicodeEncodeError" and not re.search(r"[(,] ?at ", location):  # Beam measures elements
        return errors.InvalidKeyError(f"{NOT_UTF8}{location}")
    return GenerationError(f"{name}: {message.strip()}{_hint_of_module(name, message, text)}{location}")


def _hint_of_module(name: str, message: str, text: str) -> str:
    """Returns what to do if a worker cannot import a module, or processes that it starts cannot; '' for other errors.

    Args:
        name: name of the error's class.
        message: the error's message.
        text: the engine's text, which has the traceback.
    """
    if name == "ModuleNotFoundError" and "pickle" in text:
        return ". Workers need this project, and what the dataset's module imports, installed where they run"
    not_imported = _NOT_IMPORTED.search(message) if name == "PicklingError" else None
    if not_imported and _is_single_file(not_imported[1] or not_imported[2], text):
        return (
            ". Workers get the code of a single file without a module, so other processes cannot import its functions. "
            "Use threads (multiprocessing.pool.ThreadPool), or move the function to a module that workers can import"
        )
    return ""


def _is_single_file(module: str, text: str) -> bool:
    """Returns whether a traceback contains the author's file of a module that belongs to no package.

    >>> _is_single_file("clicks", ' File "/home/me/clicks.py", line 3, in rows')
    True
    >>> _is_single_file("clicks", ' File "/venv/lib/python3.12/site-packages/clicks.py", line 3, in rows')
    False
    """
    files = [frame[1] for frame in _FRAME.finditer(text) if frames.is_authors(frame[1])]
    return f"{module}.py" in [re.split(r"[/\\]", file)[-1] for file in files]


def add_facts_to_message(error: errors.BeamDatasetsError) -> None:
    """Adds the facts of an error to its message, since an engine passes the text of a worker's error alone.

    `reason` removes them from the message, and sets the attributes again.
    """
    facts = {name: fact.hex() if name == "sort_key" else fact for name, fact in vars(error).items()}
    plain_facts = {name: fact for name, fact in facts.items() if isinstance(fact, (str, int)) and name != "problem"}
    if plain_facts and not _FACTS.search(str(error)):
        error.args = (without_passwords(f"{error} [facts {json.dumps(plain_facts)}]"),)


def without_java_frames(text: str) -> str:
    """Returns an error of Java as its message and the last cause, without the stack; other texts as they are."""
    if not _JAVA_FRAME.search(text):
        return text
    lines = [line for line in text.splitlines() if line.strip() and not line[0].isspace()]
    causes = [number for number, line in enumerate(lines) if line.startswith(_CAUSE)]
    return "\n".join([*lines[: causes[0]], *lines[causes[-1] :]] if causes else lines)


def _is_raised_by_code(text: str) -> bool:
    """Returns whether a text contains the traceback of an error that was raised outside of Beam and gRPC."""
    files = _FRAME.findall(text) if "Traceback" in text else []
    return bool(files) and not re.search(r"[/\\](apache_beam|grpc)[/\\]", files[-1][0])


def _engine_error(text: str) -> GenerationError | None:
    """Returns the error about the engine or its workers; None if the text is about something else.

    An engine reports its own failures as text alone, so names of Java classes and sentences of Beam are searched in it.
    """
    if different := re.search(r"versions differ: [^\n]*", text):  # as a worker pool answers
        return GenerationError(f"{different[0]} Nothing was published.")
    if missing_jar := re.search(r"Unable to fetch remote job server jar at ([^\s:]+:[^\s:]+)", text):
        return _build_unpublished_error(
            f"Beam could not download its job server, {missing_jar[1].rpartition('/')[2]}",
            "Give the address of a running one (--job_endpoint HOST:PORT) or its jar (--flink_job_server_jar FILE), or "
            "choose a version of Flink for which Beam has one (--flink_version).",
        )
    if _NO_POOL in text and _GRPC in text:  # TaskManagers use another protocol among themselves
        return _build_unpublished_error(
            "a machine of the engine found no worker pool at the address of --environment_config (connection refused)",
            "Each needs one: python -m beam_datasets.beam.worker_pool --port PORT",
        )
    if "No client connected within timeout" in text:
        return _build_unpublished_error(
            "a worker could not start its part of the job, or died while it started; the output of its worker pool "
            "says why, such as a signal, another version of Beam, or a package that is not installed",
            "`python -m beam_datasets.beam.worker_pool` reports most reasons here, and at once.",
        )
    if "NoResourceAvailableException" in text:
        return _build_unpublished_error(
            "the cluster had too few free slots for the job for longer than slot.request.timeout, such as after the "
            "loss of a TaskManager",
            "Start TaskManagers, or lower --parallelism, and run it again.",
        )
    if "JobCancellationException" in text:
        return _build_unpublished_error("the job was cancelled on the engine's page or by its interface")
    if "FlinkJobNotFoundException" in text:
        return _build_unpublished_error(
            "the JobManager does not know the job",
            "It has been started again, and without high availability its jobs end with it.",
        )
    if problem := _describe_dead_worker(text):
        return _build_unpublished_error(
            problem, "Run it again, with fewer worker processes (--num_workers) if memory was short."
        )
    return None


def _describe_dead_worker(text: str) -> str:
    """Returns which worker process an engine's error says to have died, as far as it does; '' for another error."""
    if died := re.search(rf"{DIED}: [^\n]*", text):
        return died[0]
    if early := re.search(rf"{ENDED_EARLY}(: [^\n]*)", text):
        return f"{DIED} before it had connected{early[1]}"
    if any(words in text for words in _CONNECTION_LOST):
        return f"{DIED} (killed, or out of memory; the output of its worker pool names it)"
    return f"{DIED} (killed, or out of memory)" if any(words in text for words in _WORKER_LOST) else ""


def _build_unpublished_error(problem: str, advice: str | None = None) -> GenerationError:
    """Returns the error of a job that has ended without having published."""
    return GenerationError(problem, outcome=NOT_PUBLISHED, advice=advice)


def _rebuild(kind: type[errors.BeamDatasetsError], message: str) -> errors.BeamDatasetsError:
    """Returns an error of the class with the message, and with the facts of `add_facts_to_message` as attributes."""
    if match := _FACTS.search(message):
        try:
            facts, length = json.JSONDecoder().raw_decode(message[match.end() :])
            if "sort_key" in facts:
                facts["sort_key"] = bytes.fromhex(facts["sort_key"])
        except ValueError:  # an engine has cut the text
            return _rebuild(kind, message[: match.start()])
        error = _rebuild(kind, message[: match.start()] + message[match.end() + length + 1 :])
        error.__dict__.update(facts)
        return error
    match = _RECORD.match(message) if kind is errors.CorruptRecordError else None
    if match:
        record = None if match["record"] is None else int(match["record"])
        path, offset = match["path"], int(match["offset"])
        problem = message[match.end() :]
        repairable = "beam-datasets verify" in problem
        return errors.CorruptRecordError(problem, path=path, offset=offset, record=record, repairable=repairable)
    try:
        return kind(message)
    except TypeError:  # a class whose arguments are not just a message
        return errors.BeamDatasetsError(message)


def _split_where(text: str) -> tuple[str, list[str]]:
    """Returns (message without Beam's additions, clauses about the place of the error).

    The clauses are the innermost stage and the previous example, as far as the text contains them.

    >>> _split_where("ValueError: bad [after key 'k' (example 4 of 'train')] [while running 'Encode/Map']")
    ('ValueError: bad', ["in stage 'Encode/Map'", "after key 'k' (example 4 of 'train')"])
    """
    key_notes = _AFTER.findall(text)[:1]
    text = _AFTER.sub("", text)
    stages = [
        f"in the source of {source[1]!r}" if (source := _SOURCE.fullmatch(stage)) else f"in stage {stage!r}"
        for stage in _STAGE.findall(text)[:1]
    ]
    message = _STAGE.split(text)[0].strip()
    if message[:1] in ("'", '"') and message.count(message[0]) == 1:  # of a KeyError, which shows the repr of its text
        message = message[1:]
    return message, stages + key_notes


_TRACEBACK = "Traceback (most recent call last)"
# They log the states of a job at level INFO.
_REPORTERS = ("apache_beam.runners.dataflow.dataflow_runner", "apache_beam.runners.portability.portable_runner")


@contextlib.contextmanager
def beam_silenced() -> Iterator[None]:
    """Keeps Beam's log records from the handlers of the root logger while active."""
    handlers = [*logging.getLogger().handlers, *filter(None, [logging.lastResort])]
    for handler in handlers:
        handler.addFilter(_is_not_of_beam)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_not_of_beam)


def quiet_at_exit() -> None:
    """Keeps Beam from warning that it ends the engines that it has started, which it does when the process exits."""
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)


@contextlib.contextmanager
def job_reported() -> Iterator[None]:
    """Shows a remote job's states, and Beam's and the engine's warnings and errors, on standard error while active.

    Each record is one line. Where the program has configured logging, its handlers show them, and nothing is changed;
    a plain StreamHandler and the default level do not count as configured, as Beam adds such a handler.
    """
    root = logging.getLogger()
    # Beam adds a handler to standard error where there is none.
    if root.level != logging.WARNING or any(type(handler) is not logging.StreamHandler for handler in root.handlers):
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    handler.addFilter(_is_warning_or_state_change)
    reporters = [logging.getLogger(name) for name in _REPORTERS]
    levels = [reporter.level for reporter in reporters]
    with beam_silenced():
        root.addHandler(handler)
        for reporter in reporters:
            reporter.setLevel(logging.INFO)
        try:
            yield
        finally:
            root.removeHandler(handler)
            for reporter, level in zip(reporters, levels):
                reporter.setLevel(level)


def _is_not_of_beam(record: logging.LogRecord) -> bool:
    """Returns whether a log record was not written by a module of the package `apache_beam`."""
    return f"{os.sep}apache_beam{os.sep}" not in record.pathname


def _is_warning_or_state_change(record: logging.LogRecord) -> bool:
    """Returns whether a log record of Beam is a warning, an error, or a change of the job's state."""
    is_relevant = record.levelno >= logging.WARNING or " state " in record.getMessage()
    return is_relevant and not _is_not_of_beam(record)


class _OneLine(logging.Formatter):
    """A formatter that makes one line of each log record."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns a log record as one line: "<first line> (3 more lines)"; the cause in place of a traceback."""
        record.exc_info = record.exc_text = record.stack_info = None
        first, *other_lines = super().format(record).splitlines() or [""]
        first = _JAVA_PACKAGE.sub("", first)
        if _TRACEBACK in first:  # of a worker, under the words of the engine
            cause = str(reason(RuntimeError(record.getMessage()))).partition("\n")[0]
            first = first.partition(_TRACEBACK)[0] + cause
        return f"{first} ({len(other_lines)} more line{'s' * (len(other_lines) > 1)})" if other_lines else first
