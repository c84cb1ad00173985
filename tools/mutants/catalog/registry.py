"""Mistakes with ZooKeeper: in ``pyklient/registry/``, in discovery, and in the registration of a broker."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_CONTENTS: Final = "tests/registry/test_contents.py::"
_DISCOVERY: Final = "tests/net/test_zookeeper_discovery.py::"
_ENTRIES: Final = "tests/broker/registration/test_entries.py::"
_OPTIONS: Final = "tests/config/test_zookeeper_options.py::"

MUTANTS: Final = (
    Mutant(
        "registry: a slash in a filter is written without Scala's backslash",
        "pyklient/registry/consumer_nodes.py",
        'ensure_ascii=False).replace("/", r"\\/")',
        "ensure_ascii=False)",
        (_CONTENTS + "test_a_member_is_written_as_scala_writes_it_and_read_in_every_version",),
    ),
    Mutant(
        "registry: partitions under the names of Kafka 0.7 are not found",
        "pyklient/registry/topic_nodes.py",
        "(?:[0-9]{1,10}-)?([0-9]{1,10})",
        "([0-9]{1,10})",
        (_CONTENTS + "test_a_topic_node_is_read_and_written_in_every_version",),
    ),
    Mutant(
        "registry: the security protocol of a named listener is not looked up",
        "pyklient/registry/broker_nodes.py",
        "protocols.get(listener, listener)",
        "listener",
        (_CONTENTS + "test_a_broker_node_is_read_in_every_version",),
    ),
    Mutant(
        "config: with zookeeper, the client also tries localhost:9092",
        "pyklient/config/option_declarations/common_options.py",
        "if self.cluster is self.zookeeper:",
        "if False:",
        (_OPTIONS + "test_with_zookeeper_the_default_bootstrap_server_is_not_used",),
    ),
    Mutant(
        "net: topics that come and go are not noticed",
        "pyklient/net/zookeeper_discovery.py",
        "            Children(paths.TOPICS, watch=True),",
        "            Children(paths.TOPICS, watch=False),",
        (
            _DISCOVERY
            + "test_what_zookeeper_knows_of_a_cluster_is_read_and_the_rest_is_left_out_with_a_reason",
        ),
    ),
    Mutant(
        "net: each refresh waits for a ZooKeeper that is down, although there are bootstrap servers",
        "pyklient/net/zookeeper_discovery.py",
        "self._required or self._knowledge is _Knowledge.STALE",
        "True",
        (
            _DISCOVERY
            + "test_zookeeper_that_is_down_at_the_start_is_an_error_unless_there_are_bootstrap_servers",
        ),
    ),
    Mutant(
        "broker: a broker waits for the node of another broker with its id",
        "pyklient/broker/registration/entries.py",
        "if waited > wait_seconds or not is_own(node):",
        "if waited > wait_seconds:",
        (_ENTRIES + "test_an_id_that_another_broker_has_is_an_error_at_once_and_an_own_node_is_waited_for",),
    ),
    Mutant(
        "broker: a broker keeps the epoch of the controller before it",
        "pyklient/broker/registration/entries.py",
        "parse_controller_epoch(epoch.content) + 1",
        "parse_controller_epoch(epoch.content)",
        (_ENTRIES + "test_a_broker_writes_the_id_of_its_cluster_itself_and_the_controller_with_its_epoch",),
    ),
    Mutant(
        "broker: a topic in ZooKeeper that was created again keeps the partitions of the old one",
        "pyklient/broker/registration/entries.py",
        "before[name].topic_id != topic.topic_id",
        "False",
        (_ENTRIES + "test_only_what_has_changed_is_written",),
    ),
    Mutant(
        "registry: a dialogue that makes progress ends after a fixed time",
        "pyklient/registry/kazoo_requests.py",
        "        if self._per_answer:\n            self._at",
        "        if not self._per_answer:\n            self._at",
        (
            "tests/registry/test_kazoo_requests.py::test_an_answer_moves_the_deadline_only_if_it_is_per_answer",
        ),
    ),
    Mutant(
        "registry: any number of requests is in flight",
        "pyklient/registry/kazoo_requests.py",
        "while left and len(in_flight) < _MOST_IN_FLIGHT:",
        "while left:",
        ("tests/registry/test_kazoo_requests.py::test_the_number_of_requests_in_flight_is_limited",),
    ),
    Mutant(
        "registry: a session that ZooKeeper does not know any more is tried for ever",
        "pyklient/registry/rejected_session.py",
        "self.given_up = self._tried_again",
        "self.given_up = False",
        (
            "tests/registry/test_rejected_session.py::test_a_session_is_given_up_if_only_new_ones_are_accepted",
        ),
    ),
    Mutant(
        "registry: a session is given up before it is tried once more",
        "pyklient/registry/rejected_session.py",
        "self.given_up = self._tried_again",
        "self.given_up = True",
        (
            "tests/registry/test_rejected_session.py::test_a_session_is_given_up_if_only_new_ones_are_accepted",
        ),
    ),
    Mutant(
        "registry: an attempt to connect again takes the whole time of the session",
        "pyklient/registry/kazoo_threads.py",
        "if not self._connects_again:",
        "if True:",
        (
            "tests/registry/test_zookeeper.py::"
            "test_a_session_survives_a_server_that_accepts_a_connection_and_never_answers",
        ),
    ),
    Mutant(
        "registry: a session is given up although no server accepts a new one",
        "pyklient/registry/rejected_session.py",
        "return bool(granted > 0)",
        "return True",
        (
            "tests/registry/test_rejected_session.py::test_a_session_is_kept_while_no_server_accepts_a_new_one",
        ),
    ),
)
