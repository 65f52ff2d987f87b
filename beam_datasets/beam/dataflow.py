"""What is checked of options for Dataflow before a job starts, and before Beam asks the cloud for what is missing."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)

from beam_datasets.errors import MissingDependencyError, install_command

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_PLACES = ("temp_location", "staging_location")


def is_meant(options: PipelineOptions) -> bool:
    """Returns whether Beam would run it on Dataflow."""
    return str(options.view_as(StandardOptions).runner).rpartition(".")[2].lower().removesuffix("runner") == "dataflow"


def makes_template(options: PipelineOptions) -> bool:
    """Returns whether the job is only written to a file, which the launcher of a template starts."""
    return is_meant(options) and bool(options.view_as(GoogleCloudOptions).template_location)


def makes_classic_template(options: PipelineOptions) -> bool:
    """Returns whether the job becomes a template that is started many times.

    The launcher of a Flex Template passes `template_location` as well, and starts the job in that file once.
    Its file is called job_object, and its image sets the environment variable.
    """
    location = str(options.view_as(GoogleCloudOptions).template_location or "")
    is_flex = location.endswith("/job_object") or "FLEX_TEMPLATE_PYTHON_PY_FILE" in os.environ
    return makes_template(options) and not is_flex


def prepare(options: PipelineOptions, num_workers: int | None) -> None:
    """Sets the machines to begin with, and checks what Dataflow cannot do without.

    Args:
        options: of the pipeline.
        num_workers: machines to begin with, where that was given as an option of this package.

    Raises:
        MissingDependencyError: Beam's part for Dataflow is not installed.
        ValueError: an option is missing or unusable.
    """
    if not _is_installed():
        raise MissingDependencyError(f"DataflowRunner needs Google's libraries: {install_command('gcp')}")
    if num_workers is not None:
        options.view_as(WorkerOptions).num_workers = num_workers
    cloud = options.view_as(GoogleCloudOptions)
    missing = [name for name in ("project", "region") if not getattr(cloud, name)]
    if missing:
        raise ValueError(f"DataflowRunner needs --{' and --'.join(missing)}.")
    for name in _PLACES:
        place = getattr(cloud, name)
        if place is not None and not place.startswith("gs://"):
            raise ValueError(f"{name} is {place!r}; DataflowRunner needs a place in a bucket: gs://my-bucket/temp.")
    if not any(getattr(cloud, name) for name in _PLACES):
        raise ValueError("DataflowRunner needs --temp_location, a place in a bucket: gs://my-bucket/temp.")


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("google.cloud.dataflow") is not None
    except ModuleNotFoundError:
        return False


def ships_code(options: PipelineOptions) -> bool:
    """Returns whether a package of the user's goes to the workers with the job."""
    setup = options.view_as(SetupOptions)
    return bool(setup.setup_file or setup.extra_packages)
