"""The bar of a build, written to a file instead of a terminal."""

import io

from beam_datasets.cli.printing import ProgressBar, ProgressLines
from beam_datasets.generate.progress import Progress


def test_examples_then_bytes_with_their_rates():
    out = io.StringIO()
    with ProgressBar(out) as bar:
        bar(Progress(0, 0, 0, 0))
        bar(Progress(1500, 2_000_000, 0, 0))
        encoding = out.getvalue()
        bar(Progress(3000, 4_000_000, 2, 1_000_000))
        bar(Progress(0, 0, 4, 4_000_000))
    writing = out.getvalue()[len(encoding) :]
    assert "Encode: 1.50k examples" in encoding
    assert "examples/s" in encoding
    assert "1.9 MiB" in encoding
    assert "Write: " in writing
    assert "100%" in writing
    assert "4 shards" in writing
    assert out.getvalue().endswith("\r")


def test_nothing_is_shown_of_a_run_that_did_nothing():
    out = io.StringIO()
    with ProgressBar(out):
        pass
    assert not out.getvalue()


def test_lines_where_there_is_no_terminal():
    out = io.StringIO()
    ProgressLines(out)(Progress(1500, 2_000_000, 0, 0))
    assert not out.getvalue()
    lines = ProgressLines(out, seconds=0.0)
    lines(Progress(1500, 2_000_000, 0, 0))
    lines(Progress(3000, 4_000_000, 2, 1_000_000))
    assert out.getvalue() == "1,500 examples encoded, 1.9 MiB\n2 shards written, 976.6 KiB\n"
