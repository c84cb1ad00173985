"""Mistakes in ``pyklient/consumer/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "consumer: the prefetch budget is two and a half times as large",
        "pyklient/consumer/engine.py",
        "Room(config.prefetch_max_bytes)",
        "Room(config.prefetch_max_bytes * 5 // 2)",
        ("tests/consumer/test_prefetch.py",),
    ),
    Mutant(
        "consumer: the prefetch budget is a fourth larger",
        "pyklient/consumer/engine.py",
        "Room(config.prefetch_max_bytes)",
        "Room(config.prefetch_max_bytes * 5 // 4)",
        ("tests/consumer/test_prefetch.py",),
    ),
)
