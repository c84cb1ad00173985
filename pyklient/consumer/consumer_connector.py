"""ConsumerConnector, the client that makes streams of messages and commits their offsets."""

import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import NoReturn, Self, Unpack

from pyklient import argument_checks
from pyklient.at_exit import call_at_exit
from pyklient.config import DEFAULT_SERVERS, ConsumerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ConsumerOptions
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.membership_and_offset_store import choose_coordination
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.offsets.offset_committer import OffsetCommitter
from pyklient.consumer.owned_partitions import Ownership
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.stream_creation import StreamCreation
from pyklient.consumer.topic_filter import TopicFilter
from pyklient.errors import ClosedError, ConfigurationError, ForkError, MessageStreamsExistError
from pyklient.net.network_client import NetworkClient
from pyklient.serialization import Decoder
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["ConsumerConnector"]

log = logging.getLogger("pyklient.consumer")

_CLOSE_TIMEOUT = 15.0
_EXIT_TIMEOUT = 5.0


class ConsumerConnector:
    """A client that reads topics, alone or as a member of a group.

    ::

        with ConsumerConnector("localhost:9092", group_id="billing") as connector:
            for message in connector.stream("clicks"):
                handle(message)

    With ``group_id`` the partitions are shared with the group's other members, and offsets are committed to
    Kafka: by ``commit_offsets()``, and automatically while ``enable_auto_commit`` is on. An automatic commit
    never covers a message that a loop still has in hand. At a clean end of the ``with`` block, everything
    that was handed out is committed. If an exception ends the block, the message in hand is not committed.

    Without ``group_id`` all partitions are read, beginning at ``auto_offset_reset``, and nothing is
    committed.

    Several threads may use a connector at the same time; each stream belongs to one thread. The options are
    those of ``ConsumerConfig``.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._config = ConsumerConfig.from_options(by_option_name(ConsumerConfig, bootstrap_servers, options))
        self._client = NetworkClient(self._config)
        self._fetchers = FetcherManager(self._client, self._config)
        self._membership, self._store = choose_coordination(self._client, self._config)
        self._ownership = Ownership()
        self._listener: ConsumerRebalanceListener | None = None
        self._creation = StreamCreation(self._config, self._fetchers.restart)
        self._streams: list[StreamCore] = []
        self._handler: AssignmentHandler | None = None
        client = self._client
        self._commits = OffsetCommitter(
            self._ownership,
            self._store,
            self._streams,
            lambda topic: client.metadata.partition_count(topic),
        )
        self._created = False
        self._closed = False
        self._closing = threading.Lock()
        self._closer: threading.Thread | None = None
        self._gone = threading.Event()
        self._forked = False
        _open.add(self)
        # What is registered last runs first: a broker in this process that was started before still serves.
        call_at_exit(_close_all)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<ConsumerConnector of group {self._config.group_id!r}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ConsumerConnector cannot be pickled: it holds connections and threads. Create it where it is "
            "used, from the same options"
        )

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._forked or self._handler is None:
            return
        # The garbage collector may run in any thread, whatever lock that holds: no more than a message.
        let_go = partial(self._fetchers.abandon, self._client.close)
        if not self._membership.abandon(let_go):
            let_go()
        elif self._config.group_id is not None:
            _leaving.add(self._membership)
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(count_in_hand=error is None)

    def set_rebalance_listener(self, listener: ConsumerRebalanceListener) -> None:
        """Call the methods of *listener* at each rebalance. Raises MessageStreamsExistError if streams
        exist."""
        if self._created:
            raise MessageStreamsExistError(
                "set the rebalance listener before the connector makes its streams"
            )
        for method in ("before_releasing_partitions", "before_starting_fetchers"):
            if not callable(getattr(listener, method, None)):
                raise TypeError(
                    f"listener must be a ConsumerRebalanceListener; {listener!r} has no method {method}()"
                )
        self._listener = listener

    def create_message_streams(
        self,
        topic_streams: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """Make several streams for each topic, e.g. ``{"clicks": 2}``. Return the streams of each topic.

        The connector joins its group first. The partitions of a topic are divided evenly between its streams,
        of which there may be 10,000 at most; streams without partitions wait. A topic that does not exist yet
        is read as soon as it exists. Streams can be made once per connector: a second call, of this method or
        of :meth:`stream`, raises MessageStreamsExistError.
        """
        choice = self._creation.by_topic(topic_streams, key_decoder, value_decoder)
        self._create(choice)
        return {
            topic: [KafkaStream(core, self._commit_stream) for core in cores]
            for topic, cores in choice.named.items()
        }

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[KafkaStream]:
        """Make *num_streams* streams that together read all topics that a Whitelist or a Blacklist selects.

        The streams begin to read topics that are created later, and stop reading topics that are deleted. If
        no topic is selected, the streams wait. The filter does not see the topics in which brokers keep their
        own data, unless ``exclude_internal_topics`` is false. The rules of :meth:`create_message_streams`
        hold.
        """
        choice = self._creation.by_filter(topic_filter, num_streams, key_decoder, value_decoder)
        self._create(choice)
        return [KafkaStream(core, self._commit_stream) for core in choice.shared]

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> KafkaStream:
        """Make one stream of all messages of *topics*, under the rules of :meth:`create_message_streams`.

        With *pattern* instead of topics, the stream reads all topics whose whole name matches the regular
        expression, as with a :class:`Whitelist` and :meth:`create_message_streams_by_filter`.
        """
        choice = self._creation.one(topics, pattern, key_decoder, value_decoder)
        self._create(choice)
        return KafkaStream(choice.streams[0], self._commit_stream)

    def commit_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit the positions of the streams, or exactly *offsets* (those of the next messages to read).

        Without *offsets*, the message that a loop has got last is committed too, unless another thread is
        handling it. Raises CommitError if some partitions were not committed, for instance because another
        member owns them now; all others are committed. Raises KafkaTimeoutError with the last failure after
        *timeout* seconds (None: ``default_api_timeout_ms``).
        """
        within = self._commit_timeout(timeout)
        if offsets is None:
            self._commits.commit(self._streams, within)
        else:
            self._commits.commit_these(argument_checks.positions(offsets, "offsets"), within)

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """End all streams, commit what was handed out (with ``enable_auto_commit``), and leave the group.

        This takes about *timeout* seconds at most, and less if no broker can be reached.

        A loop in another thread may finish its message first. The last 10 s of *timeout* (but at most two
        thirds of it) are kept for committing and leaving, so the loop has 5 s by default. A message that is
        still in hand after that is not committed. A loop ends when it asks for its next message.

        A further call does nothing, but waits while another thread closes the connector. On a thread for
        which that other thread waits, a further call returns at once. A rebalance listener may call this
        method: the connector then closes after the listener has returned.
        """
        self._close(count_in_hand=True, timeout=argument_checks.seconds(timeout, "timeout"))

    shutdown = close

    def _create(self, choice: StreamChoice) -> None:
        """Begin to read the streams of *choice*. Return when partitions are assigned. Close the connector if
        that fails."""
        self._check_open()
        if self._created:
            raise MessageStreamsExistError(
                "this connector has already made its streams; create another connector for other topics"
            )
        self._created = True
        self._streams.extend(choice.streams)
        handler = AssignmentHandler(
            self._config,
            choice,
            self._fetchers,
            self._ownership,
            self._store,
            self._commits,
            self._listener,
        )
        try:
            self._fetchers.start()
            self._handler = handler
            self._membership.start(choice.subscription, handler)
        except BaseException:
            self._close(count_in_hand=False)
            raise

    def _commit_stream(self, stream: StreamCore, timeout: float | None) -> None:
        self._commits.commit([stream], self._commit_timeout(timeout))

    def _commit_timeout(self, timeout: float | None) -> float:
        """Return the time-out of a commit in seconds. Raise an error if this connector cannot commit."""
        self._check_open()
        if self._config.group_id is None:
            raise ConfigurationError("offsets can be committed only for a group; set group_id")
        if timeout is None:
            return self._config.default_api_timeout_ms / 1000
        return argument_checks.seconds(timeout, "timeout")

    def _check_open(self) -> None:
        if self._forked:
            raise ForkError(
                "this ConsumerConnector was made before a fork and belongs to the parent process; "
                "create a new one in the child"
            )
        if self._closed:
            raise ClosedError("this ConsumerConnector has been closed; create a new one")

    def _close(self, *, count_in_hand: bool, timeout: float = _CLOSE_TIMEOUT) -> None:
        if self._forked:
            self._closed = True
            return
        if not self._closing.acquire(blocking=False):  # for good: a connector is closed once
            self._wait_until_gone(count_in_hand, timeout)
            return
        self._closer, self._closed = threading.current_thread(), True
        _open.discard(self)
        if self._membership.runs_here():
            self._end_later(count_in_hand, timeout)
            return
        try:
            self._end(count_in_hand, time.monotonic() + timeout)
        finally:
            self._gone.set()

    def _end(self, count_in_hand: bool, deadline: float) -> None:
        try:
            if self._handler is not None:
                left = max(0.0, deadline - time.monotonic())
                self._handler.close(count_in_hand=count_in_hand, timeout=left)
                self._membership.leave(max(0.1, deadline - time.monotonic()))
        finally:
            self._client.close()
            self._fetchers.close(max(0.1, deadline - time.monotonic()))
            self._membership.join(max(0.1, deadline - time.monotonic()))
        if self._handler is not None and self._handler.auto_commit:
            self._commits.log_uncommitted()

    def _end_later(self, count_in_hand: bool, timeout: float) -> None:
        """Close this connector after its rebalance listener, which has called ``close``, has returned."""
        client, gone = self._client, self._gone

        def let_go() -> None:
            client.close()
            gone.set()

        if self._handler is not None:
            self._handler.close(count_in_hand=count_in_hand, timeout=timeout)
        if not self._membership.abandon(let_go):
            let_go()

    def _wait_until_gone(self, count_in_hand: bool, timeout: float) -> None:
        """Wait while another thread closes the connector. Return at once if this thread closes it."""
        if threading.current_thread() is self._closer or self._membership.runs_here():
            return
        if count_in_hand:
            for stream in self._streams:
                stream.end()  # whose message this thread has in hand is not waited for: it is done with
        self._gone.wait(timeout)


_open: "weakref.WeakSet[ConsumerConnector]" = weakref.WeakSet()
_leaving: "weakref.WeakSet[Membership]" = weakref.WeakSet()
"""The memberships of connectors that were dropped without being closed. A membership is in this set as long
as its thread runs."""


def _close_all() -> None:
    """At exit, close the connectors that are still open, without committing messages in hand.

    Then wait until the connectors that were dropped have committed and left their groups. The warnings come
    last, because a warning raises an exception if warnings are errors.
    """
    left_open = {connector: repr(connector) for connector in list(_open)}
    for connector, name in left_open.items():
        try:
            connector._close(count_in_hand=False, timeout=_EXIT_TIMEOUT)
        except Exception as error:
            log.warning("at the end of the program, %s could not be closed properly: %s", name, error)
    deadline = time.monotonic() + _EXIT_TIMEOUT
    for membership in list(_leaving):
        membership.join(max(0.0, deadline - time.monotonic()))
    for name in left_open.values():
        warnings.warn(f"{name} was left open; use it in a with block", ResourceWarning, stacklevel=1)


def _mark_forked() -> None:
    for connector in list(_open):
        connector._forked = True
    _open.clear()
    _leaving.clear()


os.register_at_fork(after_in_child=_mark_forked)
