"""Dialogues, run with a list of responses and over a network that answers at once."""

import pytest

from pyklient.config import AdminConfig
from pyklient.errors import AuthenticationError, BrokerConnectionError, KafkaError, KafkaTimeoutError
from pyklient.net.backoff import Backoff
from pyklient.net.dialogue import ANY, Ask, Dialogue, Pause, Refresh, retried
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import HeartbeatRequest, HeartbeatResponse
from tests.net.lookups.played import cluster, played


def beat() -> Dialogue[HeartbeatResponse]:
    response: HeartbeatResponse = yield Ask(1, HeartbeatRequest())
    return response


def test_an_attempt_is_repeated_after_a_failure_that_may_pass_and_no_other() -> None:
    answer = HeartbeatResponse()
    response, steps = played(retried(beat), [KafkaTimeoutError("late"), answer])
    assert response is answer
    assert [type(step) for step in steps] == [Ask, Pause, Ask]
    assert [str(step.because) for step in steps if isinstance(step, Pause)] == ["late"]
    with pytest.raises(AuthenticationError):
        played(retried(beat), [AuthenticationError("no")])


def test_the_last_of_a_limited_number_of_attempts_raises_its_error() -> None:
    with pytest.raises(KafkaTimeoutError, match="second"):
        played(retried(beat, tries=2), [KafkaTimeoutError("first"), KafkaTimeoutError("second")])


class Instant(NetworkClient):
    """A client that answers at once without a network: with *failure* if given, otherwise with a
    heartbeat."""

    def __init__(self, failure: KafkaError | None = None, backoff: Backoff | None = None) -> None:
        super().__init__(AdminConfig())
        self.failure = failure
        self.pauses: list[float] = []
        self._retry = backoff or Backoff(0, 0)

    def ask(self, step: Ask, timeout: float) -> HeartbeatResponse:
        if self.failure is not None:
            raise self.failure
        return HeartbeatResponse()

    def refresh(self, step: Refresh, timeout: float) -> Metadata:
        return cluster({})

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_playing_returns_what_the_dialogue_returns() -> None:
    def dialogue() -> Dialogue[int]:
        metadata = yield Refresh(())
        yield Ask(ANY, HeartbeatRequest())
        yield Pause(0.25)
        return len(metadata.nodes)

    network = Instant()
    assert network.play(dialogue(), 1) == 2
    assert network.pauses == [0.25]


def test_a_pause_is_cut_short_where_the_time_allowed_ends_before_it() -> None:
    def dialogue() -> Dialogue[None]:
        yield Pause(60.0)

    network = Instant()
    network.play(dialogue(), 2)
    (pause,) = network.pauses
    assert 0 < pause <= 2


class NotedBackoff(Backoff):
    """A back-off without pauses that records the numbers of failures."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.asked: list[int] = []

    def pause(self, failures: int) -> float:
        self.asked.append(failures)
        return 0.0


def test_playing_counts_the_pauses_of_a_dialogue_for_its_back_off() -> None:
    def dialogue() -> Dialogue[None]:
        for _ in range(4):
            yield Ask(ANY, HeartbeatRequest())
            yield Pause()

    backoff = NotedBackoff()
    Instant(backoff=backoff).play(dialogue(), 10)
    assert backoff.asked == [1, 2, 3, 4]


def test_playing_gives_up_in_time_and_names_the_last_failure() -> None:
    closed: list[bool] = []

    def dialogue() -> Dialogue[None]:
        try:
            yield from retried(beat)
        finally:
            closed.append(True)

    network = Instant(BrokerConnectionError("broker 1 is down"), Backoff(0.01, 0.03))
    with pytest.raises(KafkaTimeoutError, match=r"within 0\.05 s; the last failure: broker 1 is down"):
        network.play(dialogue(), 0.05)
    assert closed == [True]
    assert 0.008 <= network.pauses[0] <= 0.012
    assert max(network.pauses) <= 0.036, "pauses grow to their limit, and end with the time allowed"


def test_a_failure_that_the_dialogue_does_not_catch_is_raised() -> None:
    def dialogue() -> Dialogue[None]:
        yield Ask(ANY, HeartbeatRequest())

    with pytest.raises(AuthenticationError):
        Instant(AuthenticationError("no")).play(dialogue(), 1)
