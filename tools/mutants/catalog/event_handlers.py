"""Mistakes in the event handlers of ``pyklient/classic/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_SCRIPTS: Final = (
    "tests/classic/test_event_handler_scripts.py::"
    "test_the_requests_are_those_that_scala_sends_without_running_scala",
)
_HANDLER: Final = "pyklient/classic/default_event_handler.py"

MUTANTS: Final = (
    Mutant(
        "classic: the smallest hash has a partition below 0",
        "pyklient/classic/java_hashes.py",
        "return 0 if number == _INT_MIN else abs(number)",
        "return number if number == _INT_MIN else abs(number)",
        ("tests/classic/test_partitioners.py::test_the_smallest_number_has_no_absolute_value_in_32_bits",),
    ),
    Mutant(
        "kernel: the bytes of a key are hashed without their signs",
        "pyklient/kernel/classic/java_hashes.py",
        "byte - 256 if byte > 127 else byte",
        "byte",
        ("tests/kernel/classic/test_java_hashes.py::test_the_hash_of_bytes_is_that_of_a_java_array",),
    ),
    Mutant(
        "kernel: messages without a key go to the partition of the latest key",
        "pyklient/kernel/classic/partition_sorting.py",
        "            partition = topic.keyless\n",
        "            partition = partition if groups else topic.keyless\n",
        (
            "tests/kernel/classic/test_partition_sorting.py::"
            "test_messages_go_where_the_partitioner_sends_them",
        ),
    ),
    Mutant(
        "classic: a batch is sent as often as it has retries, and not once more",
        _HANDLER,
        "range(self._config.message_send_max_retries + 1)",
        "range(self._config.message_send_max_retries)",
        _SCRIPTS,
    ),
    Mutant(
        "classic: a retry does not ask for the leaders again",
        _HANDLER,
        "        self._refresh(_topics(messages))\n",
        "",
        _SCRIPTS,
    ),
    Mutant(
        "classic: messages without a key keep a partition that has failed",
        _HANDLER,
        "        self._collator.forget_choices()\n",
        "",
        ("tests/classic/test_collation.py::test_a_retry_chooses_among_all_partitions_again",),
    ),
    Mutant(
        "classic: a partition without a leader is chosen for messages without a key",
        "pyklient/classic/collation.py",
        "[each.partition for each in partitions if each.leader != NO_LEADER]",
        "[each.partition for each in partitions]",
        ("tests/classic/test_collation.py::test_row_38_a_partition_without_a_leader_is_never_chosen",),
    ),
    Mutant(
        "classic: an answer that lacks a partition counts as a confirmation",
        "pyklient/classic/sync_producer.py",
        "if statuses.keys() != placed.keys():",
        "if not placed.keys():",
        _SCRIPTS,
    ),
    Mutant(
        "classic: a connection is closed before the broker has handled the last messages",
        "pyklient/classic/broker_connection.py",
        "if timeout > 0 and not self._closed and not self.forked:",
        "if False:",
        (
            "tests/classic/test_sync_producer.py::"
            "test_a_producer_without_acknowledgements_is_closed_when_the_broker_has_handled_its_messages",
        ),
    ),
    Mutant(
        "classic: an asynchronous producer sends nothing of a batch with a message that cannot be encoded",
        _HANDLER,
        '            if self._config.producer_type == "sync":\n                raise error\n',
        "            raise error\n",
        _SCRIPTS,
    ),
    Mutant(
        "classic: all topics are compressed although some are named",
        "pyklient/classic/producer_config.py",
        "if self.compressed_topics and topic not in self.compressed_topics:",
        "if False:",
        _SCRIPTS,
    ),
    Mutant(
        "classic: the error has the messages as the encoder has left them",
        _HANDLER,
        "for given in group.given]",
        "for given in group.values]",
        (
            "tests/classic/test_default_event_handler.py::"
            "test_the_error_has_the_messages_as_they_were_before_the_encoder_and_the_reason",
        ),
    ),
    Mutant(
        "classic: a producer of 0.7 sends a partition again that was stored",
        "pyklient/classic/multi_send_event_handler.py",
        "            groups = {where: group.messages for where, group in unsent.items()}\n",
        "",
        (
            "tests/classic/test_multi_send_event_handler.py::"
            "test_a_partition_that_was_stored_is_not_sent_again",
        ),
    ),
    Mutant(
        "classic: a producer of 0.7 sends a batch of any size as one",
        "pyklient/classic/sending_in_parts.py",
        "begin + limits.count(where.topic, group, begin)",
        "len(groups[where])",
        (
            "tests/classic/test_multi_send_event_handler.py::"
            "test_messages_that_are_too_large_for_one_batch_are_sent_in_parts_in_order",
        ),
    ),
    Mutant(
        "classic: messages that a broker has confirmed are reported as dropped",
        _HANDLER,
        "            return dict.fromkeys(parts, as_kafka_error(error))\n",
        "            raise\n",
        (
            "tests/classic/test_default_event_handler.py::"
            "test_the_error_of_an_interrupted_batch_has_only_the_messages_that_are_not_confirmed",
        ),
    ),
    Mutant(
        "classic: a synchronous producer of 0.7 sends a request again",
        "pyklient/classic/multi_send_event_handler.py",
        "1 if self._is_sync else config.message_send_max_retries + 1",
        "config.message_send_max_retries + 1",
        (
            "tests/classic/test_multi_send_event_handler.py::"
            "test_only_an_asynchronous_producer_sends_a_request_again",
        ),
    ),
)
