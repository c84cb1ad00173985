"""Each program imports `Producer` or `ConsumerConnector`, and makes an object of this class with the default
options."""

from functools import partial

from tools.benchmarks.clients.starting import started

_PRODUCE = """
import sys, time
from pyklient import Producer
servers, topic, name = sys.argv[1:]
with Producer(servers) as producer:
    producer.send(topic, bytes(100)).result(30)
    print(time.process_time(), flush=True)
"""

_CONSUME = """
import sys, time
from pyklient import ConsumerConnector
servers, topic, name = sys.argv[1:]
with ConsumerConnector(
    servers, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=30_000
) as connector:
    next(iter(connector.stream(topic)))
    print(time.process_time(), flush=True)
"""

TASKS = {"produce-first": partial(started, _PRODUCE), "consume-first": partial(started, _CONSUME)}
