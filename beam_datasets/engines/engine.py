"""The runner of a pipeline and its options: the local default, and checks before a job starts."""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from beam_datasets import storage
from beam_datasets.arguments import boolean
from beam_datasets.engines import flink, local_runner, spark
from beam_datasets.engines.checks import HERE, EngineError, pool_of, runner_of, short_name
from beam_datasets.engines.flink import cluster_of
from beam_datasets.errors import (
    StoreOptionsError,
    did_you_mean,
)
from beam_datasets.extras import needs
from beam_datasets.options import EngineOptions
from beam_datasets.publishing import staging_checks
from beam_datasets.publishing.output_log import recorded_output
from beam_datasets.publishing.owners import LOCAL_RUNNERS
from beam_datasets.publishing.publication import Publication, Workers
from beam_datasets.reading.elements.executor import usable_cores
from beam_datasets.shuffle.levels import MergeLimits

SPILLED_BLOCK_SIZE = 16 << 20
INLINE_BLOCK_SIZE = 8 << 20
ONE_MACHINE = MergeLimits(few_reads=100_000, max_levels=1)  # its disk reads short ranges fast
_BUFFER_BUNDLES = frozenset({"flink", "spark"})  # runners that keep the output of a bundle in memory until it ends
_MAX_WORKERS = 1024  # processes of one machine: more would bring it to a halt, whatever they were meant to be
_PLACES = ("temp_location", "staging_location")
_SHUFFLE_BEST = frozenset({"dataflow"})  # has a shuffle service of its own

TARGET = "the directory of the version below data_dir"
"""The name, in errors, of the directory that is published."""


@dataclass(frozen=True, slots=True)
class Transport:
    """Options of how records are sent from encoding to the shards; they do not change the written files.

    Attributes:
        spill_dir: directory for spilled payload, visible to all workers; None sends it through the engine's shuffle.
        block_size: approximate size in bytes of the blocks in which records are sorted and sent.
        merge_limits: limits for merging spilled blocks; inline blocks are never merged.
        many_machines: whether the engine is made for many machines, and datasets of many shards.
        large_bundles: whether a bundle contains all elements of a stage on one worker, and is retried as a whole.
        tells_facts: whether errors of workers carry their facts as text, because this package shows them; False in a
            pipeline of the user, who would read that text.
    """

    spill_dir: str | None
    block_size: int
    merge_limits: MergeLimits
    many_machines: bool
    large_bundles: bool
    tells_facts: bool = False


@dataclass(frozen=True, kw_only=True)
class Engine(Workers):
    """Environment in which a pipeline runs.

    Attributes:
        options: the pipeline's options.
        num_workers: worker processes of a local run; 1 runs within this process.
        inherits: whether the workers get the environment variables of this process, because it starts them.
    """

    options: PipelineOptions
    num_workers: int = 0
    inherits: bool = True

    def transport(self, spill_dir: str | None, requested: EngineOptions, *, tells_facts: bool = False) -> Transport:
        """Returns the transport of records on this engine, to a spill directory or inline; see `Transport`."""
        if spill_dir is None:
            limits, block_size = MergeLimits(max_levels=0), INLINE_BLOCK_SIZE
        else:
            limits, block_size = ONE_MACHINE if self.local else MergeLimits(), SPILLED_BLOCK_SIZE
        size = requested.block_size or block_size
        return Transport(spill_dir, size, limits, not self.local, self.buffers_bundles, tells_facts)

    @contextlib.contextmanager
    def pipeline(self, worker_log: str) -> Iterator[beam.Pipeline]:
        """Provides a pipeline to run; its processes and its temporary directory end with the context.

        Args:
            worker_log: file for the output of the dataset's code, which is also printed.
        """
        runner: Any = None  # which lets the options choose it
        with contextlib.ExitStack() as stack:
            if self.local and self.num_workers > 1:
                runner = stack.enter_context(local_runner.LocalRunner(worker_log))
            elif self.local:
                runner = FnApiRunner()
                stack.enter_context(recorded_output(worker_log))
            pipeline = beam.Pipeline(runner=runner, options=self.options)
            stack.callback(shutil.rmtree, pipeline.local_tempdir, ignore_errors=True)
            yield pipeline


def engine_at_start(begin: Any, transform: beam.PTransform, shared_disk: bool, **paths: str) -> Engine:
    """Returns the engine of the pipeline at whose beginning a transform is applied, after checking the paths.

    Args:
        begin: the input of the transform.
        transform: the transform, for errors.
        shared_disk: whether the workers of a remote runner see this machine's paths.
        paths: purpose of a path, such as `target` -> path that workers must see.

    Raises:
        TypeError: the transform was applied to a PCollection.
        ValueError: the workers do not see one of the paths.
    """
    if not isinstance(begin, beam.pvalue.PBegin):
        name = type(transform).__name__
        raise TypeError(f"{name} begins a pipeline: apply it to the pipeline itself, not to a PCollection.")
    engine = engine_of(begin.pipeline, shared_disk=shared_disk)
    check_paths_are_shared(engine, {f"the {purpose}": path for purpose, path in paths.items()})
    return engine


def unused_pipeline() -> beam.Pipeline:
    """Returns a pipeline to apply transforms to, which never runs."""
    pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([]))
    shutil.rmtree(pipeline.local_tempdir)  # only `run` would do it
    return pipeline


def choose_engine(requested: EngineOptions) -> Engine:
    """Returns the engine for these options; by default FnApiRunner with one worker process per core.

    The launcher does not wait for a job that only becomes a template (`--template_location`). On Dataflow,
    `num_workers` is the initial number of machines.

    Raises:
        EngineError: the cluster does not answer.
        TypeError: `beam_options` are something else.
        ValueError: `direct_running_mode=multi_threading` is set, which loses records, or another option is
            unusable.
    """
    if isinstance(requested.beam_options, PipelineOptions):
        options = copy.deepcopy(requested.beam_options)  # the caller's stay as they are
    else:
        options = PipelineOptions(_arguments(requested.beam_options))
    num_workers = requested.num_workers
    runner = runner_of(options)
    if not _is_local(runner):
        name, known_names = str(options.view_as(StandardOptions).runner), StandardOptions.KNOWN_RUNNER_NAMES
        if "." not in name and runner not in map(short_name, known_names):
            hint = did_you_mean(name, known_names)
            if name.lower() in ("local", "direct", "none", "beam"):
                hint = " Leave it out to run on this machine."
            raise ValueError(
                f"runner is {name!r}; expected one of {', '.join(known_names)}, or the path of a class.{hint}"
            )
        if runner == "flink":
            flink.prepare_flink(options)
        if runner == "spark":
            spark.prepare_spark(options)
        if runner == "dataflow":
            prepare_dataflow(options, num_workers)
        engine = _remote_engine(options, requested.shared_disk)
        return replace(engine, num_workers=num_workers or 0, waits=requested.wait and not makes_template(options))
    _refuse_threads(options)
    if not requested.wait:
        raise ValueError("a local run ends with this process, which has to wait for it; leave out no_wait.")
    direct = options.view_as(DirectOptions)
    count = num_workers if num_workers is not None else direct.direct_num_workers
    cores = usable_cores()
    if "direct_num_workers" not in options.get_all_options(drop_default=True) and num_workers is None:
        count = cores
    if count is None or not 0 <= count <= _MAX_WORKERS:
        raise ValueError(f"num_workers is {count}; give 1 to {_MAX_WORKERS} processes, or 0 for one a core.")
    count = count or cores
    direct.direct_num_workers = count
    direct.direct_running_mode = "in_memory" if count == 1 else "multi_processing"
    return Engine(name="FnApiRunner", options=options, num_workers=count)


def _arguments(beam_options: Sequence[str] | None) -> list[str]:
    """Returns the options as a list.

    Raises:
        TypeError: they are not a list of str.
    """
    words: Any = () if beam_options is None else beam_options
    if not isinstance(words, str) and isinstance(words, Sequence) and all(isinstance(word, str) for word in words):
        return list(words)
    raise TypeError(
        f"beam_options is {beam_options!r}; expected Beam's PipelineOptions, or a list of str such as "
        "['--runner=FlinkRunner', '--parallelism=2']."
    )


def engine_of(pipeline: beam.Pipeline, *, shared_disk: bool = False) -> Engine:
    """Returns the engine of a user's own pipeline, unchanged.

    Raises:
        TypeError: `shared_disk` is neither True nor False.
        ValueError: see `choose_engine`.
    """
    options, shared_disk = pipeline.options, boolean("shared_disk", shared_disk)
    if not runs_here(pipeline):
        return _remote_engine(options, shared_disk)
    _refuse_threads(options)
    return Engine(name="FnApiRunner", options=options)


def _remote_engine(options: PipelineOptions, shared_disk: bool) -> Engine:
    """Returns the engine of a runner elsewhere.

    Args:
        options: the pipeline's options.
        shared_disk: whether the user states that its workers see this machine's paths. Workers that run on this
            machine, as those of the environment LOOPBACK, see them in any case.
    """
    name = str(options.view_as(StandardOptions).runner)
    return Engine(
        name=name,
        local=False,
        shares_disk=shared_disk or _workers_are_here(options),
        spills=short_name(name) not in _SHUFFLE_BEST,
        buffers_bundles=short_name(name) in _BUFFER_BUNDLES,
        options=options,
        inherits=_workers_get_environment(options),
    )


def runs_here(pipeline: beam.Pipeline) -> bool:
    """Returns whether a pipeline runs in processes of this machine that end with this one."""
    return isinstance(pipeline.runner, local_runner.LocalRunner) or _is_local(type(pipeline.runner).__name__)


def _is_local(runner: str) -> bool:
    """Returns whether Beam, which reads `direct` and `directrunner` as DirectRunner, would run it on this machine."""
    return short_name(runner) in map(short_name, LOCAL_RUNNERS)


def _refuse_threads(options: PipelineOptions) -> None:
    """Checks that the options do not select the multi-threaded mode of Beam's local runner.

    Raises:
        ValueError: they do.
    """
    if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise ValueError(
            "direct_running_mode=multi_threading loses records without an error (a race in Beam's local runner); "
            "use multi_processing, or leave it out."
        )


def refuse_template(engine: Engine) -> None:
    """Checks that the job is run, not written to a classic template.

    Raises:
        ValueError: it would become a template, all runs of which had one id and one staging directory.
    """
    if makes_classic_template(engine.options):
        raise ValueError(
            "template_location: expected a job that is run, got a classic template. All runs of one would write to the "
            "same staging directory. Use a Flex Template, which makes a job for each run: docs/how-to/dataflow.md."
        )


def starts_engine(options: PipelineOptions) -> bool:
    """Returns whether Beam starts the engine in this process's name, so that its jobs end with this process."""
    endpoint = options.view_as(PortableOptions).job_endpoint
    return runner_of(options) in ("flink", "prism") and not endpoint and not cluster_of(options)


def cluster_is_here(options: PipelineOptions) -> bool:
    """Returns whether all machines of the cluster that the options name are this one; True if they name none."""
    runner = runner_of(options)
    if runner == "flink":
        return flink.workers_are_here(options)
    return runner != "spark" or spark.workers_are_here(options)


def _workers_are_here(options: PipelineOptions) -> bool:
    """Returns whether a portable runner's workers run on this machine."""
    if _workers_get_environment(options):
        return True
    portable = options.view_as(PortableOptions)
    if not cluster_is_here(options):
        return False
    address = pool_of(options)[0] if portable.environment_type == "EXTERNAL" else str(portable.environment_config or "")
    host = address.rpartition(":")[0].strip("[]")
    return portable.environment_type in ("EXTERNAL", "PROCESS") and host in (*HERE, "")


def pool_here(options: PipelineOptions) -> str:
    """Returns the address of the worker pool of the options if it is on this machine; '' if not, and without a pool."""
    is_external = options.view_as(PortableOptions).environment_type == "EXTERNAL"
    return pool_of(options)[0] if is_external and _workers_are_here(options) else ""


def _workers_get_environment(options: PipelineOptions) -> bool:
    """Returns whether a portable runner's workers get the environment variables of this process.

    True if this process starts the workers on this machine (environment_type LOOPBACK), or if Beam starts Flink or
    Prism itself (neither environment_type nor job_endpoint is set), which then starts them.
    """
    portable = options.view_as(PortableOptions)
    if not cluster_is_here(options):
        return False
    return portable.environment_type == "LOOPBACK" or (
        portable.environment_type is None and runner_of(options) in ("flink", "prism") and not portable.job_endpoint
    )


def check_paths_are_shared(engine: Engine, paths: Mapping[str, str | None]) -> None:
    """Checks that remote workers can see these paths, and that no options of this process lead there.

    Args:
        engine: the environment in which the pipeline runs.
        paths: {purpose of a path: path}; None stands for no path.

    Raises:
        StoreOptionsError: a path has storage_options, and this process does not start the workers.
        EngineError: a path is local and the Flink cluster does not answer, or has no TaskManager yet.
        ValueError: a path is local and the workers are elsewhere.
    """
    for purpose, path in () if engine.inherits else paths.items():
        if path is not None and storage.has_options(path):
            raise StoreOptionsError(
                f"{purpose} is {path!r}, which this process uses with storage_options, and workers of {engine.name} do "
                "not get these: a job contains no credentials. Leave storage_options out, and let this process and "
                "the workers each have their own: variables of their environment (AWS_ACCESS_KEY_ID, "
                "AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, ...), a role or service account, or a mounted file."
            )
    if engine.shares_disk:
        return
    for purpose, path in paths.items():
        if path is not None and not storage.is_remote(path):
            if (cluster := cluster_of(engine.options)) and not cluster.task_managers():
                raise EngineError(
                    f"{purpose} is {path!r}, and the Flink cluster at {cluster.url} has no TaskManager, so whether its "
                    "workers see this path is unknown. Start one, and wait until it is registered; or, if the cluster "
                    "starts them for each job, give a path that all can see, and declare it with --shared_disk."
                )
            way = "Give a path that all can see, on a network file system say, and declare it with --shared_disk."
            if engine.name == "DataflowRunner":
                way = "Give one in a bucket: gs://my-bucket/datasets."
            raise ValueError(
                f"{purpose} is {path!r}, a path of this machine that workers of {engine.name} cannot see. {way}"
            )


def check_code_is_shared(path: str, beam_options: Sequence[str], *, shared_disk: bool) -> None:
    """Checks that workers can import a file of code that was given by its path, or are sent it.

    Args:
        path: path of the file.
        beam_options: Beam's pipeline options.
        shared_disk: the workers of a remote runner see this machine's paths.

    Raises:
        ValueError: the workers are elsewhere, and nothing brings the file to them.
    """
    if not os.path.exists(os.path.join(os.path.dirname(path), "__init__.py")):
        return  # it is in no package, and travels with the job: see pickle_module_by_value
    options = PipelineOptions(list(beam_options))
    runner, setup = str(options.view_as(StandardOptions).runner or ""), options.view_as(SetupOptions)
    is_sent = setup.setup_file or setup.extra_packages
    if shared_disk or is_sent or _is_local(runner) or _workers_are_here(options):
        return
    raise ValueError(
        f"{path} is in a package of this machine, and workers of {runner} import it by its name, which they do not "
        "know. Have them install the package (--setup_file ./setup.py, or --extra_package), or install it in their "
        "image and name the dataset as module:Name."
    )


@contextlib.contextmanager
def pickle_module_by_value(kind: type | None) -> Iterator[None]:
    """Context manager: pickles the module of a class by value, if it is a single file, for workers that lack it.

    A module in a package must be installed where workers run, as must everything that the file imports. For None
    nothing changes.
    """
    name = kind.__module__ if kind else "."
    if "." in name or name == "__main__":  # the latter is sent along anyway
        yield
        return
    module = sys.modules[name]
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def check_staging(pipeline: beam.Pipeline, publication: Publication) -> None:
    """Adds a stage to the pipeline that fails if workers do not see the staging directory of the launcher."""
    check_input = pipeline | "StagingSeed" >> beam.Impulse()
    check_input | "CheckStagingVisible" >> beam.Map(_check_launcher, publication)


def _check_launcher(_: Any, publication: Publication) -> None:
    """Checks that this worker sees the launcher's files, unless the version is published already.

    Args:
        _: ignored; an element of the PCollection that starts the check.
        publication: the publication whose directories are checked.
    """
    if not publication.is_published:  # a restarted job checks again, maybe after publishing
        staging_checks.check_is_of_launcher(publication)


# ------------------------------------------------------------------------------------------------------------ Dataflow


def check_installs_package(options: PipelineOptions) -> None:
    """Checks that workers of Dataflow get this package: those of its standard image lack it, and fail after minutes.

    Raises:
        EngineError: no option installs it.
    """
    if (
        runner_of(options) != "dataflow" or "FLEX_TEMPLATE_PYTHON_PY_FILE" in os.environ
    ):  # the image of a Flex Template has it
        return
    setup = options.view_as(SetupOptions)
    files = (setup.setup_file, setup.extra_packages, setup.requirements_file)
    if not any((options.view_as(WorkerOptions).sdk_container_image, *files)):
        raise EngineError(
            "DataflowRunner: expected an image with this package and your own, got none; nothing was published. Give "
            "--sdk_container_image IMAGE (templates/dataflow), or --setup_file ./setup.py of a package that needs it."
        )


def makes_template(options: PipelineOptions) -> bool:
    """Returns whether the job is only written to a file, which the launcher of a template starts."""
    return runner_of(options) == "dataflow" and bool(options.view_as(GoogleCloudOptions).template_location)


def makes_classic_template(options: PipelineOptions) -> bool:
    """Returns whether the job becomes a template that is started many times.

    The launcher of a Flex Template passes `template_location` as well, and starts the job in that file once.
    Its file is called job_object, and its image sets the environment variable.
    """
    location = str(options.view_as(GoogleCloudOptions).template_location or "")
    is_flex = location.endswith("/job_object") or "FLEX_TEMPLATE_PYTHON_PY_FILE" in os.environ
    return makes_template(options) and not is_flex


def prepare_dataflow(options: PipelineOptions, num_workers: int | None) -> None:
    """Sets the initial number of machines, and checks the options that Dataflow requires.

    Args:
        options: options of the pipeline.
        num_workers: initial number of machines; None for that of Beam's options.

    Raises:
        MissingDependencyError: Beam's part for Dataflow is not installed.
        ValueError: an option is missing or unusable.
    """
    with needs("DataflowRunner needs Google's libraries", "gcp"):
        importlib.import_module("google.cloud.dataflow")
    if num_workers is not None:
        options.view_as(WorkerOptions).num_workers = num_workers
    cloud = options.view_as(GoogleCloudOptions)
    missing = [name for name in ("project", "region") if not getattr(cloud, name)]
    if missing:
        raise ValueError(f"DataflowRunner needs --{' and --'.join(missing)}.")
    for name in _PLACES:
        location = getattr(cloud, name)
        if location is not None and not location.startswith("gs://"):
            raise ValueError(f"{name} is {location!r}; DataflowRunner needs a place in a bucket: gs://my-bucket/temp.")
    if not any(getattr(cloud, name) for name in _PLACES):
        raise ValueError("DataflowRunner needs --temp_location, a place in a bucket: gs://my-bucket/temp.")
