"""A member of a group as a program, which prints the partition, the offset and the time of each message that
it gets. The time is ``time.monotonic()``, in seconds.

    python -m tests.consumer.group.stopped_member localhost:9092 group topic

It runs on when standard input closes, until it is killed.
"""

import sys
import time

from pyklient import ConsumerConnector

_SWITCH_INTERVAL = 0.2


def main() -> None:
    bootstrap, group, topic = sys.argv[1:]
    with ConsumerConnector(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        heartbeat_interval_ms=100,
        session_timeout_ms=700,
    ) as connector:
        # A thread that hands out messages then runs for a long time before another thread can stop it.
        sys.setswitchinterval(_SWITCH_INTERVAL)
        for message in connector.stream(topic):
            got_at = time.monotonic()
            sys.stdout.write(f"{message.partition} {message.offset} {got_at}\n")
            sys.stdout.flush()
            for _ in range(2000):  # some work that does not let other threads run
                pass


if __name__ == "__main__":
    main()
