"""Looks up the broker that coordinates a group (FindCoordinator)."""

from functools import partial
from typing import Final

from pyklient.errors import BrokerConnectionError, broker_error
from pyklient.net.dialogue import ANY, Ask, Dialogue, Refresh, retried
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["GROUP", "OFFSETS_TOPIC", "TRANSACTION", "find_coordinator"]

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic in which brokers store committed offsets. A broker creates the topic when a client asks for the
coordinator of a group for the first time. Until then, Kafka stores no members and no offsets of any group."""

GROUP: Final = 0
"""The type of a key that is a group id."""

TRANSACTION: Final = 1
"""The type of a key that is a transactional id."""

_ONE_KEY = 3
"""The last version of FindCoordinator that asks for one key. Version 4 has another layout, which asks for
several keys."""


def find_coordinator(key: str, key_type: int = GROUP) -> Dialogue[int]:
    """Return the id of the node that coordinates the group *key*.

    If *key_type* is TRANSACTION, *key* is a transactional id. Tries again until there is a coordinator.
    Raises BrokerError if a broker answers with an error that is not retriable.
    """
    return (yield from retried(partial(_find, key, key_type)))


def _find(key: str, key_type: int) -> Dialogue[int]:
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    # Version 0 has no key type.
    response: FindCoordinatorResponse = yield Ask(
        ANY, request, max_version=_ONE_KEY, min_version=0 if key_type == GROUP else 1
    )
    if response.error_code:
        raise broker_error(response.error_code, f"cannot find the coordinator of {key!r}")
    metadata: Metadata = yield Refresh((), known_ok=True)
    if response.node_id not in metadata.nodes:
        metadata = yield Refresh(())
    if response.node_id not in metadata.nodes:
        raise BrokerConnectionError(
            f"The coordinator of {key!r} is broker {response.node_id} at {response.host}:{response.port}, "
            "but the metadata of the cluster does not list that broker"
        )
    return response.node_id
