"""Mistakes in ``pyklient/consumer/group/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "consumer: a member that was woken hands out what it had fetched before",
        "pyklient/consumer/group/assignment_handler.py",
        "        self._ownership.lease.until = until\n",
        "        self._ownership.lease.until = until + 3600\n",
        (
            "tests/consumer/group/test_stopped_member.py::test_a_woken_member_hands_out_nothing_that_another_member_has_got_meanwhile",
        ),
    ),
    Mutant(
        "consumer: a heartbeat that the coordinator rejects extends the lease",
        "pyklient/consumer/group/classic/heartbeat_and_leave.py",
        "    sent_at = time.monotonic()\n",
        "    sent_at = member.confirmed_at = time.monotonic()\n",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_only_a_response_of_the_coordinator_that_knows_the_member_confirms_it",
        ),
    ),
    Mutant(
        "assignors: the longer runs go to the last members",
        "pyklient/assignors/even_split.py",
        "starts = [share * taker + min(taker, extra) for taker in range(takers + 1)]",
        "starts = [share * taker + max(0, taker + extra - takers) for taker in range(takers + 1)]",
        (
            "tests/assignors/test_assignors.py::test_the_range_rule_deals_runs_of_neighbours_with_the_longer_ones_first",
        ),
    ),
    Mutant(
        "assignors: members are dealt to in the order in which they joined",
        "pyklient/assignors/range_assignor.py",
        "        ordered = sorted(members, key=static_members_first)",
        "        ordered = list(members)",
        (
            "tests/assignors/test_assignors.py::test_range_deals_each_topic_on_its_own_so_the_first_member_gets_the_longer_runs",
        ),
    ),
    Mutant(
        "assignors: static members have no place of their own",
        "pyklient/assignors/range_assignor.py",
        "return member.instance_id is None, utf16",
        "return member.instance_id is not None, utf16",
        ("tests/assignors/test_assignors.py::test_static_members_come_first_by_their_instance_ids",),
    ),
    Mutant(
        "consumer/group: a removed member believes in a rebalance",
        "pyklient/consumer/group/classic/heartbeat_and_leave.py",
        "            member.forget(response.error_code)\n            return Event.LOST",
        "            member.forget(response.error_code)\n            return Event.REJOIN",
        ("tests/consumer/group/classic/test_dialogues.py::test_a_heartbeat_tells_of_having_been_removed",),
    ),
    Mutant(
        "consumer/group: a member that the group forgot keeps its name",
        "pyklient/consumer/group/classic/member.py",
        "if code != ErrorCode.ILLEGAL_GENERATION:",
        "if code == ErrorCode.ILLEGAL_GENERATION:",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_a_member_that_the_group_forgot_joins_as_a_newcomer",
        ),
    ),
    Mutant(
        "consumer/group: every member deals the partitions",
        "pyklient/consumer/group/classic/join.py",
        "if joined.leader == joined.member_id:",
        "if joined.leader:",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_a_follower_joins_and_takes_what_the_leader_dealt",
        ),
    ),
    Mutant(
        "consumer: a coordinator that failed is asked again",
        "pyklient/consumer/group_coordinator_client.py",
        "            if error.retriable:\n                self.node_id = None\n            raise",
        "            raise",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_a_coordinator_that_has_moved_or_gone_is_looked_up_again",
        ),
    ),
    Mutant(
        "consumer/group: a static member leaves its group",
        "pyklient/consumer/group/classic/heartbeat_and_leave.py",
        "if not member.member_id or member.instance_id is not None:",
        "if not member.member_id:",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_a_static_member_does_not_leave_so_that_it_may_come_back",
        ),
    ),
    Mutant(
        "consumer: a partition that moved counts as held all the time",
        "pyklient/consumer/owned_partitions.py",
        "follows = before.identity.generation >= identity.generation - 1",
        "follows = True",
        (
            "tests/consumer/test_owned_partitions.py::test_a_partition_is_held_since_the_first_of_the_generations_that_gave_it_without_a_gap",
        ),
    ),
    Mutant(
        "consumer/group: what the leader dealt is not watched for new partitions",
        "pyklient/consumer/group/classic/member_loop.py",
        "if (count := metadata.partition_count(topic)) and count != before",
        "if (count := metadata.partition_count(topic)) and count < before",
        ("tests/consumer/group/test_groups.py::test_new_partitions_are_noticed_and_dealt",),
    ),
    Mutant(
        "consumer/group: an incremental member gives everything back before it joins again",
        "pyklient/consumer/group/classic/handover.py",
        "if not (member.incremental and member.generation >= 0):",
        "if True:",
        (
            "tests/consumer/group/test_incremental.py::test_what_stays_owned_keeps_its_queue_and_is_neither_fetched_nor_delivered_again",
        ),
    ),
    Mutant(
        "assignors: a partition moves before its owner has given it back",
        "pyklient/assignors/incremental.py",
        "if where in kept[name] or where not in revoked]",
        "if where in kept[name] or where]",
        (
            "tests/consumer/group/classic/test_dialogues.py::test_the_leader_assigns_by_the_assignor_that_the_group_has_chosen",
        ),
    ),
    Mutant(
        "consumer/group: a member that was stopped for longer than its session reads on",
        "pyklient/consumer/group/classic/heartbeat_schedule.py",
        "if slept <= self._member.session_timeout_ms / 1000 + _LONGEST_DELAY:",
        "if True:",
        (
            "tests/consumer/group/test_incremental.py::test_a_member_whose_process_was_stopped_for_longer_than_its_session_gives_its_partitions_up_at_once",
        ),
    ),
    Mutant(
        "consumer/group: lost partitions are told as revoked ones",
        "pyklient/consumer/group/assignment_handler.py",
        "lost = [owned.partition for owned in revoked if owned.lost]",
        "lost = [owned.partition for owned in revoked if not owned.active and owned.lost and False]",
        (
            "tests/consumer/group/test_rebalance_listener.py::test_a_listener_hears_what_is_assigned_revoked_and_lost",
        ),
    ),
    Mutant(
        "consumer: a partition that is revoked takes the queues of the others along",
        "pyklient/consumer/fetch/fetch_queue.py",
        "self.items = deque(item for item in self.items if item.cursor.active)",
        "self.items.clear()",
        (
            "tests/consumer/group/test_incremental.py::test_what_stays_owned_keeps_its_queue_and_is_neither_fetched_nor_delivered_again",
        ),
    ),
    Mutant(
        "consumer: a partition that stays with its member goes back to the committed offset",
        "pyklient/consumer/owned_partitions.py",
        "reached=reached.get(partition) if old is not None and goes_on else None,",
        "",
        (
            "tests/consumer/test_stream_control.py::test_a_pause_and_a_position_stay_with_a_partition_that_a_rebalance_leaves_with_its_member",
        ),
    ),
    Mutant(
        "consumer: a message in hand of any partition holds a rebalance up",
        "pyklient/consumer/stream/stream_core.py",
        "while self.is_held_elsewhere() and not self._reader.in_hand.stays(self.queue.source):",
        "while self.is_held_elsewhere():",
        (
            "tests/consumer/group/test_incremental.py::test_a_message_in_hand_of_what_stays_owned_holds_no_rebalance_up",
        ),
    ),
    Mutant(
        "consumer: a member of Kafka joins beside members that ZooKeeper coordinates",
        "pyklient/consumer/group/classic/classic_membership.py",
        "if (registry := self._client.registry) is not None:",
        "if (registry := self._client.registry) is not None and False:",
        ("tests/consumer/group/test_members_in_zookeeper.py",),
    ),
    Mutant(
        "consumer: streams end before the fetchers",
        "pyklient/consumer/group/assignment_handler.py",
        "        self._fetchers.close(timeout=0)\n"
        "        for stream in self._all:\n            stream.end()\n",
        "        for stream in self._all:\n            stream.end()\n"
        "        self._fetchers.close(timeout=0)\n",
        ("tests/consumer/test_closing.py::test_the_parts_of_a_connector_end_in_the_order_of_kafkas",),
    ),
)
