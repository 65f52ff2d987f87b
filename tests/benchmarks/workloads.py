"""The rows that every system generates and reads, the same in every process: six kinds, and small ones by the million.

What a row is drawn from is made once, so that a row costs little beside writing it. Needs NumPy alone, because it runs
in the environment of every system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Rows = Iterator[tuple[int | str, dict[str, Any]]]

FLOATS = tuple(f"float_{i:02}" for i in range(13))
INTEGERS = tuple(f"category_{i:02}" for i in range(26))
EMBEDDING_SIZE = 768
KILOBYTE = 1000


def features_of(workload: str, features: Any) -> dict[str, Any]:
    """Returns the features of a workload, of a module `features`, whose names are those of TFDS."""
    numbers = dict.fromkeys(FLOATS, np.float32) | dict.fromkeys(INTEGERS, np.int64)
    embedding = features.Tensor(shape=(EMBEDDING_SIZE,), dtype=np.float32)
    known = {
        "digits": {"image": features.Image(shape=(28, 28, 1)), "label": features.ClassLabel(num_classes=10)},
        "photos": {"image": features.Image(encoding_format="jpeg"), "label": features.ClassLabel(num_classes=10)},
        "text": {"text": features.Text(), "url": features.Text()},
        "tabular": {**numbers, "label": features.ClassLabel(num_classes=2)},
        "tokens": {"tokens": features.Sequence(np.int64), "embedding": embedding},
        "line": {"text": features.Text()},
    }
    return known.get(workload) or {"data": features.Scalar(dtype=np.bytes_)}


def digits(numbers: Iterable[int]) -> Rows:
    """Yields strokes on a dark ground, 28 x 28 x 1 uint8, with a label, like MNIST."""
    generator = np.random.default_rng(28)
    images = (255 * generator.random((256, 28, 28, 1)) ** 6).astype(np.uint8)
    for n in numbers:
        turned = np.roll(images[n % 256], n // 256 % 28, axis=1)
        yield n, {"image": turned, "label": n % 10}


def text(numbers: Iterable[int]) -> Rows:
    """Yields documents of 4 to 12 sentences, about 2 kB, with a URL, like C4."""
    generator = np.random.default_rng(2000)
    letters = generator.integers(ord("a"), ord("z") + 1, (5000, 10), dtype=np.uint8)
    words = [row[:length].tobytes().decode() for row, length in zip(letters, generator.integers(2, 11, 5000))]
    sentences = [" ".join(words[i] for i in row) for row in generator.integers(0, len(words), (2000, 30))]
    choices = generator.integers(0, len(sentences), (4096, 12)).tolist()
    for n in numbers:
        body = ". ".join([sentences[i] for i in choices[n % 4096][: 4 + n % 9]])
        yield f"page-{n:09}", {"text": f"{n}: {body}.", "url": f"https://example.com/{n}"}


def tabular(numbers: Iterable[int]) -> Rows:
    """Yields 13 float32, 26 int64 and a label, each a scalar, like Criteo's click logs."""
    generator = np.random.default_rng(39)
    floats = generator.random((4096, len(FLOATS)), dtype=np.float32)
    integers = generator.integers(0, 2**32, (4096, len(INTEGERS))).tolist()
    for n in numbers:
        row: dict[str, Any] = dict(zip(FLOATS, floats[n % 4096]))
        row.update(zip(INTEGERS, integers[n * 7 % 4096]))
        row["label"] = n % 2
        yield n, row


def tokens(numbers: Iterable[int]) -> Rows:
    """Yields 256 to 1,023 int64 tokens and an embedding of 768 float32."""
    generator = np.random.default_rng(768)
    stream = generator.integers(0, 50_000, 2**16)
    embeddings = generator.random((1024, EMBEDDING_SIZE), dtype=np.float32)
    for n in numbers:
        length = 256 + n * 37 % 768
        start = n * 131 % (len(stream) - length)
        yield n, {"tokens": stream[start : start + length], "embedding": embeddings[n % 1024]}


def kilobyte(numbers: Iterable[int]) -> Rows:
    """Yields one string of 1,000 bytes: what a system does beside encoding. None ends with 0, which NumPy would cut."""
    pool = np.random.default_rng(1000).integers(1, 256, 2**20, np.uint8).tobytes()
    for n in numbers:
        start = n * 131 % (len(pool) - KILOBYTE)
        yield n, {"data": n.to_bytes(8, "big") + pool[start : start + KILOBYTE - 8]}


def photos(numbers: Iterable[int]) -> Rows:
    """Yields smooth areas with some noise, 240 x 320 x 3 uint8, about 20 kB as JPEG, with a label."""
    generator = np.random.default_rng(320)
    rows, columns = (np.maximum(0, 1 - abs(np.linspace(0, n - 1, 20 * n)[:, None] - np.arange(n))) for n in (12, 16))
    smooth = rows @ generator.random((32, 3, 12, 16)) @ columns.T
    images = (40 + 160 * smooth + generator.normal(0, 1.5, (32, 1, 240, 320))).astype(np.uint8).transpose(0, 2, 3, 1)
    for n in numbers:
        yield n, {"image": np.roll(images[n % 32], n // 32 % 320, axis=1), "label": n % 10}


def augmented(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a photo that is cropped to 224 x 224, and mirrored where the label is odd."""
    image = row["image"][8:232, 48:272]
    return {**row, "image": np.ascontiguousarray(image[:, ::-1] if row["label"] % 2 else image)}


def line(numbers: Iterable[int]) -> Rows:
    """Yields texts of 100 bytes, to be made by the millions."""
    for n in numbers:
        yield n, {"text": f"{n:>100}"}


WORKLOADS: dict[str, Callable[[Iterable[int]], Rows]] = {
    "digits": digits,
    "text": text,
    "tabular": tabular,
    "tokens": tokens,
    "kilobyte": kilobyte,
    "photos": photos,
    "line": line,
}
ONE_FEATURE = {"digits": "label", "text": "url", "tabular": "label", "tokens": "tokens"}
"""The feature that is read where one alone is wanted; a kilobyte has no other."""

TWO_FEATURES = (FLOATS[0], INTEGERS[0])
"""The features of the tabular rows that are read where 2 of the 40 are wanted."""
