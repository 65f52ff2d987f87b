"""Image files for tests: of libraries, and written by hand where these write no such files."""

import io
import random
import struct
import zlib

import numpy as np
import PIL.Image as Pillow

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def saved(image, form, **options):
    """Returns the file that Pillow writes of its image, or of an array."""
    target = io.BytesIO()
    image = image if isinstance(image, Pillow.Image) else Pillow.fromarray(image)
    image.save(target, form, **options)
    return target.getvalue()


def noise(height, width, channels=3, dtype=np.uint8, seed=0):
    """Returns random pixels; without the last dimension if channels is 0."""
    shape = (height, width, channels) if channels else (height, width)
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


def chunks_of(png):
    """Returns the chunks of a PNG as [(kind, content)]."""
    found, offset = [], 8
    while offset < len(png):
        (length,) = struct.unpack_from(">I", png, offset)
        found.append((png[offset + 4 : offset + 8], png[offset + 8 : offset + 8 + length]))
        offset += length + 12
    return found


def png_of(chunks):
    """Returns a PNG of chunks, with their checksums."""
    parts = [struct.pack(">I", len(data)) + kind + data + crc(kind + data) for kind, data in chunks]
    return SIGNATURE + b"".join(parts)


def crc(data):
    return struct.pack(">I", zlib.crc32(data))


def page(pixels, *, photometric=None, bits=None, kind=0, order="<", **tags):
    """Returns what `tiff` takes: tags (of the names below) and strips of an uncompressed picture."""
    height, width, samples = pixels.shape
    strips = [np.ascontiguousarray(pixels).astype(pixels.dtype.newbyteorder(order)).tobytes()]
    if tags.get("planar") == 2:
        strips = [page(pixels[..., i : i + 1], order=order)[1][0] for i in range(samples)]
    fields = {
        "kind": kind,
        "width": width,
        "height": height,
        "bits": [bits or 8 * pixels.itemsize] * samples,
        "compression": 1,
        "photometric": photometric if photometric is not None else 2 if samples > 2 else 1,
        "samples": samples,
        "rows": height,
        "planar": 1,
        "format": [{"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]] * samples,
        **({"extra": [2]} if samples in (2, 4) else {}),
        **tags,
    }
    return fields, strips


TAGS = {
    "kind": 254, "width": 256, "height": 257, "bits": 258, "compression": 259, "photometric": 262, "strips": 273,
    "orientation": 274, "samples": 277, "rows": 278, "counts": 279, "planar": 284, "subfiles": 330, "extra": 338,
    "format": 339, "dng": 50706,
}  # fmt: skip
SHORTS = ("bits", "compression", "photometric", "orientation", "samples", "planar", "extra", "format")


def tiff(*pages, order="<", subfiles=()):
    """Returns a TIFF file of pages, the first of which has the others as subfiles."""
    out = bytearray((b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 0))
    link, offsets = 4, []
    for fields, strips in [*subfiles, *pages]:
        starts = []
        for strip in strips:
            starts.append(len(out))
            out += strip + b"\0" * (len(strip) % 2)
        tags = {**fields, "strips": starts, "counts": list(map(len, strips))}
        if len(offsets) == len(subfiles) and subfiles:
            tags["subfiles"] = list(offsets)
        entries = []
        for name in sorted(tags, key=TAGS.__getitem__):
            values = tags[name] if isinstance(tags[name], list) else [tags[name]]
            code, number = ("H", 3) if name in SHORTS else ("B", 1) if name == "dng" else ("I", 4)
            data = struct.pack(f"{order}{len(values)}{code}", *values)
            if len(data) > 4:
                place, data = len(out), data + b"\0" * (len(data) % 2)
                out += data
                data = struct.pack(f"{order}I", place)
            entries.append(struct.pack(f"{order}HHI", TAGS[name], number, len(values)) + data.ljust(4, b"\0"))
        is_page = len(offsets) >= len(subfiles)
        offsets.append(len(out))
        if is_page:
            struct.pack_into(f"{order}I", out, link, len(out))
        out += struct.pack(f"{order}H", len(entries)) + b"".join(entries) + bytes(4)
        link = len(out) - 4 if is_page else link
    return bytes(out)


def mpo(first, types):
    """Returns a JPEG with a segment that lists pictures of these types, and with these pictures after it."""
    count, order = len(types), ">"
    entries = b"".join(struct.pack(">IIIHH", each, 100, 0, 0, 0) for each in types)
    tags = struct.pack(f"{order}HHI4s", 0xB000, 7, 4, b"0100") + struct.pack(f"{order}HHII", 0xB001, 4, 1, count)
    tags += struct.pack(f"{order}HHII", 0xB002, 7, len(entries), 50)
    body = b"MPF\0MM" + struct.pack(f"{order}HIH", 42, 8, 3) + tags + bytes(4) + entries
    return first[:2] + b"\xff\xe2" + struct.pack(">H", len(body) + 2) + body + first[2:] + first * (count - 1)


def mutations(files, count, seed=1):
    """Yields files that were cut, or in which bits were flipped and bytes inserted or removed."""
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(rng.choice(files))
        how, place = rng.randrange(4), rng.randrange(len(data))
        if how == 0:
            del data[rng.choice((place, len(data) - rng.randrange(1, 13))) :]
        elif how == 1:
            for _ in range(rng.choice((1, 1, 3, 10))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif how == 2:
            data[place:place] = rng.randbytes(rng.choice((1, 2, 5, 50)))
        else:
            del data[place : place + rng.choice((1, 2, 8, 100))]
        yield bytes(data)


def undecodable_png(height, width, bits=8, colour=2):
    """Returns a PNG whose chunks and checksums are right, and which has too few pixels."""
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return png_of([(b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")])
