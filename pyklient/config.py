"""Options of the clients: name, default, range and meaning, each declared once.

A client's options are one frozen dataclass. Names are Kafka's own with underscores, so they are known
from other clients; the few that are ours are marked so. ``ProducerConfig.from_options(acks=1)`` checks
names, types and ranges, and then the rules between options; components receive the values they use.
"""

import dataclasses
import ssl
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Protocol, Self

from pyklient.errors import ConfigurationError
from pyklient.hints import advice, did_you_mean, nearest
from pyklient.serialization import Encoder, as_encoder

__all__ = [
    "DEFAULT_SERVERS",
    "NOT_READ",
    "AdminConfig",
    "ClientConfig",
    "ConsumerConfig",
    "HasPartition",
    "ProducerConfig",
    "check_option",
    "parse_bootstrap_servers",
    "unknown_option",
]

_INT32_MAX = 2**31 - 1
_KIB, _MIB = 1024, 1024 * 1024

NOT_READ = frozenset(
    {"auto_commit_interval_ms", "auto_offset_reset", "enable_auto_commit", "group_id", "group_instance_id"}
)
"""Options of ConsumerConfig that mean nothing to a read."""


class _Unsaid(str):
    """A default that can be told from the same text given by a caller."""


DEFAULT_SERVERS: Final[str] = _Unsaid("localhost:9092")
"""The default of a client's first argument."""


class HasPartition(Protocol):
    """A partitioner that is an object."""

    def partition(self, topic: str, key: bytes | None, partition_count: int, /) -> int: ...


def option(
    default: Any,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[Any, ...] | None = None,
    secret: bool = False,
) -> Any:
    """One option as a dataclass field, with what is needed to check and to document it."""
    metadata = {"doc": doc, "at_least": at_least, "at_most": at_most, "choices": choices, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


def parse_bootstrap_servers(servers: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """``"a:9092,b"`` or ``["a:9092", "[::1]:9092"]`` as (host, port) pairs; the port defaults to 9092.

    Raises ConfigurationError for anything else.
    """
    given: Any = servers
    items = [given] if isinstance(given, str) else given
    listed = isinstance(items, Sequence | Set) and not isinstance(items, bytes | bytearray | memoryview)
    if not listed or not all(isinstance(item, str) for item in items):
        raise ConfigurationError(
            f"bootstrap_servers={given!r} is not understood: it takes 'localhost:9092', 'one:9092,two:9092' "
            "or a list such as ['one:9092', 'two:9092']"
        )
    texts = [text.strip() for item in items for text in item.split(",")]
    found = tuple(_address(text) for text in texts if text)
    if not found:
        raise ConfigurationError("bootstrap_servers is empty; give at least one host:port")
    return found


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, "9092"
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    if not name or not port.isascii() or not port.isdigit() or "/" in text or any(map(str.isspace, text)):
        raise ConfigurationError(f"bootstrap_servers: {text!r} is not host:port, e.g. 'localhost:9092'")
    if ":" in name and not bracketed:
        raise ConfigurationError(
            f"bootstrap_servers: {text!r} is not host:port; an IPv6 address stands in brackets: '[::1]:9092'"
        )
    # Text of any length is not made a number of.
    if len(port) > 5 or not 0 < int(port) < 65536:
        raise ConfigurationError(f"bootstrap_servers: the port of {text!r} is not one of 1 to 65535")
    return name, int(port)


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What every client needs: whom to talk to, how long to wait, how to prove who we are."""

    client: ClassVar[str] = "any client"
    """Whose options these are, as errors say it."""

    patience: ClassVar[str] = "default_api_timeout_ms, or the timeout of the call,"
    """What sets how long a call waits for a broker, as errors say it."""

    bootstrap_servers: str | Sequence[str] = option(
        str(DEFAULT_SERVERS),
        "host:port of some brokers, comma-separated or a list; the others are found through them",
    )
    client_id: str = option("pyklient", "name that shows in the broker's logs, quotas and metrics")
    request_timeout_ms: int = option(
        30_000, "longest wait for one answer from a broker", at_least=1, at_most=_INT32_MAX
    )
    default_api_timeout_ms: int = option(
        60_000, "longest wait for an operation of several requests", at_least=1, at_most=_INT32_MAX
    )
    retry_backoff_ms: int = option(
        100,
        "first pause before something failed is tried again; doubles, with jitter",
        at_least=0,
        at_most=_INT32_MAX,
    )
    retry_backoff_max_ms: int = option(1_000, "longest such pause", at_least=0, at_most=_INT32_MAX)
    reconnect_backoff_ms: int = option(
        50,
        "first pause before a broken connection is opened again; doubles, with jitter",
        at_least=0,
        at_most=_INT32_MAX,
    )
    reconnect_backoff_max_ms: int = option(1_000, "longest such pause", at_least=0, at_most=_INT32_MAX)
    socket_connection_setup_timeout_ms: int = option(
        10_000, "longest wait for a connection, TLS and SASL included", at_least=1, at_most=_INT32_MAX
    )
    bootstrap_refused_timeout_ms: int = option(
        -1,
        "give up this early while every bootstrap server refuses connections, or has a host name that does "
        "not exist, and none has answered yet; -1 waits as long as the call may take (ours)",
        at_least=-1,
        at_most=_INT32_MAX,
    )
    connections_max_idle_ms: int = option(
        540_000, "an unused connection is closed after this", at_least=1, at_most=_INT32_MAX
    )
    metadata_max_age_ms: int = option(
        300_000, "what is known of the cluster is asked for again after this", at_least=1, at_most=_INT32_MAX
    )
    send_buffer_bytes: int = option(
        -1, "socket send buffer; -1 leaves it to the system", at_least=-1, at_most=_INT32_MAX
    )
    receive_buffer_bytes: int = option(
        -1, "socket receive buffer; -1 leaves it to the system", at_least=-1, at_most=_INT32_MAX
    )
    receive_message_max_bytes: int = option(
        100 * _MIB,
        "largest response taken from a broker; a larger one closes the connection (ours)",
        at_least=1024,
        at_most=_INT32_MAX,
    )
    security_protocol: str = option(
        "PLAINTEXT", "how connections are secured", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    sasl_mechanism: str = option(
        "PLAIN", "SASL mechanism", choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    sasl_username: str | None = option(None, "SASL user (ours; Kafka hides it in sasl.jaas.config)")
    sasl_password: str | None = option(
        None, "SASL password (ours; Kafka hides it in sasl.jaas.config)", secret=True
    )
    ssl_context: ssl.SSLContext | None = option(
        None, "a ready TLS context instead of the ssl_ options below (ours)"
    )
    ssl_truststore_location: str | None = option(
        None, "PEM file of the authorities trusted; none: the system's"
    )
    ssl_keystore_location: str | None = option(None, "PEM file with this client's certificate chain and key")
    ssl_key_password: str | None = option(None, "password of the key in that file", secret=True)
    ssl_endpoint_identification_algorithm: str = option(
        "https", "https checks that the certificate names the host; empty does not", choices=("https", "")
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Check *options* and build the config. Raises ConfigurationError that names the nearest option."""
        known = {item.name: item for item in fields(cls)}
        values = {}
        for name, value in options.items():
            if name not in known:
                raise ConfigurationError(unknown_option(cls, name))
            values[name] = check_option(known[name], value)
        config = cls(**values)
        config.validate()
        _refuse_idle_sasl(config.security_protocol, values)
        return config

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """``bootstrap_servers`` as (host, port) pairs."""
        return parse_bootstrap_servers(self.bootstrap_servers)

    def validate(self) -> None:
        """The rules between options. Raises ConfigurationError."""
        parse_bootstrap_servers(self.bootstrap_servers)
        if self.security_protocol.startswith("SASL") and (
            self.sasl_username is None or self.sasl_password is None
        ):
            raise ConfigurationError(
                f"security_protocol={self.security_protocol} needs sasl_username and sasl_password"
            )
        if self.security_protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
            for name in ("ssl_context", "ssl_truststore_location", "ssl_keystore_location"):
                if getattr(self, name) is not None:
                    raise ConfigurationError(
                        f"{name} is set, but security_protocol={self.security_protocol} does not use TLS; "
                        "choose SSL or SASL_SSL"
                    )


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Options of Admin and SimpleConsumer: those of every client."""

    client: ClassVar[str] = "Admin or SimpleConsumer"


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of Producer."""

    client: ClassVar[str] = "Producer"
    patience: ClassVar[str] = "max_block_ms"

    acks: int | str = option(
        "all",
        "who has stored a record before it counts: all in-sync replicas, the leader (1), nobody asked (0)",
        choices=("all", -1, "-1", 0, "0", 1, "1"),
    )
    enable_idempotence: bool | None = option(
        None,
        "retries neither double nor reorder; default: on, where acks is all and the broker can. Left to "
        "the default, retries=0 or max_in_flight_requests_per_connection above 5 turn it off, with a warning",
    )
    linger_ms: int = option(5, "a batch waits this long for more records", at_least=0, at_most=_INT32_MAX)
    batch_size: int = option(
        1_000_000,
        "bytes in one batch at most; grown as needed, never set aside",
        at_least=0,
        at_most=_INT32_MAX,
    )
    buffer_memory: int = option(
        32 * _MIB,
        "memory for records not yet confirmed, and for their batches; when full, send() blocks",
        at_least=1,
        at_most=2**62,
    )
    max_block_ms: int = option(
        60_000, "longest block of send(), for memory or metadata", at_least=0, at_most=2**62
    )
    metadata_max_idle_ms: int = option(
        300_000, "a topic that nothing was sent to for this long is forgotten", at_least=1, at_most=_INT32_MAX
    )
    max_request_size: int = option(1_048_576, "largest record or batch", at_least=1, at_most=_INT32_MAX)
    produce_max_bytes: int = option(
        4 * _MIB,
        "largest request; it takes batches of as many partitions as fit, one at least (ours)",
        at_least=1,
        at_most=_INT32_MAX,
    )
    compression_type: str | None = option(
        "none", "codec of the batches", choices=("none", None, "gzip", "snappy", "lz4", "zstd")
    )
    delivery_timeout_ms: int = option(
        120_000, "a record not confirmed after this has failed", at_least=0, at_most=_INT32_MAX
    )
    retries: int = option(
        _INT32_MAX,
        "tries again after a failure that may pass, within delivery_timeout_ms",
        at_least=0,
        at_most=_INT32_MAX,
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        "produce requests of a broker, and batches of a partition, that may be unanswered",
        at_least=1,
        at_most=_INT32_MAX,
    )
    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None = option(
        None,
        "(topic, key, partition_count) -> int; default: Java's murmur2 of the key, sticky without one (ours)",
    )
    key_encoder: Encoder | None = option(None, "turns keys into bytes (ours)")
    value_encoder: Encoder | None = option(None, "turns values into bytes (ours)")

    def validate(self) -> None:
        """Idempotence rules of KIP-98 and KIP-679: an explicit contradiction is an error."""
        super().validate()
        if self.enable_idempotence:
            if self.acks_wire != -1:
                raise ConfigurationError("enable_idempotence=True needs acks='all'; drop one of the two")
            if self.retries == 0:
                raise ConfigurationError("enable_idempotence=True needs retries above 0; drop one of the two")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigurationError(
                    "enable_idempotence=True allows max_in_flight_requests_per_connection up to 5: "
                    "the broker remembers no more batches"
                )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigurationError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} must be at least "
                f"linger_ms + request_timeout_ms = "
                f"{self.linger_ms + self.request_timeout_ms}, or records fail before a request can"
            )

    @property
    def acks_wire(self) -> int:
        """``acks`` as the protocol has it: -1, 0 or 1."""
        return -1 if self.acks in ("all", "-1", -1) else int(self.acks)

    @property
    def wants_idempotence(self) -> bool:
        """Whether to use idempotence where the broker can."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks_wire == -1 and self.loses_idempotence is None

    @property
    def loses_idempotence(self) -> str | None:
        """The option, with its value, that turns idempotence off where the default would have it on."""
        if self.enable_idempotence is not None or self.acks_wire != -1:
            return None
        if self.retries == 0:
            return "retries=0"
        in_flight = self.max_in_flight_requests_per_connection
        return f"max_in_flight_requests_per_connection={in_flight}" if in_flight > 5 else None


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of ConsumerConnector and of read()."""

    client: ClassVar[str] = "ConsumerConnector or read()"

    group_id: str | None = option(
        None, "the group that shares the topics' partitions; none: all of them are read, nothing is committed"
    )
    group_instance_id: str | None = option(
        None, "a name that survives restarts, so that a quick one causes no rebalance (KIP-345)"
    )
    partition_assignment_strategy: str = option(
        "range", "how the group deals its partitions", choices=("range", "roundrobin")
    )
    session_timeout_ms: int = option(
        45_000, "the group gives a silent member up after this", at_least=1, at_most=_INT32_MAX
    )
    heartbeat_interval_ms: int = option(3_000, "pause between heartbeats", at_least=1, at_most=_INT32_MAX)
    rebalance_timeout_ms: int = option(
        60_000,
        "longest wait for all members to join a rebalance (ours; Kafka uses max.poll.interval.ms)",
        at_least=1,
        at_most=_INT32_MAX,
    )
    max_poll_interval_ms: int = option(
        300_000,
        "a member whose loop takes no message for this long, though one waits, leaves the group",
        at_least=1,
        at_most=_INT32_MAX,
    )
    auto_offset_reset: str = option(
        "latest", "where to start without a committed offset", choices=("earliest", "latest", "none")
    )
    enable_auto_commit: bool = option(
        True, "commit what was handed out, every auto_commit_interval_ms and on close"
    )
    auto_commit_interval_ms: int = option(
        5_000, "pause between automatic commits", at_least=1, at_most=_INT32_MAX
    )
    isolation_level: str = option(
        "read_uncommitted",
        "read_committed hides aborted and open transactions",
        choices=("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes: int = option(1, "a fetch waits for this much", at_least=0, at_most=_INT32_MAX)
    fetch_max_wait_ms: int = option(500, "and for this long at most", at_least=0, at_most=_INT32_MAX)
    fetch_max_bytes: int = option(50 * _MIB, "bytes in one fetch response", at_least=0, at_most=_INT32_MAX)
    max_partition_fetch_bytes: int = option(
        4 * _MIB, "of which for one partition", at_least=0, at_most=_INT32_MAX
    )
    prefetch_max_bytes: int = option(
        64 * _MIB,
        "bytes fetched but not yet read, over all partitions; when reached, fetching pauses (ours)",
        at_least=1,
        at_most=2**62,
    )
    check_crcs: bool = option(True, "verify the checksum of what is read")
    consumer_timeout_ms: int = option(
        -1,
        "iteration raises ConsumerTimeout after this long without a message; -1 waits for ever",
        at_least=-1,
        at_most=_INT32_MAX,
    )

    def validate(self) -> None:
        """Timing rules of the group protocol."""
        super().validate()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}; a third of it is usual"
            )
        if self.request_timeout_ms <= self.fetch_max_wait_ms:
            raise ConfigurationError(
                f"request_timeout_ms={self.request_timeout_ms} must be above "
                f"fetch_max_wait_ms={self.fetch_max_wait_ms}, or every quiet fetch times out"
            )
        if self.group_id is not None and not self.group_id:
            raise ConfigurationError("group_id is empty; name the group")


def _refuse_idle_sasl(security_protocol: str, given: Mapping[str, Any]) -> None:
    # By what was given: the default of sasl_mechanism is no None.
    if security_protocol.startswith("SASL"):
        return
    for name in ("sasl_username", "sasl_password", "sasl_mechanism"):
        if given.get(name) is not None:
            raise ConfigurationError(
                f"{name} is set, but security_protocol={security_protocol} does not use SASL; "
                "choose SASL_PLAINTEXT or SASL_SSL"
            )


def unknown_option(cls: type[ClientConfig], name: str) -> str:
    """What to say of *name*, which is no option of *cls*: whose it is, or which one may be meant."""
    known = [item.name for item in fields(cls)]
    beginning = f"unknown option {name!r} of {cls.client}"
    if not isinstance(name, str):
        return beginning
    plain = name.replace(".", "_")
    if plain in known:
        return f"{beginning}; did you mean {plain!r}?"
    if (instead := advice(plain)) is not None:
        return f"{beginning}; {instead}"
    for other in (ProducerConfig, ConsumerConfig):
        if plain in {item.name for item in fields(other)}:
            return f"{beginning}; it is one of {other.client}"
    if hint := did_you_mean(plain, known):
        return beginning + hint
    for other in (ProducerConfig, ConsumerConfig):
        if (near := nearest(plain, [item.name for item in fields(other)])) is not None:
            return f"{beginning}; did you mean {near!r} of {other.client}?"
    return beginning


def check_option(item: "dataclasses.Field[Any]", value: Any) -> Any:
    """*value* if it fits the option *item*; a ConfigurationError that says what would."""
    facts = item.metadata
    if facts["choices"] is not None:
        if isinstance(value, bool) or value not in facts["choices"]:
            shown = ", ".join(repr(choice) for choice in facts["choices"])
            raise ConfigurationError(f"{item.name}={_shown(item, value)} is not one of {shown}")
    elif facts["at_least"] is not None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{item.name} takes a whole number, not {_shown(item, value)}")
        if not facts["at_least"] <= value <= facts["at_most"]:
            raise ConfigurationError(
                f"{item.name}={value} is out of range: {facts['at_least']} to {facts['at_most']}"
            )
    elif item.name.endswith("_encoder"):
        as_encoder(value, item.name)
    else:
        _check_type(item, value)
    return value


def _check_type(item: "dataclasses.Field[Any]", value: Any) -> None:
    """Text, flags and a TLS context, None where the option has None."""
    wanted: type
    if item.type in (str, str | None):
        wanted, words = str, "text"
    elif item.type in (bool, bool | None):
        wanted, words = bool, "True or False"
    elif item.type == ssl.SSLContext | None:
        wanted, words = ssl.SSLContext, "an ssl.SSLContext"
    else:
        return
    if not isinstance(value, wanted) and not (value is None and item.default is None):
        raise ConfigurationError(f"{item.name} takes {words}, not {_shown(item, value)}")


def _shown(item: "dataclasses.Field[Any]", value: Any) -> str:
    return "<hidden>" if item.metadata["secret"] else repr(value)
