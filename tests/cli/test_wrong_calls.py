"""Commands that fail print one sentence on standard error, and their exit code says what kind of failure it
was."""

from pathlib import Path

import pytest

from tests.cli.conftest import Pyklient


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["produce"], "Missing argument 'TOPIC'; see pyklient produce --help"),
        (["consume"], "Missing argument 'TOPIC…'"),
        (["no-such"], "No such command 'no-such'"),
        (["consume", "t", "-n", "0"], "Invalid value for '-n'"),
        (["groups", "describe", "g", "-n", "2"], "-n works only together with --watch"),
        (["groups", "describe", "g", "--interval", "2"], "--interval works only together with --watch"),
        (["consume", "t", "--timeout", "nan"], "nan is not a number of seconds"),
        (["consume", "t", "-g", "g", "--to-end"], "remove --to-end or --group"),
        (["consume", "t", "-X", "group.id=g", "--to-end"], "remove --to-end or --group"),
        (["consume", "t", "-g", ""], "group_id is empty"),
        (["produce", "t", "-X", "nothing"], "-X: each option must be name=value"),
        (["produce", "t", "-k", ""], "the separator must not be empty"),
        (["produce", "t", "-H", "\udcff=1"], "is not UTF-8"),
        (["produce", "t", "-H", "bad"], "'bad' is not NAME=VALUE"),
        (["topics", "list", "-X", "linger=3"], "did you mean 'linger_ms' of Producer?"),
        (["produce", "t", "-X", "client.idd=1"], "did you mean 'client_id'"),
        (["topics", "list", "-X", "linger_ms=abc"], "linger_ms takes a whole number, not 'abc'"),
        (["produce", "t", "-X", "auto.offset.reset=newest"], "auto_offset_reset='newest' is not one of"),
        (["topics", "list", "-X", "message.timeout.ms=1"], "pyklient calls it delivery_timeout_ms"),
        (["topics", "create", "t", "--set", "nothing"], "a setting must be name=value"),
        (["topics", "list", "-X", "sasl.password=hunter2"], "must not be on a command line"),
        (["topics", "list", "-X", "ssl.context=x"], "use ssl_truststore_location"),
        (["topics", "list", "-b", "server:port"], "is not of the form host:port"),
        (
            ["topics", "list", "-b", ""],
            "-b is empty: pass HOST:PORT of one or more brokers; see pyklient topics list",
        ),
        (["groups", "describe", "\udcff"], "is not UTF-8"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_code_two(
    pyklient: Pyklient, arguments: list[str], complaint: str
) -> None:
    done = pyklient(*arguments)
    assert done.code == 2
    assert done.out == b""
    assert complaint in done.err
    assert done.err.startswith("pyklient: ")
    assert done.err.count("\n") == 1
    assert "hunter2" not in done.err


def test_an_option_that_the_command_does_not_use_is_told(pyklient: Pyklient, tmp_path: Path) -> None:
    done = pyklient("topics", "list", "-X", "linger.ms=5", "-X", "client.id=me")
    assert (done.code, done.err) == (0, "pyklient: -X linger.ms has no effect on this command\n")
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=5\n")
    done = pyklient("topics", "list", "--config", str(file))
    assert (done.code, done.err) == (0, ""), "a file serves several commands"
    file.write_text("linger.ms=abc\n")
    done = pyklient("topics", "list", "--config", str(file))
    assert (done.code, done.err) == (
        2,
        f"pyklient: the file {file} cannot be used: linger_ms takes a whole number, not 'abc'\n",
    )


@pytest.mark.parametrize(
    "command",
    [["produce"], ["consume"], ["topics", "create"], ["topics", "delete", "t"], ["topics", "describe"]],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["", "a/b", "a b", "é", "\udcff", ".", "..", "a\n"], ids=ascii)
def test_a_name_that_no_topic_can_have_is_refused_before_anything_is_sent(
    pyklient: Pyklient, command: list[str], name: str
) -> None:
    done = pyklient(*command, name, "-b", "127.0.0.1:1")
    assert done.code == 2
    assert "Invalid value for 'TOPIC" in done.err
    assert (
        "the name of a topic must not be empty" if not name else f"{name!a} is not a valid name of a topic"
    ) in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ["topics", "list", "-v"],
            "No such option: -v; put it before the command: pyklient -v topics list …",
        ),
        (["consume", "t", "-vv"], "No such option: -v; put it before the command: pyklient -v consume …"),
        (["groups", "--verbose", "list"], "put it before the command: pyklient -v groups …"),
        (
            ["-b", "localhost:9092", "topics", "list"],
            "No such option: -b; put it after the command, as in pyklient topics list -b HOST:PORT",
        ),
        (["groups", "--timeout", "5", "list"], "No such option: --timeout; put it after the command"),
    ],
)
def test_an_option_at_the_wrong_side_of_a_command_is_shown_its_place(
    pyklient: Pyklient, arguments: list[str], hint: str
) -> None:
    done = pyklient(*arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert hint in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topics", "list", "-b", "nowhere"], "nowhere"),
        (["topics", "list", "-b", "127.0.0.1:1", "-X", "default_api_timeout_ms=300"], "127.0.0.1:1"),
        (
            ["topics", "list", "-b", "127.0.0.1:1", "-X", "bootstrap_refused_timeout_ms=0"],
            "No broker was found within",
        ),
        (
            ["topics", "list", "-b", "127.0.0.1:1", "-X", "bootstrap_refused_timeout_ms=0"],
            "--timeout sets the time to wait",
        ),
        (
            ["produce", "t", "-b", "127.0.0.1:1", "-X", "max_block_ms=300", "-f", __file__],
            "--timeout sets the time to wait; no line is stored",
        ),
        (
            ["consume", "t", "-b", "127.0.0.1:1", "-X", "bootstrap_refused_timeout_ms=0"],
            "bootstrap_refused_timeout_ms sets the time to wait",
        ),
        (["groups", "list", "-b", "127.0.0.1:1", "--timeout", "0.3"], "No broker answered within 0.3 s"),
        (["groups", "list", "-b", "127.0.0.1:1", "--timeout", "0.3"], "--timeout sets the time to wait"),
        (["consume", "no-such-topic", "--to-end"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["groups", "describe", "no-such-group"], "GROUP_ID_NOT_FOUND"),
    ],
)
def test_a_failure_is_one_sentence_and_code_one(
    pyklient: Pyklient, arguments: list[str], complaint: str
) -> None:
    done = pyklient(*arguments, *(["-X", "default_api_timeout_ms=300"] if "nowhere" in arguments else []))
    assert done.code == 1
    assert done.out == b""
    assert complaint in done.err
    assert done.err.startswith("pyklient: ")
    assert done.err.count("\n") == 1


def test_what_the_system_refuses_is_said_with_the_file_and_without_numbers(
    pyklient: Pyklient, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = pyklient("broker", "--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    path = tmp_path / "file" / "data"
    said = (
        f"pyklient: data_dir {path} cannot be used: Not a directory; choose a directory that can be written\n"
    )
    assert (done.code, done.err) == (2, said)
