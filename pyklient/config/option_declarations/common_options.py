"""The options that every client has. Each option is declared once, here.

A client's options are one frozen dataclass. Their names are Kafka's own, with underscores; the description of
an option that Kafka does not have ends in "(Only in pyklient.)". ``from_options({"client_id": "billing"})``
checks names, types and ranges, and then the rules between options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pyklient.config.bootstrap_servers import DEFAULT_SERVERS, is_default, parse_bootstrap_servers
from pyklient.config.option_checks import MIB, check_option, option
from pyklient.config.unknown_options import advice, did_you_mean, nearest
from pyklient.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl

__all__ = ["AdminConfig", "ClientConfig", "unknown_option"]


_NEEDED: Final = {
    "zookeeper_username": "zookeeper",
    "zookeeper_ssl_client_enable": "zookeeper",
    "zookeeper_password": "zookeeper_username",
    "zookeeper_set_acl": "zookeeper_username",
    "zookeeper_ssl_truststore_location": "zookeeper_ssl_client_enable",
    "zookeeper_ssl_keystore_location": "zookeeper_ssl_client_enable",
    "zookeeper_ssl_keystore_password": "zookeeper_ssl_keystore_location",
}
"""Options for ZooKeeper that have no effect without another option, each with this other option."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ClientConfig:
    """Options of every client: brokers, time-outs, security."""

    client: ClassVar[str] = "any client"
    """The name by which error messages refer to the client."""

    has_records: ClassVar[bool] = False
    """True if clients with these options send or read records."""

    waiting_option: ClassVar[str] = "default_api_timeout_ms, or the timeout of the call,"
    """A part of an error message: it names the option that limits how long a call waits for a broker."""

    bootstrap_servers: str | Sequence[str] = option(
        DEFAULT_SERVERS,
        "Addresses (host:port) of some brokers, as a list or separated by commas. The client finds the "
        "other brokers through them.",
    )
    zookeeper: str | None = option(
        None,
        "Addresses of ZooKeeper (host:port,host:port/chroot), for clusters that use it. The chroot is the "
        "path below which Kafka stores its data; leave it out if there is none. The client finds the brokers "
        "in ZooKeeper, and needs no bootstrap_servers. (Only in pyklient. Kafka's old clients call "
        "the option zookeeper.connect.)",
    )
    client_id: str = option("pyklient", "The name that the broker shows in its logs, quotas and metrics.")
    request_timeout_ms: int = option(30_000, "The longest wait for one response from a broker.", at_least=1)
    default_api_timeout_ms: int = option(
        60_000, "The longest time for a call that may need several requests.", at_least=1
    )
    retry_backoff_ms: int = option(
        100,
        "The pause before the first retry. The pause before each further retry is twice as long, with "
        "jitter.",
        at_least=0,
    )
    retry_backoff_max_ms: int = option(1_000, "The longest pause before a retry.", at_least=0)
    reconnect_backoff_ms: int = option(
        50,
        "The pause before the client opens a broken connection again. After each attempt that fails, the "
        "pause is twice as long, with jitter.",
        at_least=0,
    )
    reconnect_backoff_max_ms: int = option(
        1_000, "The longest pause before the client opens a broken connection again.", at_least=0
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000, "The longest time to open a connection, including TLS and SASL.", at_least=1
    )
    bootstrap_refused_timeout_ms: int = option(
        -1,
        "A call raises an error after this time if all bootstrap servers refuse connections or their host "
        "names do not exist. With -1, the call waits until its own time-out is over. (Only in pyklient.)",
        at_least=-1,
    )
    connections_max_idle_ms: int = option(
        540_000, "The client closes a connection that it has not used for this time.", at_least=1
    )
    metadata_max_age_ms: int = option(
        300_000, "The client asks for the metadata of the cluster again after this time.", at_least=1
    )
    send_buffer_bytes: int = option(
        -1, "The size of the socket's send buffer. -1 means the system's default.", at_least=-1
    )
    receive_buffer_bytes: int = option(
        -1, "The size of the socket's receive buffer. -1 means the system's default.", at_least=-1
    )
    receive_message_max_bytes: int = option(
        100 * MIB,
        "The largest response that the client accepts. If a response is larger, the client closes the "
        "connection. (Only in pyklient.)",
        at_least=1024,
    )
    security_protocol: str = option(
        "PLAINTEXT",
        "The security of connections: TLS (SSL), a login (SASL_PLAINTEXT), both (SASL_SSL) or neither "
        "(PLAINTEXT).",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sasl_mechanism: str = option(
        "PLAIN", "The mechanism of the SASL login.", choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    sasl_username: str | None = option(
        None, "The user name of the SASL login. (Only in pyklient. In Kafka, it is part of sasl.jaas.config.)"
    )
    sasl_password: str | None = option(
        None,
        "The password of the SASL login. (Only in pyklient. In Kafka, it is part of sasl.jaas.config.)",
        secret=True,
    )
    zookeeper_session_timeout_ms: int = option(
        6_000,
        "ZooKeeper ends the session of a client from which it has heard nothing for this time.",
        at_least=1,
    )
    zookeeper_connection_timeout_ms: int = option(
        6_000,
        "The longest wait for a connection to ZooKeeper. The wait also ends when the call's own time-out "
        "is over.",
        at_least=1,
    )
    zookeeper_username: str | None = option(
        None, "The user name for ZooKeeper's authentication scheme digest. (Only in pyklient.)"
    )
    zookeeper_password: str | None = option(
        None, "The password for ZooKeeper's authentication scheme digest. (Only in pyklient.)", secret=True
    )
    zookeeper_set_acl: bool = option(
        False, "With True, only zookeeper_username may change the nodes that the client creates in ZooKeeper."
    )
    zookeeper_ssl_client_enable: bool = option(
        False, "With True, the client uses TLS for the connection to ZooKeeper."
    )
    zookeeper_ssl_truststore_location: str | None = option(
        None,
        "A PEM file with the certificate authorities that the client trusts for ZooKeeper. By default, it "
        "trusts the authorities that the system trusts.",
    )
    zookeeper_ssl_keystore_location: str | None = option(
        None, "A PEM file with the certificate chain and the key that the client uses for ZooKeeper."
    )
    zookeeper_ssl_keystore_password: str | None = option(
        None, "The password of the key in zookeeper_ssl_keystore_location.", secret=True
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = option(
        "https",
        "With https, the client checks that ZooKeeper's certificate is for ZooKeeper's host name. With an "
        "empty text, it does not check this.",
        choices=("https", ""),
    )
    ssl_context: "ssl.SSLContext | None" = option(
        None, "A complete TLS context, which replaces the other ssl_ options. (Only in pyklient.)"
    )
    ssl_truststore_location: str | None = option(
        None,
        "A PEM file with the certificate authorities that the client trusts. By default, it trusts the "
        "authorities that the system trusts.",
    )
    ssl_keystore_location: str | None = option(
        None, "A PEM file with the certificate chain and the key of the client."
    )
    ssl_key_password: str | None = option(
        None, "The password of the key in ssl_keystore_location.", secret=True
    )
    ssl_endpoint_identification_algorithm: str = option(
        "https",
        "With https, the client checks that the certificate of a broker is for the broker's host name. "
        "With an empty text, it does not check this.",
        choices=("https", ""),
    )

    # These three methods are written once, because making them for each config takes time at each start.
    def __repr__(self) -> str:
        shown = (f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, item.name) for item in fields(self))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return *options* as a config, after checking names, types, ranges and the rules between options.

        Raises ConfigurationError; for an unknown option, the error suggests a similar name.
        """
        known = {item.name: item for item in fields(cls)}
        values = {}
        for name, value in options.items():
            if name not in known:
                raise ConfigurationError(unknown_option(cls, name))
            values[name] = check_option(known[name], value)
        config = cls(**values)
        config.validate()
        _reject_idle_sasl(config.security_protocol, values)
        return config

    @property
    def cluster(self) -> str | Sequence[str]:
        """The text that names the cluster: the value of ``zookeeper`` if only this option is set, otherwise
        that of ``bootstrap_servers``."""
        if self.zookeeper is not None and is_default(self.bootstrap_servers):
            return self.zookeeper
        return self.bootstrap_servers

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """The value of ``bootstrap_servers`` as pairs of host and port. Empty if the client finds the brokers
        in ZooKeeper only."""
        if self.cluster is self.zookeeper:
            return ()
        return parse_bootstrap_servers(self.bootstrap_servers)

    def validate(self) -> None:
        """Raise ConfigurationError if two options contradict each other."""
        parse_bootstrap_servers(self.bootstrap_servers)
        if self.security_protocol.startswith("SASL") and (
            self.sasl_username is None or self.sasl_password is None
        ):
            raise ConfigurationError(
                f"security_protocol={self.security_protocol} needs sasl_username and sasl_password; set "
                "both options"
            )
        if self.security_protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
            for name in ("ssl_context", "ssl_truststore_location", "ssl_keystore_location"):
                if getattr(self, name) is not None:
                    raise ConfigurationError(
                        f"{name} is set, but security_protocol={self.security_protocol} does not use TLS; "
                        "choose SSL or SASL_SSL"
                    )
        self._validate_zookeeper()

    def _validate_zookeeper(self) -> None:
        if self.zookeeper is not None:
            from pyklient.config.zookeeper_address import parse_zookeeper

            parse_zookeeper(self.zookeeper)
        for name, needed in _NEEDED.items():
            if getattr(self, name) and getattr(self, needed) in (None, False):
                raise ConfigurationError(
                    f"{name} is set, but {needed} is not; set both options, or neither of them"
                )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class AdminConfig(ClientConfig):
    """Options of Admin and of SimpleConsumer."""

    client: ClassVar[str] = "Admin or SimpleConsumer"


def _reject_idle_sasl(security_protocol: str, given: Mapping[str, Any]) -> None:
    # Only options that were given count: the default of sasl_mechanism is not None.
    if security_protocol.startswith("SASL"):
        return
    for name in ("sasl_username", "sasl_password", "sasl_mechanism"):
        if given.get(name) is not None:
            raise ConfigurationError(
                f"{name} is set, but security_protocol={security_protocol} does not use SASL; "
                "choose SASL_PLAINTEXT or SASL_SSL"
            )


def unknown_option(config: type[ClientConfig], name: str) -> str:
    """Return the error message for *name*, which is not an option of *config*, with a hint if there is
    one."""
    others = ClientConfig.__subclasses__()
    known = [item.name for item in fields(config)]
    beginning = f"unknown option {name!r} of {config.client}"
    if not isinstance(name, str):
        return beginning
    plain = name.replace(".", "_")
    if plain in known:
        return f"{beginning}; did you mean {plain!r}?"
    if (instead := advice(plain)) is not None:
        return f"{beginning}; {instead}"
    for other in others:
        if plain in {item.name for item in fields(other)}:
            return f"{beginning}; it is an option of {other.client}"
    if hint := did_you_mean(plain, known):
        return beginning + hint
    for other in others:
        if (near := nearest(plain, [item.name for item in fields(other)])) is not None:
            return f"{beginning}; did you mean {near!r} of {other.client}?"
    return beginning
