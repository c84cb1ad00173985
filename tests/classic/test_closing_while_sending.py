"""Closing a synchronous classic producer while another thread sends."""

import threading

import pytest

from pyklient.classic.classic_producer import ClassicProducer
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import KafkaTimeoutError
from tests.classic.send_scripts import Recorder
from tests.classic.test_callback_handler import messages


def test_close_of_a_busy_synchronous_producer_interrupts_the_send_and_closes_the_handler() -> None:
    class Interruptible(Recorder):
        def interrupt(self) -> None:
            self.record("interrupt")
            self.fails = True
            self.gate.set()

    handler = Interruptible()
    handler.gate.clear()
    producer = ClassicProducer(
        ClassicProducerConfig(metadata_broker_list="127.0.0.1:1"), event_handler=handler
    )
    raised: list[BaseException] = []

    def send() -> None:
        try:
            producer.send(*messages("1"))
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    handler.wait(1)
    with pytest.raises(KafkaTimeoutError, match="another thread was still sending"):
        producer.close(0.1)
    thread.join(30)
    assert len(raised) == 1
    assert handler.calls == ["handle 1", "interrupt", "close"]
    producer.close()
    assert handler.calls[-1] == "close"
    assert handler.calls.count("close") == 1


def test_the_thread_of_a_late_send_closes_the_event_handler() -> None:
    recorder = Recorder()
    recorder.gate.clear()
    producer = ClassicProducer(
        ClassicProducerConfig(metadata_broker_list="127.0.0.1:1"), event_handler=recorder
    )
    thread = threading.Thread(target=producer.send, args=messages("1"))
    thread.start()
    recorder.wait(1)
    with pytest.raises(KafkaTimeoutError, match="that thread closes the event handler"):
        producer.close(0)
    recorder.gate.set()
    thread.join(30)
    assert recorder.calls == ["handle 1", "close"]
