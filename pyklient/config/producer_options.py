"""The options of Producer. Each option is declared once, here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyklient.config.client_options import ClientConfig
from pyklient.config.option import INT32_MAX, MIB, option
from pyklient.errors import ConfigurationError
from pyklient.serialization import Encoder

__all__ = ["HasPartition", "ProducerConfig"]


class HasPartition(Protocol):
    """The type of a partitioner that is an object instead of a function."""

    def partition(self, topic: str, key: bytes | None, partition_count: int, /) -> int: ...


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of Producer."""

    client: ClassVar[str] = "Producer"
    waiting_option: ClassVar[str] = "max_block_ms"

    acks: int | str = option(
        "all",
        "brokers that must store a record before it counts as delivered: all in-sync replicas (all), "
        "only the leader (1), or none (0)",
        choices=("all", -1, "-1", 0, "0", 1, "1"),
    )
    enable_idempotence: bool | None = option(
        None,
        "prevent retries from duplicating or reordering records; if this option is not set, "
        "idempotence is on if acks is all and the broker supports it; retries=0 or "
        "max_in_flight_requests_per_connection above 5 then turns it off, with a warning",
    )
    linger_ms: int = option(5, "time that a batch waits for more records", at_least=0)
    batch_size: int = option(
        1_000_000,
        "size in bytes up to which records are added to a batch; a larger record is a batch of its own",
        at_least=0,
    )
    buffer_memory: int = option(
        32 * MIB,
        "memory in bytes for unconfirmed records and their batches; send() blocks while it is used up",
        at_least=1,
        at_most=2**62,
    )
    max_block_ms: int = option(
        60_000, "longest time that send() blocks, for memory or metadata", at_least=0, at_most=2**62
    )
    metadata_max_idle_ms: int = option(
        300_000, "forget a topic to which nothing was sent for this long", at_least=1
    )
    max_request_size: int = option(
        1_048_576,
        "largest size in bytes of a record, and of a batch; send() refuses a larger record",
        at_least=1,
    )
    produce_max_bytes: int = option(
        4 * MIB,
        "largest size of a produce request in bytes; it contains the batches of as many partitions as fit, "
        "and at least one batch (only in pyklient)",
        at_least=1,
    )
    compression_type: str | None = option(
        "none", "compression of the batches", choices=("none", None, "gzip", "snappy", "lz4", "zstd")
    )
    delivery_timeout_ms: int = option(
        120_000, "a record fails if it is not confirmed within this time", at_least=0
    )
    retries: int = option(
        INT32_MAX,
        "largest number of retries after retriable failures, within delivery_timeout_ms",
        at_least=0,
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        "largest number of produce requests in flight to one broker; also the largest number of batches in "
        "flight to one partition",
        at_least=1,
    )
    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None = option(
        None,
        "function (topic, key, partition_count) -> int. By default, murmur2 of the key decides, as in Java's "
        "client. Records without a key go to one partition until its batch is sent, and then to another "
        "(only in pyklient)",
    )
    key_encoder: Encoder | None = option(None, "function that turns keys into bytes (only in pyklient)")
    value_encoder: Encoder | None = option(None, "function that turns values into bytes (only in pyklient)")

    def validate(self) -> None:
        """Raise ConfigurationError if two options of the producer contradict each other (for idempotence:
        KIP-98, KIP-679)."""
        super().validate()
        if self.enable_idempotence:
            if self.acks_wire != -1:
                raise ConfigurationError(
                    "enable_idempotence=True needs acks='all'; remove one of the two options"
                )
            if self.retries == 0:
                raise ConfigurationError(
                    "enable_idempotence=True needs retries above 0; remove one of the two options"
                )
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigurationError(
                    "enable_idempotence=True allows max_in_flight_requests_per_connection up to 5, because "
                    "brokers remember the last 5 batches; remove one of the two options"
                )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigurationError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} must be at least "
                f"linger_ms + request_timeout_ms = "
                f"{self.linger_ms + self.request_timeout_ms}; otherwise a record would fail before its "
                "request does"
            )

    @property
    def acks_wire(self) -> int:
        """The option ``acks`` as the number that the protocol uses: -1, 0 or 1."""
        return -1 if self.acks in ("all", "-1", -1) else int(self.acks)

    @property
    def wants_idempotence(self) -> bool:
        """True if the producer is to be idempotent when the broker supports it."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks_wire == -1 and self.loses_idempotence is None

    @property
    def loses_idempotence(self) -> str | None:
        """The option, as ``name=value``, that turns off idempotence although it is on by default; None if
        there is no such option."""
        if self.enable_idempotence is not None or self.acks_wire != -1:
            return None
        if self.retries == 0:
            return "retries=0"
        in_flight = self.max_in_flight_requests_per_connection
        return f"max_in_flight_requests_per_connection={in_flight}" if in_flight > 5 else None
