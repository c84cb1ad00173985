"""The command line on a secured listener: options come from a file, the password from elsewhere, and it is
never shown."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName
from tests.servers.secure import PASSWORD, USER, SecureBroker


@pytest.fixture
def config(secure_kafka: SecureBroker, tmp_path: Path) -> str:
    """A file with all options except the password."""
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={secure_kafka.address('SECURE')}\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username={USER}\n"
        f"ssl.truststore.location={secure_kafka.certificates.authority}\n"
    )
    return str(path)


def test_a_secured_cluster_takes_a_file_of_options_and_a_password_from_the_environment(
    pyklient: Pyklient, config: str, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_name()
    monkeypatch.setenv("PYKLIENT_SASL_PASSWORD", PASSWORD)
    assert pyklient("topics", "create", topic, "--config", config).code == 0
    assert pyklient("produce", topic, "-q", "--config", config, stdin=b"secret enough\n").err == ""
    assert pyklient("consume", topic, "--to-end", "--config", config).out == b"secret enough\n"


def test_a_wrong_password_is_a_sentence_that_does_not_repeat_it(
    pyklient: Pyklient, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYKLIENT_SASL_PASSWORD", "battery-staple")
    done = pyklient("topics", "list", "--config", config)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert USER in done.err
    assert "battery-staple" not in done.err


def test_a_missing_password_says_what_is_missing(pyklient: Pyklient, config: str) -> None:
    done = pyklient("topics", "list", "--config", config)
    assert done.code == 2
    assert "needs sasl_username and sasl_password" in done.err
