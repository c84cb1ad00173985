"""What Scala's clients of Kafka 0.8.2.2 and 0.10.2.2 make of properties: the profiles must make the same of
them, except where a comment says why not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import ConfigurationError
from pyklient.properties.consumer_properties import CONSUMER_PROFILES
from pyklient.properties.producer_properties import PRODUCER_PROFILES, producer_properties
from pyklient.properties.profile import Profile, ProfileName
from tests.oracles.process import Oracle

pytestmark = pytest.mark.java

_RENAMED: Final = {
    "metadata.broker.list": "brokerList",
    "zookeeper.connect": "zkConnect",
    "zookeeper.session.timeout.ms": "zkSessionTimeoutMs",
    "zookeeper.connection.timeout.ms": "zkConnectionTimeoutMs",
    "zookeeper.sync.time.ms": "zkSyncTimeMs",
    "queued.max.message.chunks": "queuedMaxMessages",
}
_WITHOUT_GETTER: Final = ("callback.", "event.", "serializer.encoding")
_CONSUMER: Final = {"group.id": "g", "zookeeper.connect": "localhost:2181"}
_PRODUCER: Final = {"metadata.broker.list": "a:9092"}

CONSUMERS: Final[list[dict[str, str]]] = [
    {},
    {"auto.offset.reset": "smallest"},
    {"auto.offset.reset": "earliest"},
    {"auto.offset.reset": "Largest"},
    {"auto.commit.enable": "false"},
    {"auto.commit.enable": "True"},
    {"auto.commit.enable": "yes"},
    {"offsets.storage": "kafka"},
    {"offsets.storage": "KAFKA", "dual.commit.enabled": "false"},
    {"offsets.storage": "redis"},
    {"dual.commit.enabled": "true"},
    {"zookeeper.session.timeout.ms": "400"},
    {"zookeeper.session.timeout.ms": "400", "zookeeper.connection.timeout.ms": "500"},
    {"zookeeper.sync.time.ms": "77"},
    {"zookeeper.sync.time.ms": "77", "rebalance.backoff.ms": "88"},
    {"client.id": "billing-1"},
    {"client.id": "billing 1"},
    {"group.id": "a/b"},
    {"consumer.id": "one"},
    {"consumer.timeout.ms": "200"},
    {"consumer.timeout.ms": "-5"},
    {"socket.timeout.ms": "99", "fetch.wait.max.ms": "100"},
    {"socket.timeout.ms": "100", "fetch.wait.max.ms": "100"},
    {"fetch.message.max.bytes": "1k"},
    {"fetch.message.max.bytes": "+7"},
    {"fetch.message.max.bytes": "3000000000"},
    {"partition.assignment.strategy": "roundrobin"},
    {"exclude.internal.topics": "false"},
    {"external.anything": "1", "unknown.key": "2"},
]
"""Properties besides the needed ones."""

PRODUCERS: Final[list[dict[str, str]]] = [
    {},
    {"producer.type": "async"},
    {"producer.type": "both"},
    {"batch.num.messages": "11", "queue.buffering.max.messages": "10", "producer.type": "async"},
    {"batch.num.messages": "11", "queue.buffering.max.messages": "10"},
    {"batch.num.messages": "10", "queue.buffering.max.messages": "10", "producer.type": "async"},
    {"compression.codec": "gzip"},
    {"compression.codec": "2"},
    {"compression.codec": "LZ4"},
    {"compression.codec": "zstd"},
    {"compression.codec": "9"},
    {"compressed.topics": "a , b,"},
    {"request.required.acks": "-1"},
    {"request.required.acks": "2"},
    {"request.timeout.ms": "0"},
    {"serializer.class": "kafka.serializer.StringEncoder"},
    {
        "serializer.class": "kafka.serializer.StringEncoder",
        "key.serializer.class": "kafka.serializer.DefaultEncoder",
    },
    {"queue.enqueue.timeout.ms": "0"},
    {"topic.metadata.refresh.interval.ms": "-1"},
    {"client.id": "a_b.c-1"},
    {"client.id": "ä"},
    {"message.send.max.retries": "0"},
]
"""Properties besides the needed ones."""


STRICTER: Final = (
    # pyklient has no such assignor, and says so, where Kafka 0.8 silently uses another one.
    {"partition.assignment.strategy": "sticky"},
    # One fetcher for each broker fetches all partitions.
    {"num.consumer.fetchers": "2"},
    # A wait without end is no time-out.
    {"socket.timeout.ms": "0"},
)
"""Properties that Scala's consumer of 0.8 accepts, and pyklient does not."""


@dataclass(frozen=True)
class Release:
    """A release of Kafka, and the profile that behaves like it."""

    oracle: Oracle
    profile: ProfileName


@pytest.fixture(scope="module", params=[("0.8.2.2", "0.8"), ("0.10.2.2", "0.10")], ids=["0.8", "0.10"])
def release(request: pytest.FixtureRequest) -> Iterator[Release]:
    version, profile = request.param
    with Oracle(version, "PropertiesOracle.java") as oracle:
        yield Release(oracle, profile)


def scalas(release: Release, client: str, keys: Sequence[str], properties: Mapping[str, str]) -> list[str]:
    """Return the values that Scala's client has for *keys*, or one text about the error."""
    getters = ",".join(_getter(key) for key in keys)
    [answer] = release.oracle.ask(["\t".join((client, getters, *map("=".join, properties.items())))])
    return [answer] if answer.startswith("error") else answer.split("\t")[1:]


def ours(profile: Profile, keys: Sequence[str], properties: Mapping[str, str]) -> list[str]:
    """Return the values that *profile* has for *keys*, as the oracle writes them, or one text."""
    try:
        given = profile.read(properties)
        if profile.client == "Producer":
            ClassicProducerConfig(**producer_properties(properties, profile.name).options)
    except ConfigurationError:
        return ["error"]
    return [_shown(key, given[key]) for key in keys]


def _getter(key: str) -> str:
    first, *others = _RENAMED.get(key, key).split(".")
    return first + "".join(part.capitalize() for part in others)


def _shown(key: str, value: Any) -> str:
    if key == "consumer.id":
        return "None" if value is None else f"Some({value})"
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare(
    release: Release, client: str, profile: Profile, needed: Mapping[str, str], sets: Sequence[dict[str, str]]
) -> None:
    keys = [each.key for each in profile.properties if not each.key.startswith(_WITHOUT_GETTER)]
    assert len(keys) > 15
    differing = {}
    for extra in sets:
        properties = {**needed, **extra}
        expected, found = scalas(release, client, keys, properties), ours(profile, keys, properties)
        if expected != found and not (found == ["error"] and expected[0].startswith("error")):
            differing[str(extra)] = [
                (key, *pair) for key, *pair in zip(keys, expected, found, strict=False) if pair[0] != pair[1]
            ]
    assert differing == {}


def test_consumers_read_properties_as_scalas_do(release: Release) -> None:
    """Rows 25, 26 and 64."""
    profile = CONSUMER_PROFILES[release.profile]
    compare(release, "consumer", profile, _CONSUMER, CONSUMERS)
    for missing in _CONSUMER:
        compare(
            release, "consumer", profile, {key: _CONSUMER[key] for key in _CONSUMER if key != missing}, [{}]
        )


def test_producers_read_properties_as_scalas_do(release: Release) -> None:
    """Row 32."""
    profile = PRODUCER_PROFILES[release.profile]
    compare(release, "producer", profile, _PRODUCER, PRODUCERS)
    compare(release, "producer", profile, {}, [{}])


@pytest.mark.parametrize("properties", STRICTER, ids=str)
def test_what_only_scalas_consumer_accepts(release: Release, properties: dict[str, str]) -> None:
    given = _CONSUMER | properties
    assert ours(CONSUMER_PROFILES[release.profile], ["group.id"], given) == ["error"]
    if release.profile == "0.8":
        assert scalas(release, "consumer", ["group.id"], given) == ["g"]


def test_spaces_around_a_number_are_accepted_as_since_0_10(release: Release) -> None:
    given = _CONSUMER | {"fetch.message.max.bytes": " 7 "}
    assert ours(CONSUMER_PROFILES[release.profile], ["fetch.message.max.bytes"], given) == ["7"]
    [expected] = scalas(release, "consumer", ["fetch.message.max.bytes"], given)
    assert expected == ("7" if release.profile == "0.10" else "error\tNumberFormatException")
