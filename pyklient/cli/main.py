"""The ``pyklient`` command: its subcommands, its exit codes, and how it fails.

Results go to standard output, everything else to standard error. An error is one sentence. Exit codes:
0 done, 1 failed, 2 called wrongly, 130 interrupted, 141 nobody reads the output any more, 143 terminated.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final, NoReturn

import click

from pyklient.cli.broker import broker
from pyklient.cli.consume import consume
from pyklient.cli.demo import demo
from pyklient.cli.groups import groups
from pyklient.cli.info import info, version
from pyklient.cli.produce import produce
from pyklient.cli.topics import topics
from pyklient.errors import KafkaError

__all__ = ["run"]

_log = logging.getLogger("pyklient.cli")

_FAILED: Final = 1
_CALLED_WRONGLY: Final = 2
_INTERRUPTED: Final = 128 + signal.SIGINT
_PIPE_CLOSED: Final = 128 + signal.SIGPIPE
_TERMINATED: Final = 128 + signal.SIGTERM


class _Sentence(logging.Formatter):
    """A log record as one line, without its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"pyklient: {' '.join(record.getMessage().split())}"


class _Command(click.Group):
    """click ends the process with code 1 and no say of ours when a pipe closes; this comes before it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The interpreter flushes standard output once more on its way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(_PIPE_CLOSED) from None
        return result


@click.group(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 called wrongly, 130 Ctrl-C, 141 pipe closed, 143 terminated.",
)
@click.version_option(version(), prog_name="pyklient", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", count=True, help="Log to standard error; twice for more, with tracebacks.")
@click.pass_context
def pyklient(context: click.Context, verbose: int) -> None:
    """Apache Kafka from the shell: write, read, look after topics and groups, run a broker for tests."""
    context.obj = verbose
    handler = logging.StreamHandler(sys.stderr)
    if verbose:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(_Sentence())
    # A person hears of a broker that does not answer before the command gives it up; a program wants one
    # sentence, at the end.
    quiet = logging.WARNING if sys.stderr.isatty() else logging.CRITICAL
    level = {0: quiet, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(handlers=[handler], level=level)


for command in (produce, consume, topics, groups, broker, demo, info):
    pyklient.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. Never a traceback, unless asked for with ``-vv``."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = pyklient.main(list(arguments), prog_name="pyklient", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return _CALLED_WRONGLY
    except click.UsageError as error:
        _complain(f"{error.format_message().rstrip('.')}; see {_path(error)} --help")
        return _CALLED_WRONGLY
    except click.ClickException as error:
        _complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except (KafkaError, OSError) as error:
        _log.debug("failed", exc_info=True)
        _complain(str(error) or type(error).__name__)
        return _FAILED
    except Exception as error:
        _log.debug("failed", exc_info=True)
        _complain(f"unexpected {type(error).__name__}: {error}; run with -vv for where, and please report it")
        return _FAILED
    return code if isinstance(code, int) else 0


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(_TERMINATED)


def _path(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else "pyklient"


def _complain(sentence: str) -> None:
    print(f"pyklient: {' '.join(sentence.split())}", file=sys.stderr)
