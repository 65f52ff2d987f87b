"""Coders of blocks and histograms: every value comes back, equal values have equal bytes, and the graph uses them."""

import pickle
import subprocess
import sys

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets import features as F
from beam_datasets.beam import WriteDataset
from beam_datasets.beam.engine import unused_pipeline
from beam_datasets.beam.write import BlockCoder, HistogramCoder, SpilledBlocksCoder, _MergeHistograms
from beam_datasets.generate import histogram as histograms
from beam_datasets.generate.blocks import Block, SpilledBlocks
from beam_datasets.generate.histogram import Histogram, count_keys

NAMES = st.text(max_size=20)
SIZES = st.integers(0, 2**63 - 1)
INLINE = st.integers(0, 5).flatmap(
    lambda n: st.builds(
        Block,
        split=NAMES,
        keys=st.binary(min_size=16 * n, max_size=16 * n),
        sizes=st.binary(min_size=4 * n, max_size=4 * n),
        payload=st.binary(max_size=100),
    )
)
LISTED = st.builds(SpilledBlocks, split=NAMES, path=NAMES, start=SIZES, stop=SIZES)


@st.composite
def counted(draw: st.DrawFn) -> Histogram:
    keys = sorted(draw(st.lists(st.integers(0, 2**128 - 1), max_size=20)))
    halves = np.array([(key >> 64, key % 2**64) for key in keys], np.uint64).reshape(-1, 2)
    sizes = draw(st.lists(st.integers(16, 2**40), min_size=len(keys), max_size=len(keys)))
    if not keys:
        return Histogram(0, halves, np.empty(0, np.int64), np.empty(0, np.int64))
    shift = draw(st.integers(0, 127))
    return count_keys(halves, np.array(sizes, np.int64), max_bins=draw(st.integers(1, 30)), shift=shift)


@given(INLINE | LISTED)
def test_a_block_comes_back(block):
    coder = registry.get_coder(type(block))
    encoded = coder.encode(block)
    assert coder.decode(encoded) == block
    assert coder.encode(coder.decode(encoded)) == encoded
    assert coder.is_deterministic()


@given(counted())
def test_a_histogram_comes_back(histogram):
    coder = registry.get_coder(Histogram)
    for again in (coder.decode(coder.encode(histogram)), pickle.loads(pickle.dumps(histogram))):
        assert again.shift == histogram.shift
        for name in ("bins", "counts", "num_bytes"):
            expected = getattr(histogram, name)
            assert getattr(again, name).dtype == expected.dtype
            np.testing.assert_array_equal(getattr(again, name), expected)
    assert coder.is_deterministic()


def coders_of(proto: beam_runner_api_pb2.Pipeline, coder_id: str) -> set[str]:
    """Returns the names of the coders that a coder is made of: of a class, or the URN of Beam's own."""
    coder = proto.components.coders[coder_id]
    parts = {name for part in coder.component_coder_ids for name in coders_of(proto, part)}
    if not coder.spec.urn.endswith("pickled_python:v1"):
        return parts | {coder.spec.urn}
    return parts | {type(beam.coders.Coder.from_runner_api(coder, None)).__name__}


@pytest.mark.parametrize("runner", ["FnApiRunner", "PortableRunner"])
@pytest.mark.parametrize("payload, coder", [("inline", "BlockCoder"), ("spilled", "SpilledBlocksCoder")])
@pytest.mark.parametrize("more", [{}, {"ignore_duplicates": True}], ids=str)
def test_the_graph_uses_them(tmp_path, payload, coder, more, runner):
    pipeline = unused_pipeline()
    if runner != "FnApiRunner":
        pipeline = beam.Pipeline(runner, options=PipelineOptions([]))
    write = WriteDataset(
        "numbers", {"n": F.Scalar("int64")}, data_dir=tmp_path, payload=payload, shared_disk=True, **more
    )
    sources = {name: pipeline | name >> beam.Create([(name, {"n": 1})]) for name in ("train", "test")}
    _ = sources | write
    proto = pipeline.to_runner_api()
    beam.Pipeline.from_runner_api(proto, "FnApiRunner", PipelineOptions([]))  # as runs do that cannot fork
    used = {pcoll.unique_name: coders_of(proto, pcoll.coder_id) for pcoll in proto.components.pcollections.values()}
    pickled = {"FastPrimitivesCoder", "PickleCoder", "beam:coder:pickled_python:v1"}
    flow = dict.fromkeys(["Encode train", "MergeSplits", "Route", "GroupByShard"], coder)
    flow |= dict.fromkeys(["MergeUnique" if more else "MergeHistograms", "CountKeys"], "HistogramCoder")
    if runner != "FnApiRunner":
        flow |= dict.fromkeys(["SpreadCounts", "CountParts", "Gather"], "HistogramCoder")
    assert any("CountParts" in name for name in used) == (runner != "FnApiRunner")
    for stage, expected in flow.items():
        found = [names for name, names in used.items() if f"/{stage}" in name and not name.endswith(".histograms")]
        assert found, stage
        for names in found:
            assert expected in names, stage
            assert not names & pickled, stage


@pytest.mark.parametrize("as_inputs", [True, False])
def test_merging_histograms_holds_few_of_them(as_inputs, monkeypatch):
    """A worker that merges those of 32 others holds two of the largest size, and the one that it adds."""
    most, held, merge = 1000, [], histograms.merge
    monkeypatch.setattr(
        histograms, "merge", lambda parts, n: held.append(sum(len(p.counts) for p in parts)) or merge(parts, n)
    )
    random = np.random.default_rng(3)
    keys = np.zeros((32, most, 2), np.uint64)
    keys[:, :, 0] = np.sort(random.integers(0, 1 << 64, (32, most), np.uint64))
    parts = [count_keys(some, np.full(most, 10)) for some in keys]
    assert all(len(part.counts) == most for part in parts)
    combine = _MergeHistograms(most)
    found = combine.create_accumulator()
    if as_inputs:
        for part in parts:
            found = combine.add_input(found, part)
    else:
        found = combine.merge_accumulators([part] for part in parts)
    assert combine.extract_output(found).total == 32 * most
    assert most < max(held) <= 3 * most


def test_a_worker_needs_no_import_to_have_them():
    code = pickle.dumps([BlockCoder(), SpilledBlocksCoder(), HistogramCoder()])
    script = f"import pickle; print([type(c).__name__ for c in pickle.loads({code!r})])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['BlockCoder', 'SpilledBlocksCoder', 'HistogramCoder']"
