"""The partitions that a member claims to own after a part of a handover has failed."""

import queue
import time
from collections.abc import Collection
from typing import Any

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignors.offered_assignors import ASSIGNORS
from pyklient.consumer.group.classic.handover import Handover
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import BrokerConnectionError
from pyklient.topic_partition import TopicPartition
from tests.consumer.group.classic.test_dialogues import stable

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


class ScriptedHandler:
    """An assignment handler whose ``assigned`` raises ``error`` if there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.owned: set[TopicPartition] = set()

    def assigned(self, partitions: Collection[TopicPartition], identity: MemberIdentity) -> None:
        if self.error is not None:
            raise self.error
        self.owned.update(partitions)

    def revoked(
        self, partitions: Collection[TopicPartition], timeout: float, identity: MemberIdentity | None
    ) -> None:
        self.owned.difference_update(partitions)


class NoHeartbeats:
    """The part of Heartbeats that a handover uses. None is due."""

    interval = 3.0
    due_at = time.monotonic() + 3600


class Open:
    """The part of a DialoguePlayer that a handover uses, while the client is open."""

    def check_open(self) -> None: ...


def test_a_member_does_not_claim_what_it_gave_back_although_it_could_not_begin_the_new_ones() -> None:
    member = stable(assignors=[ASSIGNORS["cooperative-sticky"]])
    dialogues: Any = Open()
    heartbeats: Any = NoHeartbeats()
    handler: Any = ScriptedHandler()
    config = ConsumerConfig(group_id="g")
    handover = Handover(config, member, dialogues, heartbeats, queue.SimpleQueue())
    handover.handler = handler
    handover.thread.thread.start()
    try:
        handover.pending = [ZERO, ONE]
        handover.assign(handover.pending)
        assert member.owned == {ZERO, ONE}
        handover.pending = [ONE, TWO]
        handler.error = BrokerConnectionError("no broker answers")
        handover.assign(handover.pending)
        assert handover.pending == [ONE, TWO], "the call is to be made again"
        assert member.owned == handler.owned == {ONE}, "the others may give the partition away at once"
        handler.error = None
        handover.assign(handover.pending)
        assert member.owned == handler.owned == {ONE, TWO}
    finally:
        handover.thread.end()
        handover.thread.thread.join(10)
