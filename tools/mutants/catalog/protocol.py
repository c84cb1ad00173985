"""Mistakes in ``pyklient/protocol/``, except those in ``records/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "protocol: answers are taken in any order",
        "pyklient/protocol/framing.py",
        "if correlation_id != expected:",
        "if correlation_id > expected:",
        ("tests/protocol/test_framing.py::test_a_response_that_comes_twice_is_refused",),
    ),
    Mutant(
        "protocol: correlation ids grow beyond 32 bits",
        "pyklient/protocol/framing.py",
        "0 if self.last_correlation_id >= _LAST_CORRELATION_ID else",
        "0 if self.last_correlation_id > _LAST_CORRELATION_ID else",
        ("tests/protocol/test_framing.py::test_correlation_ids_begin_again_after_the_largest",),
    ),
    Mutant(
        "protocol: a request without an answer waits for one",
        "pyklient/protocol/framing.py",
        "        if expects_reply:\n            self._due.append",
        "        if True:\n            self._due.append",
        ("tests/protocol/test_framing.py::test_a_produce_request_without_acknowledgement_expects_no_reply",),
    ),
    Mutant(
        "protocol: a frame may have a negative length",
        "pyklient/protocol/framing.py",
        "if 0 <= length <= max_frame:",
        "if length <= max_frame:",
        ("tests/protocol/test_framing.py::test_a_length_that_is_none_says_what_the_peer_may_be",),
    ),
    Mutant(
        "protocol: bytes after a message are ignored",
        "pyklient/protocol/framing.py",
        "    if reader.pos != reader.end:\n        raise ProtocolError(",
        "    if reader.pos > reader.end:\n        raise ProtocolError(",
        ("tests/protocol/test_framing.py::test_bytes_behind_a_request_or_a_response_are_refused",),
    ),
    Mutant(
        "protocol: a varint may have 35 bits",
        "pyklient/protocol/primitives.py",
        "        if value >> 32:\n",
        "        if value >> 35:\n",
        ("tests/protocol/test_primitives.py::test_unsigned_varints_end_within_32_bits",),
    ),
    Mutant(
        "protocol: a slice may end one byte behind the frame",
        "pyklient/protocol/primitives.py",
        "if length < 0 or stop > self.end:",
        "if length < 0 or stop > self.end + 1:",
        ("tests/protocol/test_primitives.py::test_no_more_bytes_than_remain_can_be_taken",),
    ),
    Mutant(
        "protocol: a hostile count is believed",
        "pyklient/protocol/primitives.py",
        "if length < 0 or length * least > self.end - self.pos:",
        "if length < 0:",
        ("tests/protocol/test_primitives.py::test_an_array_needs_room_for_all_its_elements",),
    ),
    Mutant(
        "protocol: elements of a message are not counted",
        "pyklient/protocol/primitives.py",
        "        self.allowance -= elements\n",
        "",
        ("tests/protocol/test_malformed.py::test_many_small_elements_cost_no_more_than_their_number_allows",),
    ),
    Mutant(
        "protocol: a tagged field may be shorter than it says",
        "pyklient/protocol/field_decoding.py",
        "        if reader.pos != stop:\n",
        "        if reader.pos > stop:\n",
        ("tests/protocol/test_schema.py::test_a_known_tagged_field_must_fill_its_size",),
    ),
)
