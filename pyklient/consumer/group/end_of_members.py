"""Waits until a group has no members with the other ``coordination``: "kafka" for a member with "zookeeper",
and the reverse.

If both kinds of members read at the same time, each partition is read twice. So a member joins after the last
member of the other kind has left.
"""

import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Literal, TypeVar

from pyklient.errors import KafkaTimeoutError

__all__ = ["await_end_of_members"]

_Step = TypeVar("_Step")

log = logging.getLogger("pyklient.consumer")

_BETWEEN_LOOKS: Final = 0.2
_NAMED: Final = 5
_OTHER: Final = {"kafka": "zookeeper", "zookeeper": "kafka"}


def await_end_of_members(
    group_id: str,
    coordination: Literal["kafka", "zookeeper"],
    members: Sequence[str],
    look: Callable[[], Generator[_Step, Any, Sequence[str]]],
    pause: Callable[[float], _Step],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[_Step, Any, None]:
    """Look at the group again and again, until *coordination* coordinates no members of group *group_id* that
    this member must wait for.

    This is a dialogue with ZooKeeper or with brokers. *members* are the members that the first look has
    found. *look* returns a dialogue that looks again and returns the members found. *pause* returns the step
    of a dialogue that waits for the seconds it is given. If there are still members after *timeout* seconds,
    raises KafkaTimeoutError, which names them.
    """
    began = clock()
    if members:
        log.info(
            "group %s: waiting for members with coordination=%r to leave: %s",
            group_id,
            coordination,
            _names(members),
        )
    while members:
        waited = clock() - began
        if waited >= timeout:
            raise KafkaTimeoutError(
                f"group {group_id} still has members with coordination={coordination!r} after {waited:.1f} "
                f"s: {_names(members)}. A member with coordination={_OTHER[coordination]!r} would read the "
                "same partitions at the same time. Stop the other members, or increase "
                "default_api_timeout_ms to wait longer"
            )
        yield pause(min(_BETWEEN_LOOKS, timeout - waited))
        members = yield from look()


def _names(members: Sequence[str]) -> str:
    return ", ".join(members[:_NAMED]) + (" …" if len(members) > _NAMED else "")
