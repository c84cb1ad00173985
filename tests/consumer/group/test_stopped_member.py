"""A member whose process is stopped for longer than its session, and runs again."""

import sys
import threading
import time

from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import connect
from tests.servers.member_process import MemberProcess

_BATCHES = 4


class Stopped(MemberProcess):
    """The program ``stopped_member``. ``seen`` has the offsets that it has printed, of partition 0, and
    ``got_at`` the times at which it got these messages."""

    def __init__(self, feed: Feed, group: str, topic: str) -> None:
        self.seen: list[int] = []
        self.got_at: list[float] = []
        super().__init__(
            [
                sys.executable,
                "-m",
                "tests.consumer.group.stopped_member",
                feed.bootstrap_servers,
                group,
                topic,
            ]
        )

    def take(self, line: str) -> None:
        partition, offset, got_at = line.split()
        assert partition == "0"
        self.got_at.append(float(got_at))
        self.seen.append(int(offset))


def test_a_woken_member_hands_out_nothing_that_another_member_has_got_meanwhile(feed: Feed) -> None:
    topic, group = feed.topic(1), feed.name()
    for _ in range(_BATCHES):
        feed.send(topic, ["x"] * 20_000)
    with Stopped(feed, group, topic) as stopped:
        wait_for(lambda: len(stopped.seen) > 100, "the first messages")
        with connect(feed, group, client_id="z", consumer_timeout_ms=-1) as other:
            stopped.pause()
            stream = other.stream(topic)  # returns when the group has removed the member that is stopped
            taken: list[int] = []
            reader = threading.Thread(target=lambda: taken.extend(each.offset for each in stream))
            reader.start()
            wait_for(lambda: taken and taken[-1] > stopped.seen[-1] + 1000, "the other member to be ahead")
            resumed_at = time.monotonic()
            stopped.resume()
            wait_for(lambda: "joins again" in stopped.log or "has removed" in stopped.log, "it to notice")
            wait_for(lambda: not other._ownership.rebalancing, "the rebalance")
        reader.join(30)
        # The member may have had one message in hand, which it prints only now. Even the time of this message
        # may be of now, if the member was stopped before it had read the clock.
        got = zip(stopped.seen, stopped.got_at, strict=False)
        assert [offset for offset, at in got if at > resumed_at and offset <= taken[-1]][1:] == []
