"""The README names what pyklient lacks, and which other clients have it."""

import importlib
import importlib.metadata
import inspect
import re
import warnings
from typing import Any, Final

import confluent_kafka
import pytest

from pyklient import ConsumerConnector, KafkaStream, Producer
from pyklient.consumer.fetch import fetcher
from tools.repository import ROOT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's, for how it reads its own files
    _kafka: Any = importlib.import_module("kafka")
_aiokafka: Any = importlib.import_module("aiokafka")  # it has no types

_README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
_PEERS: Final = ("kafka-python", "aiokafka", "confluent-kafka")
_OURS: Final = [ConsumerConnector, KafkaStream, Producer]
_THEIRS: Final[dict[str, list[Any]]] = {
    "kafka-python": [_kafka.KafkaConsumer, _kafka.KafkaProducer],
    "aiokafka": [_aiokafka.AIOKafkaConsumer, _aiokafka.AIOKafkaProducer],
    "confluent-kafka": [confluent_kafka.Consumer, confluent_kafka.Producer],
}
_METHODS: Final = {
    "Seek in a running consumer": "seek",
    "Pause and resume partitions": "pause",
    "Partitions assigned by hand": "assign",
    "Handlers in several threads or processes": "parallel",
    "Metrics or statistics": "metrics",
    "Transactions": "begin_transaction",
}
_OPTIONS: Final = {"Metrics or statistics": "stats_cb", "Fetching from the nearest": "client.rack"}
"""Features that librdkafka has as an option, whose names it checks."""


def row(beginning: str) -> list[str]:
    """Return the cells of the row that begins with *beginning*, without the first cell."""
    (line,) = re.findall(rf"^\| {re.escape(beginning)}.*$", _README, flags=re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def librdkafka_has(option: str) -> bool:
    value: Any = print if option.endswith("_cb") else "x"
    try:
        confluent_kafka.Consumer({"group.id": "g", option: value}).close()
    except confluent_kafka.KafkaException:
        return False
    return True


def test_the_versions_named_are_those_that_the_tests_run_on() -> None:
    named = re.search(r"kafka-python ([\d.]+), aiokafka ([\d.]+) and confluent-kafka ([\d.]+)\.", _README)
    assert named is not None
    for peer, version in zip(_PEERS, named.groups(), strict=True):
        assert importlib.metadata.version(peer).startswith(f"{version}."), peer


@pytest.mark.parametrize("feature", [*_METHODS, "Fetching from the nearest"])
def test_what_is_missing_is_missing_and_what_is_there_is_there(feature: str) -> None:
    ours, *theirs = row(feature)
    method, option = _METHODS.get(feature, ""), _OPTIONS.get(feature, "")
    is_there = any(hasattr(each, method) for each in _OURS if method)
    # The option client_rack alone is not enough: assignors use it too. A fetch has to name the rack.
    is_there |= option == "client.rack" and "rack_id=" in inspect.getsource(fetcher)
    assert ours == "yes" if is_there else ours.startswith("not yet")
    for peer, said in zip(_PEERS, theirs, strict=True):
        assert said == ("yes" if peer_has(peer, method, option) else "no"), peer


def peer_has(peer: str, method: str, option: str) -> bool:
    if method and any(hasattr(each, method) for each in _THEIRS[peer]):
        return True
    if not option:
        return False
    if peer == "confluent-kafka":
        return librdkafka_has(option)
    return option.replace(".", "_") in inspect.signature(_THEIRS[peer][0].__init__).parameters or (
        option.replace(".", "_") in getattr(_THEIRS[peer][0], "DEFAULT_CONFIG", {})
    )
