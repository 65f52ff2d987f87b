"""Directories that the user of a test may not enter, even if that is root."""

import contextlib
import os
import tempfile
from collections.abc import Iterator

# Imported while the files of the interpreter can be read.
import beam_datasets.publishing.phases
import beam_datasets.reading.opening  # noqa: F401


@contextlib.contextmanager
def closed_directory(*names: str) -> Iterator[str]:
    """Makes nested directories in a new one and closes the last; yields the new one. Root becomes another user."""
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        last = root
        for name in names:
            os.makedirs(last := os.path.join(root, name))
        os.chmod(last, 0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield root
        finally:
            os.seteuid(user)
            os.chmod(last, 0o700)
