"""Turns messages and keys into bytes, with the encoders of a classic producer."""

from collections.abc import Callable, Sequence
from typing import Any

from pyklient.classic.encoders import DefaultEncoder
from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.serialization import Encoder, as_encoder

__all__ = ["MessageEncoder", "as_given"]


class _EncodedMessage(KeyedMessage):
    """A message whose value and key are bytes. ``given`` is the message as the program has given it."""

    __slots__ = ("given",)

    def __init__(self, given: KeyedMessage, value: bytes | None, key: bytes | None) -> None:
        self.topic = given.topic
        self.message = value
        self.key = key
        self.part_key = given.partition_key  # before the encoder
        self.given = given


def as_given(message: KeyedMessage) -> KeyedMessage:
    """Return *message* as the program has given it, before the encoders."""
    return message.given if isinstance(message, _EncodedMessage) else message


class MessageEncoder:
    """The encoders of a classic producer, for messages and for keys."""

    def __init__(self, config: ClassicProducerConfig) -> None:
        key_encoder = config.encoder if config.key_encoder is None else config.key_encoder
        self._value = _named(config.encoder)
        self._key = _named(key_encoder)
        self._keeps_bytes = isinstance(config.encoder, DefaultEncoder)

    def encode(
        self, messages: Sequence[KeyedMessage]
    ) -> tuple[list[KeyedMessage], list[tuple[KeyedMessage, Exception]]]:
        """Return *messages* with their values and keys as bytes, and the messages for which an encoder has
        failed, each with the error.

        With DefaultEncoder, a message of bytes without a key is returned as the same object.
        """
        encoded: list[KeyedMessage] = []
        failed: list[tuple[KeyedMessage, Exception]] = []
        keeps_bytes = self._keeps_bytes
        for message in messages:
            if keeps_bytes and type(message.message) is bytes and message.key is None:
                encoded.append(message)
                continue
            try:
                key = None if message.key is None else self._key(message.key)
                encoded.append(_EncodedMessage(message, self._value(message.message), key))
            except Exception as error:
                error.add_note(f"while the producer encoded a message for topic {message.topic}")
                failed.append((message, error))
        return encoded, failed

    def value(self, value: Any) -> bytes | None:
        """Return one message as bytes."""
        return self._value(value)


def _named(encoder: Encoder) -> Callable[[Any], bytes | None]:
    """Return a function that calls *encoder* and checks that the result is bytes or None."""
    encode = as_encoder(encoder, "serializer.class")
    assert encode is not None
    name = getattr(encoder, "__name__", type(encoder).__name__)

    def checked(value: Any) -> bytes | None:
        found: object = encode(value)
        if found is None or isinstance(found, bytes):
            return found
        raise TypeError(
            f"the encoder {name} returned {type(found).__name__}, but it must return bytes or None"
        )

    return checked
