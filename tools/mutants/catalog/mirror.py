"""Mistakes in ``pyklient/mirror/``, and in the part of the kernel that copies messages."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_APPENDING = "tests/kernel/append/test_message_appending.py"
_SENT = "tests/mirror/test_sent_records.py"
_SYNCS = "tests/mirror/test_offset_syncs.py"
_MIRROR = "tests/mirror/test_mirror.py"
_PASSED = "tests/mirror/test_passed_batches.py"
_REBALANCES = "tests/mirror/test_rebalances.py"
_GROUPS = "tests/mirror/test_group_translation.py"
_AUDIT = "tests/mirror/test_cluster_audit.py"

_COPYING: Final = (
    Mutant(
        "kernel/append: copies of one call are of several partitions",
        "pyklient/kernel/append/message_appending.py",
        "        and message.partition == first.partition\n",
        "",
        (f"{_APPENDING}::TestEach::test_a_call_ends_before_a_message_that_does_not_continue_the_others",),
    ),
    Mutant(
        "kernel: the compiled loop writes keys that are not bytes",
        "pyklient/kernel/compiled/append/message_appending.pxi",
        "and (message.key is None or type(message.key) is bytes)",
        "and True",
        (f"{_APPENDING}::TestEach::test_a_call_ends_before_a_message_that_does_not_continue_the_others",),
    ),
    Mutant(
        "kernel: copies of messages without timestamps have the timestamp -1",
        "pyklient/kernel/compiled/append/message_appending.pxi",
        "now_ms if message.timestamp_ms < 0 else message.timestamp_ms",
        "message.timestamp_ms",
        (f"{_APPENDING}::test_copies_become_the_bytes_and_the_batches_that_single_sends_make",),
    ),
    Mutant(
        "kernel: the compiled loop tells wrong partitions of the copies",
        "pyklient/kernel/compiled/append/message_appending.pxi",
        "targets[index - start] = <int32_t>target",
        "targets[index - start] = <int32_t>known.sticky",
        (f"{_APPENDING}::TestEach::test_copies_of_several_partitions_tell_where_each_is",),
    ),
    Mutant(
        "mirror: batches keep a compression that the target's option excludes",
        "pyklient/mirror/copy_sender.py",
        "if self._rules.codec is None or self._rules.codec == batch.compression:",
        "if True:",
        (f"{_PASSED}::test_batches_are_compressed_in_another_way_if_the_target_has_an_option",),
    ),
    Mutant(
        "mirror: batches that need not change are decoded",
        "pyklient/mirror/copy_sender.py",
        "if self._rules.codec is None or self._rules.codec == batch.compression:",
        "if False:",
        (f"{_PASSED}::test_batches_are_the_same_bytes_on_both_sides",),
    ),
    Mutant(
        "mirror: keys do not decide although partitions are not kept",
        "pyklient/mirror/copy_sender.py",
        "append_messages(appender, messages, done, keep)",
        "append_messages(appender, messages, done, True)",
        (f"{_MIRROR}::test_without_kept_partitions_the_key_decides",),
    ),
    Mutant(
        "mirror: the timestamps of messages that are sent one by one are lost",
        "pyklient/mirror/copy_sender.py",
        "message.timestamp_ms if message.timestamp_ms >= 0 else None,",
        "None,",
        (f"{_MIRROR}::test_without_kept_partitions_the_key_decides",),
    ),
    Mutant(
        "mirror: a message counts as copied when one of its records is confirmed",
        "pyklient/mirror/copy_sender.py",
        "sent += [(source, offset, offset, delivery)",
        "sent += [(source, offset, offset + 1, delivery)",
        (f"{_REBALANCES}::test_a_message_counts_when_all_records_of_the_handler_are_confirmed",),
    ),
    Mutant(
        "mirror: partitions that another member owns by now are committed",
        "pyklient/mirror/mirror_task.py",
        "            if change.revoked and not change.expired:\n",
        "            if change.revoked:\n",
        (f"{_REBALANCES}::test_partitions_that_were_revoked_long_ago_are_not_committed",),
    ),
    Mutant(
        "mirror: messages of partitions that were lost meanwhile count as sent",
        "pyklient/mirror/copy_sender.py",
        "[each for each in sent if each[0] not in self._lost] if self._lost else sent",
        "sent",
        (f"{_REBALANCES}::test_a_rebalance_does_not_wait_for_a_target_that_is_down",),
    ),
    Mutant(
        "mirror: dropped records are not counted",
        "pyklient/mirror/failed_copies.py",
        "        self.dropped_count += failed.record_count\n",
        "",
        (f"{_MIRROR}::test_a_record_that_cannot_be_sent_ends_the_mirror_or_is_dropped",),
    ),
    Mutant(
        "mirror: settings that depend on the brokers are copied",
        "pyklient/mirror/target_topics.py",
        '        "min.insync.replicas",\n',
        "",
        (f"{_MIRROR}::test_a_topic_is_created_as_it_is_and_grows_as_it_grows",),
    ),
)

_CONFIRMED: Final = (
    Mutant(
        "mirror: records before a failed one of the same batch are not committed",
        "pyklient/mirror/sent_records.py",
        "                    self._confirmed[source] = errors[0].offset\n",
        "",
        (f"{_SENT}::test_the_position_stays_before_copies_that_have_failed",),
    ),
    Mutant(
        "mirror: failures are told again and again",
        "pyklient/mirror/sent_records.py",
        "while runs and runs[0].done and source not in self._failed:",
        "while runs and runs[0].done:",
        (f"{_SENT}::test_the_position_stays_before_copies_that_have_failed",),
    ),
    Mutant(
        "mirror: a mirror without an assignment has the lag 0",
        "pyklient/mirror/mirror_metrics.py",
        "if not self.has_assignment:",
        "if False:",
        (f"{_MIRROR}::test_a_mirror_waits_for_clusters_that_are_down_when_it_starts",),
    ),
    Mutant(
        "mirror: the position moves when one of several batches is confirmed",
        "pyklient/mirror/sent_records.py",
        "all(batch.done for",
        "any(batch.done for",
        (f"{_SENT}::test_copies_in_several_batches_are_confirmed_when_all_batches_are",),
    ),
    Mutant(
        "mirror: the position moves past records that have failed",
        "pyklient/mirror/sent_records.py",
        "if errors and not self._skip_failed:",
        "if False:",
        (f"{_SENT}::test_the_position_stays_before_copies_that_have_failed",),
    ),
    Mutant(
        "mirror: a failed copy has the offset of another partition's message",
        "pyklient/mirror/sent_records.py",
        "zip(offsets, targets, strict=True) if each == target]",
        "zip(offsets, targets, strict=True)]",
        (f"{_SENT}::test_the_offset_of_a_failed_copy_is_that_of_its_message",),
    ),
    Mutant(
        "mirror: gaps in the source offsets are not noticed",
        "pyklient/mirror/sent_records.py",
        "if offsets[-1] - offsets[0] >= len(offsets):",
        "if False:",
        (f"{_SENT}::test_confirmed_records_have_no_gaps_in_their_source_offsets",),
    ),
    Mutant(
        "mirror: records behind a gap continue the run before it",
        "pyklient/mirror/sent_records.py",
        "before.stop == self.position == after.start < position",
        "before.stop == self.position <= after.start < position",
        (f"{_SENT}::test_records_that_follow_each_other_take_the_memory_of_one",),
    ),
    Mutant(
        "mirror: unknown target offsets count on from -1",
        "pyklient/mirror/sent_records.py",
        "known = target_offset if target_offset < 0 else target_offset + first",
        "known = target_offset + first",
        (f"{_SENT}::test_the_offsets_of_acks_0_are_not_known",),
    ),
    Mutant(
        "mirror: records of lost partitions are remembered",
        "pyklient/mirror/sent_records.py",
        "            self._runs.pop(each, None)\n",
        "",
        (f"{_SENT}::test_lost_partitions_are_forgotten",),
    ),
    Mutant(
        "mirror: the same positions are committed again and again",
        "pyklient/mirror/sent_records.py",
        "self._committed.update(positions)",
        "pass",
        (f"{_SENT}::test_an_offset_without_a_record_moves_the_position_in_its_turn",),
    ),
)

_GROUP_OFFSETS: Final = (
    Mutant(
        "mirror: syncs that could not be stored wait for the next commit",
        "pyklient/mirror/partition_syncs.py",
        "if self._due and not self._sent and time.monotonic() >= self._try_at:",
        "if False:",
        (f"{_GROUPS}::test_syncs_that_could_not_be_stored_are_stored_without_another_commit",),
    ),
    Mutant(
        "mirror: stored syncs are forgotten if the target is down at the start",
        "pyklient/mirror/partition_syncs.py",
        "            self._unread.update(partitions)\n",
        "            self._continue_with({}, partitions)\n",
        (f"{_GROUPS}::test_stored_syncs_are_read_later_if_the_target_is_down_at_the_start",),
    ),
    Mutant(
        "mirror: an offset behind a run is translated beyond the copied records",
        "pyklient/mirror/offset_syncs.py",
        "min(offset - found.offset, found.record_count)",
        "offset - found.offset",
        (f"{_SYNCS}::test_records_that_follow_each_other_on_both_sides_are_one_sync",),
    ),
    Mutant(
        "mirror: first copies are forgotten before all records are copied again",
        "pyklient/mirror/offset_syncs.py",
        "if self._position >= self._copied_end and self._has_all_copies():",
        "if True:",
        (f"{_SYNCS}::test_records_that_are_being_copied_again_have_their_first_copy",),
    ),
    Mutant(
        "mirror: groups that are ahead in the target go back",
        "pyklient/mirror/group_translation.py",
        "self.committed is None or self.committed < self.translated",
        "True",
        (f"{_GROUPS}::test_a_group_moves_only_with_execute_and_never_back",),
    ),
    Mutant(
        "mirror: offsets behind the end of the target partition are committed",
        "pyklient/mirror/group_translation.py",
        "elif copied > end:",
        "elif False:",
        (f"{_GROUPS}::test_partitions_that_the_target_lacks_or_has_fewer_records_of_are_left_out",),
    ),
    Mutant(
        "mirror: groups of several sources overwrite each other's offsets",
        "pyklient/mirror/mirror.py",
        "if len(self._sources) > 1:",
        "if False:",
        (f"{_GROUPS}::test_a_mirror_of_groups_needs_partitions_that_have_one_counterpart",),
    ),
)

_AUDITS: Final = (
    Mutant(
        "mirror: an audit includes the end of its range",
        "pyklient/mirror/cluster_audit.py",
        "first <= each.timestamp_ms < end",
        "first <= each.timestamp_ms <= end",
        (f"{_AUDIT}::test_only_records_in_the_range_of_time_count",),
    ),
    Mutant(
        "mirror: an audit takes null for an empty value",
        "pyklient/mirror/content_digest.py",
        "return _NULL if part is None else len(part)",
        "return len(part or b'')",
        (f"{_AUDIT}::test_a_difference_is_named",),
    ),
    Mutant(
        "mirror: an audit by topic depends on the order",
        "pyklient/mirror/cluster_audit.py",
        'OrderedDigest() if by == "partition" else UnorderedDigest()',
        "OrderedDigest()",
        (f"{_AUDIT}::test_by_topic_the_order_and_the_partitions_do_not_matter",),
    ),
)

MUTANTS: Final = (*_COPYING, *_CONFIRMED, *_GROUP_OFFSETS, *_AUDITS)
