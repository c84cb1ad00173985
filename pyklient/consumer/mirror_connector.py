"""The connector with which a mirror, which copies topics from one cluster to another, reads the first
cluster."""

from collections.abc import Collection

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.topic_filters.topic_filter import TopicFilter

__all__ = ["MirrorConnector"]


class MirrorConnector(ConsumerConnector):
    """A ConsumerConnector that also hands out whole batches."""

    def mirror_stream(
        self, topics: TopicFilter, *, whole_batches: bool, excluded: Collection[str]
    ) -> KafkaStream:
        """Make a stream of the topics that *topics* selects, except for those in *excluded*.

        With *whole_batches*, each batch that a producer can send again unchanged is one message, whose value
        is a RecordBatch. A partition that is assigned to the connector again, after a rebalance, is read from
        its committed offset, even if later messages were handed out already.
        """
        self._creation.whole_batches = whole_batches
        self._creation.excluded_topics = frozenset(excluded)
        self._creation.continues_at_committed = True
        (stream,) = self.create_message_streams_by_filter(topics)
        return stream
