"""The rules by which members of a ZooKeeper group assign partitions to threads. Each member computes the
assignment of the whole group by itself, from the same nodes.

So all members must compute the same assignment. Both rules assign each partition to the same thread (see
``thread_ids``) as the classes RangeAssignor and RoundRobinAssignor of Scala's high-level consumer.

``roundrobin`` follows the rule of Kafka 0.10.2. Up to 0.10.1, Scala's consumer has another rule, which works
only if all members have the same number of streams of the same topics. In that case both rules give the same
result, so pyklient uses the newer rule for every group. :func:`has_identical_threads` tells if an older
member would fail.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TypeAlias

from pyklient.assignors.even_split import split_evenly
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId, java_order
from pyklient.kernel import string_hash
from pyklient.topic_partition import TopicPartition

__all__ = [
    "ZOOKEEPER_ASSIGNORS",
    "AssignToThreads",
    "PartitionsOfTopic",
    "ThreadsOfTopic",
    "assign_range_to_threads",
    "assign_round_robin_to_threads",
    "has_identical_threads",
]

ThreadsOfTopic: TypeAlias = Mapping[str, Sequence[ThreadId]]
"""For each topic, the threads of all members that have streams of the topic. A thread stands for one stream
of a member."""

PartitionsOfTopic: TypeAlias = Mapping[str, Sequence[int]]
"""For each topic, the numbers of its partitions. A topic that does not exist has none."""

AssignToThreads: TypeAlias = Callable[[ThreadsOfTopic, PartitionsOfTopic], dict[TopicPartition, ThreadId]]
"""A function that takes the threads and the partitions of all topics, and returns the thread of each
partition. It has no side effects."""


def assign_range_to_threads(
    threads: ThreadsOfTopic, partitions: PartitionsOfTopic
) -> dict[TopicPartition, ThreadId]:
    """Assign to each thread of a topic a range of neighbouring partitions, topic by topic. Return the thread
    of each partition."""
    assigned: dict[TopicPartition, ThreadId] = {}
    for topic, of_topic in threads.items():
        if not of_topic:
            continue
        ordered = sorted(of_topic, key=java_order)
        runs = split_evenly(sorted(partitions.get(topic, ())), len(ordered))
        for thread, run in zip(ordered, runs, strict=True):
            assigned.update((TopicPartition(topic, number), thread) for number in run)
    return assigned


def assign_round_robin_to_threads(
    threads: ThreadsOfTopic, partitions: PartitionsOfTopic
) -> dict[TopicPartition, ThreadId]:
    """Assign the partitions of all topics to the threads in turn. Threads that do not belong to the topic of
    a partition are skipped. Return the thread of each partition.

    The partitions are sorted by Java's hashes of ``[topic,partition]``, so that the partitions of one topic
    do not follow each other.
    """
    of_topic = {topic: frozenset(each) for topic, each in threads.items() if each}
    turn = cycle(sorted(frozenset().union(*of_topic.values()), key=java_order))
    ordered = sorted(
        (TopicPartition(topic, number) for topic in of_topic for number in partitions.get(topic, ())),
        key=lambda each: (string_hash(f"[{each.topic},{each.partition}]"), each),
    )
    return {each: next(thread for thread in turn if thread in of_topic[each.topic]) for each in ordered}


def has_identical_threads(threads: ThreadsOfTopic) -> bool:
    """Return True if all topics have the same threads. If not, Scala's consumers before 0.10.2 cannot assign
    partitions by the rule ``roundrobin``."""
    return len({frozenset(of_topic) for of_topic in threads.values()}) <= 1


ZOOKEEPER_ASSIGNORS: Mapping[str, AssignToThreads] = {
    "range": assign_range_to_threads,
    "roundrobin": assign_round_robin_to_threads,
}
"""The assignors that a member of a ZooKeeper group can use, by their names in
``partition_assignment_strategy``."""
