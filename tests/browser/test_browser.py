"""The explorer and the static site in a real browser."""

import functools
import http.server
import json
import os
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import beam_datasets as bd
from beam_datasets.cli import main
from beam_datasets.cli.explorer import pages
from beam_datasets.cli.explorer.app import summary_of
from beam_datasets.cli.explorer.pages import Catalogue
from beam_datasets.cli.explorer.searching import start_process
from tests.hostile import SCRIPT, explorer
from tests.published import build

DOCS = Path(__file__).parents[2] / "docs" / "images"
FREEZE = 2.0  # seconds
HOSTILE, WORDS = "name=hostile:1.0.0", "name=words:1.0.0"
PAGES = [
    "/",
    f"/dataset?{WORDS}",
    "/dataset?name=words_part:1.0.0",
    f"/rows?{WORDS}&slice=train",
    f"/rows?{WORDS}&slice=train&where=label = 'short'",
    f"/example?{WORDS}&slice=train&index=3",
    f"/statistics?{WORDS}&slice=train&name2=words:1.1.0&slice2=test",
    f"/dataset?{HOSTILE}",
    f"/rows?{HOSTILE}&slice=train",
    f"/example?{HOSTILE}&slice=train&index=1",
    f"/statistics?{HOSTILE}&slice=train&name2=hostile:1.0.0&slice2=test",
    "/dataset?name=nothing",
]
SITE = [
    "index.html",
    *(f"{version}/{file}.html" for version in ("words/1.1.0", "hostile/1.0.0") for file in ("index", "statistics")),
    *(f"{version}/rows-train.html" for version in ("words/1.1.0", "hostile/1.0.0")),
]


@pytest.fixture(scope="module")
def url(data):
    start_process()
    with explorer(Catalogue(str(data))) as address:
        yield address


@pytest.fixture(scope="module")
def site(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    assert main(["site", str(data), "--to", str(folder)]) == 0
    return folder


@pytest.fixture
def served(site):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    handler.log_message = lambda *args: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def visit(page, address):
    """Opens a page and waits until it is ready; it may not freeze."""

    def scroll():
        page.goto(address)
        wait_until_ready(page)
        return seconds(page.evaluate, "window.scrollTo(0, document.body.scrollHeight)")

    check_fast(scroll)


def follow(page, locator):
    """Clicks what opens another page, and waits until that one is ready."""
    with page.expect_navigation():
        locator.click()
    wait_until_ready(page)


def wait_until_ready(page):
    """Waits until a page neither loads nor reloads."""
    deadline = time.monotonic() + 300
    while not _is_ready(page):  # wait_for_function would evaluate a text after a reload, which the policy forbids
        assert time.monotonic() < deadline
        page.wait_for_timeout(200)


def seconds(function, *args):
    start = time.monotonic()
    function(*args)
    return time.monotonic() - start


def check_fast(measure, limit=FREEZE):
    """Fails if each of three tries takes longer than it may; on a busy machine, all takes longer."""
    tries = []
    while not any(took < limit for took in tries):
        assert len(tries) < 3, f"took {tries} s, each compared with an idle machine; at most {limit:g} s"
        took = measure()
        tries.append(took if took < limit else took / slowdown())


def slowdown():
    """Returns how much longer a loop takes because other processes use the processors."""
    start, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.2:
        pass
    return (time.monotonic() - start) / (time.thread_time() - used)


def _is_ready(page):
    from playwright.sync_api import Error

    try:
        return page.evaluate("document.readyState === 'complete' && !document.querySelector('[data-next]')")
    except Error:  # it reloads just now
        return False


def check_accessible(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []


def check_narrow(page):
    """Nothing but tables, which scroll, is wider than the window of a telephone."""
    size = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size(size)


def check_keyboard(page):
    """Every element that can be used is reached by Tab alone."""
    count = page.evaluate(
        """() => {
          const able = [...document.querySelectorAll('a[href], button, input, select, [tabindex="0"], audio')]
            .filter(e => !e.hidden && e.type !== 'hidden' && e.getClientRects().length);
          able.forEach((e, number) => e.dataset.place = number);
          document.activeElement.blur();
          window.scrollTo(0, 0);
          return able.length;
        }"""
    )
    reached = set()
    for _ in range(8 * count + 20):  # the controls of a player have several places
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.place"))
        if len(reached - {None}) == count:
            break
    assert reached >= {str(place) for place in range(count)}


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_pages_of_the_explorer(page, url, path):
    if "nothing" in path:
        page.route("**/dataset?name=nothing", _as_found)
    visit(page, url + path)
    check_accessible(page)
    check_narrow(page)
    check_keyboard(page)


def _as_found(route):
    """A status of 404 would be an error on the console, which is looked at."""
    answer = route.fetch()
    assert answer.status == 404
    route.fulfill(status=200, body=answer.body(), headers=answer.headers)


@pytest.mark.slow
@pytest.mark.parametrize("path", SITE)
def test_pages_of_the_site(page, site, served, path):
    for base in (f"file://{site}", served):
        visit(page, f"{base}/{path}")
        assert page.evaluate("getComputedStyle(document.body).marginBottom") == "0px"  # the style sheet was loaded
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == []
        links = page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)")
        files = [link.removeprefix(f"file://{site}/").partition("#")[0] for link in links if link.startswith("file://")]
        assert all((site / file).is_file() for file in files)
    check_accessible(page)
    check_narrow(page)
    check_keyboard(page)


def test_a_new_user_finds_the_way(page, url, data):
    """The longest text of a slice, the labels of two splits, and the command that makes a dataset of what is shown."""
    visit(page, url)
    page.get_by_label("Search").fill("words:1.0")
    assert page.locator("#datasets tbody tr:visible").count() == 1
    follow(page, page.get_by_role("link", name="words:1.0.0"))
    follow(page, page.get_by_role("link", name="Statistics of train", exact=True))
    page.get_by_label("Slice", exact=True).fill("train[:50%]")
    follow(page, page.get_by_role("button", name="Show"))
    follow(page, page.locator("section", has=page.get_by_role("heading", name="text")).locator("td a").last)
    shown = page.locator("dt:has-text('text') + dd pre").inner_text()
    slice_ = bd.load("words:1.0.0", split="train[:50%]", data_dir=data)
    assert len(shown) == max(len(example["text"]) for example in slice_[:])
    follow(page, page.get_by_role("link", name="words:1.0.0"))
    follow(page, page.get_by_role("link", name="Compare train with test"))
    counts = page.locator("section:has(h2:text-is('label')) table.bars tbody tr").all_inner_texts()
    for row, label in zip(counts, (0, 1), strict=True):
        expected = [
            sum(example["label"] == label for example in bd.load("words:1.0.0", split=split, data_dir=data)[:])
            for split in ("train", "test")
        ]
        assert [int(number) for number in re.findall(r"\b(\d+)\s+[\d.]+%", row)] == expected
    command = page.locator("#code2").inner_text()
    assert command.startswith("beam-datasets materialize words:1.0.0 ")


def test_tables_are_sorted_and_bars_scaled(page, url):
    visit(page, f"{url}/statistics?{WORDS}&slice=train&name2={WORDS[5:]}&slice2=test")
    bars = page.locator("table.bars").first
    numbers = "[...document.querySelectorAll('table.bars')][0].tBodies[0].rows"
    shares = f"[...{numbers}].map(row => parseInt(row.cells[2].textContent))"
    bars.get_by_role("button").nth(1).click()
    assert page.evaluate(shares) == sorted(page.evaluate(shares), reverse=True)
    bars.get_by_role("button").nth(1).click()
    assert page.evaluate(shares) == sorted(page.evaluate(shares))
    heights = "[...document.querySelectorAll('.plot rect')].map(bar => Number(bar.getAttribute('height')))"
    linear = page.evaluate(heights)
    page.get_by_label("Logarithmic bars").check()
    assert all(low <= high for low, high in zip(linear, page.evaluate(heights)))
    page.get_by_label("Logarithmic bars").uncheck()
    assert page.evaluate(heights) == linear
    assert page.get_by_text("identifier", exact=True).count() == 2  # in the overview and at the feature


def test_integers_of_many_digits_are_sorted(page, tmp_path):
    numbers = [sign * 2**60 + n for sign in (-1, 1) for n in range(5)]
    rows = [(n, {"n": value, "u": value + 2**63}) for n, value in enumerate(numbers)]
    build(tmp_path, {"n": np.int64, "u": np.uint64}, {"train": rows}, name="large")
    with explorer(Catalogue(str(tmp_path))) as url:
        visit(page, f"{url}/rows?name=large:1.0.0&slice=train")
        for column, expected in ((0, numbers), (1, [value + 2**63 for value in numbers])):
            page.locator("thead button").nth(column + 1).click()
            shown = page.locator(f"tbody tr td:nth-child({column + 2})").all_inner_texts()
            assert list(map(int, shown)) == expected


def test_rows_are_found_and_filtered(page, url):
    visit(page, f"{url}/rows?{WORDS}&slice=train")
    page.get_by_label("Where").fill("length(text) = 1")
    follow(page, page.get_by_role("button", name="Show"))
    assert set(page.locator("tbody td:last-child").all_inner_texts()) == {"'x'"}
    page.get_by_label("Where").fill("")
    page.get_by_label("Key").fill("17")
    follow(page, page.get_by_role("button", name="Show"))
    assert page.get_by_text("The key is that of example").count() == 1
    assert page.locator("tbody tr").first.locator("td").first.inner_text() == "17"


def test_a_search_goes_on_and_keeps_what_is_typed(page, data, monkeypatch):
    monkeypatch.setattr(pages, "MAX_SECONDS", 0)  # each request looks at one example
    last = int(bd.load("words:1.0.0", split="train[2:3]", data_dir=data)[0]["id"])
    with explorer(Catalogue(str(data))) as url:
        address = f"{url}/rows?{WORDS}&slice=train[:3]&where=id = {last}"
        page.goto(address)
        wait_until_ready(page)
        assert page.locator("tbody tr").count() == 1
        with page.expect_response(lambda answer: "/rows" in answer.url and "data-next" not in answer.text()):
            page.goto(address)
            page.get_by_label("Slice").fill("test")
        page.wait_for_timeout(1000)
        assert (page.get_by_label("Slice").input_value(), page.locator("tbody tr").count()) == ("test", 0)
        follow(page, page.get_by_role("link", name="go on from example"))
        assert page.locator("tbody tr").count() == 1


def test_a_table_that_scrolls_has_no_tall_rows(page, url):
    page.set_viewport_size({"width": 360, "height": 800})
    visit(page, f"{url}/dataset?{WORDS}")
    rows = page.locator("[aria-label=splits] tbody tr").all()
    assert all(row.bounding_box()["height"] < 50 for row in rows)


def test_lineage_and_sounds(page, url):
    visit(page, f"{url}/dataset?name=words_part:1.0.0")
    source, made = page.locator(".box").nth(1).bounding_box(), page.locator(".box").nth(0).bounding_box()
    assert source["x"] + source["width"] < made["x"]
    follow(page, page.locator(".graph a"))
    assert page.get_by_role("heading", name="words:1.0.0").count() == 1
    visit(page, f"{url}/rows?{HOSTILE}&slice=train")
    assert page.evaluate("document.querySelector('audio').play().then(() => true)")
    assert page.locator("table").get_by_text(SCRIPT).count() > 0


in_light = pytest.mark.parametrize("context", ["light"], indirect=True)
"""For tests of time, which colours do not take, and of the screenshots, which are light."""


@in_light
@pytest.mark.slow
def test_ten_million_examples(page, large):
    summary_of.cache_clear()
    with explorer(Catalogue(str(large))) as url:
        for path in ("/dataset?name=many:1.0.0", "/rows?name=many:1.0.0", "/rows?name=many:1.0.0&start=9999990"):
            page.goto(url + path)
            check_fast(lambda path=path: seconds(page.goto, url + path))
        assert page.locator("tbody tr").count() == 10
        start_process()
        searched = f"{url}/rows?name=many:1.0.0&slice=train[25%25:]&where=n = -1"
        check_fast(lambda: seconds(page.goto, searched), FREEZE + 1)  # it says where it is, and goes on
        first = page.get_by_role("status").inner_text()
        while page.get_by_role("status").inner_text() == first:
            page.wait_for_timeout(100)
        assert "None found among the examples" in page.get_by_role("status").inner_text()
        page.get_by_role("button", name="Stop").click()
        stopped = page.get_by_role("status").inner_text()
        page.wait_for_timeout(3000)
        assert page.get_by_role("status").inner_text() == stopped
        page.goto(f"{url}/rows?name=many:1.0.0&slice=train[:1_000_000]&where=text = 'none'")
        wait_until_ready(page)
        assert page.get_by_text("to 999,999 of 1,000,000.").count() == 1
        check_fast(lambda: seconds(page.goto, f"{url}/statistics?name=many:1.0.0&slice=train[1%25:]"))
        assert page.locator("progress").count() == 1
        wait_until_ready(page)
        assert page.get_by_text("9,900,000 examples").count() == 1


LONGEST = """new Promise(done => {
  new PerformanceObserver(list => done(Math.max(...list.getEntries().map(task => task.duration))))
    .observe({type: 'longtask', buffered: true});
  setTimeout(() => done(0), 1000);
})"""


@in_light
@pytest.mark.slow
def test_two_thousand_features(page, wide):
    with explorer(Catalogue(str(wide))) as url:
        name = "name=wide:1.0.0"
        two = f"/statistics?{name}&slice=train&name2=wide:1.0.0&slice2=train[:9]"
        for path in (f"/dataset?{name}", f"/rows?{name}", f"/example?{name}&slice=train&index=0", two):
            check_fast(lambda path=path: [visit(page, url + path), page.evaluate(LONGEST) / 1000][1])
        assert page.locator("section").count() == 2000
        page.get_by_label("Logarithmic bars").check()
        page.locator(".sortable button").first.click()
        check_fast(lambda: page.evaluate(LONGEST) / 1000)


def test_the_site_has_a_search_changes_and_a_catalogue(page, site):
    visit(page, f"file://{site}/index.html")
    page.get_by_label("Search").fill("part")
    assert page.locator("#datasets tbody tr:visible").count() == 1
    visit(page, f"file://{site}/words/1.1.0/index.html")
    assert page.get_by_role("heading", name="Changes since words:1.0.0").count() == 1
    entries = json.loads((site / "catalog.json").read_text())["datasets"]
    assert {entry["dataset"] for entry in entries} >= {"words:1.0.0", "words:1.1.0", "hostile:1.0.0"}
    for entry in entries:
        assert all((site / file).is_file() for file in entry["files"].values())
        embedded = page.goto(f"file://{site}/{entry['files']['page']}") and page.locator("[type='application/ld+json']")
        text = embedded.first.evaluate("element => element.textContent")
        assert json.loads(text) == json.loads((site / entry["files"]["croissant"]).read_text())


SHOTS = {
    "explore-dataset": "/dataset?name=words_part:1.0.0",
    "explore-rows": f"/rows?{WORDS}&slice=train",
    "explore-statistics": f"/statistics?{WORDS}&slice=train&name2=words:1.0.0&slice2=test",
}


_SHORT = """document.querySelectorAll('pre, dd').forEach(
  element => element.textContent = element.textContent.replace(/\\/[^ ']*datasets0/g, 'data'))"""


@in_light
@pytest.mark.parametrize("name", SHOTS)
def test_screenshots_of_the_documentation(page, context, url, name, tmp_path):
    """`BEAM_DATASETS_SCREENSHOTS=write` replaces those of docs/."""
    visit(page, url + SHOTS[name])
    page.evaluate("window.scrollTo(0, 0)")
    write = os.environ.get("BEAM_DATASETS_SCREENSHOTS") == "write"
    page.evaluate(_SHORT)
    made = (DOCS if write else tmp_path) / f"{name}.png"
    page.screenshot(path=made)
    for path in (made, DOCS / f"{name}.png"):
        with Image.open(path) as image:
            assert image.size == (1200, 800)
