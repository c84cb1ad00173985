"""The logs of one node, by partition, and the directories in which they are stored."""

import logging
import shutil
from contextlib import suppress
from pathlib import Path

from pyklient.broker.log.clean_shutdown import pop_states, write_states
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.counted import counted

__all__ = ["LogManager"]

_logger = logging.getLogger("pyklient.broker")


class LogManager:
    """Opens, creates and deletes the logs of one node.

    Each log has a directory ``<topic>-<partition>`` in *directory*. ``by_partition`` has the open logs by
    topic and partition.
    """

    def __init__(self, directory: Path, *, max_producer_ids: int) -> None:
        self._directory = directory
        self._max_producer_ids = max_producer_ids
        self.by_partition: dict[tuple[str, int], PartitionLog] = {}
        self._states = pop_states(directory)

    def open(self, topic: str, partition: int, config: LogConfig) -> None:
        """Open the existing log of a partition when the node starts."""
        directory = self._path(topic, partition)
        self.by_partition[topic, partition] = PartitionLog(
            directory,
            config,
            max_producer_ids=self._max_producer_ids,
            state=self._states.pop(directory.name, None),
        )

    def create(self, topic: str, partition: int, config: LogConfig) -> None:
        """Create an empty log for a partition. If a crash has left a directory of the same name, remove it
        first."""
        directory = self._path(topic, partition)
        self._states.pop(directory.name, None)
        with suppress(FileNotFoundError):
            shutil.rmtree(directory)
        self.open(topic, partition, config)

    def delete(self, topic: str, partition: int) -> None:
        """Delete the log of a partition, and its files."""
        self.by_partition.pop((topic, partition)).delete()

    def enforce_retention(self, now_ms: int) -> None:
        """Delete the old segments of all logs, as ``retention.ms`` and ``retention.bytes`` of their topics
        require."""
        for log in self.by_partition.values():
            deleted = log.enforce_retention(now_ms)
            if deleted:
                _logger.info(
                    "%s: retention has deleted %s", log.directory.name, counted(deleted, "old segment")
                )

    def close(self, *, record_clean_shutdown: bool) -> None:
        """Close the files of all logs.

        If *record_clean_shutdown* is true, save the state of the logs, so that the next start need not read
        them.
        """
        states = {log.directory.name: log.state() for log in self.by_partition.values()}
        for log in self.by_partition.values():
            log.close()
        if record_clean_shutdown:
            write_states(self._directory, states)

    def _path(self, topic: str, partition: int) -> Path:
        return self._directory / f"{topic}-{partition}"
