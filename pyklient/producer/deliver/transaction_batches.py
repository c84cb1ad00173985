"""The sender's part in transactions.

It adds partitions to the open transaction before their first records are sent (AddPartitionsToTxn), and fails
the batches of a transaction that cannot be committed.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Final

from pyklient.error_codes import ErrorCode, ErrorFacts, error_facts
from pyklient.errors import BrokerError, KafkaError
from pyklient.net.backoff import Backoff
from pyklient.net.dialogue import while_worthwhile
from pyklient.net.network_client import NetworkClient
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_responses import ProduceResponses
from pyklient.producer.deliver.producer_identity import ProducerIdentity
from pyklient.producer.locks import Wakeup
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.threads.timers import NEVER, Timed
from pyklient.producer.transactions.coordinator_dialogues import Coordinator, add_partitions
from pyklient.producer.transactions.identity import Identity
from pyklient.producer.transactions.transaction import Transaction
from pyklient.topic_partition import TopicPartition

__all__ = ["TransactionBatches"]

_TIMEOUT: Final = 30.0
"""The time-out, in seconds, of one request that adds partitions to the transaction. The request is repeated
until the batches expire."""


class TransactionBatches(Timed):
    """Decides when the batches of *transaction* may be sent, and fails them if the transaction cannot be
    committed. Callers must hold the sender lock.

    *queues* are the queues of all partitions. Requests to the coordinator run on *worker*.
    """

    def __init__(
        self,
        transaction: Transaction,
        identity: ProducerIdentity,
        client: NetworkClient,
        backoff: Backoff,
        worker: BlockingWorker,
        thread: SenderThread,
        queues: Mapping[tuple[str, int], PartitionQueue],
        responses: ProduceResponses,
    ) -> None:
        self.coordinator = Coordinator(transaction.transactional_id)
        self._transaction = transaction
        self._identity = identity
        self._client = client
        self._backoff = backoff
        self._worker = worker
        self._thread = thread
        self._queues = queues
        self._responses = responses
        self._serial = 0
        self._added: set[TopicPartition] = set()
        self._waiting: dict[TopicPartition, PartitionQueue] = {}
        self._missing: set[TopicPartition] = set()
        """The waiting partitions that the coordinator did not know. A request for other partitions leaves
        them out, because the coordinator adds either all partitions of a request or none."""
        self._asking = False
        self._failures = 0

    def admit(self, queue: PartitionQueue) -> bool:
        """Return True if batches of *queue* may be sent now.

        Return False if the partition must be added to the transaction first. The sender checks *queue* again
        when the coordinator has answered.
        """
        transaction = self._transaction
        if transaction.version > 1:
            transaction.attempted = True
            return True
        if self._serial != transaction.serial:
            self._serial = transaction.serial
            self._failures = 0
            for partitions in (self._added, self._waiting, self._missing):
                partitions.clear()
        if queue.at in self._added:
            return True
        self._waiting[queue.at] = queue
        if self.timer == NEVER and not self._asking:
            self._thread.timers.set(self, time.monotonic())
        return False

    def drop_unsent(self) -> None:
        """If the transaction cannot be committed, fail all batches that are not in flight."""
        error = self._transaction.dropping
        if error is None:
            return
        for queue in self._queues.values():
            if not queue.idle:
                self._responses.drop_unsent(queue, error)

    def end_of_transaction(self) -> None:
        """Let each partition continue after its last stored batch, because a transaction is aborted.

        A queue that is still in line, although its batches were dropped, is routed again, because its
        partition must be added to the next transaction.
        """
        for queue in self._queues.values():
            queue.routed = False
            if queue.sequences is not None:
                queue.sequences.end_of_transaction()

    def await_requests(self, timeout: float) -> bool:
        """Wait until the coordinator has answered the last request to add partitions, for at most *timeout*
        seconds. Return True if it has answered. Call this without the sender lock, after the last batch is
        done."""
        answered = Wakeup()
        self._worker.run(answered.set)
        return answered.wait(timeout)

    def on_timer(self) -> None:
        """Start a request that adds the waiting partitions to the transaction, in the worker's thread."""
        identity = self._identity.current
        if not self._waiting or identity is None or self._transaction.failure is not None:
            return
        self._asking = True
        self._transaction.attempted = True
        asked = frozenset(self._waiting.keys() - self._missing or self._waiting)
        self._worker.run(partial(self._ask, self._serial, identity, asked))

    def _answered(
        self, serial: int, codes: dict[TopicPartition, ErrorFacts], failure: KafkaError | None
    ) -> None:
        """Apply the outcome of a request to add partitions to the transaction with the number *serial*.
        *codes* are the errors of the partitions. *failure* is not None if there was no response."""
        self._asking = False
        if serial != self._transaction.serial:
            return
        for at, facts in codes.items():
            cannot = f"cannot add {at} to the transaction of {self._transaction.transactional_id!r}"
            if not facts.code:
                self._added.add(at)
                self._missing.discard(at)
                self._waiting.pop(at).on_timer()
                self._transaction.confirmed = True
            elif facts.retriable:
                self._missing.add(at)
                self._waiting[at].blocked_by = BrokerError(facts, cannot)
            elif facts.code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                failure = BrokerError(facts, cannot)
        if failure is not None:
            # The request may arrive later, and must then find another epoch.
            self._transaction.sequences_lost |= not isinstance(failure, BrokerError)
        if failure is not None and not failure.retriable:
            self._transaction.fail(failure)
        elif self._waiting:
            pause = 0.0
            if failure is not None or self._waiting.keys() == self._missing:
                self._failures += 1
                pause = self._backoff.pause(self._failures)
            self._thread.timers.set(self, time.monotonic() + pause)

    # On the worker's thread:

    def _in_vain(self) -> KafkaError | None:
        """Return an error if the transaction cannot be committed any more, so that adding partitions is
        useless. Otherwise return None."""
        return self._transaction.dropping

    def _ask(self, serial: int, identity: Identity, partitions: frozenset[TopicPartition]) -> None:
        codes: dict[TopicPartition, ErrorFacts] = {}
        failure: KafkaError | None = None
        try:
            dialogue = add_partitions(
                self.coordinator, self._transaction.transactional_id, identity, sorted(partitions)
            )
            found = self._client.play(while_worthwhile(dialogue, self._in_vain), _TIMEOUT)
            codes = {at: error_facts(code) for at, code in found.items()}
        except Exception as error:
            # The sender must hear of any failure: it does not ask again before this request has ended.
            failure = (
                error
                if isinstance(error, KafkaError)
                else KafkaError(
                    f"adding partitions to a transaction failed unexpectedly; please report this: {error!r}"
                )
            )
        self._thread.post(partial(self._answered, serial, codes, failure))
