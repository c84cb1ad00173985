"""The properties of the simple consumer, which is bound to one broker, in three versions of Kafka (the
profiles).

The constructor of Kafka's simple consumers has arguments instead of properties. The keys and defaults here
are those of the high-level consumer in the same version of Kafka.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyklient.argument_checks import INT32_MAX
from pyklient.config import AdminConfig, dotted_names
from pyklient.properties.profile import Profile, ProfileName, Property, choose
from pyklient.properties.shared_properties import CLIENT_ID, RECEIVE_BUFFER
from pyklient.properties.unsecured import NOT_SECURED
from pyklient.properties.values import whole

__all__ = ["SIMPLE_CONSUMER_PROFILES", "simple_consumer_options"]


def simple_consumer_options(properties: Mapping[str, object], profile: str | None) -> dict[str, Any]:
    """Return the options of SimpleConsumer that follow from *properties*.

    With a *profile*, the options are for a BrokerConsumer, and include ``host`` and ``port``. If *profile* is
    None, the properties are those of today's clients in Java.
    """
    if profile is None:
        return dotted_names.from_properties(AdminConfig, properties)
    chosen = choose(SIMPLE_CONSUMER_PROFILES, profile)
    given = chosen.read(properties)
    options = chosen.options(given)
    # A request that fails is sent once more, on a new connection. The call must have time for both.
    one = given["socket.timeout.ms"] + AdminConfig.socket_connection_setup_timeout_ms
    options["default_api_timeout_ms"] = min(max(AdminConfig.default_api_timeout_ms, 2 * one), INT32_MAX)
    return options


_BROKER: Final = (
    Property(key="host", option="host", required=True),
    Property(key="port", parse=whole(1, 65_535), option="port", required=True),
    Property(
        key="socket.timeout.ms",
        default=30_000,
        parse=whole(1),
        option="request_timeout_ms",
        effect="A call may take twice this time, because a failed request is sent once more.",
    ),
)
_SINCE_0_8: Final = (
    *_BROKER,
    RECEIVE_BUFFER,
    CLIENT_ID,
)
_0_7: Final = (
    *_BROKER,
    Property(
        key="socket.buffersize",
        default=65_536,
        parse=whole(-1),
        option="receive_buffer_bytes",
        also=("socket.receive.buffer.bytes",),
    ),
)
_ONE_BROKER: Final = dict.fromkeys(
    ("bootstrap.servers", "metadata.broker.list", "broker.list", "zk.connect", "zookeeper.connect"),
    "a simple consumer is bound to one broker; set host and port, or choose no profile",
)


def _profile(name: ProfileName, properties: Sequence[Property]) -> Profile:
    return Profile(
        name=name, client="SimpleConsumer", properties=properties, without_effect=_ONE_BROKER | NOT_SECURED
    )


SIMPLE_CONSUMER_PROFILES: Final[Mapping[ProfileName, Profile]] = {
    each.name: each
    for each in (_profile("0.7", _0_7), _profile("0.8", _SINCE_0_8), _profile("0.10", _SINCE_0_8))
}
"""The properties of the simple consumer in each version of Kafka."""
