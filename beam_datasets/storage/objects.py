"""Object stores and web servers, by obstore: https://developmentseed.org/obstore."""

from __future__ import annotations

import bisect
import contextlib
import functools
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from beam_datasets.errors import PathExistsError, PathNotFoundError, PathPermissionError, StorageError
from beam_datasets.extras import Buffer, needs
from beam_datasets.storage.backend import (
    Range,
    Reader,
    Usage,
    Writer,
    check_range,
    count_read,
    count_write,
)
from beam_datasets.storage.forked import ForkedObstore
from beam_datasets.storage.paths import StoreOptions, options_of, scheme, split_remote, url
from beam_datasets.storage.responses import parse_error

T = TypeVar("T")

_PART_SIZE = 8 << 20
_PARTS_AT_ONCE = 4
_CLOSE_BYTES = 1 << 20  # between two ranges that share a request
_LIST_SIZE = 1000
_MAX_ATTEMPTS = 6
_MAX_COPY_BYTES = 4 << 30  # S3 copies objects of up to 5 GiB in one request
_ENDPOINTS = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
_NO_CREDENTIALS = (
    "/latest/api/token", "/latest/meta-data/", "/computeMetadata/", "/metadata/identity/", "Account must be specified",
)  # fmt: skip
"""Texts of errors if no credentials were found: the metadata server of a cloud machine is asked last."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in storage_options access_key_id and secret_access_key",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS to the path of a key file, or application_credentials in storage_options",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or in storage_options account_name, account_key",
}
_CREDENTIALS["s3a"] = _CREDENTIALS["s3"]
_OF_THE_CLIENT = frozenset(
    [
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "default_headers"),
        *("http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle"),
        *("http2_max_frame_size", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url"),
        *("proxy_ca_certificate", "proxy_excludes", "randomize_addresses", "root_certificate", "timeout", "user_agent"),
    ]
)
"""Options that obstore takes in `client_options` alone; elsewhere it ends in a panic of Rust, which is no Exception."""

_CUT = (
    "request or response body error",
    "error decoding response body",
    "IncompleteBody",
    "kind: Interrupted",
    "invalid utf-8",
)
"""Texts in errors of answers that ended too early, which obstore continues only by an ETag, or that were changed."""

_UNREACHABLE = ("error sending request", "dns error", "error trying to connect")
"""Texts in errors of requests that had no answer."""

_FORKED = ForkedObstore()

_MEMORY: dict[str, Any] = {}
"""The stores of `memory://`: what is put there lives as long as the process."""


class ObjectReader(Reader):
    """Asks for each range, and for the object's size if it is not known; keeps nothing open."""

    def __init__(self, path: str, size: int | None = None) -> None:
        if size is not None:
            super().__init__(path, size)
            return
        metadata = _head(path)
        content = metadata["e_tag"] or metadata["last_modified"].isoformat()
        super().__init__(path, int(metadata["size"]), f"{options_of(path).values.get('endpoint', '')} {content}")

    def read_many(self, ranges: Sequence[Range]) -> list[Buffer]:
        """Returns the bytes of the ranges, requested at the same time; close ranges share a request."""
        obstore, store, key = _resolve_store(self.path)
        nonempty_ranges = [(start, stop) for start, stop in ranges if start != stop]
        for start, stop in nonempty_ranges:
            check_range(self.path, start, stop, stop)
        spans = _merge_close(nonempty_ranges)
        buffers: dict[Range, memoryview] = {}

        def read() -> None:
            """Reads the spans that were not read yet.

            Raises:
                _CutError: the store returned fewer bytes than a span has.
            """
            missing = [span for span in spans if span not in buffers]
            answers = obstore.get_ranges(
                store, key, starts=[start for start, _ in missing], ends=[stop for _, stop in missing]
            )
            new = {span: memoryview(answer) for span, answer in zip(missing, answers)}
            buffers.update((span, buffer) for span, buffer in new.items() if len(buffer) == span[1] - span[0])
            for (start, stop), buffer in new.items():
                try:
                    check_range(self.path, start, stop, start + len(buffer))
                except StorageError as error:
                    advice = f"The store was asked {_MAX_ATTEMPTS} times. {error.advice}"
                    raise _CutError(path=self.path, expected=error.expected, got=error.got, advice=advice) from None

        if spans:
            _read_with_retries(self.path, read)
        count_read(sum(stop - start for start, stop in nonempty_ranges), len(nonempty_ranges))
        span_starts = [start for start, _ in spans]
        data: list[Buffer] = []
        for start, stop in ranges:
            if start == stop:
                data.append(memoryview(b""))
                continue
            span = spans[bisect.bisect_right(span_starts, start) - 1]
            data.append(buffers[span][start - span[0] : stop - span[0]])
        return data

    def _read(self, start: int, stop: int) -> Buffer:
        """Returns bytes [start, stop); see `Reader._read`."""
        return self.read_many([(start, stop)])[0]

    def read_again(self, start: int, stop: int) -> Buffer | None:
        """Returns bytes [start, stop) of the object, requested once more."""
        return self._read(start, stop)


class ObjectWriter(Writer):
    """Uploads in parts; the store shows the object when the upload is completed.

    It holds up to `_PARTS_AT_ONCE + 1` parts of `_PART_SIZE` bytes; a file of one part is put whole.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._num_bytes = 0
        obstore, store, key = _resolve_store(path)
        with _translated_errors(path):
            self._file = obstore.open_writer(store, key, buffer_size=_PART_SIZE, max_concurrency=_PARTS_AT_ONCE)

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Appends the buffers."""
        with _translated_errors(self.path):
            for piece in _join_buffers(buffers, _PART_SIZE):
                self._file.write(piece)
                self._num_bytes += len(piece)

    def commit(self) -> None:
        """Completes the upload."""
        with _translated_errors(self.path):
            self._file.close()
        parts = -(-self._num_bytes // _PART_SIZE)
        count_write(self._num_bytes, 1 if parts < 2 else parts + 2)  # it is begun and completed

    def abort(self) -> None:
        """Leaves the upload incomplete, so that it stays invisible."""
        self._file = None


def _merge_close(ranges: Iterable[Range]) -> list[Range]:
    """Returns ascending ranges that contain the given ones, of which those that are close are in one.

    obstore merges them by the same rule, but ends in a panic if the store then returns too few bytes.

    >>> _merge_close([(3 << 20, 4 << 20), (0, 10), (5, 20), (30, 40)])
    [(0, 40), (3145728, 4194304)]
    """
    merged: list[Range] = []
    for start, stop in sorted(ranges):
        if merged and start - merged[-1][1] <= _CLOSE_BYTES:
            merged[-1] = merged[-1][0], max(merged[-1][1], stop)
        else:
            merged.append((start, stop))
    return merged


def exists(path: str) -> bool:
    """Returns whether the object exists, or an object below the path; on a web server only the object counts."""
    try:
        size(path)
    except PathNotFoundError:
        return not _is_web(path) and is_dir(path)
    return True


def is_dir(path: str) -> bool:
    """Returns whether there is any object below."""
    _check_can_list(path)
    return any(True for _ in _list_below(path, chunk_size=1))


def size(path: str) -> int:
    """Returns the object's size in bytes."""
    return int(_head(path)["size"])


def _head(path: str) -> Mapping[str, Any]:
    """Returns the store's metadata of an object: a dict with "size" in bytes, "last_modified" and others."""
    obstore, store, key = _resolve_store(path)
    count_read(0)
    return _read_with_retries(path, lambda: obstore.head(store, key))


def list_dir(path: str) -> list[str]:
    """Returns the names below, up to the next slash."""
    _check_can_list(path)
    obstore, store, key = _resolve_store(path)
    count_read(0)
    listing = _read_with_retries(path, lambda: obstore.list_with_delimiter(store, key or None))
    names = [*listing["common_prefixes"], *(item["path"] for item in listing["objects"])]
    if not names and key:
        raise PathNotFoundError("there is nothing below it", path=path)
    # Some tools put an empty object under the name of a "directory": it is not part of its content.
    return [name.rstrip("/").rpartition("/")[2] for name in names if name.strip("/") != key]


def make_dirs(path: str) -> None:
    """Does nothing: object stores do not have directories."""


def read_bytes(path: str) -> bytes:
    """Returns the whole object."""
    obstore, store, key = _resolve_store(path)
    data = _read_with_retries(path, lambda: bytes(obstore.get(store, key).bytes()))
    count_read(len(data))
    return data


open_reader, open_writer = ObjectReader, ObjectWriter


def create_bytes(path: str, data: Buffer) -> None:
    """Puts the object on the condition that it does not exist.

    If the answer to an attempt is lost, the next attempt finds the object that it created. Therefore the content of an
    existing object is compared.
    """
    obstore, store, key = _resolve_store(path)
    content = bytes(data)

    def put(number: int) -> None:
        """Puts the object; `number` is the number of the attempt, from 0.

        From the second attempt on, an existing object with the same content counts as put.
        """
        try:
            count_write(len(content))
            obstore.put(store, key, content, mode="create")
        except (FileExistsError, obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
            if not number or read_bytes(path) != content:
                raise

    _call_with_retries(path, put)


def copy(source: str, target: str, *, overwrite: bool) -> bool:
    """Copies an object within the store; returns False if the object is too large for that.

    Raises:
        PathExistsError: the target exists, and `overwrite` is False.
    """
    if size(source) > _MAX_COPY_BYTES:
        return False
    obstore, store, key = _resolve_store(source)
    count_write(0)
    try:
        _call_with_retries(source, lambda _: obstore.copy(store, key, split_remote(target)[1], overwrite=overwrite))
    except PathExistsError:
        raise PathExistsError("exists already", path=target) from None
    return True


def file_sizes(path: str) -> dict[str, int]:
    """Returns {path below: size in bytes} of all objects below."""
    _check_can_list(path)
    items, key = list(_list_below(path)), split_remote(path)[1]
    count_read(0, -(-len(items) // _LIST_SIZE) or 1)
    if not items:
        raise PathNotFoundError("there is nothing below it", path=path)
    names = {item["path"].removeprefix(f"{key}/" if key else ""): item["size"] for item in items}
    return {name: size for name, size in names.items() if name}


def usage(path: str) -> Usage:
    """Returns the size of an object and of all below, in bytes."""
    items = list(_list_below(path)) or [_head(path)]
    return Usage(sum(item["size"] for item in items), max(item["last_modified"].timestamp() for item in items))


def remove(path: str) -> None:
    """Deletes the object."""
    obstore, store, key = _resolve_store(path)

    def delete(_: int) -> None:
        """Deletes the object, unless it does not exist; `_` is the number of the attempt."""
        with contextlib.suppress(FileNotFoundError):
            obstore.delete(store, key)

    _call_with_retries(path, delete)


def remove_tree(path: str) -> None:
    """Deletes all objects below."""
    _check_can_list(path)
    obstore, store, _ = _resolve_store(path)

    def delete(_: int) -> None:
        """Deletes all objects below the path; `_` is the number of the attempt."""
        if keys := [item["path"] for item in _list_below(path)]:
            obstore.delete(store, keys)

    _call_with_retries(path, delete)


def _list_below(path: str, chunk_size: int = _LIST_SIZE) -> Iterator[Any]:
    """Yields the store's metadata of each object below a path, a dict as from `_head`, `chunk_size` per request."""
    obstore, store, key = _resolve_store(path)
    last: list[str] = []  # of those yielded, after which a listing that was cut off goes on

    def batches() -> Iterator[Any]:
        """Returns an iterator of lists of objects, as the store reports them, after the last one that was yielded."""
        offset = {"offset": last[0]} if last else {}
        return iter(obstore.list(store, f"{key}/" if key else None, chunk_size=chunk_size, **offset))

    listing = _read_with_retries(path, batches)
    for number in range(_MAX_ATTEMPTS):
        try:
            with _translated_errors(path):
                for batch in listing:
                    yield from batch
                    last[:] = [batch[-1]["path"]] if batch else last
            return
        except _CutError:
            if number == _MAX_ATTEMPTS - 1:
                raise
        time.sleep(0.1 * 2**number)
        listing = _read_with_retries(path, batches)


def _resolve_store(path: str) -> tuple[Any, Any, str]:
    """Returns (obstore, client of the bucket or server, key of the object in it).

    In a forked process the first two are a `ForkedObstore`, and (URL of the bucket, options), which it takes.

    Raises:
        MissingDependencyError: obstore is not installed.
        StorageError: the URL of a web server has no path.
    """
    with needs(f"{path} needs obstore", "remote"):
        import obstore
    root, key = split_remote(path)
    if not key and _is_web(path):
        raise StorageError("names a server, but no file on it", path=path)
    if scheme(root) != "memory" and _first_process() != os.getpid():
        return _FORKED, (url(root), options_of(root)), key
    return obstore, client(url(root), options_of(root)), key


@functools.cache
def _first_process() -> int:
    """Returns the id of the process that first used obstore: this one, or one that it was forked from."""
    return os.getpid()


@functools.lru_cache(maxsize=64)
def client(root: str, options: StoreOptions) -> Any:
    """Returns obstore's client of a bucket or server, which keeps its connections.

    Args:
        root: URL of the bucket or server, such as 's3://bucket'.
        options: the storage_options for it.

    Raises:
        StorageError: an option is invalid.
    """
    from obstore.store import HTTPStore, MemoryStore, from_url

    kind = scheme(root)
    if kind == "memory":
        if options:
            raise StorageError(
                expected="no storage_options, as memory:// takes none", got=", ".join(sorted(options.values)), path=root
            )
        return _MEMORY.setdefault(root, MemoryStore())  # one step: two threads must not get two stores
    settings = dict(options.values)
    with _translated_errors(root, options), _checking_options(root, options):
        _check_names(settings)
        client: Any = dict(settings.pop("client_options", None) or {})
        if kind in ("http", "https"):
            client = {"allow_http": kind == "http", **client}
            # Not `from_url`, which makes an S3 or Azure client of some hosts, and that one wants credentials.
            return HTTPStore.from_url(root, client_options=client, **settings)
        _check_endpoints(root, settings)
        if kind in ("s3", "s3a") and "AWS_COPY_IF_NOT_EXISTS" not in os.environ:
            settings.setdefault("copy_if_not_exists", "multipart")  # otherwise obstore refuses `create_copy`
        if any(_is_unencrypted(address) for address in (*map(os.environ.get, _ENDPOINTS), *settings.values())):
            client = {"allow_http": True, **client}
        connect: Any = from_url
        return connect(root, **settings, **({"client_options": client} if client else {}))


def _is_unencrypted(address: object) -> bool:
    """Returns whether a setting leads to a server without encryption: an address, or a key of Google's that has one."""
    return isinstance(address, str) and "http://" in address


@contextlib.contextmanager
def _checking_options(root: str, options: StoreOptions) -> Iterator[None]:
    """Context manager: converts errors about options, so that the message contains no value of an option."""
    from obstore import exceptions

    try:
        yield
    except BaseException as error:
        wrong = (exceptions.UnknownConfigurationKeyError, OverflowError, TypeError, ValueError)
        if not (options and (_is_panic(error) or isinstance(error, wrong))):
            raise
        raise StorageError(
            f"storage_options: {options.redact(_reason(error)).rstrip('.')}. Got {', '.join(sorted(options.values))}",
            path=root,
            advice=(
                "The names are those of obstore's stores, such as access_key_id, secret_access_key, region, endpoint, "
                "token, skip_signature: https://developmentseed.org/obstore"
            ),
        ) from None


def _is_panic(error: BaseException) -> bool:
    """Returns whether an error is a panic of Rust, which no `except Exception` catches."""
    return type(error).__name__ == "PanicException"


def _check_endpoints(root: str, options: Mapping[str, Any]) -> None:
    """Checks the address of a server in options, or else the environment. An invalid URL would cause a panic of Rust.

    Args:
        root: URL of the bucket.
        options: options of the store.

    Raises:
        StorageError: the address is not a URL of HTTP or HTTPS.
    """
    names = {_plain_name(name) for name in _ENDPOINTS}
    addresses = {name: value for name, value in options.items() if _plain_name(name) in names}
    if not addresses and scheme(root) != "gs":
        prefix = "AWS_" if scheme(root) in ("s3", "s3a") else "AZURE_"
        addresses = {name: os.environ.get(name) for name in _ENDPOINTS if name.startswith(prefix)}
    for name, address in addresses.items():
        if isinstance(address, str) and not _is_web_address(address):
            raise StorageError(  # without the address, which may have a password that is not found without ://
                f"{name}: expected the address of a server with http:// or https://, such as http://host:9000, got "
                "another text",
                path=root,
                expected="http:// or https://",
            )


def _plain_name(name: object) -> str:
    """Returns the name of an option in lower case, without the store that it may begin with."""
    plain = str(name).lower()
    for prefix in ("aws_", "azure_", "google_"):
        plain = plain.removeprefix(prefix)
    return plain


def _is_web_address(text: str) -> bool:
    """Returns whether a text is an HTTP or HTTPS URL with a host, and with a valid port if it has one."""
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.port != 0 and bool(parts.hostname) and _is_web(text) and re.search(r"\s", text) is None
    except ValueError:
        return False


def _check_names(options: Mapping[str, Any]) -> None:
    """Raises a ValueError for options that belong in `client_options`."""
    inner = options.get("config")
    for name in (*options, *(inner if isinstance(inner, Mapping) else ())):
        if (plain := _plain_name(name)) in _OF_THE_CLIENT:
            raise ValueError(f"{name} is an option of the client. Give it as {{'client_options': {{'{plain}': ...}}}}")
    client = options.get("client_options") or {}
    if not isinstance(client, Mapping):
        raise TypeError(f"client_options must be a dict, such as {{'timeout': '30s'}}, got a {type(client).__name__}")


def _check_can_list(path: str) -> None:
    """Checks that the directory with a path can be listed; raises a StorageError if it is on a web server.

    Few web servers have lists, and requests to those that do not answer would be repeated many times.
    """
    if _is_web(path):
        raise StorageError("the content of a directory cannot be asked of a web server; name a file", path=path)


def _is_web(path: str) -> bool:
    """Returns whether a path is an HTTP or HTTPS URL."""
    return scheme(path) in ("http", "https")


def _join_buffers(buffers: Iterable[Buffer], min_bytes: int) -> Iterator[bytes]:
    """Yields the buffers joined to pieces of at least `min_bytes`, except the last piece: few writes are faster."""
    waiting: list[Buffer] = []
    num_bytes = 0
    for buffer in buffers:
        waiting.append(buffer)
        num_bytes += memoryview(buffer).nbytes
        if num_bytes >= min_bytes:
            yield b"".join(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield b"".join(waiting)


class _CutError(StorageError):
    """An answer of a store ended too early, or was changed on the way."""


def _read_with_retries(path: str, read: Callable[[], T]) -> T:
    """Returns the result of `read`; calls it again if the response was cut off, which obstore does not retry."""
    for number in range(_MAX_ATTEMPTS):
        try:
            with _translated_errors(path):
                return read()
        except _CutError:
            if number == _MAX_ATTEMPTS - 1:
                raise
        time.sleep(0.1 * 2**number)
    raise AssertionError("unreachable")


def _call_with_retries(path: str, call: Callable[[int], None]) -> None:
    """Calls with the number of the attempt until it succeeds. (obstore repeats only requests that are idempotent.)"""
    for number in range(_MAX_ATTEMPTS):
        try:
            with _translated_errors(path):
                call(number)
            return
        except (PathNotFoundError, PathExistsError, PathPermissionError):
            raise
        except StorageError:
            if number == _MAX_ATTEMPTS - 1:
                raise
        time.sleep(0.1 * 2**number)


@contextlib.contextmanager
def _translated_errors(path: str, options: StoreOptions | None = None) -> Iterator[None]:
    """Context manager: converts an error of obstore to a StorageError with the path, without values of options."""
    from obstore import exceptions

    options = options or options_of(path)
    try:
        yield
    except StorageError:
        raise
    except BaseException as error:
        kinds = (exceptions.BaseError, OSError, NotImplementedError, ValueError)  # the last of a `..` in a URL
        if not (isinstance(error, kinds) or _is_panic(error)):
            raise
        translated = _translate_error(path, error, options)
        error.args = (options.redact(_reason(error)),)  # for --debug
        raise translated from (None if options else error)


def _translate_error(path: str, error: BaseException, options: StoreOptions) -> StorageError:
    """Returns the `StorageError` for an error of obstore, with advice about missing credentials.

    Args:
        path: path of the object, for the message.
        error: the error of obstore.
        options: options of the store; empty if its credentials come from the environment.
    """
    from obstore import exceptions

    if isinstance(error, (FileNotFoundError, exceptions.NotFoundError)):
        return PathNotFoundError("the object does not exist", path=path)
    response = parse_error(str(error))
    is_denied = response is not None and response.is_denied
    is_conflict = response is None or not (is_denied or response.request.startswith(("GET", "HEAD")))
    if is_conflict and isinstance(error, (exceptions.AlreadyExistsError, exceptions.PreconditionError)):
        return PathExistsError("exists already", path=path)
    reason = options.redact(_reason(error))
    origin = "in storage_options" if options else "in the environment"
    if _is_panic(error):
        return StorageError(
            f"the client of the store cannot make a request ({reason})",
            path=path,
            advice=f"Check the values {origin}: an address is a URL, and a key has no line break at its end.",
        )
    if any(phrase in reason for phrase in _NO_CREDENTIALS):
        names = _CREDENTIALS.get(scheme(path), _CREDENTIALS["az"])
        return PathPermissionError(
            "no credentials found, in storage_options, in the environment and from this machine's metadata server "
            f"({reason:.300})",
            path=path,
            advice=f"Set {names}; for public data skip_signature=true in storage_options.",
        )
    advice = response.advice(origin) if response else None
    if is_denied or isinstance(error, PermissionError):
        return PathPermissionError(reason, path=path, advice=advice)
    if any(words in reason for words in _UNREACHABLE):
        address = re.search(r"https?://[^\s/?)]+", reason)
        advice = "Check the network, and this address: the endpoint, or the host of the URL."
        store = f"the store at {address[0]}" if address else "the store"
        return StorageError(f"{store} cannot be reached: {reason}", path=path, advice=advice)
    kind = _CutError if any(words in str(error) for words in _CUT) else StorageError
    return kind(reason, path=path, advice=advice)


def _reason(error: BaseException) -> str:
    """Returns an error's text without the dump of Rust values that follows it, and without the text of a response."""
    text = str(error).partition("\n\nDebug source:")[0]
    response = parse_error(text)
    if response is None:
        return text
    return "the bucket does not exist" if response.is_without_bucket else str(response)
