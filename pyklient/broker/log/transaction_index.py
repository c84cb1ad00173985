"""The aborted transactions of a segment, in the file ``<base offset>.txnindex``.

A consumer with ``read_committed`` gets the list of these transactions with the records, and skips the records
of these transactions. The file has Kafka's format, so that Kafka's own tools can read it. It exists only if a
transaction was aborted in the segment.
"""

import logging
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

__all__ = ["AbortedTransaction", "TransactionIndex"]

_logger = logging.getLogger("pyklient.broker")

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: the offset of its first record, and the offset of the transaction
    marker that ends it.

    ``last_stable_offset`` is the last stable offset of the partition after the marker. All transactions that
    begin before this offset have ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers are in one segment, in the order of the markers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[AbortedTransaction] = []

    def add(self, transaction: AbortedTransaction, *, to_disk: bool = True) -> None:
        """Add *transaction*. If *to_disk* is false, it is added in memory only, until ``rewrite``.

        If the file cannot be written, the transaction is added in memory nevertheless, because consumers must
        not get its records. The next start then reads the whole log, because the file has too few entries.
        """
        self.entries.append(transaction)
        if not to_disk:
            return
        try:
            with self.path.open("ab") as file:
                file.write(_encoded(transaction))
        except OSError as error:
            _logger.error(
                "%s: an aborted transaction could not be written to this file (%s); the next start reads the "
                "whole log",
                self.path,
                error.strerror or error,
            )

    def load(self, count: int) -> bool:
        """Read the entries from the file. If it does not have exactly *count* entries, return False."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        if len(data) != count * _ENTRY.size:
            return False
        self.entries = [AbortedTransaction(*fields) for _, *fields in _ENTRY.iter_unpack(data)]
        return True

    def rewrite(self) -> None:
        """Write the entries in memory to the file, after recovery has rebuilt them."""
        if self.entries:
            self.path.write_bytes(b"".join(map(_encoded, self.entries)))
        else:
            self.unlink()

    def unlink(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def _encoded(transaction: AbortedTransaction) -> bytes:
    return _ENTRY.pack(_VERSION, *transaction)
