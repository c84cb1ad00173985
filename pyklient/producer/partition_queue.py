"""One partition's records on their way to its leader: what waits, what is on the wire, what goes again.

Records of a lane go out, and are confirmed, in order. While nothing fails, several parcels are on the wire
at once. After a failure the lane waits until nothing of it is on the wire any more, and then sends what
failed again, one parcel at a time and the oldest first, before anything new.

With idempotence, what may have been stored is sent again with the same stamp. A parcel that fails for good
leaves a gap in the sequence, behind which the broker takes nothing:

- Where it has certainly not been stored, neither has anything behind it, and all of that is stamped anew
  in the next epoch.
- Where it is in doubt, what is on the wire or failed behind it keeps its stamps, for it may have been
  stored too. If the broker takes it, there was no gap; if it finds it out of sequence, there was one, and
  nothing behind it has been stored.

The first parcel of a sequence goes alone. A broker takes any number from a producer that it does not know:
were the first one refused because the partition is not ready yet, the second would be stored in its place.

Sans I/O: the sender calls, with the time in monotonic seconds, and carries out what comes back.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable

from pyklient.errors import KafkaError
from pyklient.model import TopicPartition
from pyklient.producer.batch import Parcel
from pyklient.producer.idempotence import UNSTAMPED, Sequences
from pyklient.protocol.records.kernel import Batch
from pyklient.protocol.records.layout import BATCH_SIZE

__all__ = ["Lane"]

Place = tuple[int, int]

_BATCHES_REMEMBERED = 5
"""Batches of a producer that the broker remembers for each partition, to tell one that is sent again. What
is not confirmed must stay among them, also where later ones are confirmed before it."""


class Lane:
    """*linger* and *patience* (``delivery_timeout_ms``) are in seconds; *sequences* is None where stamps are
    not wanted. *seal* closes a batch and makes a Parcel of it."""

    def __init__(
        self,
        at: TopicPartition,
        sequences: Sequences | None,
        *,
        linger: float,
        patience: float,
        seal: Callable[[Batch], Parcel],
    ) -> None:
        self.at = at
        self.topic, self.partition = at
        self.sequences = sequences
        self.alarm = float("inf")
        """When the sender looks at it next: the sender's."""
        self.queued = False
        """Whether it stands in line at a broker's outbox: the sender's."""
        self.trouble: KafkaError | None = None
        """Why nothing of it could be sent lately: the sender's."""
        self._linger = linger
        self._patience = patience
        self._seal = seal
        self._waiting: deque[Batch] = deque()
        self._again: list[Parcel] = []
        self._flying: list[Parcel] = []
        self._sealed = 0
        self._rest_until = 0.0
        self._gap: Place | None = None
        self._doubt: Place | None = None
        self._known = False

    def __repr__(self) -> str:
        return (
            f"<Lane of {self.at}: {len(self._waiting)} batches wait, "
            f"{len(self._flying)} parcels are on the wire, {len(self._again)} to be sent again>"
        )

    @property
    def idle(self) -> bool:
        """Whether there is nothing in it."""
        return not (self._waiting or self._again or self._flying)

    def add(self, batch: Batch) -> None:
        """A batch has been begun; the one before it takes no more records."""
        self._waiting.append(batch)

    def ready(self, now: float) -> bool:
        """Whether there is something to send now."""
        if self._again:
            return not self._flying and now >= self._rest_until
        if not self._waiting or self._gap is not None or self._doubt is not None:
            return False
        if self.sequences is not None and self._flying:
            since_oldest = self._sealed - self._flying[0].order + 1
            if since_oldest >= (_BATCHES_REMEMBERED if self._known else 1):
                return False
        head = self._waiting[0]
        return head.closed or head.created + self._linger <= now

    def next_look(self, now: float) -> float:
        """When to look at it again if nothing happens: something has lingered or rested enough, or expires.
        What is due already waits for something to happen."""
        look = self._next_expiry()
        if self._again and not self._flying and now < self._rest_until < look:
            look = self._rest_until
        if self._waiting and not self._waiting[0].closed:
            lingered = self._waiting[0].created + self._linger
            if now < lingered < look:
                look = lingered
        return look

    def peek_size(self) -> int:
        """Bytes of what ``take`` would return, before compression."""
        return self._again[0].size if self._again else self._waiting[0].size + BATCH_SIZE

    def take(self) -> Parcel | None:
        """The next parcel, for a lane that is ready: it counts as on the wire. None for an empty batch."""
        if self._again:
            parcel = self._again.pop(0)
        else:
            parcel = self._seal(self._waiting.popleft())
            if not parcel.count:
                return None
            self._sealed += 1
            parcel.order = self._sealed
        if parcel.stamp is None:
            parcel.stamp = UNSTAMPED if self.sequences is None else self.sequences.stamp(parcel.count)
        parcel.attempts += 1
        self._flying.append(parcel)
        return parcel

    def stored(self, parcel: Parcel) -> None:
        """The broker has it."""
        self._flying.remove(parcel)
        self._known = True
        if self._doubt is not None and parcel.place > self._doubt:
            self._doubt = None
        self._mend()

    def failed(self, parcel: Parcel, error: KafkaError, *, in_doubt: bool, rest_until: float) -> None:
        """It is to be sent again, not before *rest_until*. *in_doubt*: it may have been stored."""
        self._flying.remove(parcel)
        parcel.in_doubt |= in_doubt
        parcel.failure = error
        if self.sequences is None:
            parcel.stamp = None
        if parcel.expired:
            self._lost(parcel)
        else:
            insort(self._again, parcel, key=_place_of)
            self._rest_until = max(self._rest_until, rest_until)
        self._mend()

    def out_of_sequence(self, parcel: Parcel, error: KafkaError, *, rest_until: float) -> None:
        """The broker misses something before it, or knows nothing of its sequence. If there is nothing
        before it in this lane either, the sequence has to begin anew."""
        others = [other.place for other in (*self._again, *self._flying) if other is not parcel]
        parcel.in_doubt = False
        if parcel.place < min(others, default=(parcel.order + 1, 0)):
            self._gap = parcel.place
        self.failed(parcel, error, in_doubt=False, rest_until=rest_until)

    def lost(self, parcel: Parcel) -> None:
        """It has failed for good."""
        self._flying.remove(parcel)
        self._lost(parcel)
        self._mend()

    def split(self, parcel: Parcel) -> None:
        """It is too large: its halves go instead of it, at once."""
        self._flying.remove(parcel)
        for part in parcel.halves():
            insort(self._again, part, key=_place_of)
        self._mend()

    def without_stamps(self) -> None:
        """The topic cannot have producer ids: go on without."""
        self.sequences = self._gap = self._doubt = None
        for parcel in self._again:
            parcel.stamp = None  # those on the wire lose theirs if they come back

    def expire(self, now: float) -> tuple[list[Parcel], list[Batch]]:
        """What has taken too long: parcels, and batches that were never sealed. They are out of the lane,
        but for parcels on the wire, whose answer is still waited for."""
        if now < self._next_expiry():
            return [], []
        patience = self._patience
        gone = [parcel for parcel in self._again if parcel.batch.created + patience <= now]
        for parcel in gone:
            self._again.remove(parcel)
            self._lost(parcel)
        for parcel in self._flying:
            if parcel.batch.created + patience <= now and not parcel.expired:
                parcel.expired = True
                gone.append(parcel)
        batches = []
        while self._waiting and self._waiting[0].created + patience <= now:
            batches.append(self._waiting.popleft())
        self._mend()
        return gone, batches

    def _next_expiry(self) -> float:
        """When the oldest of what has not expired yet does."""
        oldest = self._waiting[0].created if self._waiting else float("inf")
        for parcel in self._again[:1]:
            oldest = min(oldest, parcel.batch.created)
        for parcel in self._flying:
            if not parcel.expired:
                oldest = min(oldest, parcel.batch.created)
                break
        return oldest + self._patience

    def _lost(self, parcel: Parcel) -> None:
        if self.sequences is None or not parcel.idempotent:
            return
        if parcel.in_doubt:
            self._doubt = max(self._doubt or parcel.place, parcel.place)
        else:
            self._gap = min(self._gap or parcel.place, parcel.place)

    def _mend(self) -> None:
        """Begin a new epoch behind a gap, once nothing before it, and nothing on the wire, is left."""
        if self.sequences is None or self._flying:
            return
        if self._gap is not None:
            mended = not self._again or self._again[0].place >= self._gap
        else:
            mended = self._doubt is not None and not self._again
        if mended:
            self._gap = self._doubt = None
            self.sequences.restart()
            self._known = False
            for parcel in self._again:
                parcel.stamp = None
                parcel.in_doubt = False


def _place_of(parcel: Parcel) -> Place:
    return parcel.place
