"""One connection to one broker: when it is opened again, and how its calls end."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyklient.errors import BrokerError, ClosedError, ForkError, KafkaError, KafkaTimeoutError, ProtocolError
from pyklient.net.broker_channel import BrokerChannel
from pyklient.net.dialogue import ANY, Ask, Dialogue, Refresh
from pyklient.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.net.scripted import HANG_UP, SILENCE, Addressed, ScriptedBroker, config_for, metadata_of


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(HeartbeatRequest, lambda request: HeartbeatResponse())
        yield broker


def channel_to(broker: ScriptedBroker | Addressed, **options: Any) -> BrokerChannel:
    config = config_for(bootstrap_servers=broker.address, **options)
    return BrokerChannel(config, broker.host, broker.port)


def heartbeat() -> Dialogue[HeartbeatResponse]:
    response: HeartbeatResponse = yield Ask(ANY, HeartbeatRequest())
    return response


def test_all_requests_use_one_connection_that_the_first_of_them_opens(scripted: ScriptedBroker) -> None:
    channel = channel_to(scripted)
    assert scripted.accepted == 0
    for _ in range(3):
        channel.play(heartbeat())
    channel.close()
    assert (scripted.accepted, scripted.count(HeartbeatRequest)) == (1, 3)


def test_a_request_on_a_connection_that_breaks_is_sent_once_more_on_a_new_one(
    scripted: ScriptedBroker,
) -> None:
    answers: list[Any] = [HANG_UP, HeartbeatResponse(throttle_time_ms=7)]
    scripted.on(HeartbeatRequest, lambda request: answers.pop(0))
    channel = channel_to(scripted)
    assert channel.play(heartbeat()).throttle_time_ms == 7
    channel.close()
    assert (scripted.accepted, scripted.count(HeartbeatRequest)) == (2, 2)


def test_the_second_failure_is_raised_and_the_next_call_connects_again(scripted: ScriptedBroker) -> None:
    answers: list[Any] = [HANG_UP, HANG_UP, HeartbeatResponse()]
    scripted.on(HeartbeatRequest, lambda request: answers.pop(0))
    channel = channel_to(scripted)
    with pytest.raises(KafkaError, match=f"the broker at {scripted.address} closed the connection"):
        channel.play(heartbeat())
    assert scripted.count(HeartbeatRequest) == 2
    channel.play(heartbeat())
    channel.close()
    assert (scripted.accepted, scripted.count(HeartbeatRequest)) == (3, 3)


def test_a_broker_that_does_not_answer_is_asked_twice_for_the_time_of_one_request_each(
    scripted: ScriptedBroker,
) -> None:
    scripted.on(HeartbeatRequest, lambda request: SILENCE)
    channel = channel_to(scripted, request_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError, match="did not answer Heartbeat"):
        channel.play(heartbeat())
    channel.close()
    assert scripted.count(HeartbeatRequest) == 2


def test_a_call_ends_after_the_time_for_calls(scripted: ScriptedBroker) -> None:
    scripted.on(HeartbeatRequest, lambda request: SILENCE)
    channel = channel_to(scripted, default_api_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError, match="did not answer Heartbeat"):
        channel.play(heartbeat())
    channel.close()
    assert scripted.count(HeartbeatRequest) == 1


def test_a_response_that_breaks_the_protocol_is_raised_and_not_asked_for_again(
    scripted: ScriptedBroker,
) -> None:
    scripted.on(HeartbeatRequest, lambda request: b"\x0f\xff\xff\xff")
    channel = channel_to(scripted)
    with pytest.raises(ProtocolError, match="receive_message_max_bytes"):
        channel.play(heartbeat())
    channel.close()
    assert scripted.count(HeartbeatRequest) == 1


def test_an_address_at_which_nobody_listens_is_named() -> None:
    nobody = Addressed(1)
    channel = channel_to(nobody)
    with pytest.raises(KafkaError, match=f"cannot connect to the broker at {nobody.address}"):
        channel.play(heartbeat())
    channel.close()


def test_close_is_final_and_ends_a_call_that_waits(scripted: ScriptedBroker) -> None:
    arrived = threading.Event()

    def silent(_request: object) -> Any:
        arrived.set()
        return SILENCE

    scripted.on(HeartbeatRequest, silent)
    channel = channel_to(scripted)
    caught: list[BaseException] = []

    def call() -> None:
        try:
            channel.play(heartbeat())
        except ClosedError as error:
            caught.append(error)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert arrived.wait(20)
    channel.close()
    for thread in threads:
        thread.join(30)
    assert len(caught) == 2
    with pytest.raises(ClosedError):
        channel.play(heartbeat())
    channel.close()
    assert scripted.count(HeartbeatRequest) == 1


def test_a_client_id_is_that_of_the_call_or_else_of_the_client(scripted: ScriptedBroker) -> None:
    channel = channel_to(scripted, client_id="mine")
    for client_id in (None, "theirs", None):
        channel.play(heartbeat(), client_id)
    channel.close()
    names = [each.client_id for each in scripted.received if isinstance(each.message, HeartbeatRequest)]
    assert names == ["mine", "theirs", "mine"]


def test_the_metadata_of_one_broker_is_returned_without_creating_topics(scripted: ScriptedBroker) -> None:
    scripted.on(
        MetadataRequest,
        lambda request: metadata_of(
            [scripted], [MetadataResponse.MetadataResponseTopic(name="t", error_code=3)]
        ),
    )

    def ask() -> Dialogue[Any]:
        return (yield Refresh(["t"]))

    channel = channel_to(scripted)
    metadata = channel.play(ask())
    channel.close()
    (request,) = (each for each in scripted.requests if isinstance(each, MetadataRequest))
    assert not request.allow_auto_topic_creation
    assert [node.port for node in metadata.nodes.values()] == [scripted.port]
    assert isinstance(metadata.topic_errors(["t"]), dict)
    assert metadata.topics["t"].error == 3


def test_an_error_for_the_whole_metadata_is_raised_once(scripted: ScriptedBroker) -> None:
    scripted.on(MetadataRequest, lambda request: MetadataResponse(error_code=29))

    def ask() -> Dialogue[Any]:
        return (yield Refresh(None))

    channel = channel_to(scripted)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        channel.play(ask())
    channel.close()
    assert scripted.count(MetadataRequest) == 1


def test_a_forked_child_cannot_use_it_and_does_not_end_the_connection(scripted: ScriptedBroker) -> None:
    channel = channel_to(scripted)
    channel.play(heartbeat())
    child = os.fork()
    if not child:
        try:
            channel.play(heartbeat())
        except ForkError:
            channel.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    channel.play(heartbeat())
    channel.close()
    assert scripted.accepted == 1
