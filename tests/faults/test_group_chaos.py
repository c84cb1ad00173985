"""Ten events in a small group; ``make chaos-groups`` lets two hundred happen to twenty members."""

import pytest

from tests.run.seed import seed
from tests.servers.fixtures import NewName
from tests.servers.reference import ReferenceBroker
from tools.group_chaos.chaos import Chaos, Size

_EVENTS = 5
_SMALL = Size(
    members=3,
    topics=2,
    partitions=4,
    interval=0.05,
    session_ms=1_000,
    slow=1.5,
    burst=500,
    between=(0.05, 0.3),
    measured=1,
)


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_skips_nothing_and_hands_out_nothing_that_was_committed_whatever_happens_to_its_members(
    reference_broker: ReferenceBroker, new_name: NewName, assignor: str
) -> None:
    bootstrap = reference_broker.bootstrap_servers
    chaos = Chaos(bootstrap, new_name(), assignor, seed=seed(), size=_SMALL, say=print)
    problems = chaos.run(_EVENTS)
    assert not problems, "\n".join(problems)
