"""Rebalances while records flow and automatic commits run, without any fault."""

import random
import time
from collections import Counter

import pytest

from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tools.faults.group import PARTITIONS, CommitWatch, Flow, Group, wait_for_all

pytestmark = pytest.mark.slow


def test_members_that_come_and_go_hand_out_each_record_once_and_commit_none_before(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, name = new_topic(partitions=PARTITIONS), new_name()
    dice = random.Random(1)
    with Group(
        bootstrap,
        name,
        topic,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=50,
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
    ) as group:
        watch, flow = CommitWatch(bootstrap, name, group.handed_out), Flow(bootstrap, topic)
        for _ in range(12):
            group.change(dice)
            time.sleep(dice.uniform(0.1, 0.6))  # records flow
        stored = flow.stop()
        assert wait_for_all(group, stored) == []
        watch.stop()
    assert group.errors == []
    assert watch.problems == []
    again = [place for place, times in Counter(group.handed_out).items() if times > 1]
    assert again == []
    each = len(stored) // PARTITIONS
    assert committed(bootstrap, name, topic) == dict.fromkeys(range(PARTITIONS), each)
