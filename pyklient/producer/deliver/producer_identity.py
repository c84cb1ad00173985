"""The producer id and epoch of a producer, and the request that gets them from a broker.

A partition gets the current producer id, which is stored here, with its first batch. It then keeps the id in
its ``Sequences``. The identity of a transactional producer comes from the transaction coordinator instead
(``pyklient.producer.transaction_manager``). When this identity changes, all partitions change to the new
identity at once.
"""

import logging
import time
from functools import partial
from typing import Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, KafkaError, UnsupportedVersionError, broker_error
from pyklient.log_events import log_fields
from pyklient.net.backoff import Backoff
from pyklient.net.dialogue import ANY, Ask, Dialogue
from pyklient.net.network_client import NetworkClient
from pyklient.producer.deliver.sequences import LAST_EPOCH, Sequences
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.threads.timers import NEVER, Timed
from pyklient.producer.transactions.identity import Identity
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["IdentityResult", "ProducerIdentity"]

log = logging.getLogger("pyklient.producer")

_NO_TRANSACTIONS_MS: Final = (1 << 31) - 1
_ALLOW: Final = "Allow idempotence on the brokers"
_UPGRADE: Final = "Upgrade the brokers to Kafka 0.11 or later, which idempotence needs"


class IdentityResult(NamedTuple):
    """The outcome of a request for a producer id.

    ``failure`` is None if the broker has sent an id, or if the producer continues without idempotence.
    """

    failure: KafkaError | None


class ProducerIdentity(Timed):
    """Gets a producer id when a partition needs one. Callers must hold the sender lock.

    If idempotence is *wanted* but not *required*, and the broker does not support producer ids or does not
    grant one, the producer continues without idempotence. The request runs on *worker*. *timeout* is in
    seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        worker: BlockingWorker,
        thread: SenderThread,
        *,
        wanted: bool,
        required: bool,
        timeout: float,
    ) -> None:
        self.enabled = wanted
        """True while batches carry a producer id. False without idempotence."""
        self.result: IdentityResult | None = None
        """The outcome of the last request for a producer id, until the sender fetches it."""
        self.due = NEVER
        """The time at which to ask for a producer id next."""
        self.current: Identity | None = None
        """The producer id, and the epoch in which a partition begins if it gets the producer id now.

        A transactional producer sets this attribute in a thread of the program, while no batch is unfinished.
        """
        self._client = client
        self._backoff = backoff
        self._worker = worker
        self._thread = thread
        self._required = required
        self._timeout = timeout
        self._asking = False
        self._failures = 0

    def provide(self, sequences: Sequences | None) -> bool:
        """Give *sequences* a producer id if it has none. Return False if there is no id yet.

        The partition should then try again when ``result`` is set. A partition without idempotence, whose
        *sequences* is None, needs no producer id.
        """
        if sequences is None:
            return True
        if sequences.transactional:
            return self._provide_transactional(sequences)
        if sequences.producer_id >= 0:
            return True
        if self.current is not None and self.current.producer_id == sequences.used_up:
            self.current = None
        if self.current is None:
            if self.due == NEVER and not self._asking:
                self.due = time.monotonic()
            return False
        sequences.adopt(*self.current)
        return True

    def _provide_transactional(self, sequences: Sequences) -> bool:
        if self.current is None:
            return False
        if not sequences.is_of(*self.current):
            sequences.adopt(*self.current)
        return True

    def forget(self, sequences: Sequences | None) -> None:
        """Forget *sequences*, which belongs to a partition that has no unfinished batch.

        Later records of the partition get a later epoch, because their sequence numbers begin at 0 again. In
        the same epoch, the broker would mistake these records for batches that it has already stored.
        """
        identity = self.current
        if identity is None or sequences is None or sequences.producer_id != identity.producer_id:
            return
        epoch = max(identity.epoch, sequences.next_epoch)
        self.current = identity._replace(epoch=epoch) if epoch <= LAST_EPOCH else None

    def on_timer(self) -> None:
        """Start a request for a producer id, in the worker's thread, because the request waits for a
        broker."""
        self._asking = True
        self.due = NEVER
        self._worker.run(self._ask)

    def _answered(self, identity: Identity | None, failure: KafkaError | None) -> None:
        self._asking = False
        self.current = identity
        if failure is not None and failure.retriable:
            self._failures += 1
            self.due = time.monotonic() + self._backoff.pause(self._failures)
        else:
            self._failures = 0
            self.due = NEVER
            if failure is not None and self._is_optional(failure):
                log.warning(
                    "idempotence is off, because of an error: %s. A retry may store a record twice or out of "
                    "order. %s, or set enable_idempotence=False if this is intended",
                    failure,
                    _UPGRADE if isinstance(failure, UnsupportedVersionError) else _ALLOW,
                    extra=log_fields("idempotence_off", error=str(failure)),
                )
                self.enabled = False
                failure = None
        self.result = IdentityResult(failure)

    def _is_optional(self, failure: KafkaError) -> bool:
        """Return True if the producer continues without idempotence after *failure*.

        The producer continues if the user has not asked for idempotence explicitly, and the broker does not
        support or allow idempotence.
        """
        if self._required:
            return False
        return isinstance(failure, UnsupportedVersionError) or (
            isinstance(failure, BrokerError) and failure.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )

    # On the worker's thread:

    def _ask(self) -> None:
        identity: Identity | None = None
        failure: KafkaError | None = None
        try:
            identity = self._client.play(_init_producer_id(), self._timeout)
        except Exception as error:
            # The sender must hear of any failure: it does not ask again before this request has ended.
            failure = (
                error
                if isinstance(error, KafkaError)
                else KafkaError(
                    f"the request for a producer id failed unexpectedly; please report this: {error!r}"
                )
            )
        self._thread.post(partial(self._answered, identity, failure))


def _init_producer_id() -> Dialogue[Identity]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_MS)
    response: InitProducerIdResponse = yield Ask(ANY, request)
    if response.error_code:
        raise broker_error(response.error_code, "cannot get a producer id")
    return Identity(response.producer_id, response.producer_epoch)
