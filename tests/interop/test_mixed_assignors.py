"""Groups of pyklient and of another client, with each assignor that both have."""

import contextlib
from functools import partial

import pytest

from pyklient import Admin, Subscriber
from pyklient.assignors.assignors_by_name import load_assignor
from tests.interop.peers import PEERS, SESSION_MS, Peer
from tests.interop.polling_process import PollingProcess
from tests.interop.test_groups import produce
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
_PATIENCE = 90.0


def _expected(bootstrap: str, group: str, topic: str, assignor: str) -> dict[str, set[int]]:
    """Return what the assignor, which agrees with Java's class, assigns to members without a past."""
    with Admin(bootstrap) as admin:
        members = admin.describe_group(group).members
    subscribers = [Subscriber(each.member_id, frozenset({topic})) for each in members]
    assigned = load_assignor(assignor).assign(subscribers, {topic: [frozenset()] * _PARTITIONS})
    return {each.client_id: {where.partition for where in assigned[each.member_id]} for each in members}


@pytest.mark.parametrize(("peer", "assignor"), _CASES)
def test_a_mixed_group_assigns_as_java_does_and_reads_each_record_once(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, peer: Peer | None, assignor: str
) -> None:
    topic, group = new_topic(partitions=_PARTITIONS), new_name()
    assigned = partial(wait_assigned, bootstrap, group, partitions=_PARTITIONS, timeout=_PATIENCE)
    # kafka-python puts a version in front of the user data of "sticky". Java does not, and so neither of the
    # two can read what members of the other client had.
    keeps = "sticky" in assignor and (peer is not _KAFKA_PYTHON or assignor == "cooperative-sticky")
    with contextlib.ExitStack() as stack:
        members: list[Member | PollingProcess | JavaConsumer] = []

        def ours(name: str) -> Member:
            member = Member(
                bootstrap,
                group,
                [topic],
                client_id=name,
                partition_assignment_strategy=assignor,
                session_timeout_ms=SESSION_MS,
            )
            members.append(stack.enter_context(member))
            return member

        def theirs(name: str) -> None:
            member: PollingProcess | JavaConsumer
            if peer is None:
                java = f"org.apache.kafka.clients.consumer.{type(load_assignor(assignor)).__name__}"
                properties = {"client_id": name, "partition_assignment_strategy": java}
                properties["session_timeout_ms"] = str(SESSION_MS)
                member = JavaConsumer(bootstrap, group, topic, **properties)
            else:
                member = PollingProcess(peer, bootstrap, group, topic, name, assignor)
            stack.enter_context(member)
            members.append(member)

        theirs("theirs")  # which is the leader at first
        before = assigned(members=1)
        leaving = ours("ours")
        two = assigned(members=2)
        produce(bootstrap, topic, _PARTITIONS, 0, 10)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 70, _PATIENCE, "the first records")
        ours("more")
        three = assigned(members=3)
        if "sticky" in assignor:
            assert sorted(map(len, two.values())) == [3, 4]
            assert sorted(map(len, three.values())) == [2, 2, 3]
            assert not keeps or all(three[name] <= two[name] for name in two), "members keep what they had"
        else:
            assert three == _expected(bootstrap, group, topic, assignor)
        produce(bootstrap, topic, _PARTITIONS, 10, 20)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 140, _PATIENCE, "the next records")
        leaving.leave()
        left = assigned(members=2)
        if keeps:
            assert all(three[name] <= left[name] for name in left), "members keep what they had"
        assert before == {"theirs": set(range(_PARTITIONS))}
        produce(bootstrap, topic, _PARTITIONS, 20, 30)
        wait_until(lambda: sum(len(each.messages) for each in members) >= 210, _PATIENCE, "the last records")
    found = sorted(where for member in members for where in member.messages)
    assert found == [(partition, offset) for partition in range(_PARTITIONS) for offset in range(30)]
