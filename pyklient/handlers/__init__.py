"""Ways to treat a message whose handler has failed: call the handler again after a pause, or send the message
to a retry topic or a dead-letter topic.

The classes can be used in a loop over a stream, and with ``ConsumerConnector.parallel``.
"""

from pyklient.handlers.dead_letter_topic import DeadLetterTopic
from pyklient.handlers.retry_topic import RetryTopic
from pyklient.handlers.retrying_handler import RetryingHandler

__all__ = ["DeadLetterTopic", "RetryTopic", "RetryingHandler"]
