"""Reads the records of one task, a range of offsets, as Arrow record batches. This runs in a Python worker of
Spark.

A worker process runs one task after another, and keeps its connections open from task to task.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyklient.config import ConsumerConfig
from pyklient.consumer.bounded_read import BoundedRead
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConsumerTimeout, OffsetOutOfRangeError
from pyklient.net.network_client import NetworkClient
from pyklient.spark.option_names import SPARK_NAMES, rename_options
from pyklient.spark.source.data_loss import DataLoss, available
from pyklient.spark.source.offset_lookup import find_log_ends
from pyklient.spark.source.offset_ranges import OffsetRange
from pyklient.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["record_batches"]

_BATCH_ROWS: Final = 10_000
_TOPIC_CHECK_MS: Final = 2_000
"""The time without records, in milliseconds, after which the brokers are asked whether the topic still
exists."""
_MAX_CLIENTS: Final = 4
_clients: dict[ConsumerConfig, NetworkClient] = {}


def record_batches(options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    """Yield the records of the range *wanted* in record batches, as they are fetched.

    If records were deleted, raises DataLossError, or logs a warning if the option ``failOnDataLoss`` is
    false. Raises ConsumerTimeout if no record arrives although the partition has records in the range.
    """
    with rename_options(SPARK_NAMES):
        yield from _record_batches(options, wanted)


def _record_batches(options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    config, loss = options.config, DataLoss(options.fail_on_data_loss)
    client = _client(config)
    try:
        # The metadata from an earlier task may describe a topic that has been deleted since.
        if _topic_is_unknown(client, config, wanted) and loss.fails:
            wanted, problem = _look_up_available(client, config, wanted)
            if problem is not None:
                loss.report(problem)
        while wanted.size > 0:
            try:
                for batch in _read(client, options, wanted):
                    yield _without_empty_headers(batch) if options.headers else batch
                return
            except _RecordsDeletedError as deleted:
                wanted = deleted.kept
                loss.report(deleted.problem)
    except GeneratorExit:
        raise
    except BaseException:
        # The next task must not use connections of a task that failed.
        _clients.pop(config, None)
        client.close()
        raise


class _RecordsDeletedError(Exception):
    """Raised when records of a range were deleted. *kept* is the part of the range that can still be read."""

    def __init__(self, kept: OffsetRange, problem: str) -> None:
        super().__init__(problem)
        self.kept, self.problem = kept, problem


def _read(client: NetworkClient, options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    """Yield the records of the range *wanted* in record batches.

    Raises _RecordsDeletedError if some records were deleted, and ConsumerTimeout if no record arrives
    although the partition has records in the range. As long as no record arrives, the brokers are asked every
    two seconds whether the topic still exists. If the topic does not exist, the task fails, and Spark runs it
    again. If the option ``failOnDataLoss`` is false, the task skips the records, but only after the brokers
    have said twice in a row that the topic does not exist.
    """
    config = options.config
    timeout_ms = (
        config.consumer_timeout_ms if config.consumer_timeout_ms >= 0 else config.default_api_timeout_ms
    )
    check_ms = min(timeout_ms, _TOPIC_CHECK_MS)
    reading = BoundedRead(
        client,
        replace(config, consumer_timeout_ms=check_ms),
        [wanted.partition.topic],
        Decoding(check_crcs=config.check_crcs, max_decompressed=config.max_decompressed_bytes),
        {wanted.partition: (wanted.start, wanted.end)},
        exact=lambda _: True,
        keeps_client=True,
    )
    left, silent_ms, unknown = wanted, 0, 0
    with reading:
        while True:
            try:
                for batch in reading.arrow_batches(_BATCH_ROWS, options.headers):
                    last = batch.column("offset").slice(batch.num_rows - 1).to_pylist()[0]
                    left, silent_ms, unknown = left._replace(start=last + 1), 0, 0
                    yield batch
                return
            except OffsetOutOfRangeError as error:
                _raise_if_deleted(client, config, left, error)
                raise
            except ConsumerTimeout as error:
                silent_ms += check_ms
                unknown = unknown + 1 if _topic_is_unknown(client, config, left) else 0
                if silent_ms >= timeout_ms or unknown >= (1 if options.fail_on_data_loss else 2):
                    _raise_if_deleted(client, config, left, error)
                if silent_ms >= timeout_ms:
                    raise ConsumerTimeout(
                        f"no record of {left} arrived within consumer_timeout_ms={timeout_ms}, although the "
                        "partition still has records at these offsets"
                    ) from error


def _topic_is_unknown(client: NetworkClient, config: ConsumerConfig, wanted: OffsetRange) -> bool:
    """Return True if the brokers say that the topic of *wanted* does not exist."""
    topic = wanted.partition.topic
    metadata = client.refresh_metadata([topic], config.default_api_timeout_ms / 1000)
    info = metadata.topics.get(topic)
    return info is None or info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _raise_if_deleted(
    client: NetworkClient, config: ConsumerConfig, left: OffsetRange, error: Exception
) -> None:
    kept, problem = _look_up_available(client, config, left)
    if problem is not None:
        raise _RecordsDeletedError(kept, problem) from error


def _without_empty_headers(batch: "RecordBatch") -> "RecordBatch":
    """Return *batch* with null instead of an empty list of headers in records without headers, as in Spark's
    own source."""
    import pyarrow

    headers = batch.column("headers")
    some = headers.value_lengths().cast(pyarrow.bool_())
    _, offsets = headers.buffers()[:2]
    if offsets is None:
        return batch
    used = offsets.slice(4 * headers.offset, 4 * (len(headers) + 1))
    nullable = pyarrow.Array.from_buffers(
        headers.type, len(headers), [some.buffers()[1], used], children=[headers.values]
    )
    columns = [nullable if name == "headers" else batch.column(name) for name in batch.schema.names]
    return pyarrow.RecordBatch.from_arrays(columns, schema=batch.schema)


def _look_up_available(
    client: NetworkClient, config: ConsumerConfig, wanted: OffsetRange
) -> tuple[OffsetRange, str | None]:
    """Return the part of *wanted* that the partition still has, and a description of the missing part (None
    if nothing is missing)."""
    try:
        logs = client.play(
            find_log_ends({wanted.partition: wanted.end}), config.default_api_timeout_ms / 1000
        )
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return wanted._replace(start=wanted.end), f"{wanted} were deleted with their topic"
    return available(wanted, logs[wanted.partition])


def _client(config: ConsumerConfig) -> NetworkClient:
    """Return this process's client for *config*. The client stays open for later tasks."""
    client = _clients.get(config)
    if client is None:
        while len(_clients) >= _MAX_CLIENTS:
            _clients.pop(next(iter(_clients))).close()
        client = _clients[config] = NetworkClient(config)
    return client
