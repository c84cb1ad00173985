"""Mistakes in ``pyklient/offset_stores/``, and where a consumer saves positions in an offset store."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "offset_stores: a position is saved under an old epoch",
        "pyklient/offset_stores/statements.py",
        "AND epoch = {mark} ",
        "AND epoch >= {mark} ",
        (
            "tests/offset_stores/test_offset_stores.py::test_a_change_needs_the_newest_epoch_and_the_stored_offset",
            "tests/consumer/offsets/test_saved_positions.py::test_a_fenced_member_stores_nothing_and_goes_on_after_rewind",
        ),
    ),
    Mutant(
        "offset_stores: it does not matter at which offset the messages of a transaction begin",
        "pyklient/offset_stores/statements.py",
        'f"AND next_offset = {mark}"',
        'f"AND next_offset <> {mark} - 1000000"',
        (
            "tests/consumer/offsets/test_saved_positions.py::test_messages_of_a_transaction_that_was_rolled_back_cannot_be_left_out",
        ),
    ),
    Mutant(
        "consumer: a transaction that is repeated saves no positions",
        "pyklient/consumer/commit/offset_storages/saved_positions.py",
        "if last is not None and (last.asks, last.handed) == (asks, handed):",
        "if False and last is not None:",
        (
            "tests/consumer/offsets/test_saved_positions.py::test_a_transaction_that_was_rolled_back_may_be_repeated_or_read_again",
        ),
    ),
    Mutant(
        "consumer: messages that were read before a rebalance are saved after it",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "if each in handed and not _goes_on(",
        "if False and not _goes_on(",
        (
            "tests/consumer/offsets/test_saves_and_rebalances.py::test_messages_of_a_partition_that_stays_in_a_rebalance_are_read_again",
        ),
    ),
    Mutant(
        "consumer: a partition that comes back at the position of messages not saved counts as saved",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "and old.all_saved(handed)\n",
        "",
        (
            "tests/consumer/offsets/test_saves_and_rebalances.py::test_messages_that_another_member_has_stored_are_not_stored_again",
        ),
    ),
    Mutant(
        "consumer: a save counts as committed although another member may have stored its messages",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "alone = stored[each].epoch == old.epoch + 1",
        "alone = True",
        (
            "tests/consumer/offsets/test_saves_and_rebalances.py::test_messages_that_another_member_has_stored_are_not_stored_again",
        ),
    ),
    Mutant(
        "consumer: a save that was rolled back is noticed only when its partitions move",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "if unconfirmed and not changes.keys() & unconfirmed:",
        "if False:",
        (
            "tests/consumer/offsets/test_saved_positions.py::test_a_transaction_that_was_rolled_back_is_noticed_when_its_partitions_have_not_moved",
        ),
    ),
    Mutant(
        "consumer: the last save is checked at a partition that has gone to another member",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "key=lambda one: (one not in reads, one)",
        "key=lambda one: (one in reads, one)",
        (
            "tests/consumer/offsets/test_acquired_partitions.py::test_the_next_save_checks_one_offset_of_a_save_that_no_change_confirms",
        ),
    ),
    Mutant(
        "consumer: a save after seek stores messages that come again",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "self.outdated = _AFTER_SEEK",
        "pass",
        (
            "tests/consumer/offsets/test_saved_positions.py::test_seek_back_while_messages_are_not_saved_prevents_the_next_save",
        ),
    ),
    Mutant(
        "consumer: a position before the stored offset is saved",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "if position.offset < acquired.begins:",
        "if False:",
        (
            "tests/consumer/offsets/test_acquired_partitions.py::test_no_position_is_saved_that_is_before_the_stored_offset",
        ),
    ),
    Mutant(
        "consumer: a save confirms the epoch of a partition that was acquired again meanwhile",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "if acquired.epoch != change.epoch:",
        "if False:",
        (
            "tests/consumer/offsets/test_acquired_partitions.py::test_nothing_is_recorded_of_a_save_whose_partition_was_acquired_again_meanwhile",
        ),
    ),
    Mutant(
        "consumer: a rebalance listener saves positions of messages in hand",
        "pyklient/consumer/stream_control.py",
        "if self._ownership.changes_here():",
        "if False:",
        (
            "tests/consumer/offsets/test_saves_and_rebalances.py::test_a_rebalance_listener_can_neither_save_nor_rewind",
        ),
    ),
    Mutant(
        "consumer: a loop waits for ever inside a transaction that blocks the offset store",
        "pyklient/consumer/group/start_positions.py",
        "            stream.queue.interrupt(error)",
        "            pass",
        (
            "tests/consumer/offsets/test_saves_and_rebalances.py::test_a_loop_that_waits_for_messages_inside_a_transaction_raises_an_error",
        ),
    ),
    Mutant(
        "consumer: an error of an offset store that says it is retriable ends the connector",
        "pyklient/consumer/commit/offset_storages/saved_positions.py",
        'if isinstance(error, KafkaError) or not getattr(error, "retriable", False):',
        "if True:",
        (
            "tests/consumer/offsets/test_saved_positions.py::test_an_error_of_a_store_that_says_it_is_retriable_is_tried_again",
        ),
    ),
    Mutant(
        "offset_stores: PostgreSQL's pipeline mode rejects every change",
        "pyklient/offset_stores/postgres.py",
        "(offset, group_id, *each, epoch, replaced)).fetchone() is None",
        "(offset, group_id, *each, epoch, replaced)).rowcount != 1",
        (
            "tests/offset_stores/test_offset_stores.py::test_a_transaction_in_pipeline_mode_saves_positions_too",
        ),
    ),
    Mutant(
        "consumer: seek may go back over a save that was rolled back",
        "pyklient/consumer/commit/offset_storages/acquired_partitions.py",
        "(self.certain or not back)",
        "True",
        (
            "tests/consumer/offsets/test_acquired_partitions.py::test_seek_back_over_a_save_that_may_have_been_rolled_back_prevents_the_next_save",
        ),
    ),
    Mutant(
        "consumer: a read that ends within a batch saves the end of the batch",
        "pyklient/consumer/consumed_positions.py",
        "offset = min(offset, end)",
        "offset += 0",
        (
            "tests/consumer/offsets/test_saved_reads.py::test_each_form_of_read_begins_where_the_last_transaction_ended",
        ),
    ),
    Mutant(
        "consumer: a read with an offset store begins at its start and not at the stored position",
        "pyklient/consumer/bounded_read.py",
        "self.bounds[each] = offset, last",
        "pass",
        (
            "tests/consumer/offsets/test_saved_reads.py::test_each_form_of_read_begins_where_the_last_transaction_ended",
        ),
    ),
    Mutant(
        "consumer: an offset store that does not say what it has rejected counts as one that has saved all",
        "pyklient/consumer/commit/offset_storages/saved_positions.py",
        "if not isinstance(rejected, Collection):",
        "if False:",
        (
            "tests/consumer/offsets/test_own_offset_stores.py::test_a_store_that_does_not_say_which_partitions_it_has_changed_saves_nothing",
        ),
    ),
    Mutant(
        "consumer: a member that an error has stopped stays in its group",
        "pyklient/consumer/group/classic/member_loop.py",
        'self._dialogues.play(leave(self._member, "an error has stopped the member"), _LEAVE_TIMEOUT)',
        "pass",
        (
            "tests/consumer/offsets/test_own_offset_stores.py::test_a_member_that_its_store_has_stopped_leaves_the_group",
        ),
    ),
    Mutant(
        "consumer: a read does not notice that the log ends before the stored position",
        "pyklient/consumer/bounded_read.py",
        "if offset > last and end.point(each) is None:",
        "if False:",
        (
            "tests/consumer/offsets/test_saved_reads.py::test_a_stored_position_that_the_log_does_not_have_is_an_error",
        ),
    ),
)
