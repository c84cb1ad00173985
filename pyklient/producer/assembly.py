"""Makes the parts of a producer, and connects them."""

import random
import time
from functools import partial
from typing import TYPE_CHECKING

from pyklient.config import ProducerConfig
from pyklient.kernel import UserFunctions
from pyklient.net.backoff import Backoff
from pyklient.net.network_client import NetworkClient
from pyklient.producer.accumulate.accumulator import Clocks, RecordAccumulator
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.limits import Limits
from pyklient.producer.accumulate.partitioner import StickyPartitioner, as_partitioner
from pyklient.producer.broker_requirements import BrokerRequirements
from pyklient.producer.deliver.produce_codec import use_kernel
from pyklient.producer.deliver.producer_identity import ProducerIdentity
from pyklient.producer.deliver.sender import Sender
from pyklient.producer.metadata_refresher import MetadataRefresher
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.topic_metadata import TopicMetadata
from pyklient.producer.transactions.transaction import Transaction
from pyklient.protocol.records import Compression
from pyklient.serialization import as_encoder

if TYPE_CHECKING:  # imported when it is used: most programs have no transactions
    from pyklient.producer.transaction_manager import TransactionManager

__all__ = ["assemble"]


def assemble(
    config: ProducerConfig, client: NetworkClient, thread: SenderThread
) -> "tuple[RecordAccumulator, Sender, TransactionManager | None]":
    """Make the parts of a producer, and return its accumulator, its sender and its transactions (None without
    ``transactional_id``).

    No part refers to the Producer, so that the Producer can be garbage-collected when the program no longer
    refers to it.
    """
    use_kernel()
    backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
    worker = BlockingWorker("pyklient-producer-metadata")
    metadata = MetadataRefresher(
        client,
        backoff,
        worker,
        thread,
        timeout=config.request_timeout_ms / 1000,
        max_age=config.metadata_max_age_ms / 1000,
    )
    requirements = BrokerRequirements(
        Compression.of(config.compression_type), idempotence=config.enable_idempotence is True
    )
    client.on_cluster_change(partial(thread.post, metadata.want))
    adaptive = config.partitioner_adaptive_partitioning_enable
    accumulator = RecordAccumulator(
        _limits(config),
        Clocks(time.time_ns, time.monotonic),
        UserFunctions(
            as_encoder(config.key_encoder),
            as_encoder(config.value_encoder),
            as_partitioner(config.partitioner),
        ),
        StickyPartitioner(random.Random(), adaptive=adaptive),
        LeaderAvailability(config.partitioner_availability_timeout_ms / 1000 if adaptive else 0),
        TopicMetadata(client, backoff, metadata, requirements),
        thread,
    )
    identity = ProducerIdentity(
        client,
        backoff,
        worker,
        thread,
        wanted=config.wants_idempotence,
        required=config.enable_idempotence is True,
        timeout=config.request_timeout_ms / 1000,
    )
    transactional_id = config.transactional_id
    transaction = None if transactional_id is None else Transaction(transactional_id, accumulator)
    sender = Sender(accumulator, client, config, thread, worker, metadata, identity, transaction)
    if transaction is None or sender.transactions is None:
        return accumulator, sender, None
    from pyklient.producer.transaction_manager import TransactionManager

    manager = TransactionManager(
        config, client, accumulator, transaction, identity, sender, sender.transactions, thread
    )
    return accumulator, sender, manager


def _limits(config: ProducerConfig) -> Limits:
    return Limits(
        batch_size=config.batch_size,
        buffer_memory=config.buffer_memory,
        max_request_size=config.max_request_size,
        max_block=config.max_block_ms / 1000,
        linger=config.linger_ms / 1000,
    )
