"""The directories of TIFF files: which pages a file has, how deep they are, and whether they are previews."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from beam_datasets.errors import InputError
from beam_datasets.intake.image_formats import DamagedError

KIND, WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 254, 256, 257, 258, 259, 262
STRIPS, ORIENTATION, SAMPLES, PLANAR, TILES = 273, 274, 277, 284, 324
SUBFILES, EXTRA_SAMPLES, SAMPLE_FORMAT, DNG = 330, 338, 339, 50706

LYING = range(5, 9)  # values of ORIENTATION whose pixels are stored with rows as columns
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB = 0, 1, 2  # values of PHOTOMETRIC

_REDUCED, _MASK = 1, 4  # bits of KIND
_RAW = (32803, 34892)  # PHOTOMETRIC of the pixels of a camera's sensor
_SAMPLE_FORMATS = {2: "signed", 3: "floating-point", 5: "complex", 6: "complex"}
_PREMULTIPLIED = 1  # of EXTRA_SAMPLES
_FORMS = {1: "B", 3: "H", 4: "I", 6: "b", 8: "h", 9: "i", 13: "I", 16: "Q", 17: "q", 18: "Q"}
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_MAX_DIRECTORIES = 1 << 16
_MAX_TAGS = 1 << 12


@dataclass(frozen=True)
class Directory:
    """A directory of a TIFF file, which describes a picture.

    Attributes:
        order: order of bytes, `<` or `>`.
        data: the file.
        tags: tag -> type, number of values, and where they start.
    """

    order: str
    data: bytes = field(repr=False)
    tags: dict[int, tuple[int, int, int]]

    def raw(self, tag: int) -> bytes:
        """Returns the bytes of the values of a tag.

        Raises:
            DamagedError: they are not in the file.
        """
        kind, count, start = self.tags.get(tag, (1, 0, 0))
        end = start + count * _SIZES.get(kind, 1)
        if end > len(self.data):
            raise DamagedError(f"the values of tag {tag} end at byte {end}, but the file at {len(self.data)}")
        return self.data[start:end]

    def numbers(self, tag: int) -> tuple[int, ...]:
        """Returns the integers of a tag, such as (8, 8, 8); () if the tag is missing or has values of another kind.

        Raises:
            DamagedError: the values are not in the file.
        """
        kind, count, _ = self.tags.get(tag, (1, 0, 0))
        if kind not in _FORMS:
            return ()
        data = self.raw(tag)
        return struct.unpack(f"{self.order}{count}{_FORMS[kind]}", data)

    def number(self, tag: int, default: int = 0) -> int:
        """Returns the first integer of a tag; `default` if `numbers(tag)` is empty."""
        return (self.numbers(tag) or (default,))[0]


def directories(data: bytes) -> list[Directory]:
    """Returns the directories of a TIFF file in their order, each followed by those that are its subfiles.

    Raises:
        DamagedError: the file is damaged.
    """
    return list(_read_directories(data, subfiles=True))


def first_directory(data: bytes) -> Directory:
    """Returns the first directory of a TIFF file, or of data that have its form.

    Raises:
        DamagedError: it is damaged.
    """
    return next(_read_directories(data, subfiles=False))


def _read_directories(data: bytes, *, subfiles: bool) -> Iterator[Directory]:
    """Yields the directories of a TIFF file in their order; with `subfiles`, each followed by its subfiles."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or len(data) < 8:
        raise DamagedError("its header is not that of a TIFF file")
    is_big = struct.unpack_from(f"{order}H", data, 2)[0] == 43
    try:
        offset = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", data, 8 if is_big else 4)[0]
        if not offset:
            raise DamagedError("it has no directory")
        yield from _read_chain(data, order, offset, set(), is_big=is_big, subfiles=subfiles)
    except struct.error:
        raise DamagedError(f"the file ends at byte {len(data)}, in a directory") from None


def _read_chain(
    data: bytes, order: str, offset: int, read_offsets: set[int], *, is_big: bool, subfiles: bool
) -> Iterator[Directory]:
    """Yields the directory at an offset, its subfiles, and those that follow.

    Args:
        data: the file.
        order: byte order, as in `struct`: "<" or ">".
        offset: offset of the first directory in bytes; 0 for none.
        read_offsets: offsets of the directories that were read, which are not read again; new ones are added.
        is_big: whether the file is a BigTIFF, with offsets of 64 bits.
        subfiles: whether to yield the subfiles of each directory, too.
    """
    head, entry, step = (f"{order}Q", f"{order}HHQQ", 20) if is_big else (f"{order}H", f"{order}HHII", 12)
    size, inline = struct.calcsize(head), 8 if is_big else 4
    while offset and offset not in read_offsets and len(read_offsets) < _MAX_DIRECTORIES:
        read_offsets.add(offset)
        (count,) = struct.unpack_from(head, data, offset)
        if not 0 < count <= _MAX_TAGS:
            raise DamagedError(f"the directory at byte {offset} has {count} tags")
        tags = {}
        for entry_offset in range(offset + size, offset + size + count * step, step):
            tag, kind, number, value = struct.unpack_from(entry, data, entry_offset)
            is_inside = number * _SIZES.get(kind, 1) <= inline
            tags[tag] = (kind, number, entry_offset + step - inline if is_inside else value)
        directory = Directory(order, data, tags)
        yield directory
        for inner in directory.numbers(SUBFILES) if subfiles else ():
            yield from _read_chain(data, order, inner, read_offsets, is_big=is_big, subfiles=False)
        (offset,) = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", data, offset + size + count * step)


def pages(data: bytes) -> tuple[list[Directory], list[Directory]]:
    """Returns (pages of a TIFF file, its other images), which are reduced versions of pages, and masks.

    Raises:
        DamagedError: the file is damaged.
        InputError: it is a raw file of a camera, or its first picture is a preview of another one.
    """
    pictures = [each for each in directories(data) if each.number(WIDTH) and each.number(HEIGHT)]
    if not pictures:
        raise DamagedError("there are no pixels")
    first = pictures[0]
    if any(DNG in each.tags or each.number(PHOTOMETRIC) in _RAW for each in pictures):
        raise InputError("a raw file of a camera (DNG, NEF, ARW, ...), of which a preview would be read; convert it")
    sizes = {(each.number(WIDTH), each.number(HEIGHT)) for each in pictures if not each.number(KIND) & _MASK}
    largest = max(sizes, key=lambda size: size[0] * size[1], default=(0, 0))
    if first.number(KIND) & _REDUCED:
        raise InputError(
            f"its first picture is a preview of another one ({largest[1]} x {largest[0]}), as in raw files of cameras "
            "(NEF, ARW, ...); decoders read the preview. Convert it"
        )
    starts = [start for each in pictures[:1] for tag in (STRIPS, TILES) for start in each.numbers(tag)]
    if not starts or max(starts) >= len(data):
        raise DamagedError(f"pixels start at byte {max(starts, default=0)}, but the file ends at {len(data)}")
    pages = [each for each in pictures if not each.number(KIND) & (_REDUCED | _MASK)]
    return pages, [each for each in pictures if each.number(KIND) & (_REDUCED | _MASK)]


def depth(page: Directory) -> int:
    """Returns the number of bits of each channel of a page.

    Raises:
        InputError: no decoder yields its exact pixels as unsigned integers of 8 or 16 bits.
    """
    sizes = sorted(set(page.numbers(BITS) or (1,)))
    sample = _SAMPLE_FORMATS.get(page.number(SAMPLE_FORMAT, 1), "unsigned")
    if sample != "unsigned" or len(sizes) > 1 or sizes[0] > 16:
        raise InputError(
            f"TIFF with {sample} samples of {'/'.join(map(str, sizes))} bits is not stored as an image; convert it to "
            "unsigned ones of 8 or 16 bits, or store an array"
        )
    if sizes[0] > 8 and not is_plain(page):
        raise InputError(
            f"TIFF of {sizes[0]} bits with {page.number(SAMPLES, 1)} samples, {len(page.numbers(EXTRA_SAMPLES))} of "
            f"which are no colours, and the photometric interpretation {page.number(PHOTOMETRIC, BLACK_IS_ZERO)} is "
            "not decoded exactly; convert it to gray or RGB"
        )
    return sizes[0]


def is_plain(page: Directory) -> bool:
    """Returns whether a page has gray or RGB samples with at most one alpha channel, not premultiplied."""
    extra = page.numbers(EXTRA_SAMPLES)
    colours = {BLACK_IS_ZERO: 1, RGB: 3}.get(page.number(PHOTOMETRIC, BLACK_IS_ZERO))
    return page.number(SAMPLES, 1) - len(extra) == colours and len(extra) < 2 and _PREMULTIPLIED not in extra
