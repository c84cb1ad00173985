"""The options of Producer. Each option is declared once, here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyklient.config.option_checks import INT32_MAX, MIB, option
from pyklient.config.option_declarations.common_options import ClientConfig
from pyklient.errors import ConfigurationError
from pyklient.serialization import Encoder

__all__ = ["HasPartition", "ProducerConfig"]


class HasPartition(Protocol):
    """The type of a partitioner that is an object instead of a function."""

    def partition(self, topic: str, key: bytes | None, partition_count: int, /) -> int: ...


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ProducerConfig(ClientConfig):
    """Options of Producer."""

    client: ClassVar[str] = "Producer"
    has_records: ClassVar[bool] = True
    waiting_option: ClassVar[str] = "max_block_ms"

    acks: int | str = option(
        "all",
        "The brokers that must store a record before the producer reports it as stored: all in-sync "
        "replicas (all or -1), only the leader (1), or none (0).",
        choices=("all", -1, "-1", 0, "0", 1, "1"),
    )
    enable_idempotence: bool | None = option(
        None,
        "With True, the producer is idempotent: retries neither duplicate nor reorder records. By default, "
        "the producer is idempotent if acks is all and the broker supports it. If retries is 0 or "
        "max_in_flight_requests_per_connection is above 5, the producer is not idempotent by default, and "
        "logs a warning.",
    )
    transactional_id: str | None = option(
        None,
        "The name under which the producer uses transactions. If several producers have the same name, "
        "brokers accept only the newest one. Without a name, the producer has no transactions.",
    )
    transaction_timeout_ms: int = option(
        60_000,
        "The brokers abort a transaction that is open for longer than this time. Brokers allow at most "
        "transaction.max.timeout.ms (15 minutes by default).",
        at_least=1,
    )
    linger_ms: int = option(5, "The time for which a batch waits for more records.", at_least=0)
    batch_size: int = option(
        1_000_000,
        "The largest size in bytes of a batch with several records. A larger record is a batch of its own.",
        at_least=0,
    )
    buffer_memory: int = option(
        32 * MIB,
        "The memory in bytes for records that are not confirmed yet. While it is full, send() waits.",
        at_least=1,
        at_most=2**62,
    )
    max_block_ms: int = option(
        60_000,
        "The longest time for which send() waits for memory or for metadata. The methods for transactions "
        "wait for at most this time too, unless they get another timeout.",
        at_least=0,
        at_most=2**62,
    )
    metadata_max_idle_ms: int = option(
        300_000,
        "The producer forgets the metadata of a topic to which it has sent nothing for this time.",
        at_least=1,
    )
    max_request_size: int = option(
        1_048_576,
        "The largest size in bytes of a record, and of a batch. send() raises an error for a larger record.",
        at_least=1,
    )
    produce_max_bytes: int = option(
        4 * MIB,
        "The largest size in bytes of a produce request, which contains the batches of several "
        "partitions. A request always contains at least one batch. (Only in pyklient.)",
        at_least=1,
    )
    compression_type: str | None = option(
        "none", "The compression of the batches.", choices=("none", None, "gzip", "snappy", "lz4", "zstd")
    )
    delivery_timeout_ms: int = option(
        120_000, "A record fails if it is not confirmed within this time.", at_least=0
    )
    retries: int = option(
        INT32_MAX,
        "The largest number of retries after a temporary failure. delivery_timeout_ms limits them too.",
        at_least=0,
    )
    max_in_flight_requests_per_connection: int = option(
        5,
        "The largest number of produce requests in flight to one broker, and of batches in flight to one "
        "partition.",
        at_least=1,
    )
    partitioner: Callable[[str, bytes | None, int], int] | HasPartition | None = option(
        None,
        "A function that gets the topic, the key and the number of partitions of a record, and returns the "
        "number of a partition. By default, the murmur2 hash of the key decides, as in Java's client. "
        "Records without a key go to one partition until its batch is full, or until 16 KiB were sent to it, "
        "and then to another. (Only in pyklient.)",
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        True,
        "If True, partitions whose leader is slow get fewer of the records without a key. Otherwise, all "
        "partitions get equally many.",
    )
    partitioner_availability_timeout_ms: int = option(
        0,
        "If a broker has accepted no request for this time, although batches wait, records without a key go "
        "to the partitions of other brokers. 0 turns this off. It has no effect without "
        "partitioner_adaptive_partitioning_enable.",
        at_least=0,
        at_most=2**62,
    )
    key_encoder: Encoder | None = option(None, "A function that turns keys into bytes. (Only in pyklient.)")
    value_encoder: Encoder | None = option(
        None, "A function that turns values into bytes. (Only in pyklient.)"
    )

    def validate(self) -> None:
        """Raise ConfigurationError if two options of the producer contradict each other (for idempotence:
        KIP-98, KIP-679)."""
        super().validate()
        if self.transactional_id is not None:
            self._validate_transactions()
        if self.enable_idempotence:
            if self.acks_wire != -1:
                raise ConfigurationError(
                    f"enable_idempotence=True needs acks='all', but acks is {self.acks!r}; remove one of the "
                    "two options"
                )
            if self.retries == 0:
                raise ConfigurationError(
                    "enable_idempotence=True needs retries above 0; remove one of the two options"
                )
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigurationError(
                    f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection} is "
                    "above 5, the most that enable_idempotence=True allows, because brokers remember the "
                    "last 5 batches of a producer; remove one of the two options"
                )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigurationError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} must be at least "
                f"linger_ms + request_timeout_ms = "
                f"{self.linger_ms + self.request_timeout_ms}; otherwise a record would fail before its "
                "request times out"
            )

    def _validate_transactions(self) -> None:
        """Raise ConfigurationError if another option makes transactions impossible (KIP-98)."""
        if not self.transactional_id:
            raise ConfigurationError("transactional_id must not be empty; remove it, or choose a name")
        if self.enable_idempotence is False:
            raise ConfigurationError(
                "transactional_id needs idempotence; remove enable_idempotence=False, or transactional_id"
            )
        if self.acks_wire != -1:
            raise ConfigurationError(
                f"transactional_id needs acks='all', but acks is {self.acks!r}; remove one of the two options"
            )
        if self.loses_idempotence is not None:
            raise ConfigurationError(
                f"transactional_id needs idempotence, which {self.loses_idempotence} turns off; remove one "
                "of the two options"
            )

    @property
    def acks_wire(self) -> int:
        """The option ``acks`` as the number that the protocol uses: -1, 0 or 1."""
        return -1 if self.acks in ("all", "-1", -1) else int(self.acks)

    @property
    def wants_idempotence(self) -> bool:
        """True if the producer should be idempotent, provided that the broker supports it."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks_wire == -1 and self.loses_idempotence is None

    @property
    def loses_idempotence(self) -> str | None:
        """The option that keeps the producer from being idempotent by default, as ``name=value``.

        None if ``enable_idempotence`` is set, if ``acks`` is not all, or if no option prevents idempotence.
        """
        if self.enable_idempotence is not None or self.acks_wire != -1:
            return None
        if self.retries == 0:
            return "retries=0"
        in_flight = self.max_in_flight_requests_per_connection
        return f"max_in_flight_requests_per_connection={in_flight}" if in_flight > 5 else None
