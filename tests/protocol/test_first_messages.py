"""The first messages of a kind are encoded and decoded without generated functions, with the same results."""

from collections.abc import Callable
from copy import copy
from random import Random
from typing import Any

import pytest

from pyklient.errors import KafkaError
from pyklient.protocol import schema
from pyklient.protocol.decoder_generation import decoder
from pyklient.protocol.encoder_generation import encoder
from pyklient.protocol.encoding_errors import ENCODING_ERRORS
from pyklient.protocol.field_decoding import first_decoder
from pyklient.protocol.field_encoding import first_encoder
from pyklient.protocol.message_fields import Field, Struct, layout_of
from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSES,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    HeartbeatRequest,
    MetadataRequest,
    RequestHeader,
)
from pyklient.protocol.primitives import Reader, Writer
from pyklient.protocol.schema import ApiMessage
from tests.protocol.instances import random_message
from tests.run.seed import seed as run_seed

_MESSAGES: tuple[type[ApiMessage], ...] = (
    *REQUESTS.values(),
    *RESPONSES.values(),
    RequestHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
)
_ALL = pytest.mark.parametrize("cls", _MESSAGES, ids=lambda cls: cls.__name__)


@pytest.fixture
def random() -> Random:
    return Random(run_seed())


class _MadeAnew:
    """Returns other objects for the same fields each time, as when two threads read ``declared`` first."""

    def __get__(self, instance: object, owner: type) -> tuple[Field, ...]:
        return tuple(copy(field) for field in MetadataRequest.declared)


class _Anew(Struct):
    declared = _MadeAnew()


def test_each_field_has_one_place_in_a_layout_also_if_the_fields_are_declared_by_two_threads() -> None:
    expected = layout_of(MetadataRequest, 1)
    found = layout_of(_Anew, 1)
    assert expected.sent
    assert expected.absent
    for fields, names in ((found.sent, expected.sent), (found.absent, expected.absent)):
        assert [each.name for each in fields] == [each.name for each in names]


@_ALL
def test_both_kinds_of_encoders_write_the_same_bytes(cls: type[ApiMessage], random: Random) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        flexible = cls.is_flexible(version)
        encoders = first_encoder(cls, version, flexible), encoder(cls, version, flexible)
        message, _ = random_message(cls, version, random)
        first, generated = (_encoded(encode, message) for encode in encoders)
        assert first == generated
        for field in cls.declared:
            for wrong in (None, -1, "text", 1 << 70, [None], "x" * 40_000):
                changed, _ = random_message(cls, version, Random(1))
                setattr(changed, field.name, wrong)
                first, generated = (_encoded(encode, changed) for encode in encoders)
                assert first == generated


@_ALL
def test_both_kinds_of_decoders_read_the_same_of_any_bytes(cls: type[ApiMessage], random: Random) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        flexible = cls.is_flexible(version)
        decoders = first_decoder(cls, version, flexible), decoder(cls, version, flexible)
        message, _ = random_message(cls, version, random)
        encoded = b"".join(message.encode(version))
        changes = [encoded, *(encoded[:length] for length in range(min(len(encoded), 60)))]
        for start in range(min(len(encoded), 60)):
            for hostile in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00", random.randbytes(2)):
                changes.append(encoded[:start] + hostile + encoded[start + len(hostile) :])
        for data in changes:
            first, generated = (_decoded(decode, data) for decode in decoders)
            assert first == generated


def _encoded(encode: Callable[[Writer, Any], None], message: Struct) -> Any:
    """Return the bytes of *message*, or the kind of the error. An error that names no field may have other
    words, because find_unencodable writes the words that a user sees."""
    writer = Writer(b"start")
    try:
        encode(writer, message)
    except (*ENCODING_ERRORS, KafkaError) as error:
        return type(error)
    return [bytes(part) for part in writer.finish()]


def _decoded(decode: Callable[[Reader], Any], data: bytes) -> Any:
    """Return the message in *data* and the position after it, or the error."""
    reader = Reader(data)
    try:
        return decode(reader), reader.pos
    except ENCODING_ERRORS as error:  # struct.error, for which the message is called cut off
        return type(error)
    except KafkaError as error:
        return str(error)


def test_a_function_is_generated_for_what_is_sent_and_received_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generated: list[str] = []
    monkeypatch.setattr(schema, "encoder", _noted(generated, "encoder", encoder))
    monkeypatch.setattr(schema, "decoder", _noted(generated, "decoder", decoder))
    HeartbeatRequest._encoders.clear()
    HeartbeatRequest._decoders.clear()
    for number in range(1, 30):
        request = HeartbeatRequest(group_id="clicks", generation_id=number)
        assert HeartbeatRequest.decode(b"".join(request.encode(3)), 3) == request
        assert generated == (["encoder", "decoder"] if number > 20 else [])


def test_a_function_is_generated_at_once_for_a_large_message(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[str] = []
    monkeypatch.setattr(schema, "decoder", _noted(generated, "decoder", decoder))
    MetadataRequest._decoders.clear()
    topics = [MetadataRequest.MetadataRequestTopic(name=f"topic-{number}") for number in range(1_000)]
    request = MetadataRequest(topics=topics)
    assert MetadataRequest.decode(b"".join(request.encode(9)), 9) == request
    assert generated == ["decoder"]


def test_a_function_is_generated_for_the_request_after_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[str] = []
    monkeypatch.setattr(schema, "encoder", _noted(generated, "encoder", encoder))
    MetadataRequest._encoders.clear()
    topics = [MetadataRequest.MetadataRequestTopic(name=f"topic-{number}") for number in range(1_000)]
    request = MetadataRequest(topics=topics)
    first = request.encode(9)
    assert not generated
    assert request.encode(9) == first
    assert generated == ["encoder"]


def _noted(notes: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noting(*arguments: Any) -> Any:
        notes.append(name)
        return function(*arguments)

    return noting
