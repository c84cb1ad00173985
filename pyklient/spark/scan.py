"""A task's work: the records of one range as Arrow batches. Runs in Spark's Python workers.

A worker process runs one task after the other, and keeps its connections in between.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyklient.config import ConsumerConfig
from pyklient.consumer.decoding import Decoding
from pyklient.consumer.read import BoundedRead
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConsumerTimeout, OffsetOutOfRangeError
from pyklient.net.client import NetworkClient
from pyklient.spark.data_loss import DataLoss
from pyklient.spark.naming import OF_SPARK, called
from pyklient.spark.positions import find_log_ends
from pyklient.spark.ranges import OffsetRange, within
from pyklient.spark.source_options import SourceOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["record_batches"]

_ROWS: Final = 10_000
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
        client.refresh_metadata([wanted.partition.topic], config.default_api_timeout_ms / 1000)
        while wanted.size > 0:
            position = wanted.start
            try:
                for batch in _read(client, config, wanted, headers=options.headers):
                    position = batch.column("offset").slice(batch.num_rows - 1).to_pylist()[0] + 1
                    yield _without_empty_headers(batch) if options.headers else batch
                return
            except (OffsetOutOfRangeError, ConsumerTimeout):
                left = wanted._replace(start=position)
                wanted, problem = _there(client, config, left)
                if problem is None:
                    raise
                loss.report(problem)
    except GeneratorExit:
        raise
    except BaseException:
        # A failed task leaves no connection behind that the next one would trust.
        _clients.pop(config, None)
        client.close()
        raise


def _read(
    client: NetworkClient, config: ConsumerConfig, wanted: OffsetRange, *, headers: bool
) -> "Iterator[RecordBatch]":
    reading = BoundedRead(
        client,
        config,
        [wanted.partition.topic],
        Decoding(check_crcs=config.check_crcs),
        {wanted.partition: (wanted.start, wanted.end)},
        exact=lambda _: True,
        keeps_client=True,
    )
    with reading:
        yield from reading.arrow_batches(_ROWS, headers)


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
