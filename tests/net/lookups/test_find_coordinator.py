"""FindCoordinator, with a list of responses."""

import pytest

from pyklient.errors import BrokerConnectionError, BrokerError
from pyklient.net.dialogue import ANY, Ask, Pause, Refresh
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.net.lookups.played import cluster, played

_COORDINATOR_LOADING = 14


def test_the_coordinator_is_asked_for_until_it_is_there() -> None:
    loading = FindCoordinatorResponse(error_code=_COORDINATOR_LOADING)
    node, steps = played(
        find_coordinator("g"),
        [BrokerConnectionError("gone"), loading, FindCoordinatorResponse(node_id=2), cluster({})],
    )
    assert node == 2
    asks = [step for step in steps if isinstance(step, Ask)]
    assert all(step.to == ANY and step.max_version == 3 for step in asks)
    assert [step.request for step in asks] == [FindCoordinatorRequest(key="g")] * 3
    reasons = [str(step.because) for step in steps if isinstance(step, Pause)]
    assert "gone" in reasons[0]
    assert "cannot find the coordinator of 'g'" in reasons[1]


def test_a_coordinator_unknown_to_the_metadata_is_refreshed_for() -> None:
    found = FindCoordinatorResponse(node_id=3, host="h3", port=9)
    alone, whole = cluster({}), cluster({}, nodes=(1, 2, 3))
    node, steps = played(find_coordinator("g"), [found, alone, alone, found, alone, whole])
    assert node == 3
    assert [type(step) for step in steps] == [Ask, Refresh, Refresh, Pause, Ask, Refresh, Refresh]


def test_a_refusal_to_coordinate_is_raised() -> None:
    with pytest.raises(BrokerError, match="coordinator of 'g'") as caught:
        played(find_coordinator("g"), [FindCoordinatorResponse(error_code=30)])
    assert caught.value.name == "GROUP_AUTHORIZATION_FAILED"
