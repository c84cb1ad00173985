"""Each program imports `Producer` or `Consumer`, and makes an object of this class with the default options.
The producer is idempotent, as pyklient's is."""

from functools import partial

from tools.benchmarks.clients.starting import started

_PRODUCE = """
import sys, time
from confluent_kafka import Producer
servers, topic, name = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
def delivered(error, message):
    if error is not None:
        raise SystemExit(str(error))
    print(time.process_time(), flush=True)
producer.produce(topic, bytes(100), on_delivery=delivered)
producer.flush(30)
"""

_CONSUME = """
import sys, time
from confluent_kafka import Consumer
servers, topic, name = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": servers,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([topic])
message = consumer.poll(30)
if message is None or message.error() is not None:
    raise SystemExit(f"no record: {message}")
print(time.process_time(), flush=True)
consumer.close()
"""

TASKS = {"produce-first": partial(started, _PRODUCE), "consume-first": partial(started, _CONSUME)}
