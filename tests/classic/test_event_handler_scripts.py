"""The default event handler sends the requests that Scala's sends, in the same scripts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.classic.partitioners import DefaultPartitioner, Partitioner
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import FailedToSendMessageError
from pyklient.kernel import KeyedMessage
from pyklient.properties.producer_properties import producer_properties
from tests.classic.event_handler_scripts import SCRIPTS
from tests.classic.scripted_cluster import Message, Script, ScriptedCluster
from tests.oracles.process import Oracle

_SCALAS_NAMES: Final = {
    FailedToSendMessageError: "FailedToSendMessageException",
    ValueError: "IllegalArgumentException",
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("0.8.2.2", "EventHandlerOracle.java") as oracle:
        yield oracle


@pytest.mark.java
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_requests_and_the_outcomes_are_those_of_scala(script: Script, oracle: Oracle) -> None:
    with ScriptedCluster(script) as cluster:
        (line,) = oracle.ask([_question(script, _properties(script, cluster))])
        theirs = line.split("\t"), cluster.events
    with ScriptedCluster(script) as cluster:
        ours = _outcomes(script, _properties(script, cluster)), cluster.events
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("row 36: one partition has another leader", "metadata 0,1 metadata 0"),
        (
            "row 37: three retries make four attempts",
            "metadata 0,1 metadata 0,1 metadata 0,1 metadata 0,1 metadata",
        ),
        ("row 37: no retry makes one attempt", "metadata 0,1 metadata 0"),
        ("row 41: an encoder fails in an asynchronous producer", "metadata 1 0"),
        ("a leader is missing at first", "metadata 1 metadata metadata 0"),
        ("an answer lacks a partition", "metadata 0,1 metadata 0,1"),
        ("all topics are compressed", "metadata 0=2,1=2"),
        ("only some topics are compressed", "metadata 0,0=1"),
    ],
)
def test_the_requests_are_those_that_scala_sends_without_running_scala(name: str, expected: str) -> None:
    (script,) = [each for each in SCRIPTS if each.name == name]
    with ScriptedCluster(script) as cluster:
        _outcomes(script, _properties(script, cluster))
        assert " ".join(map(_shown, cluster.events)) == expected


def _shown(event: Any) -> str:
    """Return the partitions of a produce request, each with its codec if it is compressed."""
    if not isinstance(event[0], int):
        return "metadata"
    produced = [each for topic in event[2].values() for each in topic]
    return ",".join(
        f"{each.partition}={each.codec}" if each.codec else f"{each.partition}" for each in produced
    )


def _properties(script: Script, cluster: ScriptedCluster) -> dict[str, str]:
    return {"metadata.broker.list": cluster.address, "retry.backoff.ms": "10", **script.properties}


def _question(script: Script, properties: Mapping[str, str]) -> str:
    batches = [" ".join(",".join(message) for message in batch) for batch in script.batches]
    listed = ";".join(f"{key}={value}" for key, value in properties.items())
    return "\t".join(["handle", listed, script.partitioner, *batches])


def _outcomes(script: Script, properties: Mapping[str, str]) -> list[str]:
    """Send the batches of *script*. Return "ok", or the name of Scala's exception, for each."""
    options = dict(producer_properties(properties, "0.8").options)
    partitioner = _partitioner(script.partitioner)
    config = ClassicProducerConfig(**{**options, "encoder": _encode, "partitioner": partitioner})
    handler = DefaultEventHandler(config)
    outcomes = []
    for batch in script.batches:
        try:
            handler.handle([_message(each) for each in batch])
            outcomes.append("ok")
        except (FailedToSendMessageError, ValueError) as error:
            outcomes.append(_SCALAS_NAMES[type(error)])
    handler.close()
    return outcomes


def _message(message: Message) -> KeyedMessage:
    topic, key, part_key, value = message
    return KeyedMessage(topic, value, key=key or None, part_key=part_key or None)


def _encode(text: str) -> bytes:
    """Encode *text* as the oracle's encoder does, which fails for the text "bad"."""
    if text == "bad":
        raise ValueError("the encoder fails")
    return text.encode()


def _partitioner(name: str) -> Partitioner:
    return DefaultPartitioner() if name == "default" else _FixedPartitioner(name)


class _FixedPartitioner:
    """Returns the number in its name, or crashes, as the oracle's partitioner does."""

    def __init__(self, name: str) -> None:
        self._name = name

    def partition(self, key: Any, partition_count: int, /) -> int:
        if self._name == "crash":
            raise RuntimeError("the partitioner crashes")
        return int(self._name)
