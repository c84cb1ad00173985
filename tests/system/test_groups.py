"""Groups that share partitions: joining, leaving, dying, committing and going on."""

import itertools
import time
from typing import Any

import pytest

from pyklient import Admin, Message, OffsetAndMetadata, Producer, TopicPartition
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import assignments, committed
from tests.servers.process import wait_until
from tests.system.members import Member
from tests.system.reading import connector, read_group, wait_assigned


def produce(bootstrap: str, topic: str, partitions: int, each: int) -> None:
    """*each* records to each of *partitions* partitions."""
    with Producer(bootstrap) as producer:
        for number in range(each):
            for partition in range(partitions):
                producer.send(topic, b"%d" % number, partition=partition)


@pytest.mark.slow
def test_two_members_share_the_partitions_and_each_record_is_handed_out_once(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=4), new_name()
    with (
        Member(bootstrap, group, [topic], client_id="one") as one,
        Member(bootstrap, group, [topic], client_id="two") as two,
    ):
        shares = wait_assigned(bootstrap, group, members=2, partitions=4)
        assert {client: len(share) for client, share in shares.items()} == {"one": 2, "two": 2}
        produce(bootstrap, topic, partitions=4, each=50)
        one.wait_messages(100)
        two.wait_messages(100)
        assert {partition for partition, _ in one.messages} == shares["one"]
        assert {partition for partition, _ in two.messages} == shares["two"]
        assert sorted(one.messages + two.messages) == [(p, offset) for p in range(4) for offset in range(50)]


@pytest.mark.slow
def test_partitions_move_when_a_member_joins_leaves_or_dies(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=4), new_name()
    members: list[Member] = []

    def everything_arrives(each: int) -> None:
        """Each record of *each* in every partition is handed out to one of the members so far."""
        expected = {(partition, offset) for partition in range(4) for offset in range(each)}
        wait_until(
            lambda: {where for member in members for where in member.messages} == expected,
            30,
            "all records read",
        )

    with Member(bootstrap, group, [topic], client_id="stays", commit_each=True) as stays:
        members.append(stays)
        wait_assigned(bootstrap, group, members=1, partitions=4)
        produce(bootstrap, topic, partitions=4, each=10)
        everything_arrives(each=10)

        with Member(bootstrap, group, [topic], client_id="leaves", commit_each=True) as leaves:
            members.append(leaves)
            shares = wait_assigned(bootstrap, group, members=2, partitions=4)
            produce(bootstrap, topic, partitions=4, each=10)
            everything_arrives(each=20)
            leaves.leave()
            assert {partition for partition, _ in leaves.messages} == shares["leaves"]
            wait_assigned(bootstrap, group, members=1, partitions=4)

        quick: dict[str, Any] = {"session_timeout_ms": 4_000, "heartbeat_interval_ms": 300}
        with Member(bootstrap, group, [topic], client_id="dies", commit_each=True, **quick) as dies:
            members.append(dies)
            shares = wait_assigned(bootstrap, group, members=2, partitions=4)
            produce(bootstrap, topic, partitions=4, each=10)
            everything_arrives(each=30)
            dies.kill()
            assert {partition for partition, _ in dies.messages} == shares["dies"]
            wait_assigned(bootstrap, group, members=1, partitions=4)

        produce(bootstrap, topic, partitions=4, each=10)
        everything_arrives(each=40)
        last = [(partition, offset) for partition in range(4) for offset in range(30, 40)]
        assert sorted(where for where in stays.messages if where[1] >= 30) == last


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_each_strategy_deals_out_every_partition_of_two_topics(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, strategy: str
) -> None:
    topics, group = [new_topic(partitions=3), new_topic(partitions=3)], new_name()
    options: dict[str, Any] = {"partition_assignment_strategy": strategy}
    with (
        Member(bootstrap, group, topics, client_id="one", **options),
        Member(bootstrap, group, topics, client_id="two", **options),
        Admin(bootstrap) as admin,
    ):
        expected = {TopicPartition(topic, number) for topic in topics for number in range(3)}

        def dealt() -> bool:
            if len(assignments(bootstrap, group)) != 2:
                return False
            shares = [member.assignment for member in admin.describe_group(group).members]
            return {partition for share in shares for partition in share} == expected

        wait_until(dealt, 60, "both topics dealt out to two members", poll=0.1)
        described = admin.describe_group(group)
        assert described.protocol == strategy
        counts = sorted(len(member.assignment) for member in described.members)
        assert counts == ([2, 4] if strategy == "range" else [3, 3])


def test_a_group_goes_on_where_it_committed(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)
    first = read_group(bootstrap, group, topic, 10, enable_auto_commit=False)
    assert committed(bootstrap, group, topic) == {0: 10}
    second = read_group(bootstrap, group, topic, 20, enable_auto_commit=False)
    assert [message.offset for message in first + second] == list(range(30))
    with Admin(bootstrap) as admin:
        assert admin.group_offsets(group)[TopicPartition(topic, 0)].offset == 30


def test_offsets_can_be_committed_by_name(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)
    with connector(bootstrap, group, enable_auto_commit=False) as reader:
        next(iter(reader.stream(topic)))
        reader.commit_offsets({TopicPartition(topic, 0): OffsetAndMetadata(17, "by hand")})
    with Admin(bootstrap) as admin:
        stored = admin.group_offsets(group)[TopicPartition(topic, 0)]
    assert (stored.offset, stored.metadata) == (17, "by hand")
    assert read_group(bootstrap, group, topic, 1)[0].offset == 17


def test_nothing_is_committed_that_was_not_handed_out(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)
    with connector(bootstrap, group, enable_auto_commit=False) as reader:
        for message in reader.stream(topic):
            if message.offset == 4:
                break
    assert committed(bootstrap, group, topic) == {}
    assert read_group(bootstrap, group, topic, 1)[0].offset == 0


def test_automatic_commit_on_a_clean_exit_covers_what_was_handed_out(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)
    with connector(bootstrap, group, enable_auto_commit=True) as reader:
        for message in reader.stream(topic):
            if message.offset == 4:
                break
    assert committed(bootstrap, group, topic) == {0: 5}


def test_automatic_commit_never_takes_back_what_was_committed(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)
    with connector(bootstrap, group, enable_auto_commit=True, auto_commit_interval_ms=100) as reader:
        messages = list(itertools.islice(reader.stream(topic), 5))
        reader.commit_offsets()
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert committed(bootstrap, group, topic) == {0: len(messages)}
            time.sleep(0.05)
    assert committed(bootstrap, group, topic) == {0: 5}


def test_automatic_commit_on_an_exception_leaves_out_the_message_in_hand(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, partitions=1, each=30)

    def fail_at(offset: int) -> None:
        with connector(bootstrap, group, enable_auto_commit=True) as reader:
            for message in reader.stream(topic):
                if message.offset == offset:
                    raise RuntimeError("the handler failed")

    with pytest.raises(RuntimeError, match="the handler failed"):
        fail_at(4)
    assert committed(bootstrap, group, topic).get(0, 0) <= 4
    assert read_group(bootstrap, group, topic, 1)[0].offset <= 4


@pytest.mark.slow
def test_a_handler_slower_than_twice_the_session_time_out_keeps_its_partitions(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    quick: dict[str, Any] = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 300}
    with (
        Member(bootstrap, group, [topic], client_id="other", **quick) as other,
        connector(bootstrap, group, client_id="slow", enable_auto_commit=False, **quick) as slow,
    ):
        stream = slow.stream(topic)
        shares = wait_assigned(bootstrap, group, members=2, partitions=2)
        produce(bootstrap, topic, partitions=2, each=2)
        messages = iter(stream)
        first = next(messages)
        deadline = time.monotonic() + 6.3
        while time.monotonic() < deadline:
            assert assignments(bootstrap, group) == shares
            time.sleep(0.1)
        second = next(messages)
        assert (first.offset, second.offset) == (0, 1)
        assert {first.partition} == {second.partition} == shares["slow"]
        slow.commit_offsets()
        assert committed(bootstrap, group, topic)[first.partition] == 2
        other.wait_messages(2)
        assert {partition for partition, _ in other.messages} == shares["other"]


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_message_hands_it_out_again(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    produce(bootstrap, topic, partitions=2, each=40)
    quick: dict[str, Any] = {
        "session_timeout_ms": 4_000,
        "heartbeat_interval_ms": 200,
        "auto_commit_interval_ms": 100,
    }
    with Member(bootstrap, group, [topic], streams=2, hold_at=25, **quick) as member:
        member.wait_messages(50)
        assert sorted(member.messages) == [(partition, n) for partition in range(2) for n in range(25)]
        before = {0: 24, 1: 24}
        wait_until(lambda: committed(bootstrap, group, topic) == before, 60, "messages before committed")
        in_hand = time.monotonic() + 0.5
        while time.monotonic() < in_hand:
            assert committed(bootstrap, group, topic) == before
            time.sleep(0.1)
        member.kill()
    again = read_group(bootstrap, group, topic, 32, **quick)
    assert committed_order(again) == {0: list(range(24, 40)), 1: list(range(24, 40))}


def committed_order(messages: list[Message]) -> dict[int, list[int]]:
    """Offsets of *messages* by partition, as they came."""
    found: dict[int, list[int]] = {}
    for message in messages:
        found.setdefault(message.partition, []).append(message.offset)
    return found


def test_a_topic_created_while_a_group_waits_for_it_is_read_from_its_start(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    group, late = new_name(), new_name()
    with connector(bootstrap, group, metadata_max_age_ms=300) as reader:
        stream = reader.stream(late)
        with Admin(bootstrap) as admin:
            wait_until(lambda: group in [found.group_id for found in admin.groups()], 60, f"{group} exists")
            admin.create_topic(late, partitions=2)
        produce(bootstrap, late, partitions=2, each=5)
        messages = list(itertools.islice(stream, 10))
    assert committed_order(messages) == {0: list(range(5)), 1: list(range(5))}


def test_partitions_added_while_a_group_reads_are_read_from_their_start(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=1), new_name()
    with connector(bootstrap, group, metadata_max_age_ms=300) as reader, Admin(bootstrap) as admin:
        stream = reader.stream(topic)
        produce(bootstrap, topic, partitions=1, each=5)
        messages = list(itertools.islice(stream, 5))
        reader.commit_offsets()
        admin.create_partitions(topic, 3)
        wait_until(lambda: len(admin.describe_topic(topic).partitions) == 3, 60, "three partitions", poll=0.1)
        with Producer(bootstrap) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number, partition=1 + number % 2)
        messages += list(itertools.islice(stream, 10))
    assert committed_order(messages) == {number: list(range(5)) for number in range(3)}
