"""pyklient's bytes compared with those of Kafka's own classes, message by message."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from pyklient.protocol.messages import (
    FetchResponse,
    HeartbeatRequest,
)
from pyklient.protocol.schema import ApiMessage
from tests.oracles.process import Oracle
from tests.protocol.definitions import KAFKAS, MESSAGES, definition
from tests.protocol.instances import random_message
from tests.run.seed import seed as run_seed

pytestmark = pytest.mark.java

_INSTANCES: Final = 100


@pytest.fixture(scope="module")
def seed() -> int:
    """The seed of all random messages of this run."""
    return run_seed()


@pytest.fixture(scope="module")
def oracles() -> Iterator[dict[str, Oracle]]:
    """A process for each Kafka version."""
    with ExitStack() as stack:
        yield {kafka: stack.enter_context(Oracle(kafka, "MessageOracle.java")) for kafka in KAFKAS}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_random_messages_of_every_version_have_kafkas_bytes_and_decode_back(
    cls: type[ApiMessage], oracles: dict[str, Oracle], seed: int
) -> None:
    found = []
    for version in range(cls.versions[0], cls.versions[1] + 1):
        found += _disagreements(cls, version, oracles, Random(f"{seed}/{cls.__name__}/{version}"))
    assert not found, f"--seed {seed}: {len(found)} messages, the first: {found[0]}"


def test_a_field_that_begins_a_version_too_late_is_noticed_in_that_version_alone(
    oracles: dict[str, Oracle], seed: int
) -> None:
    class Late(HeartbeatRequest):
        declared = (*HeartbeatRequest.declared[:3], replace(HeartbeatRequest.declared[3], since=4))

    assert _versions_that_disagree(Late, "HeartbeatRequest", oracles, seed) == {3}


def test_a_field_of_another_size_is_noticed(oracles: dict[str, Oracle], seed: int) -> None:
    class Wide(HeartbeatRequest):
        declared = tuple(
            replace(field, kind=FetchResponse.PartitionData.declared[2].kind)
            if field.name == "generation_id"
            else field
            for field in HeartbeatRequest.declared
        )

    assert _versions_that_disagree(Wide, "HeartbeatRequest", oracles, seed) == {0, 1, 2, 3, 4}


def _versions_that_disagree(
    cls: type[ApiMessage], name: str, oracles: dict[str, Oracle], seed: int
) -> set[int]:
    return {
        version
        for version in range(cls.versions[0], cls.versions[1] + 1)
        if _disagreements(cls, version, oracles, Random(f"{seed}/{name}/{version}"), name)
    }


def _disagreements(
    cls: type[ApiMessage], version: int, oracles: dict[str, Oracle], random: Random, name: str = ""
) -> list[str]:
    """Return the differences for random messages of *version*: other bytes than Kafka's, or another message
    after decoding."""
    name = name or cls.__name__
    messages, questions = [], []
    for _ in range(_INSTANCES):
        message, data = random_message(cls, version, random)
        messages.append(message)
        questions.append(json.dumps({"name": _java_name(cls, name), "version": version, "data": data}))
    ours = [b"".join(message.encode(version)) for message in messages]
    found = [
        f"{name} v{version} does not decode back: {message}"
        for message, encoded in zip(messages, ours, strict=True)
        if cls.decode(encoded, version) != message
    ]
    for kafka, oracle in oracles.items():
        if version not in definition(kafka, name).versions:
            continue
        found += [
            f"{name} v{version} in {kafka}: {message} is {encoded.hex()}, Kafka says {answer}"
            for message, encoded, answer in zip(messages, ours, oracle.ask(questions), strict=True)
            if encoded.hex() != answer
        ]
    return found


def _java_name(cls: type[ApiMessage], name: str) -> str:
    """Return the name of the generated Java class, which may end in "Data"."""
    return name if cls.api_key < 0 and name.startswith("Consumer") else f"{name}Data"
