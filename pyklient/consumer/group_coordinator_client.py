"""The broker that coordinates a group: found once, and looked for again after it has moved or failed."""

from typing import Any

from pyklient.errors import KafkaError
from pyklient.net.connection_pool import Purpose
from pyklient.net.dialogue import Ask, Dialogue
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.protocol.schema import ApiMessage

__all__ = ["GroupCoordinatorClient"]


class GroupCoordinatorClient:
    """The coordinator of group *group_id*, shared by a membership and by the store of the group's offsets.

    ``node_id`` is None while it is not known.
    """

    def __init__(self, group_id: str, node_id: int | None = None) -> None:
        self.group_id = group_id
        self.node_id = node_id

    def forget(self) -> None:
        """Look for the coordinator again before the next request."""
        self.node_id = None

    def ask(
        self,
        request: ApiMessage,
        *,
        timeout: float | None = None,
        purpose: Purpose = Purpose.GROUP,
        max_version: int | None = None,
    ) -> Dialogue[Any]:
        """Ask the coordinator, after looking it up if need be.

        After a failure of the network the coordinator is forgotten, and the failure is raised.
        """
        node_id = self.node_id
        if node_id is None:
            node_id = self.node_id = yield from find_coordinator(self.group_id)
        try:
            return (yield Ask(node_id, request, purpose, timeout, max_version))
        except KafkaError as error:
            if error.retriable:
                self.node_id = None
            raise
