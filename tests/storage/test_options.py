"""URLs that carry the options of their store."""

import ast
import pickle
import traceback
from pathlib import Path

import pytest

from beam_datasets import storage
from beam_datasets.errors import StorageError
from beam_datasets.storage import objects
from beam_datasets.storage.options import StoreOptions, options_of

pytest.importorskip("obstore")
SECRET = "a-very-secret-text"
OPTIONS = {"access_key_id": "an-id", "secret_access_key": SECRET, "region": "us-east-1"}


def test_paths_made_of_it_carry_the_options():
    base = storage.with_options("S3://bucket/data/", OPTIONS)
    assert base == "s3://bucket/data"
    below = storage.join(base, "a", "b")
    for path in (
        below,
        storage.normalize(below),
        storage.dirname(below),
        below + ".index",
        storage.join("", below),
        pickle.loads(pickle.dumps(below)),
    ):
        assert options_of(path).values == OPTIONS
    assert not options_of(storage.with_options("s3://bucket/data", None))
    assert not options_of(storage.normalize("s3://bucket/data"))


def test_paths_are_not_made_as_text():
    """An f-string is a plain str, so what is opened by one has lost its options."""
    doors = {*storage.__all__} - {"is_temporary"}
    found = []
    for file in sorted((Path(storage.__file__).parents[1]).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            opens = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in doors
            if opens and ast.unparse(call.func.value) == "storage" and call.args:
                first = call.args[0]
                if isinstance(first, ast.JoinedStr) or (
                    isinstance(first, ast.Call) and ast.unparse(first.func) == "str"
                ):
                    found.append(f"{file}:{call.lineno}")
    assert not found


def test_options_where_there_are_several_places():
    other = {"region": "eu-west-1"}
    base = storage.with_options("s3://bucket/data", OPTIONS)
    cases = [
        ("s3://bucket/x", None, OPTIONS),
        ("s3://another/x", None, {}),
        ("gs://bucket/x", None, {}),
        ("s3://bucket/x", other, other),
        ("s3://bucket/x", {}, {}),
        (storage.with_options("s3://bucket/x", other), OPTIONS, other),
        ("/x", OPTIONS, {}),
        ("/x", None, {}),
    ]
    for path, given, expected in cases:
        found = storage.with_options_if_remote(path, given, beside=base)
        assert found == path
        assert options_of(found).values == expected
    assert options_of(storage.with_options_if_remote("s3://bucket/x", None, beside="/local")).values == {}
    assert options_of(storage.with_options_if_remote("s3://bucket/x", None)).values == {}


def test_the_same_url_with_other_options_may_be_another_place():
    one, two = (storage.with_options("s3://bucket/x", {"endpoint": f"http://{host}"}) for host in "ab")
    assert storage.is_same(one, storage.with_options("s3://bucket/x", {"endpoint": "http://a"}))
    assert not storage.is_same(one, two)
    assert not storage.is_same(one, "s3://bucket/x")
    assert not storage.is_same("/x", "/y")


def test_what_it_looks_like_is_the_url():
    path = storage.with_options("s3://bucket/data", OPTIONS)
    assert str(path) == f"{path}" == path == "s3://bucket/data"
    assert repr(path) == "'s3://bucket/data'"
    assert repr(options_of(path)) == "StoreOptions(access_key_id=..., region=..., secret_access_key=...)"


def test_a_local_path_takes_none():
    with pytest.raises(ValueError, match="^storage_options are for URLs; /data is a local path"):
        storage.with_options("/data", OPTIONS)
    with pytest.raises(TypeError, match="name of an option"):
        storage.with_options("s3://bucket", {1: 2})


def test_stores_with_other_options_are_others():
    one, two = (objects._store("s3://bucket", StoreOptions({**OPTIONS, "access_key_id": key})) for key in "ab")
    assert (one.config["access_key_id"], two.config["access_key_id"]) == ("a", "b")
    again = objects._store("s3://bucket", StoreOptions({"access_key_id": "a", **OPTIONS, "client_options": {}}))
    assert again is not one
    assert objects._store("s3://bucket", StoreOptions({**OPTIONS, "access_key_id": "a"})) is one


@pytest.mark.parametrize(
    "url, options, problem",
    [
        ("s3://bucket", {"bogus": SECRET}, "'bogus' is not valid for store 'S3'"),
        ("gs://bucket", {"access_key_id": SECRET}, "'access_key_id' is not valid for store 'GCS'"),
        ("gs://bucket", {"service_account_key": SECRET}, "GCP credential error"),
        ("s3://bucket", {"region": 5}, "not an instance of 'str'"),
        ("s3://bucket", {"client_options": {"bogus": SECRET}}, "bogus"),
        ("https://127.0.0.1", {"bogus": SECRET}, "'bogus'"),
        ("memory://of-nobody", {"bogus": SECRET}, "takes no storage_options; got bogus"),
    ],
)
def test_what_a_store_does_not_know_is_said_without_what_it_was(url, options, problem):
    with pytest.raises(StorageError, match=f"^{url}: .*{problem}") as error:
        storage.read_bytes(storage.with_options(f"{url}/x", options))
    shown = "".join(traceback.format_exception(error.value))
    assert SECRET not in shown
    assert "\n" not in str(error.value)


def test_errors_show_no_value():
    options = StoreOptions(
        {"headers": {"Authorization": [f"Bearer {SECRET}"]}, "endpoint": "http://host", "on": "true"}
    )
    text = options.redact(f"asked http://host with 'Bearer {SECRET}': true")
    assert text == "asked http://host with '***': true"


def test_errors_show_no_part_of_a_key_of_google():
    options = StoreOptions({"service_account_key": '{"type": "service_account", "private_key": "' + SECRET + '"}'})
    assert options.redact(f"service_account: {SECRET}") == "service_account: ***"


def test_other_schemes_hand_them_to_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    (tmp_path / "x").write_bytes(b"hello")
    options = {"path": str(tmp_path), "target_protocol": "file"}
    path = storage.with_options("dir://x", options)
    assert storage.read_bytes(path) == b"hello"
    with pytest.raises(FileNotFoundError, match="^dir://y: "):
        storage.read_bytes(storage.with_options("dir://y", options))
