"""Engines that run pipelines: their options, checks before a job, workers, following a job to its end, errors.

This package imports Beam before its modules do, and suppresses the messages that Beam logs on import.
"""

import importlib

from beam_datasets.extras import importing_beam

with importing_beam():
    importlib.import_module("apache_beam")
