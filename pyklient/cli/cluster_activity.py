"""The activity in a cluster: the rate at which records are written to each topic, and the lag of each
group."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyklient.admin import Admin
from pyklient.argument_checks import IsolationLevel
from pyklient.errors import BrokerError, KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["Activity", "ActivityReader", "GroupActivity", "TopicActivity"]


@dataclass(frozen=True, slots=True)
class TopicActivity:
    """The activity of one topic. ``end`` is the sum of the end offsets of its partitions. ``rate`` is the
    number of offsets that were written per second since the last reading, or None in the first reading."""

    topic: str
    partitions: int
    end: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class GroupActivity:
    """The activity of one group in one of its topics. ``rate`` is the number of offsets that were committed
    per second since the last reading. ``growth`` is the growth of the lag, in offsets per second. Both are
    None in the first reading."""

    group: str
    state: str
    topic: str
    lag: int
    rate: float | None
    growth: float | None


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity in a cluster at one time. ``time`` is in seconds since 1970."""

    time: float
    topics: tuple[TopicActivity, ...]
    groups: tuple[GroupActivity, ...]


class ActivityReader:
    """Reads the activity of a cluster again and again, and compares each reading with the one before.

    Without *topics*, all topics are read except internal ones. Without *groups*, all groups that brokers
    coordinate are read. The end offset of a partition is the one up to which consumers with *isolation_level*
    can read.
    """

    def __init__(
        self,
        admin: Admin,
        topics: Collection[str],
        groups: Collection[str],
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> None:
        self._admin = admin
        self._isolation_level: IsolationLevel = isolation_level
        self._topics = sorted(set(topics))
        self._groups = sorted(set(groups))
        self._read_at = 0.0
        self._ends: Mapping[str, int] = {}
        self._committed: Mapping[tuple[str, str], int] = {}
        self._lags: Mapping[tuple[str, str], int] = {}

    def read(self) -> Activity:
        """Return the activity since the last call.

        Raises KafkaError if one of the topics does not exist. The first call also raises it if one of the
        groups does not exist.
        """
        partitions = self._admin.partitions(self._topics)
        ends = self._admin.end_offsets(partitions, isolation_level=self._isolation_level)
        now = time.monotonic()
        elapsed = now - self._read_at if self._read_at else None
        counts: dict[str, int] = {}
        totals: dict[str, int] = {}
        for at, end in ends.items():
            counts[at.topic] = counts.get(at.topic, 0) + 1
            totals[at.topic] = totals.get(at.topic, 0) + end
        topics = tuple(
            TopicActivity(name, counts[name], total, _rate(total, self._ends.get(name), elapsed))
            for name, total in sorted(totals.items())
        )
        groups = self._read_groups(ends, elapsed)
        self._read_at, self._ends = now, totals
        return Activity(time.time(), topics, groups)

    def _read_groups(
        self, ends: Mapping[TopicPartition, int], elapsed: float | None
    ) -> tuple[GroupActivity, ...]:
        committed: dict[tuple[str, str], int] = {}
        lags: dict[tuple[str, str], int] = {}
        states: dict[str, str] = {}
        every = self._admin.groups(coordination="kafka")
        if elapsed is None and (missing := set(self._groups).difference(each.group_id for each in every)):
            raise KafkaError(
                f"the brokers do not know these groups: {', '.join(sorted(missing))}; to see all groups, "
                "run: pyklient groups list"
            )
        for listed in every:
            group = listed.group_id
            if (self._groups and group not in self._groups) or listed.protocol_type not in ("consumer", ""):
                continue
            states[group] = listed.state
            for at, position in self._offsets_of(group).items():
                if at in ends:
                    key = group, at.topic
                    committed[key] = committed.get(key, 0) + position
                    lags[key] = lags.get(key, 0) + max(0, ends[at] - position)
        found = tuple(
            GroupActivity(
                group,
                states[group],
                topic,
                lags[group, topic],
                _rate(committed[group, topic], self._committed.get((group, topic)), elapsed),
                _rate(lags[group, topic], self._lags.get((group, topic)), elapsed),
            )
            for group, topic in sorted(lags)
        )
        self._committed, self._lags = committed, lags
        return found

    def _offsets_of(self, group: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of *group*, or an empty dict if the group was deleted meanwhile."""
        try:
            return {at: each.offset for at, each in self._admin.group_offsets(group).items()}
        except BrokerError as error:
            if error.retriable:
                raise
            return {}


def _rate(now: int, before: int | None, elapsed: float | None) -> float | None:
    """Return the change of a number per second: from *before* to *now*, in *elapsed* seconds. Return None if
    there is no earlier reading."""
    if before is None or not elapsed:
        return None
    return (now - before) / elapsed
