"""`beam-datasets explore`: datasets in a browser."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Sequence
from urllib.parse import urlencode

from beam_datasets import catalog, storage
from beam_datasets.cli.explorer.app import LOOPBACK, make_app
from beam_datasets.cli.explorer.pages import Catalogue
from beam_datasets.cli.explorer.searching import start_process
from beam_datasets.cli.options import DATA_DIR, STORAGE_OPTIONS, Command, UsageError
from beam_datasets.cli.printing import say
from beam_datasets.extras import framework
from beam_datasets.reading.opening import open_published

COMMAND = Command(
    "explore",
    "Shows datasets in a browser: rows of slices, images, filters, statistics, comparisons. It changes nothing.",
    f"""
dataset [NAME_OR_DIR]  a dataset with all of its versions, or the directory of datasets or of one version; default: all
  of --data_dir
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
    catalogue, first = find(known.dataset, known.data_dir, known.storage_options)
    app = make_app(catalogue, token)
    try:
        server = serving.make_server(known.host, known.port, app, threaded=True)
    except (OSError, SystemExit) as error:  # Werkzeug ends the process if the port is in use
        raise UsageError(f"cannot listen on {known.host}:{known.port} ({error}); choose another --port") from error
    with server:
        host = f"[{known.host}]" if ":" in known.host else known.host
        threading.Thread(target=start_process, daemon=True).start()  # so that the first condition need not wait
        query = urlencode({what: value for what, value in (("name", first), ("token", token)) if value}, safe=":/")
        say(f"http://{host}:{server.port}/{'?' * bool(query)}{query}  (Ctrl-C ends it)")
        server.serve_forever()
    return 0


def find(dataset: str | None, data_dir: str | None, storage_options: dict[str, str] | None) -> tuple[Catalogue, str]:
    """Returns what is shown, and the version that is opened first; '' for the list of all.

    Args:
        dataset: a name shows all versions of its dataset; a directory that version, or the datasets in it.
        data_dir: the root of the datasets, for a name.
        storage_options: of its store.
    """
    root = catalog.root_dir(data_dir, storage_options)
    if dataset is None:
        return Catalogue(root), ""
    if data_dir is None and storage.is_dir(dataset) and not catalog.is_published(dataset):
        root = catalog.root_dir(dataset, storage_options)
        above, name = storage.dirname(root), storage.basename(root)
        if catalog.list_datasets(root) or not catalog.list_versions(name, data_dir=above):
            return Catalogue(root), ""
        dataset, root = name, above
    if dataset in catalog.list_datasets(root):
        return Catalogue(root, dataset), catalog.list_published(dataset, root)[-1]
    published = open_published(dataset, data_dir, storage_options)
    name, directory = published.info.display_name, published.dataset_dir
    if not storage.is_dir(dataset) and directory == storage.join(root, name.replace(":", "/")):
        return Catalogue(root, published.info.name), name
    return Catalogue(root, name, directory), name
