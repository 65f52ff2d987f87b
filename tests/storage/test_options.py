"""Object stores: errors and web servers; options, registered in the process, in no path and no pickle."""

import contextlib
import io
import json
import os
import pickle
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
import uuid
from pathlib import Path

import psutil
import pytest

import beam_datasets as bd
from beam_datasets import helper_process, storage
from beam_datasets.cli import main
from beam_datasets.errors import PathPermissionError, StorageError, StoreOptionsError
from beam_datasets.storage import forked, objects, paths
from beam_datasets.storage.paths import StoreOptions, options_of
from tests.facts import raises_with

pytest.importorskip("obstore")
SPEC_INTER = Path(__file__).parents[1] / "data" / "tfds" / "spec_inter" / "1.2.3"
SECRET = "a-very-secret-text"
OPTIONS = {"access_key_id": "an-id", "secret_access_key": SECRET, "region": "us-east-1"}
OTHER = {"region": "eu-west-1"}


@pytest.fixture
def bucket():
    """A bucket that no other test uses."""
    return f"s3://bucket-{uuid.uuid4().hex}"


def run(*args: str) -> str:
    done = subprocess.run([sys.executable, "-c", *args], check=False, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


def test_paths_are_plain_text_of_which_any_other_may_be_made(bucket):
    base = storage.with_options(f"{bucket.replace('s3', 'S3')}/data/", OPTIONS)
    assert (type(base), base) == (str, f"{bucket}/data")
    for path in (f"{base}/x", storage.join(base, "a"), storage.dirname(base), base + ".index", f"{bucket}/other"):
        assert options_of(path).values == OPTIONS
    assert options_of("s3://another/data").values == {}
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(options_of(base))


def test_one_bucket_with_other_options_has_a_numbered_name(bucket):
    one, two = (storage.with_options(f"{bucket}/x", given) for given in (OPTIONS, OTHER))
    assert (one, two) == (f"{bucket}/x", f"{bucket}~2/x")
    assert [storage.with_options(f"{bucket}/x", given) for given in (dict(OPTIONS), OTHER)] == [one, two]
    assert storage.with_options(two, OPTIONS) == one
    assert storage.with_options(f"{bucket}/x", {}) == f"{bucket}~3/x"
    assert [options_of(path).values for path in (one, two, f"{bucket}~3/y")] == [OPTIONS, OTHER, {}]
    assert storage.url(two) == one
    with raises_with(StorageError, path=f"{bucket}~9", advice=[f" {bucket} "]):
        storage.exists(f"{bucket}~9/x")


def test_a_bucket_that_was_used_without_options_stays_so(bucket):
    assert options_of(f"{bucket}/x").values == {}
    assert not storage.has_options(f"{bucket}/x")
    assert storage.has_options(path := storage.with_options(f"{bucket}/x", OPTIONS))
    assert path == f"{bucket}~2/x"


def test_options_where_there_are_several_places(bucket):
    one, two = (storage.with_options(f"{bucket}/data", given) for given in (OPTIONS, OTHER))
    for path, given, beside, expected in [
        (f"{bucket}/x", None, two, f"{bucket}~2/x"),
        (f"{bucket}/x", None, one, f"{bucket}/x"),
        (f"{bucket}/x", None, "/local", f"{bucket}/x"),
        (f"{bucket}/x", None, None, f"{bucket}/x"),
        (f"{bucket}/x", OTHER, one, f"{bucket}~2/x"),
        (f"{bucket}~2/x", OPTIONS, one, f"{bucket}~2/x"),
        ("gs://another/x", None, two, "gs://another/x"),
        ("/x", OPTIONS, two, "/x"),
    ]:
        assert storage.with_options_if_remote(path, given, other_path=beside) == expected


def test_processes_that_are_started_read_them_from_a_private_file(bucket):
    one, two, unknown = (
        storage.with_options(f"{bucket}/x", given) for given in (OPTIONS, OTHER, {"credential_provider": print})
    )
    code = "import sys; from beam_datasets.storage.paths import *; print(options_of(sys.argv[1]).values)"
    assert (run(code, one), run(code, two)) == (str(OPTIONS), str(OTHER))
    assert "got values that are not JSON" in run(code, unknown)
    file = os.environ[paths.OPTIONS_VARIABLE]
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert SECRET not in str(dict(os.environ))
    with open(file) as shared:
        assert json.load(shared)[bucket] == OPTIONS


def test_the_file_is_gone_when_its_process_has_ended():
    code = (
        "import os; from beam_datasets.storage import paths, with_options as use; use('s3://b', {'region': 'x'});"
        "print(os.path.exists(os.environ[paths.OPTIONS_VARIABLE]), os.environ[paths.OPTIONS_VARIABLE])"
    )
    there, file = run(code).split()
    assert there == "True"
    assert not os.path.exists(file)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_a_killed_process_leaves_no_secrets(tmp_path):
    code = (
        "import os, signal; from beam_datasets.storage import with_options as use;"
        f"use('s3://b', {{'secret_access_key': '{SECRET}'}}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False)
    assert not list(tmp_path.rglob("*"))


def test_a_local_path_takes_none():
    assert storage.with_options("/data", {}) == storage.with_options("/data", None) == "/data"
    with raises_with(StoreOptionsError, mentions=["storage_options", "/data"]):
        storage.with_options("/data", OPTIONS)
    with pytest.raises(TypeError, match="^storage_options.* option .*int"):
        storage.with_options("s3://bucket", {1: 2})


def test_a_url_in_place_of_a_name():
    """It is not the options that are wrong."""
    with raises_with(ValueError, mentions=["bd.builder_from_directory('s3://b/x/1.0.0')"]):
        bd.load("s3://b/x/1.0.0", storage_options=OPTIONS)


def test_stores_with_other_options_are_others():
    one, two = (objects.client("s3://bucket", StoreOptions({**OPTIONS, "access_key_id": key})) for key in "ab")
    assert (one.config["access_key_id"], two.config["access_key_id"]) == ("a", "b")
    again = objects.client("s3://bucket", StoreOptions({"access_key_id": "a", **OPTIONS, "client_options": {}}))
    assert again is not one
    assert objects.client("s3://bucket", StoreOptions({**OPTIONS, "access_key_id": "a"})) is one


@pytest.mark.parametrize(
    "url, given, problem",
    [
        ("s3://bucket", {"bogus": SECRET}, "'bogus' is not valid for store 'S3'"),
        ("gs://bucket", {"access_key_id": SECRET}, "'access_key_id' is not valid for store 'GCS'"),
        ("gs://bucket", {"service_account_key": SECRET}, "GCP credential error"),
        ("s3://bucket", {"region": 5}, "not an instance of 'str'"),
        ("s3://bucket", {"client_options": {"bogus": SECRET}}, "bogus"),
        ("s3://bucket", {"retry_config": {"max_retries": -1}}, "can't convert negative int"),
        ("https://127.0.0.1", {"bogus": SECRET}, "'bogus'"),
        ("memory://of-nobody", {"bogus": SECRET}, "got bogus"),
    ],
)
def test_what_a_store_does_not_know_is_said_without_what_it_was(url, given, problem):
    with raises_with(StorageError, path=url, mentions=[problem]) as error:
        storage.read_bytes(storage.with_options(f"{url}/x", given))
    shown = "".join(traceback.format_exception(error.value))
    assert SECRET not in shown
    assert "\n" not in str(error.value)


def test_errors_show_no_value():
    given = StoreOptions({"headers": {"Authorization": [f"Bearer {SECRET}"]}, "endpoint": "http://host", "on": "true"})
    text = given.redact(f"asked http://host with 'Bearer {SECRET}': true")
    assert text == "asked http://host with '***': true"
    given = StoreOptions({"service_account_key": '{"type": "service_account", "private_key": "' + SECRET + '"}'})
    assert given.redact(f"service_account: {SECRET}") == "service_account: ***"


def test_other_schemes_hand_them_to_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    (tmp_path / "x").write_bytes(b"hello")
    given = {"path": str(tmp_path), "target_protocol": "file"}
    path = storage.with_options("dir://x", given)
    assert storage.read_bytes(path) == b"hello"
    with raises_with(FileNotFoundError, path="dir://y"):
        storage.read_bytes(storage.with_options("dir://y", given))


# A store without credentials: the error names what to set, not the metadata server that was asked last

NOWHERE = "http://127.0.0.1:9"  # nothing answers there
ONCE = {"client_options": {"allow_http": True, "connect_timeout": "1s"}, "retry_config": {"max_retries": 0}}
AWS = {"metadata_endpoint": NOWHERE, "region": "us-east-1", **ONCE}
AZURE = {
    "account_name": "mine",
    "msi_endpoint": f"{NOWHERE}/metadata/identity/oauth2/token",
    **ONCE,
}


@pytest.fixture
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
@pytest.mark.usefixtures("no_credentials")
def test_the_error_says_what_to_set(url: str, options: dict[str, object], names: str) -> None:
    """No credentials are found for a store."""
    with raises_with(PathPermissionError, mentions=[url.rpartition("/")[0], "credentials"], advice=re.compile(names)):
        storage.read_bytes(storage.with_options(url, options))


@pytest.mark.usefixtures("no_credentials")
def test_the_metadata_server_of_google() -> None:
    """The error of a library whose address of the metadata server cannot be changed."""
    text = "Generic GCS error: GET http://metadata.google.internal/computeMetadata/v1/instance: timeout"
    error = objects._translate_error("gs://bucket/data", OSError(text), options_of("gs://bucket/data"))
    assert isinstance(error, PathPermissionError)
    assert "no credentials found" in str(error)
    assert "Set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file" in str(error)


# Object stores: errors, web servers, and the options


def test_reads_from_a_web_server(server, tmp_path):
    storage.write_bytes(tmp_path / "web" / "d" / "x", bytes(range(200)))
    path = f"{server}/d/x"
    assert storage.read_bytes(path) == bytes(range(200))
    assert storage.size(path) == 200
    with storage.open_reader(path) as reader:
        assert list(reader.read_many([(5, 10), (150, 160)])) == [bytes(range(5, 10)), bytes(range(150, 160))]
        assert bytes(reader.read(190)) == bytes(range(190, 200))
    assert storage.exists(path)
    assert not storage.exists(f"{server}/d/y")
    with raises_with(FileNotFoundError, path=f"{server}/d/y"):
        storage.read_bytes(f"{server}/d/y")
    for act in (storage.list_dir, storage.is_dir, storage.remove_tree):
        with raises_with(StorageError, path=f"{server}/d", mentions=["web server"]):
            act(f"{server}/d")
    with raises_with(StorageError, path=server, mentions=[server, "a server", "no file"]):
        storage.read_bytes(server)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_reads_and_does_not_hang(server, tmp_path):
    """It lacks the threads of obstore, so another process reads for it, which ends with it."""
    (tmp_path / "web" / "x").write_bytes(b"hello")
    (tmp_path / "web" / "y").write_bytes(bytes(range(200)))
    assert storage.read_bytes(f"{server}/x") == b"hello"
    reader = storage.open_reader(f"{server}/y")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            assert list(reader.read_many([(5, 10), (150, 160)])) == [bytes(range(5, 10)), bytes(range(150, 160))]
            assert storage.read_bytes(f"{server}/x") == b"hello"
            with storage.open_reader(f"{server}/x") as other:
                assert bytes(other.read(1)) == b"ello"
            with raises_with(FileNotFoundError, path=f"{server}/z"):
                storage.open_reader(f"{server}/z")
            with raises_with(StorageError, mentions=["forked"], advice=["'spawn'"]):
                storage.write_bytes("s3://bucket/z", b"")
            helper = objects._FORKED._helper._process.pid
            (tmp_path / "helper").write_text(str(helper))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    helper = int((tmp_path / "helper").read_text())
    deadline = time.monotonic() + 20
    while psutil.pid_exists(helper) and psutil.Process(helper).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("order", ["as it is", pytest.param("shuffled", marks=pytest.mark.slow)])
def test_forked_processes_read_a_remote_dataset(server, tmp_path, order):
    """As DataLoader workers do that are forked, which is the default on Linux before Python 3.14."""
    shutil.copytree(SPEC_INTER, tmp_path / "web" / "inter" / "1.2.3")
    dataset = bd.builder_from_directory(f"{server}/inter/1.2.3").as_dataset("train")
    dataset = dataset.shuffle(seed=3) if order == "shuffled" else dataset
    expected = [int(example["idx"]) for example in dataset.take(100)]  # so that this process has read
    local = bd.builder_from_directory(SPEC_INTER).as_dataset("train")
    local = local.shuffle(seed=3) if order == "shuffled" else local
    children = []
    for worker in range(2):
        if not (child := os.fork()):
            signal.alarm(60)
            try:
                part = [int(example["idx"]) for example in dataset.shard(worker, 2)]
                (tmp_path / f"part{worker}").write_text(json.dumps(part))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    for worker in range(2):
        part = json.loads((tmp_path / f"part{worker}").read_text())
        assert part == [int(example["idx"]) for example in local.shard(worker, 2)]
    assert expected == [int(example["idx"]) for example in local.take(100)]


def test_errors_are_one_line_that_begins_with_the_path():
    path = f"memory://{uuid.uuid4().hex}/x"
    storage.write_bytes(path, b"1")
    with pytest.raises(StorageError) as error, storage.open_reader(path, size=9) as reader:
        reader.read(5, 9)
    assert str(error.value).startswith(path)
    assert "\n" not in str(error.value)


def test_stores_of_another_name_are_others():
    one, two = (f"memory://{uuid.uuid4().hex}" for _ in range(2))
    storage.write_bytes(f"{one}/x", b"1")
    assert storage.exists(f"{one}/x")
    assert not storage.exists(f"{two}/x")
    assert storage.list_dir(one) == ["x"]
    assert storage.list_dir(two) == []


def test_an_object_under_the_name_of_a_directory_is_not_its_content():
    root = f"memory://{uuid.uuid4().hex}"
    storage.write_bytes(f"{root}/d", b"")
    storage.write_bytes(f"{root}/d/x", b"1")
    assert storage.list_dir(f"{root}/d") == ["x"]


@pytest.mark.parametrize("url, bucket", [("s3://b/x", "b"), ("gs://c/x/y", "c")])
def test_buckets_need_no_options(url, bucket, monkeypatch):
    from beam_datasets.storage import objects

    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    _, store, key = objects._resolve_store(url)
    assert store.config["bucket"] == bucket
    assert url.endswith(f"{bucket}/{key}")
    objects.client.cache_clear()


def test_a_plain_http_endpoint_is_allowed_where_the_environment_names_one(server, tmp_path, monkeypatch):
    """The web server stands for an object store: a read without signature is a plain GET."""
    bucket = f"b{uuid.uuid4().hex}"
    storage.write_bytes(tmp_path / "web" / bucket / "x", b"hello")
    monkeypatch.setenv("AWS_ENDPOINT", server)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    assert storage.read_bytes(f"s3://{bucket}/x") == b"hello"
    with storage.open_reader(f"s3://{bucket}/x") as reader:
        assert bytes(reader.read(1, 3)) == b"el"
    with raises_with(FileNotFoundError, path=f"s3://{bucket}/y"):
        storage.read_bytes(f"s3://{bucket}/y")


def test_other_schemes_say_what_is_missing():
    with raises_with(StorageError, path="nonsense://x/y"):
        storage.read_bytes("nonsense://x/y")


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "http"])
@pytest.mark.parametrize(
    "options,name",
    [
        ({"allow_http": "true"}, "allow_http"),
        ({"ALLOW_HTTP": True}, "allow_http"),
        ({"aws_allow_http": "true"}, "allow_http"),
        ({"timeout": "30s"}, "timeout"),
        ({"proxy_url": "http://127.0.0.1:1"}, "proxy_url"),
        ({"config": {"user_agent": "x"}}, "user_agent"),
        ({"randomize_addresses": "false"}, "randomize_addresses"),
    ],
)
def test_options_of_the_client(scheme, options, name):
    """obstore ends in a panic of Rust for them, which is no Exception."""
    place = "127.0.0.1:1" if scheme == "http" else f"bucket-{uuid.uuid4().hex}"
    path = storage.with_options(f"{scheme}://{place}/x", options)
    with raises_with(StorageError, mentions=[f"{{'client_options': {{'{name}': ...}}}}"]) as caught:
        storage.read_bytes(path)
    assert "30s" not in str(caught.value)


def test_options_that_end_in_a_panic(bucket, monkeypatch):
    class PanicException(BaseException):
        pass

    def from_url(*_: object, **__: object) -> None:
        raise PanicException("expected config prefix to start with aws_")

    monkeypatch.setattr("obstore.store.from_url", from_url)
    with raises_with(StorageError, path=bucket, mentions=["storage_options", "config prefix"]):
        storage.read_bytes(storage.with_options(f"{bucket}/x", {"a_later_option": "1"}))
    for wrong in (3, [1]):
        with raises_with(StorageError, path=bucket, mentions=["client_options", type(wrong).__name__]):
            storage.read_bytes(storage.with_options(f"{bucket}/x", {"client_options": wrong}))


BAD_ADDRESSES = ["localhost:9000", f"user:{SECRET}@host", "", "http://", "http://a b:9", "ftp://host", "http://h:99999"]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_endpoint_without_scheme_or_host(bucket, monkeypatch, address):
    """obstore ends in a panic at the first request."""
    expected = "http:// or https://"
    for name in ("endpoint", "AWS_ENDPOINT_URL"):
        with raises_with(StorageError, expected=expected, mentions=[f" {name}: "]) as caught:
            storage.read_bytes(storage.with_options(f"{bucket}/x", {**OPTIONS, name: address}))
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("AWS_ENDPOINT", address)
    with raises_with(StorageError, expected=expected, mentions=[" AWS_ENDPOINT: "]):
        storage.read_bytes(f"{bucket}-b/x")
    good = {**OPTIONS, "endpoint": "http://127.0.0.1:1", "retry_config": {"max_retries": 0}}
    with pytest.raises(StorageError, match="error sending request"):
        storage.read_bytes(storage.with_options(f"{bucket}/x", good))


def test_a_key_that_ends_with_a_line_break(bucket):
    options = {
        "access_key_id": f"{SECRET}\n",
        "endpoint": "http://127.0.0.1:1",
        "secret_access_key": "b",
        "region": "x",
    }
    with raises_with(StorageError, path=f"{bucket}/x", advice=["storage_options"]) as caught:
        storage.read_bytes(storage.with_options(f"{bucket}/x", options))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


PASSWORD = "PASS-w0rd%40"


@pytest.mark.parametrize("how", ["options", "environment", "path"])
def test_passwords_of_urls_are_shown_nowhere(bucket, monkeypatch, how, caplog, capfd):
    endpoint = f"http://user:{PASSWORD}@127.0.0.1:1"
    options = {"region": "x", "skip_signature": "true", "retry_config": {"max_retries": 0}}
    if how == "path":
        path = storage.with_options(f"{endpoint}/{uuid.uuid4().hex}/data", {"retry_config": {"max_retries": 0}})
    else:
        if how == "environment":
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        else:
            options["endpoint"] = endpoint
        path = storage.with_options(f"{bucket}/data", options)
    for call in (storage.read_bytes, storage.open_reader, storage.exists):
        with pytest.raises(StorageError) as caught:
            call(path)
        text = "".join(traceback.format_exception(caught.value))
        for error in (caught.value, caught.value.__context__, caught.value.__cause__):
            text += f"{error!r} {error}"
            if error is not None:  # as --debug shows it
                error.__suppress_context__ = False
                text += "".join(traceback.format_exception(error))
        assert PASSWORD not in text
        assert "127.0.0.1:1" in text
    monkeypatch.delenv("BEAM_DATASETS_CACHE_DIR", raising=False)
    for args in (["info", path], ["info", path, "--debug"], ["head", path, "--debug"], ["verify", path]):
        with contextlib.suppress(StorageError):
            main(args)
    out = "".join(capfd.readouterr()) + caplog.text
    assert PASSWORD not in out


def test_an_interrupted_request_of_a_forked_process_leaves_no_reply(monkeypatch):
    """The next request must not get it: a range of as many bytes would look right."""

    class Process:
        def __init__(self):
            self.stdin, self.stdout, self.is_killed = io.BytesIO(), io.BytesIO(), False

        def kill(self):
            self.is_killed = True

        def wait(self):
            return -9

    started = [Process(), Process()]
    processes = iter(started)
    monkeypatch.setattr(helper_process.HelperProcess, "_start", lambda self: next(processes))
    obstore = forked.ForkedObstore()
    replies = iter([KeyboardInterrupt(), (None, [b"second"])])

    def load(_):
        reply = next(replies)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    monkeypatch.setattr(helper_process.pickle, "load", load)
    store = ("memory://x", StoreOptions({}))
    with pytest.raises(KeyboardInterrupt):
        obstore.get_ranges(store, "a", starts=[0], ends=[5])
    assert obstore.get_ranges(store, "b", starts=[0], ends=[6]) == [b"second"]
    assert [process.is_killed for process in started] == [True, False]
