"""The command as a user types it."""

import pytest

from beam_datasets.cli import main


@pytest.fixture
def run(capsys):
    """Runs a command, and returns its exit code and what it printed to both streams."""

    def run_command(*args):
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        return code, *capsys.readouterr()

    return run_command
