"""What files of images and sound are, by the bytes that they begin with."""

from __future__ import annotations

_SIGNATURES = (
    (b"\x89PNG\r\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"fLaC", "flac"),
    (b"ID3", "mp3"),
    (b"OggS", "ogg"),
)
_IN_RIFF = {b"WAVE": "wav", b"WEBP": "webp"}


def ending_of(content: bytes) -> str:
    r"""Returns the usual ending of an image's or a sound's file, by how it begins; 'bin' for others.

    >>> ending_of(b"\xff\xd8\xff\xe0..."), ending_of(b"RIFF....WAVEfmt "), ending_of(b"?")
    ('jpg', 'wav', 'bin')
    """
    if content[:4] == b"RIFF":
        return _IN_RIFF.get(content[8:12], "bin")
    return next((ending for signature, ending in _SIGNATURES if content.startswith(signature)), "bin")
