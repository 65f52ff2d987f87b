"""A dataset whose content attacks the page that shows it, served by the explorer."""

import contextlib
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from werkzeug.serving import make_server

import beam_datasets as bd
from beam_datasets.cli.explorer.app import make_app
from beam_datasets.cli.explorer.pages import Catalogue

SCRIPT = "<script>document.title='run'</script>"
IMAGE = "<img src=x onerror=\"document.title='run'\">"
CONTROLS = "\x1b]0;run\x07\x85\u202e\u200f\u2028"
LONG = 50_000


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, "PNG")
    return file.getvalue()


class Hostile(bd.DatasetBuilder, skip_registration=True):
    """A dataset."""

    VERSION = "1.0.0"
    name = "hostile"

    def _info(self) -> bd.DatasetInfo:
        return bd.DatasetInfo(
            builder=self,
            description=SCRIPT + IMAGE,
            citation=SCRIPT + CONTROLS,
            homepage="javascript:alert(1)",
            features={
                SCRIPT: np.int64,
                CONTROLS + IMAGE: bd.features.Text(),
                "evil": bd.features.ClassLabel(names=[CONTROLS, IMAGE]),
                "text": bd.features.Text(),
                "kind": bd.features.ClassLabel(names=["cat", SCRIPT]),
                "picture": bd.features.Image(shape=(None, None, 1)),
                "sound": bd.features.Audio(shape=(None,), dtype=np.int16, sample_rate=8000),
                "boxes": bd.features.Sequence({"x": np.float32, "name": bd.features.Text()}),
            },
        )

    def _split_generators(self) -> dict[str, object]:
        return {"train": self._examples(300), "test": self._examples(30)}

    def _examples(self, count: int) -> Iterator[tuple[int, dict[str, object]]]:
        small, huge = png(30, 20), png(8_000, 5_000)
        texts = [SCRIPT, IMAGE, "\x1b[2J\x00\u202e", "'); DROP TABLE examples; --", "y" * LONG]
        for n in range(count):
            yield (
                n,
                {
                    SCRIPT: n,
                    CONTROLS + IMAGE: CONTROLS,
                    "evil": n % 2,
                    "text": texts[n % len(texts)],
                    "kind": n % 2,
                    "picture": huge if n == 7 else small,
                    "sound": np.arange(200, dtype=np.int16),
                    "boxes": {"x": np.arange(n % 3, dtype=np.float32), "name": [IMAGE] * (n % 3)},
                },
            )


def publish(data_dir: Path) -> Path:
    """Publishes it and returns the data_dir."""
    Hostile(data_dir=data_dir).build(num_shards={"train": 3, "test": 1}, num_workers=1)
    return data_dir


@contextlib.contextmanager
def explorer(catalogue: Catalogue, token: str = "") -> Iterator[str]:
    """Serves the explorer and yields its URL."""
    server = make_server("127.0.0.1", 0, make_app(catalogue, token), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
