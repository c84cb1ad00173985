"""The user data that members send for the assignors ``sticky`` and ``cooperative-sticky``, in Java's format.

Java's assignors define these bytes, and Kafka's brokers do not look into them. So these structures have no
API key, and the bytes do not begin with a version.
"""

from pyklient.protocol.schema import EMPTY, ApiMessage, Int32, String, Struct, message, since, struct

__all__ = ["CooperativeStickyUserData", "StickyUserData"]


@message(versions=(0, 1))
class StickyUserData(ApiMessage):
    """The partitions that a member was last assigned, and from version 1 on the generation of that
    assignment."""

    @struct
    class TopicAssignment(Struct):
        topic: String = ""
        partitions: list[Int32] = EMPTY

    previous_assignment: list[TopicAssignment] = EMPTY
    generation: Int32 = since(1, default=-1)


@message(versions=(0, 0))
class CooperativeStickyUserData(ApiMessage):
    """The generation in which a member was last assigned partitions."""

    generation: Int32 = -1
