"""Properties of Java's client become options."""

from collections.abc import Callable
from typing import Any

import pytest

from pyklient import (
    Admin,
    ConfigurationError,
    ConsumerConfig,
    ConsumerConnector,
    Producer,
    ProducerConfig,
    SimpleConsumer,
    read,
)
from pyklient.broker import Broker
from pyklient.config.dotted_names import from_properties

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
        ConfigurationError, match=r"ssl\.keystore\.type=JKS is not supported; only PEM files are.*keytool"
    ):
        from_properties(ConsumerConfig, {"ssl.keystore.type": "JKS"})


CLIENTS: list[Callable[..., Any]] = [Admin, ConsumerConnector, Producer, SimpleConsumer]


def read_nothing(*servers: str, **options: Any) -> Any:
    given: dict[str, Any] = dict(zip(["bootstrap_servers"], servers, strict=False))
    return read(topics="nothing", **given, **options)


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_take_kafkas_dotted_names_as_keyword_arguments(client: Callable[..., Any]) -> None:
    options = {"bootstrap.servers": "one:1", "request.timeout.ms": "9000"}
    with client(**options, client_id="me") as made:
        assert made._config.bootstrap_servers == "one:1"
        assert (made._config.request_timeout_ms, made._config.client_id) == (9_000, "me")


def test_a_read_takes_them_too() -> None:
    with Broker() as broker:
        options: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, "check.crcs": "false"}
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("nothing")
        assert list(read_nothing(**options)) == []


@pytest.mark.parametrize("client", [*CLIENTS, read_nothing])
@pytest.mark.parametrize(
    ("positional", "options", "name"),
    [
        (["localhost:9092"], {"bootstrap.servers": "localhost:9092"}, "bootstrap_servers"),
        ([], {"bootstrap.servers": "one:1", "bootstrap_servers": "two:2"}, "bootstrap_servers"),
        ([], {"client.id": "a", "client_id": "a"}, "client_id"),
    ],
    ids=["positional", "keyword", "option"],
)
def test_an_option_under_both_names_is_a_contradiction(
    client: Callable[..., Any], positional: list[str], options: dict[str, str], name: str
) -> None:
    given = ["".join([*each]) for each in positional]  # another object than any default
    with pytest.raises(ConfigurationError, match=f"^{name} is given twice, once with underscores and "):
        client(*given, **options)


def test_a_dotted_name_that_nobody_has_is_refused_as_one_with_underscores_is() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'linger_ms'"):
        Producer(**{"linger.mss": 5})  # type: ignore[arg-type]  # that is what is tested
    with pytest.raises(ConfigurationError, match="linger_ms takes a whole number, not 'abc'"):
        Producer(**{"linger.ms": "abc"})  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match=r"read\(\) belongs to no group.*remove the options group_id"
    ):
        read_nothing(**{"group.id": "g"})


def test_a_dotted_option_may_have_the_value_that_the_option_takes() -> None:
    servers = ["one:1", "two:2"]
    options = {"bootstrap.servers": servers, "acks": 1, "enable.idempotence": False}
    found = ProducerConfig.from_options(from_properties(ProducerConfig, options))
    assert (found.bootstrap, found.acks, found.enable_idempotence) == ((("one", 1), ("two", 2)), 1, False)
