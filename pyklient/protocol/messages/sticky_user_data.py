"""The user data that members send for the assignors ``sticky`` and ``cooperative-sticky``, in Java's format.

Java's assignors define these bytes, and Kafka's brokers do not look into them. So the messages have no API
key, and no version in front.
"""

from pyklient.protocol.schema import EMPTY, ApiMessage, Int32, String, Struct, message, since, struct

__all__ = ["CooperativeStickyUserData", "StickyUserData"]


@message(versions=(0, 1))
class StickyUserData(ApiMessage):
    """The partitions that a member had last, and from version 1 on their generation."""

    @struct
    class TopicAssignment(Struct):
        topic: String = ""
        partitions: list[Int32] = EMPTY

    previous_assignment: list[TopicAssignment] = EMPTY
    generation: Int32 = since(1, default=-1)


@message(versions=(0, 0))
class CooperativeStickyUserData(ApiMessage):
    """The generation in which a member got partitions last."""

    generation: Int32 = -1
