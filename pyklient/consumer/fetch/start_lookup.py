"""The lookup of the offsets at which newly assigned partitions begin, for threads that wait for them."""

import queue
import threading
import time
from collections.abc import Mapping
from typing import TypeAlias

from pyklient.consumer.start_points import StartPoint, find_offsets
from pyklient.errors import KafkaTimeoutError
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["StartLookup"]

_Offsets: TypeAlias = dict[TopicPartition, int]
_Result: TypeAlias = "queue.SimpleQueue[_Offsets | Exception]"


class StartLookup:
    """Finds the offsets of start points. Any thread may call :meth:`find`.

    Each lookup runs in a thread of its own. So the thread that waits for the lookup stops waiting when the
    connector closes, even if a broker has not answered yet.
    """

    def __init__(self, client: NetworkClient, isolation_level: int) -> None:
        self._client = client
        self._isolation_level = isolation_level
        self._closing = False
        self._running: dict[_Result, threading.Thread] = {}
        """The threads of the lookups that run now. The key is the queue into which a thread puts its result
        or its error."""

    def find(self, points: Mapping[TopicPartition, StartPoint], timeout: float) -> _Offsets:
        """Return the offsets of *points*. Leave out the partitions that have no leader now.

        Returns an empty mapping as soon as :meth:`close` is called. Raises a KafkaError after *timeout*
        seconds at the latest.
        """
        result: _Result = queue.SimpleQueue()
        thread = self._running[result] = threading.Thread(
            target=self._run, args=(result, points, timeout), name="pyklient-start-lookup", daemon=True
        )
        if self._closing:  # close() may not have seen this lookup
            del self._running[result]
            return {}
        thread.start()
        try:
            found = result.get(timeout=max(0.0, timeout))
        except queue.Empty:
            raise KafkaTimeoutError(
                f"the offsets at which partitions begin could not be looked up within {timeout:.3g} s; check "
                "that the brokers can be reached"
            ) from None
        if not isinstance(found, Exception):
            return found
        try:
            raise found
        finally:
            del found  # its traceback refers to this frame

    def close(self) -> None:
        """Let the threads that wait for lookups stop waiting. The lookups end when the client is closed. This
        call acquires no lock and never waits."""
        self._closing = True
        for result in self._running.copy():
            result.put({})

    def join(self, deadline: float) -> None:
        """Wait for the threads of the lookups to end, but not after *deadline*."""
        for thread in self._running.copy().values():
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, result: _Result, points: Mapping[TopicPartition, StartPoint], timeout: float) -> None:
        try:
            result.put(self._look_up(points, timeout))
        except Exception as error:
            result.put(error)
        finally:
            self._running.pop(result, None)

    def _look_up(self, points: Mapping[TopicPartition, StartPoint], timeout: float) -> _Offsets:
        deadline = time.monotonic() + timeout
        metadata = self._client.metadata
        if any(metadata.leader(each) is None for each in points):
            metadata = self._client.refresh_metadata({each.topic for each in points}, timeout)
        wanted = {each: point for each, point in points.items() if metadata.leader(each) is not None}
        left = max(0.0, deadline - time.monotonic())
        return self._client.play(find_offsets(wanted, self._isolation_level), left)
