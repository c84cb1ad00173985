"""The batches of a producer that a broker remembers: the same for the scripted broker, ours and Kafka."""

from pyklient.kernel import encode_batch
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from pyklient.protocol.records import NewRecord
from tests.broker.wire_client import WireClient
from tests.producer.script import TOPIC, ProduceBroker
from tests.servers.fixtures import NewTopic
from tests.servers.server import Server
from tests.system.test_wire_answers import connect, written

OUT_OF_ORDER, FENCED = 45, 47


def exchange(client: WireClient, topic: str) -> list[tuple[int, int]]:
    """Error code and offset of each answer, counted from the offset of the first batch."""
    identity = client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, 2)
    first: list[int] = []

    def sent(sequence: int, count: int = 1, epoch: int = 0) -> tuple[int, int]:
        records = [NewRecord(1000, None, b"%d" % number) for number in range(count)]
        batch = encode_batch(
            records, producer_id=identity.producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        answer = client.produce(topic, 0, batch, version=9)
        if not answer.error_code:
            first.append(answer.base_offset)
        return answer.error_code, answer.base_offset - first[0] if not answer.error_code else -1

    return [
        *(sent(number) for number in range(7)),  # 0: the first seven
        *(sent(number) for number in range(6, 1, -1)),  # 7: the last five again
        sent(1),  # 12: an older one
        sent(5, count=2),  # 13: the numbers of two, as one
        sent(8),  # 14: a gap
        sent(7),  # 15: in order
        sent(2),  # 16: now an older one too
        sent(0, epoch=1),  # 17: a new epoch, from the beginning
        sent(7),  # 18: the old epoch
        sent(2, epoch=1),  # 19: a gap in the new one
    ]


EXPECTED = [
    *((0, number) for number in range(7)),
    *((0, number) for number in range(6, 1, -1)),
    (OUT_OF_ORDER, -1),
    (OUT_OF_ORDER, -1),
    (OUT_OF_ORDER, -1),
    (0, 7),
    (OUT_OF_ORDER, -1),
    (0, 8),
    (FENCED, -1),
    (OUT_OF_ORDER, -1),
]


def test_a_broker_knows_the_last_five_batches_of_a_producer_when_they_come_again(
    any_broker: Server, new_topic: NewTopic
) -> None:
    topic = written(any_broker, new_topic())
    with connect(any_broker) as client:
        assert exchange(client, topic) == EXPECTED


def test_the_scripted_broker_knows_them_as_brokers_do() -> None:
    with ProduceBroker() as broker, WireClient(broker) as client:
        assert exchange(client, TOPIC) == EXPECTED
