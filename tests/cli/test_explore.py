"""The explorer, asked through its real server."""

import html
import http.client
import io
import json
import os
import re
import shlex
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import wave

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets.cli import main
from beam_datasets.cli.explorer import app, pages, searching
from beam_datasets.cli.explorer.app import find
from beam_datasets.cli.explorer.pages import Catalogue, rows_page
from beam_datasets.display.text import printable
from beam_datasets.errors import BeamDatasetsError
from beam_datasets.statistics.summary import image_size
from tests.exporting.conftest import dataset_of
from tests.hostile import CONTROLS, IMAGE, LONG, SCRIPT, explorer, png, publish
from tests.processes import started
from tests.published import build, flip
from tests.reading.conftest import write_dataset

NAME = "hostile:1.0.0"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return publish(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def url(data):
    with explorer(Catalogue(str(data))) as address:
        yield address


def get(url, path="/", /, headers=None, **query):
    """Returns (status, headers, body)."""
    request = urllib.request.Request(f"{url}{path}?{urllib.parse.urlencode(query)}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def text(url, path="/", /, **query):
    status, headers, body = get(url, path, **query)
    assert status == 200, body.decode()
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert headers["X-Content-Type-Options"] == "nosniff"
    page = body.decode()
    assert re.findall(r"<script[^>]*>", page) == ['<script src="/page.js" defer>']
    assert not re.search(r"<[^>]* (on\w+|style)=", page)
    assert printable(page) == page
    return page


@pytest.fixture(scope="module")
def huge(data):
    """The index in train of the example with the huge image."""
    return bd.builder(NAME, data_dir=data).as_dataset(split="train").find(7)


def test_pages_escape_what_datasets_contain(url, huge):
    part = {"name": NAME, "slice": "train"}
    assert f"dataset?name={NAME}" in text(url).replace("%3A", ":")
    page = text(url, "/dataset", name=NAME)
    assert html.escape(SCRIPT, quote=False).replace("'", "&#39;") in page
    assert 'href="javascript' not in page
    assert "100, 100, 100" in page
    assert re.findall(r'<th scope="row">(boxes.*?)</th><td><code>(.*?)</code>', page) == [
        ("boxes", "Sequence({...})"),
        ("boxes.name", "Text(shape=(), dtype=string)"),
        ("boxes.x", "float32"),
    ]
    queries = [("/rows", {}), ("/example", {"index": huge}), ("/statistics", {}), ("/rows", {"where": "true"})]
    for path, query in queries:
        page = text(url, path, **part, **query)
        assert "&lt;script&gt;" in page
        assert path != "/example" or "8,000 x 5,000, too large to be shown" in page
    for path, query in [("/rows", {"where": SCRIPT}), ("/rows", {"slice": SCRIPT}), ("/dataset", {"name": SCRIPT})]:
        status, _, body = get(url, path, **part | query)
        assert (status, b"<script>" in body) in ((400, False), (404, False))
        assert b'<form method="get"' in body, "what was asked can be mended"


def test_an_error_of_the_explorer_itself_is_status_500(url, monkeypatch):
    monkeypatch.setattr(pages, "example_page", lambda *_: {}["missing"])
    assert get(url, "/example", name=NAME, slice="train")[0] == 500


def test_rows_are_those_of_the_slice(data):
    dataset = bd.load(NAME, split="train[50:]+test", data_dir=data)
    seen, start = [], 0
    while start is not None:
        page = rows_page(Catalogue(str(data)), NAME, "train[50:]+test", start)
        seen += [int(cell["text"]) for row in page["rows"] for cell in row["cells"] if cell["path"] == SCRIPT]
        start = page["next"]
    assert seen == [int(example[SCRIPT]) for example in dataset[:]]
    assert rows_page(Catalogue(str(data)), NAME, "test", 10**17)["start"] == 29
    assert rows_page(Catalogue(str(data)), NAME, "test[:0]")["rows"] == []


@pytest.mark.parametrize("seconds", [pytest.param(0, marks=pytest.mark.slow), 60])
def test_a_condition_goes_on_where_it_ended(data, monkeypatch, seconds):
    monkeypatch.setattr(pages, "MAX_SECONDS", seconds)
    part = "test+train[:99]" if seconds else "test[:3]+train[:3]"  # in no time a request looks at a single example
    dataset = bd.load(NAME, split=part, data_dir=data)
    found, start = [], 0
    while start is not None:
        page = rows_page(Catalogue(str(data)), NAME, part, start, "kind = 'cat' AND length(text) < 50")
        assert len(page["rows"]) <= pages.PAGE_ROWS
        assert seconds or page["stop"] == page["start"] + 1
        found += [row["index"] for row in page["rows"]]
        start = page["next"]
    assert found
    assert found == [i for i, example in enumerate(dataset[:]) if example["kind"] == 0 and len(example["text"]) < 50]


@pytest.mark.slow
def test_a_slow_condition_is_answered_with_what_was_found(tmp_path):
    """An example takes minutes; the search ends before it, and says so if it goes on there."""
    dataset_of(tmp_path, {"n": np.int64}, [{"n": n} for n in range(99)])
    slow = "levenshtein(repeat('a', 200000 + n), repeat('b', 200000)) > 1"
    where = f"CASE WHEN n = 5 THEN {slow} ELSE n % 2 = 0 END"
    found, start = [], 0
    while start < 5:
        page = rows_page(Catalogue(str(tmp_path)), "made:1.0.0", "", start, where)
        found += [row["index"] for row in page["rows"]]
        start = page["next"]
    assert (found, start) == ([0, 2, 4], 5)
    with pytest.raises(BeamDatasetsError, match="stopped, because an example takes more than 10 s[.]$"):
        rows_page(Catalogue(str(tmp_path)), "made:1.0.0", "", 5, where)


@pytest.mark.parametrize(
    "where, limits, why",
    [
        ("length(repeat('x', 3000000000)) > 1", {}, "2 GiB of memory"),
        ("len(range(100000000 + length(kind))) > 1", {}, "2 GiB of memory"),
        ("levenshtein(repeat('a', 90000 + length(kind)), repeat('b', 90000)) > 1", {"MAX_EXAMPLE": 0.5}, "0.5 s"),
    ],
)
def test_a_condition_has_limited_memory_and_time(url, monkeypatch, where, limits, why):
    for name, value in limits.items():
        monkeypatch.setattr(searching, name, value)
    start = time.monotonic()
    status, _, body = get(url, "/rows", name=NAME, slice="train", where=where)
    assert (status, time.monotonic() - start < 20) == (400, True)
    assert f"takes more than {why}." in body.decode()


def test_an_error_says_how_the_process_ended(data, monkeypatch):
    place = (str(data / NAME.replace(":", "/")), "train")
    monkeypatch.setattr(searching, "MAX_EXAMPLE", 60)  # the process imports this module first
    for target, end in ((sys.exit, "exit code 1"), (_killed, "signal 9 .Killed.")):
        with monkeypatch.context() as patch:
            patch.setattr(searching, "_serve", target)  # sys.exit is called with a pipe, which is an exit code of 1
            with pytest.raises(BeamDatasetsError, match=f"stopped, because its process ended with {end};"):
                searching.search(*place, "true", 0, 9, 60)
    assert searching.search(*place, "false", 0, 9, 60) == ([], 300)
    assert searching.search(*place, "true", 0, 9, 60) == ([*range(9)], 9)


def _killed(*_):
    os.kill(os.getpid(), 9)


@pytest.mark.slow
def test_the_start_of_the_process_does_not_count(data, monkeypatch):
    monkeypatch.setattr(searching, "MAX_EXAMPLE", 3)
    monkeypatch.setattr(searching, "_serve", _late)
    assert searching.search(str(data / NAME.replace(":", "/")), "train", "true", 0, 9, 60) == ([*range(9)], 9)


def _late(*args):
    time.sleep(4)
    searching._serve(*args)


def test_a_feature_without_a_name_and_texts_in_lists(tmp_path):
    features = {"": np.int64, "words": bd.features.Sequence(bd.features.Sequence(bd.features.Text()))}
    dataset_of(tmp_path, features, [{"": n, "words": [["é"] * n, []]} for n in range(3)])
    with explorer(Catalogue(str(tmp_path))) as url:
        for path in ("/dataset", "/rows", "/example", "/statistics"):
            page = text(url, path, name="made:1.0.0", slice="train")
            assert "(no name)" in page
            assert not re.search(r"<(a|th|dt|h2)( [^>]*)?></\1>", page)
        assert "[[&#39;é&#39;, &#39;é&#39;], []]" in text(url, "/rows", name="made:1.0.0")
        for number in range(3):
            assert "words" in text(url, "/example", name="made:1.0.0", slice="train", index=number)
        assert "No examples." in text(url, "/rows", name="made:1.0.0", slice="train[:0]", where="true")
        assert "train=train[:0]" in text(url, "/rows", name="made:1.0.0", slice="train[:0]")


def test_rows_say_what_sorting_sorts(url):
    said = [
        "The titles of columns sort the examples of this page" in text(url, "/rows", name=NAME, slice=part)
        for part in ("train", "train[:20]", "train[:21]", "train[:0]")
    ]
    assert said == [True, False, True, False]


def test_a_long_list_of_splits_is_cut(tmp_path):
    write_dataset(tmp_path / "many" / "1.0.0", {f"part{n}": [1] for n in range(20)}, manifest=True)
    with explorer(Catalogue(str(tmp_path))) as url:
        page = text(url)
        assert (page.count("slice=part"), "and 12 more" in page) == (8, True)
        assert text(url, "/dataset", name="many:1.0.0").count('<th scope="row"><a') == 20


def test_the_other_examples_of_a_page_are_shown_where_one_is_damaged(tmp_path):
    examples = [{"n": n, "text": f"text {n}"} for n in range(60)]
    folder = dataset_of(tmp_path, {"n": np.int64, "text": bd.features.Text()}, examples, shards=2)
    shards = sorted(folder.glob("*.tfrecord*"))
    content = shards[0].read_bytes()
    place = content.index(b"text 5")
    offset = content.rfind(b"text 4", 0, place) + len("text 4") + 4  # behind the text comes a checksum
    flip(shards[0], place)
    where = "n % 2 = 0"
    with explorer(Catalogue(str(tmp_path))) as url:
        at = {"name": "made:1.0.0", "slice": "train"}
        page = text(url, "/rows", **at)
        assert re.findall(r">&#39;text (\d+)&#39;<", page) == [str(n) for n in range(20) if n != 5]
        assert page.count(f"<strong>Damaged:</strong> {shards[0]}, byte {offset} (record 5): ") == 1
        page = text(url, "/rows", **at, where=where)
        assert re.findall(r">&#39;text (\d+)&#39;<", page) == [str(n) for n in range(0, 37, 2)]
        assert page.count(f"{shards[0]}, byte {offset} (record 5): ") == 1
        page = text(url, "/example", **at, index=5)
        assert f"{shards[0]}, byte {offset} (record 5): " in page
        assert [f"index={n}" in page for n in (4, 6)] == [True, True]
        shards[1].unlink()
        page = text(url, "/rows", **at, start=20)
        assert re.findall(r">&#39;text (\d+)&#39;<", page) == [str(n) for n in range(20, 30)]
        assert page.count("<strong>Damaged:</strong>") == 10


def test_saved_statistics_are_shown_where_an_example_is_damaged(tmp_path):
    examples = [{"text": f"text {n}", "picture": png(3 + n, 2)} for n in range(9)]
    folder = dataset_of(tmp_path, {"text": bd.features.Text(), "picture": bd.features.Image()}, examples, shards=1)
    assert main(["stats", str(folder)]) == 0
    (shard,) = folder.glob("*.tfrecord*")
    content = bytearray(shard.read_bytes())
    content[content.index(b"text 5")] ^= 1
    shard.write_bytes(content)
    with explorer(Catalogue(str(tmp_path))) as url:
        page = text(url, "/statistics", name="made:1.0.0", slice="train")
    assert re.findall(r'alt="picture of example (.) of train"', page) == list("01234678")
    assert page.count(f"Damaged: {shard}, byte ") == 1
    assert main(["stats", str(folder), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert (page.count("data:image/png"), page.count(f"Damaged: {shard}, byte ")) == (8, 1)


@pytest.mark.parametrize(
    "where", ["read_text('{file}') != ''", "text IN (FROM read_text('{file}'))", "'{file}' IN glob('{file}')"]
)
def test_a_condition_reads_no_files(url, data, where):
    file = next(data.rglob("features.json"))
    status, _, body = get(url, "/rows", name=NAME, slice="train", where=where.format(file=file))
    assert status == 400
    assert b"subquery" in body or b"table function" in body


def test_a_key_of_any_type_is_found(tmp_path, ordered):
    """Of a dataset in the order of its keys, which are integers; and texts that look like integers."""
    with explorer(Catalogue(str(ordered.parents[1]))) as url:
        assert "The key is that of example 37." in text(url, "/rows", name="ds:1.0.0", key="37")
        assert "no example with this key" in text(url, "/rows", name="ds:1.0.0", key="-37")
        assert get(url, "/rows", name="ds:1.0.0", key="37a")[0] == 400
    keys = ("007", "7", "+7", "é", "0", "-0", "-7")
    build(tmp_path, {"text": bd.features.Text()}, {"train": [(key, {"text": key}) for key in keys]})
    for key in keys:
        page = rows_page(Catalogue(str(tmp_path)), "ds:1.0.0", key=key)
        assert page["rows"][0]["cells"][0]["text"] == repr(key)


def test_the_page_of_an_example_counts_items_that_it_leaves_out(tmp_path):
    """Of texts, rows of numbers, and items that are decoded by themselves."""
    features = {
        "texts": bd.features.Sequence(bd.features.Text()),
        "rows": bd.features.Sequence(bd.features.Sequence(np.int64)),
        "items": bd.features.Dataset(bd.features.Text()),
    }
    values = {100: [f"word {n}" for n in range(100)], 1500: [f"word {n}" for n in range(1500)]}
    examples = [
        (count, {"texts": texts, "items": texts, "rows": [[n, 1] for n in range(count)]})
        for count, texts in values.items()
    ]
    build(tmp_path, features, {"train": examples})
    keys = bd.load("ds:1.0.0", split="train", data_dir=tmp_path)
    for count in values:
        page = pages.example_page(Catalogue(str(tmp_path)), "ds:1.0.0", "train", keys.find(count))
        shown = {cell["path"]: cell["whole"].splitlines() for cell in page["cells"]}
        assert [len(lines) for lines in shown.values()] == [100 + (count > 100)] * 3
        assert [lines[99] for lines in shown.values()] == ["'word 99'", "[99, 1]", "'word 99'"]
        assert [line for lines in shown.values() for line in lines[100:]] == ["... (1,500 items)"] * 3 * (count > 100)


def test_images_sounds_and_long_texts(url, data, huge):
    dataset = bd.load(NAME, split="train", data_dir=data)
    at = {"name": NAME, "slice": "train"}
    status, headers, body = get(url, "/media", **at, index=0, path="picture")
    assert (status, headers["Content-Type"], Image.open(io.BytesIO(body)).size) == (200, "image/png", (30, 20))
    _, headers, body = get(url, "/media", **at, index=0, path="sound")
    assert headers["Content-Type"] == "audio/wav"
    with wave.open(io.BytesIO(body)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 200)
    long = next(i for i, example in enumerate(dataset[:]) if len(example["text"]) == LONG)
    assert f"all of it, {LONG - pages.MAX_TEXT:,} characters more" in text(url, "/example", **at, index=long)
    status, headers, body = get(url, "/media", **at, index=long, path="text")
    assert (headers["Content-Type"], len(body)) == ("text/plain; charset=utf-8", LONG)
    _, _, body = get(url, "/media", **at, index=0, path=CONTROLS + IMAGE)
    assert body.decode() == printable(CONTROLS)
    for query in (
        {"index": huge, "path": "picture"},
        {"index": 0, "path": "kind"},
        {"index": 0, "path": "picture", "item": 1},
    ):
        assert get(url, "/media", **at, **query)[0] in (400, 404)
    assert get(url, "/example", **at, index=300)[0] == 400


def test_an_image_that_pillow_refuses_is_not_decoded(tmp_path):
    """It is larger than those that Pillow opens, so that its size is not known; decoding it takes 200 MB."""
    bomb = png(15_000, 15_000)
    assert image_size(bomb) is None
    example = {"picture": bomb, "many": [png(3, 2), bomb]}
    features = {"picture": bd.features.Image(), "many": bd.features.Sequence(bd.features.Image())}
    dataset_of(tmp_path, features, [example])
    with explorer(Catalogue(str(tmp_path))) as url:
        at = {"name": "made:1.0.0", "slice": "train"}
        for path in ("/rows", "/example"):
            assert text(url, path, **at).count("damaged, or too large to be shown") == 2
        assert get(url, "/media", **at, index=0, path="picture")[0] == 400
        assert get(url, "/media", **at, index=0, path="many")[0] == 200


@pytest.mark.slow
def test_a_version_that_is_replaced_is_opened_again(tmp_path):
    def replace(count, *names):
        rows = [(n, dict.fromkeys(names, n)) for n in range(count)]
        build(tmp_path, dict.fromkeys(names, np.int64), {"train": rows}, overwrite=True)

    def shown():
        at = {"name": "ds:1.0.0"}
        pages = [text(url, "/dataset", **at), text(url, "/rows", **at), text(url, "/rows", **at, where="n >= 0")]
        pages += [text(url, "/rows", **at, key="5"), text(url, "/statistics", **at)]
        return [(page.count(">30<") + page.count(" of 30.") + page.count(" 30 "), "zebra" in page) for page in pages]

    replace(20, "n")
    with explorer(Catalogue(str(tmp_path))) as url:
        assert shown() == [(0, False)] * 5
        replace(30, "n", "zebra")
        assert [(count > 0, zebra) for count, zebra in shown()] == [(True, True)] * 5
        shutil.rmtree(tmp_path / "ds" / "1.0.0")
        assert get(url, "/rows", name="ds:1.0.0")[0] == 404


def test_slices_are_compared_over_one_axis(url):
    page = text(url, "/statistics", name=NAME, slice="train", name2=NAME, slice2="test")
    assert "largest difference of cumulative shares" in page
    assert page.count('class="s1 many"') > 0
    assert '<th scope="row">test</th>' in page
    asked = get(url, "/statistics", headers={"X-Poll": "1"}, name=NAME, slice="train", name2=NAME, slice2="test")[2]
    assert (b"data-next" in asked, b"<section" in asked) == (False, False)


def test_a_comparison_has_the_code_of_both_slices(url):
    page = html.unescape(text(url, "/statistics", name=NAME, slice="train[3:]", name2=NAME, slice2="test"))
    codes = re.findall(r'<pre tabindex="0" id="code(\d)">(.*?)</pre>', page, re.DOTALL)
    wanted = [
        ("1", "split='train[3:]'"),
        ("2", "--split 'train=train[3:]'"),
        ("3", "split='test'"),
        ("4", "--split test=test"),
    ]
    assert [(number, part in code) for (number, code), (_, part) in zip(codes, wanted)] == [
        (n, True) for n, _ in wanted
    ]
    targets = [shlex.split(code)[-1] for _, code in codes[1::2]]
    assert targets == ["hostile_part", "hostile_part2"]


def test_a_slice_is_not_compared_with_itself(url):
    at = {"name": NAME, "slice": "train", "name2": NAME}
    for slice2 in ("", "train"):
        status, _, body = get(url, "/statistics", **at, slice2=slice2)
        assert (status, b"expected another slice or version than &#39;train&#39;" in body) == (400, True)
        assert b'<a href="/dataset?name=' in body  # a way back
    assert "largest difference" in text(url, "/statistics", **at | {"slice": "test"}, slice2="")


@pytest.mark.slow
def test_few_slices_are_read_at_the_same_time(data, monkeypatch):
    reading, most, gather = [], [], app.gather

    def slow(*args):
        reading.append(1)
        most.append(len(reading))
        time.sleep(0.1)
        reading.pop()
        return gather(*args)

    monkeypatch.setattr(app, "gather", slow)
    published = bd.builder(NAME, data_dir=data)
    waiting = [app.PendingStatistics(published, f"train[{n}:]") for n in range(1, 9)]
    deadline = time.monotonic() + 60
    while sum(summary.wait(0.01, may_retry=True) for summary in waiting) < len(waiting):
        assert time.monotonic() < deadline
    assert max(most) == 2
    assert [summary.statistics["examples"] for summary in waiting] == [300 - n for n in range(1, 9)]


@pytest.mark.slow
def test_an_error_of_statistics_that_take_long_is_shown(url, monkeypatch):
    """The page that shows progress asks until there is an error, and is loaded again, which shows the error."""

    def damaged(*_):
        time.sleep(0.5)
        raise BeamDatasetsError("a record is damaged")

    monkeypatch.setattr(app, "_WAIT", 0.1)
    monkeypatch.setattr(app, "gather", damaged)
    at = {"name": NAME, "slice": "train[7:]"}
    for _ in range(2):
        assert "data-next" in text(url, "/statistics", **at)
        deadline = time.monotonic() + 60
        while get(url, "/statistics", headers={"X-Poll": "1"}, **at)[0] == 200:
            assert time.monotonic() < deadline
        status, _, body = get(url, "/statistics", **at)
        assert (status, b"a record is damaged" in body) == (400, True)


def test_no_page_asks_for_an_icon_in_vain(url):
    assert get(url, "/favicon.ico")[0] == 204


def test_who_may_ask(url, data):
    assert get(url, headers={"Host": "attacker.example:80"})[0] == 400
    assert get(url, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert get(url, headers=link)[0] == 200
    rows = {"name": NAME, "slice": "train", "where": "true"}
    for path in ("/rows", "/statistics", "/dataset"):  # a link of another site may not make this one work
        assert get(url, path, headers=link, **rows)[0] == 403
        assert get(url, path, headers=link | {"Sec-Fetch-Site": "same-site"}, **rows)[0] == 403
        assert get(url, path, headers=link | {"Sec-Fetch-Site": "none"}, **rows)[0] == 200
    for host in ("localhost:80", "127.0.0.1", "[::1]:1"):
        assert get(url, headers={"Host": host})[0] == 200
    with explorer(Catalogue(str(data)), token="secret") as guarded:
        assert [get(guarded, "/rows", name=NAME, **given)[0] for given in ({}, {"token": "x"}, {"token": "é"})] == [
            403
        ] * 3
        port = guarded.rpartition(":")[2]
        assert get(guarded, headers={"Cookie": f"{app.COOKIE}{port}=secret"})[0] == 200
        other = {"Cookie": f"{app.COOKIE}80=other; {app.COOKIE}{port}=secret"}  # of an explorer on another port
        assert get(guarded, headers=other)[0] == 200
        connection = http.client.HTTPConnection(guarded.removeprefix("http://"))
        connection.request("GET", "/?token=secret")
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"]
        connection.close()
        assert answer.status == 302
        assert "token" not in answer.headers["Location"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


@pytest.mark.parametrize("name", ["../..", "/etc", "nope", "hostile:9.9.9", ""])
def test_only_names_of_the_catalogue_are_opened(url, name):
    assert get(url, "/dataset", name=name)[0] in (400, 404)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("page", ["rows", "where", "example"])
@pytest.mark.filterwarnings("ignore:split .test.. it is a concatenation")
def test_the_code_loads_just_what_is_shown(data, tmp_path, monkeypatch, capsys, single, page):
    directory = str(data / "hostile" / "1.0.0")
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", str(tmp_path))
    catalogue, _ = find(directory if single else None, None if single else str(data), None)
    part = "test[5:20]+train[10%:40%]"
    if page == "example":
        shown, split, indices = pages.example_page(catalogue, NAME, part, 17), "train", [17]
    else:
        shown, split = rows_page(catalogue, NAME, part, 2, "kind = 'cat'" if page == "where" else ""), "test"
        indices = [row["index"] for row in shown["rows"]]
    code = {
        name: value.replace(
            f"data_dir={str(data)!r}, split", f"source_data_dir={str(data)!r}, data_dir={str(tmp_path)!r}, split"
        )
        for name, value in shown["code"].items()
    }
    assert code["slice"].startswith(f"{NAME}, ")
    found: dict[str, object] = {}
    exec(code["python"], found)
    command = [a if a != str(data) else str(tmp_path) for a in shlex.split(code["command"])[1:]]
    command += [] if single else ["--source_data_dir", str(data)]
    command[command.index("--to") + 1] += "_again"
    assert main(command) == 0, capsys.readouterr().err
    examples = bd.load(NAME, split=part, data_dir=data)
    expected = [int(examples[index][SCRIPT]) for index in indices]
    made = bd.load("hostile_part_again", split=split, data_dir=tmp_path)
    assert [int(example[SCRIPT]) for example in made[:]] == expected
    if page == "where":
        found["examples"] = bd.load("hostile_part", split=split, data_dir=tmp_path)[:]
    assert [int(example[SCRIPT]) for example in found["examples"]] == expected


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    root = tmp_path_factory.mktemp("versions")
    for place in ("cat/1.0.0", "cat/1.10.0", "cat/1.9.0", "dog/big/2.0.0", "dog/small/1.0.0", "cow/1.0.0"):
        name, *config, _ = place.split("/")
        file = write_dataset(root / place, {"train": [1]}) / "dataset_info.json"
        named = {"name": name} | ({"configName": config[0]} if config else {})
        file.write_text(json.dumps(json.loads(file.read_text()) | named))
    return root


@pytest.mark.parametrize(
    "asked, first, shown",
    [
        ("cat", "cat:1.10.0", ["cat:1.0.0", "cat:1.9.0", "cat:1.10.0"]),
        ("cat:1.9.0", "cat:1.9.0", ["cat:1.0.0", "cat:1.9.0", "cat:1.10.0"]),
        ("{root}/cat", "cat:1.10.0", ["cat:1.0.0", "cat:1.9.0", "cat:1.10.0"]),
        ("{root}/cat/1.9.0/", "cat:1.9.0", ["cat:1.9.0"]),
        ("dog", "dog/small:1.0.0", ["dog/big:2.0.0", "dog/small:1.0.0"]),
        ("dog/big", "dog/big:2.0.0", ["dog/big:2.0.0", "dog/small:1.0.0"]),
        ("{root}", "", ["cat:1.0.0", "cat:1.9.0", "cat:1.10.0", "cow:1.0.0", "dog/big:2.0.0", "dog/small:1.0.0"]),
    ],
)
@pytest.mark.slow
def test_a_name_shows_all_versions_and_opens_the_newest(versions, monkeypatch, asked, first, shown):
    monkeypatch.setenv("BEAM_DATASETS_DATA_DIR", str(versions))
    catalogue, opened = find(asked.format(root=versions), None, None)
    assert opened == first
    assert [row["dataset"] for row in catalogue.index()["datasets"]] == shown
    with explorer(catalogue) as url:
        page = text(url, name=opened)
        assert f"<h1>{opened or 'Datasets'}</h1>" in page
        listed = re.search("<p>Versions: .*</p>", page, re.DOTALL)
        config = first.rpartition(":")[0]
        assert set(re.findall(r"[a-z/]+(?=:\d)", listed[0] if listed and first else "")) <= {config}
        others = [re.search(f'href="/dataset[^"]*"[^>]*>{name}<', page) is not None for name in shown if name != opened]
        assert all(others)
        assert get(url, "/dataset", name="cow:1.0.0")[0] == (404 if first else 200)


def test_a_name_is_found_without_listing_all_datasets(versions, monkeypatch):
    monkeypatch.setattr("beam_datasets.catalog.list_datasets", lambda *_: pytest.fail("all datasets are listed"))
    assert find("cat", str(versions), None) == (Catalogue(str(versions), "cat"), "cat:1.10.0")


def test_the_command_serves_until_it_is_interrupted(data):
    command = [sys.executable, "-m", "beam_datasets.cli", "explore", "hostile", "--data_dir", str(data)]
    command += ["--port", "0", "--token"]
    with started(command, stdout=-1, stderr=-2, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        line = process.stdout.readline().decode()
        address, _, token = line.split()[0].partition(f"?name={NAME}&token=")
        cookie = f"{app.COOKIE}{address.rstrip('/').rpartition(':')[2]}={token}"
        assert get(address.rstrip("/"), headers={"Cookie": cookie})[0] == 200
        process.send_signal(2)
        assert process.wait(30) == 0


def test_a_port_in_use_is_an_error(url, data, run):
    code, _, said = run("explore", data, "--port", url.rpartition(":")[2])
    assert code == 2
    assert said.splitlines()[-1] == f"beam-datasets: cannot listen on {url[7:]}; choose another --port"
    assert "expected 0 to 65535, got 70000" in run("explore", data, "--port", "70000")[2]
    assert IMAGE not in said
