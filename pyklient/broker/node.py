"""All that a broker knows, in one place: what the handlers look at and change, on the broker's loop only."""

import asyncio
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Final
from uuid import uuid4

from pyklient.broker.cluster.topics import Topics
from pyklient.broker.config import BrokerSettings
from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.fetch_sessions import FetchSessions
from pyklient.broker.groups.group_coordinator import Coordinator
from pyklient.broker.groups.offsets_journal import OffsetStore

__all__ = ["Node"]

_PRODUCER_ID_BLOCK: Final = 1_000
_SESSION_PARTITIONS: Final = 100_000  # in all fetch sessions together


class Node:
    """One broker's state. ``host`` and ``port`` are what clients are told to connect to; it listens on
    ``listen_host``, at the same port."""

    def __init__(
        self,
        settings: BrokerSettings,
        data: DataDirectory,
        loop: asyncio.AbstractEventLoop,
        address: tuple[str, int],
        listen_host: str,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.host, self.port = address
        self.listen_host = listen_host
        self._data = data
        facts = data.facts
        self.cluster_id: str = facts.get("cluster_id") or urlsafe_b64encode(uuid4().bytes).decode().rstrip(
            "="
        )
        self._next_producer_id: int = facts.get("next_producer_id", 0)
        self._reserved_producer_id = self._next_producer_id
        self._changed = True
        self.topics = Topics(data.path, settings, self._change)
        for name, topic in facts.get("topics", {}).items():
            self.topics.load(name, topic, data.left)
        self.coordinator = Coordinator(settings, OffsetStore(data.path / "offsets.jsonl"), loop)
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, _SESSION_PARTITIONS
        )
        self.save()

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def address(self) -> str:
        """``host:port``, as clients write it."""
        return _joined(self.host, self.port)

    @property
    def listen_address(self) -> str:
        """``host:port`` where it listens."""
        return _joined(self.listen_host, self.port)

    @property
    def data_dir(self) -> Path:
        return self._data.path

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def new_producer_id(self) -> int:
        """An id that no producer has had before, also across restarts."""
        if self._next_producer_id >= self._reserved_producer_id:
            self._reserved_producer_id = self._next_producer_id + _PRODUCER_ID_BLOCK
            self._change()
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return producer_id

    def save(self) -> None:
        """Write down what the next start has to know, if it has changed; before a request is answered."""
        if not self._changed:
            return
        self._data.save(
            {
                "cluster_id": self.cluster_id,
                "next_producer_id": self._reserved_producer_id,
                "topics": self.topics.facts(),
            }
        )
        self._changed = False

    def _change(self) -> None:
        self._changed = True

    def close(self) -> None:
        """Close all files, and note that this was a clean stop."""
        self.coordinator.close()
        self.coordinator.offsets.close()
        states = self.topics.states()
        self.topics.close()
        self._data.leave(states)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
