"""``pyklient consume``: messages become lines of standard output, as a member of a group or for oneself."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import click

from pyklient.admin import Admin
from pyklient.cli.connection import Settings, connection_options
from pyklient.cli.records import as_json_line
from pyklient.config import AdminConfig, ConsumerConfig
from pyklient.consumer.connector import ConsumerConnector
from pyklient.consumer.simple import SimpleConsumer
from pyklient.errors import CommitError
from pyklient.model import OffsetAndMetadata, TopicPartition
from pyklient.protocol.records.kernel import Message

__all__ = ["consume"]

_BATCH: Final = 1_000
_LOOK: Final = 0.2
_COMMIT_EVERY: Final = 1.0


@click.command(
    epilog="""\b
Examples:
  pyklient consume clicks                              what comes from now on, until Ctrl-C
  pyklient consume clicks --from-beginning --to-end    what there is
  pyklient consume clicks views --group billing        as a member of a group, offsets committed
  pyklient consume clicks --from-beginning -n 10 --json | jq .value
"""
)
@click.argument("topics", metavar="TOPIC…", nargs=-1, required=True)
@click.option("-g", "--group", metavar="NAME", help="Join this group: share the partitions, commit offsets.")
@click.option(
    "--from-beginning", is_flag=True, help="Start with the oldest message, where no offset says else."
)
@click.option(
    "--to-end", is_flag=True, help="Stop at what is the end when the command starts (not with --group)."
)
@click.option("-n", "--max-messages", metavar="N", type=click.IntRange(1), help="Stop after so many.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Stop after so long without one.",
)
@click.option("-k", "--key-separator", metavar="TEXT", help="Print key, TEXT, value.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object per message, with everything it has.")
@connection_options
def consume(
    topics: tuple[str, ...],
    group: str | None,
    from_beginning: bool,
    to_end: bool,
    max_messages: int | None,
    timeout: float | None,
    key_separator: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    """Print the messages of TOPICs, one a line: the value's bytes as they are.

    In a group, an offset is committed only after its message has been written out. A message without a value
    is an empty line; --json tells the two apart. With --max-messages and --timeout both, too few messages are
    a failure.
    """
    if group is not None and to_end:
        raise click.UsageError("--to-end is for reading without a group; drop one of --to-end and --group")
    if as_json and key_separator is not None:
        raise click.UsageError("--json shows keys already; drop --key-separator")
    out = _Output(sys.stdout.buffer, _line_maker(as_json, key_separator), max_messages, timeout)
    if group is not None:
        _as_member(topics, group, from_beginning, settings, out)
    else:
        for batch in _alone(topics, from_beginning, to_end, settings):
            out.write(batch)
            if out.enough():
                break
    if max_messages is not None and timeout is not None and out.written < max_messages:
        raise click.ClickException(f"{out.written} of {max_messages} messages, then none for {timeout:g} s")


class _Output:
    """Where lines go, and when there have been enough."""

    def __init__(
        self, file: BinaryIO, line: Callable[[Message], bytes], limit: int | None, timeout: float | None
    ) -> None:
        self.written = 0
        self._file, self._line, self._limit, self._timeout = file, line, limit, timeout
        self._moved = time.monotonic()

    def write(self, batch: Sequence[Message]) -> Sequence[Message]:
        """Write *batch*, or as much of it as is wanted, and hand it to the system. → what was written"""
        taken = batch if self._limit is None else batch[: self._limit - self.written]
        if taken:
            self._file.write(b"".join(map(self._line, taken)))
            self._file.flush()
            self.written += len(taken)
            self._moved = time.monotonic()
        return taken

    def enough(self) -> bool:
        """Whether to stop: all that were wanted, or too long none."""
        if self.written == self._limit:
            return True
        return self._timeout is not None and time.monotonic() - self._moved > self._timeout


def _line_maker(as_json: bool, key_separator: str | None) -> Callable[[Message], bytes]:
    if as_json:
        return as_json_line
    if key_separator is None:
        return lambda message: (message.value or b"") + b"\n"
    separator = key_separator.encode()
    return lambda message: (message.key or b"") + separator + (message.value or b"") + b"\n"


def _as_member(
    topics: Sequence[str], group: str, from_beginning: bool, settings: Settings, out: _Output
) -> None:
    own = {"group_id": group, "enable_auto_commit": False}
    if from_beginning:
        own["auto_offset_reset"] = "earliest"
    with ConsumerConnector(**settings.options(ConsumerConfig, **own)) as connector:
        stream = connector.stream(*topics)
        commits = _Commits(connector)
        try:
            for batch in stream.batches(max_records=_BATCH, timeout=_LOOK):
                commits.note(out.write(batch))
                if out.enough():
                    break
        finally:
            commits.make()


class _Commits:
    """Offsets of what has been written out, committed at most once a second."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self._connector = connector
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._made = time.monotonic()

    def note(self, batch: Sequence[Message]) -> None:
        for message in batch:
            position = OffsetAndMetadata(message.offset + 1)
            self._positions[TopicPartition(message.topic, message.partition)] = position
        if time.monotonic() - self._made > _COMMIT_EVERY:
            self.make()

    def make(self) -> None:
        self._made = time.monotonic()
        positions, self._positions = self._positions, {}
        if not positions:
            return
        try:
            self._connector.commit_offsets(positions)
        except CommitError as error:
            # The partitions have gone to other members, who will print these messages again.
            print(f"pyklient: {error}", file=sys.stderr)


def _alone(
    topics: Sequence[str], from_beginning: bool, to_end: bool, settings: Settings
) -> Iterator[Sequence[Message]]:
    """Batches of all partitions, read without a group from the oldest message or from the end."""
    with Admin(**settings.options(AdminConfig)) as admin:
        partitions = [
            TopicPartition(topic, part.partition)
            for topic in topics
            for part in admin.describe_topic(topic).partitions
        ]
        ends = admin.end_offsets(partitions)
        positions = admin.start_offsets(partitions) if from_beginning else dict(ends)
    with SimpleConsumer(**settings.options(AdminConfig)) as consumer:
        while True:
            wanted = {tp: at for tp, at in positions.items() if not to_end or at < ends[tp]}
            if not wanted:
                return
            for tp, fetched in consumer.multifetch(wanted).items():
                positions[tp] = fetched.next_offset
                yield [each for each in fetched.messages if not to_end or each.offset < ends[tp]]
