"""A task's work: the records of one range as Arrow batches. Runs in Spark's Python workers.

A worker process runs one task after the other, and keeps its connections in between.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyklient.config import ConsumerConfig
from pyklient.consumer.read import BoundedRead
from pyklient.consumer.stream.decoding import Decoding
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConsumerTimeout, OffsetOutOfRangeError
from pyklient.net.client import NetworkClient
from pyklient.spark.option_names import OF_SPARK, called
from pyklient.spark.source.data_loss import DataLoss
from pyklient.spark.source.offset_lookup import find_log_ends
from pyklient.spark.source.offset_ranges import OffsetRange, within
from pyklient.spark.source.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["record_batches"]

_ROWS: Final = 10_000
_LOOK_MS: Final = 2_000
_CLIENTS: Final = 4
_clients: dict[ConsumerConfig, NetworkClient] = {}


def record_batches(options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    """The records of *wanted*, as many at a time as are at hand.

    Records that are gone by now raise DataLossError, or are warned about and passed over: see
    ``failOnDataLoss``. ConsumerTimeout when nothing comes although it is there.
    """
    with called(OF_SPARK):
        yield from _record_batches(options, wanted)


def _record_batches(options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    config, loss = options.config, DataLoss(options.fail_on_data_loss)
    client = _client(config)
    try:
        # What an earlier task has learnt of the topic may be of one that was deleted since.
        if _is_unknown(client, config, wanted) and loss.fails:
            wanted, problem = _there(client, config, wanted)
            if problem is not None:
                loss.report(problem)
        while wanted.size > 0:
            try:
                for batch in _read(client, options, wanted):
                    yield _without_empty_headers(batch) if options.headers else batch
                return
            except _GoneError as gone:
                wanted = gone.kept
                loss.report(gone.problem)
    except GeneratorExit:
        raise
    except BaseException:
        # A failed task leaves no connection behind that the next one would trust.
        _clients.pop(config, None)
        client.close()
        raise


class _GoneError(Exception):
    """Records of a range are gone: *kept* is what is still to be read of it."""

    def __init__(self, kept: OffsetRange, problem: str) -> None:
        super().__init__(problem)
        self.kept, self.problem = kept, problem


def _read(client: NetworkClient, options: SourceOptions, wanted: OffsetRange) -> "Iterator[RecordBatch]":
    """The records of *wanted*. Raises _GoneError where they are there no more, and ConsumerTimeout when
    nothing comes although they are.

    While nothing comes, the brokers are asked every two seconds for the topic. One answer that it is unknown
    is enough where that fails the task, which Spark runs again; where it would skip records, it takes two.
    """
    config = options.config
    patience = (
        config.consumer_timeout_ms if config.consumer_timeout_ms >= 0 else config.default_api_timeout_ms
    )
    look = min(patience, _LOOK_MS)
    reading = BoundedRead(
        client,
        replace(config, consumer_timeout_ms=look),
        [wanted.partition.topic],
        Decoding(check_crcs=config.check_crcs),
        {wanted.partition: (wanted.start, wanted.end)},
        exact=lambda _: True,
        keeps_client=True,
    )
    left, silent, unknown = wanted, 0, 0
    with reading:
        while True:
            try:
                for batch in reading.arrow_batches(_ROWS, options.headers):
                    last = batch.column("offset").slice(batch.num_rows - 1).to_pylist()[0]
                    left, silent, unknown = left._replace(start=last + 1), 0, 0
                    yield batch
                return
            except OffsetOutOfRangeError as error:
                _raise_if_gone(client, config, left, error)
                raise
            except ConsumerTimeout as error:
                silent += look
                unknown = unknown + 1 if _is_unknown(client, config, left) else 0
                if silent >= patience or unknown >= (1 if options.fail_on_data_loss else 2):
                    _raise_if_gone(client, config, left, error)
                if silent >= patience:
                    raise ConsumerTimeout(
                        f"nothing of {left} came within consumer_timeout_ms={patience}, although it is there"
                    ) from error


def _is_unknown(client: NetworkClient, config: ConsumerConfig, wanted: OffsetRange) -> bool:
    """Return True if the brokers say that there is no such topic."""
    topic = wanted.partition.topic
    metadata = client.refresh_metadata([topic], config.default_api_timeout_ms / 1000)
    info = metadata.topics.get(topic)
    return info is None or info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _raise_if_gone(
    client: NetworkClient, config: ConsumerConfig, left: OffsetRange, error: Exception
) -> None:
    kept, problem = _there(client, config, left)
    if problem is not None:
        raise _GoneError(kept, problem) from error


def _without_empty_headers(batch: "RecordBatch") -> "RecordBatch":
    """*batch* with null for the headers of records that have none, as Spark's own source has it."""
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


def _there(
    client: NetworkClient, config: ConsumerConfig, wanted: OffsetRange
) -> tuple[OffsetRange, str | None]:
    """What is still there of *wanted*, and what has become of the rest."""
    try:
        logs = client.play(
            find_log_ends({wanted.partition: wanted.end}), config.default_api_timeout_ms / 1000
        )
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return wanted._replace(start=wanted.end), f"{wanted} are gone with their topic"
    return within(wanted, logs[wanted.partition])


def _client(config: ConsumerConfig) -> NetworkClient:
    """This process's connections to the cluster of *config*."""
    client = _clients.get(config)
    if client is None:
        while len(_clients) >= _CLIENTS:
            _clients.pop(next(iter(_clients))).close()
        client = _clients[config] = NetworkClient(config)
    return client
