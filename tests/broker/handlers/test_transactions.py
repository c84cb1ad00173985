"""Requests about transactions, in old and new versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.node_state import NodeState
from pyklient.broker.transactions.marker_writer import MarkerWriter
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.broker.several_nodes import SeveralNodes
from tests.broker.transactional_requests import Transactions
from tests.broker.wire_client import DEADLINE, WireClient
from tests.servers.process import wait_until

READ_COMMITTED = 1


def last_stable_offset(client: WireClient, isolation_level: int = READ_COMMITTED, timestamp: int = -1) -> int:
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name="clicks", partitions=[asked])],
    )
    return client.ask(request, ListOffsetsResponse).topics[0].partitions[0].offset


def committed_offset(client: WireClient, version: int, *, stable: bool) -> tuple[int, int]:
    if version < 8:
        request = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name="clicks", partition_indexes=[0])],
            require_stable=stable,
        )
        one = client.ask(request, OffsetFetchResponse, version).topics[0].partitions[0]
        return one.error_code, one.committed_offset
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name="clicks", partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    request = OffsetFetchRequest(groups=[group], require_stable=stable)
    several = client.ask(request, OffsetFetchResponse, version).groups[0].topics[0].partitions[0]
    return several.error_code, several.committed_offset


def test_version_2_adds_partitions_as_it_produces_and_gets_a_new_epoch_at_the_end(
    transactions: Transactions,
) -> None:
    code, first = transactions.init()
    assert (code, first[1]) == (0, 0)
    assert transactions.send(first) == (0, 0)
    found = transactions.described()
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert [(each.topic, each.partitions) for each in found.topics] == [("clicks", [0])]
    code, second = transactions.end(first)
    assert (code, second) == (0, (first[0], 1))
    assert transactions.end(first) == (0, second), "the response was lost"
    assert transactions.described().transaction_state == "CompleteCommit"
    late = ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactions.send(first)[0] == late, "a request that was under way when the transaction ended"
    assert transactions.send(second) == (0, 2)
    assert transactions.end(first)[0] == ErrorCode.PRODUCER_FENCED
    assert transactions.end(second, commit=False) == (0, (first[0], 2))
    assert transactions.end((first[0], 2))[0] == ErrorCode.INVALID_TXN_STATE
    assert transactions.end((first[0], 2), commit=False) == (0, (first[0], 3))


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_version_1_must_add_a_partition_before_it_produces(
    transactions: Transactions, version: int, code: ErrorCode
) -> None:
    _, producer = transactions.init(version=4)
    assert transactions.send(producer, version=version)[0] == code
    assert transactions.add(producer, 0) == [0]
    assert transactions.send(producer, version=version) == (0, 0)
    assert transactions.end(producer, version=4)[0] == 0
    assert transactions.send(producer, version=version)[0] == code
    assert last_stable_offset(transactions.client) == 2


def test_records_of_a_transaction_need_a_transactional_id_that_is_known(transactions: Transactions) -> None:
    _, producer = transactions.init()
    assert (
        transactions.send(producer, transactional_id=None)[0]
        == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert transactions.send(producer, transactional_id="other")[0] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transactions.send((producer[0], 5))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert last_stable_offset(transactions.client) == 0


def test_no_partition_is_added_if_one_does_not_exist(transactions: Transactions) -> None:
    _, producer = transactions.init()
    assert transactions.add(producer, 0, 7) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert transactions.described().transaction_state == "Empty"


def test_brokers_add_and_check_the_partitions_of_several_transactions(transactions: Transactions) -> None:
    _, producer = transactions.init()
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="clicks", partitions=[0, 1])
    codes = []
    for verify_only, version in ((True, 4), (True, 5), (False, 5), (True, 5)):
        each = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id="orders",
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=[topic],
        )
        [answer] = transactions.client.ask(
            AddPartitionsToTxnRequest(transactions=[each]), AddPartitionsToTxnResponse, version
        ).results_by_transaction
        codes.append({one.partition_error_code for one in answer.topic_results[0].results_by_partition})
    assert codes == [{ErrorCode.INVALID_TXN_STATE}, {ErrorCode.TRANSACTION_ABORTABLE}, {0}, {0}]


def test_a_fenced_producer_is_told_so_as_its_version_knows_it(transactions: Transactions) -> None:
    _, old = transactions.init()
    transactions.add(old, 0)
    assert transactions.init()[0] == ErrorCode.CONCURRENT_TRANSACTIONS, "the open transaction is aborted"
    assert transactions.init()[0] == 0
    for version, code in (
        (1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.PRODUCER_FENCED),
        (5, ErrorCode.PRODUCER_FENCED),
    ):
        assert transactions.end(old, version=version)[0] == code
    assert transactions.add(old, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert transactions.add(old, 0, version=3) == [ErrorCode.PRODUCER_FENCED]
    assert transactions.init(old, version=3)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactions.init(old, version=5)[0] == ErrorCode.PRODUCER_FENCED
    assert transactions.add_group(old) == ErrorCode.PRODUCER_FENCED


def test_time_outs_and_transactional_ids_must_be_valid(
    transactions: Transactions, client: WireClient
) -> None:
    for timeout_ms in (0, -1, 900_001):
        assert transactions.init(timeout_ms=timeout_ms)[0] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert transactions.init(timeout_ms=900_000)[0] == 0
    assert Transactions(client, "").init()[0] == ErrorCode.INVALID_REQUEST
    assert Transactions(client, "new").end((1, 0))[0] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert Transactions(client, "new").described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("version", [7, 9])
def test_pending_offsets_are_unstable_until_the_transaction_ends(
    transactions: Transactions, version: int
) -> None:
    client = transactions.client
    _, producer = transactions.init()
    assert transactions.commit_offset(producer, 10) == 0
    assert transactions.described().topics[0].topic == OFFSETS_TOPIC
    assert committed_offset(client, version, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert committed_offset(client, version, stable=False) == (0, -1)
    _, producer = transactions.end(producer)
    assert committed_offset(client, version, stable=True) == (0, 10)
    assert transactions.commit_offset(producer, 20) == 0
    transactions.end(producer, commit=False)
    assert committed_offset(client, version, stable=True) == (0, 10)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_version_1_must_add_a_group_before_it_commits_offsets(
    transactions: Transactions, version: int, code: ErrorCode
) -> None:
    _, producer = transactions.init()
    assert transactions.commit_offset(producer, 10, version=version) == code
    assert transactions.add_group(producer) == 0
    assert transactions.commit_offset(producer, 10, version=version) == 0
    stale = {"generation_id": 3, "member_id": "gone"}
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert transactions.commit_offset(producer, 99, version=version, **stale) == unknown
    assert transactions.end(producer, version=4)[0] == 0
    assert committed_offset(transactions.client, 9, stable=True) == (0, 10)


def test_a_fetch_lists_the_aborted_transactions_of_its_records(transactions: Transactions) -> None:
    client = transactions.client
    _, producer = transactions.init()
    for commit in (False, True, False):
        transactions.send(producer)
        _, producer = transactions.end(producer, commit=commit)
    transactions.send(producer)
    assert last_stable_offset(client) == 6
    assert last_stable_offset(client, 0) == 7
    assert last_stable_offset(client, timestamp=1000) == 0
    found = []
    for start, level in ((0, READ_COMMITTED), (2, READ_COMMITTED), (0, 0)):
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=start, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_bytes=1 << 20,
            isolation_level=level,
            topics=[FetchRequest.FetchTopic(topic="clicks", partitions=[wanted])],
        )
        [data] = client.ask(request, FetchResponse, 12).responses[0].partitions
        listed = data.aborted_transactions
        found.append(listed if listed is None else [each.first_offset for each in listed])
        assert (data.last_stable_offset, data.high_watermark) == (6, 7)
    assert found == [[0, 4], [4], None]


@contextmanager
def markers_fail(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no marker be written, as if the disk were full."""

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(MarkerWriter, "write", fail)
        yield


@pytest.mark.parametrize("restarts", [False, True])
def test_a_decision_holds_if_the_markers_cannot_be_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> None:
    # Without a restart, the next check writes the markers.
    interval_ms = 3_600_000 if restarts else 20

    def started() -> Broker:
        return Broker(
            data_dir=tmp_path, transaction_abort_timed_out_transaction_cleanup_interval_ms=interval_ms
        )

    with started() as broker, WireClient(broker) as client:
        broker.create_topic("clicks", 2)
        transactions = Transactions(client)
        _, producer = transactions.init()
        transactions.send(producer)
        with markers_fail(monkeypatch):
            assert transactions.end(producer) == (0, (producer[0], 1))
            assert transactions.described().transaction_state == "PrepareCommit"
            assert last_stable_offset(client) == 0
            busy = ErrorCode.CONCURRENT_TRANSACTIONS
            assert transactions.end(producer)[0] == busy
            assert transactions.send((producer[0], 1))[0] == busy
            assert transactions.init()[0] == busy
        if not restarts:
            wait_until(
                lambda: transactions.described().transaction_state == "CompleteCommit",
                DEADLINE,
                "the markers are written",
            )
    with started() as broker, WireClient(broker) as client:
        transactions = Transactions(client)
        assert transactions.described().transaction_state == "CompleteCommit"
        assert last_stable_offset(client) == 2
        assert transactions.send((producer[0], 1)) == (0, 2)


def test_transactional_ids_that_are_not_used_are_deleted(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, WireClient(broker) as client:
        kept = Transactions(client, "kept")
        kept.add_group(kept.init()[1])
        Transactions(client, "gone").init()
    with (
        Broker(
            data_dir=tmp_path,
            transactional_id_expiration_ms=1,
            transaction_remove_expired_transaction_cleanup_interval_ms=1,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=20,
        ) as broker,
        WireClient(broker) as client,
    ):
        gone = Transactions(client, "gone")
        not_found = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        wait_until(lambda: gone.described().error_code == not_found, DEADLINE, "the id is deleted")
        assert Transactions(client, "kept").described().transaction_state == "Ongoing"


def test_a_transaction_may_span_several_nodes(tmp_path: Path) -> None:
    with SeveralNodes(tmp_path / "data", 3) as cluster:
        node = cluster.nodes[0]
        cluster.call(lambda: node.controller.create_topic("clicks", 3, {}))

        def coordinator() -> NodeState:
            leader_id = node.controller.transaction_partition("orders").leader_id
            return next(each for each in cluster.nodes if each.node_id == leader_id)

        home = cluster.call(coordinator)
        other = next(each for each in cluster.nodes if each is not home)
        with WireClient(home.endpoint) as client, WireClient(other.endpoint) as stranger:
            transactions = Transactions(client)
            assert Transactions(stranger).init()[0] == ErrorCode.NOT_COORDINATOR
            _, producer = transactions.init()
            assert transactions.add(producer, 0, 1, 2) == [0, 0, 0]
            assert transactions.end(producer, version=4)[0] == 0
        for index, each in enumerate(cluster.nodes):
            assert each.logs.by_partition["clicks", index].end_offset == 1, "each partition has a marker"


def test_requests_about_a_transactional_id_that_is_not_loaded_yet_get_the_error_of_kafka(
    tmp_path: Path,
) -> None:
    with (
        SeveralNodes(tmp_path / "data", 1) as cluster,
        WireClient(cluster.nodes[0].endpoint) as client,
    ):
        assert Transactions(client).init()[0] == 0
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with (
        SeveralNodes(tmp_path / "data", 1, load=False) as cluster,
        WireClient(cluster.nodes[0].endpoint) as client,
    ):
        transactions = Transactions(client)
        assert transactions.init()[0] == loading
        assert transactions.described().error_code == loading
        assert client.ask(ListTransactionsRequest(), ListTransactionsResponse).error_code == loading
        cluster.load_groups()
        wait_until(lambda: transactions.described().error_code != loading, DEADLINE, "the id is loaded")
        assert transactions.init()[1][1] == 1
