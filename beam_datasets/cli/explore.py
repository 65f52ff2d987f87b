"""`beam-datasets explore`: datasets in a browser."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Sequence

from beam_datasets import catalog, storage
from beam_datasets.cli.explorer.app import LOOPBACK, make_app
from beam_datasets.cli.explorer.pages import Catalogue
from beam_datasets.cli.explorer.searching import start_process
from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, UsageError
from beam_datasets.cli.printing import say
from beam_datasets.errors import framework
from beam_datasets.reading.opening import open_published

COMMAND = Command(
    "explore",
    "Shows datasets in a browser: rows of slices, images, filters, statistics, comparisons. It changes nothing.",
    f"""
dataset [NAME_OR_DIR]  a dataset, or a directory of datasets; default: all of --data_dir
{DATA_DIR}
{STORAGE_OPTIONS}
--port N  default 8420; 0 for any free one
--host HOST  the address to listen on; default 127.0.0.1. Another one asks for a token, which the printed URL has
--token  ask for a token on 127.0.0.1 as well, if other people use this machine
""",
    settings={"--port": {"default": 8420}, "--host": {"default": LOOPBACK[0]}},
)


def run(args: Sequence[str]) -> int:
    """Serves the pages until it is interrupted."""
    known = COMMAND.parse(args)
    if not 0 <= known.port < 1 << 16:
        raise UsageError(f"--port: expected 0 to 65535, got {known.port}")
    serving = framework("werkzeug.serving", needed_by="beam-datasets explore", name="Werkzeug", extra="explore")
    token = secrets.token_urlsafe(24) if known.token or known.host not in LOOPBACK else ""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # its line for each request would show the token
    app = make_app(find(known.dataset, known.data_dir, known.storage_options), token)
    try:
        server = serving.make_server(known.host, known.port, app, threaded=True)
    except (OSError, SystemExit) as error:  # Werkzeug ends the process if the port is in use
        raise UsageError(f"cannot listen on {known.host}:{known.port} ({error}); choose another --port") from error
    with server:
        host = f"[{known.host}]" if ":" in known.host else known.host
        threading.Thread(target=start_process, daemon=True).start()  # so that the first condition need not wait
        say(f"http://{host}:{server.port}/{'?token=' + token if token else ''}  (Ctrl-C ends it)")
        server.serve_forever()
    return 0


def find(dataset: str | None, data_dir: str | None, storage_options: dict[str, str] | None) -> Catalogue:
    """Returns what is shown: of a name or the directory of a version that one, else all datasets of a root."""
    root = catalog.root_dir(data_dir, storage_options)
    if dataset is None:
        return Catalogue(root)
    if data_dir is None and storage.is_dir(dataset) and not catalog.is_published(dataset):
        return Catalogue(catalog.root_dir(dataset, storage_options))
    published = open_published(dataset, data_dir, storage_options)
    return Catalogue(os.fspath(root), (published.info.display_name, published.dataset_dir))
