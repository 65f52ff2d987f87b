"""A store without credentials: the error names what to set, not the metadata server that was asked last."""

import os

import pytest

from beam_datasets import storage
from beam_datasets.errors import PathPermissionError
from beam_datasets.storage import objects
from beam_datasets.storage.options import options_of

NOWHERE = "http://127.0.0.1:9"  # nothing answers there
ONCE = {"client_options": {"allow_http": True, "connect_timeout": "1s"}, "retry_config": {"max_retries": 0}}
AWS = {"metadata_endpoint": NOWHERE, "region": "us-east-1", **ONCE}
AZURE = {
    "account_name": "mine",
    "msi_endpoint": f"{NOWHERE}/metadata/identity/oauth2/token",
    **ONCE,
}


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "url, options, names",
    [
        (
            "s3://bucket/data",
            AWS,
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in storage_options access_key_id",
        ),
        ("az://container/data", AZURE, "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
        ("az://container/data", {}, "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_the_error_says_what_to_set(url: str, options: dict[str, object], names: str) -> None:
    """B19: no credentials are found for a store."""
    with pytest.raises(PathPermissionError, match=f"{url.rpartition('/')[0]}.*: no credentials found, .*{names}"):
        storage.read_bytes(storage.with_options(url, options))


def test_the_metadata_server_of_google() -> None:
    """B19: the error of a library whose address of the metadata server cannot be changed."""
    text = "Generic GCS error: GET http://metadata.google.internal/computeMetadata/v1/instance: timeout"
    error = objects._translated("gs://bucket/data", OSError(text), options_of("gs://bucket/data"))
    assert isinstance(error, PathPermissionError)
    assert "no credentials found" in str(error)
    assert "Set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file" in str(error)
