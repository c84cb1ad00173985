"""Groups of pyklient and of another client, with each assignor that both have."""

import contextlib

import pytest

from pyklient import Admin, Subscriber
from pyklient.consumer.group.assignors.offered_assignors import ASSIGNORS
from tests.interop.peers import PEERS, Peer
from tests.interop.test_groups import Polling, produce
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.java_consumer import JavaConsumer
from tests.servers.process import wait_until
from tests.system.members import Member
from tests.system.reading import wait_assigned

pytestmark = [pytest.mark.brokers(min="2.8", real=True), pytest.mark.slow]

_CONFLUENT, _KAFKA_PYTHON = PEERS
_QUICK = [(_CONFLUENT, "cooperative-sticky"), (_KAFKA_PYTHON, "sticky"), (None, "sticky")]
_OTHERS = [
    *((_CONFLUENT, assignor) for assignor in ("range", "roundrobin")),
    *((_KAFKA_PYTHON, assignor) for assignor in ("range", "roundrobin", "cooperative-sticky")),
    *((None, assignor) for assignor in ("range", "roundrobin", "cooperative-sticky")),
]
_CASES = [
    pytest.param(peer, assignor, id=f"{'java' if peer is None else peer.name}-{assignor}", marks=marks)
    for cases, marks in ((_QUICK, ()), (_OTHERS, pytest.mark.long))
    for peer, assignor in cases
]
"""The other client (None stands for Java's), and the assignor."""
_PARTITIONS = 7


def _expected(bootstrap: str, group: str, topic: str, assignor: str) -> dict[str, set[int]]:
    """Return what the assignor, which agrees with Java's class, assigns to members without a past."""
    with Admin(bootstrap) as admin:
        members = admin.describe_group(group).members
    subscribers = [Subscriber(each.member_id, frozenset({topic})) for each in members]
    assigned = ASSIGNORS[assignor].assign(subscribers, {topic: [frozenset()] * _PARTITIONS})
    return {each.client_id: {where.partition for where in assigned[each.member_id]} for each in members}


@pytest.mark.parametrize(("peer", "assignor"), _CASES)
def test_a_mixed_group_assigns_as_java_does_and_reads_each_record_once(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, peer: Peer | None, assignor: str
) -> None:
    topic, group = new_topic(partitions=_PARTITIONS), new_name()
    # kafka-python puts a version in front of the user data of "sticky". Java does not, and so neither of the
    # two can read what members of the other client had.
    keeps = "sticky" in assignor and (peer is not _KAFKA_PYTHON or assignor == "cooperative-sticky")
    with contextlib.ExitStack() as stack:
        members: list[Member | Polling | JavaConsumer] = []

        def ours(name: str) -> Member:
            member = Member(bootstrap, group, [topic], client_id=name, partition_assignment_strategy=assignor)
            members.append(stack.enter_context(member))
            return member

        def theirs(name: str) -> None:
            member: Polling | JavaConsumer
            if peer is None:
                java = f"org.apache.kafka.clients.consumer.{type(ASSIGNORS[assignor]).__name__}"
                properties = {"client_id": name, "partition_assignment_strategy": java}
                member = JavaConsumer(bootstrap, group, topic, **properties)
            else:
                member = Polling(peer, bootstrap, group, topic, name, assignor)
            stack.enter_context(member)
            members.append(member)

        theirs("theirs")  # which is the leader at first
        before = wait_assigned(bootstrap, group, members=1, partitions=_PARTITIONS)
        leaving = ours("ours")
        two = wait_assigned(bootstrap, group, members=2, partitions=_PARTITIONS)
        produce(bootstrap, topic, _PARTITIONS, 0, 10)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 70, 30, "the first records")
        ours("more")
        three = wait_assigned(bootstrap, group, members=3, partitions=_PARTITIONS)
        if "sticky" in assignor:
            assert sorted(map(len, two.values())) == [3, 4]
            assert sorted(map(len, three.values())) == [2, 2, 3]
            assert not keeps or all(three[name] <= two[name] for name in two), "members keep what they had"
        else:
            assert three == _expected(bootstrap, group, topic, assignor)
        produce(bootstrap, topic, _PARTITIONS, 10, 20)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 140, 30, "the next records")
        leaving.leave()
        left = wait_assigned(bootstrap, group, members=2, partitions=_PARTITIONS)
        if keeps:
            assert all(three[name] <= left[name] for name in left), "members keep what they had"
        assert before == {"theirs": set(range(_PARTITIONS))}
        produce(bootstrap, topic, _PARTITIONS, 20, 30)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 210, 30, "the last records")
    found = sorted(where for member in members for where in member.messages)
    assert found == [(partition, offset) for partition in range(_PARTITIONS) for offset in range(30)]
