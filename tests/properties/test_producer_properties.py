"""What classic producers are made from, in the profiles 0.7, 0.8 and 0.10."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pyklient.classic.encoders import StringEncoder
from pyklient.classic.partitioners import ByteArrayPartitioner, DefaultPartitioner
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import ConfigurationError
from pyklient.properties.producer_properties import PRODUCER_PROFILES, producer_properties
from pyklient.properties.profile import ProfileName

NEEDED: dict[str, dict[str, object]] = {
    "0.7": {"zk.connect": "localhost:2181"},
    "0.8": {"metadata.broker.list": "localhost:9092"},
    "0.10": {"metadata.broker.list": "localhost:9092"},
}
PROFILES: tuple[ProfileName, ...] = ("0.7", "0.8", "0.10")


class ByCountry:
    """A partitioner that gets the properties of the producer, as in Kafka."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.countries = int(properties["external.countries"])

    def partition(self, key: Any, partition_count: int) -> int:
        return min(self.countries, partition_count) - 1


class Fails:
    def __init__(self) -> None:
        raise OSError("no licence")


def config(profile: str, properties: Mapping[str, object]) -> ClassicProducerConfig:
    """Return the options of the producer from the needed properties and *properties*."""
    return ClassicProducerConfig(**producer_properties({**NEEDED[profile], **properties}, profile).options)


@pytest.mark.parametrize("profile", PROFILES)
def test_without_properties_the_options_are_the_defaults_of_the_profile(profile: str) -> None:
    found = config(profile, {})
    expected = {
        "0.7": ClassicProducerConfig(
            profile="0.7",
            zk_connect="localhost:2181",
            zk_connection_timeout_ms=6_000,
            message_send_max_retries=0,
            queue_enqueue_timeout_ms=0,
            max_message_size=1_000_000,
            encoder=found.encoder,
        ),
        "0.8": ClassicProducerConfig(metadata_broker_list="localhost:9092", encoder=found.encoder),
        "0.10": ClassicProducerConfig(
            profile="0.10", metadata_broker_list="localhost:9092", encoder=found.encoder
        ),
    }
    assert found == expected[profile]


@pytest.mark.parametrize("profile", PROFILES)
def test_each_property_sets_an_option_of_the_producer_or_says_what_it_does(profile: ProfileName) -> None:
    known = ClassicProducerConfig.__dataclass_fields__
    for each in PRODUCER_PROFILES[profile].properties:
        assert each.effect if each.option is None else each.option in known, each.key


@pytest.mark.parametrize("profile", PROFILES)
def test_the_spellings_of_0_7_and_of_0_8_are_accepted(profile: str) -> None:
    old = {"queue.time": "7", "queue.size": "300", "batch.size": "250", "num.retries": "2"}
    new = {
        "queue.buffering.max.ms": "7",
        "queue.buffering.max.messages": "300",
        "batch.num.messages": "250",
        "message.send.max.retries": "2",
    }
    for given in (old, new):
        found = config(profile, given)
        assert found.queue_buffering_max_ms == 7
        assert found.queue_buffering_max_messages == 300
        assert found.batch_num_messages == 250
        assert found.message_send_max_retries == 2
    with pytest.raises(ConfigurationError, match="are two names of the same property"):
        config(profile, old | new)


def test_row_32_a_batch_above_the_queue_and_an_unknown_producer_type_are_errors() -> None:
    with pytest.raises(ConfigurationError, match=r"batch.num.messages=11 .*queue.buffering.max.messages=10"):
        config("0.8", {"batch.num.messages": "11", "queue.buffering.max.messages": "10"})
    for profile in PROFILES:
        with pytest.raises(ConfigurationError, match=r"producer.type='both' is not one of 'sync', 'async'"):
            config(profile, {"producer.type": "both"})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "key", ["security.protocol", "ssl.truststore.location", "sasl.mechanism", "sasl.jaas.config"]
)
def test_a_producer_in_a_profile_never_connects_without_the_tls_that_a_property_asks_for(
    profile: str, key: str
) -> None:
    with pytest.raises(ConfigurationError, match="the classic clients use neither TLS nor SASL; choose no"):
        config(profile, {key: "secret"})


@pytest.mark.parametrize("profile", ["0.8", "0.10"])
def test_batch_size_is_a_number_of_messages_and_says_so(
    profile: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyklient"):
        assert config(profile, {"batch.size": "8192"}).batch_num_messages == 8_192
    assert [each.getMessage() for each in caplog.records] == [
        "the property batch.size is read as another name of batch.num.messages: it is a number of messages, "
        "as in Kafka 0.7, and not of bytes, as in today's producer"
    ]
    with pytest.raises(ConfigurationError, match=r"^batch.size=16384 is larger than queue.buffering.max.mes"):
        config(profile, {"batch.size": "16384"})


def test_row_33_brokers_come_from_one_place_and_a_static_list_has_no_partitioner() -> None:
    static = {"broker.list": "0:one:9092, 3:[::1]:9093"}
    found = ClassicProducerConfig(**producer_properties(static, "0.7").options)
    assert found.broker_list == ((0, "one", 9092), (3, "::1", 9093))
    chosen = {"partitioner.class": "kafka.producer.DefaultPartitioner"}
    for given, words in (
        (static | NEEDED["0.7"], r"broker.list and zk.connect are both set"),
        ({}, r"neither broker.list nor zk.connect is set"),
        (static | chosen, r"partitioner.class is set, but with broker.list"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            ClassicProducerConfig(**producer_properties(given, "0.7").options)


def test_classes_are_named_by_module_and_name_or_by_the_names_of_kafka() -> None:
    given = {
        "serializer.class": "kafka.serializer.StringEncoder",
        "serializer.encoding": "UTF-16BE",
        "key.serializer.class": "pyklient.serialization:encode_json",
        "partitioner.class": f"{__name__}:ByCountry",
        "external.countries": "3",
        "callback.handler": f"{__name__}:PROFILES",
        "callback.handler.props": "a=1, b=x",
    }
    found = producer_properties(NEEDED["0.8"] | given, "0.8")
    options = ClassicProducerConfig(**found.options)
    assert isinstance(options.encoder, StringEncoder)
    assert options.encoder.encode("é") == b"\x00\xe9"
    assert callable(options.key_encoder)
    assert options.partitioner is not None
    assert options.partitioner.partition("any", 10) == 2
    assert found.callback_handler is PROFILES
    assert found.event_handler is None
    assert options.callback_handler_props == {"a": "1", "b": "x"}
    for name, kind in (
        ("DefaultPartitioner", DefaultPartitioner),
        ("ByteArrayPartitioner", ByteArrayPartitioner),
    ):
        assert isinstance(config("0.7", {"partitioner.class": f"kafka.producer.{name}"}).partitioner, kind)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("no_such_module:Any", "the module 'no_such_module' cannot be imported"),
        ("pyklient:NoSuchClass", "the module 'pyklient' has no 'NoSuchClass'"),
        ("kafka.serializer.LongEncoder", "a class of Java, which pyklient does not have; write module:name"),
        (".encoders:StringEncoder", "not the name of a class in Python; write module:name"),
        ("ByCountry", "not the name of a class in Python; write module:name"),
        ("mine.Part", "not the name of a class in Python; write module:name, such as mine:Part"),
        (f"{__name__}:Fails", "could not be instantiated: OSError: no licence"),
        (f"{__name__}:ByCountry", "could not be instantiated: KeyError"),
    ],
)
def test_a_class_that_cannot_be_made_is_an_error_with_the_key_and_the_name(written: str, words: str) -> None:
    for key in ("serializer.class", "partitioner.class", "callback.handler", "event.handler"):
        with pytest.raises(ConfigurationError, match=words) as caught:
            producer_properties(NEEDED["0.8"] | {key: written}, "0.8")
        assert str(caught.value).startswith(f"{key}={written!r}")


@pytest.mark.parametrize(
    ("source", "words"),
    [("raise ValueError('no licence')", "ValueError: no licence"), ("def", "SyntaxError: ")],
)
def test_a_module_that_fails_while_it_is_imported_is_an_error_with_the_key(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_encoders.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=words) as caught:
        producer_properties(NEEDED["0.8"] | {"serializer.class": "failing_encoders:Any"}, "0.8")
    assert str(caught.value).startswith(
        "serializer.class='failing_encoders:Any': the module 'failing_encoders'"
    )


@pytest.mark.parametrize(
    ("profile", "key", "value", "words"),
    [
        (
            "0.8",
            "request.required.acks",
            "2",
            "request.required.acks=2 is out of range; choose a number from -1 to 1",
        ),
        ("0.8", "compression.codec", "zstd", "choose one of 0 or none, 1 or gzip, 2 or snappy, 3 or lz4"),
        ("0.7", "compression.codec", "3", "choose one of 0 or none, 1 or gzip, 2 or snappy$"),
        ("0.8", "client.id", "a/b", "client.id='a/b' contains '/'"),
        ("0.8", "broker.list", "0:a:9092", "set metadata.broker.list=host:port,host:port, without the ids"),
        ("0.10", "zk.connect", "a:2181", "set metadata.broker.list"),
        ("0.7", "metadata.broker.list", "a:9092", "set broker.list=id:host:port"),
        ("0.7", "request.required.acks", "1", "brokers of Kafka 0.7 do not confirm messages"),
        ("0.8", "acks", "all", "acks has no effect on Producer: set request.required.acks, where -1"),
        ("0.8", "metadata.broker.list", "a:1,0:b:2", "'0:b:2' begins with the id .* since 0.8, write 'b:2'"),
        ("0.7", "acks", "all", "brokers of Kafka 0.7 do not confirm messages"),
        ("0.10", "retries", "5", "retries has no effect on Producer: set message.send.max.retries"),
        ("0.7", "retries", "5", "retries has no effect on Producer: set num.retries"),
        ("0.10", "enable.idempotence", "true", "may store a message twice; choose no profile"),
        ("0.7", "callback.handler.props", "a=1=2", "is not of the form name=value,name=value"),
    ],
)
def test_a_wrong_value_or_a_key_of_another_version_is_an_error(
    profile: str, key: str, value: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        config(profile, {key: value})


@pytest.mark.parametrize("value", ["one:9092", "x:one:9092", "0:one:port", " , "])
def test_a_static_broker_has_an_id_a_host_and_a_port(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"id:host:port|is empty; name at least one broker"):
        producer_properties({"broker.list": value}, "0.7")


@pytest.mark.parametrize(
    ("written", "codec"), [("2", "snappy"), ("gzip", "gzip"), ("GZIP", "gzip"), ("0", "none")]
)
def test_a_codec_is_a_name_or_a_number(written: str, codec: str) -> None:
    given = {"compression.codec": written, "compressed.topics": "clicks , views,"}
    found = config("0.8", given)
    assert found.compression_codec == codec
    assert found.compressed_topics == {"clicks", "views"}
