"""Examples as tables of Arrow, pandas and Polars, decoded by columns.

A table consists of record batches. The step `RecordBatch` makes a record batch from a list of records, as `Batch` makes
other batches. So they are in read order, `parallel()` decodes them in threads or processes, and an error names the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import shown
from beam_datasets.extras import framework
from beam_datasets.features.arrow import arrow_array, arrow_schema
from beam_datasets.features.columnar import ColumnarDecoder
from beam_datasets.features.compiler import select_decoded
from beam_datasets.features.schema import Struct, Values, schema_of, with_label_names
from beam_datasets.features.stored_files import to_column_features
from beam_datasets.features.trees import record_name
from beam_datasets.reading.elements.transforms import Batch, CompiledStep, Decode, MixedFirst, Raw
from beam_datasets.reading.index.transforms import ENDLESS, Batches
from beam_datasets.reading.iterator import DatasetIterator
from beam_datasets.reading.plan import ReadPlan

if TYPE_CHECKING:
    from types import ModuleType

    import pandas
    import polars
    import pyarrow


_BATCH_BYTES, _MAX_ROWS = 4 << 20, 1 << 16
"""Approximate stored bytes of a record batch, and its maximum rows: small enough for the cache of a processor."""


@dataclass(frozen=True)
class RecordBatch(Batch):
    """A step from a list of records to an Arrow record batch.

    Attributes:
        schema: the columns of the record batch.
    """

    schema: Struct = field(kw_only=True)

    def compile(self) -> CompiledStep:
        """Returns the function from a list of records to a `pyarrow.RecordBatch`, with a row for each record.

        With ids, the function takes (id, record) pairs, and the record batch has a column `tfds_id`. There is no
        executor, as images are not decoded.
        """
        decode: Any = self.steps[0]
        pa, schema = _pyarrow(), self.schema
        types = arrow_schema(pa, schema)
        columns = ColumnarDecoder(to_column_features(select_decoded(decode.features, decode.decoders))).columns

        def make_from_records(records: Any) -> pyarrow.RecordBatch:
            """Returns the Arrow record batch of a list of records."""
            return pa.RecordBatch.from_arrays(arrow_array(pa, schema, columns(records)).flatten(), schema=types)

        def make_from_pairs(pairs: Any) -> pyarrow.RecordBatch:
            """Returns the Arrow record batch of a list of (id, record) pairs; the ids are the column `tfds_id`."""
            values = {**columns([record for _, record in pairs]), "tfds_id": [name for name, _ in pairs]}
            return pa.RecordBatch.from_arrays(arrow_array(pa, schema, values).flatten(), schema=types)

        return CompiledStep(make_from_pairs if decode.with_ids else make_from_records)

    def compile_check(self) -> Callable[[Any], Any]:
        """Returns the function from one record to a record batch, to find the record that raises an error."""
        make = self.compile().one
        return lambda item: make([item])


def to_arrow(dataset: ReadPlan, *, label_names: bool, binary: Iterable[str]) -> pyarrow.Table:
    """Returns the table of all examples; see `Dataset.to_arrow`."""
    schema, batches = _record_batches(dataset, label_names=label_names, binary=binary)
    return _pyarrow().Table.from_batches(list(batches), schema)


def to_pandas(
    dataset: ReadPlan, *, label_names: bool, binary: Iterable[str], dtype_backend: str | None
) -> pandas.DataFrame:
    """Returns the pandas DataFrame of all examples; see `Dataset.to_pandas`."""
    module = framework("pandas", needed_by="to_pandas()", name="pandas", extra="frames")
    mapper = _map_types(module, dtype_backend)
    frame: pandas.DataFrame = to_arrow(dataset, label_names=label_names, binary=binary).to_pandas(types_mapper=mapper)
    return frame


def _map_types(pandas: Any, dtype_backend: str | None) -> Callable[[Any], Any] | None:
    """Returns the function from an Arrow type to a dtype of pandas, or to None for NumPy's; None for NumPy's dtypes.

    Args:
        pandas: the module pandas.
        dtype_backend: see `Dataset.to_pandas`.

    Raises:
        ValueError: dtype_backend has another value.
    """
    if dtype_backend is None:
        return None
    if dtype_backend == "pyarrow":
        return pandas.ArrowDtype  # type: ignore[no-any-return]
    if dtype_backend != "numpy_nullable":
        raise ValueError(f"dtype_backend: expected 'numpy_nullable', 'pyarrow' or None, got {shown(dtype_backend)}.")
    pa = _pyarrow()
    names = [f"{kind}{size}" for kind in ("Int", "UInt") for size in (8, 16, 32, 64)]
    dtypes = {pa.from_numpy_dtype(name.lower()): name for name in (*names, "Float32", "Float64")}
    dtypes |= {pa.bool_(): "boolean", pa.string(): "string"}
    return lambda kind: pandas.api.types.pandas_dtype(dtypes[kind]) if kind in dtypes else None


def to_polars(dataset: ReadPlan, *, label_names: bool, binary: Iterable[str]) -> polars.DataFrame:
    """Returns the Polars DataFrame of all examples; see `Dataset.to_polars`."""
    module = framework("polars", needed_by="to_polars()", name="Polars", extra="frames")
    frame: polars.DataFrame = module.from_arrow(to_arrow(dataset, label_names=label_names, binary=binary))
    return frame


def reader_of(dataset: ReadPlan) -> pyarrow.RecordBatchReader:
    """Returns a `pyarrow.RecordBatchReader`, which reads the examples lazily."""
    schema, batches = _record_batches(dataset, label_names=False, binary=())
    return _pyarrow().RecordBatchReader.from_batches(schema, batches)


def _pyarrow() -> ModuleType:
    """Returns the module `pyarrow`.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return framework("pyarrow", needed_by="a table", name="the package pyarrow", extra="frames")


def _record_batches(dataset: ReadPlan, *, label_names: bool, binary: Iterable[str]) -> tuple[Any, Iterator[Any]]:
    """Returns the Arrow schema of a dataset's examples, and an iterator over their record batches.

    For the arguments, see `Dataset.to_arrow`.
    """
    if dataset._operation.length == ENDLESS:
        raise TypeError("a table of an endless dataset has no end; use repeat(epochs) with a number of epochs.")
    step = _decode_step(dataset)
    features = select_decoded(step.features, step.decoders)
    schema = schema_of(features, [record_name(name, features) for name in binary])
    if step.with_ids:
        schema = Struct({**schema.fields, "tfds_id": Values("text")})
    if label_names:
        schema = Struct({name: with_label_names(column) for name, column in schema.fields.items()})
    size = int(min(max(_BATCH_BYTES / max(dataset._operation.item_bytes, 1), 1), _MAX_ROWS))
    operation = Batches(dataset._operation, size, False)
    batches = dataset._with(operation, (RecordBatch((step,), schema=schema),))
    return arrow_schema(_pyarrow(), schema), DatasetIterator(batches)


def _decode_step(dataset: ReadPlan) -> Decode:
    """Returns the decoding step of a dataset, which must be its only step.

    Raises:
        TypeError: the items are not examples with the dataset's features, such as batches.
    """
    step, *later_steps = dataset._steps
    if isinstance(step, Decode) and step.supervised_keys is None and not later_steps:
        return step
    if isinstance(step, MixedFirst):
        items = "those of a mixture with source_key or of sources that are decoded differently"
    elif isinstance(step, (Batch, Raw)):
        items = "batches" if isinstance(step, Batch) else "records"
    else:
        items = "results of map()" if later_steps else "the tuples of as_supervised=True"
    raise TypeError(
        f"a table: expected examples with the columns of their features, got {items}. Call this before raw(), map(), "
        "batch() or mix(), and without as_supervised=True."
    )
