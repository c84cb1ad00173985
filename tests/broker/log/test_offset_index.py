"""The sparse offset index."""

from pathlib import Path
from struct import unpack

from pyklient.broker.log.offset_index import OffsetIndex


def filled(path: Path, *, interval: int = 100, max_bytes: int = 1 << 20, batches: int = 20) -> OffsetIndex:
    """Return an index with batches of 60 bytes and 10 records each."""
    index = OffsetIndex(path, interval_bytes=interval, max_bytes=max_bytes)
    for at in range(batches):
        index.add_batch(at * 10 + 9, at * 60, 60)
    return index


def test_an_entry_is_made_once_the_interval_has_gone_by(tmp_path: Path) -> None:
    index = filled(tmp_path / "x.index")
    assert index.entries[:3] == [(29, 120), (49, 240), (69, 360)]
    index.close()


def test_a_look_up_gives_the_last_indexed_batch_that_ends_at_or_before_the_offset(tmp_path: Path) -> None:
    index = filled(tmp_path / "x.index")
    assert [index.floor(offset) for offset in (0, 28, 29, 30, 48, 49, 10_000)] == [
        0,
        0,
        120,
        120,
        120,
        240,
        1080,
    ]
    index.close()


def test_a_boundary_is_the_last_known_start_of_a_batch_before_a_position(tmp_path: Path) -> None:
    index = filled(tmp_path / "x.index")
    assert [index.boundary(position) for position in (0, 119, 120, 239, 5000)] == [0, 0, 120, 120, 1080]
    index.close()


def test_the_file_holds_big_endian_pairs_as_kafkas_tools_expect(tmp_path: Path) -> None:
    index = filled(tmp_path / "x.index")
    index.close()
    data = (tmp_path / "x.index").read_bytes()
    numbers = unpack(f">{len(data) // 4}I", data)
    assert list(zip(numbers[::2], numbers[1::2], strict=True)) == index.entries


def test_a_full_index_takes_no_more_and_says_so(tmp_path: Path) -> None:
    index = filled(tmp_path / "x.index", max_bytes=24)
    assert index.full
    assert len(index) == 3
    index.close()


def test_a_rebuilt_index_replaces_what_the_file_held(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(b"damaged")
    index = OffsetIndex(path, interval_bytes=0, max_bytes=1 << 20)
    for at in range(3):
        index.add_batch(at, at * 60, 60, to_disk=False)
    index.rewrite()
    assert path.read_bytes().hex() == "000000010000003c" + "0000000200000078"
