"""Spark: checks of the options of Beam's portable runner for it, before a job."""

from __future__ import annotations

from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, SparkRunnerOptions

from beam_datasets.beam.checks import HERE

CACHE_MILLIS = 10_000  # for which a worker waits for the job's next stage


def prepare_spark(options: PipelineOptions) -> None:
    """Checks that a pipeline can run with these options, and completes them.

    Raises:
        ValueError: --job_endpoint or --environment_type is missing.
    """
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
    if portable.environment_cache_millis in (None, 0):  # Beam starts workers anew for each stage
        portable.environment_cache_millis = CACHE_MILLIS


def workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether --spark_master_url names a master of this machine's loopback, which only its workers reach."""
    master = str(options.view_as(SparkRunnerOptions).spark_master_url or "")
    return master.startswith("spark://") and urlsplit(master).hostname in HERE
