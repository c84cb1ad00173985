"""Mistakes in ``pyklient/producer/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "producer: compression_type is ignored",
        "pyklient/producer/deliver/sender.py",
        "Compression.of(config.compression_type)",
        "Compression.NONE",
        (
            "tests/producer/deliver/test_batch_compression.py::test_records_lie_in_the_brokers_log_compressed_with_the_codec_asked_for",
        ),
    ),
    Mutant(
        "producer: every codec is gzip",
        "pyklient/producer/deliver/sender.py",
        "Compression.of(config.compression_type)",
        "Compression.GZIP if config.compression_type else Compression.NONE",
        (
            "tests/producer/deliver/test_batch_compression.py::test_records_lie_in_the_brokers_log_compressed_with_the_codec_asked_for",
        ),
    ),
    Mutant(
        "producer: max_in_flight_requests_per_connection is ignored",
        "pyklient/producer/deliver/broker_queue.py",
        "if not self.requests.line or self.in_flight >= self._options.max_in_flight:",
        "if not self.requests.line:",
        (
            "tests/producer/deliver/test_broker_queue.py::test_as_many_requests_are_in_flight_as_allowed_and_no_more",
        ),
    ),
    Mutant(
        "producer: one request more than allowed is in flight",
        "pyklient/producer/deliver/broker_queue.py",
        "if not self.requests.line or self.in_flight >= self._options.max_in_flight:",
        "if not self.requests.line or self.in_flight > self._options.max_in_flight:",
        (
            "tests/producer/deliver/test_broker_queue.py::test_as_many_requests_are_in_flight_as_allowed_and_no_more",
        ),
    ),
    Mutant(
        "producer: one request is in flight whatever is allowed",
        "pyklient/producer/deliver/broker_queue.py",
        "if not self.requests.line or self.in_flight >= self._options.max_in_flight:",
        "if not self.requests.line or self.in_flight >= 1:",
        (
            "tests/producer/deliver/test_broker_queue.py::test_as_many_requests_are_in_flight_as_allowed_and_no_more",
        ),
    ),
    Mutant(
        "producer: a full or flushed batch waits until a busy broker answers",
        "pyklient/producer/deliver/sender.py",
        "elif queue.in_line and queue.is_complete:",
        "elif False:",
        (
            "tests/producer/deliver/test_broker_queue.py::test_a_flushed_batch_waits_for_no_response",
            "tests/producer/deliver/test_broker_queue.py::"
            "test_a_batch_that_becomes_full_in_line_waits_for_no_response",
        ),
    ),
    Mutant(
        "producer: full batches take open ones along to a busy broker",
        "pyklient/producer/deliver/produce_requests.py",
        "self.complete if only_complete else self.line",
        "self.line",
        (
            "tests/producer/deliver/test_broker_queue.py::"
            "test_full_batches_do_not_wait_behind_open_ones_and_leave_these_in_line",
        ),
    ),
    Mutant(
        "producer: a broker that is only busy is not available for records without a key",
        "pyklient/producer/deliver/broker_queue.py",
        "(self.requests.line and not (self._keeps_up and self._gathers()))",
        "self.requests.line",
        (
            "tests/producer/deliver/test_broker_queue.py::"
            "test_a_broker_is_available_while_its_next_request_waits_to_grow",
        ),
    ),
    Mutant(
        "producer: callbacks of failed batches run before the memory of confirmed ones is released",
        "pyklient/producer/deliver/produce_responses.py",
        "                        errors.append((*found, one))",
        "                        self._apply_error(*found, one, confirmed)",
        (
            "tests/producer/deliver/test_produce_responses.py::"
            "test_callbacks_of_failed_batches_may_use_the_memory_of_batches_that_the_same_response_confirms",
        ),
    ),
    Mutant(
        "producer: while memory is left, requests are sent to a busy broker, and their batches are small",
        "pyklient/producer/deliver/broker_queue.py",
        "if self._keeps_up:",
        "if False:",
        ("tests/producer/deliver/test_broker_queue.py::test_a_second_request_waits_and_its_batch_grows",),
    ),
    Mutant(
        "producer: a slow broker gets its second request only after its answer to the first one",
        "pyklient/producer/deliver/broker_queue.py",
        "memory.waits == self._waits_at_end_before and memory.an_eighth_is_free",
        "memory.an_eighth_is_free",
        (
            "tests/producer/deliver/test_broker_queue.py::"
            "test_if_a_thread_has_waited_for_memory_the_third_request_waits_and_its_batch_grows",
        ),
    ),
    Mutant(
        "producer: compression gives no memory back",
        "pyklient/producer/accumulate/accumulator.py",
        "        batch.charged -= saved\n        self._release(saved)",
        "        return",
        (
            "tests/producer/deliver/test_batch_compression.py::test_compressed_batches_in_flight_leave_their_memory_to_new_records",
        ),
    ),
    Mutant(
        "producer: memory saved by compression is given back twice",
        "pyklient/producer/accumulate/accumulator.py",
        "        batch.charged -= saved\n",
        "",
        (
            "tests/producer/accumulate/test_accumulator.py::test_memory_in_use_is_what_the_batches_that_are_not_done_take",
        ),
    ),
    Mutant(
        "producer: compressed records stay in memory twice",
        "pyklient/producer/deliver/batch_compression.py",
        "        batch.release_records()\n",
        "",
        (
            "tests/kernel/append/test_batch_memory.py::test_a_batch_that_is_compressed_does_not_keep_its_records_beside_that",
        ),
    ),
    Mutant(
        "producer: a retry overtakes what is still in flight",
        "pyklient/producer/deliver/partition_queue.py",
        "return not self._in_flight and now >= self._retry_at",
        "return now >= self._retry_at",
        (
            "tests/producer/deliver/test_partition_queue.py::test_what_goes_again_waits_for_everything_in_flight_and_for_its_back_off",
        ),
    ),
    Mutant(
        "producer: a retry does not wait for its back-off",
        "pyklient/producer/deliver/partition_queue.py",
        "return not self._in_flight and now >= self._retry_at",
        "return not self._in_flight",
        (
            "tests/producer/deliver/test_partition_queue.py::test_what_goes_again_waits_for_everything_in_flight_and_for_its_back_off",
        ),
    ),
    Mutant(
        "producer: one batch more is in flight than a broker remembers",
        "pyklient/producer/deliver/partition_queue.py",
        "since_oldest >= limit",
        "since_oldest > limit",
        (
            "tests/producer/deliver/test_partition_queue.py::test_the_first_of_a_sequence_goes_alone_and_then_as_many_as_a_broker_remembers",
        ),
    ),
    Mutant(
        "producer: new batches are sent while an earlier one is in doubt",
        "pyklient/producer/deliver/partition_queue.py",
        "if not self._waiting or self._gap.first is not None or self._gap.doubt is not None:",
        "if not self._waiting or self._gap.first is not None:",
        (
            "tests/producer/deliver/test_partition_queue.py::test_nothing_new_goes_behind_a_batch_of_which_nobody_knows_whether_it_is_stored",
        ),
    ),
    Mutant(
        "producer: batches that go again go in the order in which they failed",
        "pyklient/producer/deliver/partition_queue.py",
        "insort(self._to_retry, batch, key=_order_of)\n            self._retry_at",
        "self._to_retry.append(batch)\n            self._retry_at",
        (
            "tests/producer/deliver/test_partition_queue.py::test_what_goes_again_goes_in_the_order_in_which_it_was_sent_first",
        ),
    ),
    Mutant(
        "producer: sequence numbers count batches",
        "pyklient/producer/deliver/sequences.py",
        "self._next = (self._next + count) % _SEQUENCE_MODULUS",
        "self._next = (self._next + 1) % _SEQUENCE_MODULUS",
        (
            "tests/producer/deliver/test_sequences.py::test_sequence_numbers_count_records_and_go_on_from_0_behind_the_largest",
        ),
    ),
    Mutant(
        "producer: sequence numbers do not wrap",
        "pyklient/producer/deliver/sequences.py",
        "self._next = (self._next + count) % _SEQUENCE_MODULUS",
        "self._next = self._next + count",
        (
            "tests/producer/deliver/test_sequences.py::test_sequence_numbers_count_records_and_go_on_from_0_behind_the_largest",
        ),
    ),
    Mutant(
        "producer: a new epoch goes on with the old sequence",
        "pyklient/producer/deliver/sequences.py",
        "        self._next = 0\n        self.known = False\n        if self._epoch < LAST_EPOCH:",
        "        self.known = False\n        if self._epoch < LAST_EPOCH:",
        (
            "tests/producer/deliver/test_sequences.py::test_a_sequence_begins_at_0_in_each_epoch_and_anew_with_another_id_behind_the_last",
        ),
    ),
    Mutant(
        "producer: the epoch runs over its largest number",
        "pyklient/producer/deliver/sequences.py",
        "if self._epoch < LAST_EPOCH:",
        "if self._epoch <= LAST_EPOCH:",
        (
            "tests/producer/deliver/test_sequences.py::test_a_sequence_begins_at_0_in_each_epoch_and_anew_with_another_id_behind_the_last",
        ),
    ),
    Mutant(
        "producer: a request without an answer counts as not stored",
        "pyklient/producer/deliver/broker_queue.py",
        "self._responses.unanswered(request.batches, error, in_doubt=True)",
        "self._responses.unanswered(request.batches, error, in_doubt=False)",
        (
            "tests/producer/deliver/test_sealed_batch.py::test_what_may_have_been_stored_whole_is_not_stored_again_in_halves",
        ),
    ),
    Mutant(
        "producer: an error code says the opposite about what is stored",
        "pyklient/producer/deliver/produce_responses.py",
        "self._retry(queue, batch, error, in_doubt=not is_certainly_not_stored(code))",
        "self._retry(queue, batch, error, in_doubt=is_certainly_not_stored(code))",
        (
            "tests/producer/deliver/test_sealed_batch.py"
            "::test_what_may_have_been_stored_whole_is_not_stored_again_in_halves",
            "tests/producer/deliver/test_sealed_batch.py"
            "::test_what_has_certainly_not_been_stored_is_sent_in_halves_where_it_turns_out_too_large",
        ),
    ),
    Mutant(
        "producer: a partition left out of an answer is forgotten",
        "pyklient/producer/deliver/produce_responses.py",
        "            self._retry_or_fail(queue, batch, error, in_doubt=True)\n\n",
        "            pass\n\n",
        (
            "tests/producer/deliver/test_produce_responses.py::test_a_partition_left_out_of_an_answer_is_sent_again",
        ),
    ),
    Mutant(
        "producer: one retry fewer than allowed",
        "pyklient/producer/deliver/retry_policy.py",
        "return batch.attempts <= self._retries",
        "return batch.attempts < self._retries",
        (
            "tests/producer/deliver/test_produce_responses.py::test_retries_are_counted_where_they_are_limited",
        ),
    ),
    Mutant(
        "producer: a batch that may be stored is split",
        "pyklient/producer/deliver/retry_policy.py",
        "return batch.count > 1 and not batch.expired and not may_be_duplicate",
        "return batch.count > 1 and not batch.expired",
        (
            "tests/producer/deliver/test_sealed_batch.py::test_what_may_have_been_stored_whole_is_not_stored_again_in_halves",
        ),
    ),
    Mutant(
        "producer: both halves of a batch have the same sequence",
        "pyklient/producer/deliver/sealed_batch.py",
        "(self.identity.sequence + offset) & INT32_MAX",
        "self.identity.sequence & INT32_MAX",
        (
            "tests/producer/deliver/test_sealed_batch.py::test_a_batch_too_large_for_the_broker_is_split_until_it_fits",
        ),
    ),
    Mutant(
        "producer: memory is never full",
        "pyklient/producer/accumulate/memory_use.py",
        "return self._appender.used_memory + size + Appender.OVERHEAD <= limit",
        "return True",
        ("tests/producer/accumulate/test_accumulator.py::test_memory_that_is_used_up_blocks_and_then_fails",),
    ),
    Mutant(
        "producer: the memory of a finished batch is not released",
        "pyklient/producer/accumulate/accumulator.py",
        "        self._extra_memory = 0\n        self._release(charged)",
        "        self._extra_memory = 0",
        (
            "tests/producer/accumulate/test_accumulator.py::test_memory_that_is_freed_goes_to_those_who_wait_in_turn",
        ),
    ),
    Mutant(
        "producer: a small record overtakes those who wait for memory",
        "pyklient/producer/accumulate/accumulator.py",
        "            if not self._waiting.wakeups:\n",
        "            if True:\n",
        (
            "tests/producer/accumulate/test_accumulator.py::test_a_small_record_does_not_overtake_a_large_one_that_waits_for_memory",
        ),
    ),
    Mutant(
        "producer: a new leader does not wait for the old one's answer",
        "pyklient/producer/deliver/partition_queue.py",
        "return self.sequences is None and bool(self._in_flight) and self._sent_to != node_id",
        "return False",
        (
            "tests/producer/deliver/test_partition_queue.py::test_nothing_goes_to_a_new_leader_before_the_old_one_has_answered",
        ),
    ),
    Mutant(
        "producer: outcomes are told as they come",
        "pyklient/producer/deliver/outcomes.py",
        "                    stop = bisect_left(waiting, batch.order, 0, stop, key=_order_of)",
        "                    pass",
        (
            "tests/producer/deliver/test_produce_responses.py::test_callbacks_of_a_partition_keep_the_order_of_the_records_when_some_go_again",
        ),
    ),
    Mutant(
        "producer: at exit, a warning comes before the closing",
        "pyklient/producer/producer.py",
        "        producer._close_transaction(deadline)\n        producer._begin_closing(deadline)\n",
        "        warnings.warn(left_open[producer], ResourceWarning, stacklevel=1)\n",
        (
            "tests/producer/test_exit.py::test_all_producers_left_open_deliver_at_exit_whatever_becomes_of_warnings",
        ),
    ),
    Mutant(
        "producer: topics are never forgotten",
        "pyklient/producer/deliver/topics_in_use.py",
        "now - used >= self._max_idle",
        "False",
        (
            "tests/producer/test_topic_metadata.py::test_topics_that_are_not_sent_to_any_more_are_forgotten_and_found_again",
        ),
    ),
    Mutant(
        "producer: closing waits for a deleted topic until the delivery time-out",
        "pyklient/producer/deliver/sender.py",
        "for queue in waiting if self._closing else ():",
        "for queue in ():",
        (
            "tests/producer/test_closing_with_missing_topics.py::test_closing_does_not_wait_for_a_topic_that_was_deleted_until_the_delivery_time_out",
        ),
    ),
    Mutant(
        "net: an old broker gets batches with zstd, which it does not know",
        "pyklient/net/produce_versions.py",
        "produce_version < _FIRST_WITH_ZSTD:",
        "produce_version < 3:",
        (
            "tests/producer/deliver/test_broker_queue.py::"
            "test_a_broker_that_does_not_know_zstd_gets_no_batch_with_it",
        ),
    ),
    Mutant(
        "producer: a partition that is in line at an abort is not added to the next transaction",
        "pyklient/producer/deliver/transaction_batches.py",
        "            queue.routed = False\n",
        "",
        (
            "tests/producer/test_transaction_calls.py::"
            "test_a_partition_whose_records_wait_at_an_abort_is_added_to_the_next_transaction",
        ),
    ),
    Mutant(
        "producer: after the last epoch, a partition in line sends without a producer id",
        "pyklient/producer/deliver/partition_queue.py",
        "        self.routed = self.sequences.producer_id >= 0\n",
        "",
        (
            "tests/producer/deliver/test_partition_queue.py::"
            "test_a_queue_in_line_sends_nothing_without_a_producer_id_after_the_last_epoch",
        ),
    ),
    Mutant(
        "producer: a batch that is sent again in sequence counts as a retry, another does not",
        "pyklient/producer/deliver/produce_responses.py",
        "        self.counts.retry(queue.at)\n        queue.retry(batch",
        "        queue.retry(batch",
        (
            "tests/producer/deliver/test_produce_responses.py"
            "::test_retries_failures_and_error_codes_are_counted_by_partition",
        ),
    ),
    Mutant(
        "producer: the next transaction does not complete an abort that was not confirmed",
        "pyklient/producer/transaction_manager.py",
        "if self._abort_unconfirmed and self._machine.state is State.FAILED:",
        "if False:",
        (
            "tests/producer/test_transaction_calls.py"
            "::test_the_next_transaction_first_completes_an_abort_that_is_not_confirmed",
        ),
    ),
    Mutant(
        "producer: a successor is taken for a time-out after a lost answer",
        "pyklient/producer/coordinator_requests.py",
        "if not transaction.confirmed or transaction.end_requests != 1:",
        "if not transaction.confirmed:",
        ("tests/producer/transactions/test_time_outs.py",),
    ),
    Mutant(
        "producer: the epoch of a successor is taken for that of a time-out",
        "pyklient/producer/transactions/coordinator_dialogues.py",
        "if aborted and (found.producer_id, found.producer_epoch) == raised:",
        "if aborted:",
        ("tests/producer/transactions/test_time_outs.py",),
    ),
    Mutant(
        "producer: after a time-out, the epoch of the lost transaction is raised",
        "pyklient/producer/coordinator_requests.py",
        "        self._identity.current = raised\n",
        "",
        ("tests/producer/transactions/test_time_outs.py",),
    ),
)
