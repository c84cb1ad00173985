"""Counts messages by carrier, and detects messages that were lost, duplicated or changed."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from hashlib import blake2b

from pyklient.kernel import Message

__all__ = ["Seen", "Tally", "fingerprint", "merge"]

_MODULUS = 1 << 128


def fingerprint(key: bytes, value: bytes) -> int:
    """Return a 128-bit hash of a message. The length of the key is hashed too, so that the hash depends on
    where the key ends and the value begins."""
    hashed = blake2b(len(key).to_bytes(4, "big"), digest_size=16)
    hashed.update(key)
    hashed.update(value)
    return int.from_bytes(hashed.digest(), "big")


class Tally:
    """For each key, the number of its messages and the sum of their fingerprints.

    The sum does not depend on the order of the messages.
    """

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.digests: dict[bytes, int] = defaultdict(int)

    def add(self, key: bytes, print_: int) -> None:
        """Count one message of *key*, whose fingerprint is *print_*."""
        self.counts[key] += 1
        self.digests[key] = (self.digests[key] + print_) % _MODULUS

    def agrees(self, other: "Tally", key: bytes) -> bool:
        """Return True if both tallies have counted the same messages of *key*."""
        return self.counts[key] == other.counts[key] and self.digests[key] == other.digests[key]


class Seen:
    """The messages that one reader got. Other threads may use a Seen only after the reader's thread has
    ended."""

    def __init__(self) -> None:
        self.handed = 0
        self.by_key: Counter[bytes] = Counter()
        self.prints: dict[tuple[int, bytes], dict[int, int]] = defaultdict(dict)

    def add(self, messages: Iterable[Message]) -> None:
        """Count each of *messages*, and store its fingerprint by partition, key and offset."""
        count = 0
        for message in messages:
            key, value = message.key or b"", message.value or b""
            self.prints[message.partition, key][message.offset] = fingerprint(key, value)
            self.by_key[key] += 1
            count += 1
        self.handed += count


def merge(readers: Iterable[Seen]) -> tuple[Tally, Counter[bytes], int]:
    """Count the messages of all readers together.

    Return a tally of the distinct messages, the number of repeated messages by key, and the number of
    messages that two readers got with different content.
    """
    together: dict[tuple[int, bytes], dict[int, int]] = defaultdict(dict)
    again: Counter[bytes] = Counter()
    changed = 0
    for seen in readers:
        again.update(seen.by_key)
        for partition_and_key, prints in seen.prints.items():
            known = together[partition_and_key]
            changed += sum(1 for offset in prints.keys() & known.keys() if prints[offset] != known[offset])
            known.update(prints)
    tally = Tally()
    for (_, key), prints in together.items():
        for print_ in prints.values():
            tally.add(key, print_)
    again.subtract(tally.counts)
    return tally, again, changed
