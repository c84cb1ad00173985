"""Mistakes in ``pyklient/consumer/parallel/`` and ``pyklient/handlers/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_STREAM = "tests/consumer/parallel/test_parallel_stream.py"
_CONSUMER = "tests/consumer/parallel/test_parallel_consumer.py"

MUTANTS: Final = (
    Mutant(
        "consumer/parallel: messages in hand are committed",
        "pyklient/consumer/parallel/partition_progress.py",
        "first = next(iter(self._in_hand), read.offset)",
        "first = read.offset",
        (f"{_STREAM}::test_a_message_whose_handler_failed_is_not_committed",),
    ),
    Mutant(
        "consumer/parallel: two workers handle messages of one key at the same time",
        "pyklient/consumer/parallel/key_queues.py",
        "        if not queue.busy:\n",
        "        if True:\n",
        (f"{_STREAM}::test_whatever_happens_nothing_is_skipped_and_keys_keep_their_order",),
    ),
    Mutant(
        "consumer/parallel: what was done behind the committed offset is handled again",
        "pyklient/consumer/parallel/partition_progress.py",
        "if not (remembered and message.offset in remembered[0]):",
        "if True:",
        (f"{_STREAM}::test_the_first_message_in_hand_is_committed_and_what_is_done_behind_it_remembered",),
    ),
    Mutant(
        "consumer/parallel: messages of an emptied log are taken for those that were done",
        "pyklient/consumer/parallel/partition_progress.py",
        "if message.offset < self._next:",
        "if False:",
        (f"{_STREAM}::test_what_a_log_contains_after_it_was_emptied_is_not_mistaken_for_what_was_done",),
    ),
    Mutant(
        "consumer/parallel: more messages are done than the metadata of a commit can tell",
        "pyklient/consumer/parallel/key_queues.py",
        "if progress.held or not progress.may_start(message.offset):",
        "if False:",
        (f"{_STREAM}::test_a_message_too_far_from_the_first_one_in_hand_waits_until_that_is_done",),
    ),
    Mutant(
        "consumer/parallel: a rebalance does not wait for handlers",
        "pyklient/consumer/parallel/parallel_stream.py",
        "while self.queues.handles_revoked():",
        "while False:",
        (
            f"{_STREAM}::test_messages_of_a_revoked_partition_that_wait_are_dropped_and_come_again",
            f"{_CONSUMER}::test_a_rebalance_waits_for_messages_in_hand_and_gives_none_of_them_to_the_next_owner",
        ),
    ),
    Mutant(
        "consumer/parallel: workers get messages of revoked partitions",
        "pyklient/consumer/parallel/key_queues.py",
        "if task.progress.owned.active:",
        "if True:",
        (f"{_STREAM}::test_messages_of_a_revoked_partition_that_wait_are_dropped_and_come_again",),
    ),
    Mutant(
        "consumer/commit: new metadata at the committed offset is not committed",
        "pyklient/consumer/commit/uncommitted_positions.py",
        "return handed.metadata is None or handed.metadata == stored.metadata",
        "return True",
        (f"{_CONSUMER}::test_other_keys_go_on_while_a_handler_waits_and_come_again_to_nobody",),
    ),
    Mutant(
        "consumer/parallel: the message of a failed handler counts as done",
        "pyklient/consumer/parallel/parallel_consumer.py",
        "self._stream.queues.finish(task, completed=completed)",
        "self._stream.queues.finish(task, completed=True)",
        (f"{_CONSUMER}::test_an_exception_of_a_handler_ends_the_run_and_its_message_comes_again",),
    ),
    Mutant(
        "consumer/parallel: what was done just before a rebalance is handled again",
        "pyklient/consumer/parallel/partition_progress.py",
        "if before is not None and owned.reached is not None:",
        "if False:",
        (
            f"{_STREAM}::"
            "test_what_was_done_in_the_assignment_just_before_is_not_handled_again_though_it_is_not_committed",
        ),
    ),
    Mutant(
        "handlers: a failed message counts as handled before its copy is stored",
        "pyklient/handlers/failed_message.py",
        ".result(timeout)",
        "",
        ("tests/handlers/test_failed_messages.py::test_a_dead_letter_has_the_message_and_the_error",),
    ),
    Mutant(
        "handlers: a message is retried for ever",
        "pyklient/handlers/retry_topic.py",
        "        if attempt > self._attempts:\n",
        "        if False:\n",
        (
            "tests/handlers/test_failed_messages.py::"
            "test_a_message_that_fails_too_often_is_given_to_the_last_resort",
        ),
    ),
)
