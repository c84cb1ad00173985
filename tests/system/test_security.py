"""TLS and SASL against a real broker: who gets in, and what the others are told."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from pyklient import (
    Admin,
    AuthenticationError,
    BrokerConnectionError,
    ConsumerConnector,
    KafkaError,
    Producer,
    read,
)
from tests.servers.fixtures import NewName
from tests.servers.secure import PASSWORD, USER, SecureBroker
from tests.servers.topics import create_topic
from tests.system.reading import read_group


def login(mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> dict[str, Any]:
    """The options of a user who logs in."""
    return {"sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": password}


def round_trip(secure_kafka: SecureBroker, topic: str, listener: str, **options: Any) -> None:
    """Produce, read by a group, read without one, all through *listener*."""
    create_topic(secure_kafka.bootstrap_servers, topic)
    address = secure_kafka.address(listener)
    with Producer(address, **options) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number)
    expected = [b"%d" % number for number in range(100)]
    grouped = read_group(address, f"{topic}-group", topic, 100, **options)
    assert [message.value for message in grouped] == expected
    assert [message.value for message in read(address, topic, start=0, **options)] == expected


def refusal(address: str, **options: Any) -> KafkaError:
    """The error of a client that must not get in, by all the ways there are to find out."""
    with (
        Admin(address, default_api_timeout_ms=3_000, **options) as admin,
        pytest.raises(KafkaError) as by_admin,
    ):
        admin.topics()
    with (
        Producer(address, max_block_ms=3_000, **options) as producer,
        pytest.raises(KafkaError) as by_producer,
    ):
        producer.send("anything", b"x").result(timeout=20)
    for reads in (_read_alone, _read_in_a_group, _read_without_a_group):
        with pytest.raises(KafkaError) as by_consumer:
            reads(address, default_api_timeout_ms=3_000, **options)
        assert type(by_consumer.value) is type(by_admin.value)
        assert PASSWORD not in str(by_consumer.value)
    assert type(by_admin.value) is type(by_producer.value)
    assert PASSWORD not in str(by_admin.value)
    return by_admin.value


def _read_alone(address: str, **options: Any) -> None:
    list(read(address, "anything", start=0, **options))


def _read_in_a_group(address: str, **options: Any) -> None:
    with ConsumerConnector(address, group_id="anybody", consumer_timeout_ms=20_000, **options) as connector:
        next(iter(connector.stream("anything")))


def _read_without_a_group(address: str, **options: Any) -> None:
    with ConsumerConnector(address, consumer_timeout_ms=20_000, **options) as connector:
        next(iter(connector.stream("anything")))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SECURE", "PLAINSASL"])
def test_a_user_logs_in_with_each_mechanism(
    secure_kafka: SecureBroker, new_name: NewName, listener: str, mechanism: str
) -> None:
    options = login(mechanism)
    if listener == "SECURE":
        options |= {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(secure_kafka.certificates.authority),
        }
    else:
        options |= {"security_protocol": "SASL_PLAINTEXT"}
    round_trip(secure_kafka, new_name(), listener, **options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_in_so_many_words(secure_kafka: SecureBroker, mechanism: str) -> None:
    options = login(mechanism, password="wrong-horse")
    authority = str(secure_kafka.certificates.authority)
    error = refusal(
        secure_kafka.address("SECURE"),
        security_protocol="SASL_SSL",
        ssl_truststore_location=authority,
        **options,
    )
    assert isinstance(error, AuthenticationError)
    assert USER in str(error)
    assert mechanism in str(error)
    assert "wrong-horse" not in str(error)


@pytest.mark.parametrize(
    ("listener", "trusted", "words"),
    [
        ("SECURE", "stranger", "ssl_truststore_location"),
        ("EXPIRED", "authority", "expired"),
        ("ELSEWHERE", "authority", "kafka.example.org|mismatch|not valid for"),
    ],
)
def test_a_broker_that_is_not_who_it_should_be_is_refused(
    secure_kafka: SecureBroker, listener: str, trusted: str, words: str
) -> None:
    store: Path = getattr(secure_kafka.certificates, trusted)
    address = secure_kafka.address(listener)
    error = refusal(address, security_protocol="SASL_SSL", ssl_truststore_location=str(store), **login())
    assert isinstance(error, AuthenticationError)
    assert address in str(error)
    with pytest.raises(AuthenticationError, match=words):
        raise error


def test_the_name_in_a_certificate_may_be_waived(secure_kafka: SecureBroker, new_name: NewName) -> None:
    round_trip(
        secure_kafka,
        new_name(),
        "ELSEWHERE",
        security_protocol="SASL_SSL",
        ssl_truststore_location=str(secure_kafka.certificates.authority),
        ssl_endpoint_identification_algorithm="",
        **login(),
    )


def test_a_certified_client_passes_mutual_tls(secure_kafka: SecureBroker, new_name: NewName) -> None:
    certificates = secure_kafka.certificates
    round_trip(
        secure_kafka,
        new_name(),
        "MUTUAL",
        security_protocol="SSL",
        ssl_truststore_location=str(certificates.authority),
        ssl_keystore_location=str(certificates.client),
    )


def test_a_ready_context_serves_as_well(secure_kafka: SecureBroker, new_name: NewName) -> None:
    context = ssl.create_default_context(cafile=str(secure_kafka.certificates.authority))
    round_trip(secure_kafka, new_name(), "TLS", security_protocol="SSL", ssl_context=context)


@pytest.mark.parametrize("store", [None, "uninvited"])
def test_an_uncertified_client_is_refused_by_mutual_tls(
    secure_kafka: SecureBroker, store: str | None
) -> None:
    certificates = secure_kafka.certificates
    options = {} if store is None else {"ssl_keystore_location": str(getattr(certificates, store))}
    error = refusal(
        secure_kafka.address("MUTUAL"),
        security_protocol="SSL",
        ssl_truststore_location=str(certificates.authority),
        **options,
    )
    assert isinstance(error, AuthenticationError | BrokerConnectionError)
    assert "certificate" in str(error)


def test_plain_text_to_a_secure_listener_and_the_reverse_say_so(secure_kafka: SecureBroker) -> None:
    error = refusal(secure_kafka.address("TLS"))
    assert "security_protocol" in str(error)
    authority = str(secure_kafka.certificates.authority)
    error = refusal(
        secure_kafka.bootstrap_servers, security_protocol="SSL", ssl_truststore_location=authority
    )
    assert "security_protocol" in str(error)
