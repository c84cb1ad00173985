"""FindCoordinator: the broker that coordinates a group."""

from pyklient.errors import BrokerConnectionError, broker_error
from pyklient.net.dialogue import ANY, Ask, Dialogue, Pause, Refresh, insist
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["find_coordinator"]


def find_coordinator(key: str, key_type: int = 0) -> Dialogue[int]:
    """The id of the node that coordinates group *key* (with *key_type* 1: the transactional id), once
    there is one. Raises a BrokerError for codes that waiting does not cure."""
    while True:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response: FindCoordinatorResponse = yield from insist(Ask(ANY, request, max_version=3))
        if response.error_code:
            error = broker_error(response.error_code, f"finding the coordinator of {key!r}")
            if not error.retriable:
                raise error
            yield Pause(because=error)
            continue
        metadata: Metadata = yield Refresh((), known_ok=True)
        if response.node_id not in metadata.nodes:
            metadata = yield Refresh(())
        if response.node_id in metadata.nodes:
            return response.node_id
        yield Pause(
            because=BrokerConnectionError(
                f"the coordinator of {key!r} is broker {response.node_id} at "
                f"{response.host}:{response.port}, which the cluster's metadata does not name"
            )
        )
