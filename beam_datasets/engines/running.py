"""Runs a pipeline to its end and raises one readable error if it fails.

A remote job is followed until the engine confirms that it has ended. If the engine does not, the error is
`JobStateUnknownError`, and intermediate data is kept, because the job may still be running.
"""

from __future__ import annotations

import contextlib
import functools
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from apache_beam.options.pipeline_options import GoogleCloudOptions, PortableOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from beam_datasets import catalog, storage
from beam_datasets.engines import checks, failures, local_runner, spark
from beam_datasets.engines import engine as engines
from beam_datasets.engines.checks import EngineError
from beam_datasets.engines.failures import WorkerDiedError, interrupted, reason
from beam_datasets.engines.flink import FlinkCluster, JobStatus, await_slots, cluster_of
from beam_datasets.engines.following import Follower
from beam_datasets.errors import BeamDatasetsError, GenerationError, JobStateUnknownError, StorageError
from beam_datasets.publishing import phases, runs, staging_checks
from beam_datasets.publishing.progress import Progress, call_every, watch
from beam_datasets.publishing.publication import Publication
from beam_datasets.publishing.runs import Run, is_complete

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import PipelineResult


_T = TypeVar("_T")

RETRY_SECONDS = (1, 2, 4, 8, 16)  # waits before a failed request for a job's state is repeated
ANSWER_SECONDS = 60  # timeout of a request
POLL_SECONDS = 5  # between two requests for the state of a running job
CANCEL_SECONDS = 60  # timeout for a cancelled job to end
VISIBLE_SECONDS = 60  # timeout for this process to see a published version
_ENDED = frozenset({PipelineState.DONE, PipelineState.FAILED, PipelineState.CANCELLED, PipelineState.DRAINED})
_FLINK_STATES = {
    "FINISHED": PipelineState.DONE,
    "FAILED": PipelineState.FAILED,
    "CANCELED": PipelineState.CANCELLED,
}
_NO_CONTACT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN})


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended successfully, or that was only submitted.

    Attributes:
        result: Beam's result of the job.
        restarts: the number of times that the engine has repeated a part of the job; 0 if that is unknown.
    """

    result: PipelineResult
    restarts: int = 0


def run_pipeline(
    pipeline: beam.Pipeline,
    watching: contextlib.AbstractContextManager[None],
    *,
    wait: bool = True,
    run: Run | None = None,
    num_units: int | None = None,
) -> EndedJob:
    """Runs a pipeline, and waits for its end.

    The caller has checked the servers of a remote engine; see `check_engine`.

    Args:
        pipeline: the pipeline to run.
        watching: a context manager that is active during a local run.
        wait: whether to wait for the end of a remote job, rather than only submit it.
        run: the run that the pipeline publishes; None if it publishes nothing.
        num_units: number of units of the source, for progress; None if it is unknown.

    Raises:
        JobStateUnknownError: the engine does not report whether the job has ended.
        BeamDatasetsError: the pipeline failed.
    """
    if not engines.runs_here(pipeline):
        local_runner.served_grpc = True
        starts_engine = engines.starts_engine(pipeline.options)
        if starts_engine:
            failures.quiet_at_exit()
        with failures.beam_silenced() if starts_engine else failures.job_reported():
            return _run_job(pipeline, starts_engine=starts_engine, wait=wait, run=run, num_units=num_units)
    check = (lambda: None) if run is None else functools.partial(staging_checks.check_directories, run)
    runner: Any = pipeline.runner
    has_runner_process = isinstance(runner, local_runner.LocalRunner)
    ending = contextlib.nullcontext() if has_runner_process else _end_on_error(check)
    with failures.beam_silenced(), ending, _readable_errors():  # the last takes what Ctrl-C has caused for Ctrl-C
        try:
            if not has_runner_process:
                with watching:
                    return EndedJob(pipeline.run())
            runner.check = check
            result = pipeline.run()
            with watching:
                result.wait_until_finish()
            return EndedJob(result)
        except WorkerDiedError as died:
            if run is None:
                raise
            is_published = catalog.is_published(run.target)
            outcome = f"{run.target} is published" if is_published else failures.NOT_PUBLISHED
            raise type(died)(str(died), outcome=outcome, advice=died.advice) from None


def run_publishing(
    engine: engines.Engine,
    publication: Publication,
    build: Callable[[beam.Pipeline], int | None],
    progress: Callable[[Progress], None] | None,
    *,
    sent_along: type | None = None,
) -> EndedJob:
    """Runs a pipeline that publishes a version, in its staging directory.

    A remote engine's servers are checked before the version is reserved: a run that cannot start leaves nothing.

    Args:
        engine: the environment in which the pipeline runs.
        publication: the version to publish.
        build: applies the transforms to the pipeline, and returns the number of units of its source, or None.
        progress: called with the progress of a local run about twice a second.
        sent_along: class whose module is sent along with a remote job; see `engine.pickle_module_by_value`.

    Raises:
        BeamDatasetsError: the pipeline failed, or this process does not see the published version.
    """
    if not engine.local:
        name_job(engine.options, publication)
        check_servers(engine.options, wait=engine.waits)
    with phases.staging(publication), engine.pipeline(publication.worker_log) as pipeline:
        num_units = build(pipeline)
        if not engine.local:
            engines.check_staging(pipeline, publication)
        report = progress if engine.local else None
        watching = watch(publication.staging_dir, publication.spill_dir, report, num_units)
        with contextlib.nullcontext() if engine.local else engines.pickle_module_by_value(sent_along):
            outcome = run_pipeline(pipeline, watching, wait=engine.waits, run=publication, num_units=num_units)
        if engine.waits:
            check_visible(publication)
        return outcome


def name_job(options: PipelineOptions, publication: Publication) -> None:
    """Names the engine's job after the dataset, the version and the run, unless it has a name."""
    cloud, info = options.view_as(GoogleCloudOptions), publication.info
    if not cloud.job_name:
        words = filter(None, [info.name, info.config_name, str(info.version), publication.job])
        cloud.job_name = re.sub("[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")  # as Dataflow takes names


def check_visible(run: Run) -> None:
    """Waits up to a minute until this process sees the version that an ended job has published.

    A network disk may show a new directory late.

    Raises:
        StorageError: the version is still not visible; of a local run, whose workers are here, it is not waited for.
    """
    deadline = time.monotonic() + VISIBLE_SECONDS
    while not is_complete(run.target):
        if run.owner.is_local:
            raise staging_checks.lost_error(run.target, "version that the run has published")
        if time.monotonic() > deadline:
            raise StorageError(
                f"{run.target}: expected the version that the job has published, got none after {VISIBLE_SECONDS} s. "
                "Its workers published to another disk or store: data_dir must be a place that the launcher and all "
                "workers share."
            )
        time.sleep(1)


@contextlib.contextmanager
def _end_on_error(check: Callable[[], None]) -> Iterator[None]:
    """Context manager: ends its body with the error that `check` raises, which is called about once a second.

    Another thread calls it, and then interrupts this one as Ctrl-C does. So nothing is checked where Ctrl-C has another
    effect: in other threads than the main one, and where the program handles SIGINT.

    Args:
        check: raises a StorageError if the run cannot succeed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    storage_errors: list[StorageError] = []
    main_thread = threading.get_ident()

    def interrupt() -> None:
        """Interrupts the main thread the first time that the check fails."""
        if storage_errors:
            return
        try:
            check()
        except StorageError as error:
            storage_errors.append(error)
            signal.pthread_kill(main_thread, signal.SIGINT)  # also wakes it while it waits

    try:
        with call_every(local_runner.CHECK_SECONDS, interrupt):
            yield
    except BaseException:  # of `interrupt`, or of what missed the directories
        if not storage_errors:
            raise
    if storage_errors:
        raise storage_errors[0] from None


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    """Context manager: replaces an error of a runner by a `BeamDatasetsError` with the reason.

    The original error is its `__context__`. If Ctrl-C caused the error, a KeyboardInterrupt is raised instead.
    """
    handled = sys.exc_info()[1]
    try:
        yield
    except JobStateUnknownError:
        raise  # also after Ctrl-C, so that the job's data is kept
    except Exception as error:
        if interrupted(error, handled):
            raise KeyboardInterrupt from None
        raise reason(error) from None


@dataclass
class _Job:
    """A submitted job.

    Attributes:
        result: Beam's result of the job.
        name: id of the job, or its name if the runner has no public id.
        page: URL or description of the place where the engine shows the job.
        log: URL of the logs of the workers; '' if the engine has none.
        cluster: the Flink cluster that runs the job, if there is one.
        ends_here: whether this process started the engine. If such an engine does not answer, it has ended.
    """

    result: PipelineResult
    name: str
    page: str
    log: str = ""
    cluster: FlinkCluster | None = None
    ends_here: bool = False

    def status(self) -> JobStatus | None:
        """Returns the status of the job from the Flink cluster; None for other engines."""
        return self.cluster.status(self.name) if self.cluster else None

    def state(self) -> str:
        """Returns the job's state; repeats failed requests, with waits of about half a minute in all.

        If the job server does not know it, or does not answer, the Flink cluster is asked.

        Raises:
            JobStateUnknownError: all requests failed.
        """
        for seconds in (*RETRY_SECONDS, None):
            try:
                state = _call_with_timeout(ANSWER_SECONDS, lambda: self.result.state)
                if state == PipelineState.FAILED and self.cluster:  # the job server may have lost the cluster
                    return _state_of(self.cluster.state(self.name)) or PipelineState.FAILED
                return str(state)
            except Exception as error:
                if self.ends_here:
                    return PipelineState.FAILED
                if (cluster_state := self._state_on_cluster()) is not None:
                    return cluster_state
                if seconds is None:
                    raise self.unknown(_describe(error)) from error
                time.sleep(seconds)
        raise AssertionError

    def _state_on_cluster(self) -> str | None:
        """Returns the job's state from the Flink cluster; None without a cluster, an answer, or such a job."""
        with contextlib.suppress(EngineError):
            return _state_of(self.cluster.state(self.name)) if self.cluster is not None else None
        return None

    def cancel(self) -> None:
        """Cancels the job and waits until it has ended.

        Raises:
            JobStateUnknownError: the engine did not confirm the end within a minute.
        """
        problems = []
        try:
            for cancel in (self._cancel_on_cluster, self.result.cancel):  # Beam's job server may not cancel Flink's job
                try:
                    _call_with_timeout(ANSWER_SECONDS, cancel)
                except Exception as error:  # the state shows whether the job has ended
                    problems.append(f"{type(error).__name__}: {error}")
            deadline = time.monotonic() + CANCEL_SECONDS
            while (state := self.state()) not in _ENDED:
                if time.monotonic() > deadline:
                    problem_note = f" (cancelling failed: {'; '.join(problems)})" if problems else ""
                    raise self.unknown(f"it was asked to cancel, and is still in state {state}{problem_note}")
                time.sleep(1)
        except KeyboardInterrupt:
            raise self.unknown("interrupted again before its cancellation was confirmed") from None

    def error(self, raised: Exception | None, state: str) -> Exception:
        """Returns the error of a job that has ended in a state other than DONE.

        Beam's job server reports the last cause alone, such as a connection that was refused; Flink knows all causes.

        Args:
            raised: the runner's exception; None if there is none.
            state: state of the job.
        """
        if raised is None or (state == PipelineState.CANCELLED and _is_lost_contact(raised)):
            return GenerationError(f"job {self.name} ended in state {state}", outcome=failures.NOT_PUBLISHED)
        if self.cluster is not None and state == PipelineState.FAILED and "Traceback" not in str(raised):
            with contextlib.suppress(EngineError):
                if failure := self.cluster.failure(self.name):
                    return RuntimeError(failure)
        return raised

    def _cancel_on_cluster(self) -> None:
        """Cancels the job through the cluster's own API, if there is a cluster."""
        if self.cluster is not None:
            self.cluster.cancel(self.name)

    def unknown(self, problem: str) -> JobStateUnknownError:
        """Returns the error for a job that may still be running."""
        return JobStateUnknownError(
            f"job {self.name}: expected its state, got {' '.join(problem.split())!r:.300}. It may still be running, "
            f"and publish; its intermediate data was kept. Look at {self.page}. When it has ended, `beam-datasets gc` "
            "removes what it left; if it has failed, run it again."
        )


def check_engine(engine: engines.Engine) -> None:
    """Checks the servers of a remote engine; see `check_servers`. A local run has none."""
    if not engine.local:
        check_servers(engine.options, wait=engine.waits)


def check_servers(options: PipelineOptions, *, wait: bool = True) -> list[str]:
    """Adds the parameters of `checks` for worker pools to the options, and checks a remote runner's servers.

    Returns the addresses of those that answered.

    Raises:
        EngineError: a server does not answer, a worker pool of this machine starts no worker, or workers of Dataflow
            lack this package.
    """
    engines.check_installs_package(options)
    cluster = cluster_of(options)
    checks.send_parameters(options, _job_name(options), cluster.url if cluster else "")
    answered = checks.check_servers(options, is_pool_here=wait and engines.cluster_is_here(options))
    spark.check_job_server_is_idle(options)
    return answered


def _run_job(
    pipeline: beam.Pipeline, *, starts_engine: bool, wait: bool, run: Run | None = None, num_units: int | None = None
) -> EndedJob:
    """Submits a job to a remote runner, and follows it to its end; see `run_pipeline`.

    Args:
        pipeline: the pipeline to run.
        starts_engine: whether this process starts the engine.
        wait: whether to wait for the end of the job.
        run: the run that the pipeline publishes; None if it publishes nothing.
        num_units: number of units of the source; None if it is unknown.
    """
    options, runner = pipeline.options, str(pipeline.options.view_as(StandardOptions).runner)
    cluster, pool = cluster_of(options), engines.pool_here(options)  # before the run, which removes the runner's name
    with _readable_errors():
        if cluster is not None:
            await_slots(cluster, options)
        name = _job_name(options)
        try:
            if run is not None:
                storage.write_bytes(run.submitted_file, b"")
            result = pipeline.run()
        except (Exception, KeyboardInterrupt) as error:
            if starts_engine or not (_is_lost_contact(error) or isinstance(error, KeyboardInterrupt)):
                raise
            problem = str(error) or "interrupted"
            page = cluster.url if cluster else f"the page of {runner}"
            job = _Job(None, name, page, cluster=cluster)  # type: ignore[arg-type]
            raise job.unknown(f"{problem} while it was submitted") from error
    log = f"{cluster.url}/#/task-manager" if cluster else ""
    job = _Job(result, *_identify_job(result, name, options, cluster), log, cluster, starts_engine)
    if not starts_engine and getattr(result, "has_job", True):
        log_note = f"; logs of the workers: {log}" if log else ""
        print(f"{runner}: job {job.name}, {job.page}{log_note}", file=sys.stderr)
    if not wait:
        return EndedJob(result)
    follower = Follower(job.name, job.page, job.log, job.status, run, num_units, pool)
    with follower.active():
        try:
            _follow(job)
        except JobStateUnknownError:
            raise
        except BeamDatasetsError as error:
            if run is None or not runs.is_published_by(run.job, run.target):
                raise
            print(f"{runner}: job {job.name} had published when it failed: {error}", file=sys.stderr)
    return EndedJob(result, follower.restarts)


def _follow(job: _Job) -> None:
    """Waits until the job has ended.

    Raises:
        JobStateUnknownError: the engine does not report whether the job has ended.
        BeamDatasetsError: the job failed.
    """
    error: Exception | None = None
    try:
        while True:
            if error is None or job.cluster is None:  # otherwise Flink is asked, which needs no job server
                error = None
                try:
                    state = str(job.result.wait_until_finish())
                except Exception as raised:
                    error = raised
            if error is not None or state not in _ENDED:
                state = job.state()
            if state == PipelineState.DONE:
                return
            if state in _ENDED:
                with _readable_errors():
                    raise job.error(error, state)
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:  # also during a request for the state: the data of a running job must not be deleted
        job.cancel()
        raise


def _job_name(options: Any) -> str:
    """Returns the option `job_name`; sets it to a new name such as beam-datasets-1128033026-001234 if it is empty.

    Args:
        options: Beam's `PipelineOptions`. Changed if there is no name.
    """
    cloud = options.view_as(GoogleCloudOptions)
    if not cloud.job_name:
        cloud.job_name = f"beam-datasets-{time.strftime('%m%d%H%M%S')}-{threading.get_native_id() % 10**6:06d}"
    return str(cloud.job_name)


def _identify_job(result: Any, name: str, options: Any, cluster: FlinkCluster | None) -> tuple[str, str]:
    """Returns (id of the job at the engine, or else its name; URL or description of its page); see `_Job`.

    Args:
        result: the `PipelineResult`.
        name: the job's name.
        options: Beam's `PipelineOptions`.
        cluster: the Flink cluster; None for other engines.
    """
    if cluster is not None:
        return name, f"{cluster.url}/#/job/running"
    if hasattr(result, "job_id") and getattr(result, "has_job", False):
        cloud, job = options.view_as(GoogleCloudOptions), result.job_id()
        return job, f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}/{job}?project={cloud.project}"
    return name, f"the job service at {options.view_as(PortableOptions).job_endpoint or 'this machine'}"


def _state_of(flink_state: str | None) -> str | None:
    """Returns Beam's state that corresponds to a state of Flink; None for None."""
    return None if flink_state is None else _FLINK_STATES.get(flink_state, PipelineState.RUNNING)


def _describe(error: Exception) -> str:
    """Returns the text of an error; for one of gRPC, "<status>: <details>", such as "UNAVAILABLE: no connection"."""
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        return ": ".join(filter(None, [error.code().name, error.details()]))
    return str(error)


def _is_lost_contact(error: BaseException) -> bool:
    """Returns whether an error of submitting a job is of the connection, so that the engine may have accepted it."""
    if isinstance(error, grpc.RpcError):
        return isinstance(error, grpc.Call) and error.code() in _NO_CONTACT
    kinds: list[type[BaseException]] = [ConnectionError, TimeoutError]
    with contextlib.suppress(ImportError):  # of the client of Dataflow, which is installed only for that
        from google.api_core.exceptions import RetryError, ServerError
        from requests.exceptions import ConnectionError as NoConnection
        from requests.exceptions import Timeout

        kinds += [RetryError, ServerError, NoConnection, Timeout]
    return isinstance(error, tuple(kinds))


def _call_with_timeout(seconds: float, ask: Callable[[], _T]) -> _T:
    """Returns `ask()`, called in another thread; raises a TimeoutError if it takes more than `seconds` seconds.

    Such a call is abandoned: its thread goes on.
    """
    answer: futures.Future[_T] = futures.Future()

    def run() -> None:
        """Calls `ask`, and stores its result or its exception in `answer`."""
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(seconds)
    except futures.TimeoutError:
        raise TimeoutError(f"no answer within {seconds} s") from None
