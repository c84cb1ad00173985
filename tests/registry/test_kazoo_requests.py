"""The number of requests that wait for their answers at the same time, and the end of their wait."""

from typing import Any

from pyklient.registry.kazoo_requests import AnswerDeadline, KazooRequests
from pyklient.registry.requests import Read
from tests.servers.process import wait_until


class Client:
    """A session that answers a request when somebody waits for the answer. It counts those in flight."""

    client_id = None

    def __init__(self) -> None:
        self.in_flight = 0
        self.most = 0

    def get_async(self, path: str, watch: object) -> "Result":
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        return Result(self, path)


class Result:
    owner_session_id = None
    version = czxid = mzxid = 0

    def __init__(self, client: Client, path: str) -> None:
        self.client, self.path = client, path

    def get(self, timeout: float) -> tuple[bytes, "Result"]:
        self.client.in_flight -= 1
        return self.path.encode(), self


def test_the_number_of_requests_in_flight_is_limited() -> None:
    client: Any = Client()
    names = [str(number) for number in range(1000)]
    requests = KazooRequests(client, "ZooKeeper", None)
    answers = requests.carry_out([Read(name) for name in names], None, AnswerDeadline(1))
    assert [node.content.decode() for node in answers] == names
    assert (client.most, client.in_flight) == (200, 0)


def test_an_answer_moves_the_deadline_only_if_it_is_per_answer() -> None:
    fixed, moving = AnswerDeadline(60), AnswerDeadline(60, per_answer=True)
    wait_until(lambda: max(fixed.left, moving.left) < 59.99, 60, "some milliseconds later")
    fixed.answered()
    moving.answered()
    assert fixed.left < 59.99 < moving.left
