"""ConsumerConnector, the client that makes streams of messages and commits their offsets."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from pyklient import argument_checks
from pyklient.config import DEFAULT_SERVERS, ConsumerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ConsumerOptions
from pyklient.config.properties_files import Properties, properties_or_file
from pyklient.consumer.commit.background_commits import CommitCallback
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.connector_lifecycle import CLOSE_TIMEOUT, ConnectorLifecycle
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.gathered_metrics import consumer_metrics
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic_listener import RebalanceListener, check_listener
from pyklient.consumer.group.member_metadata import member_metadata
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.membership_and_offset_storage import choose_coordination
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.owned_partitions import Ownership
from pyklient.consumer.parallel.key_queues import Order
from pyklient.consumer.parallel.parallel_consumer import (
    ErrorHandler,
    Handler,
    ParallelConsumer,
    check_handlers,
)
from pyklient.consumer.parallel.parallel_stream import ParallelStream
from pyklient.consumer.start_points import Start
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.stream_control import StreamControl
from pyklient.consumer.stream_creation import StreamCreation
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.errors import ConfigurationError, MessageStreamsExistError, PartitionNotAssignedError
from pyklient.group_metadata import GroupMetadata
from pyklient.net.network_client import NetworkClient
from pyklient.serialization import Decoder
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyklient.metrics import ConsumerMetrics
    from pyklient.properties.profile import ProfileName

__all__ = ["ConsumerConnector"]

_MOST_WORKERS = 10_000
_NOT_PICKLED = (
    "a ConsumerConnector cannot be pickled: it holds connections and threads. Create it where it is used, "
    "from the same options"
)
_STREAMS_EXIST = "this connector has already made its streams; create another connector for other topics"


class ConsumerConnector:
    """A client that reads topics, alone or as a member of a group.

    ::

        with ConsumerConnector("localhost:9092", group_id="billing") as connector:
            for message in connector.stream("clicks"):
                handle(message)

    With ``group_id`` the partitions are shared with the group's other members, and offsets are committed to
    Kafka: by ``commit_offsets()``, and automatically while ``enable_auto_commit`` is on. An automatic commit
    never includes a message that a loop still has in hand. At a clean end of the ``with`` block, everything
    that was handed out is committed. If an exception ends the block, the message in hand is not committed.

    Without ``group_id`` all partitions are read, beginning at ``auto_offset_reset``, and nothing is
    committed.

    Several threads may use a connector at the same time; each stream belongs to one thread. The options are
    those of ``ConsumerConfig``.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[ConsumerOptions]
    ) -> None:
        config = ConsumerConfig.from_options(by_option_name(ConsumerConfig, bootstrap_servers, options))
        client = NetworkClient(config)
        self._config, self._client = config, client
        self._fetchers = FetcherManager(client, config)
        self._membership, self._store = choose_coordination(client, config)
        self._ownership = Ownership()
        self._listener: RebalanceListener | None = None
        self._creation = StreamCreation(config, self._fetchers.restart, self._ownership.lease)
        self._streams: list[StreamCore] = []
        self._kafka_streams: dict[StreamCore, KafkaStream] = {}
        self._commits = OffsetCommitter(
            self._ownership, self._store, self._streams, lambda topic: client.metadata.partition_count(topic)
        )
        self._choice: StreamChoice | None = None
        self._lifecycle = ConnectorLifecycle(
            config, client, self._fetchers, self._membership, self._commits, self._streams
        )
        self._control = StreamControl(
            config, client, self._fetchers, self._store, self._commits, self._ownership, self._lifecycle
        )

    @classmethod
    def from_properties(cls, properties: Properties, profile: "ProfileName | None" = None) -> Self:
        """Make a connector from *properties*, which have the names of Kafka's Java consumer, such as
        ``group.id``. *properties* may be the path of a file with lines ``name=value``.

        *profile* is an old version of Kafka, such as ``"0.8"``. With it, the properties have the names,
        defaults and rules of the Scala consumer of that version. The members of the group then coordinate
        themselves through ZooKeeper, as the Scala consumer does.
        """
        return cls(**_options(properties_or_file(properties), profile))

    def __repr__(self) -> str:
        return repr(self._lifecycle)

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NOT_PICKLED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lifecycle.close(count_in_hand=error is None)

    def set_rebalance_listener(self, listener: RebalanceListener) -> None:
        """Call the methods of *listener* at each rebalance. Raises MessageStreamsExistError if the connector
        has made its streams already."""
        if self._choice is not None:
            raise MessageStreamsExistError("set the rebalance listener before you make the streams")
        self._listener = check_listener(listener)

    def create_message_streams(
        self,
        topic_streams: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
        start: Start = None,
    ) -> dict[str, list[KafkaStream]]:
        """Make several streams for each topic, e.g. ``{"clicks": 2}``. Return the streams of each topic.

        The connector joins its group first. The partitions of a topic are divided evenly between its streams.
        A topic may have 10,000 streams at most. Streams without partitions wait. A topic that does not exist
        yet is read as soon as it exists. Streams can be made once per connector: a second call, of this
        method or of :meth:`stream`, raises MessageStreamsExistError.
        """
        choice = self._creation.by_topic(topic_streams, start, key_decoder, value_decoder)
        self._create(choice)
        return {topic: [self._kafka_streams[each] for each in some] for topic, some in choice.named.items()}

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
        start: Start = None,
    ) -> list[KafkaStream]:
        """Make *num_streams* streams that together read all topics that a Whitelist or a Blacklist selects.

        The streams begin to read topics that are created later, and stop reading topics that are deleted. If
        no topic is selected, the streams wait. The filter does not see the topics in which brokers keep their
        own data, unless ``exclude_internal_topics`` is false. The connector joins its group first, and can
        make streams only once.
        """
        choice = self._creation.by_filter(topic_filter, num_streams, start, key_decoder, value_decoder)
        self._create(choice)
        return [self._kafka_streams[each] for each in choice.shared]

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        start: Start = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> KafkaStream:
        """Make one stream of all messages of *topics*. The connector joins its group first, and can make
        streams only once. A topic that does not exist yet is read as soon as it exists.

        With *pattern* instead, the stream reads all topics whose whole name matches this regular expression.

        *start* says where to begin in partitions without a committed offset, in place of
        ``auto_offset_reset``: it is an offset, ``"beginning"``, ``"end"``, a datetime with a time zone, or a
        mapping from TopicPartition to these. To begin at *start* even if offsets are committed, use
        :meth:`assign` or ``KafkaStream.seek``.
        """
        choice = self._creation.one(topics, pattern, start, key_decoder, value_decoder)
        self._create(choice)
        return self._kafka_streams[choice.streams[0]]

    def assign(
        self,
        partitions: Mapping[str, Iterable[int]] | Iterable[TopicPartition],
        start: Start = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> KafkaStream:
        """Make one stream that reads exactly *partitions*, such as ``{"clicks": [0, 1]}``. The connector does
        not join a group.

        *start* says where to begin: an offset, ``"beginning"``, ``"end"``, a datetime with a time zone, or a
        mapping from TopicPartition to these. A partition without a *start* begins at the committed offset, or
        where ``auto_offset_reset`` says.

        With ``group_id``, offsets are committed for that group, by ``commit_offsets`` and automatically.
        Commits fail while the group has members. Other programs may read the same partitions, because no
        group divides them. A partition that does not exist yet is read as soon as it exists. Streams can be
        made once per connector.
        """
        choice = self._creation.by_hand(partitions, start, key_decoder, value_decoder)
        if self._config.coordination != "kafka":
            raise ConfigurationError(
                "assign() joins no group, so coordination='zookeeper' has no effect; remove it, or use "
                "stream()"
            )
        self._create(choice, StandaloneMembership(self._client, self._config))
        return self._kafka_streams[choice.streams[0]]

    def parallel(
        self,
        topics: str | Sequence[str] | TopicFilter,
        handler: Handler,
        *,
        start: Start = None,
        workers: int = 8,
        processes: bool = False,
        order: Order = "key",
        on_error: ErrorHandler | None = None,
        max_in_hand: int = 1000,
    ) -> ParallelConsumer:
        """Return a ParallelConsumer, which calls *handler* for each message of *topics*, in several *workers*
        at the same time.

        The handling of messages begins when the program calls the method ``run`` of the ParallelConsumer. The
        workers are threads. If *processes* is true, they are child processes, which get the handler by
        pickle. With the order ``"key"``, messages of one partition with the same key are handled one after
        another, and messages without a key in any order. With ``"partition"``, all messages of a partition
        are handled one after another. With ``"unordered"``, messages are handled in any order.

        If the handler raises an exception, ``on_error(message, exception)`` is called, in a thread of this
        process. If this function returns, the message is done. If it raises an exception, or if there is no
        *on_error*, no more messages are handled, and ``run`` raises the exception.

        At most *max_in_hand* messages, of about ``prefetch_max_bytes`` together, are read and not handled
        yet. Keys and values are bytes, as in a stream without decoders. *start* has the same meaning as in
        :meth:`stream`. The connector can make streams only once.
        """
        argument_checks.whole(workers, "workers", low=1, high=_MOST_WORKERS)
        check_handlers(handler, on_error, processes=argument_checks.flag(processes, "processes"))
        choice, stream = self._creation.parallel(topics, start, order, max_in_hand)
        self._create(choice)
        return ParallelConsumer(stream, self._lifecycle.check_open, handler, workers, processes, on_error)

    def stream_of(self, partition: TopicPartition) -> KafkaStream:
        """Return the stream that reads *partition* now.

        A rebalance listener calls this method to get the stream on which it seeks or pauses. That works at
        the first assignment too, before :meth:`stream` has returned. Raises PartitionNotAssignedError if no
        stream reads *partition*, and always after :meth:`parallel`, which makes no such stream.
        """
        where = argument_checks.partition(partition, "partition")
        self._lifecycle.check_open()
        core = None if self._choice is None else self._choice.stream_of(where)
        if core is None or (stream := self._kafka_streams.get(core)) is None:
            raise _no_stream(where, is_parallel=core is not None)
        return stream

    def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
        retry_on_failure: bool = True,
    ) -> None:
        """Commit the positions of the streams, or exactly *offsets*: the offset of the next message to read
        in each partition.

        Without *offsets*, the message in hand is committed too, unless a loop in another thread has it in
        hand. Raises CommitError if some partitions were not committed, for instance because another member
        owns them now; all others are committed. Other failures are retried. After *timeout* seconds (by
        default ``default_api_timeout_ms``), raises KafkaTimeoutError with the last of them. If
        *retry_on_failure* is false, raises the first failure itself.
        """
        self._control.commit(self._streams, timeout, offsets, retry_on_failure)

    def commit_offsets_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit the positions of the streams, or exactly *offsets*, without waiting.

        Call ``callback(offsets, error)`` afterwards: *error* is None, or the error that ``commit_offsets``
        would raise. Commits are made in the order of the calls. A later call of ``commit_offsets`` commits
        after them. One thread calls all callbacks, and ``close`` waits for them. Without *callback*, a
        failure is logged. This method waits only while 1,000 earlier commits are still to be made.
        """
        self._control.commit_async(self._streams, offsets, callback)

    def group_metadata(self) -> GroupMetadata:
        """Return the metadata of this member for ``Producer.send_offsets_to_transaction``.

        Call this method before you read the first message of a transaction. If the group rebalances after
        that, the group coordinator rejects the offsets, because another member may own the partitions. Then
        abort the transaction and read again. Raises CommitError if the connector is no member of its group.
        """
        self._control.check_commits(at_close=True)
        return member_metadata(self._config, self._membership, self._ownership)

    def metrics(self) -> "ConsumerMetrics":
        """Return what this connector has done so far: records, bytes, rates, lag, rebalances, commits, and
        the requests to each broker.

        The call sends no request and does not slow down the connector's loops and threads. It works after
        ``close`` too.
        """
        return consumer_metrics(
            self._config, self._client, self._fetchers, self._streams, self._ownership, self._commits
        )

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """End all streams, commit the messages that were handed out (with ``enable_auto_commit``), and leave
        the group.

        This call takes about *timeout* seconds at most, and less if no broker can be reached. A loop in
        another thread may finish its message first. The last 10 s of *timeout* (but at most two thirds of it)
        are kept for committing and leaving, so the loop has 5 s by default. A message that is still in hand
        after that is not committed. A loop ends when it asks for its next message.

        A second call waits until the first call has closed the connector. If a loop makes the second call,
        the first call does not wait for the message of this loop. In a rebalance listener or a commit
        callback, a second call returns at once. A rebalance listener may also make the first call: the
        connector then closes after the listener has returned.
        """
        self._lifecycle.close(count_in_hand=True, timeout=argument_checks.seconds(timeout, "timeout"))

    shutdown = close

    def _create(self, choice: StreamChoice, membership: Membership | None = None) -> None:
        """Begin to read the streams of *choice* with *membership*, or with the connector's own membership if
        that is None. Return when partitions are assigned. After a failure, close the connector."""
        self._lifecycle.check_open()
        if self._choice is not None:
            raise MessageStreamsExistError(_STREAMS_EXIST)
        self._kafka_streams = _kafka_streams(choice, self._control)
        self._choice = choice
        self._membership = membership or self._membership
        self._streams.extend(choice.streams)
        handler = AssignmentHandler(
            self._config, choice, self._fetchers, self._ownership, self._store, self._commits, self._listener
        )
        self._lifecycle.begin(self._membership, choice.subscription, handler)


def _options(properties: Mapping[str, object], profile: "ProfileName | None") -> dict[str, Any]:
    # Only programs that use properties need their tables.
    from pyklient.properties.consumer_properties import consumer_options

    return consumer_options(properties, profile)


def _kafka_streams(choice: StreamChoice, control: StreamControl) -> dict[StreamCore, KafkaStream]:
    """Return the KafkaStream through which the program reads each stream of *choice*. A ParallelStream is
    left out, because workers get its messages."""
    return {
        core: KafkaStream(core, control) for core in choice.streams if not isinstance(core, ParallelStream)
    }


def _no_stream(partition: TopicPartition, *, is_parallel: bool) -> PartitionNotAssignedError:
    why = ": its handlers run in parallel, and parallel() makes no streams" if is_parallel else ""
    return PartitionNotAssignedError(f"no stream of this ConsumerConnector reads {partition} now{why}")
