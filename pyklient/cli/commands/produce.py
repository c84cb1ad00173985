"""``pyklient produce``: send lines of standard input as messages."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import BinaryIO, Final

import click

from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.line_outcomes import Delivered
from pyklient.cli.parameter_checks import checked, separator, text, topic_name
from pyklient.cli.record_lines import NewRecord, NotJSONError, from_json_line, header_of
from pyklient.cli.standard_streams import reason
from pyklient.config import ProducerConfig
from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.kernel import Delivery
from pyklient.producer.producer import Producer

__all__ = ["produce"]

_GRACE: Final = 10.0
"""The number of seconds for which the command waits for the lines in flight after a line has failed."""

_LARGEST_TRANSACTION: Final = 100_000
"""The largest number of lines in a transaction. They stay in memory until the transaction is committed."""

_OF_A_LINE: Final = 8
"""The largest size of a line, as a multiple of the largest size of a record. JSON may need six characters for
one byte of a record."""


@click.command(
    short_help="Send lines as messages.",
    epilog="""\b
Examples:
  echo hello | pyklient produce clicks
  pyklient produce clicks --key-separator : --file clicks.txt --compression zstd
  pyklient consume old --to-end --json | pyklient produce new --json
  pyklient produce clicks --file clicks.txt --transactional-id import-1 --transaction-size 5000
""",
)
@click.argument("topic", callback=checked(topic_name))
@click.option(
    "-f",
    "--file",
    "source",
    type=click.File("rb"),
    default="-",
    help="Read this file instead of standard input.",
)
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    callback=checked(separator),
    help="Each line has the key, TEXT and the value. A tab is $'\\t'.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    callback=checked(header_of),
    help="A header for every message. Repeatable. NAME= has an empty value; a null value needs --json.",
)
@click.option("-p", "--partition", type=click.IntRange(0), help="Send to this partition, whatever the key.")
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="Compress the batches.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Each line is a record in JSON, as consume --json writes it."
)
@click.option(
    "--transactional-id",
    metavar="ID",
    callback=checked(text),
    help="Send the lines in transactions of the producer with this transactional id.",
)
@click.option(
    "--transaction-size",
    type=click.IntRange(1, _LARGEST_TRANSACTION),
    default=1_000,
    show_default=True,
    metavar="LINES",
    help="The number of lines in a transaction, with --transactional-id.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary on standard error.")
@cluster_options(ProducerConfig)
def produce(
    topic: str,
    source: BinaryIO,
    key_separator: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
    compression: str | None,
    as_json: bool,
    transactional_id: str | None,
    transaction_size: int,
    quiet: bool,
    cluster: ClusterOptions,
) -> None:
    """Send each line of standard input to TOPIC as a message.

    Returns when the brokers have confirmed every message. Stops at the first line that fails, and prints how
    many lines are stored. With --json, a line is an object with any of key, value, headers, partition and
    timestamp_ms.

    With --transactional-id, the lines are committed in transactions. If a line fails, the lines of its
    transaction are aborted.
    """
    if as_json and key_separator is not None:
        raise click.UsageError("with --json, each line contains its key; remove --key-separator")
    own = {} if compression is None else {"compression_type": compression}
    if transactional_id is not None:
        own["transactional_id"] = transactional_id
    options = cluster.options(ProducerConfig, **own)
    longest = _OF_A_LINE * ProducerConfig.from_options(options).max_request_size
    if source.isatty() and not quiet:
        print("Type one message in each line. Press Ctrl-D to stop.", file=sys.stderr)
    lines = _lines(source, longest)
    records = _from_json(lines) if as_json else _from_text(lines, key_separator)
    send = partial(_send_record, topic=topic, partition=partition, headers=headers)
    if transactional_id is not None:
        with Producer(**options) as producer:
            sent = _send_in_transactions(producer, records, send, transaction_size)
        if not quiet:
            _print_summary(sent, topic)
        return
    delivered = Delivered()
    with Producer(**options) as producer:
        problem = _send(producer, records, send, delivered)
        failed = problem is not None or delivered.error is not None
        # The outcome of each line is counted below.
        with contextlib.suppress(KafkaError):
            producer.close(_GRACE if failed else None)
    delivered.count_others()
    if problem is not None or delivered.error is not None:
        raise click.ClickException(delivered.summary(problem))
    if not quiet:
        _print_summary(delivered.stored, topic)


def _print_summary(sent: int, topic: str) -> None:
    print(f"{counted(sent, 'message')} to {topic}", file=sys.stderr)


def _send_record(
    producer: Producer,
    record: NewRecord,
    topic: str,
    partition: int | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> Delivery:
    return producer.send(
        topic,
        record.value,
        key=record.key,
        partition=record.partition if partition is None else partition,
        timestamp_ms=record.timestamp_ms,
        headers=[*(record.headers or []), *headers],
    )


def _send_in_transactions(
    producer: Producer,
    records: Iterator[NewRecord],
    send: Callable[[Producer, NewRecord], Delivery],
    size: int,
) -> int:
    """Send all records in transactions of *size* records. Return their number.

    Raises ClickException if a line fails. The message says how many lines are committed.
    """
    committed = 0
    lines: list[NewRecord] = []
    try:
        # Before the transaction begins, so that no transaction is open while the command waits for input.
        while lines := list(islice(records, size)):
            with producer.transaction():
                for record in lines:
                    send(producer, record)
            committed += len(lines)
    except click.ClickException as error:
        problem = error.format_message()
    except (KafkaError, OverflowError, TypeError, ValueError) as error:
        last = committed + len(lines)
        problem = f"the transaction of the lines {committed + 1} to {last} was not committed: {error}"
    else:
        return committed
    raise click.ClickException(f"{problem}; {counted(committed, 'line was', 'lines were')} committed")


def _send(
    producer: Producer,
    records: Iterator[NewRecord],
    send: Callable[[Producer, NewRecord], Delivery],
    delivered: Delivered,
) -> str | None:
    """Send all records, until one fails, and add their deliveries to *delivered*. Return an error message if
    a line cannot be sent, otherwise None."""
    try:
        for record in records:
            if not delivered.add(send(producer, record)):
                break
    except click.ClickException as error:
        return error.format_message()
    except (KafkaError, OverflowError, TypeError, ValueError) as error:
        return f"line {delivered.sent + 1}: {error}"
    return None


def _lines(source: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the lines of *source* without their newlines.

    Raises ClickException if a line is longer than *longest* bytes, or if *source* cannot be read.
    """
    try:
        for number, line in enumerate(iter(partial(source.readline, longest + 1), b""), 1):
            text = line.removesuffix(b"\n")
            if len(text) > longest:
                raise click.ClickException(f"line {number} is longer than {longest:,} bytes")
            yield text
    except OSError as error:
        raise click.ClickException(f"cannot read {source.name}: {reason(error)}") from None


def _from_json(lines: Iterator[bytes]) -> Iterator[NewRecord]:
    for number, line in enumerate(lines, 1):
        try:
            yield from_json_line(line)
        except NotJSONError as error:
            raise click.ClickException(f"line {number} is not JSON: {error}") from None
        except ValueError as error:
            raise click.ClickException(f"line {number} is not a record: {error}") from None


def _from_text(lines: Iterator[bytes], between: bytes | None) -> Iterator[NewRecord]:
    if between is None:
        yield from map(NewRecord, lines)
        return
    for number, line in enumerate(lines, 1):
        key, found, value = line.partition(between)
        if not found:
            shown = between.decode(errors="backslashreplace")
            hint = "; for a tab, pass $'\\t'" if shown == "\\t" else ""
            raise click.ClickException(
                f"line {number} has no separator '{shown}' between key and value{hint}"
            )
        yield NewRecord(value, key)
