"""The properties that several classic clients have."""

from typing import Final

from pyklient.properties.profile import Property
from pyklient.properties.values import name_characters, whole

__all__ = ["CLIENT_ID", "RECEIVE_BUFFER"]

CLIENT_ID: Final = Property(key="client.id", default="", parse=name_characters, option="client_id")
RECEIVE_BUFFER: Final = Property(
    key="socket.receive.buffer.bytes",
    default=65_536,
    parse=whole(-1),
    option="receive_buffer_bytes",
    also=("socket.buffersize",),
)
