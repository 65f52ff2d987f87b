"""Prints how long decoding an image takes: here, and by the libraries that are installed; in microseconds.

python tests/benchmarks/images.py
"""

from __future__ import annotations

import importlib
import io
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from workloads import digits

from beam_datasets.features import pictures, png, png_decoding

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 1.0  # for each number
DEFLATE = "beam_datasets, deflate"
ZLIB = "beam_datasets, zlib"


def photograph(size: int, seed: int) -> Any:
    """Smooth colours with the noise of a camera."""
    import cv2

    rng = np.random.default_rng(seed)
    smooth = cv2.GaussianBlur(rng.integers(0, 256, (size, size, 3), dtype=np.uint8), (0, 0), size / 16).astype(float)
    smooth = (smooth - smooth.min()) * (220 / np.ptp(smooth))
    return (smooth + rng.normal(0, 3, smooth.shape)).clip(0, 255).astype(np.uint8)


def best(decode: Callable[[Any], Any], files: list[Any]) -> float:
    """The mean time of a file in the best pass; they are many, because a processor learns what one is like."""
    found, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.process_time()
        for file in files:
            decode(file)
        found = min(found, time.process_time() - start)
    return 1e6 * found / len(files)


def decoders(jpeg: bool) -> dict[str, Callable[[bytes], Any]]:
    found: dict[str, Callable[[bytes], Any]] = {}
    if not jpeg:
        found = {DEFLATE: png_decoding.decode, ZLIB: png_decoding.decode}
    for name, make in {"OpenCV": _opencv, "Pillow": _pillow, "imagecodecs": _imagecodecs}.items():
        try:
            found[name] = make(jpeg)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    return found


def _opencv(jpeg: bool) -> Callable[[bytes], Any]:
    importlib.import_module("cv2")
    return lambda data: pictures._decode(data, gray=False)


def _pillow(jpeg: bool) -> Callable[[bytes], Any]:
    image = importlib.import_module("PIL.Image")
    return lambda data: np.array(image.open(io.BytesIO(data)))


def _imagecodecs(jpeg: bool) -> Callable[[bytes], Any]:
    codecs = importlib.import_module("imagecodecs")
    return codecs.jpeg8_decode if jpeg else codecs.png_decode  # type: ignore[no-any-return]


def use(name: str) -> None:
    """Sets what the native module's data are decompressed by."""
    sys.modules.pop("deflate", None)
    if name == ZLIB:
        sys.modules["deflate"] = None  # type: ignore[assignment]
    png_decoding._inflater.cache_clear()


def inflaters() -> dict[str, Callable[[bytes, int], Any]]:
    """What decompresses a stream to so many bytes."""
    found: dict[str, Callable[[bytes, int], Any]] = {"zlib": lambda data, size: zlib.decompress(data, bufsize=size)}
    for name, module, function in (
        ("deflate", "deflate", "zlib_decompress"),
        ("isal", "isal.isal_zlib", "decompress"),
        ("zlib-ng", "zlib_ng.zlib_ng", "decompress"),
    ):
        try:
            call = getattr(importlib.import_module(module), function)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        named = "originalsize" if name == "deflate" else "bufsize"
        found[name] = lambda data, size, call=call, named=named: call(data, **{named: size})  # type: ignore[misc]
    return found


def main() -> None:
    """Prints the tables."""
    pixels = {
        "28 x 28 x 1": [row["image"] for _, row in digits(range(500))],
        "64 x 64 x 3": [photograph(64, seed) for seed in range(50)],
        "512 x 512 x 3": [photograph(512, seed) for seed in range(3)],
    }
    for title, encode in (("PNG", png.encode), ("JPEG", pictures.encode_jpeg)):
        files = {name: list(map(encode, images)) for name, images in pixels.items()}
        print(f"\n| {title} | {' | '.join(files)} |\n|---|{'---:|' * len(files)}")
        for name, decode in decoders(title == "JPEG").items():
            use(name)
            print(f"| {name} | {' | '.join(f'{best(decode, some):,.1f}' for some in files.values())} |")
    use(DEFLATE)
    print(f"\n| decompressing alone | {' | '.join(pixels)} |\n|---|{'---:|' * len(pixels)}")
    for name, inflate in inflaters().items():
        row = []
        for images in pixels.values():
            data = [(_stream(png.encode(image)), images[0].size + len(images[0])) for image in images]
            row.append(best(lambda pair, inflate=inflate: inflate(*pair), data))  # type: ignore[misc,arg-type]
        print(f"| {name} | {' | '.join(f'{number:,.1f}' for number in row)} |")


def _stream(file: bytes) -> bytes:
    return file[41:-16]  # png.encode makes one chunk


if __name__ == "__main__":
    main()
