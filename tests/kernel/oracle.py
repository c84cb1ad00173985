"""Kafka's own record classes, called by tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pyklient.protocol.records import Compression, NewRecord
from tests.oracles.process import Oracle

__all__ = ["KAFKAS", "RecordsOracle", "Refused"]

KAFKAS = ("4.3.1", "3.9.1")

_SOURCE = Path(__file__).parents[1] / "oracles" / "RecordsOracle.java"


class Refused(Exception):
    """Kafka's classes raised an exception, whose message this has."""


class RecordsOracle(Oracle):
    """The class ``MemoryRecords`` of one Kafka version in a separate process. A context manager."""

    def __init__(self, version: str, scratch: Path) -> None:
        """*scratch* is a directory for the source file, which differs in its imports."""
        source = _SOURCE.read_text()
        if not version.startswith("4."):
            source = source.replace(".record.internal.", ".record.")
        path = scratch / _SOURCE.name
        path.write_text(source)
        super().__init__(version, str(path))

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def write(
        self,
        records: Sequence[NewRecord],
        *,
        magic: int = 2,
        compression: Compression = Compression.NONE,
        base_offset: int = 0,
        timestamp_type: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """Return the records as Kafka writes them."""
        given = [
            {
                "timestamp": record.timestamp_ms,
                "key": _hex(record.key),
                "value": _hex(record.value),
                "headers": [[name, _hex(value)] for name, value in record.headers],
            }
            for record in records
        ]
        return bytes.fromhex(
            self.question(
                "write",
                records=given,
                magic=magic,
                codec=compression.name.lower(),
                base_offset=base_offset,
                timestamp_type=timestamp_type,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                leader_epoch=leader_epoch,
                transactional=transactional,
            )
        )

    def mark(self, *, commit: bool, base_offset: int, producer_id: int) -> bytes:
        """Return the control batch that ends a transaction."""
        return bytes.fromhex(
            self.question("mark", commit=commit, base_offset=base_offset, producer_id=producer_id)
        )

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Return the batches that Kafka finds in *data*. Raises Refused if Kafka raises an exception."""
        found: list[dict[str, Any]] = json.loads(self.question("read", bytes=data.hex()))
        for batch in found:
            for record in batch["records"]:
                record["key"] = _bytes(record["key"])
                record["value"] = _bytes(record["value"])
                record["headers"] = tuple((name, _bytes(value)) for name, value in record["headers"])
        return found

    def lower(self, data: bytes, magic: int, from_offset: int = 0) -> bytes:
        """Return *data* converted for a consumer that knows formats up to *magic* (Kafka before 4)."""
        return bytes.fromhex(self.question("lower", bytes=data.hex(), magic=magic, from_offset=from_offset))

    def murmur2(self, data: Sequence[bytes]) -> list[int]:
        """Return the default partitioner's hash of each item."""
        lines = self.ask(json.dumps({"do": "murmur2", "bytes": each.hex()}) for each in data)
        return [int(line) for line in lines]

    def question(self, do: str, **given: Any) -> str:
        """Return the answer to one request. Raises Refused if Kafka raises an exception."""
        [answer] = self.ask([json.dumps({"do": do, **given})])
        if answer.startswith("!"):
            raise Refused(answer[2:])
        return answer


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
