"""Beam's worker, which reports an error to the runner immediately even if it cannot start its part of the job."""

from __future__ import annotations

import contextlib
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.sdk_worker import BundleProcessorCache, SdkHarness, SdkWorker

DATA_URNS = frozenset({"beam:runner:source:v1", "beam:runner:sink:v1"})
"""URNs of the transforms by which a stage exchanges elements with the runner."""


class Harness(SdkHarness):
    """Runs the stages of a job that a runner assigns to this worker.

    Beam opens the connection for elements once it has unpickled the code of a stage. Its Java runners wait three
    minutes for that connection before they look at the worker's error, such as a package that is not installed. So a
    worker whose stage has failed opens the connection before it reports the error. A version of Beam whose workers are
    made in another way executes its own, with which such an error is reported late.
    """

    def create_worker(self) -> SdkWorker:
        """Returns the object that executes an instruction; see `SdkHarness`."""
        worker = super().create_worker()
        try:
            return _ConnectingWorker(worker.bundle_processor_cache, worker.profiler_factory)
        except (AttributeError, TypeError):
            return worker


class _ConnectingWorker(SdkWorker):
    """Executes an instruction; opens the connection for elements if it fails."""

    def process_bundle(self, request: Any, instruction_id: str) -> Any:
        """Processes a bundle; see `SdkWorker`."""
        try:
            return super().process_bundle(request, instruction_id)
        except Exception:
            with contextlib.suppress(Exception):  # the error of the stage is the one to report, if late
                connect_data(self.bundle_processor_cache, request.process_bundle_descriptor_id)
            raise


def connect_data(processors: BundleProcessorCache, descriptor_id: str) -> None:
    """Opens the connections for the elements of a stage that are not open yet.

    Args:
        processors: the worker's cache of stages, with their descriptors and the connections.
        descriptor_id: id of the descriptor of the stage.
    """
    for transform in processors.fns[descriptor_id].transforms.values():
        if transform.spec.urn in DATA_URNS:
            port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
            processors.data_channel_factory.create_data_channel(port)
