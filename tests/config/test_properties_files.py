"""Properties in files: what the clients' from_properties and the command line read."""

from pathlib import Path
from typing import Any

import pytest

from pyklient import ConfigurationError, ConsumerConnector, Producer, SimpleConsumer
from pyklient.config.properties_files import read_properties


def _file(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_has_a_property_in_each_line_that_is_no_comment(tmp_path: Path) -> None:
    path = _file(tmp_path, "\ufeff# the cluster\n! too\n\n client.id = a=b \nacks=all\\\n")
    assert read_properties(path) == {"client.id": "a=b", "acks": "all\\"}


def test_clients_read_their_properties_from_a_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "bootstrap.servers=127.0.0.1:1\nclient.id=of a file\n")
    with Producer.from_properties(path) as producer:
        assert producer._config.client_id == "of a file"
    with SimpleConsumer.from_properties(str(path)) as consumer:
        assert isinstance(consumer, SimpleConsumer)
    classic = _file(tmp_path, "metadata.broker.list=127.0.0.1:1\nproducer.type=async\n")
    Producer.from_properties(classic, "0.8").close()
    group = _file(tmp_path, "bootstrap.servers=127.0.0.1:1\ngroup.id=of a file\n")
    with ConsumerConnector.from_properties(str(group)) as connector:
        assert "of a file" in repr(connector)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.properties cannot be read: .*No such file"):
        Producer.from_properties(tmp_path / "missing.properties")
    path = _file(tmp_path, "sasl.password hunter2\n")
    with pytest.raises(
        ConfigurationError, match=r"client\.properties: each option must be name=value"
    ) as caught:
        Producer.from_properties(path)
    assert "hunter2" not in str(caught.value)
    path.write_bytes(b"client.id=\xff\n")
    with pytest.raises(ConfigurationError, match=r"client\.properties is not UTF-8"):
        Producer.from_properties(path)


@pytest.mark.parametrize("profile", [None, "0.8"])
@pytest.mark.parametrize("client", [ConsumerConnector, Producer, SimpleConsumer])
def test_other_objects_are_no_properties(client: Any, profile: str | None) -> None:
    with pytest.raises(TypeError, match=r"takes a mapping such as .*, or the path of a file, not 5"):
        client.from_properties(5, profile)


def test_a_property_of_a_producer_of_0_7_without_a_profile_names_the_profile() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'broker_list' of Producer; pyklient calls it .*profile='0\.7'"
    ):
        Producer.from_properties({"broker.list": "1:localhost:9092"})
