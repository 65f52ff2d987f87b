"""The web application of `beam-datasets explore`: requests, templates and access control."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from beam_datasets import catalog, storage
from beam_datasets.cli.explorer import pages
from beam_datasets.cli.explorer.pages import MAX_SHOWN, SMALL, Catalogue, media
from beam_datasets.cli.explorer.searching import start_process
from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, Flag, Option, UsageError, whole_number
from beam_datasets.diffing.features import compare_features
from beam_datasets.display.text import printable
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError
from beam_datasets.extras import framework
from beam_datasets.reading.opening import ReadOnlyBuilder, open_published
from beam_datasets.statistics.page import asset, content
from beam_datasets.statistics.report import conclude, read_saved
from beam_datasets.statistics.summary import Gathered, StatisticsRequest, divide_range, gather, merge, prepare_request

if TYPE_CHECKING:
    from flask import Flask, Response


LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "beam_datasets_token_"  # and the port, as browsers send the cookies of a host to all of its ports
_WAIT = 1.0  # seconds until a page shows progress instead
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def make_app(catalogue: Catalogue, token: str = "") -> Flask:
    """Returns the WSGI application. It reads, and changes nothing.

    Args:
        catalogue: the datasets.
        token: expected as `?token=` of the first URL, and as a cookie from then on. '' requires none; the host of a
            request must then be this machine, which prevents DNS rebinding.

    Raises:
        MissingDependencyError: Flask is not installed.
    """
    web = framework("flask", needed_by="beam-datasets explore", name="Flask", extra="explore")
    app: Flask = web.Flask(__name__, static_folder=None)
    app.jinja_options = {"finalize": pages.escaped}
    app.jinja_env.globals.update(MAX_SHOWN=MAX_SHOWN)

    def argument(name: str, default: str = "") -> str:
        """Returns an argument of the request's query without surrounding whitespace; `default` if it is absent."""
        return str(web.request.args.get(name, default)).strip()

    def number(name: str) -> int:
        """Returns an argument of the request's query as an integer; 0 if it is absent, 1000 for "1,000".

        Raises:
            ValueError: it is not a number of at most 18 digits.
        """
        text = argument(name, "0").replace(",", "")
        if not text.isdecimal() or len(text) > 18:
            raise ValueError(f"{name}: expected a number, 0 or more, got {text!r:.100}")
        return int(text)

    def show(template: str, values: dict[str, Any], status: int = 200) -> tuple[str, int]:
        """Returns (HTML page of a template, HTTP status)."""
        return web.render_template(f"{template}.html", catalogue=catalogue, **values), status

    @app.before_request
    def check() -> Any:
        """Refuses requests that another site sent, and those without the token or, if there is none, to another host.

        Returns:
            None if the request is accepted, (error text, HTTP status), or a redirect that stores the token in a cookie.
        """
        request = web.request
        host = urlsplit(f"//{request.host}")
        if not token and host.hostname not in LOOPBACK:
            return "This host name is not served. Open the address that the command printed.", 400
        # A link of another site may open the first page alone: others may read a lot, or evaluate an expression.
        opens = request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not opens:
            return "Requests of other sites are refused. Type or paste the address into the browser.", 403
        token_argument, cookie = request.args.get("token"), f"{COOKIE}{host.port or 80}"
        if token and not hmac.compare_digest(
            (token_argument or request.cookies.get(cookie, "")).encode(), token.encode()
        ):
            return "Open the address that the command printed: it has the token.", 403
        if token and token_argument:
            answer = web.redirect(web.url_for("index", name=argument("name") or None))
            answer.set_cookie(cookie, token, httponly=True, samesite="Strict")
            return answer
        return None

    @app.after_request
    def protect(answer: Response) -> Response:
        """Adds the security headers to a response, and returns it."""
        answer.headers.update(_HEADERS)
        return answer

    @app.errorhandler(Exception)
    def failed(error: Exception) -> tuple[str, int]:
        """Returns (error page, HTTP status): 404 for an unknown dataset, 400 for a bad argument, 500 for others."""
        status = getattr(error, "code", None)
        if isinstance(error, (BeamDatasetsError, ValueError, IndexError)):
            status = 404 if isinstance(error, DatasetNotFoundError) else 400
        elif not isinstance(status, int):
            app.logger.error("%s", web.request.url, exc_info=error)
            status = 500
        return show("error", {"message": str(error)[:5000]}, status)

    @app.get("/")
    def index() -> tuple[str, int]:
        """Returns the page of the dataset that the request names, or the page that lists all datasets."""
        return dataset() if argument("name") else show("index", catalogue.index())

    @app.get("/dataset")
    def dataset() -> tuple[str, int]:
        """Returns the page of a dataset version."""
        return show("dataset", pages.dataset_page(catalogue, argument("name")))

    @app.get("/rows")
    def rows() -> tuple[str, int]:
        """Returns the page with rows of a slice."""
        texts = {name: argument(name) for name in ("where", "key")}
        return show("rows", pages.rows_page(catalogue, argument("name"), argument("slice"), number("start"), **texts))

    @app.get("/example")
    def example() -> tuple[str, int]:
        """Returns the page of one example."""
        return show("example", pages.example_page(catalogue, argument("name"), argument("slice"), number("index")))

    @app.get("/media")
    def file() -> Any:
        """Returns a response with an image, a sound or a file of an example; images are scaled down."""
        published, pixels = catalogue.open(argument("name")), 768 if argument("size") == "large" else SMALL
        data, kind = media(published, argument("slice"), number("index"), argument("path"), number("item"), pixels)
        headers = {"Content-Disposition": "attachment"} if kind == "application/octet-stream" else {}
        return web.Response(data, mimetype=kind, headers=headers)

    @app.get("/statistics")
    def statistics() -> tuple[str, int]:
        """Returns the page with the statistics of one or two slices; if they take long, the page with the progress.

        Raises:
            ValueError: both slices are the same.
        """
        both = ("", "2") if argument("name2") else ("",)
        requested = [
            (catalogue.open(argument(f"name{slice_number}")), argument(f"slice{slice_number}")) for slice_number in both
        ]
        selections = [(published, expression or pages.default_slice(published)) for published, expression in requested]
        several = len({published for published, _ in selections}) > 1
        at = {
            (f"{p.info.display_name} {expression_of_slice}" if several else expression_of_slice): (
                p,
                expression_of_slice,
            )
            for p, expression_of_slice in selections
        }
        if len(at) < len(selections):
            raise ValueError(
                f"Compare with: expected another slice or version than {selections[0][1]!r}, got the same."
            )
        summaries, end = {label: summary_of(*one) for label, one in at.items()}, time.monotonic() + _WAIT
        polls = "X-Poll" in web.request.headers  # asks whether all is there; then the page is loaded, or its error
        waited = [summary.wait(end - time.monotonic(), may_retry=not polls) for summary in summaries.values()]

        def url(one: Any, endpoint: str, index: int, path: str | None = None, item: int | None = None) -> str:
            """Returns the URL of an endpoint for an example.

            Args:
                one: (dataset, expression of the slice).
                endpoint: name of the endpoint, such as "example".
                index: index of the example in the slice.
                path: path of a feature; None for the whole example.
                item: index of an image in the feature; None if it is not needed.
            """
            values = {"name": one[0].info.display_name, "slice": one[1], "index": index, "path": path, "item": item}
            return str(web.url_for(endpoint, **values))

        body = ""
        if all(waited) and not polls:
            slices = {label: summary.statistics for label, summary in summaries.items()}
            images = pages.sample_images(*selections[0], partial(url, selections[0], "file"))
            body = content(slices, lambda label, index: url(at[label], "example", index), images)
        return show(
            "statistics",
            {
                "chosen": [
                    (published.info.display_name, expression_of_slice) for published, expression_of_slice in selections
                ],
                "progress": {} if all(waited) else summaries,
                "changes": compare_features(*(p.info.features for p, _ in selections)).changes if several else (),
                "content": pages.escaped(body),
                "code": [catalogue.load_code(*one, number=number) for number, one in enumerate(selections, 1)],
                "index": catalogue.index()["datasets"],
            },
        )

    for endpoint, name, kind in (("style", "page.css", "text/css"), ("code", "page.js", "text/javascript")):
        answer = web.Response(asset(name), mimetype=kind)
        app.add_url_rule(f"/{name}", endpoint, lambda answer=answer: answer)
    app.add_url_rule("/favicon.ico", "icon", lambda: ("", 204))  # for images and errors; pages carry their icon
    return app


# ----------------------------------------------------------------------------------------------------------- statistics

# Statistics that are computed while a page waits, with progress, and none that nobody waits for.

RANGE_BYTES = 4 << 20  # between two steps of progress
PATIENCE = 60.0  # seconds after which nobody waits
MAX_KEPT = 32
_FREE = threading.BoundedSemaphore(2)  # slices that are read at the same time


class PendingStatistics:
    """The statistics of a slice, which a thread computes.

    Attributes:
        done: examples read.
        total: examples of the slice.
        found: the statistics, {'examples': number, 'features': ...}; None before they are computed.
    """

    def __init__(self, published: ReadOnlyBuilder, expression: str) -> None:
        directory = published.dataset_dir
        self._name, self._request = expression, prepare_request(directory, [expression])
        self._lock, self._ended, self._error = threading.Lock(), threading.Event(), ""
        self._ended.set()
        self.done, self.total = 0, sum(run.run.take for run in self._request.runs())
        saved_statistics = read_saved(prepare_request(directory))
        self.statistics: dict[str, Any] | None = (
            None if saved_statistics is None else saved_statistics.slices.get(expression)
        )

    def wait(self, seconds: float, *, may_retry: bool) -> bool:
        """Waits up to `seconds` for the statistics, and returns whether they are complete.

        Raises:
            BeamDatasetsError: they cannot be computed; if `may_retry`, the next call tries again.
        """
        self.asked = time.monotonic()
        with self._lock:
            if self.statistics is None and not self._error and self._ended.is_set() and _FREE.acquire(blocking=False):
                self.done = 0
                self._ended.clear()
                threading.Thread(target=self._compute, daemon=True).start()
        self._ended.wait(seconds)
        if error := self._error:
            self._error = "" if may_retry else error
            raise BeamDatasetsError(error)
        return self.statistics is not None

    def _compute(self) -> None:
        """Computes the statistics, and stores the result, or the error that the next call of `wait` raises."""
        try:
            self.statistics = conclude(merge(self._parts(self._request)), self._request).slices[self._name]
        except Exception as error:  # it is shown where it is asked for
            self._error = str(error)
        finally:
            _FREE.release()
            self._ended.set()

    def _parts(self, request: StatisticsRequest) -> Iterator[Gathered]:
        """Yields the statistics of each part of the slice, and counts its examples as done.

        Raises:
            TimeoutError: no page has asked for them for PATIENCE seconds.
        """
        for run in request.runs():
            for piece in divide_range(run, request, RANGE_BYTES):
                if time.monotonic() - self.asked > PATIENCE:
                    raise TimeoutError(f"it was stopped after {PATIENCE:g} s in which no page asked for it; ask again")
                yield gather(piece, request)
                self.done += piece.run.take


summary_of = lru_cache(MAX_KEPT)(PendingStatistics)


# -------------------------------------------------------------------------------------------------------------- command


COMMAND = Command(
    "explore",
    "Shows datasets in a browser: rows of slices, images, filters, statistics, comparisons. Changes nothing.",
    (
        Option(
            "dataset",
            "NAME_OR_DIR",
            "name of a dataset (shows all versions), or the directory of datasets or of one version; default: all"
            " datasets in --data_dir",
            value_is_optional=True,
        ),
        DATA_DIR,
        STORAGE_OPTIONS,
        Option(
            "--port", "N", "port to listen on; default: 8420; 0 means any free port", type=whole_number, default=8420
        ),
        Option(
            "--host",
            "HOST",
            "address to listen on; default: 127.0.0.1. For any other address a token is required, which the "
            "printed URL contains",
            default="127.0.0.1",
        ),
        Flag("--token", "require a token on 127.0.0.1 too, for machines that other people use"),
    ),
)


def run(args: Sequence[str]) -> int:
    """Serves the pages until it is interrupted."""
    parsed = COMMAND.parse(args)
    if not 0 <= parsed.port < 1 << 16:
        raise UsageError(f"--port: expected 0 to 65535, got {parsed.port}")
    serving = framework("werkzeug.serving", needed_by="beam-datasets explore", name="Werkzeug", extra="explore")
    token = secrets.token_urlsafe(24) if parsed.token or parsed.host not in LOOPBACK else ""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # its line for each request would show the token
    catalogue, first = find(parsed.dataset, parsed.data_dir, parsed.storage_options)
    app = make_app(catalogue, token)
    try:
        server = serving.make_server(parsed.host, parsed.port, app, threaded=True)
    except (OSError, SystemExit) as error:  # Werkzeug ends the process if the port is in use
        raise UsageError(f"cannot listen on {parsed.host}:{parsed.port}; choose another --port") from error
    with server:
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        threading.Thread(target=start_process, daemon=True).start()  # so that the first condition need not wait
        query = urlencode({name: value for name, value in (("name", first), ("token", token)) if value}, safe=":/")
        # Not by `say`, which hides tokens: whoever reads this one needs it.
        print(printable(f"http://{host}:{server.port}/{'?' * bool(query)}{query}  (Ctrl-C ends it)"))
        server.serve_forever()
    return 0


def find(dataset: str | None, data_dir: str | None, storage_options: dict[str, str] | None) -> tuple[Catalogue, str]:
    """Returns the catalogue to show, and the version to open first; '' for the list of all.

    Args:
        dataset: a name shows all versions of its dataset; a directory that version, or the datasets in it.
        data_dir: the root of the datasets, for a name.
        storage_options: options of its store.
    """
    root = catalog.root_dir(data_dir, storage_options)
    if dataset is None:
        return Catalogue(root), ""
    if data_dir is None and storage.is_dir(dataset) and not catalog.is_published(dataset):
        root = catalog.root_dir(dataset, storage_options)
        parent, name = storage.dirname(root), storage.basename(root)
        if catalog.list_datasets(root) or not catalog.list_versions(name, data_dir=parent):
            return Catalogue(root), ""
        dataset, root = name, parent
    if dataset.isidentifier() and (versions := catalog.list_published(dataset, root)):
        return Catalogue(root, dataset), versions[-1]
    published = open_published(dataset, data_dir, storage_options)
    name, directory = published.info.display_name, published.dataset_dir
    if not storage.is_dir(dataset) and directory == storage.join(root, name.replace(":", "/")):
        return Catalogue(root, published.info.name), name
    return Catalogue(root, name, directory), name
