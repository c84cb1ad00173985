"""SimpleConsumer from properties."""

import pytest

from pyklient import SimpleConsumer
from pyklient.consumer.simple.broker_consumer import BrokerConsumer
from pyklient.errors import ConfigurationError
from pyklient.properties.profile import ProfileName
from pyklient.properties.simple_consumer_properties import simple_consumer_options

NEEDED: dict[str, object] = {"host": "localhost", "port": "9092"}


@pytest.mark.parametrize("profile", ["0.7", "0.8", "0.10"])
def test_a_profile_makes_a_consumer_of_one_broker(profile: ProfileName) -> None:
    with SimpleConsumer.from_properties(NEEDED, profile) as consumer:
        assert isinstance(consumer, BrokerConsumer)
        assert "localhost:9092" in repr(consumer)


def test_without_a_profile_the_properties_are_those_of_javas_clients() -> None:
    with SimpleConsumer.from_properties({"bootstrap.servers": "localhost:1"}) as consumer:
        assert isinstance(consumer, SimpleConsumer)


def test_the_defaults_are_those_of_the_consumer_of_the_version() -> None:
    common = {
        "host": "localhost",
        "port": 9092,
        "request_timeout_ms": 30_000,
        "default_api_timeout_ms": 80_000,
        "receive_buffer_bytes": 65_536,
    }
    assert simple_consumer_options(NEEDED, "0.7") == common
    assert simple_consumer_options(NEEDED, "0.8") == common | {"client_id": ""}
    both = {"socket.buffersize": "7"}, {"socket.receive.buffer.bytes": "7"}
    for profile in ("0.7", "0.8"):
        for given in both:
            assert simple_consumer_options(NEEDED | given, profile)["receive_buffer_bytes"] == 7


@pytest.mark.parametrize(
    ("socket_timeout", "of_the_call"), [(1, 60_000), (60_000, 140_000), (2_147_483_647, 2_147_483_647)]
)
def test_a_call_has_time_to_send_a_request_twice(socket_timeout: int, of_the_call: int) -> None:
    """Each attempt has ``socket.timeout.ms``, and 10 s to open the connection."""
    options = simple_consumer_options(NEEDED | {"socket.timeout.ms": socket_timeout}, "0.8")
    assert options["default_api_timeout_ms"] == of_the_call
    with SimpleConsumer.from_properties(NEEDED | {"socket.timeout.ms": socket_timeout}, "0.8"):
        pass


def test_a_missing_or_wrong_property_is_an_error() -> None:
    for given, words in (
        ({"host": "localhost"}, "the property port is missing"),
        (NEEDED | {"port": "70000"}, "port=70000 is out of range"),
        (NEEDED | {"zk.connect": "a:2181"}, "bound to one broker; set host and port"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            simple_consumer_options(given, "0.7")
