"""A group of the source of a mirror, whose committed offsets are translated while the mirror is killed."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pyklient import Admin, ConsumerConnector, OffsetAndMetadata, TopicPartition
from pyklient.mirror import translate_offsets

__all__ = ["TranslatedGroup"]

_TIMEOUT_MS: Final = 60_000
"""The longest time, in milliseconds, without a record for the member that continues."""


class TranslatedGroup:
    """The group *group_id*, which commits offsets in the cluster *source*, and continues in the cluster
    *target*. Both are the options of a client. *mirror_group* is the group of the mirror."""

    def __init__(
        self, source: Mapping[str, Any], target: Mapping[str, Any], group_id: str, mirror_group: str
    ) -> None:
        self._source = source
        self._target = target
        self._group_id = group_id
        self._mirror_group = mirror_group
        self._committed: dict[TopicPartition, int] = {}
        self._seen: list[tuple[TopicPartition, int, int]] = []
        """The committed offset in the source, and the one in the target cluster, each time that they were
        compared."""

    def commit(self, ends: Mapping[TopicPartition, int], rng: random.Random) -> None:
        """Commit larger offsets in the source cluster, up to *ends*."""
        for each, end in ends.items():
            self._committed[each] = rng.randint(self._committed.get(each, 0), end)
        positions = {each: OffsetAndMetadata(offset) for each, offset in self._committed.items()}
        storage: Any = self._source.get("coordination", "kafka")
        servers, zookeeper = self._source["bootstrap_servers"], self._source.get("zookeeper")
        with Admin(servers, zookeeper=zookeeper) as admin:
            admin.reset_offsets(
                self._group_id, positions, topics=list(positions), storage=storage, execute=True
            )

    def look(self) -> None:
        """Note which offsets the mirror has committed in the target cluster."""
        with Admin(**self._target) as admin:
            for each, found in admin.group_offsets(self._group_id).items():
                self._seen.append((each, self._committed[each], found.offset))

    def check(self, contents: Mapping[int, Sequence[int]], say: Callable[[str], object]) -> list[str]:
        """Translate the last offsets, let a member of the group continue in the target cluster, and return
        what is wrong.

        *contents* has the records of each partition of the target: their offsets in the source.
        """
        problems: list[str] = []
        for where, at, there in self._seen:
            problems += _skipped(where, at, contents[where.partition][there:])
        translate_offsets(self._source, self._target, self._group_id, self._mirror_group, execute=True)
        with Admin(**self._target) as admin:
            starts = {each: found.offset for each, found in admin.group_offsets(self._group_id).items()}
        count = sum(len(contents[each.partition]) - starts[each] for each in self._committed)
        got: dict[int, list[int]] = {each.partition: [] for each in self._committed}
        options = {**self._target, "auto_offset_reset": "none", "consumer_timeout_ms": _TIMEOUT_MS}
        topics = sorted({each.topic for each in self._committed})
        with ConsumerConnector(group_id=self._group_id, **options) as member:
            for message in islice(member.stream(*topics), count):
                got[message.partition].append(int(message.value.split(b" ", 1)[0]))
        again = 0
        for where, at in self._committed.items():
            problems += _skipped(where, at, got[where.partition], set(contents[where.partition]))
            again += sum(each < at for each in got[where.partition])
        say(
            f"the group continues with {sum(map(len, got.values()))} records, {again} of them again; "
            f"{len(self._seen)} offsets were compared before"
        )
        return problems


def _skipped(
    where: TopicPartition, committed: int, got: Sequence[int], copied: Collection[int] | None = None
) -> list[str]:
    """Return what is wrong if a member that has committed the offset *committed* gets the records *got*."""
    end = max(copied or got, default=-1) + 1
    if missing := set(range(committed, end)).difference(got):
        return [f"{where}: a group at {committed} skips {len(missing)} records, the first is {min(missing)}"]
    return []
