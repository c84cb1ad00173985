"""Mistakes in ``pyklient/admin/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "admin: a topic that was there counts as created",
        "pyklient/admin/requests.py",
        "if not result.error_code or (lost and result.error_code == order.done_before):",
        "if not result.error_code or result.error_code == order.done_before:",
        ("tests/admin/test_admin.py::test_a_topic_that_exists_is_refused_by_name",),
    ),
    Mutant(
        "admin: a lost answer makes a created topic an error",
        "pyklient/admin/requests.py",
        "                lost = True\n",
        "",
        (
            "tests/admin/test_dialogues.py::test_a_topic_made_by_a_request_whose_answer_was_lost_counts_as_created",
        ),
    ),
    Mutant(
        "admin: a controller that moved is asked again",
        "pyklient/admin/requests.py",
        "    if next(attempts):\n        yield Refresh(())\n",
        "    yield from ()\n",
        ("tests/admin/test_dialogues.py::test_a_creation_follows_the_controller_and_waits_for_every_leader",),
    ),
    Mutant(
        "admin: a topic is ready with its first leader",
        "pyklient/admin/topics.py",
        "and all(part.leader >= 0 for part",
        "and any(part.leader >= 0 for part",
        ("tests/admin/test_dialogues.py::test_a_creation_follows_the_controller_and_waits_for_every_leader",),
    ),
    Mutant(
        "admin: growing does not wait for the new partitions",
        "pyklient/admin/topics.py",
        "and len(topic.partitions) >= count\n",
        "",
        ("tests/admin/test_dialogues.py::test_growing_waits_until_the_new_partitions_have_leaders",),
    ),
    Mutant(
        "admin: a deleted topic is not waited for",
        "pyklient/admin/topics.py",
        "lambda topic: topic is None or",
        "lambda topic: True or topic is None or",
        (
            "tests/admin/test_dialogues.py::test_a_deletion_whose_answer_was_lost_counts_when_the_topic_is_gone",
        ),
    ),
    Mutant(
        "admin: settings of the broker are shown as the topic's",
        "pyklient/admin/topics.py",
        "if entry.config_source == _SET_ON_THE_TOPIC or",
        "if entry.config_source >= _SET_ON_THE_TOPIC or",
        (
            "tests/admin/test_admin.py::test_a_topic_is_described_with_its_partitions_and_the_settings_made_on_it",
        ),
    ),
    Mutant(
        "admin: a group that is not there is described",
        "pyklient/admin/groups.py",
        '    if group.group_state == "Dead":',
        '    if group.group_state == "dead":',
        ("tests/admin/test_dialogues.py::test_a_dead_group_is_one_that_is_not_there",),
    ),
    Mutant(
        "admin: groups of one broker are listed",
        "pyklient/admin/groups.py",
        "for node_id in sorted(metadata.nodes):",
        "for node_id in sorted(metadata.nodes)[:1]:",
        ("tests/admin/test_dialogues.py::test_every_broker_is_asked_for_the_groups_that_it_coordinates",),
    ),
    Mutant(
        "admin: a deleted group is an error after a lost answer",
        "pyklient/admin/requests.py",
        "                lost = True\n",
        "",
        (
            "tests/admin/test_dialogues.py::test_a_group_deleted_by_a_request_whose_answer_was_lost_counts_as_deleted",
        ),
    ),
    Mutant(
        "admin: lag may be negative",
        "pyklient/admin/descriptions.py",
        "return max(0, self.end - (position or 0))",
        "return self.end - (position or 0)",
        ("tests/admin/test_dialogues.py::test_a_group_that_is_ahead_of_a_log_that_was_cut_off_has_no_lag",),
    ),
    Mutant(
        "admin: the lag of a group in ZooKeeper counts from the smaller of its two offsets",
        "pyklient/admin/descriptions.py",
        "return max(found, default=None)",
        "return min(found, default=None)",
        (
            "tests/admin/test_zookeeper_groups.py::test_brokers_add_offsets_in_kafka_and_the_ends_of_logs",
            "tests/interop/test_consumer_offset_checker.py",
        ),
    ),
    Mutant(
        "admin: garbage in the node of a member ends the description of its group",
        "pyklient/admin/zookeeper_groups.py",
        "except NodeContentError as error:\n            member = ",
        "except ZeroDivisionError as error:\n            member = ",
        (
            "tests/admin/test_zookeeper_groups.py::test_garbage_is_an_error_of_its_own_member_or_partition_and_of_nothing_else",
        ),
    ),
    Mutant(
        "admin: the offsets of a group that has members are reset",
        "pyklient/admin/group_offsets.py",
        "            if members:\n                raise broker_error(",
        "            if members > 1:\n                raise broker_error(",
        (
            "tests/admin/test_offset_reset.py::test_a_group_with_members_is_not_reset_but_told_what_would_change",
        ),
    ),
    Mutant(
        "admin: a reset that is not executed commits its offsets",
        "pyklient/admin/group_offsets.py",
        "        if execute:\n            if members:",
        "        if True:\n            if members:",
        ("tests/admin/test_offset_reset.py::test_a_reset_changes_nothing_until_it_is_executed",),
    ),
    Mutant(
        "admin: a reset commits offsets that the log does not have",
        "pyklient/admin/offset_reset.py",
        "within = min(max(offset, start), end)",
        "within = offset",
        (
            "tests/admin/test_offset_reset.py::test_an_offset_that_the_log_does_not_have_becomes_the_nearest_and_a_note_says_so",
        ),
    ),
)
