"""The number of bytes to ask for, so that a response does not end in the middle of a large batch.

A broker ends the data of a partition at the number of bytes in the request. A batch that is cut off there is
dropped, and fetched again. With batches of 1 MB and requests for 4 MB, a fifth of all bytes can be dropped.
But the part of the batch that arrives contains the length of the whole batch. If the first batch of the
response has about the same length, the next batches probably have it too.
"""

from typing import Final

from pyklient.protocol.records.layout import LEAD, LEAD_SIZE, OVERHEAD

__all__ = ["cut_batch_size", "without_cut_batch"]

_LARGE: Final = 64 * 1024
"""If batches have at least this many bytes, requests are adapted so that no batch is cut off."""
_MARGIN: Final = 16
"""The size of a batch, divided by this number, is the number of bytes that a request asks for beyond whole
batches, because batches differ a little in size."""


def cut_batch_size(records: memoryview, position: int) -> int:
    """Return the size of the batch that begins at byte *position* of *records* and is cut off at their end.

    Return 0 if the batch is not large, if its size is not known, or if the first batch in *records* has a
    clearly different size. In the last case, the next batches can have any size.
    """
    if len(records) - position < LEAD_SIZE:
        return 0
    size = _size(records, position)
    return size if size >= _LARGE and abs(_size(records, 0) - size) <= size // _MARGIN else 0


def _size(records: memoryview, position: int) -> int:
    """Return the size of the batch that begins at byte *position* of *records*."""
    size: int = OVERHEAD + LEAD.unpack_from(records, position)[1]
    return size


def without_cut_batch(limit: int, batch_size: int, least: int) -> int:
    """Return the number of bytes to ask for, at most *limit*, so that the data ends soon after a whole batch
    if each batch has about *batch_size* bytes.

    Return *limit* if this number is less than *least* (``fetch_min_bytes``). A broker waits until it has
    *least* bytes, and if the request asks for fewer, it always waits for the longest time.
    """
    if batch_size > limit:
        return limit
    size = limit // batch_size * batch_size + batch_size // _MARGIN
    return size if least <= size <= limit else limit
