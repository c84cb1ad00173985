"""Translates the committed offsets of groups from a source cluster to a mirrored cluster, so that the groups
can continue there."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyklient import argument_checks
from pyklient.admin import Admin
from pyklient.config import AdminConfig
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError, KafkaError
from pyklient.log_events import log_fields
from pyklient.mirror.clusters import Cluster, cluster_name, known_options, options_of_cluster, read_options
from pyklient.mirror.offset_syncs import OffsetSync, translated
from pyklient.mirror.sync_topic import SYNC_TOPIC, StoredSync, read_syncs
from pyklient.mirror.target_admin import TargetAdmin
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["GroupTranslation", "TranslatedOffset", "translate_offsets"]

_log = logging.getLogger("pyklient.mirror")

_CALL_TIMEOUT: Final = 10.0
"""The seconds that a call to a cluster may take while the mirror runs. A call that fails is made again."""
_MOST_SHOWN: Final = 5
"""The largest number of partitions that an error names."""


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """The committed offset of a group in one partition. ``source`` is the offset that is committed in the
    source cluster. ``translated`` is the corresponding offset in the target cluster. ``committed`` is the
    offset that is committed in the target cluster, or None if there is none."""

    source: int
    translated: int
    committed: int | None

    @property
    def ahead(self) -> bool:
        """True if the group has committed an offset in the target cluster that is larger than ``translated``.
        The group's offset is then not changed."""
        return self.committed is not None and self.committed > self.translated

    @property
    def moves(self) -> bool:
        """True if the translated offset is to be committed in the target cluster: the group has no offset
        there, or a smaller one."""
        return self.committed is None or self.committed < self.translated


def translate_offsets(
    source: Cluster, target: Cluster, group_id: str, mirror_group: str, *, execute: bool = False
) -> dict[TopicPartition, TranslatedOffset]:
    """Translate the committed offsets of the group *group_id* in *source* to the offsets of the same records
    in *target*. Commit the translated offsets in *target* only if *execute* is true.

    *mirror_group* is the group of the mirror that copies, or has copied, from *source* to *target* with the
    argument ``groups``. Partitions that this mirror has not copied are left out. No record is skipped, but
    the group gets records again if the mirror has forgotten their exact offsets.

    An offset is never made smaller. Raises BrokerError NON_EMPTY_GROUP if *execute* is true and the group has
    members in the target cluster, and ConfigurationError if no partition can be translated.
    """
    here, there = options_of_cluster(source, "source"), options_of_cluster(target, "target")
    group_id = argument_checks.text(group_id, "group_id")
    mirror_group = argument_checks.text(mirror_group, "mirror_group")
    argument_checks.flag(execute, "execute")
    try:
        return _translate_once(here, there, group_id, mirror_group, execute)
    except KafkaError as error:
        error.add_note(
            f"while the offsets of the group {group_id} were translated from the cluster "
            f"{cluster_name(here)} to {cluster_name(there)}"
        )
        raise


def _translate_once(
    source: Mapping[str, Any], target: Mapping[str, Any], group_id: str, mirror_group: str, execute: bool
) -> dict[TopicPartition, TranslatedOffset]:
    """Do what :func:`translate_offsets` does, with the options of clients of both clusters."""
    syncs = _read_syncs(target, mirror_group)
    with (
        Admin(**known_options(AdminConfig, source)) as here,
        TargetAdmin(**known_options(AdminConfig, target)) as there,
    ):
        ids = there.topic_ids(_CALL_TIMEOUT)
        committed = _committed(here, group_id)
        copied = {each: offset for each, offset in committed.items() if each in syncs}
        found, left_out = _translate(there, group_id, copied, _fitting(syncs, ids))
        _log_left_out(group_id, left_out)
        if not found:
            reason = _reason(mirror_group, syncs, committed, left_out)
            raise ConfigurationError(
                f"no committed offset of the group {group_id} can be translated from the cluster "
                f"{cluster_name(source)} to {cluster_name(target)}: {reason}"
            )
        if execute:
            _commit(there, group_id, found)
    return found


class GroupTranslation:
    """Translates the offsets of groups of the cluster *source*, and commits them to the cluster *target*. It
    does so for all groups that *groups* allows, except *mirror_group*, the group of the mirror itself."""

    def __init__(
        self,
        source: Admin,
        target: TargetAdmin,
        groups: TopicFilter,
        mirror_group: str,
        stopping: threading.Event,
    ) -> None:
        self._source = source
        self._target = target
        self._groups = groups
        self._mirror_group = mirror_group
        self._stopping = stopping
        self._left_out: dict[str, dict[TopicPartition, str]] = {}
        """For each group, the partitions whose offsets the last attempt could not translate, with the
        reasons. A reason is logged only when it is new."""

    def translate(self, syncs: Mapping[TopicPartition, Sequence[StoredSync]]) -> None:
        """Commit the translated offsets of the partitions in *syncs*, which has the stored offset syncs of
        each partition: they tell which offsets its records have in the target cluster.

        A group with members in the target cluster is left alone. An error is logged, and the next call tries
        again. When the mirror is stopping, the remaining groups are left out.
        """
        if not syncs:
            return
        try:
            names = [each.group_id for each in self._source.groups(_CALL_TIMEOUT)]
            fitting = _fitting(syncs, self._target.topic_ids(_CALL_TIMEOUT))
        except KafkaError as error:
            _log.warning("the groups or topics cannot be listed, so offsets are translated later: %s", error)
            return
        for name in dict.fromkeys(names):
            if self._stopping.is_set():
                return
            if name == self._mirror_group or not self._groups.allows(name):
                continue
            try:
                self._move(name, fitting)
            except KafkaError as error:
                if isinstance(error, BrokerError) and error.code == ErrorCode.NON_EMPTY_GROUP:
                    _log.debug(
                        "the offsets of the group %s are not translated, because it has members in the "
                        "target cluster",
                        name,
                    )
                else:
                    _log.warning(
                        "the offsets of group %s were not translated. The mirror tries again. The error: %s",
                        name,
                        error,
                    )

    def _move(self, group_id: str, syncs: Mapping[TopicPartition, Sequence[OffsetSync]]) -> None:
        committed = _committed(self._source, group_id)
        copied = {each: offset for each, offset in committed.items() if each in syncs}
        found, left_out = _translate(self._target, group_id, copied, syncs)
        known = self._left_out.pop(group_id, {})
        _log_left_out(group_id, {each: why for each, why in left_out.items() if known.get(each) != why})
        if left_out:
            self._left_out[group_id] = left_out
        if moved := _commit(self._target, group_id, found):
            _log.debug(
                "the translated offsets of the group %s were committed in the target cluster",
                group_id,
                extra=log_fields("mirror_group_translated", group=group_id, partitions=moved),
            )


def _read_syncs(options: Mapping[str, Any], mirror_group: str) -> dict[TopicPartition, list[StoredSync]]:
    """Return the offset syncs that the mirror has stored in the target cluster, in the order of their
    offsets. They tell which offsets the copied records have in both clusters. *options* are those of a
    consumer of the target cluster."""
    try:
        stored = read_syncs(read_options(options), mirror_group)
    except BrokerError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return {}  # no mirror with groups has run
    return {source: sorted(slots.values(), key=lambda each: each.sync) for source, slots in stored.items()}


def _fitting(
    syncs: Mapping[TopicPartition, Sequence[StoredSync]], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, list[OffsetSync]]:
    """Return *syncs*, the stored offset syncs of each partition, without those whose target topic was deleted
    after they were stored. *topic_ids* has the present ids of the topics in the target cluster."""
    return {
        source: [each.sync for each in stored if each.fits(topic_ids.get(source.topic))]
        for source, stored in syncs.items()
    }


def _committed(source: Admin, group_id: str) -> dict[TopicPartition, int]:
    """Return the offsets that the group has committed in the source cluster."""
    return {
        each: offset
        for each, stored in source.stored_offsets(group_id, timeout=_CALL_TIMEOUT).items()
        if (offset := stored.committed) is not None
    }


def _translate(
    target: Admin,
    group_id: str,
    committed: Mapping[TopicPartition, int],
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]],
) -> tuple[dict[TopicPartition, TranslatedOffset], dict[TopicPartition, str]]:
    """Return the translated offsets of the group, and the reasons why the offsets of the other partitions in
    *committed* are not translated. *syncs* has the offset syncs of each partition in *committed*."""
    found: dict[TopicPartition, TranslatedOffset] = {}
    left_out: dict[TopicPartition, str] = {}
    if not committed:
        return found, left_out
    there = target.stored_offsets(group_id, topics=list(committed), timeout=_CALL_TIMEOUT)
    for each, offset in committed.items():
        end, copied = there[each].end, max((sync.target_end for sync in syncs[each]), default=0)
        if end is None:
            left_out[each] = f"its end in the target cluster is not known: {there[each].error}"
        elif copied > end:
            left_out[each] = (
                f"it ends before offset {copied} in the target cluster, where the topic has lost records or "
                "was created again"
            )
        else:
            at = translated(syncs[each], offset)
            found[each] = TranslatedOffset(offset, at, there[each].of("kafka"))
    return found, left_out


def _log_left_out(group_id: str, left_out: Mapping[TopicPartition, str]) -> None:
    for each, reason in left_out.items():
        _log.warning("the offset of the group %s in %s is not translated: %s", group_id, each, reason)


def _reason(
    mirror_group: str,
    syncs: Collection[TopicPartition],
    committed: Collection[TopicPartition],
    left_out: Mapping[TopicPartition, str],
) -> str:
    """Return a text for the user: why no offset of the group can be translated, and what to do. *syncs* are
    the partitions for which the mirror has stored offset syncs, without which no offset can be translated.
    *committed* are the partitions for which the group has committed offsets. *left_out* has the reasons for
    the partitions that are in both."""
    if left_out:
        reasons = [f"{each}: {reason}" for each, reason in sorted(left_out.items())]
        more = f" (and {len(reasons) - _MOST_SHOWN} more)" if len(reasons) > _MOST_SHOWN else ""
        return (
            f"{'; '.join(reasons[:_MOST_SHOWN])}{more}. Let the mirror copy the topics again, or set the "
            "offsets in the target cluster with Admin.reset_offsets or pyklient offsets reset"
        )
    if not syncs:
        return (
            f"no mirror with the group {mirror_group} has stored offset syncs in topic {SYNC_TOPIC} of the "
            "target cluster. Name the group of the mirror, and let the mirror run with the argument groups "
            "(pyklient mirror: --groups)"
        )
    if not committed:
        return (
            "the group has committed no offsets in the source cluster. Check its name; if it commits to "
            "ZooKeeper, give the source the option zookeeper (on the command line: --from @FILE, and "
            "zookeeper=HOST:PORT/CHROOT in this file)"
        )
    return (
        f"the mirror with the group {mirror_group} has copied none of the partitions for which the group has "
        "committed offsets. Let it mirror their topics too"
    )


def _commit(target: Admin, group_id: str, found: Mapping[TopicPartition, TranslatedOffset]) -> int:
    """Commit those translated offsets in *found* that are larger than the group's offset in the target
    cluster, or for which the group has none there. Return the number of committed offsets."""
    positions = {each: OffsetAndMetadata(offset.translated) for each, offset in found.items() if offset.moves}
    if positions:
        target.reset_offsets(
            group_id, positions, topics=list(positions), storage="kafka", execute=True, timeout=_CALL_TIMEOUT
        )
    return len(positions)
