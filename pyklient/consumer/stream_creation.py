"""Checks the arguments of the connector's methods that make streams, and creates the streams."""

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from pyklient import argument_checks
from pyklient.config import ConsumerConfig
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.parallel.key_queues import Order
from pyklient.consumer.parallel.parallel_stream import ParallelStream
from pyklient.consumer.start_points import Start, StartPoints
from pyklient.consumer.stream.chunk_reader import Restart
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.topic_filters.topic_filter import TopicFilter, Whitelist
from pyklient.errors import ConfigurationError
from pyklient.kernel import Lease
from pyklient.serialization import Decoder, as_decoder
from pyklient.topic_partition import TopicPartition

__all__ = ["StreamCreation"]

_MOST_STREAMS = 10_000
"""The largest number of streams of one topic. A program needs a thread for each stream, and no more streams
than the topic has partitions."""


class StreamCreation:
    """Creates the streams of a connector with *config*. Streams call *restart* to fetch a partition again
    from another offset. *lease* has the time until which the connector may hand out messages."""

    def __init__(self, config: ConsumerConfig, restart: Restart, lease: Lease) -> None:
        self.whole_batches = False
        """True if a mirror reads the streams, which then hand out whole batches where possible."""
        self.excluded_topics: frozenset[str] = frozenset()
        """The topics that a topic filter does not select, even if their names match."""
        self.continues_at_committed = False
        """True if a partition that the connector gets again is read from its committed offset, and not from
        the position that its stream has reached. This applies to the streams of a topic filter."""
        self._lease = lease
        self._check_crcs = config.check_crcs
        self._max_decompressed = config.max_decompressed_bytes
        self._hides_internal = config.exclude_internal_topics
        self._timeout = None if config.consumer_timeout_ms < 0 else config.consumer_timeout_ms / 1000
        self._max_bytes = config.prefetch_max_bytes
        self._shallow = config.shallowiterator_enable
        self._on_corrupt = config.corrupt_handler
        self._most_chunks = config.queued_max_message_chunks
        self._has_offset_store = config.offset_store is not None
        self._restart = restart

    def by_topic(
        self,
        topic_streams: Mapping[str, int],
        start: Start,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> StreamChoice:
        """Create several streams for each topic. See ConsumerConnector.create_message_streams."""
        for topic, count in argument_checks.mapping(topic_streams, "topic_streams", "{'clicks': 1}").items():
            _named(topic, "a topic in topic_streams")
            argument_checks.whole(count, f"topic_streams[{topic!r}]", low=1, high=_MOST_STREAMS)
        decoding = self._decoding(key_decoder, value_decoder)
        streams = {
            topic: [self._stream([topic], decoding) for _ in range(count)]
            for topic, count in topic_streams.items()
        }
        points = StartPoints(start)
        points.check_topics(topic_streams.keys())
        return StreamChoice(Subscription(dict(topic_streams), start=points), streams)

    def one(
        self,
        topics: Sequence[str],
        pattern: str | None,
        start: Start,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> StreamChoice:
        """Create one stream, of *topics* or of the topics that match *pattern*. See
        ConsumerConnector.stream."""
        if pattern is not None:
            if topics:
                raise ConfigurationError(
                    "stream() takes topics or a pattern, not both; to read named topics too, extend the "
                    "pattern so that it matches their names"
                )
            return self.by_filter(Whitelist(pattern), 1, start, key_decoder, value_decoder)
        if not topics:
            raise ConfigurationError(
                "stream() needs topics; pass the name of at least one topic, or a pattern"
            )
        for topic in topics:
            _named(topic, "each topic of stream('clicks', 'views')")
        stream = self._stream(topics, self._decoding(key_decoder, value_decoder))
        points = StartPoints(start)
        points.check_topics(topics)
        subscription = Subscription(dict.fromkeys(topics, 1), start=points)
        return StreamChoice(subscription, {topic: [stream] for topic in topics})

    def by_hand(
        self,
        partitions: Mapping[str, Iterable[int]] | Iterable[TopicPartition],
        start: Start,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> StreamChoice:
        """Create one stream of the partitions that the program has chosen. See ConsumerConnector.assign."""
        if isinstance(partitions, Mapping):
            pairs = [
                (topic, number)
                for topic, numbers in partitions.items()
                for number in argument_checks.several(numbers, f"partitions[{topic!r}]")
            ]
        else:
            pairs = list(argument_checks.partitions(partitions, "partitions"))
        chosen = frozenset(argument_checks.partition(pair, "partitions") for pair in pairs)
        if not chosen:
            raise ConfigurationError(
                "assign() needs partitions; pass at least one, such as {'clicks': [0, 1]}"
            )
        topics = sorted({each.topic for each in chosen})
        for topic in topics:
            _named(topic, "each topic of assign({'clicks': [0, 1]})")
        points = StartPoints(start, replaces_committed=True)
        points.check_partitions(chosen)
        stream = self._stream(topics, self._decoding(key_decoder, value_decoder))
        subscription = Subscription(dict.fromkeys(topics, 1), partitions=chosen, start=points)
        return StreamChoice(subscription, {topic: [stream] for topic in topics})

    def by_filter(
        self,
        topic_filter: TopicFilter,
        count: int,
        start: Start,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> StreamChoice:
        """Create *count* streams that together read the topics that *topic_filter* selects. See
        ConsumerConnector.create_message_streams_by_filter."""
        if not isinstance(topic_filter, TopicFilter):
            raise TypeError(f"topic_filter must be a Whitelist or a Blacklist, not {topic_filter!r}")
        argument_checks.whole(count, "num_streams", low=1, high=_MOST_STREAMS)
        decoding = self._decoding(key_decoder, value_decoder)
        subscription = Subscription(
            topic_filter=topic_filter,
            shared_streams=count,
            hides_internal=self._hides_internal,
            start=StartPoints(start),
            excluded=self.excluded_topics,
            continues_at_committed=self.continues_at_committed,
        )
        streams = [self._stream(topic_filter, decoding) for _ in range(count)]
        return StreamChoice(subscription, {}, streams)

    def parallel(
        self, topics: str | Sequence[str] | TopicFilter, start: Start, order: Order, max_in_hand: int
    ) -> tuple[StreamChoice, ParallelStream]:
        """Create the stream whose messages several workers handle. See ConsumerConnector.parallel."""
        if self._has_offset_store:
            raise ConfigurationError(
                "parallel() cannot be used with offset_store, because its handlers share no transaction; "
                "read a stream and save its positions with the results"
            )
        if order not in get_args(Order):
            choices = ", ".join(map(repr, get_args(Order)))
            raise ConfigurationError(f"order must be one of {choices}, not {order!r}")
        most = argument_checks.whole(max_in_hand, "max_in_hand", low=1)
        decoding, points = self._decoding(None, None), StartPoints(start)
        if isinstance(topics, TopicFilter):
            stream = ParallelStream(
                topics, decoding, self._restart, self._lease, order, most, self._max_bytes
            )
            subscription = Subscription(
                topic_filter=topics, shared_streams=1, hides_internal=self._hides_internal, start=points
            )
            return StreamChoice(subscription, {}, [stream]), stream
        names = [topics] if isinstance(topics, str) else list(argument_checks.several(topics, "topics"))
        if not names:
            raise ConfigurationError("parallel() needs topics; pass the name of at least one topic")
        for topic in names:
            _named(topic, "each topic of parallel(['clicks', 'views'], …)")
        points.check_topics(names)
        stream = ParallelStream(names, decoding, self._restart, self._lease, order, most, self._max_bytes)
        subscription = Subscription(dict.fromkeys(names, 1), start=points)
        return StreamChoice(subscription, {topic: [stream] for topic in names}), stream

    def _stream(self, topics: Sequence[str] | TopicFilter, decoding: Decoding) -> StreamCore:
        stream = StreamCore(topics, decoding, self._timeout, self._restart, self._lease)
        stream.queue.most_chunks = self._most_chunks
        return stream

    def _decoding(self, key_decoder: Decoder | None, value_decoder: Decoder | None) -> Decoding:
        return Decoding(
            as_decoder(key_decoder, "key_decoder"),
            as_decoder(value_decoder, "value_decoder"),
            self._check_crcs,
            self._max_decompressed,
            self._shallow,
            self._on_corrupt,
            self.whole_batches,
        )


def _named(topic: str, name: str) -> None:
    if not argument_checks.text(topic, name):
        raise ConfigurationError(f"{name} must not be empty")
    argument_checks.topic_name(topic)
