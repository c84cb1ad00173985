"""Mistakes in ``pyklient/consumer/`` about corrupt and cut batches, Arrow columns, and leader epochs."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "consumer: a request for large batches does not end after a whole batch",
        "pyklient/consumer/fetch/fetcher.py",
        "        cursor.cut_batch = cut_batch_size(records, runs[-1].end)\n",
        "",
        (
            "tests/consumer/fetch/test_cut_batches.py::"
            "test_after_a_batch_was_cut_off_requests_ask_for_whole_batches",
        ),
    ),
    Mutant(
        "consumer: a position is committed with the leader epoch of the next record",
        "pyklient/consumer/read_epochs.py",
        "if each.start < offset <= each.end:",
        "if each.start <= offset <= each.end:",
        (
            "tests/consumer/offsets/test_leader_epochs.py::test_a_message_in_hand_that_is_not_committed_does_not_count",
        ),
    ),
    Mutant(
        "consumer: handlers in parallel commit the leader epoch of the last message that was read",
        "pyklient/consumer/parallel/parallel_stream.py",
        "found[partition] = position._replace(leader_epoch=epoch)",
        "found[partition] = position",
        (
            "tests/consumer/offsets/test_leader_epochs.py::test_handlers_in_parallel_commit_the_epoch_before_the_first_message_in_hand",
        ),
    ),
    Mutant(
        "consumer: the message after a corrupt batch is skipped too",
        "pyklient/consumer/stream/decoding_failures.py",
        "self._fetch_again(item, cursor, to)",
        "self._fetch_again(item, cursor, to + 1)",
        (
            "tests/consumer/stream/test_corrupt_records.py::test_a_batch_that_cannot_be_read_is_skipped_told_and_counted",
        ),
    ),
    Mutant(
        "consumer: a corrupt batch at the end of the log stays before the position",
        "pyklient/consumer/stream/decoding_failures.py",
        "            queue.positions.note(cursor.owned, to)\n",
        "",
        (
            "tests/consumer/stream/test_corrupt_records.py::test_the_position_moves_past_what_is_skipped_at_the_end",
        ),
    ),
    Mutant(
        "consumer: a batch that was damaged on its way from the broker is skipped",
        "pyklient/consumer/stream/decoding_failures.py",
        "if not goes_on and self._suspects.get(cursor.partition) != (cursor, position):",
        "if not goes_on and self._suspects:",
        (
            "tests/consumer/stream/test_corrupt_records.py::test_bytes_that_were_damaged_on_their_way_are_fetched_again_and_nothing_is_skipped",
        ),
    ),
    Mutant(
        "consumer: each request looks at all partitions",
        "pyklient/consumer/fetch/fetch_plan.py",
        "            or (self._updates + 1) * _PARTITIONS_AT_ONCE >= len(self.states)",
        "            or True",
        (
            "tests/consumer/fetch/test_fetch_plan.py::test_a_request_takes_as_many_steps_with_forty_times_the_partitions",
        ),
    ),
    Mutant(
        "consumer: a loop continues with columns that lack some of its own",
        "pyklient/consumer/stream/messages_or_columns.py",
        "isinstance(chunk, ColumnChunk) and chunk.left_out <= self.left_out",
        "isinstance(chunk, ColumnChunk)",
        (
            "tests/consumer/stream/test_arrow_batches.py::test_loops_with_other_columns_and_for_loops_share_one_cursor",
        ),
    ),
)
