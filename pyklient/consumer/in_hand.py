"""What a loop has in hand, and where it came from, so that it can be handed out again without a new fetch."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from pyklient.consumer.claim import Claim, Piece
from pyklient.consumer.decoding import AnyChunk
from pyklient.topic_partition import TopicPartition

__all__ = ["Handed", "InHand", "Starts"]

Starts: TypeAlias = Mapping[TopicPartition, tuple[Claim, int]]
"""For each partition its claim and an offset."""


class Handed(NamedTuple):
    """The next offset of a partition after what has been handed out, and the generation it was read under."""

    offset: int
    generation: int
    read: bool = True
    """False for a start that was looked up, until something is handed out behind it."""


class InHand:
    """The message or batch in hand. Used under the stream's lock.

    It keeps copies of the pieces that hold these messages, as they stood before they were decoded, and so
    their bytes in memory for that long.
    """

    def __init__(self) -> None:
        self.batch: dict[TopicPartition, tuple[Claim, int]] = {}
        """Where the batch in hand begins in each partition; empty for a message."""
        self.undecodable: tuple[Piece, int] | None = None
        """The piece and the offset of the message for which a decoder raised."""
        self._pieces: list[tuple[Piece, Piece]] = []

    def note_piece(self, piece: Piece, before: Piece) -> None:
        """Messages have been decoded from *piece*, of which *before* is a copy from the time before that."""
        if not self._pieces or self._pieces[-1][0] is not piece:
            self._pieces.append((piece, before))

    def note_batch(self, claim: Claim, offset: int) -> None:
        """The batch to be handed out begins there in its partition, unless it began before."""
        self.batch.setdefault(claim.partition, (claim, offset))

    def settle(self, piece: Piece | None) -> None:
        """Nothing is in hand any more; the next message comes from *piece*, if that is not None."""
        self.batch.clear()
        self.undecodable = None
        self._pieces = [each for each in self._pieces if each[0] is piece]

    def starts(self, chunk: AnyChunk | None, source: Piece | None) -> Starts:
        """Where what is in hand begins. *chunk*, from the piece *source*, is what hands out messages."""
        if self.batch or chunk is None or source is None or not chunk.handed:
            return dict(self.batch)
        return {source.claim.partition: (source.claim, chunk.last_handed)}

    def pieces_again(self, starts: Starts) -> list[tuple[Piece, Piece]]:
        """The pieces of the partitions in *starts*, in order, each with one that goes on from there.

        Those of partitions that were taken away are left out. The bytes count as waiting again.
        """
        found: list[tuple[Piece, Piece]] = []
        for piece, before in self._pieces:
            claim, offset = starts.get(piece.claim.partition, (None, 0))
            if claim is piece.claim and claim.active:
                before.start = max(before.start, offset)
                claim.taken -= piece.at - before.at
                found.append((piece, before))
        return found
