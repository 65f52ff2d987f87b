"""Errors of stores: of which kind they are, and that they show none of the request that a response repeats."""

import base64
import http.server
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

import beam_datasets as bd
from beam_datasets import storage
from beam_datasets.cli import main
from beam_datasets.storage import paths

pytest.importorskip("obstore")

NO_RETRIES = {"retry_config": {"max_retries": 0}}
CREDENTIALS = {
    "s3": {"access_key_id": "AKIAEXAMPLE", "secret_access_key": "wrong-secret", "region": "us-east-1"},
    "az": {"account_name": "account", "account_key": base64.b64encode(bytes(32)).decode()},
    "gs": {},
}
ECHOES = [
    "<AWSAccessKeyId>AKIA-ECHO</AWSAccessKeyId><StringToSign>AWS4\nECHO</StringToSign><SignatureProvided>ECHO"
    "</SignatureProvided><CanonicalRequest>GET\nx-amz-security-token:ECHO</CanonicalRequest>",
    "<Token-0>ECHO</Token-0>",
    "<AuthenticationErrorDetail>The MAC signature found in the HTTP request 'ECHO=' is not the same as any computed"
    "</AuthenticationErrorDetail><QueryParameterValue>sv=1&amp;sig=ECHO</QueryParameterValue>",
]


class Responder(http.server.BaseHTTPRequestHandler):
    """Answers each request with one status and one text."""

    answer: ClassVar[tuple[int, str]] = (403, "")

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that denies all."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Responder) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{web.server_address[1]}"
        web.shutdown()
        thread.join()


def options(scheme: str, server: str) -> dict[str, object]:
    """Returns options of a store that lead to the server."""
    if scheme == "gs":
        key = (
            f'{{"gcs_base_url":"{server}","disable_oauth":true,"client_email":"","private_key":"","private_key_id":""}}'
        )
        return {"service_account_key": key, **NO_RETRIES}
    return {"endpoint": server, **CREDENTIALS[scheme], **NO_RETRIES}


def error_text(call: Callable[[], object]) -> tuple[BaseException, str]:
    """Returns the error of a call, and its traceback with all causes."""
    with pytest.raises(bd.errors.StorageError) as error:
        call()
    return error.value, "".join(traceback.format_exception(error.value))


def xml(code: str, message: str, echo: str = "") -> str:
    """Returns the text of an error as S3, Azure and Google Cloud Storage write it."""
    return f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{echo}</Error>'


CALLS = [
    lambda path: storage.read_bytes(path),
    lambda path: storage.list_dir(path),
    lambda path: storage.create_bytes(path, b"x"),
]


@pytest.mark.parametrize("scheme", CREDENTIALS)
@pytest.mark.parametrize("call", CALLS, ids=["read", "list", "create"])
@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (403, "SignatureDoesNotMatch", "are valid and allow it"),
        (401, "InvalidAuthenticationInfo", "are valid and allow it"),
        (400, "ExpiredToken", "Get new credentials"),
        (403, "RequestTimeTooSkewed", "Set the clock"),
        (409, "PublicAccessNotPermitted", "are valid and allow it"),
    ],
)
@pytest.mark.parametrize("echo", ECHOES, ids=["signature", "token", "azure"])
def test_a_denied_request_shows_code_and_message_alone(server, scheme, call, status, code, advice, echo):
    Responder.answer = (status, xml(code, "It is &lt;denied&gt;.\nRequestId:1", echo))
    path = paths.with_options(f"{scheme}://bucket-{scheme}/x/y", options(scheme, server))
    error, shown = error_text(lambda: call(path))
    assert isinstance(error, PermissionError)
    assert f"{status} " in str(error)
    assert f", {code}: It is <denied>. " in str(error)
    assert advice in str(error)
    assert "ECHO" not in shown
    assert "Sign>" not in shown
    assert "RequestId" not in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"error": {"code": 403, "message": "No access.", "status": "PERMISSION_DENIED", "a": "ECHO"}}', "No access"),
        (
            '{"error": "invalid_grant", "error_description": "Bad JWT", "access_token": "ECHO"}',
            "invalid_grant: Bad JWT",
        ),
        ('{"error": {"message": ["ECHO"]}}', "not shown"),
        ('["ECHO"]', "not shown"),
        ('{"access_token": "ECHO', "not shown"),
        ("<html><title>403</title>ECHO</html>", "not shown"),
        ("signature ECHO", "not shown"),
        (xml("AccessDenied", "Denied.", "<Details>me does not have storage.objects.get</Details>"), "me does not have"),
        ("<Error><Code>AccessDenied</Code><StringToSign>ECHO", "AccessDenied"),
        ("", "403 Forbidden. Check"),
    ],
)
def test_other_texts_of_denied_requests(server, text, words):
    Responder.answer = (403, text)
    path = paths.with_options("s3://bucket-other/x", options("s3", server))
    error, shown = error_text(lambda: storage.read_bytes(path))
    assert isinstance(error, PermissionError)
    assert words in str(error)
    assert "ECHO" not in shown


def test_credentials_of_the_environment(server, monkeypatch):
    Responder.answer = (403, xml("SignatureDoesNotMatch", "No.", ECHOES[0]))
    for name, value in options("s3", server).items():
        if isinstance(value, str):
            monkeypatch.setenv(f"AWS_{name.upper()}", value)
    error, shown = error_text(lambda: storage.read_bytes("s3://bucket-environment/x"))
    assert isinstance(error, PermissionError)
    assert "credentials in the environment" in str(error)
    assert "ECHO" not in shown
    assert "obstore" in shown


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (301, xml("PermanentRedirect", "Use the endpoint."), "Set the region of the bucket"),
        (400, xml("AuthorizationHeaderMalformed", "expecting 'eu-west-1'"), "expecting 'eu-west-1'. Set the region"),
        (404, xml("NoSuchBucket", "No."), "the bucket does not exist"),
        (404, xml("ContainerNotFound", "No."), "the bucket does not exist"),
        (503, xml("SlowDown", "Reduce your rate.", ECHOES[0]), "503 Service Unavailable, SlowDown: Reduce your rate"),
        (503, "ECHO", "503 Service Unavailable (the text of the response is not shown"),
        (409, xml("OperationAborted", "Wait."), "409 Conflict, OperationAborted: Wait"),
    ],
)
def test_other_errors(server, status, text, words):
    Responder.answer = (status, text)
    path = paths.with_options("s3://bucket-errors/x", options("s3", server))
    error, shown = error_text(lambda: storage.list_dir(path))
    assert words in str(error)
    assert "ECHO" not in shown
    assert not isinstance(error, PermissionError)


def test_a_conflict_of_a_read_does_not_mean_that_the_object_exists(server):
    Responder.answer = (409, "")
    path = paths.with_options("s3://bucket-conflict/x", options("s3", server))
    with pytest.raises(bd.errors.StorageError, match="409 Conflict") as error:
        storage.size(path)
    assert not isinstance(error.value, FileExistsError)


def test_loading_with_a_wrong_secret_raises_a_permission_error(server, monkeypatch, capsys):
    Responder.answer = (403, xml("SignatureDoesNotMatch", "No.", ECHOES[0]))
    reason = (
        r"SignatureDoesNotMatch: No|403 Forbidden"  # that of the first answer: to a HEAD, which has no body, or a GET
    )
    with pytest.raises(PermissionError, match=reason):
        bd.load("numbers", data_dir="s3://bucket-load/d", storage_options=options("s3", server))
    for name, value in options("s3", server).items():
        if isinstance(value, str):
            monkeypatch.setenv(f"AWS_{name.upper()}", value)
    assert main(["info", "numbers", "--data_dir", "s3://bucket-command/d"]) == 1
    shown = "".join(capsys.readouterr())
    assert re.search(reason, shown)
    assert "ECHO" not in shown
