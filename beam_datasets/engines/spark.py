"""Spark: checks of the options of Beam's portable runner for it, before a job."""

from __future__ import annotations

from urllib.parse import urlsplit

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, SparkRunnerOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from beam_datasets.engines.checks import CONNECT_SECONDS, HERE, EngineError, runner_of, translate_log_level

CACHE_MILLIS = 10_000  # for which a worker waits for the job's next stage


def prepare_spark(options: PipelineOptions) -> None:
    """Checks that a pipeline can run with these options, and completes them.

    Raises:
        ValueError: --job_endpoint or --environment_type is missing, or another option is unusable.
    """
    translate_log_level(options)
    portable = options.view_as(PortableOptions)
    if not portable.job_endpoint:
        raise ValueError(
            "job_endpoint: expected the address of Beam's job server, got none. Start one "
            "(docs/how-to/spark.md), and name it: --job_endpoint=localhost:8099."
        )
    if not portable.environment_type:
        raise ValueError(
            "environment_type: expected EXTERNAL or DOCKER for SparkRunner, got none, for which Beam would start "
            "workers in the launcher, where the executors do not find them, or Docker containers of its own. With a "
            "worker pool beside each of Spark's workers "
            "(python -m beam_datasets.beam.worker_pool): "
            "--environment_type=EXTERNAL --environment_config=localhost:50000; for containers: "
            "--environment_type=DOCKER --environment_config=IMAGE."
        )
    if portable.environment_cache_millis in (None, 0):  # Beam starts new workers for each stage
        portable.environment_cache_millis = CACHE_MILLIS


def check_job_server_is_idle(options: PipelineOptions) -> None:
    """Checks that a job server of Spark runs no other job; does nothing for other runners.

    The job server is Spark's driver, a process that has one SparkContext, and each job needs its own.

    Raises:
        EngineError: it runs another job.
    """
    if runner_of(options) != "spark":
        return
    endpoint = options.view_as(PortableOptions).job_endpoint
    state = beam_job_api_pb2.JobState
    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        try:
            jobs = stub.GetJobs(beam_job_api_pb2.GetJobsRequest(), timeout=CONNECT_SECONDS).job_info
        except grpc.RpcError:
            return  # a job service need not list its jobs
    if active := [job.job_name for job in jobs if job.state in (state.STARTING, state.RUNNING)]:
        raise EngineError(
            f"the job server at {endpoint}: expected no other job, got {active[0]}, which runs; nothing was published. "
            "A job server for Spark runs one job at a time. Wait for its end, or start another job server."
        )


def workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether --spark_master_url names a master of this machine's loopback, which only its workers reach."""
    master = str(options.view_as(SparkRunnerOptions).spark_master_url or "")
    return master.startswith("spark://") and urlsplit(master).hostname in HERE
