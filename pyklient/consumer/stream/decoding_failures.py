"""What a loop does about fetched batches that cannot be decoded."""

from collections.abc import Callable

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.stream.fetch_queue import FetchQueue
from pyklient.consumer.stream.message_in_hand import InHand
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.errors import CorruptRecordError, MessageTooLargeError, UnsupportedCodecError

__all__ = ["DecodingFailures"]


class DecodingFailures:
    """Prepares the next loop over *queue* after an error of decoding. *restart* reads a cursor's partition
    again from an offset, in place of what is queued."""

    def __init__(
        self,
        queue: FetchQueue,
        decoding: Decoding,
        in_hand: InHand,
        restart: Callable[[Cursor, int | None], None],
    ) -> None:
        self._queue = queue
        self._decoding = decoding
        self._in_hand = in_hand
        self._restart = restart

    def pass_over(self, fetched: FetchedBatches, error: Exception) -> Exception:
        """Return the error to raise for *error*, which came from decoding *fetched*.

        The next loop fetches bytes again that are damaged. It begins after a message for which a decoder has
        raised an exception.
        """
        if isinstance(error, CorruptRecordError | UnsupportedCodecError | MessageTooLargeError):
            self._restart(fetched.cursor, fetched.start)
            self._queue.source = None
            return type(error)(f"{fetched.cursor.partition} at offset {fetched.start}: {error}")
        offset = self._decoding.next_offset(fetched)
        self._in_hand.undecodable = fetched, offset
        fetched.start = offset + 1
        return error
