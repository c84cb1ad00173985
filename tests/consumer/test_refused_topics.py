"""Topics that the brokers do not allow: loops raise the error, and continue when the topic is allowed."""

from collections.abc import Iterator
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConsumerTimeout
from pyklient.protocol.messages import MetadataRequest, MetadataResponse
from tests.consumer.feed import wait_for
from tests.consumer.stream.bench import Bench, batch, until_raised, values
from tests.net.scripted import ScriptedBroker, metadata_of


class Refusing(ScriptedBroker):
    """A broker that answers with *code* for each topic, or with *elsewhere* for topics other than
    ``secrets``."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code
        self.elsewhere: int | None = None
        self.on(MetadataRequest, self._describe)

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        topics = [
            MetadataResponse.MetadataResponseTopic(name=each.name, error_code=self._code(each.name))
            for each in request.topics or ()
        ]
        return metadata_of([self], topics)

    def _code(self, topic: str | None) -> int:
        return self.code if topic == "secrets" or self.elsewhere is None else self.elsewhere


@pytest.fixture
def broker() -> Iterator[Refusing]:
    with Refusing(ErrorCode.TOPIC_AUTHORIZATION_FAILED) as broker:
        yield broker


def connect(broker: Refusing, **options: Any) -> ConsumerConnector:
    quick = {"consumer_timeout_ms": 100, "metadata_max_age_ms": 50, "retry_backoff_ms": 10, **options}
    return ConsumerConnector(broker.address, **quick)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_is_refused_is_an_error_of_the_loop_at_once(
    broker: Refusing, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    broker.code = code
    with connect(broker, consumer_timeout_ms=30_000) as connector:
        stream = connector.stream("secrets")
        for _ in range(2):
            with pytest.raises(BrokerError, match="cannot read topic secrets") as refused:
                next(iter(stream))
            assert refused.value.code == code
        with pytest.raises(BrokerError):
            next(stream.batches(timeout=0))
    assert "do not exist" not in caplog.text


@pytest.mark.parametrize(
    "code",
    [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_topic_that_may_still_come_is_waited_for(broker: Refusing, code: ErrorCode) -> None:
    broker.code = code
    with connect(broker) as connector, pytest.raises(ConsumerTimeout):
        next(iter(connector.stream("later")))


def test_a_loop_waits_again_once_the_topic_is_not_refused_any_more(broker: Refusing) -> None:
    with connect(broker) as connector:
        stream = connector.stream("secrets")
        wait_for(lambda: _raised(stream) is BrokerError, "a loop that is refused")
        broker.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait_for(lambda: _raised(stream) is ConsumerTimeout, "a loop that waits")
        broker.code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        wait_for(lambda: _raised(stream) is BrokerError, "a loop that is refused")


def _raised(stream: Any) -> type[Exception]:
    with pytest.raises((BrokerError, ConsumerTimeout)) as error:
        next(iter(stream))
    return type(error.value)


def test_streams_of_other_topics_wait_on(broker: Refusing) -> None:
    broker.elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with connect(broker) as connector:
        streams = connector.create_message_streams({"secrets": 1, "clicks": 1})
        wait_for(lambda: _raised(streams["secrets"][0]) is BrokerError, "a loop that is refused")
        assert _raised(streams["clicks"][0]) is ConsumerTimeout


def test_what_was_fetched_before_the_refusal_is_handed_out_first() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), then=2)
    bench.stream.queue.set_topic_error(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED.facts))
    assert values(until_raised(bench.stream, BrokerError)) == ["a", "b"]
