"""The ids of consumers and threads."""

import re
import socket
import time

from pyklient.consumer.group.zookeeper.thread_ids import ThreadId, java_order, new_consumer_id


def test_a_consumer_id_has_the_group_the_host_the_time_and_eight_random_digits() -> None:
    before = time.time_ns() // 1_000_000
    found = {new_consumer_id("billing") for _ in range(50)}
    assert len(found) == 50
    for each in found:
        match = re.fullmatch(rf"billing_{re.escape(socket.gethostname())}-([0-9]{{13}})-[0-9a-f]{{8}}", each)
        assert match, each
        assert before <= int(match[1]) <= time.time_ns() // 1_000_000


def test_row_19_a_thread_is_the_group_the_consumer_and_a_number() -> None:
    assert str(ThreadId(new_consumer_id("group1", "consumer1"), 0)) == "group1_consumer1-0"


def test_ids_are_sorted_by_the_units_of_utf_16() -> None:
    assert sorted([ThreadId("c", 2), ThreadId("c", 10)], key=java_order)[0] == ThreadId("c", 10)
    assert sorted(["\uffee", "𝄞"], key=java_order) == ["𝄞", "\uffee"]
