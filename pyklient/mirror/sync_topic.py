"""The topic in the target cluster in which mirrors keep their offset syncs.

The topic is compacted. Each source partition has numbered slots, and each slot holds one sync. A record has
the content of one slot: its key has the group of the mirror, the topic, the partition and the number of the
slot. Its value has the sync and the id of the target topic, or is null if the slot is empty.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyklient.admin import Admin
from pyklient.consumer.bounded_read import read
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError
from pyklient.mirror.offset_syncs import OffsetSync
from pyklient.topic_partition import TopicPartition

__all__ = ["SYNC_TOPIC", "StoredSync", "create_sync_topic", "read_syncs", "sync_record"]

_log = logging.getLogger("pyklient.mirror")

SYNC_TOPIC: Final = "pyklient-mirror-syncs"
_REPLICAS: Final = 3
"""The number of replicas of the topic for offset syncs, if the target cluster has at least that many
brokers."""


class StoredSync(NamedTuple):
    """An offset sync, and the id (KIP-516) of the target topic to which its target offsets belong. The id is
    None with brokers before 2.8."""

    sync: OffsetSync
    topic_id: str | None

    def fits(self, topic_id: str | None) -> bool:
        """Return False if the target topic, whose id is *topic_id* now, was deleted and created again since
        the sync was stored."""
        return topic_id is None or self.topic_id is None or self.topic_id == topic_id


def create_sync_topic(admin: Admin, timeout: float) -> bool:
    """Create the topic in which mirrors store their offset syncs, in the cluster of *admin*. Return False if
    it exists. *timeout* is the time-out of each call, in seconds."""
    replicas = min(_REPLICAS, max(1, len(admin.cluster(timeout).brokers)))
    try:
        admin.create_topic(SYNC_TOPIC, 1, replicas, {"cleanup.policy": "compact"}, timeout)
    except BrokerError as error:
        # Another task or process may create the topic at the same time.
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def read_syncs(options: Mapping[str, Any], mirror_group: str) -> dict[TopicPartition, dict[int, StoredSync]]:
    """Return the offset syncs that the mirror with the group *mirror_group* has stored. The result maps each
    source partition to its offset syncs, by the numbers of their slots.

    *options* are those of a consumer of the target cluster. Records that this release cannot read are left
    out. Offsets of their partitions are then translated to smaller offsets.
    """
    found: dict[TopicPartition, dict[int, StoredSync]] = {}
    with read(topics=SYNC_TOPIC, **options) as messages:
        for message in messages:
            try:
                group, source, slot = _parsed_key(message.key)
                sync = None if message.value is None else _parsed_value(message.value)
            except (ValueError, TypeError, OverflowError):
                _log.warning(
                    "the record at offset %d of %s is not an offset sync that this release can read, and "
                    "is ignored",
                    message.offset,
                    SYNC_TOPIC,
                )
                continue
            if group != mirror_group:
                continue
            slots = found.setdefault(source, {})
            slots.pop(slot, None)
            if sync is not None:
                slots[slot] = sync
    return found


def sync_record(
    mirror_group: str, source: TopicPartition, slot: int, sync: StoredSync | None
) -> tuple[bytes, bytes | None]:
    """Return the key and the value of the record that stores *sync* in the slot with the number *slot* of the
    partition *source*. If *sync* is None, the record empties the slot."""
    key = json.dumps([mirror_group, source.topic, source.partition, slot]).encode()
    return key, None if sync is None else json.dumps([*sync.sync, sync.topic_id]).encode()


def _parsed_key(key: Any) -> tuple[str, TopicPartition, int]:
    group, topic, partition, slot = json.loads(key)
    return str(group), TopicPartition(str(topic), int(partition)), int(slot)


def _parsed_value(value: Any) -> StoredSync:
    *numbers, topic_id = json.loads(value)
    sync = OffsetSync(*map(int, numbers))
    if min(sync) < 0 or not isinstance(topic_id, str | None):
        raise ValueError
    return StoredSync(sync, topic_id)
