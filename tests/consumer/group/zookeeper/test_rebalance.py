"""The dialogues of a rebalance, on nodes in memory."""

import json
from collections.abc import Iterator, Mapping

import pytest

from pyklient import TopicPartition
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.group.zookeeper.partition_ownership import become_owner, release
from pyklient.consumer.group.zookeeper.rebalance import (
    add_member,
    read_group,
    rebalance,
    renew_member,
    withdraw,
)
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.consumer.topic_filters.topic_filter import Whitelist
from pyklient.errors import NodeContentError, RegistryError
from pyklient.registry.requests import Children, Create, Delete, Read
from tests.consumer.group.zookeeper.nodes import Nodes
from tests.run.seed import dice

OWNERS = "/consumers/g/owners/t/"


def cluster(**topics: int) -> Nodes:
    """Return nodes with one broker and *topics* with so many partitions."""
    nodes = Nodes({"/brokers/ids/0": (b"{}", "broker")})
    for topic, count in topics.items():
        partitions = {str(number): [0] for number in range(count)}
        nodes.found[f"/brokers/topics/{topic}"] = (
            json.dumps({"version": 1, "partitions": partitions}).encode(),
            None,
        )
    return nodes


def member(name: str = "a", assignor: str = "range", **streams: int) -> ZooKeeperMember:
    """Return a member with so many streams of each topic, one of topic t by default."""
    return ZooKeeperMember("g", f"g_{name}", assignor, Subscription(streams or {"t": 1}))


def owned(assigned: Mapping[TopicPartition, ThreadId] | None) -> dict[str, str]:
    assert assigned is not None
    return {f"{each.topic}/{each.partition}": str(thread) for each, thread in assigned.items()}


def test_a_member_writes_what_scala_would_have_written() -> None:
    nodes = cluster(t=2)
    assert nodes.play(add_member(member(t=2)))
    content, session = nodes.found["/consumers/g/ids/g_a"]
    assert session == "mine"
    stamp = json.loads(content)["timestamp"]
    expected = '{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"'
    assert content.decode() == f'{expected}{stamp}"}}'


def test_a_filter_is_written_with_scalas_escapes() -> None:
    nodes = cluster()
    by_filter = ZooKeeperMember(
        "g", "g_a", "range", Subscription(topic_filter=Whitelist("t/?.*,u"), shared_streams=1)
    )
    assert nodes.play(add_member(by_filter))
    content = nodes.found["/consumers/g/ids/g_a"][0].decode()
    # From a real registration by Scala's consumer, but for the time.
    expected = '{"version":1,"subscription":{"t\\/?.*|u":1},"pattern":"white_list","timestamp":"'
    assert content.startswith(expected)


def test_a_node_of_that_name_is_ours_only_if_this_session_has_created_it() -> None:
    nodes = cluster(t=1)
    assert nodes.play(add_member(member()))
    assert nodes.play(add_member(member()))
    assert not nodes.play(add_member(member()), session="other")
    nodes.expire("mine")
    assert nodes.play(add_member(member()), session="other")


def test_a_changed_subscription_deletes_the_node_and_creates_it() -> None:
    nodes, us = cluster(t=1, u=1), member()
    nodes.play(add_member(us))
    us.subscription = Subscription({"u": 3})
    nodes.asked.clear()
    assert nodes.play(renew_member(us))
    assert [type(each) for each in nodes.asked] == [Read, Delete, Create]
    assert json.loads(nodes.found["/consumers/g/ids/g_a"][0])["subscription"] == {"u": 3}
    nodes.expire("mine")
    assert nodes.play(renew_member(us))


def test_a_node_of_that_name_in_another_session_is_neither_deleted_nor_taken_for_the_own_one() -> None:
    nodes, us = cluster(t=1), member()
    nodes.play(add_member(member(u=1)), "other")
    before = dict(nodes.found)
    assert not nodes.play(renew_member(us))
    with pytest.raises(RegistryError, match="group g has a member g_a already, in another session"):
        nodes.play(read_group(us))
    del nodes.found["/consumers/g/ids/g_a"]
    steps = nodes.steps(read_group(us), "mine")
    while not any(each == Children("/consumers/g/ids", watch=True) for each in nodes.asked[-1:]):
        next(steps)
    nodes.found = dict(before)  # the other session creates the node before this one
    with pytest.raises(RegistryError, match="group g has a member g_a already, in another session"):
        list(steps)
    assert nodes.found == before


def test_row_19_two_members_own_one_partition_each() -> None:
    nodes, one, two = cluster(t=2), member("consumer1"), member("consumer2")
    nodes.play(add_member(one), "1")
    nodes.play(add_member(two), "2")
    assert owned(nodes.play(rebalance(one), "1")) == {"t/0": "g_consumer1-0"}
    assert owned(nodes.play(rebalance(two), "2")) == {"t/1": "g_consumer2-0"}
    assert nodes.owners("g") == {"t/0": "g_consumer1-0", "t/1": "g_consumer2-0"}


def test_row_20_a_foreign_owner_makes_the_attempt_fail_and_fresh_nodes_are_deleted() -> None:
    nodes, us = cluster(t=3), member()
    nodes.play(add_member(us))
    nodes.found[OWNERS + "1"] = (b"g_b-0", "other")
    assert nodes.play(rebalance(us)) is None
    assert nodes.owners("g") == {"t/1": "g_b-0"}
    assert us.nodes == set()
    nodes.expire("other")
    assert owned(nodes.play(rebalance(us))) == {f"t/{number}": "g_a-0" for number in range(3)}


def test_of_many_partitions_that_other_members_own_only_some_are_listed() -> None:
    nodes, us = cluster(t=300), member()
    nodes.play(add_member(us))
    nodes.found.update({f"{OWNERS}{number}": (b"g_b-0", "other") for number in range(300)})
    assert nodes.play(rebalance(us)) is None
    assert us.waits_for.startswith(f"{OWNERS}0 (g_b-0), {OWNERS}1 (g_b-0), ")
    assert us.waits_for.endswith(" and 295 more")
    assert us.nodes == set()


def test_the_end_of_a_foreign_owner_node_is_told() -> None:
    nodes, us = cluster(t=1), member()
    nodes.found[OWNERS + "0"] = (b"g_b-0", "other")
    nodes.play(become_owner(us, {TopicPartition("t", 0): ThreadId("g_a", 0)}))
    assert Read(OWNERS + "0", watch=True) in nodes.asked


@pytest.mark.parametrize("session", ["mine", "former"])
def test_row_21_an_owner_node_with_the_same_content_counts_as_success(session: str) -> None:
    nodes, us = cluster(t=1), member()
    nodes.play(add_member(us))
    nodes.found[OWNERS + "0"] = (b"g_a-0", session)
    assert owned(nodes.play(rebalance(us))) == {"t/0": "g_a-0"}
    nodes.expire("former")  # must not take the node away
    assert nodes.owners("g") == {"t/0": "g_a-0"}


def test_only_owner_nodes_of_this_session_are_deleted() -> None:
    nodes, us = cluster(t=2), member()
    us.nodes = {TopicPartition("t", 0), TopicPartition("t", 1)}
    nodes.found[OWNERS + "0"] = (b"g_b-0", "other")
    nodes.found[OWNERS + "1"] = (b"g_a-0", "mine")
    nodes.play(release(us))
    assert nodes.owners("g") == {"t/0": "g_b-0"}
    assert us.nodes == set()


def test_members_topics_partitions_and_brokers_are_watched() -> None:
    nodes, us = cluster(t=1), member(t=1, later=1)
    nodes.play(add_member(us))
    nodes.asked.clear()
    group = nodes.play(read_group(us))
    assert nodes.asked == [
        Children("/brokers/ids", watch=True),
        Children("/consumers/g/ids", watch=True),
        Read("/consumers/g/ids/g_a", watch=True, may_come=False),
        Read("/brokers/topics/later", watch=True),
        Read("/brokers/topics/t", watch=True),
    ]
    assert group.has_brokers
    assert group.partitions == {"t": [0], "later": []}
    nodes.expire("broker")
    assert not nodes.play(read_group(us)).has_brokers


def test_a_filter_gets_threads_of_each_topic_that_it_selects_and_watches_all_topics() -> None:
    nodes = cluster(white1=1, white2=1, white22=1, black=1, __consumer_offsets=1)
    us = ZooKeeperMember(
        "g", "g_a", "range", Subscription(topic_filter=Whitelist("white.,black"), shared_streams=2)
    )
    nodes.play(add_member(us))
    group = nodes.play(read_group(us))
    assert Children("/brokers/topics", watch=True) in nodes.asked
    both = [ThreadId("g_a", 0), ThreadId("g_a", 1)]
    assert group.threads == {"black": both, "white1": both, "white2": both}
    by_blacklist = b'{"version":1,"subscription":{"white.*":1},"pattern":"black_list","timestamp":"1"}'
    nodes.found["/consumers/g/ids/g_b"] = (by_blacklist, "other")
    assert nodes.play(read_group(us)).threads["black"] == [*both, ThreadId("g_b", 0)]


def test_a_member_without_its_node_creates_it_again() -> None:
    nodes, us = cluster(t=1), member()
    assert owned(nodes.play(rebalance(us))) == {"t/0": "g_a-0"}
    assert nodes.found["/consumers/g/ids/g_a"][1] == "mine"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/consumers/g/ids/g_b", b""),
        (
            "/consumers/g/ids/g_b",
            b'{"version":1,"subscription":{"(":1},"pattern":"white_list","timestamp":"1"}',
        ),
        ("/brokers/topics/t", b"garbage"),
    ],
    ids=["an empty member", "a filter that is no expression", "a topic"],
)
def test_garbage_in_a_node_is_an_error_that_names_the_node(path: str, content: bytes) -> None:
    nodes, us = cluster(t=1), member()
    nodes.play(add_member(us))
    nodes.found[path] = (content, None)
    with pytest.raises(NodeContentError, match=path):
        nodes.play(rebalance(us))


def test_a_rebalance_takes_as_many_round_trips_for_many_partitions_as_for_one() -> None:
    """The worst case: the member gives back what it owns, and a former session owns all of it again."""

    def round_trips(partitions: int, topics: int) -> int:
        counts = {f"t{number}": partitions for number in range(topics)}
        nodes, us = cluster(**counts), member("a", "range", **dict.fromkeys(counts, 1))
        nodes.play(add_member(us))
        nodes.play(rebalance(us))
        mine = {path: (content, "former") for path, (content, _) in nodes.found.items() if "owners" in path}
        nodes.found.update(mine)
        nodes.round_trips = 0
        assert len(owned(nodes.play(rebalance(us)))) == partitions * topics
        return nodes.round_trips

    assert round_trips(50, 4) == round_trips(1, 1) == 8


def test_a_member_that_cannot_go_on_deletes_its_nodes() -> None:
    nodes, us = cluster(t=2), member()
    nodes.play(add_member(us))
    nodes.play(rebalance(us))
    nodes.play(withdraw(us))
    assert not [path for path, (_, session) in nodes.found.items() if session == "mine"]


def until_stable(nodes: Nodes, us: ZooKeeperMember) -> Iterator[None]:
    """Add *us* and rebalance, one request at a time, until nothing changes any more."""
    yield from nodes.steps(add_member(us), us.consumer_id)
    while True:
        us.owned = (yield from nodes.steps(rebalance(us), us.consumer_id)) or {}
        looked = -1
        while us.owned:
            if looked != (looked := nodes.changes):
                group = nodes.play(read_group(us), us.consumer_id)
                if group.assigned_to(us) != us.owned:
                    break
            yield


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_that_rebalance_at_the_same_time_end_with_each_partition_owned_once(assignor: str) -> None:
    chance = dice("rebalances at the same time", assignor)
    for _ in range(10):
        nodes = cluster(t=chance.randint(4, 12), u=chance.randint(4, 5))
        members = [member(str(name), assignor, t=chance.randint(1, 3), u=1) for name in range(4)]
        running = [until_stable(nodes, us) for us in members]
        for _ in range(4000):
            next(chance.choice(running))
        group = nodes.play(read_group(members[0]), members[0].consumer_id)
        expected = owned(members[0].assign(group.threads, group.partitions))
        assert len(expected) == sum(map(len, group.partitions.values()))
        assert nodes.owners("g") == expected
        assert {key: value for us in members for key, value in owned(us.owned).items()} == expected
