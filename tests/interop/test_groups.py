"""Groups of other clients on the reference broker, and groups with members of all three clients."""

import contextlib
import threading

import pytest

from pyklient import Admin, Producer, TopicPartition
from tests.interop.peers import PEERS, Peer
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.process import wait_until
from tests.system.members import Member
from tests.system.reading import read_group, wait_assigned

pytestmark = [pytest.mark.brokers(min="4.3"), pytest.mark.slow]


def produce(bootstrap: str, topic: str, partitions: int, first: int, last: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(first, last):
            for partition in range(partitions):
                producer.send(topic, b"%d" % number, partition=partition)


class Polling:
    """A peer's member in a thread that polls it continuously, as an application would."""

    def __init__(
        self, peer: Peer, bootstrap: str, group: str, topic: str, client_id: str, assignor: str = "range"
    ) -> None:
        self.messages: list[tuple[int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(peer, bootstrap, group, topic, client_id, assignor), daemon=True
        )

    def _run(self, peer: Peer, *where: str) -> None:
        with peer.member(*where) as member:
            while not self._stop.is_set():
                self.messages += [(partition, offset) for partition, offset, _ in member.poll()]

    def __enter__(self) -> "Polling":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


# On Kafka itself this would be a test of the peers alone.
@pytest.mark.brokers(real=False)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peers_group_shares_commits_and_goes_on(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, peer: Peer
) -> None:
    topic, group = new_topic(partitions=4), new_name()
    with (
        Polling(peer, bootstrap, group, topic, "one") as one,
        Polling(peer, bootstrap, group, topic, "two") as two,
    ):
        shares = wait_assigned(bootstrap, group, members=2, partitions=4)
        produce(bootstrap, topic, 4, 0, 25)
        wait_until(lambda: len(one.messages) + len(two.messages) >= 100, 60, "all messages read")
        assert {partition for partition, _ in one.messages} == shares["one"]
        assert {partition for partition, _ in two.messages} == shares["two"]
    assert committed(bootstrap, group, topic) == dict.fromkeys(range(4), 25)
    produce(bootstrap, topic, 4, 25, 30)
    with Polling(peer, bootstrap, group, topic, "three") as three:
        wait_until(lambda: len(three.messages) >= 20, 60, "the rest read")
    assert sorted(three.messages) == [
        (partition, number) for partition in range(4) for number in range(25, 30)
    ]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_pyklient_goes_on_where_a_peer_committed_and_the_reverse(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, peer: Peer
) -> None:
    topic, group = new_topic(), new_name()
    produce(bootstrap, topic, 1, 0, 10)
    with Polling(peer, bootstrap, group, topic, "first") as first:
        wait_until(lambda: len(first.messages) == 10, 60, "ten messages read")
    produce(bootstrap, topic, 1, 10, 20)
    ours = read_group(bootstrap, group, topic, 10)
    assert [message.offset for message in ours] == list(range(10, 20))
    produce(bootstrap, topic, 1, 20, 30)
    with Polling(peer, bootstrap, group, topic, "last") as last:
        wait_until(lambda: len(last.messages) == 10, 60, "ten more read")
    assert [offset for _, offset in last.messages] == list(range(20, 30))


def test_members_of_three_clients_share_one_group(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=6), new_name()
    with contextlib.ExitStack() as stack:
        theirs = []
        for count, peer in enumerate(PEERS, 1):
            theirs.append(stack.enter_context(Polling(peer, bootstrap, group, topic, peer.name)))
            wait_assigned(bootstrap, group, members=count, partitions=6)
        ours = stack.enter_context(Member(bootstrap, group, [topic], client_id="pyklient"))
        shares = wait_assigned(bootstrap, group, members=3, partitions=6)
        assert {client: len(share) for client, share in shares.items()} == {
            "pyklient": 2,
            "confluent-kafka": 2,
            "kafka-python": 2,
        }
        produce(bootstrap, topic, 6, 0, 20)
        members: list[Member | Polling] = [ours, *theirs]
        wait_until(lambda: sum(len(member.messages) for member in members) >= 120, 60, "all messages read")
        found = sorted(where for member in members for where in member.messages)
        assert found == [(partition, offset) for partition in range(6) for offset in range(20)]
        assert {partition for partition, _ in ours.messages} == shares["pyklient"]
        with Admin(bootstrap) as admin:
            members_described = admin.describe_group(group).members
        dealt = {tp for member in members_described for tp in member.assignment}
        assert dealt == {TopicPartition(topic, partition) for partition in range(6)}

        ours.leave()
        left = wait_assigned(bootstrap, group, members=2, partitions=6)
        assert {client: len(share) for client, share in left.items()} == {
            "confluent-kafka": 3,
            "kafka-python": 3,
        }
