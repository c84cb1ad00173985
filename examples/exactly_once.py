"""Write invoices in three processes, of which one is killed. Each order gets exactly one invoice.

Run: pyklient broker &     then     python examples/exactly_once.py [host:port]
"""

import multiprocessing
import sys
import threading
import time
import uuid

from pyklient import Admin, ConsumerConnector, Producer, group_transaction, read

PARTITIONS, ORDERS, PROCESSES = 3, 300, 3


def work(bootstrap_servers: str, orders: str, invoices: str, name: str) -> None:
    """Write invoices until the process is terminated."""
    with (
        ConsumerConnector(
            bootstrap_servers,
            group_id=orders,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=3_000,
            heartbeat_interval_ms=500,
        ) as connector,
        Producer(bootstrap_servers, transactional_id=name) as producer,
    ):
        stream = connector.stream(orders)
        while True:
            with group_transaction(stream, producer, max_records=10, timeout=0.5) as messages:
                for message in messages:
                    producer.send(invoices, b"invoice for " + (message.value or b""), key=message.key)
                    time.sleep(0.005)


def main(bootstrap_servers: str) -> None:
    """Send the orders, start and kill processes, and compare the invoices with the orders."""
    number = uuid.uuid4().hex[:8]
    orders, invoices = f"orders-{number}", f"invoices-{number}"
    with Admin(bootstrap_servers) as admin, Producer(bootstrap_servers) as producer:
        for topic in (orders, invoices):
            admin.create_topic(topic, partitions=PARTITIONS)
        texts = [b"order %d" % order for order in range(ORDERS)]
        producer.send_many(orders, texts, keys=texts)

    context = multiprocessing.get_context("spawn")

    def start(worker: int) -> multiprocessing.process.BaseProcess:
        # A process that is started again has the same transactional id. So it aborts the open transaction of
        # the process that was killed.
        name = f"{orders}-{worker}"
        process = context.Process(target=work, args=(bootstrap_servers, orders, invoices, name), daemon=True)
        process.start()
        return process

    workers = [start(worker) for worker in range(PROCESSES)]

    def written() -> list[bytes]:
        found = read(bootstrap_servers, invoices, isolation_level="read_committed")
        return sorted(message.value or b"" for message in found)

    while len(written()) < ORDERS // 3:
        threading.Event().wait(0.1)
    workers[0].kill()
    workers[0].join()
    workers[0] = start(0)
    while len(written()) < ORDERS:
        threading.Event().wait(0.1)
    for worker in workers:
        worker.kill()
        worker.join()
    once = written() == sorted(b"invoice for " + text for text in texts)
    print(f"{'ok' if once else 'wrong'}: {len(written())} invoices for {ORDERS} orders")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
