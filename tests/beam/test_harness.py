"""Beam's worker with errors that reach a runner at once; tests/engines has it on a real cluster."""

from types import SimpleNamespace

import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker.sdk_worker import SdkHarness, SdkWorker

from beam_datasets.engines import harness
from beam_datasets.engines.harness import Harness, connect_data


def test_the_connections_of_a_stage_are_opened():
    """Those of its source and its sink, and of no other transform."""
    port = beam_fn_api_pb2.RemoteGrpcPort()
    port.api_service_descriptor.url = "localhost:7"
    transforms = {
        name: beam_runner_api_pb2.PTransform(
            spec=beam_runner_api_pb2.FunctionSpec(urn=urn, payload=port.SerializeToString())
        )
        for name, urn in (
            ("a", "beam:runner:source:v1"),
            ("b", "beam:transform:pardo:v1"),
            ("c", "beam:runner:sink:v1"),
        )
    }
    opened = []
    processors = SimpleNamespace(
        fns={"stage": SimpleNamespace(transforms=transforms)},
        data_channel_factory=SimpleNamespace(create_data_channel=lambda port: opened.append(port)),
    )
    connect_data(processors, SimpleNamespace(process_bundle_descriptor_id="stage"))
    assert opened == [port, port]


def test_the_connections_are_opened_before_the_code_of_a_stage_is_unpickled(monkeypatch):
    """A Java runner waits three minutes for those of a worker that has died meanwhile."""
    steps = []
    monkeypatch.setattr(harness, "connect_data", lambda *_: steps.append("connected") or 1 / 0)
    monkeypatch.setattr(SdkWorker, "process_bundle", lambda *_: steps.append("processed"))
    worker = SimpleNamespace(bundle_processor_cache=object(), profiler_factory=lambda *_: None)
    monkeypatch.setattr(SdkHarness, "create_worker", lambda harness: worker)
    Harness.create_worker(object.__new__(Harness)).process_bundle(SimpleNamespace(), "1")
    assert steps == ["connected", "processed"]


@pytest.mark.parametrize("is_as_expected", [True, False])
def test_a_worker_of_another_version_of_beam_is_used_as_it_is(monkeypatch, is_as_expected):
    worker = SimpleNamespace(bundle_processor_cache=object(), profiler_factory=lambda *_: None)
    if not is_as_expected:
        del worker.profiler_factory
    monkeypatch.setattr(SdkHarness, "create_worker", lambda harness: worker)
    created = Harness.create_worker(object.__new__(Harness))
    assert isinstance(created, SdkWorker) == is_as_expected
    assert (created is worker) == (not is_as_expected)
