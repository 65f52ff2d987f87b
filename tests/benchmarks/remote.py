"""The benchmark's datasets on a real S3 server on this machine: versitygw, which serves a folder as a bucket.

Needs NumPy alone, as it is imported in the environment of every system; `served` needs the tests' modules too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steps import REMOTE, REMOTE_AGAIN, Job, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Read = Callable[[Job, str, str], Iterable[Any]]

ROOT = Path(__file__).resolve().parents[2]
ENDPOINTS = ("AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")  # beside AWS_ENDPOINT, for boto3 and for MosaicML


@contextlib.contextmanager
def served(dir: str | None) -> Iterator[Path]:
    """Serves a new folder as a bucket that the environment leads to; what is written to the folder is in the bucket."""
    sys.path.append(str(ROOT))
    from tests.engines.object_stores import BUCKET, versity_store, versitygw

    if not (program := versitygw(build=True)):
        raise FileNotFoundError(
            "The S3 server versitygw is built with Go, which is missing: https://go.dev/doc/install"
        )
    with tempfile.TemporaryDirectory(dir=dir) as folder, versity_store(program, Path(folder)) as store:
        os.environ |= store.env | dict.fromkeys(ENDPOINTS, store.env["AWS_ENDPOINT"]) | {"AWS_ALLOW_HTTP": "true"}
        yield next(Path(folder).glob(f"*/{BUCKET}"))


def url_of(directory: str) -> str:
    """Returns the URL of a directory in the folder that is served."""
    path = Path(directory)
    bucket = next(parent for parent in path.parents if parent.parent.name.startswith("versity-"))
    return f"s3://{bucket.name}/{path.relative_to(bucket).as_posix()}"


def remote_steps(system: str, read: Read) -> dict[str, Step]:
    """Returns the steps of a system that reads from S3 with a local cache.

    Args:
        system: name in the tables.
        read: returns the batches of a job, from a URL, with the cache in an empty or filled directory.
    """

    def prepare(job: Job, *, again: bool = False) -> Callable[[], Iterable[Any]]:
        (copies := Path(job.directory, "copies")).mkdir(exist_ok=True)  # removed after each step
        cache = tempfile.mkdtemp(dir=copies)
        if again:
            for _ in read(job, url_of(job.directory), cache):
                pass
        batches = read(job, url_of(job.directory), cache)  # the clock starts with the first batch, as for local files
        return lambda: batches

    return {
        "remote": Step(system, REMOTE, prepare),
        "remote_again": Step(system, REMOTE_AGAIN, partial(prepare, again=True)),
    }
