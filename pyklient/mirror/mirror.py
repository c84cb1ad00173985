"""Mirror, which copies topics from one or several clusters to another cluster."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from pyklient import argument_checks
from pyklient.admin import Admin
from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig
from pyklient.config.option_checks import INT32_MAX
from pyklient.consumer.mirror_connector import MirrorConnector
from pyklient.consumer.topic_filters.topic_filter import TopicFilter, Whitelist
from pyklient.errors import ClosedError, ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.mirror.clusters import Cluster, known_options, options_of_cluster
from pyklient.mirror.group_translation import GroupTranslation
from pyklient.mirror.mirror_metrics import MirrorMetrics
from pyklient.mirror.mirror_task import MirrorTask
from pyklient.mirror.partition_syncs import PartitionSyncs
from pyklient.mirror.producer_record import Handler
from pyklient.mirror.rules import Rules
from pyklient.mirror.target_admin import TargetAdmin
from pyklient.mirror.target_topics import TargetTopics
from pyklient.producer.mirror_producer import MirrorProducer
from pyklient.producer.producer import Producer
from pyklient.protocol.records import Compression

__all__ = ["Mirror"]

_log = logging.getLogger("pyklient.mirror")

_CLOSE_TIMEOUT: Final = 60.0
"""The seconds for which ``run`` and ``close`` wait for the tasks to end."""

_OF_READING: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "earliest",
    "client_id": "pyklient-mirror",
    "isolation_level": "read_committed",
    "max_poll_interval_ms": INT32_MAX,
}
"""Default options of the consumers of a mirror."""
_OF_WRITING: Final[Mapping[str, Any]] = {"client_id": "pyklient-mirror", "delivery_timeout_ms": INT32_MAX}
"""Default options of the producer of a mirror. It waits without limit for a target cluster that cannot be
reached."""
_SET_BY_MIRROR: Final = (
    "consumer_timeout_ms",
    "enable_auto_commit",
    "group_id",
    "key_decoder",
    "key_encoder",
    "partitioner",
    "shallowiterator_enable",
    "value_decoder",
    "value_encoder",
)
"""The client options that a mirror sets itself. A program must not pass them."""


class Mirror:
    """Copies topics from one or several *sources* to the cluster *target*.

    ::

        mirror = Mirror("old:9092", "new:9092", "clicks|views.*", group_id="mirror")
        mirror.run()

    A cluster is given by its bootstrap servers, or by a mapping with the options of a client: those of
    ``ConsumerConfig`` for a source, and those of ``ProducerConfig`` for the target. *topics* is a Whitelist,
    a Blacklist, or the pattern of a Whitelist.

    Keys, values, headers and timestamps are copied as they are. With *keep_partitions*, a record goes to the
    partition that it has in the source cluster. Otherwise its key decides, and records without a key are
    spread over the partitions. With *create_topics*, topics are created in the target cluster as they are in
    the source cluster, and partitions are added when the source topic has more.

    In each source cluster, the mirror reads as a member of the group *group_id*. Several processes with the
    same group share the work. Offsets are committed in the source cluster at most once in *commit_interval*
    seconds, and only after the target cluster has confirmed the records. After a crash, the records since the
    last commit are copied again. A group without committed offsets begins at the oldest records, unless the
    options of the source have another ``auto_offset_reset``. Records of aborted and open transactions are not
    copied, unless the options of the source have ``isolation_level="read_uncommitted"``.

    If a record cannot be sent, the mirror ends with an error. If *abort_on_send_failure* is false, the record
    is logged, counted and dropped instead. ``handler(message)`` returns the records to send for a message, as
    ProducerRecords; by default, that is one copy.

    *groups* is a Whitelist, a Blacklist or the pattern of a Whitelist. Every *group_interval* seconds, the
    mirror translates the committed offsets of these groups, and commits them in the target cluster, so that
    the groups can continue there. This needs *keep_partitions*, one source and no handler.
    """

    def __init__(
        self,
        sources: Cluster | Sequence[Cluster],
        target: Cluster,
        topics: TopicFilter | str,
        *,
        group_id: str,
        keep_partitions: bool = False,
        create_topics: bool = True,
        handler: Handler | None = None,
        abort_on_send_failure: bool = True,
        commit_interval: float = 5.0,
        groups: TopicFilter | str | None = None,
        group_interval: float = 10.0,
    ) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"handler must be a function that takes a message, not {handler!r}")
        argument_checks.plain_function(handler, "handler")
        reading = {"group_id": argument_checks.text(group_id, "group_id"), "enable_auto_commit": False}
        every = [sources] if isinstance(sources, str | Mapping) else list(sources)
        if not every:
            raise ConfigurationError("sources is empty; pass the bootstrap servers of at least one cluster")
        self._sources = [{**_OF_READING, **_options(each, "a source"), **reading} for each in every]
        self._target = {**_OF_WRITING, **_options(target, "the target")}
        for options in self._sources:
            if not ConsumerConfig.from_options(options).check_crcs:
                raise ConfigurationError(
                    "check_crcs=False cannot be an option of a source, because the copies of damaged records "
                    "would get a correct checksum; remove it"
                )
        ProducerConfig.from_options(self._target)
        self._create_topics = argument_checks.flag(create_topics, "create_topics")
        self._rules = Rules(
            topics if isinstance(topics, TopicFilter) else Whitelist(topics),
            argument_checks.flag(keep_partitions, "keep_partitions"),
            handler,
            argument_checks.flag(abort_on_send_failure, "abort_on_send_failure"),
            argument_checks.pause(commit_interval, "commit_interval"),
            Compression.of(self._target["compression_type"]) if "compression_type" in self._target else None,
        )
        self._mirror_group = group_id
        self._groups = Whitelist(groups) if isinstance(groups, str) else groups
        self._group_interval = argument_checks.pause(group_interval, "group_interval")
        if self._groups is not None:
            self._check_groups()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._runner: threading.Thread | None = None
        self._tasks: list[MirrorTask] = []
        self._producer: Producer | None = None
        self._errors: list[BaseException] = []
        self._failure: Exception | None = None
        """The exception that ``run`` has raised."""

    def run(
        self, watch: Callable[[MirrorMetrics], object] | None = None, watch_interval: float = 10.0
    ) -> None:
        """Copy records until :meth:`close` is called in another thread, or until an exception interrupts this
        call, for example an exception that a signal handler raises.

        Every *watch_interval* seconds, ``watch(metrics)`` is called in this thread, with the result of
        :meth:`metrics`. Before this method returns, it waits for the records that were sent, commits their
        offsets and leaves the groups. Raises DeliveryError if a record could not be sent, the error of a
        client that cannot work, such as AuthenticationError, and the exception of the handler. Raises
        CommitError if not all records that were sent could be confirmed and committed in the end. This error
        is raised even in place of a KeyboardInterrupt or SystemExit. A mirror runs only once: a second call
        raises ClosedError.
        """
        if self._runner is not None or self._stopping.is_set():
            raise ClosedError("a Mirror runs only once, and this one has run or was closed; create a new one")
        self._runner = threading.current_thread()
        try:
            self._run(watch, argument_checks.pause(watch_interval, "watch_interval"))
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._ended.set()

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """End the mirror, and wait until :meth:`run` has returned, for *timeout* seconds at most.

        Raises the exception that ``run`` raises, and KafkaTimeoutError if ``run`` has not returned in time. A
        signal handler may call this method. In the thread of ``run``, this method does not wait.
        """
        seconds = argument_checks.seconds(timeout, "timeout")
        self._stopping.set()
        if self._runner is not None and self._runner is not threading.current_thread():
            if not self._ended.wait(seconds):
                raise KafkaTimeoutError(
                    f"the mirror has not ended within {seconds:g} s; it commits the offsets of the confirmed "
                    "records, and ends later"
                )
            if self._failure is not None:
                raise self._failure

    def metrics(self) -> MirrorMetrics | None:
        """Return the metrics of the mirror so far: records, bytes, rates and lag. Return None before
        :meth:`run` has begun. The call sends no request."""
        producer = self._producer
        if producer is None:
            return None
        tasks = list(self._tasks)
        return MirrorMetrics(
            tuple(task.connector.metrics() for task in tasks),
            producer.metrics(),
            sum(task.failures.dropped_count for task in tasks),
            len(tasks) == len(self._sources) and all(task.changes.has_assignment for task in tasks),
        )

    def _run(self, watch: Callable[[MirrorMetrics], object] | None, interval: float) -> None:
        admin = TargetAdmin(**known_options(AdminConfig, self._target))
        producer = self._producer = MirrorProducer(**self._target)
        targets = TargetTopics(admin, self._create_topics)
        threads: list[threading.Thread] = []
        try:
            syncs: PartitionSyncs | None = None
            for number, options in enumerate(self._sources):
                source = Admin(**known_options(AdminConfig, options))
                if self._groups is not None:
                    syncs = self._syncs(admin, producer, source)
                task = MirrorTask(
                    MirrorConnector(**options),
                    source,
                    producer,
                    targets,
                    self._rules,
                    syncs,
                    self._stopping,
                )
                self._tasks.append(task)
                name = f"pyklient-mirror-{number}"
                threads.append(threading.Thread(target=partial(self._run_task, task), name=name, daemon=True))
            if syncs is not None:
                translating = partial(self._translate_groups, syncs, admin)
                threads.append(
                    threading.Thread(target=translating, name="pyklient-mirror-groups", daemon=True)
                )
            for thread in threads:
                thread.start()
            while not self._stopping.wait(interval):
                if watch is not None and (found := self.metrics()) is not None:
                    watch(found)
        except Exception as error:
            self._errors.insert(0, error)
        finally:
            self._stopping.set()
            self._join(threads)
            self._close_target(producer, admin)
            for other in self._errors[1:]:
                _log.warning("the mirror has also failed with this error: %s", other)
            if self._errors:
                raise self._errors[0]

    def _run_task(self, task: MirrorTask) -> None:
        try:
            task.run()
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._stopping.set()

    def _syncs(self, admin: TargetAdmin, producer: Producer, source: Admin) -> PartitionSyncs:
        """Return the object that stores the offset syncs of this mirror: which offsets the copied records
        have in both clusters. *admin* and *producer* are clients of the target cluster, and *source* is one
        of the source cluster."""
        reading = known_options(ConsumerConfig, self._target)
        return PartitionSyncs(reading, self._mirror_group, admin, producer, source)

    def _translate_groups(self, syncs: PartitionSyncs, target: TargetAdmin) -> None:
        """Translate the offsets of groups until the mirror ends. An exception ends the mirror."""
        assert self._groups is not None
        try:
            with Admin(**known_options(AdminConfig, self._sources[0])) as source:
                translation = GroupTranslation(
                    source, target, self._groups, self._mirror_group, self._stopping
                )
                while not self._stopping.wait(self._group_interval):
                    translation.translate(syncs.latest)
        except BaseException as error:
            self._errors.append(error)
            self._stopping.set()

    def _check_groups(self) -> None:
        """Raise ConfigurationError if the offsets of groups cannot be translated with the other arguments."""
        if not self._rules.keep_partitions or self._rules.handler is not None:
            raise ConfigurationError(
                "a mirror with groups=… needs keep_partitions=True and no handler. Otherwise, a "
                "partition can have several counterparts in the target cluster"
            )
        if len(self._sources) > 1:
            raise ConfigurationError(
                "the argument groups needs exactly one source, because a group has one offset for each "
                "partition; run one mirror for each source"
            )
        if ProducerConfig.from_options(self._target).acks == 0:
            raise ConfigurationError(
                "the argument groups does not work with the option acks=0 of the target, because brokers "
                "then do not tell the offsets of the copied records; remove acks=0"
            )

    def _join(self, threads: Sequence[threading.Thread]) -> None:
        """Wait until *threads* have ended. If they do not end in time, add an error to those of the
        mirror."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self._errors.append(
                KafkaTimeoutError(
                    f"the mirror has not committed everything within {_CLOSE_TIMEOUT:g} s; the next run "
                    "copies the records since the last commit again"
                )
            )

    def _close_target(self, producer: Producer, admin: Admin) -> None:
        """Close the clients of the target cluster. Records that are not confirmed by now are not committed in
        the source cluster, so the next run copies them again."""
        try:
            producer.close(0)
        except KafkaError as error:
            self._errors.append(error)
        admin.close()


def _options(cluster: Cluster, what: str) -> dict[str, Any]:
    """Return the options of the client for *cluster*. Raises ConfigurationError if the mirror sets one of
    them itself. *what* names the cluster in the error message."""
    options = options_of_cluster(cluster, what)
    for name in _SET_BY_MIRROR:
        if name in options:
            raise ConfigurationError(
                f"{name} cannot be an option of {what}, because the mirror sets it itself; remove it"
            )
    return options
