"""The requests of one producer to the transaction coordinator and to group coordinators. The program's
threads make these requests and wait for the responses.

Errors are raised unchanged. ``pyklient.producer.transaction_manager`` decides how the producer continues
after an error.
"""

import time
from collections.abc import Mapping
from typing import TypeVar

from pyklient.errors import KafkaError
from pyklient.group_metadata import GroupMetadata
from pyklient.net.dialogue import Dialogue
from pyklient.net.network_client import NetworkClient
from pyklient.producer.deliver.producer_identity import ProducerIdentity
from pyklient.producer.transactions.coordinator_dialogues import (
    Coordinator,
    end,
    epoch_of_time_out,
    initialize,
)
from pyklient.producer.transactions.identity import Identity
from pyklient.producer.transactions.transaction import Transaction
from pyklient.producer.transactions.transaction_offsets import TransactionOffsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["CoordinatorRequests"]

_T = TypeVar("_T")


class CoordinatorRequests:
    """Gets the *identity* of the producer from the *coordinator* of its transactional id, and ends its
    transactions. *timeout_ms* is the time-out of a transaction.

    Callers hold the transaction lock. Deadlines are in seconds of ``time.monotonic``. A method that has not
    ended at its deadline raises KafkaTimeoutError.
    """

    def __init__(
        self,
        client: NetworkClient,
        transaction: Transaction,
        identity: ProducerIdentity,
        coordinator: Coordinator,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._transaction = transaction
        self._identity = identity
        self._coordinator = coordinator
        self._timeout_ms = timeout_ms
        self._offsets = TransactionOffsets(transaction, coordinator)

    def initialize(self, deadline: float) -> None:
        """Get the producer id. Fences other producers with the same transactional id."""
        self._initialize(None, deadline)

    def renew(self, deadline: float) -> None:
        """Get a new epoch, because the sequence numbers of the present epoch are lost (KIP-360).

        Call this only after the coordinator has aborted a transaction of the present epoch. That shows that
        no other producer has taken over. If one had, this call could abort its transaction.
        """
        self._initialize(self._known(), deadline)
        self._transaction.sequences_lost = False

    def end(self, deadline: float, *, committed: bool) -> None:
        """Commit or abort the transaction. If no request has added anything to the transaction, do nothing,
        because the coordinator does not know the transaction."""
        if self._transaction.attempted:
            dialogue = end(self._coordinator, self._transaction, self._known(), committed=committed)
            self._identity.current = self._play(dialogue, deadline)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline: float
    ) -> None:
        """Make *offsets* of *group* part of the transaction."""
        self._play(self._offsets.send(self._known(), offsets, group), deadline)

    def find_time_out(self, deadline: float) -> bool:
        """Ask if the coordinator has aborted the transaction itself, because it was open for too long. Return
        True if it has. Return False if another producer has taken over, or if the coordinator does not tell.

        Call this in version 1 of the protocol for transactions (KIP-98), after a request to end the
        transaction got the response that the producer's epoch is too old. That response has one of these two
        reasons. If this method returns True, the producer continues with ``renew``.
        """
        transaction = self._transaction
        if not transaction.confirmed or transaction.end_requests != 1:
            return False  # An earlier request may have ended it. Then a successor may have the next epoch.
        dialogue = epoch_of_time_out(self._coordinator, transaction.transactional_id, self._known())
        try:
            raised = self._play(dialogue, deadline)
        except KafkaError:
            return False  # for example, brokers before Kafka 3.0 do not tell
        if raised is None:
            return False
        self._identity.current = raised
        transaction.attempted = False
        transaction.sequences_lost = True
        return True

    def _initialize(self, known: Identity | None, deadline: float) -> None:
        dialogue = initialize(self._coordinator, self._transaction.transactional_id, self._timeout_ms, known)
        self._identity.current, self._transaction.version = self._play(dialogue, deadline)

    def _known(self) -> Identity:
        identity = self._identity.current
        assert identity is not None, "init_transactions has set it"
        return identity

    def _play(self, dialogue: Dialogue[_T], deadline: float) -> _T:
        return self._client.play(dialogue, max(deadline - time.monotonic(), 0.0))
