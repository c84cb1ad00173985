"""Mistakes in ``pyklient/consumer/``, except those in ``group/``, and those about corrupt batches and leader
epochs."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "consumer: a position that is committed is forgotten when the partition stays in a rebalance",
        "pyklient/consumer/commit/uncommitted_positions.py",
        "if self._is_committed(partition, handed) and not goes_on:",
        "if self._is_committed(partition, handed):",
        (
            "tests/consumer/group/test_groups.py::test_a_partition_that_stays_is_read_on_at_its_position_whatever_the_program_commits",
        ),
    ),
    Mutant(
        "consumer: a position that the program went back to during a rebalance is not committed",
        "pyklient/consumer/commit/uncommitted_positions.py",
        "and (handed.chosen or handed.offset not in self._again.get(partition, ()))",
        "and handed.offset not in self._again.get(partition, ())",
        (
            "tests/consumer/group/test_groups.py::test_a_position_that_the_program_goes_back_to_is_committed_also_if_messages_come_again",
        ),
    ),
    Mutant(
        "consumer: a redelivery empties what was fetched before it is queued again",
        "pyklient/consumer/stream/message_in_hand.py",
        "                found.append((fetched, before))\n",
        "                fetched.buffer = memoryview(b'')\n                found.append((fetched, before))\n",
        (
            "tests/consumer/stream/test_interrupts.py::test_a_redelivery_that_is_interrupted_loses_nothing_of_a_response_with_several_chunks",
        ),
    ),
    Mutant(
        "consumer: a batch is handed out although the lease has ended while it was decoded",
        "pyklient/consumer/stream/chunk_reader.py",
        "        if self._lease.ended():\n            self.return_unread()\n            return []\n",
        "",
        (
            "tests/consumer/stream/test_lease.py::test_a_batch_that_was_not_handed_out_before_the_end_of_the_lease_comes_later",
        ),
    ),
    Mutant(
        "consumer: the offsets of a deleted topic count for a new topic of its name",
        "pyklient/consumer/commit/offset_storages/zookeeper_offset_storage.py",
        "if node.written < created[each.topic]:",
        "if node.created < created[each.topic] < 0:",
        (
            "tests/consumer/offsets/test_read_offsets.py::test_an_offset_from_before_the_topic_was_created_does_not_count_and_is_logged",
        ),
    ),
    Mutant(
        "consumer: two offset storages resume at the smaller offset",
        "pyklient/consumer/commit/offset_storages/dual_offset_storage.py",
        "in_zookeeper.offset > in_kafka.offset",
        "in_zookeeper.offset < in_kafka.offset",
        (
            "tests/consumer/offsets/test_dual_offset_storage.py::test_row_22_the_larger_offset_counts_with_the_metadata_in_kafka",
        ),
    ),
    Mutant(
        "consumer: a start that only one of two offset storages has counts as committed",
        "pyklient/consumer/owned_partitions.py",
        "self.committed is None or isinstance(self.committed, PartlyCommitted)",
        "self.committed is None",
        (
            "tests/consumer/offsets/test_looked_up_starts.py::test_a_start_that_one_of_two_stores_has_is_committed_to_both_although_nothing_is_read",
        ),
    ),
    Mutant(
        "consumer: what the group coordinator rejects is written to ZooKeeper",
        "pyklient/consumer/commit/offset_storages/dual_offset_storage.py",
        "for each, position in positions.items() if each not in rejected",
        "for each, position in positions.items()",
        (
            "tests/consumer/offsets/test_dual_offset_storage.py::test_what_kafka_rejects_is_not_written_to_zookeeper",
        ),
    ),
    Mutant(
        "consumer: a pattern of topics tries the same steps at the same position again",
        "pyklient/consumer/topic_filters/name_matcher.py",
        "            tried.add(state)",
        "            tried.add((0, -1))",
        ("tests/consumer/topic_filters/test_name_matcher.py::test_a_pattern_with_many_ways_is_decided_soon",),
    ),
    Mutant(
        "consumer: a class in a pattern of topics ignores what it is to have in common",
        "pyklient/consumer/topic_filters/java_patterns.py",
        "found = frozenset.intersection(*map(frozenset, parts))",
        "found = frozenset.union(*map(frozenset, parts))",
        (
            "tests/consumer/topic_filters/test_java_patterns.py::test_a_pattern_matches_the_names_that_it_matches_in_java",
        ),
    ),
    Mutant(
        "consumer: a topic is given up when one snapshot of the metadata does not contain it",
        "pyklient/consumer/group/subscription.py",
        "self.topics = found | self._missing_since.keys()",
        "self.topics = found",
        (
            "tests/consumer/group/test_subscription.py::test_a_topic_leaves_the_selection_when_two_snapshots_do_not_contain_it",
        ),
    ),
    Mutant(
        "consumer: the prefetch budget is two and a half times as large",
        "pyklient/consumer/fetch/fetcher_manager.py",
        "FetchBudget(config.prefetch_max_bytes)",
        "FetchBudget(config.prefetch_max_bytes * 5 // 2)",
        (
            "tests/consumer/fetch/test_prefetch.py::test_streams_that_are_not_read_fetch_no_more_ahead_than_their_budget",
        ),
    ),
    Mutant(
        "consumer: the prefetch budget is a fourth larger",
        "pyklient/consumer/fetch/fetcher_manager.py",
        "FetchBudget(config.prefetch_max_bytes)",
        "FetchBudget(config.prefetch_max_bytes * 5 // 4)",
        (
            "tests/consumer/fetch/test_prefetch.py::test_streams_that_are_not_read_fetch_no_more_ahead_than_their_budget",
        ),
    ),
    Mutant(
        "consumer: a partition has the whole budget to itself",
        "pyklient/consumer/fetch/fetch_budget.py",
        "return self._total // 2 // max(1, len(self.cursors))",
        "return self._total",
        (
            "tests/consumer/fetch/test_fetch_budget.py::test_a_partition_where_nothing_waits_is_always_fetched",
        ),
    ),
    Mutant(
        "consumer: a fetch makes no room for those of other brokers",
        "pyklient/consumer/fetch/fetch_budget.py",
        "                left -= each.size",
        "                pass",
        (
            "tests/consumer/fetch/test_fetch_budget.py::test_a_response_leaves_room_for_what_the_other_fetchers_have_asked_for",
        ),
    ),
    Mutant(
        "consumer: the message in hand counts as done",
        "pyklient/consumer/stream/chunk_reader.py",
        "offset = self.in_hand.first(chunk, position) if self.busy and not in_hand else position",
        "offset = position",
        (
            "tests/consumer/stream/test_stream_core.py::test_a_message_counts_as_in_hand_until_the_next_one_is_asked_for",
        ),
    ),
    Mutant(
        "consumer: a message that is done comes into hand again when the loop asks for the next one",
        "pyklient/consumer/stream/message_in_hand.py",
        "return position if chunk.handed == self.done else chunk.last_handed",
        "return chunk.last_handed",
        (
            "tests/consumer/stream/test_stream_core.py::test_a_message_that_is_done_does_not_come_into_hand_again_when_a_loop_asks",
        ),
    ),
    Mutant(
        "consumer: a batch in hand counts as done",
        "pyklient/consumer/stream/chunk_reader.py",
        (
            "            if not in_hand:\n"
            "                for partition, (cursor, offset) in self.in_hand.batch.items():"
        ),
        (
            "            if in_hand:\n"
            "                for partition, (cursor, offset) in self.in_hand.batch.items():"
        ),
        ("tests/consumer/stream/test_stream_core.py::test_a_batch_is_in_hand_as_a_whole",),
    ),
    Mutant(
        "consumer: what is queued of a lost partition is handed out",
        "pyklient/consumer/fetch/fetch_queue.py",
        "            if item.cursor.active:\n                if isinstance(item, FetchedBatches):",
        "            if True:\n                if isinstance(item, FetchedBatches):",
        (
            "tests/consumer/stream/test_stream_core.py::test_a_failure_of_a_partition_that_was_taken_away_is_passed_over",
        ),
    ),
    Mutant(
        "consumer: what is left of a chunk is handed out after a seek",
        "pyklient/consumer/stream/chunk_reader.py",
        "            self.stop()\n            before = self.handed",
        "            before = self.handed",
        ("tests/consumer/test_stream_control.py::test_a_loop_goes_on_where_its_own_handler_seeks",),
    ),
    Mutant(
        "consumer: what was fetched of a paused partition is forgotten",
        "pyklient/consumer/fetch/fetch_queue.py",
        "items = deque((*self.items, *self._set_aside.get(partition, ())))",
        "items = deque(self.items)",
        (
            "tests/consumer/test_stream_control.py::test_a_paused_partition_hands_out_nothing_and_goes_on_where_it_was",
        ),
    ),
    Mutant(
        "consumer: a paused partition is fetched",
        "pyklient/consumer/fetch/fetch_plan.py",
        "[state.cursor for state in may_fetch if not state.cursor.owned.paused]",
        "[state.cursor for state in may_fetch]",
        (
            "tests/consumer/test_stream_control.py::test_a_paused_partition_keeps_what_was_fetched_and_is_not_fetched_more",
        ),
    ),
    Mutant(
        "consumer: what is fetched is not counted",
        "pyklient/consumer/fetch/fetch_queue.py",
        "                    item.cursor.fetched += item.size\n",
        "                    pass\n",
        (
            "tests/consumer/stream/test_stream_core.py::test_bytes_taken_are_accounted_for_as_they_are_decoded",
        ),
    ),
    Mutant(
        "consumer: a commit of partitions that are others' goes through",
        "pyklient/consumer/commit/offset_committer.py",
        "                if assignment.holds(each, position.generation)\n            }\n            gone",
        "            }\n            gone",
        (
            "tests/consumer/offsets/test_offset_committer.py::test_what_another_member_reads_now_is_not_committed",
        ),
    ),
    Mutant(
        "consumer: a commit that was refused counts as stored",
        "pyklient/consumer/commit/offset_committer.py",
        "assignment, {each: wanted[each] for each in ours if each not in rejected}",
        "assignment, {each: wanted[each] for each in ours}",
        (
            "tests/consumer/offsets/test_offset_committer.py::test_a_partition_that_was_refused_is_named_and_sent_again_by_the_next_commit",
        ),
    ),
    Mutant(
        "consumer: a commit in a rebalance is not tried again",
        "pyklient/consumer/commit/offset_committer.py",
        "again = [each for each, why in rejected.items() if why.outdated]",
        "again = [each for each, why in rejected.items() if not why.outdated]",
        (
            "tests/consumer/offsets/test_offset_committer.py::test_a_commit_in_the_middle_of_a_rebalance_is_made_again_by_who_holds_the_next_assignment",
        ),
    ),
    Mutant(
        "consumer: what is committed is committed again and again",
        "pyklient/consumer/commit/uncommitted_positions.py",
        "            self._committed[each] = position.at\n",
        "",
        ("tests/consumer/offsets/test_offset_committer.py::test_what_is_committed_is_not_sent_again",),
    ),
    Mutant(
        "consumer: a partition of an older generation is committed",
        "pyklient/consumer/owned_partitions.py",
        "return owned is not None and owned.since <= generation",
        "return owned is not None",
        (
            "tests/consumer/offsets/test_offset_committer.py::test_what_another_member_reads_now_is_not_committed",
        ),
    ),
    Mutant(
        "consumer: a fetch session forgets nothing",
        "pyklient/consumer/fetch/fetch_session.py",
        "(want is None or (by_id and",
        "(want is not None and (by_id and",
        (
            "tests/consumer/fetch/test_fetch_session.py::test_the_first_request_opens_a_session_and_the_next_names_what_has_changed",
        ),
    ),
    Mutant(
        "consumer: a fetch session names only new partitions",
        "pyklient/consumer/fetch/fetch_session.py",
        "            if before == want:",
        "            if before is not None and want is not None:",
        (
            "tests/consumer/fetch/test_fetch_session.py::test_the_first_request_opens_a_session_and_the_next_names_what_has_changed",
        ),
    ),
    Mutant(
        "consumer: the epoch of a fetch session wraps to 0",
        "pyklient/consumer/fetch/fetch_session.py",
        "return epoch + 1 if epoch < _LAST_EPOCH else 1",
        "return epoch + 1 if epoch < _LAST_EPOCH else 0",
        ("tests/consumer/fetch/test_fetch_session.py::test_epochs_start_again_at_one_behind_the_last",),
    ),
    Mutant(
        "consumer: a fetch goes on at the last batch again",
        "pyklient/consumer/fetch/fetcher.py",
        "position = max(position, run.next_offset)",
        "position = max(position, run.next_offset - 1)",
        ("tests/consumer/test_consumer_connector.py::test_streams_are_made_by_topic_and_each_reads_a_share",),
    ),
    Mutant(
        "consumer: a bounded read does not end with its last record",
        "pyklient/consumer/consumed_positions.py",
        "end is not None and offset >= end",
        "end is not None and offset > end",
        (
            "tests/consumer/stream/test_stream_core.py::test_a_bounded_stream_ends_once_every_partition_has_come_to_its_end",
        ),
    ),
    Mutant(
        "consumer: a bounded read hands out the record at its end",
        "pyklient/consumer/stream/messages_or_columns.py",
        "if message.offset < end]",
        "if message.offset <= end]",
        (
            "tests/consumer/stream/test_stream_core.py::test_a_bounded_stream_ends_once_every_partition_has_come_to_its_end",
        ),
    ),
    Mutant(
        "consumer: a partition that is read anew is read twice",
        "pyklient/consumer/fetch/fetch_queue.py",
        "self.cursors[cursor.partition], cursor.dropped = successor, True",
        "self.cursors[cursor.partition] = successor",
        (
            "tests/consumer/stream/test_stream_core.py::test_what_is_fetched_late_for_a_claim_that_has_a_successor_is_dropped",
        ),
    ),
    Mutant(
        "consumer: a seek in a rebalance listener begins a fetch at once",
        "pyklient/consumer/fetch/fetcher_manager.py",
        "if successor is not None and not successor.owned.held_back:",
        "if successor is not None:",
        (
            "tests/consumer/group/test_control_in_listener.py::test_a_listener_seeks_before_anything_is_fetched",
        ),
    ),
    Mutant(
        "consumer: offsets refused for good are sent for ever",
        "pyklient/consumer/commit/offset_storages/kafka_offset_storage.py",
        "for each, why in rejected.items() if each not in again)",
        "for each, why in rejected.items() if each in again)",
        (
            "tests/consumer/offsets/test_kafka_offset_storage.py::test_only_what_a_busy_coordinator_put_off_is_sent_again",
        ),
    ),
    Mutant(
        "consumer: a second thread may read a stream",
        "pyklient/consumer/stream/active_loop.py",
        "self._check_not_read(me, other is not hold or not hold.moves)",
        "self._check_not_read(me, other is hold and not hold.moves)",
        ("tests/consumer/stream/test_active_loop.py::test_a_second_thread_is_refused_and_changes_nothing",),
    ),
    Mutant(
        "consumer: after one large message, an old broker is asked for large responses for good",
        "pyklient/consumer/fetch/fetcher.py",
        "        cursor.fetch_bytes = None\n",
        "",
        (
            "tests/consumer/fetch/test_partial_messages.py::"
            "test_a_message_that_was_cut_off_is_asked_for_with_twice_the_bytes",
        ),
    ),
    Mutant(
        "consumer: a partition that multifetch names twice is fetched once",
        "pyklient/consumer/simple/broker_fetches.py",
        "seen[each.where] = before + 1",
        "seen[each.where] = before",
        (
            "tests/consumer/simple/test_broker_consumer.py::test_multifetch_answers_in_the_order_of_the_list_in_which_a_partition_may_appear_twice",
        ),
    ),
    Mutant(
        "consumer: a fetch request puts the partitions of a topic together",
        "pyklient/consumer/simple/fetch_requests.py",
        "if not topics or topics[-1].topic != each.topic:",
        "if all(topic.topic != each.topic for topic in topics):",
        (
            "tests/consumer/simple/test_fetch_requests.py::test_the_partitions_are_in_the_order_of_the_fetches_on_the_wire_too",
        ),
    ),
    Mutant(
        "consumer: a builder keeps the fetches of the request that it has built",
        "pyklient/consumer/simple/fetch_requests.py",
        "        self._fetches.clear()\n",
        "",
        (
            "tests/consumer/simple/test_fetch_requests.py::test_a_builder_has_the_defaults_of_kafkas_and_begins_anew_after_build",
        ),
    ),
    Mutant(
        "consumer: a message that was cut off counts as the end of the log",
        "pyklient/consumer/simple/fetched.py",
        "    if records and not position:",
        "    if not records and position:",
        (
            "tests/consumer/simple/test_broker_consumer.py::test_rows_47_and_48_a_message_that_is_cut_off_is_an_error_or_left_for_the_next_fetch",
        ),
    ),
    Mutant(
        "consumer: offsets for ZooKeeper are committed to Kafka",
        "pyklient/consumer/simple/broker_group_offsets.py",
        "_IN_ZOOKEEPER: Final = _Versions(0, 0)",
        "_IN_ZOOKEEPER: Final = _Versions(1, 1)",
        (
            "tests/consumer/simple/test_broker_consumer.py::test_a_broker_without_zookeeper_cannot_keep_offsets_there",
        ),
    ),
    Mutant(
        "consumer: a queue accepts any number of chunks",
        "pyklient/consumer/fetch/fetcher_handover.py",
        "    return [state for state in states if state.queue in with_space]",
        "    return states",
        (
            "tests/consumer/fetch/test_prefetch.py::test_a_stream_with_as_many_chunks_as_the_option_allows_is_not_fetched_for_and_gets_all_messages",
        ),
    ),
    Mutant(
        "consumer: partitions without new records keep another from being read",
        "pyklient/consumer/fetch/fetcher_handover.py",
        "    return [state for state in states if state.queue in with_space]",
        "    return [state for state in states if state.queue in with_space][:1]",
        (
            "tests/consumer/fetch/test_prefetch.py::test_partitions_without_new_records_do_not_keep_another_from_being_read",
        ),
    ),
    Mutant(
        "consumer: a chunk that is read wakes no other fetcher",
        "pyklient/consumer/fetch/fetch_queue.py",
        "                        self._wake_fetchers()",
        "                        pass",
        (
            "tests/consumer/fetch/test_prefetch.py::test_a_chunk_that_is_read_lets_all_fetchers_of_its_stream_continue",
        ),
    ),
    Mutant(
        "consumer: shallow iteration hands out a batch before the position",
        "pyklient/consumer/stream/shallow_iteration.py",
        "found = [message] if offset >= fetched.start else []",
        "found = [message]",
        (
            "tests/consumer/stream/test_shallow_iteration.py::test_a_batch_before_the_position_is_left_out_and_the_position_is_behind_the_last_record",
        ),
    ),
    Mutant(
        "consumer: shallow iteration verifies no checksum of a message set",
        "pyklient/consumer/stream/shallow_iteration.py",
        "        verify_entry(entry)",
        "        pass",
        ("tests/consumer/stream/test_shallow_iteration.py::test_a_damaged_batch_is_an_error",),
    ),
    Mutant(
        "consumer: a commit that is tried once waits for the next generation",
        "pyklient/consumer/commit/offset_committer.py",
        "again = [] if once else self._await_next",
        "again = self._await_next",
        (
            "tests/consumer/offsets/test_offset_committer.py::test_a_commit_that_is_tried_once_waits_for_no_other_generation",
        ),
    ),
    Mutant(
        "consumer: a commit is tried until its time-out whatever the options say",
        "pyklient/consumer/commit/offset_storages/kafka_offset_storage.py",
        "tries=retries.tries, ",
        "",
        (
            "tests/consumer/offsets/test_kafka_offset_storage.py::test_a_commit_is_tried_as_often_as_the_options_say_with_their_pause_and_time_out",
        ),
    ),
    Mutant(
        "consumer: a member does not wait for the offsets of an open transaction",
        "pyklient/consumer/commit/offset_storages/kafka_offset_storage.py",
        "partitions, stable=True)",
        "partitions, stable=False)",
        (
            "tests/consumer/offsets/test_kafka_offset_storage.py::test_offsets_that_are_about_to_change_are_asked_for_again",
        ),
    ),
    Mutant(
        "consumer: a connector that has left its group names itself to transactions as no member",
        "pyklient/consumer/group/member_metadata.py",
        "if assignment.identity == NOBODY and not isinstance(membership, StandaloneMembership):",
        "if ownership.assignment is None:",
        (
            "tests/consumer/group/test_group_metadata.py::test_a_member_that_has_left_because_its_loop_stood_still_has_no_metadata",
        ),
    ),
    Mutant(
        "consumer: a reader that has not come to an open transaction counts as waiting for it",
        "pyklient/consumer/fetch/open_transactions.py",
        "stable < data.high_watermark and position >= stable",
        "stable < data.high_watermark",
        (
            "tests/consumer/fetch/test_open_transactions.py::test_a_reader_that_has_not_come_to_the_transaction_does_not_wait",
        ),
    ),
    Mutant(
        "consumer: a simple consumer hands out records of aborted transactions",
        "pyklient/consumer/simple/fetched.py",
        "next_offset, position=position, aborted=aborted)",
        "next_offset, position=position)",
        (
            "tests/consumer/stream/test_emptied_markers.py::test_a_simple_consumer_passes_over_emptied_markers",
        ),
    ),
)
