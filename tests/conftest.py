"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

from beam_datasets.native import core

# A busy machine is not a defect of what is tested. `make test-slow` draws all cases of property tests.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=30)
settings.load_profile("quick")

# Without a compiler all works, and no warning of it disturbs what a test or a page expects, also in other processes.
if core is None:
    os.environ["BEAM_DATASETS_NATIVE"] = "0"

# A shell starts what runs in its background with Ctrl-C ignored, and so would be every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Processes that tests start by a fork server import `tests`, wherever the test that starts them has changed to.
sys.path.insert(0, str(Path(__file__).parents[1]))
