"""A member of another client in a process of its own, which polls until it is told to leave.

    python -m tests.interop.polling_process 127.0.0.1:9092 kafka-python group topic client-id sticky

It prints the partition and the offset of each message.
"""

import sys
import threading

from tests.interop.peers import PEERS, Peer
from tests.servers.member_process import MemberProcess
from tools.repository import ROOT

__all__ = ["PollingProcess"]


class PollingProcess(MemberProcess):
    """A running member of *peer*, which no thread of the tests' own process delays."""

    def __init__(
        self, peer: Peer, bootstrap: str, group: str, topic: str, client_id: str, assignor: str
    ) -> None:
        self.messages: list[tuple[int, int]] = []
        """The partition and the offset of each message, in the order in which they came."""
        arguments = [bootstrap, peer.name, group, topic, client_id, assignor]
        super().__init__([sys.executable, "-m", "tests.interop.polling_process", *arguments], ROOT)

    def take(self, line: str) -> None:
        partition, offset = line.split()
        self.messages.append((int(partition), int(offset)))


def main() -> None:
    bootstrap, name, *where = sys.argv[1:]
    told = threading.Thread(target=sys.stdin.readline, daemon=True)
    told.start()
    peer = next(each for each in PEERS if each.name == name)
    with peer.member(bootstrap, *where) as member:
        while told.is_alive():
            for partition, offset, _ in member.poll():
                print(partition, offset, flush=True)


if __name__ == "__main__":
    main()
