"""SimpleConsumer: fetches from partitions that the caller chooses, one fetch at a time, without groups or
threads."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Self, Unpack, overload

from pyklient import argument_checks
from pyklient.argument_checks import INT64_MAX, IsolationLevel
from pyklient.config import DEFAULT_SERVERS
from pyklient.config.keyword_types import AdminOptions
from pyklient.config.properties_files import Properties, properties_or_file
from pyklient.consumer.simple.broker_consumer import BrokerConsumer
from pyklient.consumer.simple.fetch_requests import FETCH_VERSION, PartitionFetch, wire_request
from pyklient.consumer.simple.fetched import Fetched, fetched_by_partition
from pyklient.consumer.simple.offsets_before import offsets_before
from pyklient.errors import ClosedError, ForkError, KafkaError
from pyklient.net.dialogue import ANY, Ask, Dialogue, Refresh, retried
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.lookups.partition_leaders import by_leader
from pyklient.net.metadata import Metadata
from pyklient.net.threadless_client import ThreadlessClient
from pyklient.properties.profile import ProfileName
from pyklient.properties.simple_consumer_properties import simple_consumer_options
from pyklient.protocol.messages import FetchResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["SimpleConsumer"]

_TRIES = 3


class SimpleConsumer(ThreadlessClient):
    """A client that fetches messages from the offsets that each call names; it stores no position. It finds
    the leader of each partition by itself.

    Several threads may use it at the same time. Each call takes at most ``default_api_timeout_ms`` and raises
    KafkaTimeoutError after that. A wrong argument raises TypeError or ConfigurationError before a request is
    sent. Unless *isolation_level* is ``read_committed``, the records of open and aborted transactions are
    read too. The options are those of ``AdminConfig``.
    """

    EARLIEST: Final = EARLIEST
    """A value for *timestamp_ms* that stands for the first offset of the log."""
    LATEST: Final = LATEST
    """A value for *timestamp_ms* that stands for the offset that the next message will get."""

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__(bootstrap_servers, options)

    @classmethod
    def connect(cls, host: str, port: int = 9092, **options: Unpack[AdminOptions]) -> BrokerConsumer:
        """Return a consumer that uses only the broker at *host* and *port*, as the SimpleConsumer of Kafka's
        old clients does. The consumer does not look for the leaders of partitions.

        The connection is opened by the first call that needs it. *options* are those of ``AdminConfig``:
        ``request_timeout_ms`` corresponds to the old clients' ``soTimeout``, and ``receive_buffer_bytes`` to
        their ``bufferSize``.
        """
        return BrokerConsumer(host, port, **options)

    @overload
    @classmethod
    def from_properties(cls, properties: Properties, profile: None = None) -> Self: ...

    @overload
    @classmethod
    def from_properties(cls, properties: Properties, profile: ProfileName) -> BrokerConsumer: ...

    @classmethod
    def from_properties(
        cls, properties: Properties, profile: ProfileName | None = None
    ) -> "Self | BrokerConsumer":
        """Make a SimpleConsumer from *properties* of Java's clients. If *profile* names a version of Kafka,
        the properties are those of that version's SimpleConsumer, and the result is a consumer of one broker,
        like the result of :meth:`connect`.

        *properties* may be the path of a file with lines ``name=value``.
        """
        options = simple_consumer_options(properties_or_file(properties), profile)
        return cls(**options) if profile is None else BrokerConsumer(**options)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int = 1_048_576,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> Fetched:
        """Return the messages of a partition from *offset* on, up to about *max_bytes*.

        If *offset* is the end of the log, returns at once, without messages. With the *isolation_level*
        ``read_committed``, the messages of aborted transactions are left out, and the messages end before the
        first open transaction (``Fetched.last_stable_offset``). Raises OffsetOutOfRangeError,
        CorruptRecordError or BrokerError. If a message is larger than *max_bytes*, brokers since 0.10.1
        return this one message. With older brokers, raises MessageTooLargeError.
        """
        where = _where(topic, partition)
        fetched = self.multifetch({where: offset}, max_bytes, isolation_level)[where]
        if fetched.error is not None:
            raise fetched.error
        return fetched

    def multifetch(
        self,
        positions: Mapping[TopicPartition, int],
        max_bytes: int = 1_048_576,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, Fetched]:
        """Return the results of :meth:`fetch` for several partitions, in the order of *positions*.

        *max_bytes* limits each partition separately. The error of a partition is in its own
        ``Fetched.error``. Only errors that concern all partitions are raised.
        """
        given = argument_checks.mapping(positions, "positions", "{TopicPartition('clicks', 0): 17}")
        wanted = {argument_checks.partition(each, "positions"): offset for each, offset in given.items()}
        fetches = {each: PartitionFetch(*each, offset, max_bytes) for each, offset in wanted.items()}
        level = argument_checks.isolation_level(isolation_level)
        found = self._play(_multifetch(fetches, level))
        return {each: found[each] for each in wanted}

    def get_offsets_before(
        self, topic: str, partition: int, timestamp_ms: int = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return up to *max_offsets* offsets at which reading may begin, in descending order.

        The records before these offsets were written before *timestamp_ms*. ``EARLIEST`` returns the first
        offset of the log. ``LATEST`` returns the end of the log and offsets before it. Brokers up to 3.x
        return the starts of their log segments. Later brokers return single offsets only. With such a broker,
        the result is the offset for *timestamp_ms*, followed by the first offset of the log if the two
        offsets differ.
        """
        where = _where(topic, partition)
        at = argument_checks.whole(timestamp_ms, "timestamp_ms", self.EARLIEST, INT64_MAX)
        most = argument_checks.whole(max_offsets, "max_offsets", low=1)
        return self._play(_offsets_before(where, at, most))


def _where(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(argument_checks.text(topic, "topic"), argument_checks.whole(partition, "partition"))


def _multifetch(
    fetches: Mapping[TopicPartition, PartitionFetch], isolation_level: int
) -> Dialogue[dict[TopicPartition, Fetched]]:
    """Return the results of *fetches*, which the leaders of all these partitions send. If a partition has a
    retriable error, fetch from it again a few times."""
    found: dict[TopicPartition, Fetched] = {}
    try:
        yield from retried(partial(_fetch_left, fetches, found, isolation_level), tries=_TRIES)
    except KafkaError as error:
        if not any(each.error is error for each in found.values()):
            raise
    return found


def _fetch_left(
    fetches: Mapping[TopicPartition, PartitionFetch],
    found: dict[TopicPartition, Fetched],
    isolation_level: int,
) -> Dialogue[None]:
    """Fetch once from each partition whose result is not in *found*, or is a retriable error there. Put the
    results into *found*.

    If a partition has a retriable error after that, raise the error.
    """
    left = [each for each in fetches if each not in found or _retriable(found[each].error)]
    metadata: Metadata = yield Refresh({each.topic for each in left}, known_ok=not found)
    leaders, errors = by_leader(metadata, left)
    found.update((each, Fetched(error=error)) for each, error in errors.items())
    for node_id, partitions in leaders.items():
        asked = [fetches[each] for each in partitions]
        try:
            request = wire_request(asked, isolation_level=isolation_level)
            response: FetchResponse = yield Ask(node_id, request, max_version=FETCH_VERSION)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            found.update((each, Fetched(error=error)) for each in partitions)
        else:
            found.update(fetched_by_partition(response, asked))
    for each in left:
        if each in found and (problem := _retriable(found[each].error)) is not None:
            raise problem


def _retriable(error: KafkaError | None) -> KafkaError | None:
    return error if error is not None and error.retriable else None


def _offsets_before(where: TopicPartition, timestamp_ms: int, most: int) -> Dialogue[list[int]]:
    """Return up to *most* offsets of the partition *where* before *timestamp_ms*, from the leader of the
    partition."""
    yield from list_offsets({where: LATEST})  # finds the leader, waiting for one if need be
    metadata: Metadata = yield Refresh([where.topic], known_ok=True)
    leader = metadata.leader(where)
    node_id = ANY if leader is None else leader.id
    return (yield from offsets_before(where, timestamp_ms, most, node_id, partial(_look_up, where)))


def _look_up(where: TopicPartition, timestamp_ms: int) -> Dialogue[int]:
    return (yield from list_offsets({where: timestamp_ms}))[where].offset
