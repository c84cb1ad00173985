"""The arguments of a Mirror that say how records are copied."""

from typing import NamedTuple

from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.mirror.producer_record import Handler
from pyklient.protocol.records import Compression

__all__ = ["Rules"]


class Rules(NamedTuple):
    """The arguments of a Mirror that say how records are copied. ``commit_interval`` is in seconds."""

    topics: TopicFilter
    keep_partitions: bool
    handler: Handler | None
    abort_on_send_failure: bool
    commit_interval: float
    codec: Compression | None
    """The compression that the user has chosen for the target cluster. None if batches keep the compression
    of the source cluster."""

    @property
    def passes_batches(self) -> bool:
        """True if whole batches may be sent as they were fetched."""
        return self.keep_partitions and self.handler is None
