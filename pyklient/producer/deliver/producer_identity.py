"""How the broker tells a record sent again from a new one: producer id, epoch, sequence (KIP-98).

Every partition counts for itself here: a gap in its sequence is closed by going on with the next epoch
from 0 (KIP-360), which the broker checks per partition too, so that the others need not stop for it.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from pyklient.errors import BrokerError, KafkaError, UnsupportedVersionError, broker_error
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient, Purpose
from pyklient.producer.threads.sender_thread import BlockingWorker
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["NO_IDENTITY", "BatchIdentity", "ProducerId", "ProducerIdManager", "Sequences"]

log = logging.getLogger("pyklient.producer")

_ANY_BROKER: Final = -1
_NO_TRANSACTIONS_MS: Final = (1 << 31) - 1
_CLUSTER_AUTHORIZATION_FAILED: Final = 31
_NEVER: Final = float("inf")
_LAST_EPOCH: Final = 0x7FFF
_SEQUENCE_MODULUS: Final = 1 << 31

ProducerId = tuple[int, int]
"""An id and its first epoch."""


class BatchIdentity(NamedTuple):
    """What goes into the header of a batch. It stays the same however often the batch is sent, unless the
    broker has certainly not stored it."""

    producer_id: int
    epoch: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1, -1)
"""Of a producer that is not idempotent."""


class Sequences:
    """The identities of the batches of one partition, in order."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.used_up = -1
        """The id whose epochs have all been used here."""
        self._epoch = 0
        self._next = 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Begin with an id that the broker gave."""
        self.producer_id, self._epoch, self._next = producer_id, epoch, 0

    def identify(self, count: int) -> BatchIdentity:
        """Of the batch with the next *count* records."""
        identity = BatchIdentity(self.producer_id, self._epoch, self._next)
        self._next = (self._next + count) % _SEQUENCE_MODULUS
        return identity

    @property
    def next_epoch(self) -> int:
        """The epoch after the one in use; beyond the last one there is none."""
        return self._epoch + 1

    def restart(self) -> None:
        """Go on from 0 in the next epoch; after the last one, without an id until another is adopted."""
        self._next = 0
        if self._epoch < _LAST_EPOCH:
            self._epoch += 1
        else:
            self.used_up, self.producer_id = self.producer_id, -1


class ProducerIdManager:
    """Gets the producer's id, once a partition needs one. In the sender's turn, but for what *worker* does.

    ``enabled`` is whether ids are wanted, and to be had: where they are not *required*, and the broker has
    none or gives none, the producer goes on without. The outcome goes to *identified*: with an error if there
    is no id; whether there will be one later, the error's ``retriable`` says. *post* has it called on the
    sender's turn. *timeout* is in seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        worker: BlockingWorker,
        *,
        wanted: bool,
        required: bool,
        timeout: float,
        post: Callable[[Callable[[], None]], None],
        identified: Callable[[KafkaError | None], None],
    ) -> None:
        self.enabled = wanted
        self.timer = self.alarm = _NEVER
        """When it asks next: the sender's."""
        self._client = client
        self._backoff = backoff
        self._worker = worker
        self._required = required
        self._timeout = timeout
        self._post = post
        self._identified = identified
        self._id: ProducerId | None = None
        self.due = _NEVER
        """When ``ask`` has something to do."""
        self._asking = False
        self._failures = 0

    def provide(self, sequences: Sequences | None) -> bool:
        """Whether *sequences* have an id, now if not before; or None, which needs none. Else the sender hears
        once it is worth trying again."""
        if sequences is None or sequences.producer_id >= 0:
            return True
        if self._id is not None and self._id[0] == sequences.used_up:
            self._id = None
        if self._id is None:
            if self.due == _NEVER and not self._asking:
                self.due = time.monotonic()
            return False
        sequences.adopt(*self._id)
        return True

    def forget(self, sequences: Sequences | None) -> None:
        """Do without the *sequences* of a partition of which nothing is under way. What is sent there later
        has a later epoch: else the broker would take it for batches that it has."""
        if self._id is None or sequences is None or sequences.producer_id != self._id[0]:
            return
        producer_id, first_epoch = self._id
        epoch = max(first_epoch, sequences.next_epoch)
        self._id = (producer_id, epoch) if epoch <= _LAST_EPOCH else None

    def ask(self) -> None:
        """Ask, which is due."""
        self._asking = True
        self.due = _NEVER
        self._worker.run(self._ask)

    def _answered(self, producer_id: ProducerId | None, failure: KafkaError | None) -> None:
        self._asking = False
        self._id = producer_id
        if failure is not None and failure.retriable:
            self._failures += 1
            self.due = time.monotonic() + self._backoff.pause(self._failures)
        else:
            self._failures = 0
            self.due = _NEVER
            if failure is not None and self._can_do_without(failure):
                log.warning(
                    "no idempotence, so a retry may store a record twice or out of order: %s. Have the "
                    "brokers allow it, or say enable_idempotence=False if that is meant",
                    failure,
                )
                self.enabled = False
                failure = None
        self._identified(failure)

    def _can_do_without(self, failure: KafkaError) -> bool:
        """Whether idempotence is to be left off because of *failure*: nobody has asked for it by name, and
        the broker does not have it, or does not allow it."""
        if self._required:
            return False
        return isinstance(failure, UnsupportedVersionError) or (
            isinstance(failure, BrokerError) and failure.code == _CLUSTER_AUTHORIZATION_FAILED
        )

    # On the worker's thread:

    def _ask(self) -> None:
        producer_id: ProducerId | None = None
        failure: KafkaError | None = None
        try:
            connection = self._client.connection(_ANY_BROKER, Purpose.OTHER, self._timeout)
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_MS)
            response: InitProducerIdResponse = connection.ask(request, self._timeout)
            if response.error_code:
                raise broker_error(response.error_code, "asking for a producer id")
            producer_id = (response.producer_id, response.producer_epoch)
        except Exception as error:
            # Whatever it is, the sender must hear of it: it asks again only when this question has ended.
            failure = error if isinstance(error, KafkaError) else KafkaError(f"asking has failed: {error!r}")
        self._post(partial(self._answered, producer_id, failure))
