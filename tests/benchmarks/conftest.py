"""Benchmarks are run by hand (docs/explanation/performance.md): pytest collects nothing here, doctests included."""

collect_ignore_glob = ["*.py"]
