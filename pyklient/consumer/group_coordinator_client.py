"""The group coordinator of a consumer. It is looked up once, and again after it has moved or failed."""

from typing import Any

from pyklient.errors import KafkaError
from pyklient.net.connection_pool import Purpose
from pyklient.net.dialogue import Ask, Dialogue
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.protocol.schema import ApiMessage

__all__ = ["GroupCoordinatorClient"]


class GroupCoordinatorClient:
    """Sends requests to the coordinator of the group *group_id*, for the membership and the offset storage.

    ``node_id`` is None while the coordinator is not known.
    """

    def __init__(self, group_id: str, node_id: int | None = None) -> None:
        self.group_id = group_id
        self.node_id = node_id

    def forget(self) -> None:
        """Forget which broker is the coordinator, so that the next request looks it up again."""
        self.node_id = None

    def ask(
        self,
        request: ApiMessage,
        *,
        timeout: float | None = None,
        purpose: Purpose = Purpose.GROUP,
        max_version: int | None = None,
        min_version: int = 0,
    ) -> Dialogue[Any]:
        """Send *request* to the group coordinator, and return the response. Look up the coordinator first if
        it is not known.

        If the network fails, forget the coordinator and raise the failure.
        """
        node_id = self.node_id
        if node_id is None:
            node_id = self.node_id = yield from find_coordinator(self.group_id)
        try:
            return (yield Ask(node_id, request, purpose, timeout, max_version, min_version))
        except KafkaError as error:
            if error.retriable:
                self.node_id = None
            raise
