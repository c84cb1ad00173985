"""The mistakes that the tests must notice, by the folder they are made in."""

from typing import Final

from tools.mutants.catalog import (
    admin,
    broker,
    classic,
    cli,
    consumed_batches,
    consumer,
    event_handlers,
    group,
    harness,
    metrics,
    mirror,
    net,
    offset_stores,
    parallel,
    producer,
    properties,
    protocol,
    records,
    registry,
    spark,
    zookeeper_group,
)
from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final[tuple[Mutant, ...]] = (
    *protocol.MUTANTS,
    *records.MUTANTS,
    *registry.MUTANTS,
    *net.MUTANTS,
    *classic.MUTANTS,
    *metrics.MUTANTS,
    *properties.MUTANTS,
    *producer.MUTANTS,
    *event_handlers.MUTANTS,
    *consumer.MUTANTS,
    *offset_stores.MUTANTS,
    *consumed_batches.MUTANTS,
    *group.MUTANTS,
    *parallel.MUTANTS,
    *zookeeper_group.MUTANTS,
    *broker.MUTANTS,
    *admin.MUTANTS,
    *mirror.MUTANTS,
    *spark.MUTANTS,
    *cli.MUTANTS,
    *harness.MUTANTS,
)
"""Their names differ, and begin with the folder."""
