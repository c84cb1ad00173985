"""An OpenTelemetry collector gets whole traces, and metrics that agree with the messages sent and read."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from pyklient import Admin, Producer, TopicPartition
from pyklient.telemetry import Telemetry
from pyklient.telemetry.attributes import DESTINATION, ERROR_TYPE, KEY, OFFSET, PARTITION, REQUEST, SYSTEM
from tests.servers.fixtures import NewName, NewTopic
from tests.system.reading import connector
from tests.telemetry.collector import Collector, attributes_of, collecting

pytestmark = pytest.mark.brokers(min="2.4")

_PRODUCER, _CONSUMER = 4, 5
"""The numbers of the kinds of spans in OTLP."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def meters(collector: Collector) -> Iterator[MeterProvider]:
    exporter = OTLPMetricExporter(endpoint=f"{collector.url}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


@pytest.fixture
def traces(collector: Collector) -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")))
    yield provider
    provider.shutdown()


def test_a_collector_gets_what_was_sent_and_read(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, meters: MeterProvider, collector: Collector
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    telemetry = Telemetry(meters)
    with Producer(bootstrap) as producer, connector(bootstrap, group) as reader:
        telemetry.observe(producer, reader)
        for number in range(500):
            producer.send(topic, b"%d" % number, partition=number % 5 // 3)
        producer.flush()
        read = Counter(message.partition for message in islice(reader.stream(topic), 200))
        reader.commit_offsets()
        meters.force_flush()
        with Admin(bootstrap) as admin:
            ends = admin.end_offsets([TopicPartition(topic, number) for number in range(2)])
    by = (SYSTEM, DESTINATION, PARTITION)
    in_log = {("kafka", topic, str(at.partition)): float(end) for at, end in ends.items()}
    assert collector.values("messaging.client.sent.messages", *by) == in_log
    consumed = {key: float(read[int(key[2])]) for key in in_log}
    assert collector.values("messaging.client.consumed.messages", *by) == consumed
    lag = {key: in_log[key] - consumed[key] for key in in_log}
    assert collector.values("pyklient.consumer.lag", *by) == lag
    assert collector.values("pyklient.consumer.commits") == {(): 1}
    counted = producer.metrics().brokers.values()
    sent = sum(broker.requests["Produce"].sent for broker in counted if "Produce" in broker.requests)
    assert collector.values("pyklient.requests", REQUEST)[("Produce",)] == sent
    assert collector.units["messaging.client.sent.messages"] == "{message}"
    assert all(point.monotonic for point in collector.metrics["pyklient.sent.bytes"].values())
    assert not any(point.monotonic for point in collector.metrics["pyklient.consumer.lag"].values())


def test_a_trace_goes_from_the_sender_through_the_log_to_the_handler(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, traces: TracerProvider, collector: Collector
) -> None:
    topic = new_topic(partitions=1)
    telemetry = Telemetry(tracer_provider=traces)
    tracer = traces.get_tracer("test")
    heard: list[int] = []
    with Producer(bootstrap) as producer:
        with tracer.start_as_current_span("checkout"):
            telemetry.send(producer, topic, b"1", key=b"ada", headers=[("h", b"1"), ("traceparent", b"old")])
        telemetry.send(producer, topic, None, on_delivery=lambda delivery: heard.append(delivery.partition))
        producer.send(topic, b"3")
    with connector(bootstrap, new_name()) as reader:
        messages = list(islice(reader.stream(topic), 3))
        with telemetry.processing(messages[0], "g"), tracer.start_as_current_span("handler"):
            pass
        with pytest.raises(ValueError, match="bad"), telemetry.processing(messages[1]):
            raise ValueError("bad")
        with telemetry.processing(messages):
            pass
    assert heard == [0]
    assert [name for name, _ in messages[0].headers] == ["h", "traceparent"]
    spans: dict[str, list[Any]] = {}
    for span in collector.spans:
        spans.setdefault(span.name, []).append(span)
    (root,), sent, processed = spans["checkout"], spans[f"send {topic}"], spans[f"process {topic}"]
    assert [span.kind for span in (*sent, *processed)] == [_PRODUCER] * 2 + [_CONSUMER] * 3
    assert sent[0].parent_span_id == root.span_id
    assert [processed[number].parent_span_id for number in (0, 1)] == [span.span_id for span in sent]
    assert [processed[number].trace_id for number in (0, 1)] == [span.trace_id for span in sent]
    assert spans["handler"][0].parent_span_id == processed[0].span_id
    assert [link.span_id for link in processed[2].links] == [span.span_id for span in sent]
    assert processed[2].parent_span_id == b""
    assert attributes_of(sent[0]) == {
        SYSTEM: "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        DESTINATION: topic,
        PARTITION: "0",
        OFFSET: messages[0].offset,
        KEY: "ada",
    }
    assert attributes_of(sent[1])["messaging.kafka.message.tombstone"] is True
    assert attributes_of(processed[0])["messaging.consumer.group.name"] == "g"
    assert attributes_of(processed[2])["messaging.batch.message_count"] == 3
    assert processed[1].status.code == trace.StatusCode.ERROR.value


def test_the_time_of_handlers_and_failed_records_are_counted(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, meters: MeterProvider, traces: TracerProvider,
    collector: Collector,
) -> None:  # fmt: skip
    topic = new_topic(partitions=1)
    telemetry = Telemetry(meters, traces)
    with Producer(bootstrap) as producer:
        telemetry.send(producer, topic, b"1").result(30)
        with pytest.raises(TypeError):
            telemetry.send(producer, topic, "text")
    with connector(bootstrap, new_name()) as reader:
        (message,) = islice(reader.stream(topic), 1)
        with telemetry.processing(message):
            pass
        with pytest.raises(KeyError), telemetry.processing(message):
            raise KeyError
    meters.force_flush()
    found = collector.values("messaging.process.duration", DESTINATION, ERROR_TYPE)
    assert found == {(topic, None): 1, (topic, "KeyError"): 1}
    sent = collector.values("messaging.client.operation.duration", DESTINATION, PARTITION, ERROR_TYPE)
    assert sent == {(topic, "0", None): 1, (topic, None, "TypeError"): 1}
    failed = [span for span in collector.spans if span.name.startswith("send ") and span.status.code]
    assert attributes_of(failed[0])[ERROR_TYPE] == "TypeError"


def test_without_providers_nothing_happens_and_headers_stay(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=1)
    telemetry = Telemetry()
    with Producer(bootstrap) as producer:
        telemetry.observe(producer)
        assert telemetry.send(producer, topic, b"1", headers=[("h", None)]).result(30).offset == 0
    with pytest.raises(TypeError, match="only a Producer or a ConsumerConnector has metrics"):
        telemetry.observe("producer")  # type: ignore[arg-type]  # a mistake


def test_nothing_else_imports_opentelemetry_and_its_absence_is_told() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from pyklient import Producer, ConsumerConnector, Admin\n"
        "import pyklient.cli.main\n"
        "try: import pyklient.telemetry\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "install the extra `telemetry`" in done.stdout
