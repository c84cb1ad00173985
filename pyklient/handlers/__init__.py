"""What a program does with a message whose handler has failed: it calls the handler again after a pause, or
sends the message to a retry topic or a dead-letter topic.

The same objects serve a loop over a stream and ``ConsumerConnector.parallel``.
"""

from pyklient.handlers.dead_letter_topic import DeadLetterTopic
from pyklient.handlers.retry_topic import RetryTopic
from pyklient.handlers.retrying_handler import RetryingHandler

__all__ = ["DeadLetterTopic", "RetryTopic", "RetryingHandler"]
