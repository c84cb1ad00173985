"""A member whose call of stream() waits until the group has assigned its first partitions."""

import threading

import pytest

from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import connect


def test_the_log_says_that_a_new_member_waits_for_another_one(
    feed: Feed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delayed() -> list[str]:
        return [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "join_delayed"]

    topic, group = feed.topic(2, "a"), feed.name()
    with connect(feed, group, session_timeout_ms=20_000) as other:
        with connect(feed, group, session_timeout_ms=20_000) as first:
            loop = iter(first.stream(topic))
            assert next(loop).value == b"a"  # in hand, so that the group waits for this member
            assert delayed() == []
            monkeypatch.setattr("pyklient.consumer.group.classic.classic_membership._LONG_WAIT", 0.1)
            joining = threading.Thread(target=other.stream, args=(topic,))
            joining.start()
            wait_for(lambda: len(delayed()) == 1, "the warning")
        joining.join(30)
        assert not joining.is_alive()
    assert f"group {group}: this member has waited 0.1 s for its partitions" in delayed()[0]
    assert "session_timeout_ms" in delayed()[0]
