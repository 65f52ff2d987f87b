"""Running a pipeline to its end, with one readable error where it fails."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from beam_datasets.transforms import engine as engines
from beam_datasets.transforms import flink, portable, quiet
from beam_datasets.transforms.failures import interrupted, reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    import apache_beam as beam
    from apache_beam.runners.runner import PipelineResult


def run_pipeline(
    pipeline: beam.Pipeline, watching: contextlib.AbstractContextManager[None], *, wait: bool = True
) -> PipelineResult:
    """Runs a pipeline, waits for its end, and returns its result.

    Args:
        pipeline: what to run.
        watching: a context that lasts as long.
        wait: for its end; else it is only given to the runner, whose loggers tell where it is.

    Raises:
        BeamDatasetsError: it failed; what the runner raised is its `__context__`.
    """
    if not wait:
        with _readable_errors(silent=False):
            return pipeline.run()
    cluster = flink.cluster_of(pipeline.options)  # asked before the run, which forgets the runner's name
    with watching, engines.safe_local_runner(), _readable_errors(silent=True):
        portable.check_job_service(pipeline.options)
        if cluster is None:
            portable.check_pool(pipeline.options, pipeline.options.view_as(flink.ClusterOptions).worker_start_seconds)
        result = pipeline.run()
        with flink.attended(result, pipeline.options, cluster), _cancelled_where_interrupted(result):
            result.wait_until_finish()
    return result


@contextlib.contextmanager
def _cancelled_where_interrupted(result: PipelineResult) -> Iterator[None]:
    """Cancels a run that nobody waits for any more, so that it does not go on to write and publish."""
    try:
        yield
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):  # it may have ended, or its runner
            result.cancel()
        raise


@contextlib.contextmanager
def _readable_errors(*, silent: bool) -> Iterator[None]:
    """Raises what went wrong in a run as one error that says why.

    The runner's own words, a hundred lines and more, stay as its `__context__`, which is not shown.

    Where they are to be silent, Beam's loggers and threads are so meanwhile: they tell the same at length.
    """
    handled = sys.exc_info()[1]
    with quiet.beam_silenced() if silent else contextlib.nullcontext():
        try:
            yield
        except Exception as error:
            if interrupted(error, handled):
                raise KeyboardInterrupt from None
            raise reason(error) from None
