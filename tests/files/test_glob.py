"""Patterns of files; Python's glob is the oracle."""

import contextlib
import os
import socket
import threading
from glob import glob as glob_of_python
from importlib.metadata import metadata
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_datasets.errors import InputError, MissingDependencyError
from beam_datasets.files import glob
from beam_datasets.files.glob import _Pattern, files_below, match_by_beam
from beam_datasets.files.inputs import find
from beam_datasets.files.labeled_folder import find_labeled_files
from tests.facts import raises_with
from tests.files.in_process import publish

PATHS = [
    *("top.txt", "a.csv", "[b].csv", "ab.csv", "x/top.txt", "x/y/deep.txt", "x/y/z/deeper.csv", "x/y/a.csv"),
    *("other/a.csv", "d1/a.csv", "d2/a.csv", "d-/a.csv"),
]
HIDDEN = [
    *("_SUCCESS", ".ipynb_checkpoints/a.csv", "x/_temporary/0/a.csv", "x/.git/a.csv", "__MACOSX/._a.csv", "x/.a.csv"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    for name in (*PATHS, *HIDDEN):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def by_glob(tree, pattern):
    """Returns what Python's glob matches, without the names that begin with an underscore."""
    found = set(glob_of_python(pattern, root_dir=tree, recursive=True))  # `**/**` finds a file twice
    files = [path for path in found if (tree / path).is_file() and not path.endswith("/")]  # top.txt/ of top.txt/**
    return sorted(path for path in files if not any(part.startswith("_") for part in path.split("/")))


NAMES = st.sampled_from(
    [
        "*",
        "**",
        "?",
        "a*",
        "*.csv",
        "[ad]*",
        "[!a]*",
        "d[0-9]",
        "x",
        "y",
        "top.txt",
        "a.csv",
        "d?",
        "*y*",
        "d[9-0]",
        "[!9-0]1",
    ]
)
PATTERNS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(PATTERNS)
def test_patterns_match_as_in_python(tree, pattern):
    found = sorted(os.path.relpath(file.path, tree) for file in files_below(f"{tree}/", pattern))
    assert found == by_glob(tree, pattern)


@given(PATTERNS)
def test_urls_match_as_local_paths(tree, pattern):
    wanted = _Pattern(pattern.split("/"), (".", "_")).matches
    assert sorted(filter(wanted, (*PATHS, *HIDDEN))) == by_glob(tree, pattern)


@pytest.fixture
def keys(monkeypatch):
    """The keys of the objects in a store, s3://bucket: the files of the tree, in the folder `in`."""
    keys = [f"in/{path}" for path in (*PATHS, *HIDDEN)]

    def match(pattern, limit=None):
        prefix, stars, _ = pattern.partition("**")
        found = [url for key in keys if (url := f"s3://bucket/{key}") == prefix or (stars and url.startswith(prefix))]
        objects = [SimpleNamespace(path=url, size_in_bytes=1, last_updated_in_seconds=0) for url in found]
        return [SimpleNamespace(metadata_list=objects)]

    monkeypatch.setattr("beam_datasets.files.glob.match_by_beam", match)
    return keys


@pytest.mark.parametrize("problem, sets_options", [
    ("List operation failed with exceptions {'s3://b/options/': ClientError('AccessDenied')}", False),
    ("List operation failed with exceptions {'s3://b/': ValueError('Must provide one of client or options')}", True),
    ("pipeline_options is not set", True),
])  # fmt: skip
def test_options_of_stores_are_set_only_if_they_are_missing(monkeypatch, problem, sets_options):
    """An error about a path with the word replaced those that were set."""
    calls = []

    def match(*_):
        if not calls:
            raise ValueError(problem)
        return ["found"]

    systems = SimpleNamespace(match=match, set_options=calls.append)
    monkeypatch.setattr("beam_datasets.files.glob.file_systems", lambda: systems)
    if sets_options:
        assert match_by_beam("s3://b/options/*") == ["found"]
    else:
        with pytest.raises(ValueError, match="AccessDenied"):
            match_by_beam("s3://b/options/*")
    assert len(calls) == sets_options


@pytest.mark.parametrize("folder", ["", "/x", "/x/y", "/other"])
@pytest.mark.parametrize("end", ["", "/"])
def test_folders_of_a_store_need_no_slash_at_the_end(keys, tree, folder, end):
    """As for local folders; only a listing of the store knows what they are."""
    local = [file.name for file in find(f"{tree}{folder}")]
    assert [file.name for file in find(f"s3://bucket/in{folder}{end}")] == local


def test_a_bucket_is_a_folder(keys, tree):
    names = [file.name for file in find("s3://bucket")]
    assert names == [file.name for file in find("s3://bucket/")] == [f"in/{file.name}" for file in find(str(tree))]


def test_objects_that_stand_for_folders_are_no_files(keys, tree):
    """Consoles make them where a user creates a folder."""
    keys.extend(("in/", "in/x/", "in/new/"))
    assert [file.name for file in find("s3://bucket/in")] == [file.name for file in find(str(tree))]
    with pytest.raises(InputError, match="no file matches"):
        find("s3://bucket/in/new/")


def test_files_and_folders_of_a_store_with_the_same_name(keys):
    keys.append("in/x")
    assert [file.name for file in find("s3://bucket/in/x")] == ["x"]
    names = [file.name for file in find(["s3://bucket/in/other", "s3://bucket/in/d1/a.csv"])]
    assert names == ["d1/a.csv", "other/a.csv"]
    for pattern in ("in/oth", "in/oth/", "in/x/y/*x"):
        with pytest.raises(InputError, match="no file matches"):
            find(f"s3://bucket/{pattern}")


def test_hidden_names_that_a_pattern_asks_for(tree):
    assert [file.name for file in find(f"{tree}/x/_*/**/*.csv")] == ["_temporary/0/a.csv"]
    assert [file.name for file in find(f"{tree}/x/_temporary")] == ["0/a.csv"]
    assert [file.name for file in find(str(tree))] == sorted(PATHS)


def test_links_are_followed_and_loops_are_not(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("a")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "file.txt").symlink_to(tmp_path / "real" / "a.txt")
    assert [file.name for file in find(str(tmp_path / "in"))] == [
        "file.txt",
        "linked/a.txt",
    ]


def test_a_link_that_leads_nowhere_is_an_error(files):
    files.write("a.txt", "x")
    (files.folder / "b.txt").symlink_to(files.folder / "gone.txt")
    assert "b.txt cannot be read: No such file" in files.fails("text_lines")
    assert len(files.read("text_lines", "--skip_bad")) == 1


def test_a_name_with_brackets(tree):
    assert [file.name for file in find(f"{tree}/[b].csv")] == ["[b].csv"]


def test_nothing_matches(tree):
    for pattern in ("nothing*", "top.txt/x*", "gone/**"):
        with pytest.raises(InputError, match="no file matches"):
            find(f"{tree}/{pattern}")


def test_braces_are_not_wildcards(tree):
    """A shell expands them, unless they are quoted."""
    for pattern in ("{top,x}.txt", "top.{csv,txt}", "part-{0..9}"):
        with pytest.raises(InputError, match=r"no file matches .*\. Braces are not wildcards; these are \*, \?, "):
            find(f"{tree}/{pattern}")
    with pytest.raises(InputError, match=r"no file matches '.*\{x\}'$"):
        find(f"{tree}/{{x}}")


def test_a_file_url_is_a_path(tree, tmp_path):
    assert find(f"file://{tree}") == find(str(tree))
    assert find(f"file://{tree}/**/*.csv") == find(f"{tree}/**/*.csv")
    (tmp_path / "a b.csv").write_text("a")
    assert [file.name for file in find(f"file://{tmp_path}/a%20b.csv")] == ["a b.csv"]


def test_an_empty_pattern_is_not_the_working_directory(tree, monkeypatch):
    """A variable of a shell that is not set is empty; the files of the working directory were published."""
    monkeypatch.chdir(tree)
    with raises_with(InputError, expected="a file, a folder or a pattern", got="an empty text"):
        find("")


@pytest.mark.parametrize("url, way", [
    ("https://host/a.csv", "Download the file"), ("s3a://bucket/*.csv", "Write s3://"),
    ("memory://bucket", "Copy the files to one of these, or to a disk"),
])  # fmt: skip
def test_urls_of_other_schemes_are_named(url, way):
    """Beam proposes to install apache-beam[gcp] for any."""
    pytest.importorskip("apache_beam")
    scheme = url.partition("://")[0]
    with pytest.raises(InputError) as caught:
        find(url)
    expected = "expected a path, or a URL that begins with gs://, s3://, azfs://, hdfs://"
    assert str(caught.value).endswith(f": {expected}, got {scheme}://. {way}")


@pytest.mark.parametrize(
    "url",
    ["s3://me:pw-secret@bucket/x.csv", "gs://:pw-secret@b/*", "hdfs://me:pw-secret@h:80/x", "s3://me:a/pw-secret@b/x"],
)
def test_a_password_in_a_url_is_not_given_to_clients_that_log_it(monkeypatch, url):
    monkeypatch.setattr(glob, "match_by_beam", pytest.fail)
    with pytest.raises(InputError, match=r"^\w+://\*\*\*@.*: expected a URL without a password") as caught:
        find(url)
    assert "pw-secret" not in str(caught.value)


def test_a_store_that_does_not_answer(monkeypatch):
    """Clients of stores try again for minutes, without a word."""
    stop = threading.Event()
    monkeypatch.setattr(glob, "match_by_beam", lambda pattern, limit=None: stop.wait())
    monkeypatch.setattr(glob, "_MAX_WAIT", 0.1)
    with pytest.raises(InputError, match=r"gs://b/x/\*\.csv: .* got no answer of the store within 0 s\. Check"):
        find("gs://b/x/*.csv")
    stop.set()


@pytest.mark.parametrize("scheme, extra", [("gs", "gcp"), ("s3", "aws"), ("azfs", "azure"), ("hdfs", "hadoop")])
@pytest.mark.parametrize(
    "problem",
    [
        "Unable to get filesystem from specified path, ... e.g., pip install apache-beam[gcp]",
        "{'a': BeamIOError('List failed with {\\'a\\': NameError(\"name \\'BlobServiceClient\\' is not defined\")}')}",
        "{'a': ImportError('Failed to import hdfs. You can ensure it is installed by the hadoop beam extra')}",
    ],
)
def test_a_package_that_beam_lacks(monkeypatch, scheme, extra, problem):
    """Beam names its extra for Google Cloud whatever the scheme, or a name of its own code."""

    pytest.importorskip("apache_beam")

    def match(pattern, limit=None):
        raise ValueError(problem)

    monkeypatch.setattr(glob, "match_by_beam", match)
    with pytest.raises(MissingDependencyError, match=rf"^{scheme}://b/x\.csv: .*pip install 'apache-beam\[{extra}\]'"):
        find(f"{scheme}://b/x.csv")
    assert extra in metadata("apache-beam").get_all("Provides-Extra")


def test_a_store_that_says_that_something_is_not_defined(monkeypatch):
    """An error of a store is shown; no package is missing."""
    pytest.importorskip("apache_beam")
    problem = "{'s3://b/x.csv': ClientError('the region of the bucket is not defined')}"

    def match(pattern, limit=None):
        raise ValueError(problem)

    monkeypatch.setattr(glob, "match_by_beam", match)
    with pytest.raises(InputError) as caught:
        find("s3://b/x.csv")
    assert str(caught.value) == f"s3://b/x.csv: expected files that can be listed, got an error: {problem}"


def test_links_that_lead_to_themselves_are_reported(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").symlink_to("b.csv")
    (tmp_path / "c.csv").symlink_to("d.csv")
    (tmp_path / "d.csv").symlink_to("c.csv")
    for path in (tmp_path, tmp_path / "*.csv", tmp_path / "**/*.csv"):
        with pytest.raises(InputError, match=r"[bcd]\.csv cannot be read: Too many levels of symbolic links"):
            publish("csv", path)
    found = publish("csv", tmp_path, "--skip_bad")
    assert (found.rows, found.counted["left out"]) == ([{"x": 1}], 3)


def test_files_in_a_folder_that_must_not_be_entered_are_reported(tmp_path, monkeypatch):
    """Its names can be listed without the right to enter it; they were left out."""
    (tmp_path / "a.csv").write_text("x\n1\n")
    stat = os.stat

    def refusing_stat(path, *args, **options):
        if str(path).endswith("a.csv"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", refusing_stat)
    assert [file.path for file in files_below(f"{tmp_path}/", "*.csv")] == [str(tmp_path / "a.csv")]


def left_out(folder, pattern, caplog):
    """Returns what the warnings about left out files say: {reason: the first path, relative to the folder}."""
    caplog.clear()
    with contextlib.suppress(InputError):
        find(f"{folder}/{pattern}")
    texts = [record.getMessage().partition(": left out, because ") for record in caplog.records]
    return {why: path.replace(f"{folder}/", "") for _, _, text in texts for why, _, path in [text.rpartition(": ")]}


def test_what_is_no_file_is_named(tmp_path, caplog):
    for name in ("a.csv", "day=1/b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert left_out(tmp_path, "**", caplog) == {}
    os.mkfifo(tmp_path / "day=1" / "p.csv")
    (tmp_path / "link.csv").symlink_to("day=1/p.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.csv"))
    (tmp_path / "gone").symlink_to("no_folder")
    (tmp_path / "c.csv").mkdir()
    pipe, server = "it is a pipe and not a file", "it is a socket and not a file"
    folder, broken = "it is a folder", "it is a broken link, which may lead to a folder"
    first_of_two = {pipe: "day=1/p.csv and 1 more", server: "s.csv"}
    assert left_out(tmp_path, "", caplog) == first_of_two  # the broken link is read, which is an error
    assert left_out(tmp_path, "**/*.csv", caplog) == {**first_of_two, folder: "c.csv", broken: "gone"}
    assert left_out(tmp_path, "*.csv", caplog) == {pipe: "link.csv", server: "s.csv", folder: "c.csv"}
    assert left_out(tmp_path, "*/b.csv", caplog) == {broken: "gone"}
    assert left_out(tmp_path, "a*", caplog) == {}
    assert left_out(tmp_path, "*", caplog) == {pipe: "link.csv", server: "s.csv"}  # a folder is not meant by `*`


def test_hidden_files_are_named_unless_they_are_empty(tmp_path, caplog):
    for name, text in {
        "a.csv": "x\n",
        "_SUCCESS": "",
        ".b.csv": "x\n",
        "_log/c.csv": "x\n",
        "_log/d.txt": "x\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    why = "names that begin with . or _ are hidden"
    assert left_out(tmp_path, "", caplog) == {why: ".b.csv and 2 more"}
    assert left_out(tmp_path, "**/*.csv", caplog) == {why: ".b.csv and 1 more"}
    assert left_out(tmp_path, "*.csv", caplog) == {why: ".b.csv"}
    assert left_out(tmp_path, "a.csv", caplog) == left_out(tmp_path, "_log/*.csv", caplog) == {}


def test_hidden_files_of_a_folder_of_labels_are_named(tmp_path, caplog):
    for name in ("cat/a.png", "cat/.DS_Store", "cat/Thumbs.db", "desktop.ini", "__MACOSX/cat/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"x")
    splits, others = find_labeled_files(str(tmp_path), "image")
    assert [file.name for _, file in splits[""]] == ["cat/a.png"]
    assert others == []
    [text] = caplog.messages
    assert "left out, because it is hidden, or a file of an operating system: " in text
    assert text.endswith(f"{tmp_path}/__MACOSX/cat/a.png and 3 more")
