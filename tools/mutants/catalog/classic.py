"""Mistakes in ``pyklient/classic/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_QUEUE: Final = "pyklient/classic/event_queue.py"
_THREAD: Final = "pyklient/classic/producer_send_thread.py"
_SCRIPTS: Final = "tests/classic/test_send_scripts.py::test_a_row_has_the_results_that_the_documents_name"
_HOOKS: Final = "tests/classic/test_callback_handler.py::"
_PRODUCER: Final = "tests/classic/test_classic_producer.py::"

MUTANTS: Final = (
    Mutant(
        "classic: the queue has no bound",
        _QUEUE,
        "if self._closed is None and len(self._events) + count <= self._capacity:",
        "if self._closed is None:",
        (_SCRIPTS,),
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
        '            self._dropped.add(unsent, error, f"{_name(self._handler)}.handle failed: {error!r}")\n',
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
        "pyklient/classic/default_event_handler.py",
        "                    self._limits.halve(where.topic, parts[where])\n"
        "                    unsent[where] = group\n",
        "                    failed += group\n",
        (
            "tests/classic/test_faults.py::"
            "test_a_batch_that_is_too_large_for_the_broker_is_sent_in_parts_in_order",
        ),
    ),
)
