"""``pyklient produce``: lines of standard input become messages."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import click

from pyklient.cli.connection import Settings, connection_options
from pyklient.cli.records import NewRecord, from_json_line, header_of
from pyklient.config import ProducerConfig
from pyklient.producer.producer import Producer

__all__ = ["produce"]


@click.command(
    short_help="Send lines as messages.",
    epilog="""\b
Examples:
  echo hello | pyklient produce clicks
  pyklient produce clicks --key-separator : --file clicks.txt --compression zstd
  pyklient consume old --to-end --json | pyklient produce new --json
""",
)
@click.argument("topic")
@click.option(
    "-f", "--file", "source", type=click.File("rb"), default="-", help="Read this, not standard input."
)
@click.option("-k", "--key-separator", metavar="TEXT", help="Each line is key, TEXT, value.")
@click.option(
    "-H", "--header", "headers", metavar="NAME=VALUE", multiple=True, help="On every message; repeatable."
)
@click.option("-p", "--partition", type=click.IntRange(0), help="Send there, whatever the key.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@click.option(
    "--json", "as_json", is_flag=True, help="Each line is a JSON record, as consume --json writes them."
)
@click.option("-q", "--quiet", is_flag=True, help="No summary on standard error.")
@connection_options
def produce(
    topic: str,
    source: BinaryIO,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str | None,
    as_json: bool,
    quiet: bool,
    settings: Settings,
) -> None:
    """Send one message per line of standard input to TOPIC.

    Returns when the brokers have confirmed every message. With --json a line is an object with any of key,
    value, headers, partition and timestamp_ms.
    """
    if as_json and key_separator:
        raise click.UsageError("--json records carry their own keys; drop --key-separator")
    if source.isatty() and not quiet:
        print("One message per line; Ctrl-D ends.", file=sys.stderr)
    own = {} if compression is None else {"compression_type": compression}
    on_all = [header_of(text) for text in headers]
    sent = 0
    with Producer(**settings.options(ProducerConfig, **own)) as producer:
        for record in _records(source, as_json, key_separator):
            producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition if partition is None else partition,
                timestamp_ms=record.timestamp_ms,
                headers=[*(record.headers or []), *on_all],
            )
            sent += 1
    if not quiet:
        print(f"{sent:,} {'message' if sent == 1 else 'messages'} to {topic}", file=sys.stderr)


def _records(source: BinaryIO, as_json: bool, key_separator: str | None) -> Iterator[NewRecord]:
    separator = key_separator.encode() if key_separator else None
    for number, line in enumerate(source, 1):
        text = line.removesuffix(b"\n")
        if as_json:
            try:
                yield from_json_line(text)
            except ValueError as error:
                raise click.ClickException(f"line {number}: {error}") from None
        elif separator is None:
            yield NewRecord(text)
        else:
            key, found, value = text.partition(separator)
            if not found:
                raise click.ClickException(f"line {number} has no {key_separator!r} between key and value")
            yield NewRecord(value, key)
