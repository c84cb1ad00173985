"""Sends a copy of a message to another topic if its handler has failed. Headers of the copy describe the
error."""

import traceback
from collections.abc import Mapping
from typing import Final

from pyklient.errors import ConfigurationError
from pyklient.kernel import Message
from pyklient.producer.producer import Producer

__all__ = ["check_producer", "header", "send_copy"]

_ERRORS: Final = "__pyklient.errors."
_RETRY: Final = "__pyklient.retry."
_LONGEST_TEXT: Final = 8_000


def check_producer(producer: Producer) -> Producer:
    """Return *producer* if it is a Producer without encoders. Otherwise raise an error now, rather than when
    the first message fails."""
    if not isinstance(producer, Producer):
        raise TypeError(f"producer must be a Producer, not {producer!r}")
    config = producer._config
    if config.key_encoder is not None or config.value_encoder is not None:
        raise ConfigurationError(
            "producer has a value_encoder or a key_encoder, but copies of messages are sent as they are; "
            "pass a producer without encoders"
        )
    return producer


def send_copy(
    producer: Producer,
    topic: str,
    message: Message,
    error: Exception,
    retry: Mapping[str, str],
    timeout: float | None,
) -> None:
    """Send a copy of *message* to *topic*, and wait until it is stored.

    The copy has the key, the value and the headers of *message*, and headers about *error*. If *message* is a
    copy itself, these headers still name the topic, the partition and the offset of the original. *retry* has
    more headers; ``__pyklient.retry.`` is put before their names. Raises the error of the producer if the
    copy is not stored within *timeout* seconds, or within ``delivery_timeout_ms`` if *timeout* is None.
    """
    for name, part in (("key", message.key), ("value", message.value)):
        if part is not None and not isinstance(part, bytes):
            raise TypeError(
                f"cannot copy the failed message to {topic}, because its {name} is {type(part).__name__} "
                "and not bytes: make the stream without decoders, and decode in the handler"
            )
    kept = [pair for pair in message.headers if not pair[0].startswith((_ERRORS, _RETRY))]
    added = [
        # The text of an error may have surrogates, such as those of a file name, which UTF-8 cannot encode.
        *((_ERRORS + name, text.encode(errors="replace")) for name, text in _facts(message, error).items()),
        *((_RETRY + name, text.encode()) for name, text in retry.items()),
    ]
    producer.send(topic, message.value, key=message.key, headers=[*kept, *added]).result(timeout)


def header(message: Message, name: str) -> str | None:
    """Return the value of the header ``__pyklient.retry.<name>``. Return None if there is none."""
    return _values(message, _RETRY).get(name)


def _facts(message: Message, error: Exception) -> dict[str, str]:
    """Return the headers, by name, that tell the position of *message* and describe *error*. If *message* is
    a copy, the position is that of the original."""
    origin = {
        "topic": message.topic,
        "partition": str(message.partition),
        "offset": str(message.offset),
        "timestamp": str(message.timestamp_ms),
    }
    before = _values(message, _ERRORS)
    if origin.keys() <= before.keys():
        origin = {name: before[name] for name in origin}
    return {
        **origin,
        "exception": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _text(error)[:_LONGEST_TEXT],
        "stacktrace": "".join(traceback.format_exception(error))[-_LONGEST_TEXT:],
    }


def _text(error: Exception) -> str:
    """Return ``str(error)``, or a replacement if ``str`` itself raises an exception."""
    try:
        return str(error)
    except Exception as failure:
        return f"<its text cannot be shown: str() raised {type(failure).__qualname__}>"


def _values(message: Message, prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value.decode(errors="replace")
        for name, value in message.headers
        if name.startswith(prefix) and value is not None
    }
