"""Reads the file ``offsets.jsonl``, in which earlier releases of this broker stored the state of groups.

Each line of the file is a JSON object for one commit, one completed generation or one deletion. A crash may
have left an incomplete last line.
"""

import json
import logging
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

from pyklient.broker.groups.committed_offset import CommittedOffset, offset_key, offset_value
from pyklient.broker.groups.offsets_partition import generation_key, generation_value
from pyklient.protocol.messages.offsets_topic import GroupMetadataValue
from pyklient.protocol.records import NewRecord
from pyklient.topic_partition import TopicPartition

__all__ = ["FORMER_JOURNAL", "read_former_journal"]

_logger = logging.getLogger("pyklient.broker")

FORMER_JOURNAL: Final = "offsets.jsonl"


def read_former_journal(path: Path, now_ms: int) -> dict[str, list[NewRecord]]:
    """Return, for each group in the file *path*, the records that store its state in ``__consumer_offsets``.

    The file does not have the time of a commit, so all commits get the time *now_ms*.
    """
    committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    generations: dict[str, GroupMetadataValue] = {}
    data, valid = path.read_bytes(), 0
    for line in data.splitlines(keepends=True):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("the last line of the file is incomplete")
            _apply(json.loads(line), committed, generations, now_ms)
        except (ValueError, KeyError, TypeError, AttributeError):
            _logger.warning(
                "%s: the last %d bytes of the file were ignored, because they are incomplete or invalid",
                path,
                len(data) - valid,
            )
            break
        valid += len(line)
    records: dict[str, list[NewRecord]] = {}
    for group_id, offsets in committed.items():
        records[group_id] = [
            NewRecord(now_ms, offset_key(group_id, partition), offset_value(each))
            for partition, each in offsets.items()
        ]
    for group_id, generation in generations.items():
        record = NewRecord(now_ms, generation_key(group_id), generation_value(generation))
        records.setdefault(group_id, []).append(record)
    return {group_id: each for group_id, each in records.items() if each}


def _apply(
    entry: dict[str, Any],
    committed: dict[str, dict[TopicPartition, CommittedOffset]],
    generations: dict[str, GroupMetadataValue],
    now_ms: int,
) -> None:
    group_id = entry.get("group")
    if group_id is None:
        for group in committed.values():
            for partition in [partition for partition in group if partition.topic == entry["topic"]]:
                del group[partition]
    elif "commit" in entry:
        offsets = committed.setdefault(group_id, {})
        for topic, index, offset, leader_epoch, metadata in entry["commit"]:
            offsets[TopicPartition(topic, index)] = CommittedOffset(offset, leader_epoch, metadata, now_ms)
    elif "generation" in entry:
        generations[group_id] = _generation(entry["generation"], now_ms)
    else:
        committed.pop(group_id, None)
        generations.pop(group_id, None)


def _generation(saved: dict[str, Any], now_ms: int) -> GroupMetadataValue:
    protocol = saved["protocol"]
    return GroupMetadataValue(
        protocol_type=saved["protocol_type"] or "",
        generation=saved["generation"],
        protocol=protocol,
        leader=saved["leader"],
        current_state_timestamp=now_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member["member_id"],
                group_instance_id=member["instance_id"],
                client_id=member["client_id"],
                client_host=member["client_host"],
                rebalance_timeout=member["rebalance_timeout_ms"],
                session_timeout=member["session_timeout_ms"],
                subscription=b64decode(dict(member["protocols"]).get(protocol, "")),
                assignment=b64decode(member["assignment"]),
            )
            for member in saved["members"]
        ],
    )
