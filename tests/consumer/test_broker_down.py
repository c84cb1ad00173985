"""Commits and closing while no broker answers."""

import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker import Broker
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import QUICK
from tests.consumer.group.test_rebalances import Holder

REFUSED = "cannot commit offsets of group .*: .* connection refused"


class Home:
    """A broker that is restarted on its port, and a connector that has read three messages from it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._broker = Broker(data_dir=path)
        self._broker.start()
        self._port = int(self._broker.bootstrap_servers.rpartition(":")[2])
        with Feed(self._broker) as feed:
            feed.topic(1, "a", "b", "c", name="t")
        options: dict[str, Any] = {**QUICK, "session_timeout_ms": 30_000, "enable_auto_commit": False}
        self.connector = ConsumerConnector(self._broker.bootstrap_servers, group_id="g", **options)
        self.stream = self.connector.stream("t")
        assert len(list(islice(self.stream, 3))) == 3

    def stop(self) -> None:
        self._broker.close()

    def restart(self) -> None:
        self._broker = Broker(data_dir=self._path, port=self._port)
        self._broker.start()

    def committed(self) -> list[int | None]:
        with Feed(self._broker) as feed:
            return feed.committed("g", "t")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.connector.close(timeout=1)
    home.stop()


def test_a_commit_without_a_broker_takes_the_time_given_and_names_the_refused_connection(home: Home) -> None:
    home.stop()
    with pytest.raises(KafkaTimeoutError, match=REFUSED):
        home.stream.commit_offsets(timeout=1)
    with pytest.raises(KafkaTimeoutError, match=REFUSED):
        home.connector.commit_offsets(timeout=1)
    with pytest.raises(KafkaTimeoutError, match=REFUSED):
        home.connector.commit_offsets({TopicPartition("t", 0): 1}, timeout=1)


def test_a_commit_behind_one_that_waits_for_a_broker_names_the_refused_connection_too(home: Home) -> None:
    home.stop()
    raised: list[KafkaError] = []

    def commit() -> None:
        try:
            home.connector.commit_offsets(timeout=30)
        except KafkaError as error:
            raised.append(error)

    first = threading.Thread(target=commit)
    first.start()
    wait_for(home.connector._commits._turn.locked, "the first commit to begin")
    wait_for(lambda: home.connector._store.unreachable() is not None, "a refused connection")
    with pytest.raises(KafkaTimeoutError, match=r"the previous commit has not ended; .* connection refused"):
        home.connector.commit_offsets(timeout=0.5)
    home.connector.close()  # which ends the first one too
    first.join(30)
    assert len(raised) == 1


def test_a_commit_waits_for_a_broker_that_comes_back(home: Home) -> None:
    home.stop()
    committer = threading.Thread(target=home.connector.commit_offsets, kwargs={"timeout": 60})
    committer.start()
    wait_for(lambda: home.connector._store.unreachable() is not None, "a refused connection")
    assert committer.is_alive()
    home.restart()
    committer.join(30)
    assert home.committed() == [3]


def test_closing_gives_up_soon_where_every_connection_is_refused(home: Home) -> None:
    home.stop()
    began = time.monotonic()
    home.connector.close(timeout=120)
    assert time.monotonic() - began < 30


def test_closing_waits_for_a_handler_in_another_thread_as_long_as_its_time_out_allows(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    connector = ConsumerConnector(
        feed.bootstrap_servers, group_id=group, **{**QUICK, "consumer_timeout_ms": -1}
    )
    holder = Holder(connector.stream(topic))
    closer = threading.Thread(target=connector.close, kwargs={"timeout": 30})
    closer.start()
    wait_for(lambda: "closed" in repr(connector), "the closing to begin")
    closer.join(0.5)
    assert closer.is_alive(), "it waits for the handler"
    holder.join()
    closer.join(30)
    assert feed.committed(group, topic) == [1]


@pytest.mark.parametrize("grouped", [True, False])
def test_closing_without_time_returns_though_a_handler_is_busy(feed: Feed, grouped: bool) -> None:
    topic = feed.topic(1, "a")
    group = feed.name() if grouped else None
    connector = ConsumerConnector(
        feed.bootstrap_servers, group_id=group, **{**QUICK, "consumer_timeout_ms": -1}
    )
    holder = Holder(connector.stream(topic))
    connector.close(timeout=0)
    assert not holder.go_on.is_set()
    holder.join()
