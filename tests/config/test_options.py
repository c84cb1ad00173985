"""A wrong option raises an error that names the option and what it accepts."""

import logging
from typing import Any

import pytest

from pyklient import Producer
from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from pyklient.config.bootstrap_servers import parse_bootstrap_servers
from pyklient.errors import ConfigurationError
from pyklient.serialization import as_decoder


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ("a:1,b", (("a", 1), ("b", 9092))),
        (["a:1", "b:2,c:3"], (("a", 1), ("b", 2), ("c", 3))),
        ("[::1]:7, [::2],", (("::1", 7), ("::2", 9092))),
    ],
)
def test_servers_are_read_as_text_or_as_a_list(given: Any, pairs: Any) -> None:
    assert parse_bootstrap_servers(given) == pairs


@pytest.mark.parametrize(
    "given", [["localhost", 19392], [("h", 1)], b"a:1", bytearray(b"a:1"), None, 5], ids=repr
)
def test_servers_of_another_form_are_refused_with_the_right_one(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap_servers=.* pass 'localhost:9092'"):
        Producer(given)


def test_options_in_one_dict_are_answered_with_the_way_to_pass_them() -> None:
    given: Any = {"bootstrap.servers": "h:1", "sasl.password": "hunter2"}
    with pytest.raises(ConfigurationError, match=r"as in Producer\(\*\*options\)") as caught:
        Producer(given)
    assert "'bootstrap.servers', 'sasl.password'" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("h:65536", "not a number from 1 to 65535"),
        ("h:0", "not a number from 1 to 65535"),
        ("h:" + "9" * 5_000, "not a number from 1 to 65535"),
        ("::1", "without brackets"),
        ("kafka://h:1", "is not of the form host:port"),
        ("[]:1", "is not of the form host:port"),
        (" , ", "is empty"),
    ],
)
def test_an_address_that_is_none_says_why(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_bootstrap_servers(text)


@pytest.mark.parametrize("name", ["group_id", "group_instance_id"])
def test_the_names_of_a_group_and_of_a_member_are_not_empty(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is empty; give"):
        ConsumerConfig.from_options({"group_id": "g", name: ""})


@pytest.mark.parametrize(
    ("config", "name", "value", "takes"),
    [
        (AdminConfig, "client_id", 3, "text"),
        (AdminConfig, "client_id", None, "text"),
        (AdminConfig, "sasl_username", b"me", "text"),
        (AdminConfig, "ssl_truststore_location", 1, "text"),
        (AdminConfig, "ssl_context", "x", "an ssl.SSLContext"),
        (ConsumerConfig, "group_id", 7, "text"),
        (ConsumerConfig, "check_crcs", "yes", "True or False"),
        (ProducerConfig, "enable_idempotence", "no", "True or False"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_option(
    config: type[ClientConfig], name: str, value: Any, takes: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} takes {takes}, not"):
        config.from_options({name: value})


def test_a_password_of_the_wrong_type_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="sasl_password takes text, not <hidden>"):
        AdminConfig.from_options({"sasl_password": 90210})


@pytest.mark.parametrize("name", ["key_encoder", "value_encoder", "partitioner"])
@pytest.mark.parametrize("value", ["utf-8", b"utf-8", 3])
def test_text_is_no_function_whatever_methods_it_has(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}={value!r} is not .* pass a function"):
        Producer(**{name: value})


@pytest.mark.parametrize("value", ["utf-8", b"utf-8", bytearray(b"utf-8")])
def test_text_and_bytes_are_no_decoders(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"value_decoder=.* is not a decoder: pass a function"):
        as_decoder(value, "value_decoder")


def test_the_error_names_the_value_that_scalas_consumer_calls_otherwise() -> None:
    for value, meant in (("smallest", "earliest"), ("beginning", "earliest"), ("end", "latest")):
        with pytest.raises(ConfigurationError, match=rf"is not one of .*; did you mean '{meant}'"):
            ConsumerConfig.from_options({"auto_offset_reset": value})
    with pytest.raises(ConfigurationError, match=r"'zstd'$"):
        ProducerConfig.from_options({"compression_type": "zip"})


@pytest.mark.parametrize(
    ("config", "name", "complaint"),
    [
        (AdminConfig, "client_idd", "of Admin or SimpleConsumer; did you mean 'client_id'"),
        (AdminConfig, "linger_ms", "of Admin or SimpleConsumer; it is an option of Producer"),
        (ConsumerConfig, "value_decoder", r"of ConsumerConnector or read\(\); pass value_decoder to"),
        (ConsumerConfig, "max.poll.records", r"pass max_records to batches\(\)"),
        (ConsumerConfig, "topics", "pass them to"),
        (ConsumerConfig, "on_commit", r"pass a callback to commit_offsets_async\(\)"),
        (ProducerConfig, "error_cb", "the call that fails raises the error"),
        (ProducerConfig, "group.id", r"of Producer; it is an option of ConsumerConnector or read\(\)"),
        (ProducerConfig, "linger.ms", "did you mean 'linger_ms'"),
        (ProducerConfig, "metadata.broker.list", "bootstrap_servers .or choose a profile of from_properties"),
        (ConsumerConfig, "auto.commit.enable", "pyklient calls it enable_auto_commit"),
        (ConsumerConfig, "zookeeper.sync.time.ms", "it tells of changes"),
        (ProducerConfig, "ssl_cafile", "pyklient calls it ssl_truststore_location"),
        (ProducerConfig, "message.timeout.ms", "pyklient calls it delivery_timeout_ms"),
        (ConsumerConfig, "group_protocol", r"classic protocol; KIP-848 is not supported yet"),
        (ProducerConfig, "statistics.interval.ms", r"call metrics\(\) of the client"),
        (ProducerConfig, "compression_level", "its level cannot be set"),
        (ConsumerConfig, "heartbeat", "did you mean 'heartbeat_interval_ms'"),
    ],
)
def test_an_unknown_option_says_whose_it_is_not_and_what_to_do(
    config: type[ClientConfig], name: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        config.from_options({name: "x"})


@pytest.mark.parametrize(
    "name", ["mirror_topics_whitelist", "num_consumer_fetchers", "producer_type", "compressed_topics"]
)
@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig])
def test_no_option_is_suggested_that_only_ends_or_begins_alike(config: type[ClientConfig], name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config.from_options({name: "x"})
    assert str(caught.value) == f"unknown option {name!r} of {config.client}"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
@pytest.mark.parametrize(
    "given", [{"sasl_username": "app"}, {"sasl_password": "hunter2"}, {"sasl_mechanism": "PLAIN"}], ids=str
)
def test_sasl_without_a_protocol_that_has_it_is_a_contradiction(protocol: str, given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientConfig.from_options({"security_protocol": protocol, **given})
    [name] = given
    assert str(caught.value) == (
        f"{name} is set, but security_protocol={protocol} does not use SASL; "
        "choose SASL_PLAINTEXT or SASL_SSL"
    )


def test_sasl_options_that_are_none_are_not_set() -> None:
    ClientConfig.from_options({"sasl_username": None, "sasl_password": None})


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"retries": 0}, "the option retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "the option max_in_flight_requests_per_connection=6"),
        ({"retries": 0, "enable_idempotence": False}, None),
        ({"retries": 0, "acks": 1}, None),
        ({}, None),
    ],
)
def test_idempotence_that_falls_away_unasked_is_said_once(
    options: dict[str, Any], cause: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyklient.producer"), Producer(**options):
        pass
    said = [record.getMessage() for record in caplog.records]
    assert [text.split(" turns ")[0] for text in said] == ([] if cause is None else [cause])


@pytest.mark.parametrize("value", ["skipp", None, 1])
def test_on_corrupt_is_one_of_two_words_or_a_function(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"on_corrupt=.* must be 'raise', 'skip' or a function"):
        ConsumerConfig.from_options({"on_corrupt": value})
    assert ConsumerConfig.from_options({"on_corrupt": "skip"}).corrupt_handler is not None
    assert ConsumerConfig.from_options({"on_corrupt": print}).corrupt_handler is print
    assert ConsumerConfig.from_options({}).corrupt_handler is None
