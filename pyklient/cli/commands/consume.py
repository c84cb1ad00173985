"""``pyklient consume``: print messages as lines, with or without a group."""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import click

from pyklient.admin import Admin
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.parameter_checks import checked, seconds, separator, text, topic_name
from pyklient.cli.record_lines import as_json_line
from pyklient.cli.signals import deferred
from pyklient.config import AdminConfig, ConsumerConfig
from pyklient.consumer.bounded_read import read
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.kernel import Message
from pyklient.topic_partition import TopicPartition

__all__ = ["consume"]

_BATCH: Final = 1_000
_LOOK: Final = 0.2
_LONGEST_TIMEOUT: Final = 1_000_000
_OF_MEMBERS: Final = (
    "auto_commit_interval_ms",
    "auto_offset_reset",
    "enable_auto_commit",
    "group_id",
    "group_instance_id",
)
"""The options of group members that a ``--config`` file may contain, but ``read()`` does not accept."""


@click.command(
    short_help="Print messages, one in a line.",
    epilog="""\b
Examples:
  pyklient consume clicks                          print new messages until Ctrl-C
  pyklient consume clicks --to-end                 print the messages that exist now
  pyklient consume clicks views --group billing    join a group and commit offsets
  pyklient consume clicks --from-beginning -n 10 --json | jq .value
""",
)
@click.argument("topics", metavar="TOPIC…", callback=checked(topic_name), nargs=-1, required=True)
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    callback=checked(text),
    help="Join this group: share the partitions and commit offsets.",
)
@click.option("--from-beginning", is_flag=True, help="Start at the oldest message if no offset is committed.")
@click.option(
    "--to-end",
    is_flag=True,
    help="Read from the oldest message to the present end, and stop (not with --group).",
)
@click.option("-n", "--max-messages", metavar="N", type=click.IntRange(1), help="Stop after N messages.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, _LONGEST_TIMEOUT, min_open=True),
    callback=checked(seconds),
    help="Stop after this time without a message.",
)
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    callback=checked(separator),
    help="Print the key, TEXT and the value. A tab is $'\\t'.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print each message as a JSON object with all its fields."
)
@cluster_options(ConsumerConfig, AdminConfig, timeout=False)
def consume(
    topics: tuple[str, ...],
    group: str | None,
    from_beginning: bool,
    to_end: bool,
    max_messages: int | None,
    timeout: float | None,
    key_separator: bytes | None,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Print the messages of each TOPIC, one in a line: the bytes of the value, unchanged.

    In a group, an offset is committed only after its message has been written. A message without a value is
    an empty line, like a message with an empty value; --json shows the difference. With both --max-messages
    and --timeout, the command fails if there are too few messages.
    """
    if to_end and (group is not None or "group_id" in cluster.from_line):
        raise click.UsageError("--to-end reads without a group; remove --to-end or --group")
    if as_json and key_separator is not None:
        raise click.UsageError("with --json, each line contains the key; remove --key-separator")
    own: dict[str, Any] = {} if group is None else {"group_id": group}
    if from_beginning:
        own["auto_offset_reset"] = "earliest"
    options = cluster.options(ConsumerConfig, **own)
    longest_wait = _longest_wait(timeout, ConsumerConfig.from_options(options))
    out = _Output(sys.stdout.buffer, _line_maker(as_json, key_separator), max_messages, longest_wait)
    if to_end:
        _write_what_is_there(topics, options, out)
    else:
        _mention_missing(topics, cluster)
        _follow(topics, options, out)
    if max_messages is not None and timeout is not None and out.written < max_messages:
        why = "because the topics have no more" if to_end else f"and then none for {timeout:g} s"
        wanted = counted(max_messages, "message")
        raise click.ClickException(f"only {out.written} of {wanted} arrived, {why}")


def _longest_wait(timeout: float | None, config: ConsumerConfig) -> float | None:
    """Return the number of seconds without a message after which the command stops, or None if it does not
    stop."""
    if timeout is None and config.consumer_timeout_ms >= 0:
        return config.consumer_timeout_ms / 1000
    return timeout


class _Output:
    """Writes messages to a file as lines, and counts them."""

    def __init__(
        self, file: BinaryIO, line: Callable[[Message], bytes], limit: int | None, timeout: float | None
    ) -> None:
        self.written = 0
        self.last: Sequence[Message] = ()
        """The batch of messages that was written last."""
        self.timeout = timeout
        """The number of seconds without a message after which the command stops. None means that it does not
        stop."""
        self._file, self._line, self._limit = file, line, limit
        self._moved = time.monotonic()

    @property
    def next_size(self) -> int:
        """The largest number of messages that the next call of ``write`` may get."""
        return _BATCH if self._limit is None else min(_BATCH, self._limit - self.written)

    def write(self, batch: Sequence[Message]) -> None:
        """Write the messages of *batch* as lines, and flush the file."""
        if batch:
            lines = b"".join(map(self._line, batch))
            with deferred():
                self._file.write(lines)
                self._file.flush()
                self.written += len(batch)
                self.last = batch
            self._moved = time.monotonic()

    @property
    def full(self) -> bool:
        """True if as many messages have been written as the user asked for."""
        return self.written == self._limit

    @property
    def late(self) -> bool:
        """True if no message has been written for ``timeout`` seconds."""
        return self.timeout is not None and time.monotonic() - self._moved > self.timeout


def _line_maker(as_json: bool, between: bytes | None) -> Callable[[Message], bytes]:
    if as_json:
        return as_json_line
    if between is None:
        return lambda message: (message.value or b"") + b"\n"
    return lambda message: (message.key or b"") + between + (message.value or b"") + b"\n"


def _follow(topics: Sequence[str], options: Mapping[str, Any], out: _Output) -> None:
    """Write new messages until there are enough, none arrives for too long, or the command is interrupted."""
    commits = "group_id" in options and options.get("enable_auto_commit", True)
    with ConsumerConnector(**options) as connector:
        stream = connector.stream(*topics)
        try:
            while not (out.full or out.late):
                # An automatic commit includes a batch once the next one is asked for, when it has been
                # written. The generator is closed here, because an interrupt during its finalizer would be
                # lost.
                with contextlib.closing(stream.batches(max_records=out.next_size, timeout=_LOOK)) as batches:
                    batch = next(batches, None)
                if batch is None:
                    return
                out.write(batch)
        except BaseException:
            # Ctrl-C may come after a batch was written and before the next is asked for: commit it here.
            if commits:
                with contextlib.suppress(KafkaError):
                    connector.commit_offsets(
                        {TopicPartition(each.topic, each.partition): each.offset + 1 for each in out.last}
                    )
            raise


def _mention_missing(topics: Sequence[str], cluster: ClusterOptions) -> None:
    with Admin(**cluster.options(AdminConfig)) as admin:
        missing = sorted(set(topics) - set(admin.topics(internal=True)))
    if missing:
        which = "which does" if len(missing) == 1 else "which do"
        print(f"pyklient: waiting for {', '.join(missing)}, {which} not exist yet", file=sys.stderr)


def _write_what_is_there(topics: Sequence[str], options: Mapping[str, Any], out: _Output) -> None:
    of_reading = {name: value for name, value in options.items() if name not in _OF_MEMBERS}
    if out.timeout is not None:
        of_reading["consumer_timeout_ms"] = max(1, round(out.timeout * 1000))
    with read(topics=topics, **of_reading) as messages:
        for batch in messages.batches(max_records=_BATCH):
            out.write(batch[: out.next_size])
            if out.full:
                return
