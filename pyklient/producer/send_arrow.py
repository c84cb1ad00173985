"""Sends Arrow data: checks the columns and passes their buffers to the kernel."""

import importlib
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.kernel import Appender, ArrowRows, Delivery, append_rows
from pyklient.kernel.append.arrow_columns import Cells, HeaderLists, Numbers
from pyklient.missing_packages import without_pyarrow
from pyklient.producer.bulk_delivery import BulkDelivery

__all__ = ["send_arrow"]

_AT_ONCE: Final = 1 << 16
"""The number of rows that the kernel handles together. It limits the memory that the kernel and the
conversion of a column need in addition to the data."""

_BYTES: Final = "binary or string, also large, as a view, of fixed size or as a dictionary"
_ALLOWED: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "partition": "an integer; null to let the producer choose",
    "timestamp": "a timestamp, or an integer: milliseconds since 1970; null for now",
    "headers": "list<struct<key: string, value: binary>>",
}


def send_arrow(
    appender: Appender, send: Callable[..., Delivery], topic: str, data: Any, partition: int | None
) -> BulkDelivery:
    """Send the rows of the Arrow data *data*. ``Producer.send_arrow`` describes the arguments and errors.

    *appender* appends rows to the producer's batches. *send* is the producer's method ``send``, which sends
    the rows that the kernel cannot append.
    """
    pyarrow = _pyarrow()
    schema, batches = _opened(pyarrow, data)
    reader = _Reader(pyarrow, schema, partition)
    bulk = BulkDelivery()
    try:
        for batch in batches:
            for begin in range(0, batch.num_rows, _AT_ONCE):
                _send_rows(bulk, appender, send, topic, reader.rows(batch.slice(begin, _AT_ONCE)))
    except BaseException as error:
        bulk.note_on(error, "send_arrow")
        raise
    return bulk


def _send_rows(
    bulk: BulkDelivery, appender: Appender, send: Callable[..., Delivery], topic: str, rows: ArrowRows
) -> None:
    done = 0
    while done < rows.count:
        appended, runs = append_rows(appender, topic, rows, done)
        if not appended:
            value, key, partition, timestamp_ms, headers = rows.row(done)
            batch, index = send(topic, value, key, partition, timestamp_ms, headers).batch_and_index
            appended, runs = 1, [(batch, index, index + 1)]
        for run in runs:
            bulk.add(*run)
        done += appended


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise without_pyarrow() from error


def _opened(pyarrow: Any, data: Any) -> tuple[Any, Iterable[Any]]:
    """Return the schema and the record batches of the Arrow data *data*."""
    if isinstance(data, pyarrow.Table):
        return data.schema, data.to_batches()
    try:
        if isinstance(data, pyarrow.RecordBatch) or (
            hasattr(data, "__arrow_c_array__") and not hasattr(data, "__arrow_c_stream__")
        ):
            batch = pyarrow.record_batch(data)
            return batch.schema, [batch]
        if isinstance(data, pyarrow.RecordBatchReader):
            return data.schema, data
        if hasattr(data, "__arrow_c_stream__"):
            stream = pyarrow.RecordBatchReader.from_stream(data)
            return stream.schema, stream
    except (pyarrow.ArrowException, TypeError) as error:
        raise TypeError(
            f"send_arrow cannot read {type(data).__name__} as a table with columns: {error}"
        ) from error
    raise TypeError(
        "send_arrow takes a pyarrow Table, RecordBatch or RecordBatchReader, or an object with "
        f"__arrow_c_stream__ or __arrow_c_array__, not {type(data).__name__}"
    )


class _Reader:
    """Turns Arrow record batches of one schema into rows in the form that the kernel reads.

    Raises ConfigurationError or TypeError if the schema has columns that a record does not have.
    """

    def __init__(self, pyarrow: Any, schema: Any, partition: Any) -> None:
        self._pyarrow = pyarrow
        self._partition: int | None = None
        for name, kind in zip(schema.names, schema.types, strict=True):
            if name not in _ALLOWED:
                advice = "drop the column or rename it"
                if name.startswith("__index_level_"):
                    advice = "it is the index of a pandas data frame; send frame.reset_index(drop=True)"
                raise ConfigurationError(
                    f"column {name!r} ({kind}) is not one of the allowed columns {', '.join(_ALLOWED)}: "
                    f"{advice}"
                )
            if schema.names.count(name) > 1:
                raise ConfigurationError(
                    f"the Arrow data has {schema.names.count(name)} columns called {name!r}; keep one"
                )
            if not self._suits(name, kind):
                raise TypeError(f"column {name!r} is {kind}; it must be {_ALLOWED[name]}")
        if "value" not in schema.names:
            raise ConfigurationError(f"the Arrow data has no column 'value' ({_BYTES}), which is required")
        if partition is not None:
            if "partition" in schema.names:
                raise ConfigurationError(
                    "partition is given both as a column and as an argument: remove one of the two"
                )
            try:
                self._partition = operator.index(partition)
            except TypeError:
                raise TypeError(f"partition must be a whole number, not {partition!r}") from None

    def rows(self, batch: Any) -> ArrowRows:
        """Return the rows of the record batch *batch*, which is not empty, in the form that the kernel reads.

        Raises ConfigurationError if a partition or a timestamp is out of range.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        key, numbers, times = columns.get("key"), columns.get("partition"), columns.get("timestamp")
        lists = columns.get("headers")
        return ArrowRows(
            self._cells(columns["value"]),
            None if key is None else self._cells(key),
            self._partition if numbers is None else self._numbers("partition", numbers),
            None if times is None else self._numbers("timestamp", times),
            None if lists is None or self._pyarrow.types.is_null(lists.type) else self._lists(lists),
        )

    def _suits(self, name: str, kind: Any) -> bool:
        types = self._pyarrow.types
        if types.is_null(kind):
            return True
        if name in ("value", "key"):
            return self._is_bytes(kind)
        if name == "headers":
            return self._is_headers(kind)
        return bool(types.is_integer(kind) or (name == "timestamp" and types.is_timestamp(kind)))

    def _is_bytes(self, kind: Any) -> bool:
        types = self._pyarrow.types
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return self._is_text(kind) or any(
            is_one(kind)
            for is_one in (
                types.is_binary,
                types.is_large_binary,
                types.is_binary_view,
                types.is_fixed_size_binary,
            )
        )

    def _is_text(self, kind: Any) -> bool:
        types = self._pyarrow.types
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    def _is_headers(self, kind: Any) -> bool:
        types = self._pyarrow.types
        if not (types.is_list(kind) or types.is_large_list(kind)) or not types.is_struct(kind.value_type):
            return False
        fields = {field.name: field.type for field in kind.value_type}
        return (
            len(kind.value_type) == 2
            and fields.keys() == {"key", "value"}
            and self._is_text(fields["key"])
            and self._is_bytes(fields["value"])
        )

    def _cells(self, array: Any) -> Cells:
        types = self._pyarrow.types
        wide = types.is_large_binary(array.type) or types.is_large_string(array.type)
        if not wide and not types.is_binary(array.type) and not types.is_string(array.type):
            array, wide = self._cast(array), True
        _, offsets, data = array.buffers()
        return Cells(len(array), array.offset, _validity(array), offsets or b"", data or b"", wide)

    def _cast(self, array: Any) -> Any:
        try:
            return array.cast(self._pyarrow.large_binary())
        except self._pyarrow.ArrowNotImplementedError as error:
            raise TypeError(
                f"this version of pyarrow cannot convert {array.type} to binary: {error}"
            ) from error

    def _numbers(self, name: str, array: Any) -> Numbers:
        pyarrow, kind = self._pyarrow, array.type
        try:
            if pyarrow.types.is_timestamp(kind):
                # finer units are truncated
                array = array.cast(pyarrow.timestamp("ms", kind.tz), safe=kind.unit == "s")
            else:
                array = array.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid as error:
            raise ConfigurationError(f"cannot convert column {name!r}: {error}") from error
        return Numbers(len(array), array.offset, _validity(array), array.buffers()[1] or b"")

    def _lists(self, array: Any) -> HeaderLists:
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        pairs = array.values.slice(first, last - first)
        names, values = (self._cells(one) for one in self._fields(pairs))
        wide = self._pyarrow.types.is_large_list(array.type)
        offsets = array.buffers()[1] or b""
        return HeaderLists(len(array), array.offset, _validity(array), offsets, names, values, first, wide)

    def _fields(self, pairs: Any) -> Iterator[Any]:
        fields = pairs.flatten()  # null if the pair itself is null
        for name in ("key", "value"):
            yield fields[pairs.type.get_field_index(name)]


def _validity(array: Any) -> Any:
    return array.buffers()[0] if array.null_count else None
