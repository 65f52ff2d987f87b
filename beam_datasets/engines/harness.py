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
    minutes for that connection before they look at the worker's error, such as a package that is not installed, or at
    its end, as if the system kills it. So this worker opens the connection first. A version of Beam whose workers are
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
    """Executes an instruction; opens the connection for elements before it unpickles the code of a stage."""

    def process_bundle(self, request: Any, instruction_id: str) -> Any:
        """Processes a bundle; see `SdkWorker`."""
        with contextlib.suppress(Exception):  # Beam does the same later, and reports the error
            connect_data(self.bundle_processor_cache, request)
        return super().process_bundle(request, instruction_id)


def connect_data(processors: BundleProcessorCache, request: Any) -> None:
    """Opens the connections for the elements of a stage that are not open yet.

    Args:
        processors: the worker's cache of stages, with their descriptors and the connections.
        request: the `ProcessBundleRequest` of the Fn API, which names the descriptor of the stage.
    """
    stream = getattr(request, "data_stream_id", "")  # newer versions of Beam have it
    for transform in processors.fns[request.process_bundle_descriptor_id].transforms.values():
        if transform.spec.urn in DATA_URNS:
            port = beam_fn_api_pb2.RemoteGrpcPort.FromString(transform.spec.payload)
            processors.data_channel_factory.create_data_channel(port, *filter(None, [stream]))
