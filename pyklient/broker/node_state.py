"""The state of one node: the logs that it stores, the groups and transactions that it coordinates, and its
fetch sessions.

The request handlers read and change this state on the broker's event loop, and never in another thread.
``NodeState.cluster`` has the state that all nodes share.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.metadata import ClusterMetadata, Endpoint
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.cluster.topics import Partition
from pyklient.broker.config import BrokerConfig
from pyklient.broker.controller import Controller
from pyklient.broker.fetch_sessions import FetchSessionCache
from pyklient.broker.groups.former_journal import FORMER_JOURNAL, read_former_journal
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.transactions.transaction_coordinator import TransactionCoordinator
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode

__all__ = ["NodeState"]

_logger = logging.getLogger("pyklient.broker")

_MAX_SESSION_PARTITIONS: Final = 100_000  # in all fetch sessions together


class NodeState:
    """The state of one node. The constructor opens the data in *directory*, and adds the node to the cluster
    of *controller*.

    ``endpoint`` has the host and port to which clients connect. ``listener`` has the host on which the node
    listens, and the same port.
    """

    def __init__(
        self,
        config: BrokerConfig,
        directory: Path,
        loop: asyncio.AbstractEventLoop,
        controller: Controller,
        *,
        listen_host: str,
        logs: LogManager,
    ) -> None:
        self.config = config
        self.directory = directory
        self.loop = loop
        self.controller = controller
        self.cluster: ClusterMetadata = controller.cluster
        self.endpoint = self.cluster.nodes[config.node_id]
        self.listener = Endpoint(config.node_id, listen_host, self.endpoint.port)
        self.logs = logs
        self.group_coordinator = GroupCoordinator(config, self.cluster.topics, logs, loop)
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, _MAX_SESSION_PARTITIONS
        )
        self.transaction_coordinator = TransactionCoordinator(config, self.cluster, logs, controller.markers)
        controller.add_node(config.node_id, logs, self.group_coordinator, self.transaction_coordinator)

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def leader_log(self, partition: Partition, leader_epoch: int = -1) -> PartitionLog:
        """Return the log of *partition*, after a check that this node is the leader of the partition.

        *leader_epoch* is the leader epoch in the client's request, or -1 if there is none. Raises ApiError:
        NOT_LEADER_OR_FOLLOWER if another node is the leader, FENCED_LEADER_EPOCH if the client's epoch is too
        old, and UNKNOWN_LEADER_EPOCH if it is newer than the epoch of the partition.
        """
        log = self.logs.by_partition.get((partition.topic, partition.index))
        if log is None or partition.leader_id != self.config.node_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"this node is not the leader of {partition.topic}-{partition.index}; "
                f"the leader is node {partition.leader_id}",
            )
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            older = leader_epoch < partition.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"the leader epoch of {partition.topic}-{partition.index} is {partition.leader_epoch}, "
                f"but the request has {leader_epoch}",
            )
        return log

    def group_coordinator_of(self, group_id: str) -> GroupCoordinator:
        """Return the group coordinator of this node, after a check that it coordinates the group *group_id*.

        Raises ApiError: NOT_COORDINATOR if another node coordinates the group, COORDINATOR_LOAD_IN_PROGRESS
        if this node has not yet read the group from ``__consumer_offsets``.
        """
        partition = self.controller.group_partition(group_id)
        if partition.leader_id != self.node_id:
            raise ApiError(
                ErrorCode.NOT_COORDINATOR,
                f"this node does not coordinate group {group_id!r}; node {partition.leader_id} does",
            )
        self.group_coordinator.check_loaded(group_id)
        return self.group_coordinator

    def transaction_coordinator_of(self, transactional_id: str) -> TransactionCoordinator:
        """Return the transaction coordinator of this node, after a check that it coordinates
        *transactional_id*.

        Raises ApiError: NOT_COORDINATOR if another node coordinates the id, COORDINATOR_LOAD_IN_PROGRESS if
        this node has not yet read the id from ``__transaction_state``.
        """
        partition = self.controller.transaction_partition(transactional_id)
        if partition.leader_id != self.node_id:
            raise ApiError(
                ErrorCode.NOT_COORDINATOR,
                f"this node does not coordinate the transactional id {transactional_id!r}; node "
                f"{partition.leader_id} does",
            )
        self.transaction_coordinator.check_loaded(transactional_id)
        return self.transaction_coordinator

    async def run_transaction_coordinator(self) -> None:
        """Load the transactional ids, and from time to time end the transactions that are past their
        time-outs, delete expired ids and compact ``__transaction_state``.

        Other coroutines run between two steps of this work. This coroutine ends only if it is cancelled.
        """
        for _ in self.transaction_coordinator.load(self.now_ms()):
            await asyncio.sleep(0)
        clean_up_after = self.config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
        clean_up_at = self.loop.time() + clean_up_after
        while True:
            await asyncio.sleep(
                self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
            )
            for _ in self.transaction_coordinator.end_transactions(self.now_ms()):
                await asyncio.sleep(0)
            if self.loop.time() < clean_up_at:
                continue
            clean_up_at = self.loop.time() + clean_up_after
            try:
                for _ in self.transaction_coordinator.clean_up(self.now_ms()):
                    await asyncio.sleep(0)
            except OSError as error:
                _logger.error(
                    "expired transactional ids could not be deleted: %s; the next check tries again", error
                )

    async def run_group_coordinator(self) -> None:
        """Load the groups, and from time to time delete expired offsets and compact ``__consumer_offsets``.

        Other coroutines run between two steps of this work. This coroutine ends only if it is cancelled.
        """
        for _ in self.group_coordinator.load():
            await asyncio.sleep(0)
        while True:
            await asyncio.sleep(self.config.offsets_retention_check_interval_ms / 1000)
            try:
                for _ in self.group_coordinator.clean_up(self.now_ms()):
                    await asyncio.sleep(0)
            except OSError as error:
                _logger.error("expired offsets could not be deleted: %s; the next check tries again", error)

    def carry_over_former_journal(self) -> None:
        """Copy groups from the file ``offsets.jsonl`` to ``__consumer_offsets``, and remove the file. An
        earlier release of this broker has written the file. Nothing happens if there is no such file.

        If a crash interrupts this, the next start does it again, with the same result.
        """
        path = self.directory / FORMER_JOURNAL
        if not path.exists():
            return
        groups = read_former_journal(path, self.now_ms())
        for group_id, records in groups.items():
            self.leader_log(self.controller.group_partition(group_id)).append_own(records)
        self.cluster.save()
        path.unlink()
        _logger.info(
            "the offsets of %s were moved from %s to %s", counted(len(groups), "group"), path, OFFSETS_TOPIC
        )

    def close(self, *, record_clean_shutdown: bool) -> None:
        """Close all files of the node.

        If *record_clean_shutdown* is true, save the state of the logs, so that the next start need not read
        them.
        """
        self.group_coordinator.close()
        self.logs.close(record_clean_shutdown=record_clean_shutdown)
