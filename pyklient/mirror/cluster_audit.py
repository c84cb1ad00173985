"""Audits of mirrors: compare the records of topics in two clusters, by their numbers and digests."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from pyklient import argument_checks
from pyklient.admin import Admin
from pyklient.config import AdminConfig
from pyklient.consumer.bounded_read import read
from pyklient.consumer.topic_filters.topic_filter import TopicFilter, Whitelist
from pyklient.errors import ConfigurationError
from pyklient.kernel import Message
from pyklient.mirror.clusters import Cluster, known_options, options_of_cluster, read_options
from pyklient.mirror.content_digest import OrderedDigest, UnorderedDigest, total_bytes

__all__ = ["AuditRow", "Contents", "Progress", "audit"]

Progress: TypeAlias = Callable[[str, str, int], object]
"""A function that is called about once a second. Its arguments are ``"source"`` or ``"target"``, the name of
a topic, and the number of its records that were read so far."""

_OF_READING: Final = {"isolation_level": "read_committed"}
"""Default options of the consumers of an audit. Mirrors read with the same options."""
_TICK: Final = 1.0
_MOST_MESSAGES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a partition or topic: their number, the bytes of their keys and values, and digests.

    ``digest`` is the digest of the keys, values and headers, and ``timestamps`` is the digest of the
    timestamps. ``has_timestamps`` is true if every record has a timestamp.
    """

    records: int
    bytes: int
    digest: str
    timestamps: str
    has_timestamps: bool


@dataclass(frozen=True, slots=True)
class AuditRow:
    """The result of an audit for one partition, or for one topic if ``partition`` is None."""

    topic: str
    partition: int | None
    source: Contents
    target: Contents

    @property
    def equal(self) -> bool:
        """True if both clusters have the same records. If a record of the source cluster has no timestamp,
        the target cluster sets its own. Timestamps are then not compared."""
        same = (self.source.records, self.source.digest) == (self.target.records, self.target.digest)
        return same and (not self.source.has_timestamps or self.source.timestamps == self.target.timestamps)

    @property
    def difference(self) -> str:
        """A few words about the difference between the clusters. Empty if there is none."""
        missing = self.source.records - self.target.records
        if missing > 0:
            return f"the target has {missing} fewer"
        if missing < 0:
            return f"the target has {-missing} more"
        if self.source.digest != self.target.digest:
            return "other contents" if self.partition is None else "other contents or another order"
        return "" if self.equal else "other timestamps"


def audit(
    source: Cluster,
    target: Cluster,
    topics: TopicFilter | str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    by: Literal["partition", "topic"] = "partition",
    on_progress: Progress | None = None,
) -> list[AuditRow]:
    """Compare the records of *topics* in the clusters *source* and *target*. Return one row for each
    partition, or for each topic.

    *topics* is a Whitelist, a Blacklist, or the pattern of a Whitelist, for the topics of the source cluster.
    A topic that the target cluster does not have counts as empty there. With *by* ``"partition"``, each
    partition is compared with the partition of the same number, record by record in order, as a mirror
    with ``keep_partitions`` copies them. With ``"topic"``, the order and the partitions do not matter.

    *since* and *until* are datetimes with a time zone. Only records with timestamps from *since* on, and
    before *until*, are compared. Without *until*, records that arrive during the audit may count. An audit
    reads all these records in both clusters. Offsets are not compared. Records of aborted and open
    transactions do not count, unless the options of a cluster have ``isolation_level="read_uncommitted"``.

    *on_progress* is called about once a second. Raises ConfigurationError for a wrong argument or if no topic
    matches, and the errors of ``read``.
    """
    if by not in ("partition", "topic"):
        raise ConfigurationError(f"by must be 'partition' or 'topic', not {by!r}")
    times = _Times(_aware(since, "since"), _aware(until, "until"))
    argument_checks.plain_function(on_progress, "on_progress")
    wanted = topics if isinstance(topics, TopicFilter) else Whitelist(topics)
    sides = {
        "source": {**_OF_READING, **options_of_cluster(source, "source")},
        "target": {**_OF_READING, **options_of_cluster(target, "target")},
    }
    here, there = (_partitions(options) for options in sides.values())
    names = [name for name in here if wanted.allows(name)]
    if not names:
        raise ConfigurationError(
            f"no topic of the source cluster matches the pattern {wanted.pattern!r}; correct the pattern"
            if isinstance(wanted, Whitelist)
            else f"no topic of the source cluster matches {wanted!r}; correct the pattern"
        )
    rows: list[AuditRow] = []
    for name in names:
        report = _Reporter(on_progress, name)
        found = {
            side: _read(options, name, times, by, count.get(name, 0), report.of(side))
            for (side, options), count in zip(sides.items(), (here, there), strict=True)
        }
        partitions = sorted(found["source"].keys() | found["target"].keys(), key=lambda each: each or 0)
        empty = _Counted(by).contents()
        rows += [
            AuditRow(name, each, found["source"].get(each, empty), found["target"].get(each, empty))
            for each in partitions
        ]
    return rows


@dataclass(frozen=True, slots=True)
class _Times:
    """The range of timestamps to compare. None stands for no bound."""

    since: datetime | None
    until: datetime | None

    def select(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the *messages* whose timestamps are in the range."""
        if self.since is None and self.until is None:
            return messages
        first = float("-inf") if self.since is None else self.since.timestamp() * 1000
        end = float("inf") if self.until is None else self.until.timestamp() * 1000
        return [each for each in messages if first <= each.timestamp_ms < end]


class _Counted:
    """The records of one partition or topic that were read so far."""

    def __init__(self, by: str) -> None:
        self.records = 0
        self._bytes = 0
        self._digest = OrderedDigest() if by == "partition" else UnorderedDigest()
        self._has_timestamps = True

    def add(self, messages: Sequence[Message]) -> None:
        """Add *messages* of the partition or topic, in their order."""
        self.records += len(messages)
        self._bytes += total_bytes(messages)
        self._digest.add(messages)
        self._has_timestamps &= min((each.timestamp_ms for each in messages), default=0) >= 0

    def contents(self) -> Contents:
        """Return the number of records, the number of bytes and the digests so far."""
        digest = self._digest
        return Contents(
            self.records, self._bytes, digest.content(), digest.timestamps(), self._has_timestamps
        )


class _Reporter:
    """Tells the function *on_progress* of ``audit`` how many records of *topic* were read."""

    def __init__(self, on_progress: Progress | None, topic: str) -> None:
        self._on_progress = on_progress
        self._topic = topic
        self._next = time.monotonic() + _TICK

    def of(self, side: str) -> Callable[[int], None]:
        """Return a function to call with the number of records that were read from *side*, "source" or
        "target"."""

        def report(records: int) -> None:
            if self._on_progress is not None and time.monotonic() >= self._next:
                self._next = time.monotonic() + _TICK
                self._on_progress(side, self._topic, records)

        return report


def _read(
    options: Mapping[str, Any],
    topic: str,
    times: _Times,
    by: str,
    partitions: int,
    report: Callable[[int], None],
) -> dict[int | None, Contents]:
    """Read *topic*, which has *partitions* partitions. Return the contents of each partition, or the contents
    of the whole topic under the key None."""
    keys: Iterable[int | None] = range(partitions) if by == "partition" else [None]
    counted = {key: _Counted(by) for key in keys}
    if not partitions:
        return {key: each.contents() for key, each in counted.items()}
    seen = 0
    with read(topics=topic, start=times.since, **read_options(options)) as messages:
        for batch in messages.batches(_MOST_MESSAGES):
            seen += len(batch)
            report(seen)
            chosen = times.select(batch)
            if by == "topic":
                counted[None].add(chosen)
                continue
            for partition, part in _by_partition(chosen).items():
                counted.setdefault(partition, _Counted(by)).add(part)
    return {key: each.contents() for key, each in counted.items()}


def _by_partition(messages: Iterable[Message]) -> dict[int, list[Message]]:
    parts: dict[int, list[Message]] = {}
    for message in messages:
        parts.setdefault(message.partition, []).append(message)
    return parts


def _partitions(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of partitions of each topic of a cluster."""
    with Admin(**known_options(AdminConfig, options)) as admin:
        counts: dict[str, int] = {}
        for each in admin.partitions():
            counts[each.topic] = counts.get(each.topic, 0) + 1
        return dict(sorted(counts.items()))


def _aware(given: datetime | None, name: str) -> datetime | None:
    if given is not None and (not isinstance(given, datetime) or given.tzinfo is None):
        raise ConfigurationError(f"{name} must be a datetime with a time zone, not {given!r}")
    return given
