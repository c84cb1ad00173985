"""Records for tests: a few written by hand, and hypothesis strategies."""

from typing import Final

from hypothesis import strategies as st

from pyklient.protocol.records import Compression, NewRecord

__all__ = ["ALLOWED", "LEGACY_SAMPLES", "SAMPLES", "batches_of", "legacy_records", "new_records"]

ALLOWED: Final = [
    (magic, codec) for magic in (0, 1, 2) for codec in Compression if magic == 2 or codec != Compression.ZSTD
]
"""The 13 pairs of format and codec that Kafka allows."""

SAMPLES: Final = [
    NewRecord(1_700_000_000_000, b"key", b"value " * 40),
    NewRecord(1_700_000_000_000, None, b"no key"),
    NewRecord(1_700_000_000_063, b"tombstone", None),
    NewRecord(1_699_999_999_000, b"", b"", (("trace", b"\x00\xff"), ("empty", b""), ("null", None))),
    NewRecord(1_700_000_086_400, "schlüssel".encode(), bytes(range(256)) * 40, (("größe", b"1"),)),
    NewRecord(1_700_000_000_001, None, None),
]
LEGACY_SAMPLES: Final = [record._replace(headers=()) for record in SAMPLES]

_bytes = st.none() | st.binary(max_size=40) | st.integers(60, 20_000).map(lambda size: b"x" * size)
_timestamps = st.integers(0, 1 << 45) | st.just(-1)
_headers = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=4)

new_records = st.builds(NewRecord, _timestamps, _bytes, _bytes, _headers.map(tuple))
legacy_records = st.builds(NewRecord, _timestamps, _bytes, _bytes, st.just(()))


def batches_of(magic: int) -> st.SearchStrategy[list[NewRecord]]:
    """Return lists of one or more records that format *magic* can hold."""
    return st.lists(new_records if magic == 2 else legacy_records, min_size=1, max_size=10)
