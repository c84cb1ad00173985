"""The state of one node: the logs that it stores, the groups that it coordinates, and its fetch sessions.

The handlers use this state, on the broker's event loop only. ``NodeState.cluster`` has the state that all
nodes share.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.metadata import ClusterMetadata, Endpoint
from pyklient.broker.cluster.topics import Partition
from pyklient.broker.config import BrokerConfig
from pyklient.broker.controller import Controller
from pyklient.broker.fetch_sessions import FetchSessionCache
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.groups.offsets_journal import OffsetsJournal
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.error_codes import ErrorCode

__all__ = ["NodeState"]

_MAX_SESSION_PARTITIONS: Final = 100_000  # in all fetch sessions together


class NodeState:
    """The state of one node. The constructor opens the data in *directory*, and adds the node to the cluster
    of *controller*.

    ``endpoint`` is the address at which clients reach the node. ``listener`` is the address at which the node
    listens, on the same port.
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
        self.group_coordinator = GroupCoordinator(config, OffsetsJournal(directory / "offsets.jsonl"), loop)
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, _MAX_SESSION_PARTITIONS
        )
        controller.add_node(config.node_id, logs, self.group_coordinator)

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def leader_log(self, partition: Partition, leader_epoch: int = -1) -> PartitionLog:
        """Return the log of *partition*, which this node must lead.

        *leader_epoch* is the epoch that the client knows, or -1. Raises ApiError (NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH) if another node is the leader, or if the epochs differ.
        """
        log = self.logs.by_partition.get((partition.topic, partition.index))
        if log is None or partition.leader_id != self.config.node_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"node {partition.leader_id} leads {partition.topic}-{partition.index}, not this node",
            )
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            older = leader_epoch < partition.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"the leader epoch of {partition.topic}-{partition.index} is {partition.leader_epoch}, "
                f"not {leader_epoch} as in the request",
            )
        return log

    def close(self, *, record_clean_shutdown: bool) -> None:
        """Close all files of the node.

        If *record_clean_shutdown* is true, save the state of the logs, so that the next start need not read
        them.
        """
        self.group_coordinator.close()
        self.logs.close(record_clean_shutdown=record_clean_shutdown)
