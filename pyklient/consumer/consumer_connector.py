"""ConsumerConnector, the client that makes streams of messages and commits their offsets."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, Self, Unpack

from pyklient import argument_checks
from pyklient.config import DEFAULT_SERVERS, ConsumerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ConsumerOptions
from pyklient.consumer.connector_lifecycle import CLOSE_TIMEOUT, ConnectorLifecycle
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.gathered_metrics import consumer_metrics
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic_listener import RebalanceListener, check_listener
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.membership_and_offset_store import choose_coordination
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.offsets.background_commits import CommitCallback
from pyklient.consumer.offsets.offset_committer import OffsetCommitter
from pyklient.consumer.owned_partitions import Ownership
from pyklient.consumer.parallel.key_queues import Order
from pyklient.consumer.parallel.parallel_consumer import (
    ErrorHandler,
    Handler,
    ParallelConsumer,
    check_handlers,
)
from pyklient.consumer.start_points import Start
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.stream_control import StreamControl
from pyklient.consumer.stream_creation import StreamCreation
from pyklient.consumer.topic_filter import TopicFilter
from pyklient.errors import ConfigurationError, MessageStreamsExistError
from pyklient.metrics.snapshots import ConsumerMetrics
from pyklient.net.network_client import NetworkClient
from pyklient.properties.consumer_properties import consumer_options
from pyklient.properties.profile import ProfileName
from pyklient.serialization import Decoder
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerConnector"]

_MOST_WORKERS = 10_000


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
        self._config = ConsumerConfig.from_options(by_option_name(ConsumerConfig, bootstrap_servers, options))
        self._client = NetworkClient(self._config)
        self._fetchers = FetcherManager(self._client, self._config)
        self._membership, self._store = choose_coordination(self._client, self._config)
        self._ownership = Ownership()
        self._listener: RebalanceListener | None = None
        self._creation = StreamCreation(self._config, self._fetchers.restart, self._ownership.lease)
        self._streams: list[StreamCore] = []
        config, client = self._config, self._client
        self._commits = OffsetCommitter(
            self._ownership,
            self._store,
            self._streams,
            lambda topic: client.metadata.partition_count(topic),
        )
        self._created = False
        self._lifecycle = ConnectorLifecycle(
            config, client, self._fetchers, self._membership, self._commits, self._streams
        )
        self._control = StreamControl(
            config, client, self._fetchers, self._store, self._commits, self._ownership, self._lifecycle
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], profile: ProfileName | None = None) -> Self:
        """Make a connector from *properties* of Kafka's consumer: of Java's, or with a *profile* of Scala's.

        With a profile, they have the names, defaults and rules of that version of Kafka, and the members of
        the group coordinate themselves through ZooKeeper, as Scala's consumer does.
        """
        return cls(**consumer_options(properties, profile))

    def __repr__(self) -> str:
        return repr(self._lifecycle)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ConsumerConnector cannot be pickled: it holds connections and threads. Create it where it is "
            "used, from the same options"
        )

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
        """Call the methods of *listener* at each rebalance. Raises MessageStreamsExistError if streams
        exist."""
        if self._created:
            raise MessageStreamsExistError(
                "set the rebalance listener before the connector makes its streams"
            )
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
        return {
            topic: [KafkaStream(core, self._control) for core in cores]
            for topic, cores in choice.named.items()
        }

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
        own data, unless ``exclude_internal_topics`` is false. The rules of :meth:`create_message_streams`
        apply here too.
        """
        choice = self._creation.by_filter(topic_filter, num_streams, start, key_decoder, value_decoder)
        self._create(choice)
        return [KafkaStream(core, self._control) for core in choice.shared]

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        start: Start = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> KafkaStream:
        """Make one stream of all messages of *topics*, under the rules of :meth:`create_message_streams`.

        With *pattern* instead of topics, the stream reads all topics whose whole name matches the regular
        expression, as with a :class:`Whitelist` and :meth:`create_message_streams_by_filter`.

        *start* says where to begin in partitions without a committed offset, in place of
        ``auto_offset_reset``: it is an offset, ``"beginning"``, ``"end"``, an aware datetime, or a mapping
        from TopicPartition to these. To begin at *start* even if offsets are committed, use :meth:`assign` or
        ``KafkaStream.seek``.
        """
        choice = self._creation.one(topics, pattern, start, key_decoder, value_decoder)
        self._create(choice)
        return KafkaStream(choice.streams[0], self._control)

    def assign(
        self,
        partitions: Mapping[str, Iterable[int]] | Iterable[TopicPartition],
        start: Start = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> KafkaStream:
        """Make one stream of exactly these *partitions*, such as ``{"clicks": [0, 1]}``, which no group
        divides among its members.

        *start* says where they begin: an offset, ``"beginning"``, ``"end"``, an aware datetime, or a mapping
        from TopicPartition to these. A partition without a *start* begins at the committed offset, or where
        ``auto_offset_reset`` says.

        With ``group_id``, offsets are committed for that group, also automatically, but the connector is not
        a member of it: other programs that read the same partitions are not noticed. Commits fail as long as
        the group has members. A partition that does not exist yet is read as soon as it exists. Streams can
        be made once per connector.
        """
        choice = self._creation.by_hand(partitions, start, key_decoder, value_decoder)
        if self._config.coordination != "kafka":
            raise ConfigurationError(
                "assign() joins no group, so coordination='zookeeper' has no effect; remove it, or use "
                "stream()"
            )
        self._create(choice, StandaloneMembership(self._client, self._config))
        return KafkaStream(choice.streams[0], self._control)

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

        No message is handled before its method ``run`` is called. The workers are threads. If *processes* is
        true, they are child processes, which get the handler by pickle. With the order ``"key"``, messages of
        one partition with the same key are handled one after another, and messages without a key in any
        order. ``"partition"`` keeps the order of each partition, and ``"unordered"`` none.

        If the handler raises an exception, ``on_error(message, exception)`` is called, in a thread of this
        process. The message is done if this returns. If it raises an exception, or if there is no *on_error*,
        no more messages are handled, and ``run`` raises the exception.

        At most *max_in_hand* messages, of about ``prefetch_max_bytes`` together, are read and not handled
        yet. Keys and values are bytes, as in a stream without decoders. *start* has the same meaning as in
        :meth:`stream`, and the rules of :meth:`create_message_streams` hold.
        """
        argument_checks.whole(workers, "workers", low=1, high=_MOST_WORKERS)
        check_handlers(handler, on_error, processes=argument_checks.flag(processes, "processes"))
        choice, stream = self._creation.parallel(topics, start, order, max_in_hand)
        self._create(choice)
        return ParallelConsumer(stream, self._lifecycle.check_open, handler, workers, processes, on_error)

    def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
        retry_on_failure: bool = True,
    ) -> None:
        """Commit the positions of the streams, or exactly *offsets*: the offset of the next message to read
        in each partition.

        Without *offsets*, the message that a loop has got last is committed too, unless another thread runs
        that loop. Raises CommitError if some partitions were not committed, for instance because another
        member owns them now; all others are committed. Raises KafkaTimeoutError with the last failure after
        *timeout* seconds (None: ``default_api_timeout_ms``), or the first failure if *retry_on_failure* is
        false.
        """
        self._control.commit(self._streams, timeout, offsets, retry_on_failure)

    def commit_offsets_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit as :meth:`commit_offsets` does, without waiting, and then call ``callback(offsets, error)``.

        *error* is None, or what ``commit_offsets`` would raise. Commits are made in the order of the calls,
        and before the commits of later calls of ``commit_offsets``. One thread calls all callbacks; ``close``
        waits for them. Without *callback*, a failure is logged. Waits only if 1,000 commits are waiting
        already.
        """
        self._control.check_commits()
        positions = None if offsets is None else argument_checks.positions(offsets, "offsets")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of offsets and an error, not {callback!r}")
        timeout = self._control.seconds(None)
        self._commits.commit_in_background(self._streams, positions, timeout, callback)

    def metrics(self) -> ConsumerMetrics:
        """Return what this connector has done so far: records, bytes, rates, lag, rebalances, commits, and
        the requests to each broker.

        The call sends no request and costs the loops and threads of the connector nothing. It works after
        ``close`` too.
        """
        return consumer_metrics(
            self._config, self._client, self._fetchers, self._streams, self._ownership, self._commits
        )

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """End all streams, commit what was handed out (with ``enable_auto_commit``), and leave the group.

        This takes about *timeout* seconds at most, and less if no broker can be reached.

        A loop in another thread may finish its message first. The last 10 s of *timeout* (but at most two
        thirds of it) are kept for committing and leaving, so the loop has 5 s by default. A message that is
        still in hand after that is not committed. A loop ends when it asks for its next message.

        A further call does nothing, but waits until the first call is finished. If the first call itself
        waits for the calling thread, for instance for its loop, the further call returns at once. A rebalance
        listener may call this method: the connector then closes after the listener has returned.
        """
        self._lifecycle.close(count_in_hand=True, timeout=argument_checks.seconds(timeout, "timeout"))

    shutdown = close

    def _create(self, choice: StreamChoice, membership: Membership | None = None) -> None:
        """Begin to read the streams of *choice*, with another *membership* if one is given. Return when
        partitions are assigned. Close the connector if that fails."""
        self._lifecycle.check_open()
        if self._created:
            raise MessageStreamsExistError(
                "this connector has already made its streams; create another connector for other topics"
            )
        self._created = True
        self._membership = membership or self._membership
        self._streams.extend(choice.streams)
        handler = AssignmentHandler(
            self._config,
            choice,
            self._fetchers,
            self._ownership,
            self._store,
            self._commits,
            self._listener,
        )
        self._lifecycle.begin(self._membership, choice.subscription, handler)
