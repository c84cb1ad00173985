"""The kernel calls the encoders and the partitioner of the user."""

from typing import Any

import pytest

from pyklient.errors import ConfigurationError
from pyklient.kernel import UserFunctions
from tests.kernel.appending import Bench, records_of


def fail(*_: Any) -> Any:
    raise ZeroDivisionError


def interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_encoders_are_called_for_each_record_and_the_record_has_what_they_return(kernel: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(lambda key: b"%d" % key, str.encode))
    batch = bench.open()
    bench.appender.send("clicks", "value", 5, timestamp_ms=17, headers=[("h", b"")])
    assert records_of(batch) == [(17, b"5", b"value", (("h", b""),))]
    assert bench.declined == []


def test_encoders_are_called_for_none_and_may_return_none(kernel: Any) -> None:
    seen: list[Any] = []
    functions = UserFunctions(seen.append, lambda value: None if value is None else b"v")
    bench = Bench(kernel, functions=functions)
    batch = bench.open()
    bench.appender.send("clicks", None)
    bench.appender.send("clicks", 5, "key")
    assert [record[1:3] for record in records_of(batch)] == [(None, None), (None, b"v")]
    assert seen == [None, "key"]


@pytest.mark.parametrize("buffer", [bytearray, memoryview])
def test_encoders_may_return_other_buffers(kernel: Any, buffer: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(buffer, buffer))
    batch = bench.open()
    bench.appender.send("clicks", b"value", b"key")
    assert [record[1:3] for record in records_of(batch)] == [(b"key", b"value")]


@pytest.mark.parametrize("what", ["key", "value"])
@pytest.mark.parametrize("wrong", ["text", 5, ["list"]])
def test_what_is_no_bytes_is_an_error_that_names_the_encoder(kernel: Any, what: str, wrong: Any) -> None:
    encoders: dict[str, Any] = {f"{what}_encoder": lambda _: wrong}
    bench = Bench(kernel, functions=UserFunctions(**encoders))
    batch = bench.open()
    expected = f"{what}_encoder returned {type(wrong).__name__} for a bytes; it must return bytes or None"
    with pytest.raises(ConfigurationError, match=expected):
        bench.appender.send("clicks", b"value", b"key")
    assert (batch.count, bench.declined) == (0, [])


@pytest.mark.parametrize("function", UserFunctions._fields)
@pytest.mark.parametrize(("broken", "error"), [(fail, ZeroDivisionError), (interrupt, KeyboardInterrupt)])
def test_an_exception_reaches_the_caller_and_nothing_is_appended(
    kernel: Any, function: str, broken: Any, error: type[BaseException]
) -> None:
    bench = Bench(kernel, functions=UserFunctions(**{function: broken}))
    batch = bench.open()
    used = bench.appender.used_memory
    with pytest.raises(error):
        bench.appender.send("clicks", b"value", b"key")
    assert (batch.count, bench.appender.used_memory, bench.declined) == (0, used, [])


def test_a_record_that_does_not_fit_is_declined_with_what_the_functions_returned(kernel: Any) -> None:
    calls: list[str] = []

    def encode(text: str) -> bytes:
        calls.append(text)
        return text.encode() * 1_000

    def choose(topic: str, key: bytes | None, count: int) -> int:
        calls.append(topic)
        return 1

    bench = Bench(kernel, functions=UserFunctions(str.encode, encode, choose), batch_size=500)
    bench.open(partitions=2)
    assert bench.appender.send("clicks", "v", "k", None, 7, [], print) is bench.nowhere
    assert bench.appender.send("clicks", "v", "k", 0) is bench.nowhere
    assert bench.declined == [
        ("clicks", b"v" * 1_000, b"k", None, 7, [], print, True, 1),
        ("clicks", b"v" * 1_000, b"k", 0, None, None, None, True, None),
    ]
    assert calls == ["v", "clicks", "v"]


def test_no_function_is_called_for_a_topic_that_is_not_known_or_after_the_end(kernel: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(fail, fail, fail))
    bench.open()
    assert bench.appender.send("other", "v") is bench.nowhere
    bench.appender.shut()
    assert bench.appender.send("clicks", "v") is bench.nowhere
    assert bench.declined == [(topic, "v", None, None, None, None, None) for topic in ("other", "clicks")]


def test_the_partitioner_gets_the_encoded_key_and_its_choice_counts(kernel: Any) -> None:
    asked: list[Any] = []

    def choose(*arguments: Any) -> int:
        asked.append(arguments)
        return 2

    bench = Bench(kernel, functions=UserFunctions(str.encode, None, choose))
    bench.open(partitions=3)
    assert bench.appender.send("clicks", b"v", "key").partition == 2
    assert bench.appender.send("clicks", b"v", "key", 1).partition == 1
    assert asked == [("clicks", b"key", 3)]


def test_the_partitioner_is_not_asked_about_a_record_that_is_not_made_of_bytes(kernel: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(partitioner=fail))
    bench.open()
    assert bench.appender.send("clicks", "text") is bench.nowhere
    assert bench.appender.send("clicks", b"v", "text") is bench.nowhere
    assert [arguments[7:] for arguments in bench.declined] == [(True, None)] * 2


class Two(int):
    """A kind of int."""


@pytest.mark.parametrize("wrong", [3, -1, 1 << 70, None, True, 1.0, "0"])
def test_a_partition_that_does_not_exist_is_an_error(kernel: Any, wrong: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(partitioner=lambda *_: wrong))
    batch = bench.open(partitions=3)
    expected = f"the partitioner chose {wrong!r} for topic 'clicks', which has 3 partitions: it must return"
    with pytest.raises(ConfigurationError, match=expected):
        bench.appender.send("clicks", b"v")
    assert batch.count == 0


def test_a_partition_may_be_of_a_kind_of_int(kernel: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(partitioner=lambda *_: Two(2)))
    bench.open(partitions=3)
    assert bench.appender.send("clicks", b"v").partition == 2


@pytest.mark.parametrize("function", UserFunctions._fields)
def test_a_function_may_send(kernel: Any, function: str) -> None:
    inside = False

    def sending(*arguments: Any) -> Any:
        nonlocal inside
        if not inside:
            inside = True
            bench.appender.send("clicks", b"inner")
        return 0 if function == "partitioner" else arguments[0]

    bench = Bench(kernel, functions=UserFunctions(**{function: sending}))
    batch = bench.open()
    bench.appender.send("clicks", b"outer")
    assert [record[2] for record in records_of(batch)] == [b"inner", b"outer"]


@pytest.mark.parametrize("function", UserFunctions._fields)
@pytest.mark.parametrize("dropped", [False, True])
def test_a_function_may_close_the_producer_or_drop_the_topic(
    kernel: Any, function: str, dropped: bool
) -> None:
    def ending(*arguments: Any) -> Any:
        if dropped:
            bench.appender.remove_topic("clicks")
        else:
            bench.appender.shut()
        return 0 if function == "partitioner" else arguments[0]

    bench = Bench(kernel, functions=UserFunctions(**{function: ending}))
    batch = bench.open()
    assert bench.appender.send("clicks", b"v", b"k") is bench.nowhere
    chosen = 0 if function == "partitioner" else None
    assert bench.declined == [("clicks", b"v", b"k", None, None, None, None, True, chosen)]
    assert batch.count == 0


def test_with_functions_messages_and_rows_go_through_send(kernel: Any) -> None:
    bench = Bench(kernel, functions=UserFunctions(partitioner=fail))
    bench.open()
    message = kernel.Message("clicks", 0, 0, 5, 0, None, b"v")
    assert kernel.append_messages(bench.appender, [message], 0, True)[0] == 0
