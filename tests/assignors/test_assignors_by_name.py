"""The values of the option ``partition_assignment_strategy``."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from pyklient import Assignor, ConfigurationError, ConsumerConfig, Subscriber, TopicPartition
from pyklient.assignors.assignor import Partitions
from pyklient.assignors.assignors_by_name import BUILT_IN_ASSIGNORS, load_assignor, parse_strategy
from pyklient.consumer.group.zookeeper.thread_assignment import ZOOKEEPER_ASSIGNORS


class Mine(Assignor):
    name = "mine"

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        return {}


class Nameless(Mine):
    name = ""


MINE = Mine()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("sticky", ("sticky",)),
        ("cooperative-sticky, range", ("cooperative-sticky", "range")),
        (["cooperative-sticky", MINE], ("cooperative-sticky", MINE)),
        (MINE, (MINE,)),
        (
            "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ("range", "cooperative-sticky"),
        ),
    ],
)
def test_assignors_are_given_by_name_as_objects_or_in_a_list(given: Any, expected: Any) -> None:
    assert parse_strategy(given) == expected
    ConsumerConfig.from_options({"partition_assignment_strategy": given})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("best", "'best' is not one of 'range', 'roundrobin', 'sticky', 'cooperative-sticky', nor an object"),
        ([Mine], "nor an object of a subclass of pyklient.Assignor"),
        (7, "7 is not one of"),
        ([], "names 0 assignors; name at least one"),
        (["range", "range"], "has two assignors with the name 'range'"),
        ([Nameless()], "has no name; give its class an attribute such as name = 'mine'"),
    ],
)
def test_what_is_no_assignor_is_an_error_that_says_what_to_write(given: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        ConsumerConfig.from_options({"partition_assignment_strategy": given})


@pytest.mark.parametrize("given", ["sticky", MINE, ["range", "roundrobin"]])
def test_groups_in_zookeeper_have_one_of_the_two_classic_assignors(given: Any) -> None:
    options = {"group_id": "g", "zookeeper": "z", "coordination": "zookeeper"}
    with pytest.raises(ConfigurationError, match="coordination='zookeeper'"):
        ConsumerConfig.from_options({**options, "partition_assignment_strategy": given})


@pytest.mark.parametrize("name", BUILT_IN_ASSIGNORS)
def test_each_name_belongs_to_an_assignor(name: str) -> None:
    assert load_assignor(name).name == name


def test_groups_in_zookeeper_have_a_function_for_each_assignor_that_they_may_name() -> None:
    assert {name for name, each in BUILT_IN_ASSIGNORS.items() if each.in_zookeeper} == set(
        ZOOKEEPER_ASSIGNORS
    )


def test_the_options_are_checked_without_the_kernel() -> None:
    program = (
        "import sys; from pyklient import ConsumerConfig; "
        "ConsumerConfig.from_options({'partition_assignment_strategy': 'sticky'}); "
        "sys.exit('pyklient.kernel' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
