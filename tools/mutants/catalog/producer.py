"""Mistakes in ``pyklient/producer/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "producer: compression_type is ignored",
        "pyklient/producer/sender.py",
        "self._codec = Compression.of(config.compression_type)",
        "self._codec = Compression.NONE",
        ("tests/producer/test_compression.py",),
    ),
    Mutant(
        "producer: every codec is gzip",
        "pyklient/producer/sender.py",
        "self._codec = Compression.of(config.compression_type)",
        "self._codec = Compression.GZIP if config.compression_type else Compression.NONE",
        ("tests/producer/test_compression.py",),
    ),
    Mutant(
        "producer: max_in_flight_requests_per_connection is ignored",
        "pyklient/producer/broker_queue.py",
        "while self.line and self._in_flight < self._options.max_in_flight:",
        "while self.line:",
        ("tests/producer/test_broker_queue.py",),
    ),
    Mutant(
        "producer: one request more than allowed is in flight",
        "pyklient/producer/broker_queue.py",
        "while self.line and self._in_flight < self._options.max_in_flight:",
        "while self.line and self._in_flight <= self._options.max_in_flight:",
        ("tests/producer/test_broker_queue.py",),
    ),
    Mutant(
        "producer: one request is in flight whatever is allowed",
        "pyklient/producer/sender.py",
        "config.max_in_flight_requests_per_connection,",
        "1,",
        ("tests/producer/test_broker_queue.py",),
    ),
    Mutant(
        "producer: compression gives no memory back",
        "pyklient/producer/accumulator.py",
        "        batch.charged -= saved\n        self._release(saved)",
        "        return",
        ("tests/producer/test_compression.py", "tests/producer/test_accumulator.py"),
    ),
    Mutant(
        "producer: memory saved by compression is given back twice",
        "pyklient/producer/accumulator.py",
        "        batch.charged -= saved\n",
        "",
        ("tests/producer/test_compression.py", "tests/producer/test_accumulator.py"),
    ),
)
