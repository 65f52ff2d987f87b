"""Downloads by HTTP, which resume where they stopped and repeat requests after temporary errors.

The bytes of an unfinished download are in a partial file, with the validator of the server in a file beside it: its
ETag, or else the time of the last change. So a later request for the rest gets the rest of the same version. Without a
validator the file is fetched from its beginning.
"""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import re
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_datasets.downloads.checksums import CHECKSUMS_FILE, Checksum
from beam_datasets.downloads.errors import DownloadError
from beam_datasets.extras import needs
from beam_datasets.intake.contents import HEAD_BYTES
from beam_datasets.intake.image_formats import HTML, detect_format
from beam_datasets.passwords import without_passwords

if TYPE_CHECKING:
    import requests

show_progress = True
"""Whether terminals show progress bars of downloads."""

_LOGGER = logging.getLogger(__name__)
_MAX_ATTEMPTS = 6
_MAX_ATTEMPTS_TO_CONNECT = 3  # a server that refuses connections, or a name that does not exist, seldom passes
_MAX_PAUSE = 60.0  # seconds, also if a server asks for more
_TIMEOUT = 60  # seconds without a byte
_MIN_AGE = 60  # seconds from the last change of a file to a response, for its time to identify the file
_PIECE = 1 << 16  # bytes
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses after which another attempt may succeed
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # a form of zlib's window size: either header is recognized
_PAGE_SUFFIXES = re.compile(r"|.*\.(x?html?|php|aspx?|jsp|cgi)", re.IGNORECASE)  # of URLs whose file may be a page


def check_installed() -> None:
    """Raises a MissingDependencyError if requests or tqdm is not installed."""
    with needs("downloads need requests and tqdm", "download"):
        import requests as requests
        import tqdm as tqdm


class _TryAgainError(Exception):
    """An attempt failed for a reason that may pass.

    Attributes:
        pause: seconds to wait, if the server asks for that; None otherwise.
    """

    def __init__(self, message: str, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class PartialDownload:
    """The partial file of a URL. For one process at a time.

    Attributes:
        path: path of the partial file.
        file_name: name that the server gives the file; "" if it gives none, or before `complete`.
    """

    def __init__(self, url: str, path: Path, recorded: Checksum | None, *, verify_ssl: bool) -> None:
        """Describes a download; nothing is requested yet.

        Args:
            url: the URL.
            path: path of the partial file; it may exist.
            recorded: recorded checksum of the file; None if there is none. Its size is checked, not its digest.
            verify_ssl: whether certificates of servers are verified.
        """
        self.path = path
        self.file_name = ""
        self._url = url
        self._recorded = recorded
        self._verify_ssl = verify_ssl
        self._tag_path = path.with_name(path.name + ".etag")

    def complete(self) -> None:
        """Requests the bytes that the partial file lacks; waits longer after each attempt that fails.

        Raises:
            DownloadError: all attempts failed, or another one would not help.
        """
        import requests

        pause = 1.0
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                self._attempt()
                break
            except requests.exceptions.SSLError as error:
                raise DownloadError(
                    f"{self._url}: the certificate of the server is not accepted: {error}. If you trust it without, "
                    "give --no_verify_ssl (or DownloadConfig(verify_ssl=False))."
                ) from error
            except (
                requests.ConnectionError,
                requests.Timeout,
                requests.exceptions.ChunkedEncodingError,
                _TryAgainError,
            ) as error:
                no_connection = _connection_problem(error)
                if attempt >= (_MAX_ATTEMPTS_TO_CONNECT if no_connection else _MAX_ATTEMPTS):
                    raise DownloadError(
                        f"the file could not be fetched in {attempt} attempts: {no_connection or error}",
                        path=self._url,
                        got=f"{no_connection or error}",
                        advice="Try again later, or fetch it by hand into manual_dir.",
                    ) from error
                requested_pause = getattr(error, "pause", None)
                seconds = min(pause if requested_pause is None else requested_pause, _MAX_PAUSE)
                problem = without_passwords(f"{self._url}: {no_connection or error}")
                _LOGGER.warning("%s. Trying again in %.0f s", problem, seconds)
                time.sleep(seconds)
                pause *= 2
            except requests.RequestException as error:
                raise _error_of_failure(self._url, error) from error
        self._tag_path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes the bytes of the partial file, so that the next attempt starts from the beginning."""
        os.truncate(self.path, 0)

    def _attempt(self) -> None:
        """Downloads the bytes that the partial file lacks.

        Raises:
            _TryAgainError: some bytes did not arrive, or the server says that it is busy.
            DownloadError: the file has another size than was recorded.
        """
        import requests

        num_present = self.path.stat().st_size if self.path.exists() else 0
        tag = self._tag_path.read_text() if num_present and self._tag_path.exists() else ""
        if num_present and not tag:
            _LOGGER.warning(
                "%s: fetched from its beginning, because the server sent neither an ETag nor a Last-Modified by which "
                "the %s bytes that are there could be continued",
                self._url,
                f"{num_present:,}",
            )
        headers = {"Accept-Encoding": "identity"}
        if tag:
            headers |= {"Range": f"bytes={num_present}-", "If-Range": tag}
        with requests.get(
            self._url, stream=True, timeout=_TIMEOUT, headers=headers, verify=self._verify_ssl
        ) as response:
            is_rest = self._is_rest(response, num_present if tag else None)
            if tag and not is_rest:
                _LOGGER.warning(
                    "%s: the server sends it from its beginning: it has changed, or parts are not sent", self._url
                )
            if not is_rest:
                self.clear()  # before the tag of the new file is written
            size = self._append_body(response, num_present if is_rest else 0)
        self._check_is_no_page(response)
        if self._recorded and size != self._recorded.size:
            self.clear()
            raise DownloadError(
                expected=f"{self._recorded.size:,} bytes, as {CHECKSUMS_FILE} has it",
                got=f"{size:,}",
                path=self._url,
                advice="If it changed on purpose, record it again by --register_checksums.",
            )

    def _check_is_no_page(self, response: requests.Response) -> None:
        """Raises DownloadError if the server sent HTML for a URL that does not end as a page does.

        A file with a recorded checksum is not checked.
        """
        is_page = response.headers.get("Content-Type", "").lower().startswith("text/html")
        suffix = posixpath.splitext(self.file_name or urllib.parse.urlsplit(self._url).path)[1]
        if self._recorded or not is_page or _PAGE_SUFFIXES.fullmatch(suffix):
            return
        with self.path.open("rb") as file:
            is_page = detect_format(file.read(HEAD_BYTES)) == HTML
        if is_page:
            self.clear()
            raise DownloadError(
                expected=f"a {suffix} file",
                got=f"{HTML}, such as an error or a form to sign in",
                path=self._url,
                advice=f"Fetch it by hand into manual_dir; if it is right, give its checksum in {CHECKSUMS_FILE}.",
            )

    def _is_rest(self, response: requests.Response, first_byte: int | None) -> bool:
        """Returns whether the response is the rest of the file from `first_byte` on; otherwise it is the whole file.

        Raises:
            _TryAgainError: the server says that it is busy, or sends a part that was not requested.
            DownloadError: the response is not the file.
        """
        if response.status_code in _BUSY:
            raise _TryAgainError(f"status {response.status_code}", _retry_after(response))
        if response.status_code == 416:  # the partial file is of another version
            self.clear()
            raise _TryAgainError("status 416, so it is fetched from its beginning", 0.0)
        response.raise_for_status()
        if response.status_code not in (200, 206):
            raise DownloadError(expected="the file", got=f"the status {response.status_code}", path=self._url)
        visited_urls = [visited.url for visited in (*response.history, response)]
        plain_urls = [url for url in visited_urls if url.startswith("http:")]
        if self._recorded is None and self._url.startswith("https:") and plain_urls:
            raise DownloadError(
                f"the URL leads to {plain_urls[0]}, which anybody on the way can change",
                path=self._url,
                expected="a URL of HTTPS",
                got=plain_urls[0],
                advice=f"Give that URL if you trust it, or record the checksum of this one in {CHECKSUMS_FILE}.",
            )
        if response.status_code == 200:
            return False
        if not response.headers.get("Content-Range", "").startswith(f"bytes {first_byte}-"):
            self.clear()
            raise _TryAgainError("the server sent another range, so it is fetched from its beginning", 0.0)
        return True

    def _append_body(self, response: requests.Response, start: int) -> int:
        """Appends the body of a response to the partial file, and returns the size of that file in bytes.

        Args:
            response: the response.
            start: byte of the file at which the body begins; 0 if the response is of the whole file.

        Raises:
            _TryAgainError: some bytes did not arrive.
        """
        self.file_name = _server_file_name(response)
        compression = _compression(response)  # although none was requested
        self._tag_path.write_text("" if compression else _validator(response))
        length = _parse_header_number(response.headers.get("Content-Length"))
        with self.path.open("ab") as file, _bar(self.path, start, None if compression else length) as bar:
            pieces = _decompress(response, compression) if compression else response.iter_content(_PIECE)
            for piece in pieces:
                file.write(piece)
                bar.update(len(piece))
        num_received, size = response.raw.tell(), self.path.stat().st_size  # received: before decompression
        total = _parse_header_number(response.headers.get("Content-Range", "").rpartition("/")[2]) if start else None
        for actual, expected in ((num_received, length), (size, total)):
            if expected is not None and actual != expected:
                raise _TryAgainError(f"{actual:,} of {expected:,} bytes came")
        return size


def _validator(response: requests.Response) -> str:
    """Returns the validator of the file for the If-Range header of a later request for the rest; '' if there is none.

    It is the ETag, if it is not a weak one; or if there is no ETag, the time of the last change, if the server sent the
    file at least a minute later, as two changes in one second have the same time (RFC 9110, 8.8.2.2 and 13.1.5).
    """
    tag, changed = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
    if tag:
        return "" if tag.startswith("W/") else tag
    with contextlib.suppress(ValueError, TypeError):  # no date, or one without a time zone
        age = parsedate_to_datetime(response.headers.get("Date", "")) - parsedate_to_datetime(changed)
        return changed if age.total_seconds() >= _MIN_AGE else ""
    return ""


def _compression(response: requests.Response) -> str:
    """Returns the compression of a response for the transfer: 'gzip', 'deflate', or '' for none.

    Names in Content-Encoding that mean no compression, such as aws-chunked of S3, are ignored.

    Raises:
        DownloadError: the response has another compression, or several.
    """
    header = response.headers.get("Content-Encoding", "").lower()
    names = [name.strip().removeprefix("x-") for name in header.split(",")]
    compressions = [name for name in names if name in ("gzip", "deflate", "br", "zstd", "compress", "dcb", "dcz")]
    if compressions and compressions not in (["gzip"], ["deflate"]):
        raise DownloadError(
            expected="the file as it is or by gzip",
            got=f"Content-Encoding {header!r}",
            path=response.url,
            advice="Fetch it by hand into manual_dir.",
        )
    return compressions[0] if compressions else ""


def _decompress(response: requests.Response, compression: str) -> Iterator[bytes]:
    """Yields the content of a response that is compressed for the transfer; requests accepts one without its end.

    Args:
        response: the response, of which nothing has been read.
        compression: 'gzip' or 'deflate'.

    Raises:
        _TryAgainError: the compressed stream has no end, or is damaged.
    """
    import urllib3

    decoder, is_open, form = None, False, _GZIP_OR_ZLIB
    try:
        for piece in response.raw.stream(_PIECE, decode_content=False):
            remaining = piece if is_open else piece.lstrip(b"\0")  # zeros may follow a stream of gzip
            while remaining:
                if decoder is None:
                    is_raw = compression == "deflate" and (
                        remaining[0] & 15 != 8 or int.from_bytes(remaining[:2], "big") % 31
                    )
                    form = -zlib.MAX_WBITS if is_raw else _GZIP_OR_ZLIB  # RFC 9110: some servers leave out the header
                    decoder = zlib.decompressobj(form)
                is_open = True
                yield decoder.decompress(remaining)
                remaining = decoder.unused_data.lstrip(b"\0")
                if decoder.eof:
                    decoder, is_open = zlib.decompressobj(form), False
    except (zlib.error, urllib3.exceptions.HTTPError) as error:
        raise _TryAgainError(f"the {compression} stream cannot be read: {error}") from error
    if is_open:
        raise _TryAgainError(f"expected the end of the {compression} stream, got the end of the response")


def _error_of_failure(url: str, error: Exception) -> DownloadError:
    """Returns the error about a request that another attempt would not help."""
    import requests

    has_scheme = url.lstrip().lower().startswith(("http://", "https://"))  # else that of a proxy or a redirect is wrong
    if isinstance(error, requests.exceptions.InvalidSchema) and not has_scheme:
        expected = "a URL that begins with http://, https:// or file://"
        way = "Fetch other files by hand into manual_dir."
        return DownloadError(f"expected {expected}", path=url, expected=expected, advice=way)
    return DownloadError(f"the file could not be fetched: {error}", path=url, got=str(error))


def _connection_problem(error: Exception) -> Exception | None:
    """Returns the cause of a failed connection; None if there was a connection."""
    import urllib3

    reason = getattr(error.args[0] if error.args else None, "reason", None)
    return reason if isinstance(reason, urllib3.exceptions.NewConnectionError) else None


def _parse_header_number(header: str | None) -> int | None:
    """Returns the number that a header contains; None for anything else."""
    return int(header) if header and re.fullmatch("[0-9]{1,15}", header) else None


def _bar(partial_path: Path, start: int, length: int | None) -> Any:
    """Returns a progress bar for a file's bytes, which shows nothing unless standard error is a terminal.

    Args:
        partial_path: path of the partial file, '<digits>-<name>.part'; the bar shows the name.
        start: number of bytes that are there already.
        length: number of bytes that follow; None if it is unknown.
    """
    from tqdm import tqdm

    name = partial_path.name.partition("-")[2].removesuffix(".part")
    total = None if length is None else start + length
    options: dict[str, Any] = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "leave": False}
    options["disable"] = None if show_progress else True  # None: without a terminal
    return tqdm(desc=f"Download {name}", total=total, initial=start, **options)


def _retry_after(response: requests.Response) -> float | None:
    """Returns the seconds that a server asks to wait, as a number or until a date; None if it does not."""
    import urllib3

    with contextlib.suppress(urllib3.exceptions.InvalidHeader, ValueError):  # a date of year 10000
        return urllib3.Retry().get_retry_after(response.raw)
    return None


def _server_file_name(response: requests.Response) -> str:
    """Returns the file name of the Content-Disposition of a response, which may differ from the URL's; '' for none."""
    from email.message import Message

    header = Message()
    header["Content-Disposition"] = response.headers.get("Content-Disposition", "")
    name = posixpath.basename((header.get_filename() or "").replace("\\", "/"))
    return shorten_file_name("".join(filter(str.isprintable, name)))


def shorten_file_name(name: str) -> str:
    """Returns the end of a file's name, of at most 100 bytes, which every file system accepts."""
    return name.encode("utf-8", "replace")[-100:].decode("utf-8", "ignore")
