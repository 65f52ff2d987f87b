"""The web application of `beam-datasets explore`: requests, templates and access control."""

from __future__ import annotations

import hmac
import time
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from beam_datasets.cli.explorer import pages
from beam_datasets.cli.explorer.media import MAX_SHOWN, SMALL, media
from beam_datasets.cli.explorer.pages import Catalogue
from beam_datasets.cli.explorer.summaries import summary_of
from beam_datasets.diffing.features import compare_features
from beam_datasets.errors import BeamDatasetsError, DatasetNotFoundError
from beam_datasets.extras import framework
from beam_datasets.statistics.page import asset, content

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


def make_app(catalogue: Catalogue, token: str = "") -> Any:
    """Returns the WSGI application. It reads, and changes nothing.

    Args:
        catalogue: the datasets.
        token: expected as `?token=` of the first URL, and as a cookie from then on. '' requires none; the host of a
            request must then be this machine, which prevents DNS rebinding.

    Raises:
        MissingDependencyError: Flask is not installed.
    """
    web = framework("flask", needed_by="beam-datasets explore", name="Flask", extra="explore")
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
        place = urlsplit(f"//{request.host}")
        if not token and place.hostname not in LOOPBACK:
            return "This host name is not served. Open the address that the command printed.", 400
        # A link of another site may open the first page alone: others may read a lot, or evaluate an expression.
        opens = request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not opens:
            return "Requests of other sites are refused. Type or paste the address into the browser.", 403
        given, cookie = request.args.get("token"), f"{COOKIE}{place.port or 80}"
        if token and not hmac.compare_digest((given or request.cookies.get(cookie, "")).encode(), token.encode()):
            return "Open the address that the command printed: it has the token.", 403
        if token and given:
            answer = web.redirect(web.url_for("index", name=argument("name") or None))
            answer.set_cookie(cookie, token, httponly=True, samesite="Strict")
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
        return dataset() if argument("name") else show("index", catalogue.index())

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
        published, pixels = catalogue.open(argument("name")), 768 if argument("size") == "large" else SMALL
        data, kind = media(published, argument("slice"), number("index"), argument("path"), number("item"), pixels)
        headers = {"Content-Disposition": "attachment"} if kind == "application/octet-stream" else {}
        return web.Response(data, mimetype=kind, headers=headers)

    @app.get("/statistics")  # type: ignore[untyped-decorator]
    def statistics() -> Any:
        both = ("", "2") if argument("name2") else ("",)
        opened = [(catalogue.open(argument(f"name{which}")), argument(f"slice{which}")) for which in both]
        chosen = [(published, expression or pages.default_slice(published)) for published, expression in opened]
        several = len({published for published, _ in chosen}) > 1
        at = {(f"{p.info.display_name} {part}" if several else part): (p, part) for p, part in chosen}
        if len(at) < len(chosen):
            first = chosen[0][1]
            raise ValueError(f"slice2: expected another slice than {first!r}, got {argument('slice2') or first!r}")
        found, end = {label: summary_of(*one) for label, one in at.items()}, time.monotonic() + _WAIT
        polls = "X-Poll" in web.request.headers  # asks whether all is there; then the page is loaded, or its error
        waited = [summary.wait(end - time.monotonic(), again=not polls) for summary in found.values()]

        def url(one: Any, endpoint: str, index: int, path: str | None = None, item: int | None = None) -> str:
            place = {"name": one[0].info.display_name, "slice": one[1], "index": index, "path": path, "item": item}
            return str(web.url_for(endpoint, **place))

        body = ""
        if all(waited) and not polls:
            slices = {label: summary.found for label, summary in found.items()}
            images = pages.sample_images(*chosen[0], partial(url, chosen[0], "file"))
            body = content(slices, lambda label, index: url(at[label], "example", index), images)
        return show(
            "statistics",
            {
                "chosen": [(published.info.display_name, part) for published, part in chosen],
                "progress": {} if all(waited) else found,
                "changes": compare_features(*(p.info.features for p, _ in chosen)).changes if several else (),
                "content": pages.escaped(body),
                "code": catalogue.load_code(*chosen[0]),
                "index": catalogue.index()["datasets"],
            },
        )

    for endpoint, name, kind in (("style", "page.css", "text/css"), ("code", "page.js", "text/javascript")):
        answer = web.Response(asset(name), mimetype=kind)
        app.add_url_rule(f"/{name}", endpoint, lambda answer=answer: answer)
    return app
