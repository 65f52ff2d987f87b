"""Main modules for launchers that start a Python module: `python -m beam_datasets.beam.generate ...`."""
