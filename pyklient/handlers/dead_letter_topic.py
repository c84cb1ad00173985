"""DeadLetterTopic, which sends messages that cannot be handled to a topic of their own."""

from pyklient import argument_checks
from pyklient.handlers.failed_message import check_producer, send_copy
from pyklient.kernel import Message
from pyklient.producer.producer import Producer

__all__ = ["DeadLetterTopic"]


class DeadLetterTopic:
    """Sends a copy of each failed message to *topic*, where a person or another program looks at it.

    ::

        dead_letters = DeadLetterTopic(producer, "orders.dead")
        connector.parallel("orders", charge, on_error=dead_letters).run()

    The copy has the key, the value and the headers of the message. Further headers tell the position of the
    message, and describe the error: ``__pyklient.errors.topic``, ``….partition``, ``….offset``,
    ``….timestamp``, ``….exception``, ``….message`` and ``….stacktrace``, all as text. *producer* must not
    have encoders. *timeout* is the longest wait in seconds until the copy is stored; by default, only
    ``delivery_timeout_ms`` is a limit.
    """

    def __init__(self, producer: Producer, topic: str, *, timeout: float | None = None) -> None:
        self._producer = check_producer(producer)
        self._topic = argument_checks.topic_name(topic)
        self._timeout = None if timeout is None else argument_checks.seconds(timeout, "timeout")

    def __call__(self, message: Message, error: Exception) -> None:
        """Send a copy of *message*, whose handler has raised *error*, and wait until it is stored.

        Raises the error of the producer if the copy is not stored within the time-out. In that case, the
        program must not commit *message*.
        """
        send_copy(self._producer, self._topic, message, error, {}, self._timeout)
