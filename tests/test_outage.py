"""An outage in the log: its begin, few reminders, and its end, with the fields that structured logs get."""

import logging
from itertools import pairwise

import pytest

from pyklient.outage import Outage

LOG = logging.getLogger("pyklient.outages")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_logs_its_begin_its_end_and_a_reminder_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    outage = Outage(LOG, "broker 1", "broker_outage", clock=clock, broker=1)
    outage.ended()
    assert caplog.records == []
    for _ in range(70):
        outage.failed(OSError("cannot connect to broker 1"), "trying again")
        clock.now += 1
    outage.ended()
    outage.ended()
    assert [record.getMessage() for record in caplog.records] == [
        "cannot connect to broker 1; trying again",
        "broker 1: the outage goes on after 60 s and 61 attempts; trying again; the last failure: cannot "
        "connect to broker 1",
        "broker 1: the outage is over after 70.0 s and 70 failed attempts",
    ]
    began, goes_on, ended = (record.__dict__ for record in caplog.records)
    assert (began["event"], began["broker"]) == ("broker_outage_began", 1)
    assert (goes_on["event"], goes_on["attempts"], goes_on["seconds"]) == ("broker_outage_continues", 61, 60)
    assert (ended["event"], ended["attempts"], ended["seconds"]) == ("broker_outage_ended", 70, 70)


def test_reminders_become_rarer_but_not_rarer_than_one_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage(LOG, "broker 1", "broker_outage", clock=clock)
    for _ in range(24 * 3600):
        outage.failed(OSError("refused"), "trying again")
        clock.now += 1
    at = [round(record.__dict__["seconds"]) for record in caplog.records[1:]]
    assert at[:6] == [60, 180, 420, 900, 1860, 3780]
    assert {later - earlier for earlier, later in pairwise(at[6:])} == {3600}


def test_an_outage_ends_when_nothing_is_tried_any_more(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage(LOG, "fetches", "fetch_outage", clock=clock)
    outage.passed_by(5, "never begun")
    outage.failed(OSError("refused"), "trying again")
    clock.now += 4
    outage.passed_by(5, "too early")
    clock.now += 2
    outage.passed_by(5, "others lead the partitions")
    outage.passed_by(5, "ended already")
    assert [record.getMessage() for record in caplog.records[1:]] == [
        "fetches: the outage is over after 6.0 s and 1 failed attempt; others lead the partitions"
    ]


def test_a_second_outage_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(LOG, "commits", "auto_commit_outage")
    for _ in range(2):
        outage.failed(OSError("refused"), "trying again")
        outage.ended()
    events = [record.__dict__["event"] for record in caplog.records]
    assert events == ["auto_commit_outage_began", "auto_commit_outage_ended"] * 2
    assert caplog.records[0].getMessage() == "commits: refused; trying again"
