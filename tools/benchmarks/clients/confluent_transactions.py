"""The producer has a `transactional.id`, and otherwise the settings of the row "confluent-kafka" in the other
scenarios. The program begins a transaction, calls `produce` for each value, and commits. The time is measured
in the same way as for pyklient's transactions.
"""

import time
from itertools import islice

from tools.benchmarks.clients.confluent import TIMEOUT, Confirmed, new_producer, send_values
from tools.benchmarks.work import AT_ONCE, Job, Measured, TransactionEnds, measuring, values_for


def produce(job: Job) -> Measured:
    values, ends = values_for(job), TransactionEnds(job)
    measured, confirmed = Measured(transactions=1), Confirmed()
    with measuring(measured) as clock:
        name = {"transactional.id": f"confluent-{time.time_ns()}"}
        producer = new_producer(job, 5, on_delivery=confirmed, **name)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(job.topic, values[0])
        producer.commit_transaction(30)
        clock.begin()
        rest = job.rest(values)
        is_open = False
        while chunk := list(islice(rest, AT_ONCE)):
            if not is_open:
                ends.begin()
                producer.begin_transaction()
                measured.transactions += 1
            send_values(producer, job.topic, chunk)
            producer.poll(0)
            is_open = not ends.after(len(chunk))
            if not is_open:
                producer.commit_transaction(TIMEOUT)
        if is_open:
            producer.commit_transaction(TIMEOUT)
        clock.end()
    measured.records = confirmed.count
    return measured


TASKS = {"transactions": produce}
