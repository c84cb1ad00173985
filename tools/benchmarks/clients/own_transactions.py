"""The producer has a `transactional_id`, and otherwise its default options. The program begins a transaction,
calls `send` for each value, and commits.

The first transaction has a single record. The time of a run begins when this transaction is committed, and
ends with the last commit. In "Transactions of one second", the program looks at the clock after every
thousand records, and commits when a second has passed since the transaction began. In the row "no
transactions", the same loop sends the records without a `transactional_id`, and ends with `flush()`.
"""

import time
from itertools import islice

from pyklient import Producer
from tools.benchmarks.work import AT_ONCE, Job, Measured, TransactionEnds, measuring, values_for


def produce(job: Job) -> Measured:
    values, ends = values_for(job), TransactionEnds(job)
    measured = Measured(records=job.records, transactions=1)
    name = f"pyklient-{time.time_ns()}"
    with measuring(measured) as clock, Producer(job.bootstrap_servers, transactional_id=name) as producer:
        with producer.transaction():
            producer.send(job.topic, values[0])
        clock.begin()
        send, topic, rest = producer.send, job.topic, job.rest(values)
        is_open = False
        while chunk := list(islice(rest, AT_ONCE)):
            if not is_open:
                ends.begin()
                producer.begin_transaction()
                measured.transactions += 1
            for value in chunk:
                send(topic, value)
            is_open = not ends.after(len(chunk))
            if not is_open:
                producer.commit_transaction()
        if is_open:
            producer.commit_transaction()
        clock.end()
    return measured


def produce_without(job: Job) -> Measured:
    values, ends = values_for(job), TransactionEnds(job)
    measured = Measured(records=job.records)
    with measuring(measured) as clock, Producer(job.bootstrap_servers) as producer:
        producer.send(job.topic, values[0]).result(30)
        clock.begin()
        send, topic, rest = producer.send, job.topic, job.rest(values)
        while chunk := list(islice(rest, AT_ONCE)):
            for value in chunk:
                send(topic, value)
            if ends.after(len(chunk)):
                ends.begin()
        producer.flush()
        clock.end()
    return measured


TASKS = {"transactions": produce, "produce": produce_without}
