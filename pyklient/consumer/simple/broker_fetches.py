"""Dialogues that fetch from one broker, and the response to a request with several partitions."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyklient.consumer.simple.fetch_requests import (
    FETCH_VERSION,
    PartitionFetch,
    SimpleFetchRequest,
    wire_request,
)
from pyklient.consumer.simple.fetched import Fetched, fetched_by_partition
from pyklient.errors import ConfigurationError
from pyklient.net.dialogue import ANY, Ask, Dialogue
from pyklient.topic_partition import TopicPartition

__all__ = ["SimpleFetchResponse", "fetch", "multifetch"]

_SHOWN: Final = 5


class SimpleFetchResponse:
    """The response to a SimpleFetchRequest: the messages, the error code and the high watermark of each
    partition.

    Each method raises ConfigurationError for a partition that the request did not name.
    """

    def __init__(self, fetched: Mapping[TopicPartition, Fetched]) -> None:
        self._fetched = fetched

    def __repr__(self) -> str:
        return f"<SimpleFetchResponse of {self._names()}>"

    @property
    def has_error(self) -> bool:
        """True if a partition has an error."""
        return any(each.error is not None for each in self._fetched.values())

    def message_set(self, topic: str, partition: int) -> Fetched:
        """Return the messages of a partition. If the partition has an error, iterating over them raises the
        error."""
        try:
            return self._fetched[TopicPartition(topic, partition)]
        except KeyError:
            raise ConfigurationError(
                f"the response has no partition {topic}-{partition}; the request named {self._names()}"
            ) from None

    def error_code(self, topic: str, partition: int) -> int:
        """Return the broker's error code for a partition; 0 means no error."""
        return self.message_set(topic, partition).error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the offset after the last message that all in-sync replicas of a partition have; -1 if the
        broker has not sent it."""
        return self.message_set(topic, partition).high_watermark

    def _names(self) -> str:
        names = [str(each) for each in self._fetched]
        return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else "")


def fetch(request: SimpleFetchRequest) -> Dialogue[SimpleFetchResponse]:
    """Send *request* to the broker, and return its response."""
    wire = wire_request(request.fetches, request.max_wait_ms, request.min_bytes, request.max_bytes)
    response = yield Ask(ANY, wire, max_version=FETCH_VERSION)
    return SimpleFetchResponse(fetched_by_partition(response, request.fetches))


def multifetch(fetches: Sequence[PartitionFetch]) -> Dialogue[list[Fetched]]:
    """Return the results of *fetches* in the same order.

    A broker answers once for each partition that a request names. So if a partition appears several times in
    *fetches*, several requests are sent, one after the other.
    """
    results: dict[int, Fetched] = {}
    for numbers in _requests(fetches):
        response = yield from fetch(SimpleFetchRequest(tuple(fetches[number] for number in numbers)))
        for number in numbers:
            results[number] = response.message_set(*fetches[number].where)
    return [results[number] for number in range(len(fetches))]


def _requests(fetches: Sequence[PartitionFetch]) -> list[list[int]]:
    """Divide *fetches* among requests, and return the indexes of each request's fetches. The first fetch of
    every partition is in the first request, the second fetch of a partition is in the second request, and so
    on."""
    requests: list[list[int]] = []
    seen: dict[TopicPartition, int] = {}
    for number, each in enumerate(fetches):
        before = seen.get(each.where, 0)
        seen[each.where] = before + 1
        if before == len(requests):
            requests.append([])
        requests[before].append(number)
    return requests
