"""Rebalances while records flow and automatic commits run, without any fault."""

import random
import time

import pytest

from tests.system.flowing_group import FlowingGroup

pytestmark = pytest.mark.slow


def test_members_that_come_and_go_hand_out_each_record_once_and_commit_none_before(
    flowing_group: FlowingGroup,
) -> None:
    dice = random.Random(1)
    for _ in range(12):
        flowing_group.members.change(dice)
        time.sleep(dice.uniform(0.1, 0.6))  # records flow
    flowing_group.check_each_record_once()
