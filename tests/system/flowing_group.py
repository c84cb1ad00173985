"""A group whose members join and leave while records flow, and the promises that it must keep."""

from collections import Counter

from tests.servers.groups import committed
from tools.faults.group import PARTITIONS, CommitWatch, Flow, Group, wait_for_all

__all__ = ["FlowingGroup"]


class FlowingGroup:
    """The group *name*, which reads *topic* while records are sent to each of its PARTITIONS partitions."""

    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        self._bootstrap, self.name, self._topic = bootstrap, name, topic
        self.members = Group(
            bootstrap,
            name,
            topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=50,
            heartbeat_interval_ms=100,
            session_timeout_ms=6_000,
        )
        self._watch = CommitWatch(bootstrap, name, self.members.handed_out)
        self._flow = Flow(bootstrap, topic)

    def check_each_record_once(self) -> None:
        """Stop the records, and let all members leave. Check that each record was handed out once, and
        committed afterwards."""
        with self.members:
            stored = self._flow.stop()
            assert wait_for_all(self.members, stored) == []
            self._watch.stop()
        assert self.members.errors == []
        assert self._watch.problems == []
        assert [place for place, times in Counter(self.members.handed_out).items() if times > 1] == []
        each = len(stored) // PARTITIONS
        assert committed(self._bootstrap, self.name, self._topic) == dict.fromkeys(range(PARTITIONS), each)
