"""Mistakes in groups that ZooKeeper coordinates."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ZOOKEEPER: Final = "pyklient/consumer/group/zookeeper"
_TESTS: Final = "tests/consumer/group/zookeeper"

MUTANTS: Final = (
    Mutant(
        "consumer/group: the threads of a ZooKeeper group are sorted by number",
        f"{_ZOOKEEPER}/thread_assignment.py",
        "ordered = sorted(of_topic, key=java_order)",
        "ordered = sorted(of_topic)",
        (f"{_TESTS}/test_thread_assignment.py::test_row_4_thread_ids_are_sorted_as_text",),
    ),
    Mutant(
        "consumer/group: round-robin in a ZooKeeper group follows the names of topics",
        f"{_ZOOKEEPER}/thread_assignment.py",
        'key=lambda each: (string_hash(f"[{each.topic},{each.partition}]"), each)',
        "key=lambda each: each",
        (
            f"{_TESTS}/test_thread_assignment.py::test_row_5_round_robin_follows_javas_hashes_of_the_partitions",
        ),
    ),
    Mutant(
        "consumer/group: round-robin gives a thread of a ZooKeeper group a topic that it does not read",
        f"{_ZOOKEEPER}/thread_assignment.py",
        "next(thread for thread in turn if thread in of_topic[each.topic])",
        "next(turn)",
        (
            f"{_TESTS}/test_thread_assignment.py::"
            "test_row_6_round_robin_passes_over_threads_of_other_topics_where_scala_0_8_2_fails",
        ),
    ),
    Mutant(
        "consumer/group: streams of a ZooKeeper group read other partitions than their threads own",
        f"{_ZOOKEEPER}/zookeeper_member_loop.py",
        "stream_numbers={each: thread.stream for each, thread in result.items()}",
        "stream_numbers=dict.fromkeys(result, 0)",
        (f"{_TESTS}/test_member_loop.py::test_the_streams_of_a_member_get_what_their_threads_own",),
    ),
    Mutant(
        "consumer/group: a foreign owner of a partition is overlooked",
        f"{_ZOOKEEPER}/partition_ownership.py",
        "            others[each] = _owner(node)\n",
        "            pass\n",
        (
            f"{_TESTS}/test_rebalance.py::"
            "test_row_20_a_foreign_owner_makes_the_attempt_fail_and_fresh_nodes_are_deleted",
        ),
    ),
    Mutant(
        "consumer/group: after a failed attempt, a member of a ZooKeeper group keeps its fresh nodes",
        f"{_ZOOKEEPER}/partition_ownership.py",
        "    yield from release(member)\n    return False\n",
        "    return False\n",
        (
            f"{_TESTS}/test_rebalance.py::"
            "test_row_20_a_foreign_owner_makes_the_attempt_fail_and_fresh_nodes_are_deleted",
        ),
    ),
    Mutant(
        "consumer/group: a member whose subscription changes deletes the node of another session",
        f"{_ZOOKEEPER}/rebalance.py",
        "        if not node.mine:",
        "        if False:",
        (
            f"{_TESTS}/test_rebalance.py::"
            "test_a_node_of_that_name_in_another_session_is_neither_deleted_nor_taken_for_the_own_one",
        ),
    ),
    Mutant(
        "consumer/group: an owner node with the same content is foreign",
        f"{_ZOOKEEPER}/partition_ownership.py",
        "if node.content != str(existing[each]).encode():",
        "if node.content:",
        (f"{_TESTS}/test_rebalance.py::test_row_21_an_owner_node_with_the_same_content_counts_as_success",),
    ),
    Mutant(
        "consumer/group: an owner node of a former session is kept, and ends with that session",
        f"{_ZOOKEEPER}/partition_ownership.py",
        "        elif not node.mine:",
        "        elif not node.ephemeral:",
        (f"{_TESTS}/test_rebalance.py::test_row_21_an_owner_node_with_the_same_content_counts_as_success",),
    ),
    Mutant(
        "consumer/group: a late member deletes the owner node of its successor",
        f"{_ZOOKEEPER}/partition_ownership.py",
        "if node is not None and node.mine]",
        "if node is not None]",
        (f"{_TESTS}/test_rebalance.py::test_only_owner_nodes_of_this_session_are_deleted",),
    ),
    Mutant(
        "consumer/group: a member of a ZooKeeper group commits what it read before it lost a partition",
        f"{_ZOOKEEPER}/zookeeper_member.py",
        "_BETWEEN_REBALANCES = 2",
        "_BETWEEN_REBALANCES = 1",
        (
            f"{_TESTS}/test_member_loop.py::"
            "test_a_partition_that_a_member_gets_again_begins_a_generation_that_does_not_follow",
        ),
    ),
    Mutant(
        "consumer/group: each change in ZooKeeper interrupts the members, also if they keep their partitions",
        f"{_ZOOKEEPER}/zookeeper_member_loop.py",
        "if member.generation and member.owned == assigned",
        "if not member.generation and member.owned == assigned",
        (f"{_TESTS}/test_member_loop.py::test_a_change_that_leaves_the_assignment_as_it_is_revokes_nothing",),
    ),
    Mutant(
        "consumer/group: a member whose session has expired commits what others may have read",
        f"{_ZOOKEEPER}/zookeeper_member_loop.py",
        "        lost = sorted(self._member.owned)\n        self._handler.lost(lost)\n",
        "        lost = sorted(self._member.owned)\n",
        (
            f"{_TESTS}/test_member_loop.py::"
            "test_partitions_of_a_session_that_has_expired_are_lost_before_they_are_revoked",
        ),
    ),
    Mutant(
        "consumer/group: a member commits in another session than the one that owns the partitions",
        f"{_ZOOKEEPER}/fenced_offset_storage.py",
        "return now == session and identity == member.identity",
        "return identity == member.identity",
        (
            f"{_TESTS}/test_fenced_offset_storage.py::"
            "test_a_commit_is_accepted_only_in_the_session_and_the_generation_of_the_assignment",
        ),
    ),
    Mutant(
        "consumer/group: what an access list forbids to a member of a ZooKeeper group is tried again",
        f"{_ZOOKEEPER}/zookeeper_member_loop.py",
        "if not error.retriable and not isinstance(error, RegistryError):",
        "if False:",
        (f"{_TESTS}/test_member_loop.py::test_an_error_that_another_attempt_cannot_end_is_raised_at_once",),
    ),
    Mutant(
        "consumer/group: a commit to a ZooKeeper group sleeps on while the client closes",
        f"{_ZOOKEEPER}/fenced_offset_storage.py",
        "self._closing.wait(_PAUSE)",
        "time.sleep(_PAUSE)",
        (
            f"{_TESTS}/test_fenced_offset_storage.py::"
            "test_a_commit_that_pauses_before_its_next_attempt_ends_as_soon_as_the_client_closes",
        ),
    ),
)
