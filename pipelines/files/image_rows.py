"""Images in folders named after their labels, each checked before it is stored."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from beam_datasets.errors import InputError, MissingDependencyError
from pipelines.files.inputs import find, open_bytes
from pipelines.files.source import ALPHA, Bad, count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipelines.files.inputs import InputFile
    from pipelines.files.source import Example, Key

BATCH = 32  # images that are shared out together
_CLUTTER = ("Thumbs.db", "desktop.ini", "__MACOSX")
_VERBATIM = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "LA", "P", "RGB", "RGBA")}


@dataclass(frozen=True)
class Folder:
    """What a folder of images holds.

    Attributes:
        files: (split, label, file) of each; the split is "" where folders name labels alone.
        misplaced: files that stand in no label's folder.
    """

    files: tuple[tuple[str, str, InputFile], ...]
    misplaced: tuple[InputFile, ...]

    @property
    def labels(self) -> list[str]:
        """Names of the labels, in the order of their bytes."""
        return sorted({label for _, label, _ in self.files})

    @property
    def splits(self) -> list[str]:
        """Names of the splits that the folders give."""
        return sorted({split for split, _, _ in self.files} - {""})


def look_into(root: str) -> Folder:
    """Returns the images below `root/split/label/` or `root/label/`, whichever most files stand in.

    What operating systems leave behind (names that begin with a dot, Thumbs.db, desktop.ini, __MACOSX) is passed over.

    Raises:
        InputError: there is no file.
    """
    files = [file for file in find(root, hidden=()) if not _is_clutter(file.name)]
    depths = Counter(file.name.count("/") for file in files)
    depth = max((1, 2), key=lambda d: depths[d])
    if not depths[depth]:
        shown = ", ".join(file.name for file in files[:3])
        raise InputError(f"{root}: images are expected as label/image or split/label/image; found {shown or 'no file'}")
    placed = [(("", *file.name.split("/"))[-3:], file) for file in files if file.name.count("/") == depth]
    misplaced = tuple(file for file in files if file.name.count("/") != depth)
    return Folder(tuple((split, label, file) for (split, label, _), file in placed), misplaced)


def _is_clutter(name: str) -> bool:
    return any(part.startswith(".") or part in _CLUTTER for part in name.split("/"))


@dataclass(frozen=True)
class ImageRows:
    """Reads images as examples with the features of TFDS's ImageFolder: image, image/filename, label."""

    def read(self, batch: Sequence[tuple[str, InputFile]]) -> Iterator[tuple[Key, Example] | Bad]:
        """Yields the images of a batch of (label, file); a file whose label is empty stands in no label's folder."""
        for label, file in batch:
            if not label:
                yield Bad(file, "it stands in no folder of a label", "")
                continue
            try:
                with open_bytes(file.path) as stream:
                    image = storable_image(stream.read())
            except ValueError as error:
                yield Bad(file, str(error), "")
                continue
            yield file.name, {"image": image, "image/filename": file.name, "label": label}


def images_beside(example: Example, columns: Sequence[str], file: InputFile) -> None:
    """Puts images in the place of their paths, which are relative to the file that names them; bytes stay as they are.

    Raises:
        ValueError: there is no such image, or it cannot be stored.
    """
    for column in columns:
        if isinstance(example[column], bytes):
            continue
        path = FileSystems.join(FileSystems.split(file.path)[0], example[column])
        try:
            with open_bytes(path) as stream:
                example[column] = storable_image(stream.read())
        except OSError as error:
            raise ValueError(f"column {column!r}: {path} cannot be read: {error}") from None
        except ValueError as error:
            raise ValueError(f"column {column!r}: {path}: {error}") from None


def storable_image(data: bytes) -> Any:
    """Returns an image that every reader decodes: the bytes as they are, or pixels if readers may not know those.

    The image is decoded to see that it is whole. 8-bit PNG and JPEG are kept; whatever else Pillow opens (WebP, GIF's
    first frame, TIFF, BMP, CMYK) becomes RGB pixels. Images with transparency are counted, for it is not read.

    Raises:
        ValueError: it is no image, is damaged, or has more than 8 bits a channel.
    """
    try:
        import numpy as np
        import PIL.Image
    except ImportError as error:
        raise MissingDependencyError("checking images needs Pillow: pip install 'beam_datasets[image]'") from error
    if not data:
        raise ValueError("the file is empty")
    try:
        with PIL.Image.open(io.BytesIO(data)) as image:
            image.load()
            count(ALPHA, image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info)
            if image.mode in _VERBATIM.get(image.format or "", ()):
                return data
            if image.mode[0] in "IF":
                raise ValueError(f"its pixels are {image.mode} (more than 8 bits); convert it to 8 bits before")
            return np.asarray(image.convert("RGB"))
    except PIL.UnidentifiedImageError:
        raise ValueError(f"not an image (it begins with {data[:12]!r})") from None
    except (OSError, SyntaxError, EOFError, PIL.Image.DecompressionBombError) as error:
        raise ValueError(f"a damaged image: {error}") from None
