"""Message and Chunk, as a reader gets them."""

import copy
import gc
import pickle
import sys
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import chain, count
from threading import Thread
from types import MemberDescriptorType
from typing import Any

import pytest

from pyklient.errors import CorruptRecordError
from pyklient.kernel import Chunk, Message, encode_batch
from pyklient.protocol.records import NewRecord
from tests.kernel.kernels import COMPILED

FIELDS: dict[str, Any] = {
    "topic": "clicks",
    "partition": 3,
    "offset": 17,
    "timestamp_ms": 1_700_000_000_000,
    "timestamp_type": 0,
    "key": b"user-1",
    "value": b"...",
    "headers": (("trace", b"1"), ("none", None)),
}


def chunk_of(kernel: Any, count: int, base_offset: int = 0) -> Chunk:
    records = [NewRecord(1000, None, b"%d" % index) for index in range(count)]
    chunk: Chunk = kernel.decode(encode_batch(records, base_offset=base_offset), "t", 1, base_offset)
    return chunk


class TestMessage:
    def test_fields_by_name_and_by_position(self, kernel: Any) -> None:
        message = kernel.Message(**FIELDS)
        assert {name: getattr(message, name) for name in FIELDS} == FIELDS
        assert kernel.Message(*FIELDS.values()) == message

    def test_decoded_messages_are_the_same_as_made_ones(self, kernel: Any) -> None:
        record = NewRecord(FIELDS["timestamp_ms"], FIELDS["key"], FIELDS["value"], FIELDS["headers"])
        [message] = kernel.decode(encode_batch([record], base_offset=17), "clicks", 3, 0)
        assert type(message) is kernel.Message
        assert message == kernel.Message(**FIELDS)
        assert hash(message) == hash(kernel.Message(**FIELDS))
        assert repr(message) == repr(kernel.Message(**FIELDS))

    def test_headers_are_none_unless_given(self, kernel: Any) -> None:
        assert kernel.Message("t", 0, 1, 2, 0, None, None).headers == ()

    @pytest.mark.parametrize("name", FIELDS)
    def test_every_field_counts_for_equality(self, kernel: Any, name: str) -> None:
        other = 2 if isinstance(FIELDS[name], int) else "other"
        assert kernel.Message(**{**FIELDS, name: other}) != kernel.Message(**FIELDS)

    def test_it_equals_nothing_else(self, kernel: Any) -> None:
        assert kernel.Message(**FIELDS) != tuple(FIELDS.values())
        assert (kernel.Message(**FIELDS) == 5) is False

    def test_it_cannot_be_changed(self, kernel: Any) -> None:
        [message] = chunk_of(kernel, 1)
        for name in (*FIELDS, "anything"):
            with pytest.raises(
                AttributeError, match=f"a Message cannot be changed; its {name} cannot be set"
            ):
                setattr(message, name, 1)
        with pytest.raises(AttributeError, match="a Message cannot be changed; its value cannot be deleted"):
            del message.value
        assert message.value == b"0"

    def test_it_is_hashable_whatever_a_decoder_made_of_its_value(self, kernel: Any) -> None:
        message = kernel.Message(**{**FIELDS, "value": {"json": []}})
        assert len({message, message, kernel.Message(**FIELDS)}) == 2

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_it_pickles_without_naming_a_kernel(self, protocol: int) -> None:
        pickled = pickle.dumps(Message(**FIELDS), protocol)
        assert pickle.loads(pickled) == Message(**FIELDS)
        assert b"_kernel" not in pickled
        assert b"_py" not in pickled

    def test_it_copies(self) -> None:
        message = Message(**FIELDS)
        assert copy.copy(message) == copy.deepcopy(message) == message

    def test_its_repr_says_all(self, kernel: Any) -> None:
        assert repr(kernel.Message("t", 0, 5, 7, 1, None, b"v")) == (
            "Message(topic='t', partition=0, offset=5, timestamp_ms=7, timestamp_type=1, key=None, "
            "value=b'v', headers=())"
        )

    def test_its_objects_are_members_which_the_interpreter_reads_without_a_call(self, kernel: Any) -> None:
        for name in ("topic", "key", "value", "headers"):
            member = getattr(kernel.Message, name)
            assert type(member) is MemberDescriptorType
            assert member.__get__(kernel.Message(**FIELDS)) == FIELDS[name]
            with pytest.raises(TypeError):
                member.__get__("another type's")

    def test_it_is_light(self, kernel: Any) -> None:
        assert sys.getsizeof(kernel.Message(**FIELDS)) <= 96
        assert not hasattr(kernel.Message(**FIELDS), "__dict__")


@pytest.fixture(params=["at once", "one at a time"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways in which the compiled kernel makes messages. With a decoder, it makes them at once."""
    if request.param == "at once":
        monkeypatch.setattr(COMPILED, "decode", partial(COMPILED.decode, value_decoder=lambda value: value))


@pytest.mark.usefixtures("made")
class TestChunk:
    def test_iterating_hands_out_each_message_once_over_any_number_of_iterators(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 5)
        assert next(iter(chunk)).offset == 0
        for message in chunk:
            assert message.offset == 1
            break
        assert [message.offset for message in chunk.hand_out(2)] == [2, 3]
        assert [message.offset for message in chunk] == [4]
        assert list(chunk) == chunk.hand_out(5) == []

    def test_it_knows_how_far_it_has_been_read(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 3, base_offset=10)
        seen = []
        while True:
            seen.append((chunk.handed, chunk.remaining, chunk.position, chunk.last_handed))
            if not chunk.hand_out(1):
                break
        assert seen == [(0, 3, 10, -1), (1, 2, 11, 10), (2, 1, 12, 11), (3, 0, 13, 12)]
        assert chunk.next_offset == 13

    def test_its_position_skips_gaps(self, kernel: Any) -> None:
        records = [NewRecord(1, None, b"x")] * 2
        data = encode_batch(records, base_offset=5, offset_deltas=[2, 6])
        chunk = kernel.decode(data, "t", 0, 0)
        assert chunk.position == 7
        chunk.hand_out(1)
        assert (chunk.position, chunk.last_handed) == (11, 7)

    def test_stopping_hands_out_nothing_more_and_keeps_the_place(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 5, base_offset=10)
        iterator = iter(chunk)
        next(iterator)
        next(iterator)
        for _ in range(2):
            chunk.stop()
            assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (2, 12, 11, 0)
            assert list(iterator) == list(chunk) == chunk.hand_out(3) == []

    def test_what_another_thread_gets_while_a_chunk_is_being_stopped_counts_as_handed_out(
        self, kernel: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chunk = chunk_of(kernel, 5, base_offset=10)
        got: list[int] = []
        kind = type(chunk)
        before: Any = vars(kind)["last_handed"]

        def last_handed(self: Chunk) -> int:
            if not got:  # as if the other thread ran now
                got.append(next(iter(chunk)).offset)
            found: int = before.fget(self)
            return found

        monkeypatch.setattr(kind, "last_handed", property(last_handed))
        chunk.stop()
        monkeypatch.undo()
        assert got == [10]
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (1, 11, 10, 0)

    def test_stopping_an_untouched_or_an_exhausted_chunk(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 2)
        chunk.stop()
        assert (chunk.handed, chunk.position, chunk.last_handed) == (0, 0, -1)
        chunk = chunk_of(kernel, 2)
        assert len(list(chunk)) == 2
        chunk.stop()
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (2, 2, 1, 0)

    def test_an_empty_chunk_is_at_its_end(self, kernel: Any) -> None:
        chunk = kernel.decode(encode_batch([], base_offset=4), "t", 0, 0)
        assert (chunk.handed, chunk.remaining, chunk.position, chunk.last_handed) == (0, 0, 5, -1)

    def test_iterating_many_runs_no_python_code_per_message(self, kernel: Any) -> None:
        chunks = [chunk_of(kernel, 100, base_offset=100 * index) for index in range(3)]
        calls: list[object] = []
        sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
        try:
            deque(chain.from_iterable(chunks), maxlen=0)
        finally:
            sys.setprofile(None)
        # one __iter__ a chunk
        assert len(calls) <= len(chunks)

    def test_a_stop_from_another_thread_never_counts_what_was_not_handed_out(self, kernel: Any) -> None:
        for _ in range(50):
            chunk = chunk_of(kernel, 900)
            seen: list[Message] = []
            reader = Thread(target=seen.extend, args=(iter(one for one in chunk),), daemon=True)
            reader.start()
            chunk.stop()
            position = chunk.position
            reader.join(30)
            assert not reader.is_alive()
            assert position <= len(seen)
            assert [message.offset for message in seen] == list(range(len(seen)))
            assert (chunk.position, chunk.remaining) == (position, 0)

    def test_what_is_left_is_not_handed_out_by_asking_for_it(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 5, base_offset=10)
        chunk.hand_out(2)
        for _ in range(2):
            assert [message.offset for message in chunk.left()] == [12, 13, 14]
        assert (chunk.handed, chunk.remaining) == (2, 3)
        left = chunk.left()
        assert left == list(chunk)
        assert chunk.left() == []

    def test_nothing_is_left_once_stopped(self, kernel: Any) -> None:
        chunk = chunk_of(kernel, 5)
        chunk.hand_out(2)
        chunk.stop()
        assert chunk.left() == []

    def test_a_stop_while_a_message_is_being_made_loses_none(self, kernel: Any) -> None:
        # tuples of so many are none of those that Python keeps at hand, so that making one collects garbage
        data = encode_batch([NewRecord(1, None, None, (("name", b"value"),) * 25)] * 50)
        for collections in range(10):
            chunk = kernel.decode(data, "t", 0, 0)
            seen: list[Message] = []
            calls = count()

            def stop(*_: Any, chunk: Chunk = chunk, calls: Any = calls, last: int = collections) -> None:
                if next(calls) == last:
                    chunk.stop()

            before = gc.get_threshold()
            gc.callbacks.append(stop)
            gc.set_threshold(1)
            try:
                seen += chunk
            finally:
                gc.callbacks.remove(stop)
                gc.set_threshold(*before)
            assert [message.offset for message in seen] == list(range(len(seen)))
            assert chunk.handed == chunk.position
            assert chunk.handed <= len(seen) <= chunk.handed + 1
            assert list(chunk) == []


def test_messages_of_a_large_batch_are_made_as_they_are_asked_for() -> None:
    count = 2000
    data = bytearray(encode_batch([NewRecord(1, None, b"x", (("n", b""),))] * count))
    chunk = COMPILED.decode(data, "t", 0, 0)
    assert len(chunk.hand_out(count - 1)) == count - 1
    with pytest.raises(BufferError):
        data.clear()
    assert chunk.hand_out(2)[0].offset == count - 1
    # held no longer than it is needed
    data.clear()


def test_bytes_that_change_while_messages_are_made_of_them_do_no_harm() -> None:
    data = bytearray(encode_batch([NewRecord(1, None, b"x", (("n", b""),))] * 2000))
    for byte in (0, 1, 2, 0x7F, 0x80, 0xFF):
        changed = bytearray(data)
        chunk = COMPILED.decode(changed, "t", 0, 0)
        chunk.hand_out(5)
        changed[61:] = bytes((byte,)) * (len(changed) - 61)
        for read in (
            chunk.left,
            chunk._message_iterator.remaining_messages,
            lambda chunk=chunk: chunk.position,
            chunk._message_iterator.__next__,
        ):
            with suppress(CorruptRecordError):
                read()
        assert chunk.handed in (5, 6)
