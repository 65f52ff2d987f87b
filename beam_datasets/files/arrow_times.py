"""Python values of Arrow's dates, times, timestamps and durations, computed from the stored integers.

Values that `datetime` can express have its classes. Nanoseconds are kept: a timestamp with nanoseconds is a
`NanosecondTime`, and such a time of day is text. Durations are text in the form of Python; those in nanoseconds have
the form of pandas, whether or not pandas is installed.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_datasets.intake.int96 import integers_of

if TYPE_CHECKING:
    import pyarrow


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 24 * 60 * 60
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # of the years 1 and 9999, since 1970


class NanosecondTime(datetime.datetime):
    """A time with nanoseconds, which are in its text but not in comparisons."""

    nanosecond: int

    @classmethod
    def of(cls, time: datetime.datetime, nanosecond: int) -> NanosecondTime:
        """Returns the time that is some nanoseconds, 0 to 999, after a datetime."""
        parts = (time.year, time.month, time.day, time.hour, time.minute, time.second, time.microsecond)
        later = cls(*parts, tzinfo=time.tzinfo, fold=time.fold)
        later.nanosecond = nanosecond
        return later

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        """Returns the time in ISO 8601 with nine digits after the second."""
        text = super().isoformat(sep, "microseconds")
        stop = len("2000-01-01T00:00:00.000000")
        return f"{text[:stop]}{self.nanosecond:03d}{text[stop:]}"


def values_of_times(array: pyarrow.Array, way: str) -> list[Any]:
    """Returns the values of an array of a temporal type, with None for null.

    Args:
        array: Arrow array of dates, times, timestamps, durations or intervals.
        way: the option, for errors, by which the user keeps all values as text, such as `--feature a=string`; '' to
            return values that `datetime` does not have as text.

    Returns:
        A list of `datetime.date`, `datetime.time` or `datetime.datetime` (`NanosecondTime` if it has a fraction of a
        microsecond), or of texts for durations.

    Raises:
        ValueError: `datetime` does not have a value, and `way` is not ''.
    """
    import pyarrow as pa

    kind = array.type
    if pa.types.is_duration(kind):
        write = pandas_duration_text if kind.unit == "ns" else duration_text
        return [None if number is None else write(number, _PER_SECOND[kind.unit]) for number in _integers(array)]
    if pa.types.is_interval(kind):
        return array.to_pylist()
    read = _dates if pa.types.is_date(kind) else _times_of_day if pa.types.is_time(kind) else _timestamps
    try:
        return read(array)
    except (ValueError, OverflowError, KeyError):  # KeyError: of time zones
        pass
    values = []
    for index, number in enumerate(_integers(array)):
        try:
            values += read(array.slice(index, 1))
        except (ValueError, OverflowError, KeyError):
            text = _text_of_time(number or 0, kind)  # it is not null
            if way:
                raise ValueError(
                    f"expected a date or time that Python has, got {text} ({number} as {kind}); {way} keeps this text"
                ) from None
            values.append(text)
    return values


def values_of_exact_times(array: pyarrow.Array, way: str) -> list[Any]:
    """Returns the values of an Arrow array of the extension type EXACT_TIME; see `values_of_times`."""
    import pyarrow as pa

    values: list[Any] = []
    for stored in array.storage.to_pylist():
        if stored is None:
            values.append(None)
            continue
        second, nanosecond = stored["second"], stored["nanosecond"]
        day = second // _DAY
        if _FIRST_DAY <= day <= _LAST_DAY:
            micros = pa.array([second * 10**6 + nanosecond // 1000], pa.timestamp("us", array.type.tz))
            [value] = values_of_times(micros, way)
            has_rest = nanosecond % 1000 and isinstance(value, datetime.datetime)
            values.append(NanosecondTime.of(value, nanosecond % 1000) if has_rest else value)
            continue
        text = _text_of_timestamp(second * 10**9 + nanosecond, 10**9, has_zone=array.type.tz is not None)
        if way:
            raise ValueError(f"expected a date or time that Python has, got {text}; {way} keeps this text")
        values.append(text)
    return values


def _integers(array: pyarrow.Array) -> list[int | None]:
    """Returns the integers that an Arrow array of dates, times or durations stores; None for null."""
    import pyarrow as pa

    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


def _dates(array: pyarrow.Array) -> list[Any]:
    """Returns the values of an Arrow array of dates as `datetime.date`, with None for null.

    Raises:
        ValueError: a date64 has a time of day, or `datetime` does not have a date.
    """
    import pyarrow as pa

    days = array.cast(pa.date32())  # raises an exception if a date64 has a time
    _check_range(integers_of(days.drop_null()), _FIRST_DAY, _LAST_DAY)
    return with_nulls(integers_of(days).astype("datetime64[D]").tolist(), array)


def _check_range(numbers: Any, first: int, last: int) -> None:
    """Checks that the integers of a NumPy array are in [first, last].

    Raises:
        ValueError: one is not.
    """
    if len(numbers) and not (first <= int(numbers.min()) and int(numbers.max()) <= last):
        raise ValueError("out of range")


def _times_of_day(array: pyarrow.Array) -> list[Any]:
    """Returns times of day as `datetime.time`; those with a fraction of a microsecond as text.

    Raises:
        ValueError: a time of day is negative, or 24 hours or more.
    """
    import pyarrow as pa

    numbers = integers_of(array.drop_null())
    _check_range(numbers, 0, _DAY * _PER_SECOND[array.type.unit] - 1)
    if array.type.unit != "ns":
        return array.to_pylist()
    values = array.cast(pa.time64("us"), safe=False).to_pylist()
    if (numbers % 1000).any():
        for index, number in enumerate(_integers(array)):
            if number is not None and number % 1000:
                values[index] = _text_of_seconds(number, 10**9)
    return values


def _timestamps(array: pyarrow.Array) -> list[Any]:
    """Returns timestamps as `datetime.datetime`; those with a fraction of a microsecond as `NanosecondTime`.

    Raises:
        ValueError: a timestamp is not in the years 1 to 9999.
    """
    import pyarrow as pa

    kind, second = array.type, _PER_SECOND[array.type.unit]
    _check_range(integers_of(array.drop_null()), _FIRST_DAY * _DAY * second, (_LAST_DAY + 1) * _DAY * second - 1)
    if kind.unit != "ns":
        return _to_datetimes(array)
    nanos = integers_of(array)
    micros = pa.Array.from_buffers(pa.timestamp("us", kind.tz), len(array), [None, pa.py_buffer(nanos // 1000)])
    values = _to_datetimes(micros)
    for index in np.flatnonzero(nanos % 1000).tolist():
        values[index] = NanosecondTime.of(values[index], int(nanos[index] % 1000))
    return with_nulls(values, array)


def _to_datetimes(array: pyarrow.Array) -> list[Any]:
    """Returns the timestamps of an Arrow array as `datetime.datetime`, None for null; the unit is not nanoseconds."""
    if array.type.tz is not None:
        return array.to_pylist()
    return with_nulls(integers_of(array).astype(f"datetime64[{array.type.unit}]").tolist(), array)


def with_nulls(values: list[Any], array: pyarrow.Array) -> list[Any]:
    """Returns the list `values` after setting it to None, in place, at the indices at which an Arrow array is null."""
    if array.null_count:
        for index in np.flatnonzero(array.is_null().to_pylist()).tolist():
            values[index] = None
    return values


def _text_of_time(number: int, kind: pyarrow.DataType) -> str:
    """Returns a date, a time of day or a timestamp in ISO 8601, with a sign if the year does not have four digits.

    Args:
        number: the stored integer, such as the number of days or microseconds since 1970.
        kind: the Arrow type, which has the unit and the zone. A timestamp with a zone is written in UTC.
    """
    import pyarrow as pa

    if pa.types.is_time(kind):
        return _text_of_seconds(number, _PER_SECOND[kind.unit])
    if pa.types.is_date32(kind):
        return _text_of_day(number)
    if pa.types.is_date64(kind):
        return _text_of_timestamp(number, 1000, has_zone=False)
    return _text_of_timestamp(number, _PER_SECOND[kind.unit], has_zone=kind.tz is not None)


def _text_of_timestamp(number: int, per_second: int, *, has_zone: bool) -> str:
    """Returns a timestamp in ISO 8601, such as "10000-01-01T00:00:00+00:00".

    Args:
        number: units since 1970-01-01T00:00:00.
        per_second: units in a second.
        has_zone: whether to add the offset of UTC.
    """
    day, remainder = divmod(number, _DAY * per_second)
    return f"{_text_of_day(day)}T{_text_of_seconds(remainder, per_second)}{'+00:00' * has_zone}"


def _text_of_day(day: int) -> str:
    """Returns a number of days since 1970-01-01 as a date in ISO 8601: "1970-01-01", "+10000-01-01"."""
    year, month, date = str(np.datetime64(day, "D")).rsplit("-", 2)
    return f"{int(year):04d}-{month}-{date}" if 0 <= int(year) <= 9999 else f"{int(year):+05d}-{month}-{date}"


def _text_of_seconds(number: int, per_second: int) -> str:
    """Returns `number` units of time as "hours:minutes:seconds", with six or nine digits if there is a fraction.

    For 1000 units per second, -1500 becomes "-00:00:01.500000". Hours may be above 24.
    """
    seconds, remainder = divmod(abs(number), per_second)
    digits = 9 if remainder * 10**6 % per_second else 6
    fraction = f".{remainder * 10**digits // per_second:0{digits}d}" if remainder else ""
    return f"{'-' * (number < 0)}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def duration_text(number: int, per_second: int) -> str:
    """Returns a duration of `number` / `per_second` seconds in the format of `str(datetime.timedelta)`, of any size.

    >>> duration_text(-1, 1000), duration_text(3 * 86400 + 1, 1)
    ('-1 day, 23:59:59.999000', '3 days, 0:00:01')
    """
    days, remainder = divmod(number, _DAY * per_second)
    text = _text_of_seconds(remainder, per_second)
    time = text[1:] if text.startswith("0") else text
    return f"{days} day{'s' * (abs(days) != 1)}, {time}" if days else time


def pandas_duration_text(number: int, per_second: int) -> str:
    """Returns a duration of `number` / `per_second` seconds in the format of `str(pandas.Timedelta)`.

    >>> pandas_duration_text(-1, 10**9), pandas_duration_text(10**9, 10**9)
    ('-1 days +23:59:59.999999999', '0 days 00:00:01')
    """
    days, remainder = divmod(number, _DAY * per_second)
    return f"{days} days {'+' * (days < 0)}{_text_of_seconds(remainder, per_second)}"
