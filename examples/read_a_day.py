"""Read the messages of a topic between two points in time, without a group.

Run: pyklient broker &     then     python examples/read_a_day.py [host:port]
"""

import sys
from datetime import UTC, datetime, timedelta

from pyklient import Producer, read

TOPIC = "read-a-day"


def main(bootstrap_servers: str) -> None:
    """Write a message an hour for three days, then read the second day."""
    begin = datetime(2025, 3, 1, tzinfo=UTC)
    with Producer(bootstrap_servers) as producer:
        for hour in range(72):
            at = begin + timedelta(hours=hour)
            producer.send(TOPIC, at.isoformat().encode(), timestamp_ms=int(at.timestamp() * 1000))

    day = [
        message.value.decode()
        for message in read(
            bootstrap_servers, TOPIC, start=begin + timedelta(days=1), end=begin + timedelta(days=2)
        )
    ]
    print(day[0], "to", day[-1])
    print(f"ok: {len(day)} hours")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
