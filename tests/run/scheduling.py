"""Distributes the groups of tests to xdist's workers, by lanes."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.run.groups import group_of, lanes, seconds

__all__ = ["LaneScheduling", "write_groups"]


def write_groups(directory: Path, worker: str, items: Iterable[pytest.Item]) -> None:
    """Write the group of each test for the process that schedules, which knows only the names of tests."""
    written = directory / f"{worker}.new"
    written.write_text(json.dumps({item.nodeid: group_of(item) for item in items}))
    written.replace(directory / f"{worker}.json")


class LaneScheduling(LoadScopeScheduling):
    """Gives each worker the groups of its lane, one after the other, and then files, the longest first.

    *directory* is where workers have written their groups before they reported that they have all tests.
    """

    def __init__(self, config: pytest.Config, log: Producer, directory: Path) -> None:
        super().__init__(config, log)
        self._directory = directory
        self._groups: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    def schedule(self) -> None:
        if not self._groups:
            written = next(self._directory.glob("*.json"))
            self._groups = json.loads(written.read_text())
            dealt = enumerate(lanes(set(self._groups.values()), self.numnodes))
            self._owners = {group: f"gw{number}" for number, lane in dealt for group in lane}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]

    def _assign_work_unit(self, node: WorkerController) -> None:
        group = self._next(node)
        if group is not None:
            self.workqueue.move_to_end(group, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if not node.shutting_down and self._next(node) is None:
            node.shutdown()  # what is left is in the lane of another
        else:
            super()._reschedule(node)

    def _next(self, node: WorkerController) -> str | None:
        """Return the group that *node* runs next, of those that no worker has begun."""
        alive = {each.gateway.id for each in self.nodes}
        lane = [group for group, owner in self._owners.items() if owner == node.gateway.id]
        free = [group for group in self.workqueue if self._owners.get(group) not in alive]
        free.sort(key=lambda group: -seconds(group, len(self.workqueue[group])))
        return next((group for group in (*lane, *free) if group in self.workqueue), None)
