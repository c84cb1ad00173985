"""Files with the committed offsets of a group: CSV, as Kafka's ``kafka-consumer-groups.sh`` writes and reads
it, and JSON.

A line of CSV is ``topic,partition,offset`` or, if the file has the offsets of several groups,
``group,topic,partition,offset``. JSON is a list of objects with the same fields, and with ``metadata`` if a
text is stored with the offset.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyklient import argument_checks
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["csv_lines", "json_rows", "parse_offsets"]


def csv_lines(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """Return *offsets* as lines of CSV, without a header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((*each, at.offset) for each, at in offsets.items())
    return text.getvalue()


def json_rows(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[dict[str, Any]]:
    """Return *offsets* as a list of JSON objects."""
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": at.offset,
            **({"metadata": at.metadata} if at.metadata else {}),
        }
        for each, at in offsets.items()
    ]


def parse_offsets(content: bytes, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets of the group *group_id* in *content*, which is CSV or JSON.

    The offsets of other groups are left out. Raises ValueError, which names the line or the row, if *content*
    is malformed, if it has two offsets for one partition, or if it has no offset of the group.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is not UTF-8") from None
    rows = _json_rows(text) if text.lstrip().startswith("[") else _csv_rows(text)
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    try:
        of_groups = list(rows)
    except csv.Error as error:
        raise ValueError(f"the file is neither CSV nor JSON: {error}") from None
    for where, group, partition, position in of_groups:
        if group not in (None, group_id):
            continue
        if partition in found:
            raise ValueError(f"{where} has a second offset of {partition}; remove one of the two")
        found[partition] = position
    if not found:
        raise ValueError(f"the file has no offset of group {group_id}")
    return found


_Rows = Iterable[tuple[str, str | None, TopicPartition, OffsetAndMetadata]]
"""The rows of a file. Each row has its place in the file (for error messages), the group or None, the
partition, and the committed offset."""


def _csv_rows(text: str) -> _Rows:
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    for fields in reader:
        where = f"line {reader.line_num}"
        if not fields:
            continue
        if len(fields) not in (3, 4):
            raise ValueError(f"{where} is neither topic,partition,offset nor group,topic,partition,offset")
        *group, topic, partition, offset = (field.strip() for field in fields)
        yield (
            where,
            group[0] if group else None,
            _partition(where, topic, _whole(where, "partition", partition)),
            OffsetAndMetadata(_whole(where, "offset", offset)),
        )


def _json_rows(text: str) -> _Rows:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the file is not JSON: {error}") from None
    for number, row in enumerate(rows, 1):
        where = f"row {number}"
        if not isinstance(row, dict) or not {"topic", "partition", "offset"} <= row.keys():
            raise ValueError(f"{where} is not an object with topic, partition and offset")
        if unknown := row.keys() - {"group", "topic", "partition", "offset", "metadata"}:
            raise ValueError(f"{where} has the unknown field {min(unknown)!r}")
        metadata = row.get("metadata", "")
        if not isinstance(metadata, str):
            raise ValueError(f"{where}: the metadata {metadata!r} is not text")
        yield (
            where,
            row.get("group"),
            _partition(where, row["topic"], _whole(where, "partition", row["partition"])),
            OffsetAndMetadata(_whole(where, "offset", row["offset"]), metadata),
        )


def _partition(where: str, topic: Any, number: int) -> TopicPartition:
    if not isinstance(topic, str):
        raise ValueError(f"{where}: the topic {topic!r} is not text")
    if number > argument_checks.INT32_MAX:
        raise ValueError(f"{where}: the partition number {number} is too large")
    try:
        return TopicPartition(argument_checks.topic_name(topic), number)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _whole(where: str, what: str, given: Any) -> int:
    text = str(given)
    if isinstance(given, bool) or not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ValueError(f"{where}: the {what} {given!r} is not a whole number of 0 or more")
    if (number := int(text)) > argument_checks.INT64_MAX:
        raise ValueError(f"{where}: the {what} {number} is too large")
    return number
