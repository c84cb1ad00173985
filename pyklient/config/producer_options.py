"""The options of Producer: each is declared here, once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyklient.config.client_options import ClientConfig
from pyklient.config.option import INT32_MAX, MIB, option
from pyklient.errors import ConfigurationError
from pyklient.serialization import Encoder

__all__ = ["HasPartition", "ProducerConfig"]


class HasPartition(Protocol):
    """A partitioner that is an object."""

    def partition(self, topic: str, key: bytes | None, partition_count: int, /) -> int: ...


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
    linger_ms: int = option(5, "a batch waits this long for more records", at_least=0, at_most=INT32_MAX)
    batch_size: int = option(
        1_000_000,
        "bytes in one batch at most; grown as needed, never set aside",
        at_least=0,
        at_most=INT32_MAX,
    )
    buffer_memory: int = option(
        32 * MIB,
        "memory for records not yet confirmed, and for their batches; when full, send() blocks",
        at_least=1,
        at_most=2**62,
    )
    max_block_ms: int = option(
        60_000, "longest block of send(), for memory or metadata", at_least=0, at_most=2**62
    )
    metadata_max_idle_ms: int = option(
        300_000, "a topic that nothing was sent to for this long is forgotten", at_least=1, at_most=INT32_MAX
    )
    max_request_size: int = option(1_048_576, "largest record or batch", at_least=1, at_most=INT32_MAX)
    produce_max_bytes: int = option(
        4 * MIB,
        "largest request; it takes batches of as many partitions as fit, one at least (ours)",
        at_least=1,
        at_most=INT32_MAX,
    )
    compression_type: str | None = option(
        "none", "codec of the batches", choices=("none", None, "gzip", "snappy", "lz4", "zstd")
    )
    delivery_timeout_ms: int = option(
        120_000, "a record not confirmed after this has failed", at_least=0, at_most=INT32_MAX
    )
    retries: int = option(
        INT32_MAX,
        "tries again after a failure that may pass, within delivery_timeout_ms",
        at_least=0,
        at_most=INT32_MAX,
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        "produce requests of a broker, and batches of a partition, that may be unanswered",
        at_least=1,
        at_most=INT32_MAX,
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
