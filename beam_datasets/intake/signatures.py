"""Table of the first bytes of file formats; `image_formats.detect_format` recognizes formats without a fixed prefix."""

from __future__ import annotations

from typing import NamedTuple

IMAGE, SOUND, TABLE, ARRAY, ARCHIVE, COMPRESSED, DOCUMENT, POINTER = (
    "image",
    "sound",
    "table",
    "array",
    "archive",
    "compressed",
    "document",
    "pointer",
)

PNG_PREFIX, JPEG_PREFIX = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
GZIP_PREFIX, BZIP2_PREFIX, XZ_PREFIX, ZSTD_PREFIX = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
PARQUET_PREFIX = b"PAR1"

AS_CSV = "Save it as CSV"
_AS_PARQUET = "Write it as Parquet"
UNPACK = "Unpack it, and give the files in it"
_DECOMPRESS = "Decompress it"
AS_IMAGES = "Build images by their folders: `beam-datasets build image_folder`"
AS_SOUNDS = "Build sounds by their folders: `beam-datasets build sound_folder`"


class Signature(NamedTuple):
    """The first bytes of the files of a format.

    Attributes:
        prefix: the bytes.
        name: name of the format, such as `PNG`, or a description, such as `a zip archive`.
        kind: IMAGE, SOUND, TABLE, ARRAY, ARCHIVE, COMPRESSED, DOCUMENT or POINTER.
        advice: advice on such a file where text or a table is expected; '' if a text may begin with the prefix.
    """

    prefix: bytes
    name: str
    kind: str
    advice: str = ""

    @property
    def description(self) -> str:
        """The format as a noun phrase: `an image (PNG)` for a format that has `advice`; else `name`, such as `BMP`."""
        if self.kind not in (IMAGE, SOUND) or not self.advice or self.name.startswith(("a ", "an ")):
            return self.name
        return f"{'an image' if self.kind == IMAGE else 'a sound'} ({self.name})"


SIGNATURES = (
    Signature(PNG_PREFIX, "PNG", IMAGE, AS_IMAGES),
    Signature(JPEG_PREFIX, "JPEG", IMAGE, AS_IMAGES),
    Signature(b"\xff\xd8\xff\xf7", "JPEG-LS", IMAGE, AS_IMAGES),
    Signature(b"GIF87a", "GIF", IMAGE, AS_IMAGES),
    Signature(b"GIF89a", "GIF", IMAGE, AS_IMAGES),
    Signature(b"BM", "BMP", IMAGE),
    Signature(b"II\xbc\x01", "JPEG XR", IMAGE, AS_IMAGES),
    Signature(b"II*\0\x10\0\0\0CR", "a Canon raw file (CR2)", IMAGE, AS_IMAGES),
    Signature(b"IIRO", "an Olympus raw file (ORF)", IMAGE, AS_IMAGES),
    Signature(b"IIRS", "an Olympus raw file (ORF)", IMAGE, AS_IMAGES),
    Signature(b"MMOR", "an Olympus raw file (ORF)", IMAGE, AS_IMAGES),
    Signature(b"IIU\0", "a Panasonic raw file (RW2)", IMAGE, AS_IMAGES),
    Signature(b"FUJIFILMCCD-RAW", "a Fujifilm raw file (RAF)", IMAGE, AS_IMAGES),
    Signature(b"FOVb", "a Sigma raw file (X3F)", IMAGE, AS_IMAGES),
    Signature(b"II*\0", "TIFF", IMAGE, AS_IMAGES),
    Signature(b"MM\0*", "TIFF", IMAGE, AS_IMAGES),
    Signature(b"II+\0", "TIFF", IMAGE, AS_IMAGES),
    Signature(b"MM\0+", "TIFF", IMAGE, AS_IMAGES),
    Signature(b"\xff\x0a", "JPEG XL", IMAGE),
    Signature(b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL", IMAGE, AS_IMAGES),
    Signature(b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000", IMAGE, AS_IMAGES),
    Signature(b"\xff\x4f\xff\x51", "JPEG 2000", IMAGE, AS_IMAGES),
    Signature(b"icns", "ICNS", IMAGE, AS_IMAGES),
    Signature(b"DDS ", "DDS", IMAGE, AS_IMAGES),
    Signature(b"P7\n", "PAM", IMAGE),
    Signature(b"P7 332", "XV thumbnail", IMAGE),
    Signature(b"8BPS", "PSD", IMAGE, AS_IMAGES),
    Signature(b"gimp xcf", "XCF", IMAGE, AS_IMAGES),
    Signature(b"qoif", "QOI", IMAGE, AS_IMAGES),
    Signature(b"\x01\xda", "SGI", IMAGE),
    Signature(b"\x59\xa6\x6a\x95", "SUN", IMAGE, AS_IMAGES),
    Signature(b"\x76\x2f\x31\x01", "OpenEXR", IMAGE, AS_IMAGES),
    Signature(b"#?RADIANCE", "Radiance HDR", IMAGE),
    Signature(b"#?RGBE", "Radiance HDR", IMAGE),
    Signature(b"SIMPLE  =", "FITS", IMAGE),
    Signature(b"BPG\xfb", "BPG", IMAGE, AS_IMAGES),
    Signature(b"FLIF", "FLIF", IMAGE, AS_IMAGES),
    Signature(b"farbfeld", "farbfeld", IMAGE, AS_IMAGES),
    Signature(b"\x8aMNG", "MNG", IMAGE, AS_IMAGES),
    Signature(b"\x8bJNG", "JNG", IMAGE, AS_IMAGES),
    Signature(b"AT&TFORM", "DjVu", IMAGE, AS_IMAGES),
    Signature(b"\xabKTX", "KTX", IMAGE, AS_IMAGES),
    Signature(b"\xd7\xcd\xc6\x9a", "WMF", IMAGE),
    Signature(b"%!PS", "PostScript", IMAGE),
    Signature(b"\xc5\xd0\xd3\xc6", "PostScript", IMAGE),
    Signature(b"/* XPM */", "XPM", IMAGE),
    Signature(b"BLP1", "BLP", IMAGE),
    Signature(b"BLP2", "BLP", IMAGE),
    Signature(b"FTEX", "FTEX", IMAGE),
    Signature(b"\xb1\x68\xde\x3a", "DCX", IMAGE),
    Signature(b"DanM", "MSP", IMAGE),
    Signature(b"\x4cinS", "MSP", IMAGE),
    Signature(b"Image type: ", "IM", IMAGE),
    Signature(b"GRIB", "GRIB", IMAGE),
    Signature(b"BUFR", "BUFR", IMAGE),
    Signature(b"%PDF", "PDF", DOCUMENT),
    Signature(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel or other Office document", DOCUMENT, AS_CSV),
    Signature(b"version https://git-lfs.github.com/spec/", "a Git LFS pointer instead of the file", POINTER),
    Signature(PARQUET_PREFIX, "a Parquet file", TABLE, "Build it as one: `beam-datasets build parquet`"),
    Signature(b"ARROW1\0\0", "an Arrow IPC file (Feather)", TABLE, _AS_PARQUET),
    Signature(b"FEA1", "a Feather file", TABLE, _AS_PARQUET),
    Signature(b"ORC", "an ORC file", TABLE, _AS_PARQUET),
    Signature(b"Obj\x01", "an Avro file", TABLE, _AS_PARQUET),
    Signature(b"SQLite format 3\0", "an SQLite database", TABLE, "Write its tables as CSV or Parquet"),
    Signature(b"\x93NUMPY", "a NumPy array", ARRAY, _AS_PARQUET),
    Signature(b"\x89HDF\r\n\x1a\n", "an HDF5 file", ARRAY, _AS_PARQUET),
    Signature(b"PK\x03\x04", "a zip archive", ARCHIVE, UNPACK),
    Signature(b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", ARCHIVE, UNPACK),
    Signature(b"Rar!\x1a\x07", "a RAR archive", ARCHIVE, UNPACK),
    Signature(GZIP_PREFIX, "a gzip file", COMPRESSED),
    Signature(BZIP2_PREFIX, "a bzip2 file", COMPRESSED),
    Signature(XZ_PREFIX, "an xz file", COMPRESSED),
    Signature(ZSTD_PREFIX, "a zstd file", COMPRESSED),
    Signature(b"\x04\x22\x4d\x18", "an LZ4 file", COMPRESSED, _DECOMPRESS),
    Signature(b"\xff\x06\0\0sNaPpY", "a Snappy file", COMPRESSED, _DECOMPRESS),
    Signature(b"\x1f\x9d", "a file of the program compress (.Z)", COMPRESSED, _DECOMPRESS),
    Signature(b"\x89LZO\0\r\n\x1a\n", "an lzop file", COMPRESSED, _DECOMPRESS),
    Signature(b"ID3", "MP3", SOUND, AS_SOUNDS),
    Signature(b"OggS", "Ogg", SOUND, AS_SOUNDS),
    Signature(b"fLaC", "FLAC", SOUND, AS_SOUNDS),
    Signature(b".snd", "an AU file", SOUND, AS_SOUNDS),
    Signature(b"caff", "a CAF file", SOUND, AS_SOUNDS),
    Signature(b"NIST_1A\n", "a NIST SPHERE file", SOUND, AS_SOUNDS),
    Signature(b"wvpk", "a WavPack file", SOUND, AS_SOUNDS),
    Signature(b"MAC \x96", "a Monkey's Audio file", SOUND, AS_SOUNDS),
    Signature(b"MAC \x8c", "a Monkey's Audio file", SOUND, AS_SOUNDS),
    Signature(b"#!AMR", "an AMR file", SOUND, AS_SOUNDS),
    Signature(b"0&\xb2u", "a Windows Media file", SOUND, AS_SOUNDS),
    Signature(b"BW64", "a BW64 file", SOUND, AS_SOUNDS),
    Signature(b"\x1aE\xdf\xa3", "a Matroska or WebM file", SOUND),
    Signature(b"\xff\xf1", "an AAC file", SOUND),
    Signature(b"\xff\xf9", "an AAC file", SOUND),
)

_BY_PREFIX = {signature.prefix: signature for signature in SIGNATURES}
_LENGTHS = sorted({len(prefix) for prefix in _BY_PREFIX}, reverse=True)


def signature_of(head: bytes) -> Signature | None:
    """Returns the signature that a file begins with, the longest if there are several; None if there is none.

    >>> signature_of(b"GIF89a...").name, signature_of(b"PAR1...").description, signature_of(b"text")
    ('GIF', 'a Parquet file', None)
    """
    for length in _LENGTHS:
        if signature := _BY_PREFIX.get(head[:length]):
            return signature
    return None
