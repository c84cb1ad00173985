"""Declarations that are hard to encode and decode, and the errors of encoders and decoders."""

import struct as binary
import traceback
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol.encoder_generation import encoder
from pyklient.protocol.message_fields import Field
from pyklient.protocol.messages import HeartbeatRequest, ProduceResponse
from pyklient.protocol.primitives import Writer
from pyklient.protocol.schema import (
    EMPTY,
    ApiMessage,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
    tagged,
)

pytestmark = pytest.mark.usefixtures("functions")
_VERSIONS = pytest.mark.parametrize(
    "version", [pytest.param(0, id="classic"), pytest.param(1, id="flexible")]
)


@struct
class _Leaf(Struct):
    name: String = ""
    numbers: list[Int16] = EMPTY
    count: Int32 = 0


@struct
class _Batch(Struct):
    index: Int32 = 0
    records: Records | None = None


@message(versions=(0, 1), flexible=1)
class _Mixed(ApiMessage):
    """A structure with a field of every kind; the records are in the middle."""

    leaves: list[_Leaf] = EMPTY
    blob: Bytes | None = b""
    single: _Leaf = EMPTY
    records: Records | None = None
    names: list[String] | None = EMPTY
    ids: list[Uuid] = EMPTY
    doubles: list[Float64] = EMPTY
    last: Int64 = 0
    extra: _Leaf = tagged(0, since=1)
    rank: Int32 = tagged(3, since=1, default=-1)


def _round_trip(value: ApiMessage, version: int) -> Any:
    return type(value).decode(b"".join(value.encode(version)), version)


@_VERSIONS
@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 128, 16_382, 16_383, 16_384])
def test_lengths_around_those_that_take_another_byte(version: int, length: int) -> None:
    names = ["n" * length, "", "é" * (length // 2)]
    leaves = [_Leaf(count=count) for count in range(length)]
    value = _Mixed(leaves=leaves, blob=b"b" * length, names=names, ids=[b"u" * 16] * length)
    value.single = _Leaf(name="s" * length, numbers=list(range(length)))
    value.doubles = [0.5] * length
    assert _round_trip(value, version) == value


@_VERSIONS
def test_records_in_the_middle_stay_where_they_are_uncopied(version: int) -> None:
    records = [bytearray(b"first"), memoryview(bytes(8)).cast("Q"), b"third"]
    value = _Mixed(leaves=[_Leaf(name="before")], records=records, names=["behind"], last=7)
    parts = value.encode(version)
    assert [id(part) for part in parts[1:4]] == [id(part) for part in records]
    read = _Mixed.decode(b"".join(parts), version)
    assert read.records == b"first" + bytes(8) + b"third"
    assert (read.leaves, read.names, read.last) == (value.leaves, ["behind"], 7)


@_VERSIONS
def test_null_and_empty_are_told_apart(version: int) -> None:
    nothing = _round_trip(_Mixed(blob=None, records=None, names=None), version)
    assert (nothing.blob, nothing.records, nothing.names) == (None, None, None)
    empty = _round_trip(_Mixed(blob=b"", records=[], names=[]), version)
    assert (empty.blob, bytes(empty.records), empty.names) == (b"", b"", [])


def test_tagged_fields_are_sent_only_where_they_are_not_default() -> None:
    plain = b"".join(_Mixed().encode(1))
    assert plain.endswith(b"\x00")
    for value in (_Mixed(rank=5), _Mixed(extra=_Leaf(name="x")), _Mixed(rank=0, extra=_Leaf(numbers=[1]))):
        assert len(b"".join(value.encode(1))) > len(plain)
        assert _round_trip(value, 1) == value
    with pytest.raises(ProtocolError, match="tagged field rank does not fill its 5 bytes"):
        _Mixed.decode(plain[:-1] + bytes.fromhex("01 03 05 00000000 00"), 1)
    with pytest.raises(ProtocolError, match=rf"the 4-byte number at byte {len(plain) + 2} is cut off"):
        _Mixed.decode(plain[:-1] + bytes.fromhex("01 03 04 0000"), 1)


def test_a_tagged_structure_is_sent_where_any_of_its_fields_is_not_default() -> None:
    leader, partition = ProduceResponse.LeaderIdAndEpoch, ProduceResponse.PartitionProduceResponse

    def response(current_leader: Any) -> ProduceResponse:
        topic = ProduceResponse.TopicProduceResponse()
        topic.partition_responses.append(partition(current_leader=current_leader))
        return ProduceResponse(responses=[topic])

    def encoded(current_leader: Any) -> bytes:
        return b"".join(response(current_leader).encode(10))

    plain = encoded(leader())
    for changed in (leader(leader_id=3), leader(leader_epoch=3), leader(leader_id=3, leader_epoch=3)):
        assert len(encoded(changed)) > len(plain)
        assert ProduceResponse.decode(encoded(changed), 10) == response(changed)
    alike = SimpleNamespace(leader_id=-1, leader_epoch=-1)
    assert (
        ProduceResponse.decode(encoded(alike), 10) == ProduceResponse.decode(plain, 10) == response(leader())
    )
    assert len(encoded(alike)) > len(plain)
    with pytest.raises(TypeError, match=r"responses\[0\]\.partition_responses\[0\]\.current_leader=None"):
        response(None).encode(10)


def test_an_error_behind_nested_arrays_names_the_byte() -> None:
    value = _Mixed(leaves=[_Leaf(name="one", numbers=[1, 2, 3]), _Leaf(name="two")], blob=b"bytes")
    classic = b"".join(value.encode(0))
    at = classic.index(b"bytes")
    cut = classic[: at + 3]
    with pytest.raises(
        ProtocolError, match=f"a value of 5 bytes begins at byte {at}, but only 3 bytes remain"
    ):
        _Mixed.decode(cut, 0)
    name = classic.index(b"two")
    with pytest.raises(
        ProtocolError, match=f"the string at byte {name} is not UTF-8: .* in position 1: invalid"
    ):
        _Mixed.decode(classic.replace(b"two", b"t\xff\xff"), 0)
    with pytest.raises(ProtocolError, match=f"an array of 1000 numbers begins at byte {name + 7}, but"):
        _Mixed.decode(classic[: name + 3] + (1000).to_bytes(4, "big") + classic[name + 7 :], 0)
    leaves = b"".join(_Mixed(names=["a", "b"]).encode(0))
    assert leaves.count(b"\x00\x00\x00\x02\x00\x01a") == 1
    at = leaves.index(b"\x00\x01a")
    left = len(leaves) - at
    begin = f"an array of 1000 elements begins at byte {at}"
    with pytest.raises(ProtocolError, match=f"{begin}, but only {left} bytes remain"):
        _Mixed.decode(leaves[: at - 4] + (1000).to_bytes(4, "big") + leaves[at:], 0)
    with pytest.raises(ProtocolError, match=f"the length before byte {name} is negative: -2"):
        _Mixed.decode(classic[: name - 2] + b"\xff\xfe" + classic[name:], 0)
    with pytest.raises(ProtocolError, match=f"the value before byte {name} is null"):
        _Mixed.decode(classic[: name - 2] + b"\xff\xff" + classic[name:], 0)


def _declare(name: str, fields: dict[str, Any]) -> Any:
    body = {"__annotations__": fields, **dict.fromkeys(fields, EMPTY)}
    return message(versions=(0, 1), flexible=1)(cast(type[ApiMessage], type(name, (ApiMessage,), body)))


@_VERSIONS
def test_names_of_fields_are_never_those_of_variables(version: int) -> None:
    numbers = ["n", "pos", "end", "stop", "v1", "pack", "unpack_0", "match", "None_", "_"]
    texts = ["x", "data", "reader", "writer", "buf", "v0", "self", "type", "reject_null"]
    arrays = ["a1", "new", "range", "len", "total_size", "reader_pos"]
    fields = dict.fromkeys(numbers, Int32) | dict.fromkeys(texts, String)
    cls = _declare("new", fields | dict.fromkeys(arrays, list[_Leaf]))
    values: dict[str, Any] = {name: number for number, name in enumerate(numbers)}
    values |= {name: name for name in texts} | {name: [_Leaf(name=name)] * 2 for name in arrays}
    value = cls(**values)
    assert _round_trip(value, version) == value


@_VERSIONS
@pytest.mark.parametrize(
    "kind", [Int8, String, list[Int64], list[_Leaf]], ids=["int", "str", "ints", "structs"]
)
def test_a_structure_may_have_any_number_of_fields(version: int, kind: Any) -> None:
    cls = _declare("Wide", {f"field{number}": kind for number in range(600)})
    sample: Any = {Int8: 5, String: "s", list[Int64]: [1, 2]}.get(kind, [_Leaf(name="leaf")])
    value = cls(field3=sample, field300=sample, field599=sample)
    assert _round_trip(value, version) == value


@_VERSIONS
def test_a_structure_may_contain_itself(version: int) -> None:
    @struct
    class Node(Struct):
        name: String = ""
        children: list[_Leaf] = EMPTY
        rank: Int32 = 0

    def inside(field: Field) -> Field:
        return replace(field, kind=Node) if field.name == "children" else field

    Node.declared = tuple(inside(field) for field in Node.declared)
    cls = _declare("Tree", {"root": Node, "others": list[Node], "last": String})
    leaf: Any = Node(name="leaf")
    deeper: Any = Node(children=[leaf], rank=3)
    node: Any = Node(name="node", children=[leaf, deeper, leaf], rank=2)
    value = cls(root=node, others=[leaf, node], last="end")
    assert _round_trip(value, version) == value
    encoded = b"".join(value.encode(version))
    for length in range(len(encoded)):
        with pytest.raises(ProtocolError):
            cls.decode(encoded[:length], version)


@_VERSIONS
@pytest.mark.parametrize("as_array", [False, True], ids=["single", "array"])
def test_structures_may_be_deep_inside_each_other(version: int, as_array: bool) -> None:
    kind: Any = _Batch
    value: Any = _Batch(index=1, records=[b"one", b"two"])
    for depth in range(30):
        fields = {"before": String, "inner": list[kind] if as_array else kind, "behind": Int32}
        body = {"__annotations__": fields, **dict.fromkeys(fields, EMPTY)}
        kind = struct(cast(type[Struct], type("Level", (Struct,), body)))
        value = kind(before=str(depth), inner=[value, value][: 1 + (depth == 20)] if as_array else value)
    cls = _declare("Deep", {"outermost": kind, "last": String})
    made = cls(outermost=value, last="end")
    parts = made.encode(version)
    assert parts.count(b"two") == (2 if as_array else 1)
    read = cls.decode(b"".join(parts), version)
    assert b"".join(read.encode(version)) == b"".join(parts)
    assert read.last == "end"


def test_what_a_version_lacks_is_refused_wherever_it_is() -> None:
    @struct
    class Part(Struct):
        added: Int32 = since(1, default=7)

    cls = _declare("Versioned", {"parts": list[Part]})
    assert cls.decode(bytes(4), 0) == cls()
    assert b"".join(cls(parts=[Part(), Part()]).encode(0)) == b"\x00\x00\x00\x02"
    with pytest.raises(UnsupportedVersionError, match=r"Part cannot carry added=8 in version 0"):
        cls(parts=[Part(), Part(added=8)]).encode(0)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_a_uuid_of_another_size_is_named(size: int) -> None:
    with pytest.raises(ValueError, match=rf"ids=\[.*: a UUID has 16 bytes, not {size}"):
        _Mixed(ids=[bytes(16), bytes(size)]).encode(1)


def test_tracebacks_show_the_line_that_failed() -> None:
    wrong: Any = "seven"
    encode = encoder(HeartbeatRequest, 3, False)
    with pytest.raises(binary.error) as caught:
        encode(Writer(), HeartbeatRequest(generation_id=wrong))
    shown = "".join(traceback.format_exception(caught.value))
    assert "<encoder of HeartbeatRequest v3>" in shown
    assert "v0.generation_id" in shown
