"""How long a large group takes to assign its partitions again after a member has left."""

import time
from contextlib import ExitStack

from pyklient import Admin
from tests.servers.process import wait_until
from tools.group_chaos.hand_outs import HandOuts
from tools.group_chaos.running_member import RunningMember

__all__ = ["seconds_to_assign"]

_PATIENCE = 120.0


def seconds_to_assign(bootstrap: str, name: str, assignor: str, *, members: int, partitions: int) -> float:
    """Return the seconds from the moment a member of a group leaves until the other *members* own all
    *partitions* of a new topic *name*."""
    with Admin(bootstrap, client_id="chaos", default_api_timeout_ms=60_000) as admin:
        admin.create_topic(name, partitions)
    options = {"partition_assignment_strategy": assignor, "session_timeout_ms": 30_000}
    with ExitStack() as stack:
        group = [
            stack.enter_context(RunningMember(bootstrap, name, f"{name}", f"m{number}", HandOuts(), options))
            for number in range(members + 1)
        ]

        def wait_for_all() -> None:
            wait_until(
                lambda: sum(each.owned for each in group) == partitions and all(each.owned for each in group),
                _PATIENCE,
                f"{partitions} partitions owned by {len(group)} members",
            )

        wait_for_all()
        leaving = group.pop()
        began = time.monotonic()
        leaving.leave()
        wait_for_all()
        took = max(each.owned_since for each in group) - began
        for each in group:
            each.kill()
    return took
