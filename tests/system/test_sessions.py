"""Sessions that end soon (KIP-368): clients go on in new ones, and nothing is lost."""

from typing import Any

import pytest

from pyklient.protocol.messages import SaslAuthenticateRequest
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.secure import PASSWORD, SESSION_SECONDS, USER, SecureBroker
from tests.servers.topics import create_topic
from tools.faults.group import PARTITIONS, CommitWatch, Flow, Group, wait_for_all
from tools.faults.plan import FaultPlan
from tools.faults.producing import order_problems, stored_numbers
from tools.faults.proxy import FaultProxy

_SESSIONS = 30
"""Of all connections together: producer, fetcher and two members have five at the same time."""


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_producer_and_a_group_go_on_when_their_sessions_end(
    secure_kafka: SecureBroker, new_name: NewName, mechanism: str
) -> None:
    bootstrap = secure_kafka.bootstrap_servers
    topic, name = create_topic(bootstrap, new_name(), PARTITIONS), new_name()
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }
    with (
        FaultProxy(secure_kafka.address("SHORT"), FaultPlan({})) as proxy,
        Group(
            proxy.bootstrap_servers,
            name,
            topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
            **options,
        ) as group,
    ):
        watch = CommitWatch(bootstrap, name, group.handed_out)
        group.join()
        group.join()
        flow = Flow(proxy.bootstrap_servers, topic, linger_ms=0, **options)
        wait_until(
            lambda: proxy.requests[SaslAuthenticateRequest] > _SESSIONS, 20 * SESSION_SECONDS, "sessions"
        )
        stored = flow.stop()
        assert wait_for_all(group, stored) == []
        watch.stop()
    assert group.errors == []
    assert watch.problems == []
    sent = dict.fromkeys(range(PARTITIONS), len(stored) // PARTITIONS)
    assert order_problems(sent, stored_numbers(bootstrap, topic)) == []
    assert sorted(group.handed_out) == sorted(stored)
