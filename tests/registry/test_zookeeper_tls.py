"""A session with a real ZooKeeper over TLS, with the certificates of both sides."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.config import AdminConfig
from pyklient.errors import ConfigurationError, RegistryConnectionError
from pyklient.registry.requests import Children, Create
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper
from tests.servers.reaper import Reaper
from tests.servers.tls import Certificates
from tests.servers.zookeeper import ZooKeeper as ZooKeeperServer

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    reaper = Reaper()
    server = ZooKeeperServer(tmp_path_factory.mktemp("zk") / "zookeeper", reaper, certificates=certificates)
    server.start()
    yield server
    server.stop()
    reaper.close()


def settings(server: ZooKeeperServer, truststore: Path, keystore: Path) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        address=server.secure_hosts, use_tls=True, truststore=str(truststore), keystore=str(keystore)
    )


def test_a_session_over_tls_works_with_certificates_that_both_sides_trust(
    server: ZooKeeperServer, certificates: Certificates
) -> None:
    session = ZooKeeper(settings(server, certificates.authority, certificates.client))
    session.ask(Create("/over-tls"), 10)
    assert "over-tls" in session.ask(Children("/"), 10)
    session.close()


def test_a_file_that_cannot_be_used_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for name in ("truststore", "keystore"):
        options = {"zookeeper": "z", "zookeeper_ssl_client_enable": True}
        option = f"zookeeper_ssl_{name}_location"
        settings = ZooKeeperSettings.of(AdminConfig.from_options({**options, option: str(empty)}))
        assert settings is not None
        with pytest.raises(ConfigurationError, match=f"{option}='{empty}' cannot be used"):
            ZooKeeper(settings)


@pytest.mark.parametrize(
    ("truststore", "keystore", "expected"),
    [("stranger", "client", "certificate verify failed"), ("authority", "uninvited", "could not be reached")],
)
def test_a_certificate_that_one_side_does_not_trust_is_an_error(
    server: ZooKeeperServer, certificates: Certificates, truststore: str, keystore: str, expected: str
) -> None:
    files = getattr(certificates, truststore), getattr(certificates, keystore)
    session = ZooKeeper(settings(server, *files))
    with pytest.raises(RegistryConnectionError, match=expected):
        session.ask(Children("/"), 1)
    session.close()
