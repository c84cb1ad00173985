"""Ten faults in a chain of three stages with transactions; ``make chaos-transactions`` injects a hundred."""

from pathlib import Path

import pytest

from tests.run.seed import seed
from tests.servers.fixtures import NewName, StartReference
from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tools.transactions.arrivals import differences
from tools.transactions.run import chain_through_faults

_FAULTS = 10
_MESSAGES = 3_000
_RATE = 100
_SESSION_TIMEOUT_MS = 1_500


@pytest.mark.slow
def test_each_message_passes_a_chain_once_through_faults_of_the_reference_broker(
    start_reference: StartReference, new_name: NewName, tmp_path: Path
) -> None:
    _inject(start_reference(), new_name(), tmp_path)


@pytest.mark.long
def test_each_message_passes_a_chain_once_through_faults_of_a_cluster(
    kafka_cluster: KraftCluster, new_name: NewName, tmp_path: Path
) -> None:
    _inject(kafka_cluster, new_name(), tmp_path)


def _inject(server: KraftCluster | ReferenceBroker, name: str, directory: Path) -> None:
    problems = chain_through_faults(
        server,
        name,
        directory,
        seed=seed(),
        faults=_FAULTS,
        messages=_MESSAGES,
        rate=_RATE,
        session_timeout_ms=_SESSION_TIMEOUT_MS,
    )
    assert not problems, "\n".join(problems)


def test_what_is_lost_doubled_strange_or_out_of_order_is_seen() -> None:
    wanted = {b"a": [b"0>", b"1>", b"2>"], b"b": [b"0>"]}
    assert differences(wanted, wanted) == []
    assert differences(wanted, {b"a": [b"0>", b"2>", b"1>"], b"b": [b"0>"]}) == [
        "a: the messages are out of order"
    ]
    assert differences(wanted, {b"a": [b"0>", b"1>", b"1>", b"2>"]}) == [
        "a: 1 messages are there more than once, first 1>",
        "b: 1 messages are lost, first 0>",
    ]
    assert differences(wanted, {**wanted, b"c": [b"5"]}) == ["c: 1 messages were not sent, first 5"]
