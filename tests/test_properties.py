"""Properties of Java's client become options."""

import pytest

from pyklient import ConfigurationError, ConsumerConfig, ProducerConfig
from pyklient.properties import from_properties

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def test_text_becomes_what_the_option_takes() -> None:
    given = {"fetch.max.wait.ms": "100", "check.crcs": "False", "client.id": "100", "group.id": "none"}
    assert from_properties(ConsumerConfig, given) == {
        "fetch_max_wait_ms": 100,
        "check_crcs": False,
        "client_id": "100",
        "group_id": None,
    }


@pytest.mark.parametrize(
    ("line", "user", "password"),
    [
        (f'{SCRAM} username="ada" password="s\\"e;c=ret";', "ada", 's"e;c=ret'),
        (f"{SCRAM} password='x y' username=ada;", "ada", "x y"),
        (f'{SCRAM} serviceName="kafka" username="ada" password="";', "ada", ""),
    ],
)
def test_user_and_password_are_taken_out_of_the_jaas_line(line: str, user: str, password: str) -> None:
    found = from_properties(ConsumerConfig, {"sasl.jaas.config": line})
    assert found == {"sasl_username": user, "sasl_password": password}


def test_a_jaas_line_without_them_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="user and password") as caught:
        from_properties(ConsumerConfig, {"sasl.jaas.config": f"{SCRAM} password=hunter2;"})
    assert "hunter2" not in str(caught.value)


def test_what_is_for_another_client_is_passed_over() -> None:
    given = {"max.poll.records": "5", "acks": "all", "client.dns.lookup": "use_all_dns_ips"}
    assert from_properties(ConsumerConfig, given) == {}
    assert from_properties(ProducerConfig, {"fetch.max.bytes": "5", "acks": "1"}) == {"acks": "1"}


def test_what_nobody_knows_is_left_for_the_config_to_refuse() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'fetch_max_bytes'"):
        ConsumerConfig.from_options(from_properties(ConsumerConfig, {"fetch.max.byte": "5"}))
    with pytest.raises(ConfigurationError, match="has no password"):
        ConsumerConfig.from_options(from_properties(ConsumerConfig, {"ssl.truststore.password": "x"}))


def test_a_key_store_of_javas_is_refused_with_the_way_out() -> None:
    assert from_properties(ConsumerConfig, {"ssl.truststore.type": "PEM"}) == {}
    with pytest.raises(
        ConfigurationError, match=r"ssl\.keystore\.type=JKS: pyklient reads PEM files. keytool"
    ):
        from_properties(ConsumerConfig, {"ssl.keystore.type": "JKS"})
