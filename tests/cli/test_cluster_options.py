"""The options of a connection: where they come from, which takes precedence, and no password on a command
line."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import click
import pytest

from pyklient.assignors.assignor import Assignor
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig
from pyklient.corrupt_records import CorruptRecords
from pyklient.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOTSTRAP_SERVERS", "SASL_PASSWORD", "SSL_KEY_PASSWORD"):
        monkeypatch.delenv(f"PYKLIENT_{name}", raising=False)


def _cluster(*arguments: str) -> ClusterOptions:
    found: list[ClusterOptions] = []

    @click.command()
    @cluster_options(AdminConfig, ConsumerConfig, ProducerConfig)
    def command(cluster: ClusterOptions) -> None:
        found.append(cluster)

    command.main(list(arguments), standalone_mode=False)
    return found[0]


def _file(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


_PATIENCE = {"bootstrap_refused_timeout_ms": 3_000, "default_api_timeout_ms": 15_000}


def test_without_anything_it_is_the_broker_of_this_machine_with_a_persons_patience() -> None:
    assert _cluster().options(AdminConfig) == {"bootstrap_servers": "localhost:9092", **_PATIENCE}
    patient = _cluster("-X", "default.api.timeout.ms=60000").options(AdminConfig)
    assert patient == {"bootstrap_servers": "localhost:9092", "default_api_timeout_ms": 60_000}
    assert not _cluster().names_a_cluster


def test_a_timeout_on_the_line_is_what_a_call_may_take_whoever_listens() -> None:
    options = _cluster("--timeout", "2.5").options(ProducerConfig)
    assert options == {
        "bootstrap_servers": "localhost:9092",
        "default_api_timeout_ms": 2_500,
        "max_block_ms": 2_500,
    }
    given = _cluster("--timeout", "2.5", "-X", "max_block_ms=7", "-X", "bootstrap_refused_timeout_ms=9")
    options = given.options(ProducerConfig)
    assert (options["max_block_ms"], options["bootstrap_refused_timeout_ms"]) == (7, 9)


def test_a_job_waits_for_a_closed_port_as_long_as_for_an_answer() -> None:
    assert _cluster().of_a_job().options(AdminConfig) == {
        "bootstrap_servers": "localhost:9092",
        "default_api_timeout_ms": 15_000,
    }


def test_the_line_wins_over_the_file_and_the_file_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", "environment:1")
    assert _cluster().servers == "environment:1"
    assert not _cluster().names_a_cluster
    file = _file(tmp_path, "bootstrap.servers=file:1\n")
    assert _cluster("--config", file).servers == "file:1"
    assert _cluster("--config", file).names_a_cluster
    assert _cluster("--config", file, "-X", "bootstrap.servers=pair:1").servers == "pair:1"
    assert _cluster("--config", file, "-X", "bootstrap.servers=pair:1", "-b", "flag:1").servers == "flag:1"
    assert _cluster("-b", "flag:1").options(AdminConfig)["bootstrap_servers"] == "flag:1"


def test_zookeeper_names_the_cluster_instead_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", "environment:1")
    file = _file(tmp_path, "zookeeper=file:2181\n")
    for arguments in (["--zookeeper", "z:2181/kafka"], ["-X", "zookeeper=z:2181/kafka", "--config", file]):
        given = _cluster(*arguments)
        assert given.names_a_cluster
        assert given.where == "the brokers in ZooKeeper at z:2181/kafka"
        assert given.options(AdminConfig) == {"zookeeper": "z:2181/kafka", **_PATIENCE}
    both = _cluster("--zookeeper", "z:2181", "-b", "flag:1").options(AdminConfig)
    assert (both["zookeeper"], both["bootstrap_servers"]) == ("z:2181", "flag:1")


@pytest.mark.parametrize("where", ["-b", "-X bootstrap_servers", "bootstrap_servers of the --config file"])
@pytest.mark.parametrize("empty", ["", " ", " , "])
def test_a_name_that_is_empty_is_not_the_broker_of_this_machine(
    where: str, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", "environment:1")
    pair = f"bootstrap_servers={empty}"
    given = {"-b": ["-b", empty], "-X bootstrap_servers": ["-X", pair]}.get(
        where, ["--config", _file(tmp_path, pair)]
    )
    with pytest.raises(click.UsageError, match=f"^{where} is empty"):
        _cluster(*given).options(AdminConfig)


def test_an_empty_variable_is_not_the_broker_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", "")
    with pytest.raises(click.UsageError, match="PYKLIENT_BOOTSTRAP_SERVERS is empty"):
        _cluster().options(AdminConfig)
    assert _cluster("-b", "flag:1").servers == "flag:1"


_TEXTUAL = (
    str,
    str | None,
    bool,
    bool | None,
    str | Sequence[str],
    str | Assignor | Sequence[str | Assignor],
    str | Callable[[CorruptRecords], object],
)
_OBJECTS = {
    item.name
    for config in (ProducerConfig, ConsumerConfig)
    for item in fields(config)
    if item.metadata["choices"] is None and item.metadata["at_least"] is None and item.type not in _TEXTUAL
}


@pytest.mark.parametrize("where", ["line", "file"])
@pytest.mark.parametrize("name", sorted(_OBJECTS | {"key_decoder", "value_decoder"}))
def test_an_option_that_no_text_can_be_is_refused(name: str, where: str, tmp_path: Path) -> None:
    pair = f"{name.replace('_', '.')}=x"
    with pytest.raises(click.UsageError, match=f"^{name} cannot be given as text; "):
        _cluster(*(["-X", pair] if where == "line" else ["--config", _file(tmp_path, pair)]))


def test_what_python_takes_for_a_digit_is_no_number() -> None:
    for text in ("²", "--1"):
        with pytest.raises(ConfigurationError, match=f"linger_ms takes a whole number, not '{text}'"):
            _cluster("-X", f"linger_ms={text}")
    with pytest.raises(ConfigurationError, match="retries=-1 is out of range"):
        _cluster("-X", "retries=-1")
    assert _cluster("-X", "consumer_timeout_ms=-1").options(ConsumerConfig)["consumer_timeout_ms"] == -1


def test_text_becomes_what_the_option_takes() -> None:
    cluster = _cluster(
        "-X", "acks=1", "-X", "enable.idempotence=false", "-X", "linger_ms=0", "-X", "client.id=7"
    )
    options = cluster.options(ProducerConfig)
    assert options == {
        "bootstrap_servers": "localhost:9092",
        "max_block_ms": 15_000,
        **_PATIENCE,
        "acks": "1",
        "enable_idempotence": False,
        "linger_ms": 0,
        "client_id": "7",
    }
    assert ProducerConfig.from_options(options).acks_wire == 1


def test_a_file_has_comments_and_dots_and_options_of_other_clients(tmp_path: Path) -> None:
    file = _file(tmp_path, "\ufeff# ours\n! too\n\nacks = all\ngroup.id=g\nclient.id=me\n")
    assert _cluster("--config", file).options(AdminConfig) == {
        "bootstrap_servers": "localhost:9092",
        "client_id": "me",
        **_PATIENCE,
    }
    assert _cluster("--config", file).options(ConsumerConfig)["group_id"] == "g"


@pytest.mark.parametrize("where", ["line", "file"])
def test_an_option_that_nobody_has_is_refused_with_the_nearest(where: str, tmp_path: Path) -> None:
    given = ["-X", "client.idd=1"] if where == "line" else ["--config", _file(tmp_path, "client.idd=1")]
    with pytest.raises(ConfigurationError, match="did you mean 'client_id'"):
        AdminConfig.from_options(_cluster(*given).options(AdminConfig))


def test_an_option_of_another_client_is_passed_over() -> None:
    assert "linger_ms" not in _cluster("-X", "linger.ms=1").options(AdminConfig)


def test_what_the_command_says_wins_over_the_options_given() -> None:
    cluster = _cluster("-X", "group.id=file")
    assert cluster.options(ConsumerConfig, group_id="flag")["group_id"] == "flag"


@pytest.mark.parametrize("name", ["sasl_password", "sasl.password", "ssl.key.password"])
def test_a_password_on_the_line_is_refused_without_repeating_it(name: str) -> None:
    with pytest.raises(click.UsageError, match="must not be on a command line") as caught:
        _cluster("-X", f"{name}=hunter2")
    assert "hunter2" not in caught.value.format_message()


def test_a_password_comes_from_the_environment_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        _cluster("--config", _file(tmp_path, "sasl.password=a=b")).options(AdminConfig)["sasl_password"]
        == "a=b"
    )
    monkeypatch.setenv("PYKLIENT_SASL_PASSWORD", "hunter2")
    sasl = _cluster("-X", "security.protocol=SASL_SSL")
    assert sasl.options(AdminConfig)["sasl_password"] == "hunter2"


def test_a_password_in_the_environment_is_for_the_clusters_that_ask_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYKLIENT_SASL_PASSWORD", "hunter2")
    options = _cluster().options(AdminConfig)
    assert "sasl_password" not in options
    AdminConfig.from_options(options)


def test_the_file_of_a_java_client_works_here_too(tmp_path: Path) -> None:
    jaas = 'PlainLoginModule required username="ada" password="a=b";'
    file = _file(
        tmp_path,
        f"security.protocol=SASL_SSL\nsasl.jaas.config={jaas}\nssl.truststore.type=PEM\n"
        "client.dns.lookup=use_all_dns_ips\nmax.poll.records=5\n",
    )
    assert _cluster("--config", file).options(AdminConfig) == {
        "bootstrap_servers": "localhost:9092",
        "security_protocol": "SASL_SSL",
        "sasl_username": "ada",
        "sasl_password": "a=b",
        **_PATIENCE,
    }


def test_an_error_about_the_file_names_it_and_shows_no_password(tmp_path: Path) -> None:
    for text, message in (
        ("sasl.jaas.config=PlainLoginModule required password=hunter2;", "has no user and password"),
        ("ssl.truststore.type=JKS", "only PEM files are"),
        ("client.idd=1", "did you mean 'client_id'"),
        ("linger.ms=abc", "linger_ms takes a whole number"),
    ):
        file = _file(tmp_path, text)
        with pytest.raises(ConfigurationError, match=message) as caught:
            _cluster("--config", file)
        assert str(caught.value).startswith(f"the file {file} cannot be used: ")
        assert "hunter2" not in str(caught.value)


def test_a_jaas_line_on_the_command_line_is_refused_without_repeating_it() -> None:
    jaas = 'PlainLoginModule required username="ada" password="hunter2";'
    with pytest.raises(click.UsageError, match="must not be on a command line") as caught:
        _cluster("-X", f"sasl.jaas.config={jaas}")
    assert "hunter2" not in caught.value.format_message()


def test_a_property_of_java_on_the_line_has_no_effect_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    _cluster("-X", "max.poll.records=5")
    assert "-X max.poll.records has no effect on this command" in capsys.readouterr().err


def test_a_file_that_is_not_utf_8_says_so(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"client.id=\xff\n")
    with pytest.raises(click.UsageError, match=r"client\.properties is not UTF-8"):
        _cluster("--config", str(path))


def test_a_line_of_the_file_that_is_no_pair_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="name=value") as caught:
        _cluster("--config", _file(tmp_path, "sasl.password hunter2"))
    assert "hunter2" not in caught.value.format_message()
