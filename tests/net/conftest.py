"""Fixtures of the network's tests."""

from pathlib import Path

import pytest

from tests.servers.tls import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates good and bad, made once."""
    directory: Path = tmp_path_factory.mktemp("tls") / "certificates"
    return Certificates(directory)
