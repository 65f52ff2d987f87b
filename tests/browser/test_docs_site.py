"""The site of the documentation in a real browser."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    "",
    "tutorial/first-dataset/",
    "tutorial/tour/",
    "explanation/why/",
    "how-to/reading/",
    "how-to/coming-from/hugging-face/",
    "reference/api/",
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The site, built and served."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_pages_are_accessible_and_fit_a_telephone(page, address, path):
    from axe_playwright_python.sync_playwright import Axe

    page.goto(f"{address}/{path}")
    found = [one for one in Axe().run(page).response["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
