"""The mistakes that the tests must notice, by the folder they are made in."""

from typing import Final

from tools.mutants.catalog import consumer, producer
from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final[tuple[Mutant, ...]] = (
    *producer.MUTANTS,
    *consumer.MUTANTS,
)
"""Their names differ, and begin with the folder."""
