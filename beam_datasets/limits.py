"""Limits of the size of records and decoded values, read from headers before memory is allocated.

A file of a few bytes can declare an image or a sound that does not fit in memory, and so can a sparse file a record.
"""

from __future__ import annotations

import os

from beam_datasets.errors import InputError

MAX_RECORD = 1 << 30  # bytes, which no record of a build exceeds
MAX_PIXELS = 1 << 28
MAX_SAMPLES = 1 << 29  # in all channels: 100 minutes of stereo CD audio
MAX_LIST = 1 << 28  # values in one row of a Parquet file, or in a compressed tensor of unknown length
MAX_LINE = 1 << 27  # bytes of a line of text
MAX_HEADER = 1 << 27  # bytes of a header of a tar archive, such as of a long path
MAX_FIELD = 1 << 28  # characters of a field of a CSV file; Python's default of 131,072 is too low for real files
MAX_DECOMPRESSOR = 1 << 29  # bytes that the dictionary of an xz file, or the window of a zstd file, takes
MAX_UNPACKED = 4 << 30  # bytes of all members of an archive
MAX_VIDEO_PIXELS = 1 << 34  # in all frames: 4.6 minutes of 1920 x 1080 at 30 frames per second
_MAX_LIMIT = 1 << 62  # so that lengths that it bounds fit the native module's integers
_MAX_DIGITS = 30  # with zeros before the number; Python does not read thousands of digits
VARIABLE = "BEAM_DATASETS_MAX_ELEMENTS"
"""Environment variable that raises all of these limits which are lower than its value."""


def limit_of(max_number: int) -> int:
    """Returns the limit that holds: `max_number`, or the value of the environment variable if that is higher.

    Raises:
        InputError: the variable is not a positive integer of at most 2**62.
    """
    text = os.environ.get(VARIABLE, "")
    if text and not (text.isdecimal() and len(text) <= _MAX_DIGITS and 0 < int(text) <= _MAX_LIMIT):
        raise InputError(f"{VARIABLE}: expected a positive integer, got {text!r:.40}; the highest is {_MAX_LIMIT}")
    return max(int(text or 0), max_number)


def advice_to_raise(number: int) -> str:
    """Returns a sentence for the end of an error text, without a full stop, on how to raise the limits to a number."""
    return f"If that is right, set the environment variable {VARIABLE}={number} where datasets are built and read"


def check_num_elements(number: int, max_number: int, problem: str, *, proposed: int | None = None) -> None:
    """Checks a number of pixels, samples or values that a header declares.

    Args:
        number: the number in the header.
        max_number: the limit, which the environment variable can raise.
        problem: the beginning of the error text, such as "the sound has 9 samples".
        proposed: the value of the environment variable that the error proposes; None for the number.

    Raises:
        InputError: the number exceeds the limit, or the variable is not a positive integer.
    """
    if number > max_number and number > (limit := limit_of(max_number)):
        raise InputError(f"{problem}, more than {limit:,}. {advice_to_raise(proposed or number)}")
