"""Mistakes in ``pyklient/classic/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_QUEUE: Final = "pyklient/classic/event_queue.py"
_THREAD: Final = "pyklient/classic/producer_send_thread.py"
_SCRIPTS: Final = "tests/classic/test_send_scripts.py::test_a_row_has_the_results_that_the_documents_name"
_HOOKS: Final = "tests/classic/test_callback_handler.py::"
_BUFFER: Final = "tests/kernel/classic/test_event_buffer.py::"
_PRODUCER: Final = "tests/classic/test_classic_producer.py::"

MUTANTS: Final = (
    Mutant(
        "kernel: the queue of a classic producer has no bound",
        "pyklient/kernel/classic/event_buffer.py",
        "            space = max(0, self._capacity - len(self._events))\n",
        "            space = len(events)\n",
        (f"{_BUFFER}test_events_leave_in_order_and_are_never_more_than_the_limit",),
    ),
    Mutant(
        "classic: the kernel adds messages to a queue that is closed",
        _QUEUE,
        "                self._closed = error\n                self.events.limit = _NONE\n",
        "                self._closed = error\n",
        ("tests/classic/test_classic_producer.py",),
    ),
    Mutant(
        "kernel: a classic producer does not wake its send thread when there are enough messages",
        "pyklient/kernel/classic/event_buffer.py",
        "            self.limit = count - 1\n",
        "",
        (f"{_BUFFER}test_events_leave_in_order_and_are_never_more_than_the_limit",),
    ),
    Mutant(
        "kernel: the messages of a classic producer for all topics go to the topic of the first",
        "pyklient/kernel/classic/keyed_message.py",
        "        group = groups.get(topic)\n",
        "        group = next(iter(groups.values()), None)\n",
        ("tests/kernel/classic/test_keyed_message.py::test_messages_without_keys_are_sorted_by_topic",),
    ),
    Mutant(
        "classic: a put that waits is not woken when there is space",
        _QUEUE,
        "            if self._waiting and drained:\n                self._wake_waiting()\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "classic: a put without a time-out does not wait for an idle send thread",
        _QUEUE,
        "elif timeout == 0 and self._drainer_waits:",
        "elif False:",
        (f"{_PRODUCER}test_a_burst_that_an_idle_send_thread_can_take_is_not_refused",),
    ),
    Mutant(
        "classic: the send thread waits for itself when the queue is full",
        _QUEUE,
        "if threading.get_ident() == self._drainer:",
        "if False:",
        (f"{_PRODUCER}test_the_send_thread_does_not_wait_for_itself",),
    ),
    Mutant(
        "classic: a full batch is not handed out",
        _THREAD,
        "                if len(self._batch) < self._batch_size:\n",
        "                if len(self._batch) < 2 * self._batch_size:\n",
        (_SCRIPTS,),
    ),
    Mutant(
        "classic: the last batch is lost when the producer closes",
        _THREAD,
        "            self._batch.extend(self._last_batch())\n            self._handle_batch()\n",
        "            self._batch.extend(self._last_batch())\n",
        (_SCRIPTS,),
    ),
    Mutant(
        "classic: the hooks do not learn that the queue time has passed",
        _THREAD,
        "                self._batch.extend(self._after_dequeuing((None,)))\n",
        "                pass\n",
        (f"{_HOOKS}test_row_34_after_dequeuing_gets_none_when_the_queue_time_has_passed",),
    ),
    Mutant(
        "classic: a batch that the event handler could not send is dropped in silence",
        _THREAD,
        '            self._dropped.add(unsent, error, _reason(f"{_name(self._handler)}.handle", error))\n',
        "            del unsent\n",
        (f"{_HOOKS}test_what_was_given_up_is_counted_logged_and_told_to_on_dropped",),
    ),
    Mutant(
        "classic: the hooks are closed before the event handler",
        _THREAD,
        "for opened in (self._handler, self._callback_handler, self._candidates):",
        "for opened in (self._callback_handler, self._handler, self._candidates):",
        (f"{_HOOKS}test_row_35_the_items_of_the_last_batch_are_appended_to_it",),
    ),
    Mutant(
        "classic: after_enqueue is not called when the queue is full",
        "pyklient/classic/sending.py",
        "            finally:\n                self._after_enqueue(hooks, queued, added)\n",
        "            finally:\n"
        "                if added:\n"
        "                    self._after_enqueue(hooks, queued, added)\n",
        (f"{_HOOKS}test_row_34_after_enqueue_sees_added_false_before_the_queue_is_full",),
    ),
    Mutant(
        "classic: a batch that is too large for the broker is given up",
        "pyklient/classic/sending_in_parts.py",
        "                limits.halve(where.topic, part)\n                following[where] = begins[where]\n",
        "                unsent[where] = UnsentGroup(groups[where], problem)\n",
        (
            "tests/classic/test_faults.py::"
            "test_a_batch_that_is_too_large_for_the_broker_is_sent_in_parts_in_order",
        ),
    ),
    Mutant(
        "classic: a child process keeps its copies of the sockets of its parent",
        "pyklient/classic/broker_connection.py",
        "            self._connection.abandon()\n",
        "            pass\n",
        (
            "tests/classic/test_producer_pool.py::test_a_child_process_closes_its_copies_of_the_sockets_and_cannot_send",
        ),
    ),
    Mutant(
        "classic: a broker that moves ends the requests of other threads",
        "pyklient/classic/producer_pool.py",
        "                known.move(broker)\n",
        "                self._producers[broker.node_id] = self._made(broker)\n"
        "                known.close(0)\n",
        (
            "tests/classic/test_producer_pool.py::test_a_broker_that_moves_disturbs_no_request_and_no_thread_that_is_about_to_send",
        ),
    ),
    Mutant(
        "classic: close does not end a request for metadata",
        "pyklient/classic/producer_pool.py",
        "[*self._producers.values(), *self._asking]",
        "[*self._producers.values()]",
        (
            "tests/classic/test_producer_pool.py::test_close_ends_a_request_for_metadata_and_no_other_broker_is_asked",
        ),
    ),
    Mutant(
        "classic: a hook may return an item of another profile",
        "pyklient/classic/callback_handler.py",
        "if not isinstance(item, item_class)",
        "if not isinstance(item, KeyedMessage | QueueItem)",
        (
            "tests/classic/test_callback_handler.py::test_an_item_of_another_profile_is_an_error_of_the_hook_that_returns_it",
        ),
    ),
    Mutant(
        "classic: a producer of 0.7 that is closed looks for brokers",
        "pyklient/classic/classic_producer.py",
        "            self._sending.raise_if_closed()\n",
        "",
        (
            "tests/classic/test_producer_from_properties.py::test_a_closed_producer_of_0_7_does_not_look_for_brokers",
        ),
    ),
    Mutant(
        "classic: a producer that cannot start leaves its handlers open",
        "pyklient/classic/classic_producer.py",
        "            opened.callback(event_handler.close)\n",
        "",
        (
            "tests/classic/test_callback_handler.py::test_a_producer_whose_thread_cannot_start_closes_both_handlers",
        ),
    ),
)
