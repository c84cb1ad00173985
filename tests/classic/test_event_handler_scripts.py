"""The default event handler sends the requests that Scala's sends, in the same scripts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.partitioners import DefaultPartitioner, Partitioner
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import FailedToSendMessageError
from pyklient.properties.producer_properties import producer_properties
from tests.classic.event_handler_scripts import SCRIPTS
from tests.classic.scripted_cluster import Message, Script, ScriptedCluster
from tests.oracles.process import Oracle

pytestmark = pytest.mark.java

_SCALAS_NAMES: Final = {
    FailedToSendMessageError: "FailedToSendMessageException",
    ValueError: "IllegalArgumentException",
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("0.8.2.2", "EventHandlerOracle.java") as oracle:
        yield oracle


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_requests_and_the_outcomes_are_those_of_scala(script: Script, oracle: Oracle) -> None:
    with ScriptedCluster(script) as cluster:
        (line,) = oracle.ask([_question(script, _properties(script, cluster))])
        theirs = line.split("\t"), cluster.events
    with ScriptedCluster(script) as cluster:
        ours = _outcomes(script, _properties(script, cluster)), cluster.events
    assert ours == theirs


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
