"""Paths as text, and the options of their stores (credentials, endpoint, region).

Paths are plain strings. The first options of a bucket or server hold for its URL in the whole process. If the same
bucket is used with other options, too, these are registered under a numbered name of the bucket, such as `s3://bucket~2`:
the paths of the second store begin with it, wherever they are pickled, formatted or joined. `url` removes the number.

Options are never part of a pickle. Processes that this one starts read them from a file that only this user may read;
the environment contains its path.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shutil
import sys
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from beam_datasets.errors import StorageError, StoreOptionsError
from beam_datasets.passwords import without_passwords

PathLike: TypeAlias = "str | os.PathLike[str]"

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of the names of unfinished local files; a killed process may leave some."""

_TEMPORARY = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{32}")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_URL_LIKE = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)(:/*|//+)(.*)", re.DOTALL)
_WITH_HOST = frozenset(["s3", "s3a", "gs", "gcs", "az", "adl", "azure", "abfs", "abfss", "http", "https", "sftp"])
"""Schemes whose URLs begin with a bucket or a host, and which nobody takes for the name of a directory."""
OPTIONS_VARIABLE = "BEAM_DATASETS_STORE_OPTIONS_FILE"
_MIN_SECRET = 6  # letters; shorter values are such as 'true' or '30s'
_PUBLIC = ("endpoint", "endpoint_url", "region", "account_name", "project_id")
_ROOT = re.compile(r"([^/]*://[^/]*?)(~\d+)?(/.*)?", re.DOTALL)


def is_temporary(name: str) -> bool:
    """Returns whether a file name belongs to an unfinished file.

    >>> is_temporary(".tmp-0123456789abcdef0123456789abcdef"), is_temporary(".tmp-mine")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def scheme(path: str) -> str:
    """Returns the path's scheme in lower case; `file` for a local path.

    >>> scheme("s3://bucket/name"), scheme("/data"), scheme("file:///data")
    ('s3', 'file', 'file')
    """
    match = _SCHEME.match(path)
    return match.group(1).lower() if match else "file"


def is_remote(path: PathLike) -> bool:
    """Returns whether the path is not on a file system of this machine."""
    return scheme(os.fspath(path)) != "file"


def normalize(path: PathLike) -> str:
    """Returns the path in the form that this package uses: absolute, `~` expanded, without a slash at its end.

    >>> normalize("/data/../data/mnist/"), normalize("s3://bucket/mnist/"), normalize("file:///my%20data")
    ('/data/mnist', 's3://bucket/mnist', '/my data')
    """
    text = as_text(path)
    if not text:
        raise ValueError("the path is empty")
    if text[0] == os.sep == "/" and not ("//" in text or "/." in text or text[-1] == "/"):
        return text
    check_slashes(text)
    if is_remote(text):
        head, location = text.split("://", 1)
        return f"{head.lower()}://{location.rstrip('/')}"
    if match := _SCHEME.match(text):
        text = urllib.parse.unquote(text[match.end() :])
    return os.path.abspath(os.path.expanduser(text))


def check_slashes(text: str) -> None:
    """Checks that a path which looks like a URL has two slashes after its scheme; otherwise it would be a local path.

    Raises:
        StorageError: it looks like "s3:/bucket", "s3//bucket" or "s3:///bucket"; the message contains the URL.
    """
    match = _URL_LIKE.match(text)
    if match is None or (match[2] != ":/" and not (match[1].lower() in _WITH_HOST and match[2] != "://")):
        return
    scheme, slashes, rest = match.groups()
    intended = f"{scheme}://{'/' if scheme.lower() == 'file' else ''}{rest or 'BUCKET'}"
    as_local = "" if "://" in text else f"; for a local path, write ./{text}"
    raise StorageError(
        expected="two slashes after the scheme of a URL",
        got=repr(f"{scheme}{slashes}"),
        path=text,
        advice=f"Write {intended}{as_local}.",
    )


def as_text(path: Any) -> str:
    """Returns a path as text.

    Raises:
        TypeError: it is not a path of str; for a dataset, the message contains the path to pass.
    """
    if isinstance(path, (str, os.PathLike)) and isinstance(text := os.fspath(path), str):
        return text
    is_of_dataset = type(path).__name__ in ("Dataset", "ReadOnlyBuilder")
    hint = " Give its directory: bd.builder(name, data_dir=directory).dataset_dir." if is_of_dataset else ""
    raise TypeError(f"a path is a str or an os.PathLike of str, got {path!r:.100}.{hint}")


def join(base: PathLike, *names: str) -> str:
    """Returns the path of a name below `base`.

    >>> join("s3://bucket/", "mnist", "1.0.0"), join("/data/", "mnist")
    ('s3://bucket/mnist/1.0.0', '/data/mnist')
    """
    text = os.fspath(base)
    if not text and names:
        return join(*names)
    if not is_remote(text):
        return os.path.join(text, *names)
    return "/".join((text.rstrip("/"), *names)) if names else text


def basename(path: PathLike) -> str:
    """Returns the last name of the path.

    >>> basename("s3://bucket/mnist/1.0.0/"), basename("s3://bucket")
    ('1.0.0', '')
    """
    return _split(os.fspath(path))[1]


def dirname(path: PathLike) -> str:
    """Returns the path without its last name.

    >>> dirname("s3://bucket/mnist/1.0.0/"), dirname("/data/mnist"), dirname("/data")
    ('s3://bucket/mnist', '/data', '/')
    """
    return _split(os.fspath(path))[0]


def _split(path: str) -> tuple[str, str]:
    """Returns (parent, name) of a path or URL: ("s3://bucket/a", "b") for "s3://bucket/a/b"."""
    if not is_remote(path):
        return os.path.split(path.rstrip("/") or path)
    root, key = split_remote(path)
    head, _, name = key.rpartition("/")
    return f"{root}/{head}" if head else root, name


def split_remote(path: str) -> tuple[str, str]:
    """Returns the root of the store, and the key in it.

    >>> split_remote("s3://bucket/mnist/1.0.0")
    ('s3://bucket', 'mnist/1.0.0')
    """
    head, location = path.split("://", 1)
    root, _, key = location.partition("/")
    return f"{head}://{root}", key.strip("/")


def with_options(path: PathLike, options: Mapping[str, Any] | None) -> str:
    """Returns the path, normal, in the store that these options lead to, for this process; see `options`.

    Args:
        path: a URL; or, without options, any path.
        options: options of the store; None for those that this process uses for the URL already, or of the environment;
            `{}` for those of the environment.

    Raises:
        StoreOptionsError: there are options, but the path is local.
    """
    normal = normalize(path)
    if options is None or not (options or is_remote(normal)):
        return normal
    if not is_remote(normal):
        raise StoreOptionsError(f"storage_options are for URLs; {normal} is a local path", advice="Leave them out.")
    return register(normal, StoreOptions(options))


def with_options_if_remote(
    path: PathLike, options: Mapping[str, Any] | None, *, other_path: PathLike | None = None
) -> str:
    """Returns the path, normal; a URL in the store that the options lead to, unless it names one by a number.

    Args:
        path: a URL, or a local path, for which options are ignored.
        options: see `with_options`; None for those of `other_path`, if that is in the same bucket.
        other_path: another path.
    """
    normal = normalize(path)
    if not is_remote(normal) or url(normal) != normal:
        return normal
    root, key = split_remote(normal)
    if options is None and other_path is not None and is_remote(other_path):
        other, _ = split_remote(normalize(other_path))
        return join(other, key) if url(other) == root else normal
    return with_options(normal, options)


class StoreOptions:
    """Options of a store, as its library takes them. Compared by value; shown without values.

    >>> StoreOptions({"secret_access_key": "123", "region": "us-east-1"})
    StoreOptions(region=..., secret_access_key=...)
    """

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values = dict(values or {})
        if wrong := [name for name in self.values if not isinstance(name, str)]:
            raise TypeError(f"storage_options: the name of an option is a str; got a {type(wrong[0]).__name__}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreOptions) and self.values == other.values

    def __hash__(self) -> int:
        return hash(frozenset(self.values))  # values may be dicts

    def __bool__(self) -> bool:
        return bool(self.values)

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(f'{name}=...' for name in sorted(self.values))})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("options of a store cannot be pickled: they may contain credentials")

    def redact(self, text: str) -> str:
        """Returns a text with `***` in place of the values of options, but for public ones such as an endpoint.

        >>> StoreOptions({"secret_access_key": "very secret", "endpoint": "http://host"}).redact("very secret: host")
        '***: host'
        """
        secrets = {
            text
            for name, value in self.values.items()
            if not name.lower().endswith(_PUBLIC)
            for text in _texts(value)
            if len(text) >= _MIN_SECRET
        }
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return without_passwords(text)


NO_OPTIONS = StoreOptions()
_lock = threading.RLock()
_registered: dict[str, StoreOptions] = {}
"""Root of a store, perhaps numbered -> its options."""
_file: tuple[int, str] | None = None
_descriptor: int | None = None  # of the file, if it is in memory
"""The process that wrote the file for its children, and the path of that file."""


def register(path: str, options: StoreOptions) -> str:
    """Registers options for the store of a URL, and returns the path that uses them."""
    with _lock:
        plain = url(path)
        match = _ROOT.fullmatch(plain)
        assert match is not None
        bucket, key = match[1], match[3] or ""
        number, root = 1, bucket
        while _options_of_root(root) not in (None, options):
            number += 1
            root = f"{bucket}~{number}"
        if root not in _registered:
            _registered[root] = options
            _share_options()
        return root + key


def options_of(path: str) -> StoreOptions:
    """Returns the options of a path's store; the first use of a store without options means those of the environment.

    Raises:
        StorageError: the path is of another process, which did not start this one.
    """
    match = _ROOT.fullmatch(path)
    if match is None:
        return NO_OPTIONS
    bucket, number = match[1], match[2] or ""
    root = bucket + number
    if (options := _registered.get(root)) is not None:
        return options
    with _lock:
        options = _options_of_root(root)
        if options is None and number:
            raise StorageError(
                expected="storage_options of this process",
                got="a number that another process gave them",
                path=root,
                advice=f"Use {bucket} with storage_options.",
            )
        return _registered.setdefault(root, options or NO_OPTIONS)


def has_options(path: str) -> bool:
    """Returns whether a path leads to a store by options that this process was given."""
    match = _ROOT.fullmatch(path)
    return match is not None and (match[2] is not None or bool(_options_of_root(match[1])))


def url(path: str) -> str:
    """Returns the URL of a path without the number of its options, as it is written to files.

    >>> url("s3://bucket~2/data"), url("/data~2")
    ('s3://bucket/data', '/data~2')
    """
    match = _ROOT.fullmatch(path)
    return match[1] + (match[3] or "") if match else path


def _options_of_root(root: str) -> StoreOptions | None:
    """Returns the options of a root, of this process or the one that started it."""
    if root not in _registered and OPTIONS_VARIABLE in os.environ and not (_file and _file[0] == os.getpid()):
        with contextlib.suppress(FileNotFoundError), open(os.environ[OPTIONS_VARIABLE], encoding="utf-8") as file:
            shared_options = json.load(file)
            if root in shared_options and shared_options[root] is None:
                raise StorageError(
                    expected="storage_options that other processes can be given",
                    got="values that are not JSON",
                    path=root,
                )
            for name, values in shared_options.items():
                if values is not None:
                    _registered.setdefault(name, StoreOptions(values))
    return _registered.get(root)


def _share_options() -> None:
    """Writes the registered options to a file that only this user reads, for processes that this one starts.

    On Linux the file is in memory and ends with this process, however that ends: a file on a disk would keep secrets
    after a kill.
    """
    global _file
    shared_options = {
        root: options.values if _is_json(options.values) else None for root, options in _registered.items()
    }
    content = json.dumps(shared_options).encode()
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        _share_in_memory(content)
        return
    if _file is None or _file[0] != os.getpid():
        import tempfile  # which takes 3 ms, and few processes need it

        path = os.path.join(tempfile.mkdtemp(prefix="beam_datasets_"), "store_options.json")  # mode 0700
        _file = os.getpid(), path
        atexit.register(_remove, *_file)
    os.environ[OPTIONS_VARIABLE] = _file[1]
    temporary = f"{_file[1]}.new"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    os.replace(temporary, _file[1])


def _share_in_memory(content: bytes) -> None:
    """Writes to an anonymous file, which other processes of this user open by this process's id."""
    global _file, _descriptor
    descriptor = os.memfd_create("beam_datasets")
    os.fchmod(descriptor, 0o600)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    if _file is None or _file[0] != os.getpid() or _descriptor is None:
        _descriptor = descriptor
        _file = os.getpid(), f"/proc/{os.getpid()}/fd/{descriptor}"
    else:
        os.dup2(descriptor, _descriptor, inheritable=False)  # in one step, for those that are reading
        os.close(descriptor)
    os.environ[OPTIONS_VARIABLE] = _file[1]


def _remove(process: int, path: str) -> None:
    """Removes the directory of a file, in the process with this id only, and not in its forked children."""
    if process == os.getpid():
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def _is_json(values: Any) -> bool:
    """Returns whether options can be shared; those with objects, such as a credential provider, cannot."""
    try:
        return bool(json.loads(json.dumps(values)) == values)
    except (TypeError, ValueError):
        return False


def _texts(value: Any) -> Iterator[str]:
    """Yields all texts nested in a value of an option, and the private key within the JSON of a Google credential."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, (str, bytes)):
        text = value if isinstance(value, str) else value.decode(errors="replace")
        yield text
        if text.lstrip().startswith("{"):  # a key of Google's, whose parts may be shown without the rest
            with contextlib.suppress(ValueError, RecursionError):
                yield from _texts([inner for name, inner in json.loads(text).items() if name.startswith("private_key")])
