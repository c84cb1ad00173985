"""The attempts to rebalance: their number, the pauses, and the error after the last one."""

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.zookeeper.attempts import Attempts
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.errors import KafkaTimeoutError

CONFIG = ConsumerConfig.from_options(
    {"group_id": "g", "rebalance_max_retries": 2, "rebalance_backoff_ms": 60_000}
)


def test_the_error_gives_the_reason_of_the_last_attempt() -> None:
    attempts, member = Attempts(CONFIG), ZooKeeperMember("g", "g_a", "range", waits_for="/t/0 (g_b-0)")
    attempts.begin()
    attempts.failure = KafkaTimeoutError("no answer")
    assert str(attempts.error(member)).endswith("in 1 attempt. The last attempt failed with: no answer")
    attempts.begin()
    assert "in 2 attempts, because other members have not given their partitions back: /t/0 (g_b-0)." in str(
        attempts.error(member)
    )


def test_the_pause_after_the_last_attempt_is_as_long_as_all_of_them() -> None:
    attempts = Attempts(CONFIG)
    attempts.begin()
    assert not attempts.over
    assert (attempts.pause(), attempts.duration) == (60, 60)
    assert 50 < attempts.wait < 60
    attempts.begin()
    assert attempts.over
    assert attempts.pause() == 120
    attempts.begin_round()
    assert not attempts.over
