"""A stage of a chain: a program that reads messages, and sends a result for each of them, until SIGTERM.

``python -m tools.transactions.stage JOB``: *JOB* is the JSON of a Job. One transaction contains the results
of some messages and the offsets of the group. The program appends lines to its journal: how each transaction
goes on, and each error. Its exit status is FENCED if another process has taken over its transactional id.
"""

import json
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TextIO

from pyklient import (
    AbortableTransactionError,
    ConsumerConnector,
    KafkaError,
    KafkaStream,
    Producer,
    ProducerFencedError,
    group_transaction,
)

__all__ = ["FENCED", "Job"]

FENCED: Final = 3
_PAUSE: Final = 0.1
_READING: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "isolation_level": "read_committed",
    "heartbeat_interval_ms": 200,
    "rebalance_timeout_ms": 10_000,
    "fetch_max_wait_ms": 50,
}
_BOTH: Final[dict[str, Any]] = {"request_timeout_ms": 3_000, "reconnect_backoff_max_ms": 200}


class Job(NamedTuple):
    """The task of a stage: it appends *mark* to the messages of *source*, and sends them to *target*."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    mark: str
    session_timeout_ms: int
    max_block_ms: int
    journal: str
    most: int = 200
    """The number of messages of one transaction, at most."""
    work: float = 0.1
    """The number of seconds for which a transaction is open after its records were stored."""
    transaction_timeout_ms: int = 10_000


class Journal(logging.Handler):
    """The lines of a stage: ``open``, ``ending``, ``committed``, ``lost``, ``aborted``, ``failed`` or
    ``fenced``, the number of the transaction, and the number of its messages or the error."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file
        self._number = 0
        self._lost = False

    def open(self, messages: int) -> None:
        """Write that a transaction has *messages* messages, and that its records are stored."""
        self._number += 1
        self._lost = False
        self.write("open", messages)

    def ended(self, messages: int) -> None:
        """Write that the transaction has ended without an error, unless it was aborted because this stage has
        lost its partitions."""
        if not self._lost:
            self.write("committed", messages)

    def write(self, word: str, more: object) -> None:
        self._file.write(f"{word} {self._number} {more}".replace("\n", " ") + "\n")

    def emit(self, record: logging.LogRecord) -> None:
        """Write what ``group_transaction`` logs instead of raising it."""
        if getattr(record, "event", "") == "group_transaction_aborted":
            self._lost = True
            self.write("lost", record.getMessage())


def _run(job: Job, journal: Journal) -> NoReturn:
    """Read and send until an error comes after which both clients have to be closed."""
    with (
        ConsumerConnector(
            job.bootstrap,
            group_id=job.group,
            session_timeout_ms=job.session_timeout_ms,
            **_READING,
            **_BOTH,
        ) as connector,
        Producer(
            job.bootstrap,
            transactional_id=job.transactional_id,
            transaction_timeout_ms=job.transaction_timeout_ms,
            max_block_ms=job.max_block_ms,
            **_BOTH,
        ) as producer,
    ):
        stream = connector.stream(job.source)
        while True:
            try:
                _transact(job, journal, stream, producer)
            except AbortableTransactionError as error:
                journal.write("aborted", repr(error))


def _transact(job: Job, journal: Journal, stream: KafkaStream, producer: Producer) -> None:
    with group_transaction(stream, producer, job.most, timeout=0.2) as messages:
        for message in messages:
            producer.send(job.target, (message.value or b"") + job.mark.encode(), key=message.key)
        if messages:
            producer.flush()
            journal.open(len(messages))
            time.sleep(job.work)
            journal.write("ending", len(messages))
    if messages:
        journal.ended(len(messages))


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Path(job.journal).open("a", buffering=1, encoding="utf-8") as file:
        journal = Journal(file)
        log = logging.getLogger("pyklient.producer")
        log.setLevel(logging.INFO)
        log.addHandler(journal)
        while True:
            try:
                _run(job, journal)
            except ProducerFencedError as error:
                journal.write("fenced", repr(error))
                sys.exit(FENCED)
            except KafkaError as error:
                journal.write("failed", repr(error))
                time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
