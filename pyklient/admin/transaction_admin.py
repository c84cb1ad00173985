"""The methods of Admin that concern transactions."""

from collections.abc import Iterable

from pyklient import argument_checks
from pyklient.admin import transactions
from pyklient.admin.descriptions import OpenTransaction, TransactionDescription
from pyklient.argument_checks import INT64_MAX
from pyklient.net.dialogue import retried
from pyklient.net.lookups.open_transactions import TransactionListing, list_transactions
from pyklient.net.threadless_client import ThreadlessClient
from pyklient.topic_partition import TopicPartition

__all__ = ["TransactionAdmin"]


class TransactionAdmin(ThreadlessClient):
    """The part of Admin that lists, describes and aborts transactions. It needs brokers of Kafka 3.0 or
    later."""

    def transactions(
        self,
        states: Iterable[str] = (),
        longer_than_ms: int | None = None,
        timeout: float | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids that the coordinators know, sorted.

        If *states* is not empty, return only ids in one of these states, such as ``Ongoing``. With
        *longer_than_ms*, return only ids whose transaction has been open for longer than this time;
        *longer_than_ms* needs Kafka 3.8.
        """
        wanted = [argument_checks.text(each, "states") for each in argument_checks.several(states, "states")]
        longer = None
        if longer_than_ms is not None:
            longer = argument_checks.whole(longer_than_ms, "longer_than_ms", 0, INT64_MAX)
        return self._play(retried(lambda: list_transactions(wanted, (), longer)), timeout)

    def describe_transaction(
        self, transactional_id: str, timeout: float | None = None
    ) -> TransactionDescription:
        """Return the state of a transactional id, its producer, and the partitions of its open transaction.

        Raises BrokerError TRANSACTIONAL_ID_NOT_FOUND if the transaction coordinator does not know the id.
        """
        name = argument_checks.text(transactional_id, "transactional_id")
        return self._play(transactions.describe_transaction(name), timeout)

    def open_transactions(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> list[OpenTransaction]:
        """Return the transactions that are open in *partitions*, and tell which of them hang. A transaction
        hangs if neither a producer nor a time-out will end it."""
        wanted = argument_checks.partitions(partitions, "partitions")
        return self._play(transactions.open_transactions(wanted), timeout)

    def abort_transaction(
        self, partition: TopicPartition, start: int, force: bool = False, timeout: float | None = None
    ) -> OpenTransaction:
        """Abort the transaction that begins at the offset *start* of *partition*, in this partition alone.
        Return the transaction as it was before.

        Raises ConfigurationError if no open transaction begins there, or if the transaction does not hang and
        *force* is false. If *force* is true and the transaction does not hang, its producer may still commit
        the other partitions, so that only a part of the transaction is committed.
        """
        where = argument_checks.partition(partition, "partition")
        offset = argument_checks.whole(start, "start", 0, INT64_MAX)
        forced = argument_checks.flag(force, "force")
        return self._play(transactions.abort_transaction(where, offset, force=forced), timeout)
