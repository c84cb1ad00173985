"""Chooses the stream that reads each partition."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pyklient.assignors.even_split import split_evenly
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.topic_partition import TopicPartition

__all__ = ["StreamChoice"]

log = logging.getLogger("pyklient.consumer")


class StreamChoice:
    """The streams of one connector, and for each partition, the stream that reads it.

    *named* has the streams of each topic. *shared* has the streams that read all topics of a topic filter.
    """

    def __init__(
        self,
        subscription: Subscription,
        named: Mapping[str, Sequence[StreamCore]],
        shared: Sequence[StreamCore] = (),
    ) -> None:
        self.subscription = subscription
        self.named = named
        self.shared = shared
        self.streams = tuple(dict.fromkeys([*(each for some in named.values() for each in some), *shared]))
        """All streams of the connector."""
        self._numbers = {
            stream: number for some in (*named.values(), shared) for number, stream in enumerate(some)
        }
        self._stream_of: dict[TopicPartition, StreamCore] = {}

    def stream_of(self, partition: TopicPartition) -> StreamCore | None:
        """Return the stream that reads *partition*, or None if no stream reads it."""
        return self._stream_of.get(partition)

    def number_of(self, partition: TopicPartition) -> int:
        """Return the number of the stream that reads *partition*. The streams of each topic are numbered from
        0."""
        return self._numbers[self._stream_of[partition]]

    def choose(
        self,
        partitions: Collection[TopicPartition],
        stay: Collection[TopicPartition],
        numbers: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Choose a stream for each of *partitions*.

        The partitions in *stay* keep their streams. A partition that is neither in *partitions* nor in *stay*
        loses its stream. *numbers* has the number of the stream of each partition, among the streams of its
        topic. Without *numbers*, the partitions are divided evenly between the streams.
        """
        self._stream_of = {each: stream for each, stream in self._stream_of.items() if each in stay}
        load = Counter(self._stream_of.values())
        by_topic: dict[str, list[TopicPartition]] = {}
        for each in sorted(partitions):
            by_topic.setdefault(each.topic, []).append(each)
        for topic, added in by_topic.items():
            streams = self._of_topic(topic)
            if not streams:
                log.warning(
                    "the group has assigned partitions of topic %s to this connector, but nobody reads them, "
                    "because the connector has no stream of that topic; make streams of the same topics in "
                    "all members of the group",
                    topic,
                )
                continue
            if numbers is not None:
                chosen = {each: streams[numbers[each]] for each in added}
            else:
                chosen = self._divide(added, streams, load)
            self._stream_of.update(chosen)
            load.update(chosen.values())
        self._note_topics()

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Remember that no stream reads *partitions* any more."""
        for each in partitions:
            self._stream_of.pop(each, None)
        self._note_topics()

    def _note_topics(self) -> None:
        if self.shared:
            topics = tuple(sorted({each.topic for each in self._stream_of}))
            for stream in self.shared:
                stream.topics = topics

    def _of_topic(self, topic: str) -> Sequence[StreamCore]:
        if topic in self.named:
            return self.named[topic]
        return self.shared if self.subscription.selects(topic) else ()

    def _divide(
        self, added: Sequence[TopicPartition], streams: Sequence[StreamCore], load: Counter[StreamCore]
    ) -> dict[TopicPartition, StreamCore]:
        """Return a stream for each of the partitions *added*, which belong to one topic.

        Each partition goes to the stream that reads the fewest partitions of the topic so far.
        """
        kept = Counter(stream for each, stream in self._stream_of.items() if each.topic == added[0].topic)
        if not kept:
            order = sorted(streams, key=load.__getitem__)
            runs = split_evenly(added, len(order))
            return {each: stream for stream, run in zip(order, runs, strict=True) for each in run}
        chosen: dict[TopicPartition, StreamCore] = {}
        for each in added:
            chosen[each] = stream = min(streams, key=lambda stream: (kept[stream], load[stream]))
            kept[stream] += 1
        return chosen
