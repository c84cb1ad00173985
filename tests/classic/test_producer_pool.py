"""The connections of a classic producer: brokers that move, metadata, threads, forks and the end."""

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyklient.classic import producer_pool
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_pool import ProducerPool
from pyklient.classic.producer_request import ProducerRequest
from pyklient.classic.sync_producer import SyncProducer
from pyklient.errors import ClosedError, ForkError
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import ListOffsetsRequest, MetadataRequest, ProduceRequest, ProduceResponse
from tests.classic.forked_child import in_child, open_sockets
from tests.net.scripted import SILENCE, Addressed, ScriptedBroker
from tests.servers.process import wait_until


@pytest.fixture
def brokers() -> Iterator[list[ScriptedBroker]]:
    """Two brokers that confirm everything; broker 1 has moved from the first address to the second."""
    with ScriptedBroker() as before, ScriptedBroker() as after:
        for broker in (before, after):
            broker.on(ProduceRequest, confirmed)
        yield [before, after]


def confirmed(_request: ProduceRequest) -> ProduceResponse:
    partition = ProduceResponse.PartitionProduceResponse(index=0, error_code=0, base_offset=7)
    topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])
    return ProduceResponse(responses=[topic])


def endpoint(broker: ScriptedBroker | Addressed) -> Endpoint:
    return Endpoint(broker.node_id, broker.host, broker.port)


def pool_of(*known: ScriptedBroker, acks: int = 1) -> ProducerPool:
    options = ClassicProducerConfig(metadata_broker_list="127.0.0.1:1", request_required_acks=acks)
    pool = ProducerPool(options)
    pool.update(map(endpoint, known))
    return pool


def sender(producer: SyncProducer) -> Callable[[], Any]:
    return lambda: producer.multi_send([ProducerRequest("t", 0, [b"a"])])


def test_a_broker_that_moves_disturbs_no_request_and_no_thread_that_is_about_to_send(
    brokers: list[ScriptedBroker],
) -> None:
    before, after = brokers
    moved = threading.Event()

    def confirmed_later(request: ProduceRequest) -> ProduceResponse:
        assert moved.wait(30)
        return confirmed(request)

    before.on(ProduceRequest, confirmed_later)
    pool = pool_of(before)
    send = sender(pool.producer(1))
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send)
        wait_until(lambda: before.count(ProduceRequest) == 1, 60, "a request")
        pool.update([endpoint(after)])
        moved.set()
        (status,) = sending.result(30).values()
    assert status.error is None
    send()
    assert (before.count(ProduceRequest), after.count(ProduceRequest)) == (1, 1)
    pool.close()


def test_two_threads_that_learn_of_a_broker_at_once_leave_no_connection_open(
    brokers: list[ScriptedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[SyncProducer] = []
    pool = pool_of()

    class Slow(SyncProducer):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)
            if len(made) == 1:
                with ThreadPoolExecutor(1) as threads:
                    threads.submit(pool.update, [endpoint(brokers[0])]).result(30)

    monkeypatch.setattr(producer_pool, "SyncProducer", Slow)
    pool.update([endpoint(brokers[0])])
    pool.close()
    assert len(made) == 2
    for producer in made:
        with pytest.raises(ClosedError):
            sender(producer)()


def test_close_ends_a_request_for_metadata_and_no_other_broker_is_asked(
    brokers: list[ScriptedBroker],
) -> None:
    for broker in brokers:
        broker.on(MetadataRequest, lambda request: SILENCE)
    pool = pool_of()
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(pool.fetch_metadata, list(map(endpoint, brokers)), ["t"])
        wait_until(lambda: any(each.count(MetadataRequest) for each in brokers), 60, "a request")
        pool.close()
        with pytest.raises(ClosedError):
            asking.result(30)
    assert sum(each.count(MetadataRequest) for each in brokers) == 1


def test_a_closed_pool_asks_no_broker_for_metadata(brokers: list[ScriptedBroker]) -> None:
    pool = pool_of()
    pool.close()
    with pytest.raises(ClosedError):
        pool.fetch_metadata(list(map(endpoint, brokers)), ["t"])
    assert not any(each.accepted for each in brokers)


def test_a_child_process_closes_its_copies_of_the_sockets_and_cannot_send(
    brokers: list[ScriptedBroker],
) -> None:
    broker = brokers[0]
    pool = pool_of(broker)
    send = sender(pool.producer(1))
    send()
    assert open_sockets({broker.port})

    def check() -> None:
        nonlocal pool, send
        assert not open_sockets({broker.port})
        with pytest.raises(ForkError, match="belongs to the parent process"):
            send()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del pool, send
            gc.collect()
        assert not [each for each in caught if each.category is ResourceWarning]

    in_child(check)
    send()
    pool.close()
    assert broker.accepted == 1


@pytest.mark.timeout(60)
def test_an_interruption_ends_a_close_that_waits_until_the_broker_has_handled_its_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_pool, "_CLOSE_TIMEOUT", 600.0)
    with ScriptedBroker() as broker:
        broker.on(ProduceRequest, lambda _request: SILENCE)
        broker.on(ListOffsetsRequest, lambda _request: SILENCE)
        pool = pool_of(broker, acks=0)
        sender(pool.producer(broker.node_id))()
        with ThreadPoolExecutor() as threads:
            closing = threads.submit(pool.close)
            wait_until(lambda: broker.count(ListOffsetsRequest) == 1, 60, "a close that waits")
            pool.interrupt()
            closing.result(30)
