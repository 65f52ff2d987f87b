"""Exact reading of INT96 times in Parquet files.

pyarrow reads them as 64 bits of nanoseconds, and wraps those outside of the years 1677 to 2262 around, such as those of
9999-12-31 that Spark and Hive write. Reading them as seconds gives the right seconds; together, both give the exact
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray


EXACT_TIME = "beam_datasets.exact_time"
"""The name of an extension type of structs of a time's second since 1970, and the nanoseconds after it."""


def exact_times(nanos: pyarrow.ChunkedArray, seconds: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Returns a column of INT96 times: `nanos` if it has the exact times, otherwise a column with the type EXACT_TIME.

    Args:
        nanos: an Arrow array of timestamps in nanoseconds, modulo 2^64, or of lists, maps and structs with such times.
        seconds: an array of the same type with the times in seconds.
    """
    pairs = list(zip(_timestamp_columns(nanos), _timestamp_columns(seconds)))
    if all((integers_of(fine) // 10**9 == integers_of(coarse)).all() for fine, coarse in pairs):
        return nanos
    return _to_exact_times(nanos, seconds)


@cache
def _exact_time_type(zone: str | None) -> pyarrow.ExtensionType:
    """Returns the Arrow extension type EXACT_TIME of times in a zone, with the attribute `tz`; None for no zone."""
    import pyarrow as pa

    class ExactTime(pa.ExtensionType):  # type: ignore[misc]
        tz = zone

        def __init__(self) -> None:
            super().__init__(pa.struct([("second", pa.int64()), ("nanosecond", pa.int64())]), EXACT_TIME)

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

    return ExactTime()


def _to_exact_times(nanos: pyarrow.Array, seconds: pyarrow.Array) -> pyarrow.Array:
    """Returns a column with EXACT_TIME in place of its timestamps; see `exact_times` for the arguments.

    Raises:
        ValueError: the timestamps are inside of another nested type than lists, maps and structs.
    """
    import pyarrow as pa

    kind, types = nanos.type, pa.types
    if types.is_timestamp(kind):
        remainders = integers_of(nanos) - integers_of(seconds) * 10**9  # modulo 2^64
        mask = pa.array(nanos.is_null().to_pylist(), pa.bool_())
        stored = pa.StructArray.from_arrays(
            [seconds.view(pa.int64()), pa.array(remainders)], ["second", "nanosecond"], mask=mask
        )
        return pa.ExtensionArray.from_storage(_exact_time_type(kind.tz), stored)
    if types.is_struct(kind):
        members = [_to_exact_times(*pair) for pair in zip(nanos.flatten(), seconds.flatten())]
        mask = pa.array(nanos.is_null().to_pylist(), pa.bool_())
        return pa.StructArray.from_arrays(members, [kind.field(i).name for i in range(kind.num_fields)], mask=mask)
    if types.is_map(kind):
        keys, items = (_to_exact_times(*pair) for pair in zip(_map_entries(nanos), _map_entries(seconds)))
        return pa.MapArray.from_arrays(_list_starts(nanos), keys, items)
    if types.is_list(kind) or types.is_large_list(kind):
        array = pa.ListArray if types.is_list(kind) else pa.LargeListArray
        return array.from_arrays(_list_starts(nanos), _to_exact_times(nanos.flatten(), seconds.flatten()))
    if types.is_nested(kind):
        raise ValueError(f"times before 1677 or after 2262 are not read of {kind}")
    return nanos


def _list_starts(lists: Any) -> pyarrow.Array:
    """Returns an Arrow array of the offset of each list or map in the joined values of all that are not null.

    The offset of a null is null, and the last element is the end: [0, None, 2, 5] for lists of 2, null and 3 values.
    """
    import pyarrow as pa

    starts, start = [], 0
    for size in [*_list_lengths(lists), 0]:
        starts.append(None if size is None else start)
        start += size or 0
    return pa.array(starts, pa.int64() if pa.types.is_large_list(lists.type) else pa.int32())


def _list_lengths(lists: Any) -> list[int | None]:
    """Returns the number of items of each list of an Arrow array of lists; None for null."""
    offsets, is_null = lists.offsets.to_pylist(), lists.is_null().to_pylist()
    return [None if null else stop - start for start, stop, null in zip(offsets, offsets[1:], is_null)]


def _map_entries(maps: Any) -> tuple[Any, Any]:
    """Returns (keys, items), two Arrow arrays, of all maps in an array of maps; of none for a null."""
    import pyarrow as pa

    entries = maps.cast(pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)]))).flatten()
    keys, items = entries.flatten()
    return keys, items


def _timestamp_columns(column: Any) -> Iterator[Any]:
    """Yields each column of timestamps inside of a column, such as members of structs, without its nulls."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(column.type):
        yield column.drop_null()
    elif types.is_struct(column.type):
        for inner in column.flatten():
            yield from _timestamp_columns(inner)
    elif types.is_map(column.type):
        for inner in _map_entries(column):
            yield from _timestamp_columns(inner)
    elif types.is_nested(column.type):
        yield from _timestamp_columns(column.flatten())


def integers_of(array: pyarrow.Array) -> NDArray[Any]:
    """Returns the integers of an Arrow array of integers, dates or times as a NumPy array, without a copy.

    The array has the length of the Arrow array; it contains arbitrary numbers in place of nulls.
    """
    dtype = np.dtype(f"int{array.type.bit_width}")
    data = array.buffers()[1]
    return np.frombuffer(data or b"", dtype, len(array), array.offset * dtype.itemsize if len(array) else 0)
