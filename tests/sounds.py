"""Sound files for tests: written by soundfile, or made by hand of what soundfile does not write."""

import hashlib
import io
import struct

import numpy as np
import soundfile

PCM, FLOAT, ALAW, ULAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_GUID = bytes.fromhex("800000aa00389b71")  # the last half of that of WAVE_EXTENSIBLE
NOISE = (np.random.default_rng(7).standard_normal((3000, 2)) * 4000).astype(np.int16)


def encoded(samples=NOISE, form="WAV", subtype=None, rate=16000, **options):
    """Returns a file of samples."""
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=form, subtype=subtype, **options)
    return stream.getvalue()


def wav(data, *, tag=PCM, bits=16, channels=1, rate=8000, valid=None, align=None, order="<"):
    """Returns a WAV file of bytes of samples; WAVE_EXTENSIBLE if the number of valid bits is given."""
    align = align or channels * -(-bits // 8)
    fields = EXTENSIBLE if valid else tag, channels, rate, rate * align, align, bits
    header = struct.pack(f"{order}HHIIHH", *fields)
    if valid:
        header += struct.pack(f"{order}HHIIHH", 22, valid, 0, tag, 0, 16) + _GUID
    body = b"WAVEfmt " + struct.pack(f"{order}I", len(header)) + header
    body += b"data" + struct.pack(f"{order}I", len(data)) + data + b"\0" * (len(data) % 2)
    return (b"RIFF" if order == "<" else b"RIFX") + struct.pack(f"{order}I", len(body)) + body


def packed(numbers, width, order="little"):
    """Returns integers as bytes, `width` for each."""
    return b"".join(int(number).to_bytes(width, order, signed=True) for number in np.ravel(numbers))


def chunk(name, data):
    """Returns a chunk of a WAV file."""
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def flac(samples, bits, *, rate=16000, declare=True, md5=True, block=40):
    """Returns a FLAC file of uncompressed frames, also of bits and headers that libFLAC does not write."""
    frames = [samples[i : i + block] for i in range(0, len(samples), block)]
    info = _bits((block, 16), (block, 16), (0, 48), (rate, 20), (samples.shape[1] - 1, 3), (bits - 1, 5))
    info = _bits(*info, (len(samples) if declare else 0, 36))
    checksum = hashlib.md5(packed(samples, -(-bits // 8))).digest() if md5 else bytes(16)
    body = b"".join(_flac_frame(frame, bits, number) for number, frame in enumerate(frames))
    return b"fLaC\x80\0\0\x22" + _to_bytes(info) + checksum + body


def _flac_frame(samples, bits, number):
    code = {8: 1, 12: 2, 16: 4, 20: 5, 24: 6}[bits]
    head = _bits((0x7FFC, 15), (0, 1), (7, 4), (0, 4), (samples.shape[1] - 1, 4), (code, 3), (0, 1))
    head = _to_bytes(_bits(*head, (number, 8), (len(samples) - 1, 16)))
    head += bytes([_crc(head, 0x07, 8)])
    subframes = [pair for channel in samples.T for pair in ((2, 8), *((int(value), bits) for value in channel))]
    body = head + _to_bytes(subframes)
    return body + _crc(body, 0x8005, 16).to_bytes(2, "big")


def _bits(*pairs):
    return pairs


def _to_bytes(pairs):
    text = "".join(format(value & (1 << size) - 1, f"0{size}b") for value, size in pairs)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def _crc(data, polynomial, size):
    register = 0
    for byte in data:
        register ^= byte << (size - 8)
        for _ in range(8):
            register = (register << 1) ^ (polynomial if register >> (size - 1) else 0)
            register &= (1 << size) - 1
    return register
