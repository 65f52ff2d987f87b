"""Object stores that tests start on loopback.

* moto's S3, in Python: in every environment; for the meaning of requests, not for their speed.
* moto behind a proxy with the XML interface of Google Cloud Storage; either may be made to fail and to stall.
* versitygw, a real S3 server that keeps objects in a folder: a Go program, which `versitygw` builds once.
"""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam_datasets import storage
from beam_datasets.storage import objects, paths
from tests.servers import free_port, served, server

VERSITYGW_PACKAGE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUCKET = "datasets"
SECRET = "a-very-secret-access-key"


@dataclass(frozen=True)
class ObjectStore:
    """A running store.

    Attributes:
        url: of its bucket.
        env: environment variables that lead there.
        process: the server, if it is one that tests pause.
    """

    url: str
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The storage_options that lead there without any of the variables."""
        if "GOOGLE_SERVICE_ACCOUNT_KEY" in self.env:
            account = json.loads(self.env["GOOGLE_SERVICE_ACCOUNT_KEY"])
            key = json.dumps({**account, "private_key_id": SECRET})
            return {"service_account_key": key, "client_options": {"timeout": "30s"}}
        return {
            "endpoint": self.env["AWS_ENDPOINT"],
            "access_key_id": "an-access-key",
            "secret_access_key": SECRET,
            "region": self.env["AWS_REGION"],
        }


def use(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process, and those that it starts, find a store by the environment."""
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(paths.OPTIONS_VARIABLE, raising=False)
    forget_options()


def forget_options() -> None:
    """Forgets the options and clients of stores that are gone."""
    paths._registered.clear()
    objects.client.cache_clear()


@contextlib.contextmanager
def object_store(kind: str, directory: Path, *, fail: float = 0, stall: float = 0) -> Iterator[ObjectStore]:
    """Runs a store of a kind, 's3' or 'gs', with an empty bucket.

    Args:
        kind: scheme of its URLs.
        directory: for logs.
        fail: share of the requests that are answered with 503.
        stall: share of the requests that get no answer for 5 seconds; clients give up after 2.
    """
    forget_options()
    store, proxy = free_port(), free_port()
    front = [
        "tests.engines.flaky_proxy", "--port", str(proxy), "--store", str(store), "--dialect",
        "gcs" if kind == "gs" else "s3", "--fail", str(fail), "--stall", str(stall),
    ]  # fmt: skip
    with contextlib.ExitStack() as servers:
        moto = ["moto.server", "-H", "127.0.0.1", "-p", str(store)]
        log = directory / f"store-{store}.log"
        servers.enter_context(server(moto, store, log))
        _put_bucket(store, log)
        port = store
        if kind == "gs" or fail or stall:
            servers.enter_context(server(front, proxy, directory / f"proxy-{proxy}.log"))
            port = proxy
        yield ObjectStore(f"{kind}://{BUCKET}", {**(_gs if kind == "gs" else _s3)(port)})


def versitygw(*, build: bool) -> Path | None:
    """Returns the program versitygw, or None if it is not built.

    Args:
        build: builds it if needed and if Go is installed, which takes minutes.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "beam_datasets" / "versitygw" / "versitygw"
    if not program.exists() and build and (go := shutil.which("go")):
        program.parent.mkdir(parents=True, exist_ok=True)
        with storage.locked(program.parent / "build.lock"):  # suites that run at the same time build it once
            if not program.exists():
                env = {**os.environ, "GOBIN": str(program.parent)}
                subprocess.run([go, "install", VERSITYGW_PACKAGE], env=env, check=True)
    return program if program.exists() else None


@contextlib.contextmanager
def faulty(store: ObjectStore, directory: Path, *, damage: float) -> Iterator[ObjectStore]:
    """Runs a proxy before an S3 server, which damages, cuts, drops or delays a share of the answers."""
    port, behind = free_port(), store.env["AWS_ENDPOINT"].rpartition(":")[2]
    front = ["tests.engines.flaky_proxy", "--port", str(port), "--store", behind, "--damage", str(damage)]
    with server(front, port, directory / f"proxy-{port}.log"):
        yield ObjectStore(store.url, {**store.env, "AWS_ENDPOINT": f"http://127.0.0.1:{port}"})


@contextlib.contextmanager
def versity_store(program: Path, directory: Path, host: str = "127.0.0.1") -> Iterator[ObjectStore]:
    """Runs versitygw with an empty bucket.

    Args:
        program: see `versitygw`.
        directory: for the log and the objects.
        host: address on which it listens.
    """
    port = free_port()
    folder = directory / f"versity-{port}"
    (folder / BUCKET).mkdir(parents=True)
    env = {**os.environ, "ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"}
    command = [str(program), "--port", f"{host}:{port}", "posix", str(folder)]
    with served(command, port, directory / f"versity-{port}.log", host=host, env=env) as process:
        yield ObjectStore(f"s3://{BUCKET}", {**_s3(port, host), "AWS_TIMEOUT": "30s"}, process)


def _s3(port: int, host: str = "127.0.0.1") -> dict[str, str]:
    return {
        "AWS_ENDPOINT": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_TIMEOUT": "2s",
    }


def _gs(port: int) -> dict[str, str]:
    key = {"gcs_base_url": f"http://127.0.0.1:{port}", "disable_oauth": True}
    account = {**key, "client_email": "", "private_key": "", "private_key_id": ""}
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_TIMEOUT": "2s"}


def _put_bucket(port: int, log: Path) -> None:
    """Makes the bucket, and shows the log of a store that cannot take an object."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for method, path in [("PUT", BUCKET), ("PUT", f"{BUCKET}/tried"), ("DELETE", f"{BUCKET}/tried")]:
        headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/x/us-east-1/s3"}
        connection.request(method, f"/{path}", headers=headers)
        answer = connection.getresponse()
        assert answer.status in (200, 204), (answer.read(), log.read_text()[-5000:])
        answer.read()
    connection.close()
