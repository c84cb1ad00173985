"""The producer with which a mirror writes to the target cluster."""

from pyklient.kernel import Appender, Batch
from pyklient.producer.producer import Producer
from pyklient.producer.send_batch import send_batch
from pyklient.protocol.records import RecordBatch

__all__ = ["MirrorProducer"]


class MirrorProducer(Producer):
    """A Producer that also sends whole batches, and many messages with one call of the kernel."""

    @property
    def appender(self) -> Appender:
        """The kernel's object that appends records to the batches of this producer. The mirror passes it to
        ``append_messages``, which appends many messages at once."""
        return self._accumulator.appender

    def send_batch(self, topic: str, partition: int, batch: RecordBatch) -> Batch | None:
        """Send the records of *batch*, which has record format 2, as one batch. Return the new batch, or None
        if the options of the producer do not allow such a large batch.

        The records follow all records that were sent to the partition earlier. Waits for memory and metadata,
        and raises errors, as ``send`` does.
        """
        return send_batch(self._accumulator, topic, partition, batch)
