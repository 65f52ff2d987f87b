"""Error responses of object stores, described without the parts of a request that they repeat, such as signatures."""

from __future__ import annotations

import html
import json
import re
from typing import NamedTuple

_MAX_MESSAGE = 300
_REQUEST = re.compile(r"Error performing ([A-Z]+) ([^\s?]+)\S* in ")
_STATUS = re.compile(r"Server returned (?:non-2xx status code: (\d{3}[^:\n]*)|error response)(?:: ?(.*))?", re.DOTALL)
_REDIRECT = "Received redirect without LOCATION"
_DENIED = re.compile(
    "Expired|InvalidToken|TokenRefreshRequired|PublicAccessNotPermitted|InvalidAccessKeyId|SignatureDoesNotMatch"
    "|AccessDenied|AuthenticationFailed|invalid_grant"
)
"""Codes of denied requests, which may have another status than 401 or 403."""

_WITHOUT_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|The specified bucket does not exist")
_ADVICE = {
    "Expired|TokenRefreshRequired": "Get new credentials, because those {origin} have expired.",
    "RequestTimeTooSkewed": "Set the clock of this machine.",
    f"AuthorizationHeaderMalformed|PermanentRedirect|{_REDIRECT}": (
        "Set the region of the bucket: AWS_REGION, or region in storage_options."
    ),
}
"""Patterns of a code or a message, and what to do."""


class ErrorResponse(NamedTuple):
    """An error response of a store.

    Attributes:
        request: method and URL of the request, without its query, such as 'GET https://host/bucket/key'.
        status: number and words of the status, such as '403 Forbidden'; empty if the store gave none.
        code: the store's name of the error, such as 'AccessDenied'; empty if there is none.
        message: the store's message; empty if there is none.
        has_other_text: whether the response has a text in which neither code nor message was found.
    """

    request: str
    status: str
    code: str
    message: str
    has_other_text: bool

    @property
    def is_denied(self) -> bool:
        """Whether the store denied the request."""
        return self.status.startswith(("401", "403")) or _DENIED.search(self.code) is not None

    @property
    def is_without_bucket(self) -> bool:
        """Whether the bucket does not exist."""
        return _WITHOUT_BUCKET.search(f"{self.code} {self.message}") is not None

    def advice(self, origin: str) -> str | None:
        """Returns what to do, for credentials of an origin such as 'in the environment'; None if that is unknown."""
        for pattern, advice in _ADVICE.items():
            if re.search(pattern, f"{self.code} {self.message}"):
                return advice.format(origin=origin)
        if self.is_denied:
            return f"Check that the credentials {origin} are valid and allow it."
        if self.status.startswith("400") and self.request.startswith("HEAD"):  # whose responses have no text
            return f"Check the credentials {origin}, and the region of the bucket."
        return None

    def __str__(self) -> str:
        """The request, the status, the code and the message."""
        parts = [self.request, ", ".join(filter(None, (self.status, self.code))), self.message]
        note = " (the text of the response is not shown, because it may contain credentials)"
        return ": ".join(filter(None, parts)) + note * self.has_other_text


def parse_error(text: str) -> ErrorResponse | None:
    r"""Returns the response that an error of obstore reports; None if the error is another, such as a timeout.

    >>> print(parse_error(
    ...     "Generic S3 error: Error performing GET http://h/b?prefix=x in 3ms - Server returned non-2xx status code: "
    ...     "403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code><StringToSign>AWS4</StringToSign></Error>"
    ... ))
    GET http://h/b: 403 Forbidden, SignatureDoesNotMatch
    >>> print(parse_error('Server returned non-2xx status code: 400 Bad Request: {"error": "invalid", "token": "x"}'))
    400 Bad Request, invalid
    """
    match = _REQUEST.search(text)
    request = f"{match[1]} {match[2]}" if match else ""
    if _REDIRECT in text:
        return ErrorResponse(request, "", "", f"{_REDIRECT}, as of a bucket in another region", False)
    status = _STATUS.search(text)
    if status is None:
        return None
    body = status[2] or ""
    code, message = _parse_json(body) if body.lstrip().startswith("{") else _parse_xml(body)
    message = message.strip().split("\n")[0].strip().rstrip(".")
    if len(message) > _MAX_MESSAGE:
        message = f"{message[:_MAX_MESSAGE]}..."
    has_other_text = bool(body.strip()) and not (code or message)
    return ErrorResponse(request, (status[1] or "").strip(), code, message, has_other_text)


def _parse_xml(body: str) -> tuple[str, str]:
    """Returns code and message of a response in XML, as of S3 and Azure, which may be cut off; empty if absent."""
    code = re.search(r"<Code>\s*([\w.-]{1,100})\s*</Code>", body)
    name = "Details" if code and code[1] == "AccessDenied" and "<Details>" in body else "Message"  # Google's has names
    message = re.search(rf"<{name}>([^<]*)</{name}>", body)
    return code[1] if code else "", html.unescape(message[1]) if message else ""


def _parse_json(body: str) -> tuple[str, str]:
    """Returns code and message of a response in JSON, as of Google and of servers of tokens; empty if absent."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    error = content.get("error")
    if isinstance(error, dict):
        code, message = error.get("status"), error.get("message")
    else:
        code, message = error, content.get("error_description")
    is_code = isinstance(code, str) and re.fullmatch(r"[\w.-]{1,100}", code)
    return str(code) if is_code else "", message if isinstance(message, str) else ""
