"""The demo's data, its counting, and the job itself on a part of the data."""

import json
from collections import Counter

import pytest

from pyklient.admin import PartitionLag
from pyklient.broker import Broker
from pyklient.cli.demo.flights import Flights
from pyklient.cli.demo.job import Outcome
from pyklient.cli.demo.tally import Seen, Tally, fingerprint, merge
from pyklient.kernel import Message
from pyklient.topic_partition import TopicPartition
from tests.cli.conftest import Pyklient


def _message(offset: int, key: bytes, value: bytes, partition: int = 0) -> Message:
    return Message("flights", partition, offset, 0, 0, key, value, ())


def _tally(*pairs: tuple[bytes, bytes]) -> Tally:
    tally = Tally()
    for key, value in pairs:
        tally.add(key, fingerprint(key, value))
    return tally


def test_the_data_are_the_flights_of_2013_with_missing_values_as_null() -> None:
    flights = Flights(limit=1_000)
    listed = list(flights)
    assert flights.count == len(listed) == 1_000
    assert Flights().count == 336_776
    key, value = listed[0]
    assert key == b"UA"
    first = json.loads(value)
    assert (first["carrier"], first["flight"], first["distance"], first["dest"]) == ("UA", 1545, 1400, "IAH")
    assert b" " not in value
    assert len(first) == 19
    late = next(json.loads(value) for _, value in listed if b"null" in value)
    assert None in late.values()
    assert flights.airlines["UA"] == "United Air Lines Inc."


def test_order_and_readers_do_not_matter_to_the_count() -> None:
    sent = _tally((b"UA", b"1"), (b"UA", b"2"), (b"AA", b"3"))
    one, two = Seen(), Seen()
    one.add([_message(1, b"UA", b"2")])
    two.add([_message(0, b"AA", b"3", partition=1), _message(0, b"UA", b"1")])
    read, again, changed = merge([one, two])
    assert all(sent.agrees(read, key) for key in (b"UA", b"AA"))
    assert (again.total(), changed) == (0, 0)


def test_a_message_delivered_again_is_counted_once_and_shown() -> None:
    one, two = Seen(), Seen()
    one.add([_message(0, b"UA", b"1"), _message(0, b"UA", b"1")])
    two.add([_message(0, b"UA", b"1")])
    read, again, changed = merge([one, two])
    assert read.counts[b"UA"] == 1
    assert again[b"UA"] == 2
    assert changed == 0


@pytest.mark.parametrize(
    "read",
    [
        [],
        [_message(0, b"UA", b"2")],
        [_message(0, b"AA", b"1")],
        [_message(0, b"UA", b"1"), _message(1, b"UA", b"1")],
    ],
    ids=["lost", "other value", "other key", "stored twice"],
)
def test_what_is_lost_changed_or_stored_twice_does_not_agree(read: list[Message]) -> None:
    sent = _tally((b"UA", b"1"))
    seen = Seen()
    seen.add(read)
    assert not sent.agrees(merge([seen])[0], b"UA")


def test_one_offset_that_comes_back_different_is_noticed() -> None:
    one, two = Seen(), Seen()
    one.add([_message(0, b"UA", b"1")])
    two.add([_message(0, b"UA", b"2")])
    assert merge([one, two])[2] == 1


def test_no_byte_moves_between_key_and_value_unseen() -> None:
    assert fingerprint(b"UA", b"1") != fingerprint(b"U", b"A1")


def _outcome(sent: Tally, read: Tally, *, stored: int = 2, committed: int = 2, changed: int = 0) -> Outcome:
    return Outcome(
        topic="t",
        sent=sent,
        read=read,
        again=Counter(),
        changed=changed,
        by_reader=(1, 1),
        lags={TopicPartition("t", 0): PartitionLag(committed, stored)},
        stored=stored,
        produce_seconds=1.0,
        read_seconds=0.0,
    )


def test_the_job_holds_when_all_came_through_and_is_committed() -> None:
    sent = _tally((b"UA", b"1"), (b"AA", b"2"))
    outcome = _outcome(sent, _tally((b"AA", b"2"), (b"UA", b"1")))
    assert outcome.holds
    assert (outcome.lost, outcome.lag) == (0, 0)


def test_the_job_does_not_hold_where_anything_is_missing_or_wrong() -> None:
    sent = _tally((b"UA", b"1"), (b"AA", b"2"))
    lost = _outcome(sent, _tally((b"UA", b"1")))
    assert not lost.holds
    assert "1 lost" in lost.what_is_wrong()
    assert "AA" in lost.what_is_wrong()
    assert not _outcome(sent, _tally((b"UA", b"1"), (b"AA", b"3"))).holds
    assert not _outcome(sent, sent, changed=1).holds
    assert not _outcome(sent, sent, committed=1).holds
    assert not _outcome(sent, sent, stored=3, committed=3).holds
    assert not _outcome(sent, _tally((b"UA", b"1"), (b"AA", b"2"), (b"ZZ", b"3"))).holds


def test_the_demo_counts_every_flight_on_the_cluster_it_is_given(pyklient: Pyklient, broker: Broker) -> None:
    done = pyklient("demo", "--flights", "20000", "-b", broker.bootstrap_servers)
    assert done.code == 0, done.err
    assert "20,000 in, 20,000 out, 0 lost" in done.text
    assert "lag 0" in done.text
    assert "United Air Lines" in done.text
    assert pyklient("topics", "list").text == ""


def test_the_demo_brings_its_own_broker_and_speaks_json(
    pyklient: Pyklient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cluster that a shell is set up for is not one to put flights on.
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    done = pyklient("demo", "--flights", "5000", "--json")
    result = json.loads(done.out)
    assert done.code == 0
    assert result["holds"]
    assert (result["produced"], result["consumed"], result["lost"], result["lag"]) == (5000, 5000, 0, 0)
    assert len(result["by_reader"]) == 3
    assert all(result["by_reader"]), "the third came in time to read something"
    assert sum(carrier["produced"] for carrier in result["carriers"].values()) == 5000


def test_the_demos_help_says_whose_broker_it_takes(pyklient: Pyklient) -> None:
    text = " ".join(pyklient("demo", "--help").text.split())
    assert "[a new broker in this process]" in text
    assert "[PYKLIENT_BOOTSTRAP_SERVERS; else localhost:9092]" not in text
    others = " ".join(pyklient("topics", "list", "--help").text.split())
    assert "[PYKLIENT_BOOTSTRAP_SERVERS; else localhost:9092]" in others
