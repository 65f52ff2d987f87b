"""The web application of `beam-datasets explore`: requests, templates and access control."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from beam_datasets.adapters.framework import framework
from beam_datasets.cli.explorer import pages
from beam_datasets.cli.explorer.media import MAX_SHOWN, media
from beam_datasets.cli.explorer.summaries import Summaries
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError
from beam_datasets.statistics.page import content, script, style

if TYPE_CHECKING:
    from beam_datasets.cli.explorer.pages import Catalogue

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "beam_datasets_token"
_WAIT = 1.5  # seconds until a page shows progress instead
_PIXELS = {"small": 96, "large": 768}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def flask() -> Any:
    """Returns Flask.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return framework("flask", needed_by="beam-datasets explore", name="Flask", extra="explore")


def make_app(catalogue: Catalogue, token: str = "") -> Any:
    """Returns the WSGI application. It reads, and changes nothing.

    Args:
        catalogue: the datasets.
        token: expected as `?token=` of the first URL, and as a cookie from then on. '' requires none; the host of a
            request must then be this machine, which prevents DNS rebinding.
    """
    web, summaries = flask(), Summaries()
    app = web.Flask(__name__, static_folder=None)
    app.jinja_options = {"finalize": pages.escaped}
    app.jinja_env.globals.update(MAX_SHOWN=MAX_SHOWN)

    def argument(name: str, default: str = "") -> str:
        return str(web.request.args.get(name, default)).strip()

    def number(name: str) -> int:
        text = argument(name, "0").replace(",", "")
        if not text.isdecimal() or len(text) > 18:
            raise ValueError(f"{name}: expected a number, 0 or more, got {text!r:.100}")
        return int(text)

    def show(template: str, values: dict[str, Any], status: int = 200) -> Any:
        return web.render_template(f"{template}.html", catalogue=catalogue, **values), status

    @app.before_request  # type: ignore[untyped-decorator]
    def check() -> Any:
        request = web.request
        host = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdigit() else request.host
        if not token and host.strip("[]") not in LOOPBACK:
            return "This host name is not served. Open the address that the command printed.", 400
        if (
            request.headers.get("Sec-Fetch-Site") == "cross-site"
            and request.headers.get("Sec-Fetch-Mode") != "navigate"
        ):
            return "Requests of other sites are refused.", 403
        given = request.args.get("token")
        if token and not hmac.compare_digest((given or request.cookies.get(COOKIE, "")).encode(), token.encode()):
            return "Open the address that the command printed: it has the token.", 403
        if token and given:
            answer = web.redirect(web.url_for("index"))
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            return answer
        return None

    @app.after_request  # type: ignore[untyped-decorator]
    def protect(answer: Any) -> Any:
        answer.headers.update(_HEADERS)
        return answer

    @app.errorhandler(Exception)  # type: ignore[untyped-decorator]
    def failed(error: Exception) -> Any:
        status = getattr(error, "code", None)
        if isinstance(error, (BeamDatasetsError, ValueError, IndexError)):
            status = 404 if isinstance(error, DatasetNotFoundError) else 400
        elif not isinstance(status, int):
            app.logger.error("%s", web.request.url, exc_info=error)
            status = 500
        return show("error", {"message": str(error)[:5000]}, status)

    @app.get("/")  # type: ignore[untyped-decorator]
    def index() -> Any:
        return show("index", catalogue.index())

    @app.get("/dataset")  # type: ignore[untyped-decorator]
    def dataset() -> Any:
        return show("dataset", pages.dataset_page(catalogue, argument("name")))

    @app.get("/rows")  # type: ignore[untyped-decorator]
    def rows() -> Any:
        texts = {name: argument(name) for name in ("where", "key")}
        return show("rows", pages.rows_page(catalogue, argument("name"), argument("slice"), number("start"), **texts))

    @app.get("/example")  # type: ignore[untyped-decorator]
    def example() -> Any:
        return show("example", pages.example_page(catalogue, argument("name"), argument("slice"), number("index")))

    @app.get("/media")  # type: ignore[untyped-decorator]
    def file() -> Any:
        published, pixels = catalogue.open(argument("name")), _PIXELS.get(argument("size"), _PIXELS["small"])
        data, kind = media(published, argument("slice"), number("index"), argument("path"), number("item"), pixels)
        headers = {"Content-Disposition": "attachment"} if kind == "application/octet-stream" else {}
        return web.Response(data, mimetype=kind, headers=headers)

    @app.get("/text")  # type: ignore[untyped-decorator]
    def text() -> Any:
        data = pages.text_of(catalogue, argument("name"), argument("slice"), number("index"), argument("path"))
        return web.Response(data, mimetype="text/plain")

    @app.get("/statistics")  # type: ignore[untyped-decorator]
    def statistics() -> Any:
        chosen = []
        for name, expression in (("name", "slice"), ("name2", "slice2")):
            if argument(name):
                published = catalogue.open(argument(name))
                default = next(iter(published.info.splits), "train")
                chosen.append((published, argument(expression) or default))
        if not chosen:
            raise DatasetNotFoundError("name: expected a dataset, got none")
        several = len({published.info.display_name for published, _ in chosen}) > 1
        found = [summaries.of(published.dataset_dir, expression) for published, expression in chosen]
        for summary in found:
            summary.wait(_WAIT)
            if summary.error:
                raise BeamDatasetsError(summary.error)
        names = [f"{p.info.display_name} {e}" if several else e for p, e in chosen]
        slices = {name: summary.found for name, summary in zip(names, found) if summary.found is not None}
        complete = all(summary.found is not None for summary in found)
        places = dict(zip(names, chosen))
        at = {"name": chosen[0][0].info.display_name, "slice": chosen[0][1]}
        images = {
            path: [
                (web.url_for("file", **at, index=index, path=path, item=item), f"{path} of example {index}")
                for index, item in some
            ]
            for path, some in pages.sample_images(*chosen[0]).items()
        }

        def example_url(name: str, index: int) -> str:
            published, expression = places[name]
            where = {"name": published.info.display_name, "slice": expression, "index": index}
            return str(web.url_for("example", **where))

        values = {
            "chosen": [(published.info.display_name, expression) for published, expression in chosen],
            "progress": [] if complete else [(name, s.done, s.total) for name, s in zip(names, found) if not s.found],
            "changes": pages.feature_changes(catalogue, [argument("name"), argument("name2")]) if several else [],
            "content": pages.escaped(content(slices, example_url, images)) if complete else "",
            "code": catalogue.load_code(*chosen[0]),
            "index": catalogue.index()["datasets"],
        }
        return show("statistics", values)

    @app.get("/page.css", endpoint="style")  # type: ignore[untyped-decorator]
    def style_sheet() -> Any:
        return web.Response(style(), mimetype="text/css")

    @app.get("/page.js")  # type: ignore[untyped-decorator]
    def code() -> Any:
        return web.Response(script(), mimetype="text/javascript")

    return app
