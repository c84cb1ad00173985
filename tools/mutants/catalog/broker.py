"""Mistakes in ``pyklient/broker/`` and its handlers."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "broker: a batch that comes again is stored again",
        "pyklient/broker/log/producer_state.py",
        "if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:",
        "if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence + 1:",
        (
            "tests/broker/log/test_producer_state.py::test_each_of_the_last_five_batches_is_recognised_when_it_comes_again",
        ),
    ),
    Mutant(
        "broker: a gap in a sequence goes unnoticed",
        "pyklient/broker/log/producer_state.py",
        "if first_sequence != expected:",
        "if first_sequence < expected:",
        ("tests/broker/log/test_producer_state.py::test_anything_else_is_out_of_order",),
    ),
    Mutant(
        "broker: four batches of a producer are remembered",
        "pyklient/broker/log/producer_state.py",
        "_REMEMBERED = 5",
        "_REMEMBERED = 4",
        (
            "tests/broker/log/test_producer_state.py::test_each_of_the_last_five_batches_is_recognised_when_it_comes_again",
        ),
    ),
    Mutant(
        "broker: a new epoch goes on with the old sequence",
        "pyklient/broker/log/producer_state.py",
        "        if epoch > state.epoch:\n            expected = 0\n        else:",
        "        if False:\n            expected = 0\n        else:",
        ("tests/broker/log/test_producer_state.py::test_a_newer_epoch_starts_again_from_zero",),
    ),
    Mutant(
        "broker: an older epoch is not fenced",
        "pyklient/broker/log/producer_state.py",
        "        if state is not None and epoch < state.epoch:\n",
        "        if state is not None and epoch < state.epoch - 1:\n",
        ("tests/broker/log/test_producer_state.py::test_an_older_epoch_is_fenced",),
    ),
    Mutant(
        "broker: a producer's state is lost when its log is opened",
        "pyklient/broker/log/recovery.py",
        "            _remember(producers, segment, header)\n",
        "            pass\n",
        (
            "tests/broker/log/test_partition_log.py::test_sequences_of_producers_are_known_again_after_a_restart",
        ),
    ),
    Mutant(
        "broker: a segment grows beyond segment.bytes",
        "pyklient/broker/log/partition_log.py",
        "active.size + size > self.config.segment_bytes",
        "active.size > self.config.segment_bytes",
        (
            "tests/broker/log/test_partition_log.py::test_segments_are_named_by_their_first_offset_and_rolled_before_they_grow_too_large",
        ),
    ),
    Mutant(
        "broker: a fetch of a large batch brings nothing",
        "pyklient/broker/log/partition_log.py",
        "length = first.size if whole_first else max_bytes if partial else 0",
        "length = max_bytes if partial else 0",
        (
            "tests/broker/handlers/test_fetch.py::test_limits_hold_for_each_partition_and_for_all_of_them_but_the_first_batch_comes_whole",
        ),
    ),
    Mutant(
        "broker: an offset at the end of the log is out of range",
        "pyklient/broker/log/partition_log.py",
        "if not start <= offset <= end:",
        "if not start <= offset < end:",
        ("tests/broker/log/test_partition_log.py::test_offsets_are_assigned_in_order_and_read_back",),
    ),
    Mutant(
        "broker: retention deletes what is young enough",
        "pyklient/broker/log/retention.py",
        "now_ms - _newest_ms(segments[count]) > config.retention_ms",
        "now_ms - _newest_ms(segments[count]) >= 0",
        (
            "tests/broker/log/test_partition_log.py::test_a_segment_stays_until_its_newest_record_is_older_than_retention_ms",
        ),
    ),
    Mutant(
        "broker: retention by size deletes one segment too many",
        "pyklient/broker/log/retention.py",
        "while count < len(segments) - 1 and excess >= segments[count].size:",
        "while count < len(segments) - 1 and excess > 0:",
        ("tests/broker/log/test_partition_log.py::test_old_segments_go_by_size_and_by_age",),
    ),
    Mutant(
        "broker: a duplicate is answered with the end of the log",
        "pyklient/broker/log/partition_log.py",
        "                stored.base_offset, stored.timestamp_ms if",
        "                self.end_offset, stored.timestamp_ms if",
        (
            "tests/broker/log/test_partition_log.py::test_sequences_of_producers_are_known_again_after_a_restart",
        ),
    ),
    Mutant(
        "broker: the high watermark is the last offset",
        "pyklient/broker/log/high_watermark_advance.py",
        "        self.high_watermark = log_end_offset\n",
        "        self.high_watermark = log_end_offset - 1\n",
        ("tests/broker/handlers/test_fetch.py::test_records_are_read_in_every_version_and_codec",),
    ),
    Mutant(
        "broker: committed reads go beyond the last stable offset",
        "pyklient/broker/log/high_watermark_advance.py",
        "self.high_watermark if isolation_level == READ_UNCOMMITTED else self.last_stable_offset",
        "self.high_watermark",
        (
            "tests/broker/log/test_high_watermark_advance.py::test_committed_reads_end_at_the_last_stable_offset",
            "tests/broker/handlers/test_isolation.py::test_read_committed_ends_at_the_last_stable_offset",
        ),
    ),
    Mutant(
        "broker: a node serves partitions that another node leads",
        "pyklient/broker/node_state.py",
        "if log is None or partition.leader_id != self.config.node_id:",
        "if log is None:",
        (
            "tests/broker/test_several_nodes.py::test_a_node_that_no_longer_leads_a_partition_does_not_serve_it",
        ),
    ),
    Mutant(
        "broker: partitions do not share the limit of a fetch",
        "pyklient/broker/handlers/fetch.py",
        "            bytes_left -= 0 if records is None else _length(records)\n",
        "",
        (
            "tests/broker/handlers/test_fetch.py::test_limits_hold_for_each_partition_and_for_all_of_them_but_the_first_batch_comes_whole",
        ),
    ),
    Mutant(
        "broker: a fetch waits although there is enough",
        "pyklient/broker/handlers/fetch.py",
        "enough = result.nbytes >= request.min_bytes or",
        "enough = result.nbytes > request.min_bytes or",
        (
            "tests/broker/handlers/test_fetch.py::test_a_fetch_does_not_wait_where_there_is_just_as_much_as_it_asks_for",
        ),
    ),
    Mutant(
        "broker: a waiting fetch is not woken by new records",
        "pyklient/broker/log/high_watermark_advance.py",
        "        if self._listeners:\n            self.wake()\n",
        "",
        ("tests/broker/handlers/test_fetch.py::test_a_waiting_fetch_is_answered_when_records_come",),
    ),
    Mutant(
        "broker: a fetch session tells the same news again",
        "pyklient/broker/fetch_sessions.py",
        "        self._sent[key] = offsets\n",
        "",
        ("tests/broker/test_fetch_sessions.py::test_an_answer_names_the_partitions_with_news",),
    ),
    Mutant(
        "broker: an old request of a fetch session is served",
        "pyklient/broker/fetch_sessions.py",
        "if session.epoch != request.session_epoch:",
        "if session.epoch < request.session_epoch:",
        ("tests/broker/test_fetch_sessions.py::test_a_request_that_comes_twice_is_refused_the_second_time",),
    ),
    Mutant(
        "broker: records of a transaction without a producer are stored",
        "pyklient/broker/log/record_validation.py",
        "    if batch.is_transactional and batch.producer_id < 0:\n",
        "    if batch.is_control and batch.producer_id < 0:\n",
        (
            "tests/broker/log/test_partition_log.py::test_damaged_and_forbidden_batches_are_refused_and_leave_no_trace",
        ),
    ),
    Mutant(
        "broker: checksums are not looked at",
        "pyklient/broker/log/record_validation.py",
        "            batch.verify()\n",
        "",
        (
            "tests/broker/log/test_partition_log.py::test_damaged_and_forbidden_batches_are_refused_and_leave_no_trace",
        ),
    ),
    Mutant(
        "broker: records are not counted",
        "pyklient/broker/log/record_validation.py",
        "            _check_records(batch)\n",
        "",
        ("tests/broker/test_hostile.py::test_a_compression_bomb_is_refused",),
    ),
    Mutant(
        "broker: a heartbeat does not tell of a rebalance",
        "pyklient/broker/groups/group.py",
        "        if self.state is GroupState.PREPARING:\n            raise",
        "        if self.state is GroupState.COMPLETING:\n            raise",
        ("tests/broker/groups/test_group.py::test_a_second_member_waits_until_the_first_has_joined_again",),
    ),
    Mutant(
        "broker: a member of an older generation is believed",
        "pyklient/broker/groups/group.py",
        "if generation != self.generation:",
        "if generation > self.generation:",
        ("tests/broker/groups/test_group.py::test_requests_of_an_old_generation_are_refused",),
    ),
    Mutant(
        "broker: a rebalance ends without the slow members",
        "pyklient/broker/groups/group.py",
        "joined = all(member.answer_join is not None",
        "joined = any(member.answer_join is not None",
        ("tests/broker/groups/test_group.py::test_a_second_member_waits_until_the_first_has_joined_again",),
    ),
    Mutant(
        "broker: a member that has gone silent stays",
        "pyklient/broker/groups/group.py",
        (
            '        self._remove(member, f"no heartbeat for {member.session_timeout_ms} ms")\n'
            "        self._rebalance()\n"
        ),
        "        self._rebalance()\n",
        (
            "tests/broker/groups/test_group.py::test_a_silent_member_is_removed_and_the_others_start_a_new_round",
        ),
    ),
    Mutant(
        "broker: a fenced static member goes on",
        "pyklient/broker/groups/group_members.py",
        "if current is not None and member_id and current != member_id:",
        "if current is not None and not member_id and current != member_id:",
        (
            "tests/broker/groups/test_group.py::test_a_static_member_that_restarts_takes_its_place_without_a_new_round",
        ),
    ),
    Mutant(
        "broker: an open transaction does not hold the last stable offset",
        "pyklient/broker/log/high_watermark_advance.py",
        "log_end_offset if first_open_offset is None else first_open_offset",
        "log_end_offset",
        (
            "tests/broker/log/test_transactions.py::test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins",
        ),
    ),
    Mutant(
        "broker: aborted transactions are not found again after a crash",
        "pyklient/broker/log/recovery.py",
        "    if first_offset is None or marker.is_commit:\n",
        "    if first_offset is None or marker.is_commit or not to_disk:\n",
        ("tests/broker/log/test_transactions.py::test_a_restart_finds_open_and_aborted_transactions_again",),
    ),
    Mutant(
        "broker: offsets of aborted transactions are committed",
        "pyklient/broker/groups/pending_offsets.py",
        "        if not is_commit:\n",
        "        if not is_commit and not ended:\n",
        (
            "tests/broker/groups/test_pending_offsets.py::test_aborted_offsets_are_forgotten_and_change_no_others",
        ),
    ),
    Mutant(
        "broker: offsets of an earlier record win if their transaction commits later",
        "pyklient/broker/groups/pending_offsets.py",
        "found.log_offset < log_offset",
        "found.log_offset < 0",
        (
            "tests/broker/groups/test_pending_offsets.py::test_the_later_record_of_two_transactions_wins_whichever_commits_first",
        ),
    ),
    Mutant(
        "broker: the end of a transaction does not increment the epoch",
        "pyklient/broker/transactions/transaction.py",
        'changes["epoch"] = min(self.epoch + 1, _MAX_EPOCH)',
        'changes["epoch"] = self.epoch',
        (
            "tests/broker/transactions/test_transaction.py::test_version_2_gives_a_new_epoch_at_the_end_of_each_transaction",
        ),
    ),
    Mutant(
        "broker: markers of an earlier transaction are written",
        "pyklient/broker/log/producer_state.py",
        "        if marker.producer_epoch < state.epoch or (\n",
        "        if marker.producer_epoch < 0 or (\n",
        ("tests/broker/log/test_transactions.py::test_late_batches_and_markers_are_refused",),
    ),
    Mutant(
        "broker: records of version 1 begin a transaction that the coordinator does not know",
        "pyklient/broker/handlers/produce.py",
        "        if not log.producers.has_open_transaction(*producer):\n",
        "        if not log.producers.has_open_transaction(*producer) and version >= _ADDS_PARTITIONS:\n",
        (
            "tests/broker/handlers/test_transactions.py::test_version_1_must_add_a_partition_before_it_produces",
        ),
    ),
    Mutant(
        "broker: a transaction that was being ended is forgotten",
        "pyklient/broker/transactions/transaction_coordinator.py",
        "                elif transaction.is_prepared:\n",
        "                elif transaction.is_prepared and transaction.timeout_ms < 0:\n",
        (
            "tests/broker/handlers/test_transactions.py::test_a_decision_holds_if_the_markers_cannot_be_written_at_once",
        ),
    ),
    Mutant(
        "broker: pending offsets are stable",
        "pyklient/broker/handlers/offset_fetch.py",
        "    if partition in unstable:\n",
        "    if partition in unstable and partition.partition < 0:\n",
        (
            "tests/broker/handlers/test_transactions.py::test_pending_offsets_are_unstable_until_the_transaction_ends",
        ),
    ),
    Mutant(
        "broker: a fetch does not list aborted transactions",
        "pyklient/broker/handlers/fetch.py",
        "    if not isinstance(records, FileSlice):\n        return []\n",
        "    return []\n",
        (
            "tests/broker/handlers/test_transactions.py::test_a_fetch_lists_the_aborted_transactions_of_its_records",
        ),
    ),
    Mutant(
        "broker: a refused commit is kept",
        "pyklient/broker/handlers/offset_commit.py",
        "            error_for_all\n            or unknown_topic\n",
        "            unknown_topic\n",
        (
            "tests/broker/handlers/test_group_membership.py::test_only_members_of_the_current_generation_commit_while_there_are_members",
        ),
    ),
    Mutant(
        "broker: committed offsets do not outlive the broker",
        "pyklient/broker/groups/offsets_partition.py",
        "        self._log.append_own(records, producer)\n",
        "",
        ("tests/broker/groups/test_offsets_partition.py::test_what_was_committed_is_there_after_a_restart",),
    ),
    Mutant(
        "broker: a group that is not loaded yet is served",
        "pyklient/broker/groups/group_coordinator.py",
        "if not self.partitions.is_loaded(self.partitions.of_group(group_id)):",
        "if self.partitions.of_group(group_id).loaded and False:",
        (
            "tests/broker/handlers/test_coordinator_load.py::test_requests_about_a_group_that_is_not_loaded_yet_get_the_error_of_kafka",
        ),
    ),
    Mutant(
        "broker: offsets of subscribed topics expire",
        "pyklient/broker/groups/offset_expiry.py",
        "if partition.topic in subscribed:",
        "if partition.topic in subscribed and False:",
        (
            "tests/broker/groups/test_offset_expiry.py::test_while_consumers_use_the_group_only_topics_without_a_subscriber_expire",
        ),
    ),
    Mutant(
        "broker: compaction keeps the oldest record of a key",
        "pyklient/broker/log/compaction.py",
        "            newest[record.key] = record.offset\n",
        "            newest.setdefault(record.key, record.offset)\n",
        ("tests/broker/log/test_compaction.py::test_the_newest_record_of_each_key_keeps_its_offset",),
    ),
    Mutant(
        "broker: a pattern matches the beginning of a text",
        "pyklient/broker/linear_pattern.py",
        "            if not states:\n                return False\n",
        "            if self._end in states:\n                return True\n",
        ("tests/broker/test_linear_pattern.py",),
    ),
)
