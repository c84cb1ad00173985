"""Mistakes in ``pyklient/net/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "net: a partition that a response leaves out counts as committed",
        "pyklient/net/lookups/offset_commit_request.py",
        "for where in left_out(response, positions)",
        "for where in left_out(response, ())",
        (
            "tests/consumer/offsets/test_kafka_offset_storage.py::test_a_partition_that_the_response_leaves_out_does_not_count_as_committed",
        ),
    ),
    Mutant(
        "net: the last deadline on a connection counts, not the first",
        "pyklient/net/connection/requests_in_flight.py",
        "first = min(self._waiting.values(), key=_deadline_of",
        "first = max(self._waiting.values(), key=_deadline_of",
        (
            "tests/net/connection/test_connection.py::test_an_unanswered_request_fails_all_that_wait_behind_it",
        ),
    ),
    Mutant(
        "net: those who wait on a lost connection hear nothing",
        "pyklient/net/connection/requests_in_flight.py",
        "            waiting, self._waiting = self._waiting, {}",
        "            waiting: dict[int, _Waiting] = {}",
        (
            "tests/net/connection/test_connection.py::test_an_unanswered_request_fails_all_that_wait_behind_it",
        ),
    ),
    Mutant(
        "net: a connection goes on after an interrupted request",
        "pyklient/net/connection/connection.py",
        (
            "            self._in_flight.fail(\n"
            '                BrokerConnectionError(f"{request_name(type(request))} to {self.endpoint} '
            'was interrupted")\n'
            "            )\n"
            "            self._responses.dispose()\n"
            "            raise"
        ),
        "            raise",
        (
            "tests/net/connection/test_connection.py::test_a_connection_ends_with_a_request_that_is_interrupted",
        ),
    ),
    Mutant(
        "net: a session is not renewed before it ends",
        "pyklient/net/connection/connection.py",
        "        if self._in_flight.failure is not None or now >= self._expires_at:\n",
        "        if self._in_flight.failure is not None:\n",
        (
            "tests/net/test_connection_pool.py::test_a_connection_whose_session_ends_soon_is_replaced_once_it_is_quiet",
        ),
    ),
    Mutant(
        "net: an answer may be of any size",
        "pyklient/net/connection/frames.py",
        "if size > self._max_response:",
        "if size > 1 << 31:",
        (
            "tests/net/connection/test_connection.py::test_impossible_lengths_are_refused_before_memory_is_taken",
        ),
    ),
    Mutant(
        "net: a failure of another thread alone is shared",
        "pyklient/net/single_flight.py",
        "if is_shared(error) or time.monotonic() >= deadline:",
        "if is_shared(error) or True:",
        (
            "tests/net/test_single_flight.py::test_after_a_failure_of_the_other_thread_alone_the_waiting_one_tries_itself",
        ),
    ),
    Mutant(
        "net: refreshes that end together lose topics",
        "pyklient/net/metadata.py",
        "if before.successor.setdefault(_NEXT, after) is after:",
        "if before.successor.setdefault(_NEXT, after):",
        (
            "tests/net/test_metadata.py::test_a_writer_starts_again_if_another_has_replaced_the_snapshot_meanwhile",
        ),
    ),
    Mutant(
        "net: back-off never grows",
        "pyklient/net/connection_pool.py",
        "failures = 1 if before is None else before.failures + 1",
        "failures = 1",
        ("tests/net/test_connection_pool.py::test_failures_in_a_row_are_counted_until_the_node_is_reached",),
    ),
    Mutant(
        "net: a node that was reached again stays suspect",
        "pyklient/net/connection_pool.py",
        "        self._trouble.pop(endpoint.node_id, None)\n",
        "",
        ("tests/net/test_connection_pool.py::test_failures_in_a_row_are_counted_until_the_node_is_reached",),
    ),
    Mutant(
        "net: a connection to a former address is used",
        "pyklient/net/connection_pool.py",
        "if not old.expired and old.endpoint == endpoint:",
        "if not old.expired:",
        ("tests/net/test_connection_pool.py::test_a_node_that_moved_gets_a_connection_to_its_new_address",),
    ),
    Mutant(
        "net: a connection is closed before the broker has handled the requests without a response",
        "pyklient/net/connection_pool.py",
        "        if timeout > 0:\n",
        "        if False:\n",
        (
            "tests/producer/test_closing_without_acknowledgements.py::"
            "test_a_producer_without_acknowledgements_is_closed_when_the_broker_has_handled_its_records",
        ),
    ),
    Mutant(
        "net: a connection is replaced before the broker has handled the requests without a response",
        "pyklient/net/connection_pool.py",
        "            _await_handled([old], share)\n",
        "",
        (
            "tests/net/test_unconfirmed_requests.py::"
            "test_a_connection_is_replaced_when_the_broker_has_handled_its_requests",
        ),
    ),
    Mutant(
        "net: pauses have no upper bound",
        "pyklient/net/backoff.py",
        "min(doubled, self._longest)",
        "doubled",
        ("tests/net/test_dialogue.py::test_playing_gives_up_in_time_and_names_the_last_failure",),
    ),
    Mutant(
        "net: all clients come back at the same time",
        "pyklient/net/backoff.py",
        "random.uniform(1 - _JITTER, 1 + _JITTER)",
        "1",
        ("tests/net/test_backoff.py::test_pauses_double_up_to_the_longest_with_a_fifth_more_or_less",),
    ),
    Mutant(
        "net: a former leader is believed again",
        "pyklient/net/metadata.py",
        "if older is not None and 0 <= info.leader_epoch < older.leader_epoch:",
        "if older is not None and 0 <= older.leader_epoch < info.leader_epoch:",
        ("tests/net/test_metadata.py::test_a_broker_that_lags_behind_does_not_bring_back_a_former_leader",),
    ),
    Mutant(
        "net: a refresh of one topic forgets the others",
        "pyklient/net/metadata.py",
        "topics = {} if all_topics else dict(self.topics)",
        "topics: dict[str, TopicInfo] = {}",
        ("tests/net/test_metadata.py::test_a_refresh_of_some_topics_keeps_the_others",),
    ),
    Mutant(
        "net: the newest version of the broker is spoken",
        "pyklient/net/connection/api_versions.py",
        "version = min(theirs[1], ours[1])",
        "version = theirs[1]",
        (
            "tests/net/connection/test_connection.py::test_the_newest_common_version_is_chosen_within_the_callers_limit",
        ),
    ),
    Mutant(
        "net: the server's signature is not checked",
        "pyklient/net/connection/scram.py",
        "if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):",
        "if not self._server_signature:",
        ("tests/net/connection/test_scram.py::test_a_server_that_does_not_know_the_password_is_refused",),
    ),
    Mutant(
        "net: the server's nonce may be any",
        "pyklient/net/connection/scram.py",
        "if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):",
        "if not nonce:",
        ("tests/net/connection/test_scram.py::test_a_server_that_breaks_the_rules_is_refused",),
    ),
    Mutant(
        "net: a pause outlasts its dialogue",
        "pyklient/net/network_client.py",
        "self.pause(min(seconds, remaining))",
        "self.pause(seconds)",
        ("tests/net/test_dialogue.py::test_a_pause_is_cut_short_where_the_time_allowed_ends_before_it",),
    ),
    Mutant(
        "net: a time-out does not name the last failure",
        "pyklient/net/network_client.py",
        "raise _out_of_time(timeout, last) from last",
        "raise _out_of_time(timeout, None) from last",
        ("tests/net/test_dialogue.py::test_playing_gives_up_in_time_and_names_the_last_failure",),
    ),
    Mutant(
        "net: pauses of a dialogue do not grow",
        "pyklient/net/network_client.py",
        "                    pauses += 1\n",
        "                    pauses = 1\n",
        ("tests/net/test_dialogue.py::test_playing_counts_the_pauses_of_a_dialogue_for_its_back_off",),
    ),
    Mutant(
        "net: offsets are asked of a leader that has moved",
        "pyklient/net/lookups/list_offsets.py",
        "known_ok=attempt == 1)",
        "known_ok=True)",
        (
            "tests/net/lookups/test_list_offsets.py::test_offsets_are_asked_of_the_new_leader_where_leadership_moved",
        ),
    ),
    Mutant(
        "net: the rest of a request is sent from its beginning",
        "pyklient/net/connection/transport.py",
        "return [memoryview(part)[sent:], *parts[index + 1 :]]",
        "return [memoryview(part)[sent:], *parts[index:]]",
        (
            "tests/net/connection/test_transport.py::test_parts_arrive_whole_and_in_order_through_a_small_buffer",
        ),
    ),
    Mutant(
        "net: an old broker is probed for every connection",
        "pyklient/net/connection/connection_setup.py",
        "    old_brokers.remember(endpoint, versions)\n",
        "",
        ("tests/net/connection/test_version_probe.py::test_an_old_broker_is_probed_once",),
    ),
    Mutant(
        "net: a broker that was restarted during the probe is taken for an old broker",
        "pyklient/net/connection/version_probe.py",
        "if is_broker and probe.first_answer(ListGroupsRequest()) is None:",
        "if is_broker:",
        (
            "tests/net/connection/test_version_probe.py::"
            "test_a_broker_that_was_restarted_between_two_probes_is_not_taken_for_an_old_one",
        ),
    ),
    Mutant(
        "net: an old broker skips records when an offset is looked up by time",
        "pyklient/net/lookups/list_offsets.py",
        "times = {partition: EARLIEST for _, partition in later}",
        "times = {partition: LATEST for _, partition in later}",
        (
            "tests/net/lookups/test_list_offsets.py::"
            "test_a_broker_that_knows_the_times_of_segments_only_gives_an_offset_that_skips_nothing",
        ),
    ),
    Mutant(
        "net: an old broker creates each topic that is read",
        "pyklient/net/metadata_request.py",
        "asked = topics if can_choose or allow_auto_create or not topics else None",
        "asked = topics",
        (
            "tests/net/test_old_brokers.py::"
            "test_a_broker_that_creates_each_topic_that_is_named_is_asked_for_all_topics",
        ),
    ),
    Mutant(
        "net: a request that a thread sends alone is never counted as failed",
        "pyklient/net/connection/requests_in_flight.py",
        "                self._traffic.failed(self._alone)\n",
        "",
        ("tests/net/test_traffic.py::test_requests_without_an_answer_and_attempts_to_connect_are_counted",),
    ),
    Mutant(
        "net: the end of an outage is not told",
        "pyklient/net/connection_pool.py",
        "            outage.ended()\n",
        "            pass\n",
        ("tests/system/test_outages.py::test_a_broker_that_goes_away_and_comes_back_is_told_in_few_lines",),
    ),
    Mutant(
        "net: a request to one broker is not sent again when its connection breaks",
        "pyklient/net/broker_channel.py",
        "            if time.monotonic() >= deadline:\n                raise\n",
        "            raise\n",
        (
            "tests/net/test_broker_channel.py::test_a_request_on_a_connection_that_breaks_is_sent_once_more_on_a_new_one",
        ),
    ),
    Mutant(
        "net: a request to one broker goes out under the client id of an earlier call",
        "pyklient/net/broker_channel.py",
        "        connection.use_client_id(client_id)\n",
        "",
        ("tests/net/test_broker_channel.py::test_a_client_id_is_that_of_the_call_or_else_of_the_client",),
    ),
    Mutant(
        "net: a call to one broker goes on after its time is over",
        "pyklient/net/broker_channel.py",
        "            if time.monotonic() >= deadline:\n                raise\n",
        "",
        ("tests/net/test_broker_channel.py::test_a_call_ends_after_the_time_for_calls",),
    ),
    Mutant(
        "net: a committed offset of 0 counts as none",
        "pyklient/net/lookups/offset_fetch.py",
        "each.committed_offset >= 0",
        "each.committed_offset > 0",
        (
            "tests/consumer/offsets/test_kafka_offset_storage.py::test_offset_0_is_a_committed_offset",
            "tests/admin/test_admin.py::test_the_lag_of_a_group_leaves_out_a_topic_that_is_gone",
        ),
    ),
    Mutant(
        "net: a broker that hangs up after acks=0 is said to want SASL",
        "pyklient/net/connection/requests_in_flight.py",
        "                self.hint = _WITHOUT_RESPONSE\n",
        "                pass\n",
        (
            "tests/net/connection/test_submit.py::test_a_broker_that_hangs_up_after_a_request_without_a_response_may_have_rejected_it",
        ),
    ),
)
