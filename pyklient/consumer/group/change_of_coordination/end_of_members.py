"""Makes a member with ``coordination="kafka"`` wait until its group has no members with
``coordination="zookeeper"``, or the other way round.

If members of both kinds read at the same time, each partition is read twice. So a member joins after the last
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
    """Wait until all members whose option ``coordination`` is *coordination* have left the group *group_id*.

    This is a dialogue with ZooKeeper or with brokers. *members* are the members found so far. *look* returns
    a dialogue that returns the members which are left. *pause* takes a number of seconds, and returns the
    request that makes this dialogue wait for so long. Raises KafkaTimeoutError after *timeout* seconds. The
    error names the remaining members.
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
