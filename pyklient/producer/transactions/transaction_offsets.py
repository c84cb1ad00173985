"""Sends offsets of groups that are committed together with a transaction."""

from collections.abc import Mapping

from pyklient.group_metadata import GroupMetadata
from pyklient.net.dialogue import Dialogue
from pyklient.producer.transactions.coordinator_dialogues import (
    Coordinator,
    add_group,
    commit_offsets,
)
from pyklient.producer.transactions.identity import Identity
from pyklient.producer.transactions.transaction import Transaction
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["TransactionOffsets"]


class TransactionOffsets:
    """The groups whose offsets are committed in *transaction*. *coordinator* is the coordinator of the
    transaction."""

    def __init__(self, transaction: Transaction, coordinator: Coordinator) -> None:
        self._transaction = transaction
        self._coordinator = coordinator
        self._coordinators: dict[str, Coordinator] = {}
        self._added: set[tuple[int, str]] = set()
        """The groups that were added to a transaction, each with the serial number of the transaction
        (version 1 of the protocol)."""

    def send(
        self, identity: Identity, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> Dialogue[None]:
        """Send *offsets* of *group*. If necessary, add the group to the transaction first."""
        transaction, group_id = self._transaction, group.group_id
        transaction.attempted = True
        key = transaction.serial, group_id
        if transaction.version == 1 and key not in self._added:
            yield from add_group(self._coordinator, transaction.transactional_id, identity, group_id)
            self._added = {each for each in self._added if each[0] == transaction.serial} | {key}
            transaction.confirmed = True
        coordinator = self._coordinators.setdefault(group_id, Coordinator.of_group(group_id))
        yield from commit_offsets(
            coordinator, transaction.transactional_id, identity, transaction.version, group, offsets
        )
        transaction.confirmed = True
