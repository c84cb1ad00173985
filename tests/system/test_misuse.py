"""Calls that cannot work say so before anything is sent, and name what to change."""

import pickle

import pytest

from pyklient import (
    Admin,
    BrokerError,
    ConfigurationError,
    ConsumerConnector,
    KafkaError,
    MessageStreamsExistError,
    OffsetOutOfRangeError,
    Producer,
    SimpleConsumer,
)
from pyklient.serialization import decode_json, decode_text
from tests.servers.fixtures import NewName, NewTopic
from tests.system.reading import connector


def test_text_without_an_encoder_names_the_option(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        with pytest.raises(TypeError, match="value_encoder"):
            producer.send(topic, "text")
        with pytest.raises(TypeError, match="key_encoder"):
            producer.send(topic, b"value", key="text")
        with pytest.raises(TypeError):
            producer.send(topic, {"a": 1})
        assert producer.send(topic, b"bytes").result(timeout=30).offset == 0


def test_an_encoder_is_used(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, value_encoder=str.encode, key_encoder=lambda key: b"k%d" % key) as producer:
        producer.send(topic, "text", key=7)
    with SimpleConsumer(bootstrap) as consumer:
        (message,) = consumer.fetch(topic, 0, 0, 1_000).messages
    assert (message.key, message.value) == (b"k7", b"text")


def test_a_decoder_is_used(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"17", key=b"k")
    with connector(bootstrap, new_name()) as reader:
        streams = reader.create_message_streams(
            {topic: 1}, key_decoder=decode_text, value_decoder=decode_json
        )
        message = next(iter(streams[topic][0]))
        assert (message.key, message.value) == ("k", 17)
        with pytest.raises(MessageStreamsExistError):
            reader.create_message_streams({topic: 1})


def test_a_partition_that_does_not_exist_is_named(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with (
        Producer(bootstrap, max_block_ms=2_000) as producer,
        pytest.raises((KafkaError, ValueError), match="7") as caught,
    ):
        producer.send(topic, b"x", partition=7).result(timeout=20)
    assert topic in str(caught.value)


def test_reading_an_unknown_topic_names_it(bootstrap: str, new_name: NewName) -> None:
    topic = new_name()
    with (
        SimpleConsumer(bootstrap, default_api_timeout_ms=2_000) as consumer,
        pytest.raises(KafkaError, match=topic),
    ):
        consumer.fetch(topic, 0, 0, 1_000)
    with Admin(bootstrap, default_api_timeout_ms=2_000) as admin, pytest.raises(KafkaError, match=topic):
        admin.describe_topic(topic)


def test_a_topic_that_exists_is_not_created_again(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Admin(bootstrap) as admin, pytest.raises(BrokerError, match=topic) as caught:
        admin.create_topic(topic)
    assert caught.value.name == "TOPIC_ALREADY_EXISTS"


def test_an_offset_outside_the_log_is_an_error_where_no_reset_is_wanted(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"x")
    with SimpleConsumer(bootstrap) as consumer, pytest.raises(OffsetOutOfRangeError, match=topic):
        consumer.fetch(topic, 0, 1_000, 1_000)
    with (
        connector(bootstrap, new_name(), auto_offset_reset="none") as reader,
        pytest.raises(OffsetOutOfRangeError, match=topic),
    ):
        next(iter(reader.stream(topic)))


@pytest.mark.parametrize("make", [Producer, Admin, SimpleConsumer])
def test_a_client_does_not_travel_in_a_pickle(bootstrap: str, make: type[Producer]) -> None:
    with make(bootstrap) as client, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(client)


def test_an_unknown_option_names_the_nearest_one(bootstrap: str) -> None:
    with pytest.raises(ConfigurationError, match="linger_ms"):
        Producer(bootstrap, linger_mss=5)  # type: ignore[call-arg]  # what is tried
    with pytest.raises(ConfigurationError, match="auto_offset_reset"):
        ConsumerConnector(bootstrap, auto_offset_resets="earliest")  # type: ignore[call-arg]  # what is tried
