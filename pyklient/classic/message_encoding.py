"""Turns messages and keys into bytes, with the encoders of a classic producer."""

from collections.abc import Callable, Sequence
from typing import Any

from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.encoders import DefaultEncoder
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.kernel import KeyedMessage, by_topic, plain_bytes
from pyklient.serialization import Encoder, as_encoder

__all__ = ["MessageEncoder"]


class MessageEncoder:
    """The encoders of a classic producer, for messages and for keys."""

    def __init__(self, config: ClassicProducerConfig) -> None:
        key_encoder = config.encoder if config.key_encoder is None else config.key_encoder
        self._value = _named(config.encoder)
        self._key = _named(key_encoder)
        self._keeps_bytes = type(config.encoder) is DefaultEncoder
        self._keeps_keys = type(key_encoder) is DefaultEncoder

    def encode(
        self, messages: Sequence[KeyedMessage]
    ) -> tuple[list[EncodedMessages], list[tuple[KeyedMessage, Exception]]]:
        """Return *messages* with their values and keys as bytes, and the messages for which an encoder has
        failed, each with the error.

        If no encoder has to be called and no message has a key or a partition key, each item of the first
        list has the messages of one topic.
        """
        if self._keeps_bytes:
            messages = messages if type(messages) is list else list(messages)
            if (keyless := by_topic(messages)) is not None:
                return [EncodedMessages(given, values, None, topic) for topic, given, values in keyless], []
            if (plain := plain_bytes(messages, self._keeps_keys)) is not None:
                return [EncodedMessages(messages, *plain)], []
        encoded = EncodedMessages([], [], None)
        failed: list[tuple[KeyedMessage, Exception]] = []
        for message in messages:
            try:
                key = None if message.key is None else self._key(message.key)
                value = self._value(message.message)
            except Exception as error:
                error.add_note(f"while the producer encoded a message for topic {message.topic}")
                failed.append((message, error))
            else:
                encoded.append(message, value, key)
        return [encoded] if encoded else [], failed

    def value(self, value: Any) -> bytes | None:
        """Return one message as bytes."""
        return self._value(value)


def _named(encoder: Encoder) -> Callable[[Any], bytes | None]:
    """Return a function that calls *encoder* and returns its result. If the result is not bytes or None, the
    function raises a TypeError that names the encoder."""
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
