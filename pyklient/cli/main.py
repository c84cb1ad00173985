"""The ``pyklient`` command: its subcommands, errors and exit codes.

Results are printed on standard output, everything else on standard error. An error is one sentence. Exit
codes: 0 success, 1 failure, 2 wrong call, 129 SIGHUP, 130 Ctrl-C, 141 closed pipe, 143 SIGTERM.
"""

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

import click

from pyklient.cli.commands.audit import audit
from pyklient.cli.commands.broker import broker
from pyklient.cli.commands.consume import consume
from pyklient.cli.commands.groups import groups
from pyklient.cli.commands.info import info
from pyklient.cli.commands.load import load
from pyklient.cli.commands.mirror import mirror
from pyklient.cli.commands.offsets import offsets
from pyklient.cli.commands.produce import produce
from pyklient.cli.commands.top import top
from pyklient.cli.commands.topics import topics
from pyklient.cli.commands.transactions import transactions
from pyklient.cli.commands.translate_offsets import translate
from pyklient.cli.demo import demo
from pyklient.cli.signals import ended_by_signals
from pyklient.cli.standard_streams import complain, reason, standard_streams
from pyklient.errors import ConfigurationError, KafkaError
from pyklient.version import VERSION

__all__ = ["run"]

_log = logging.getLogger("pyklient.cli")

_FAILED: Final = 1
_CALLED_WRONGLY: Final = 2
_INTERRUPTED: Final = 128 + signal.SIGINT
_OF_EACH_COMMAND: Final = ("-b", "--bootstrap-servers", "-X", "--config", "--zookeeper", "--timeout")
"""Options that users may put before the command, although each command has them itself."""


class _Sentence(logging.Formatter):
    """Formats a log record as one line, without its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"pyklient: {' '.join(record.getMessage().split())}"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  pyklient broker                                  run a broker on localhost:9092, for tests
  echo hello | pyklient produce clicks             send a message, in another shell
  pyklient consume clicks --to-end
\b
Exit codes:
  0 success, 1 failure, 2 wrong call, 129 SIGHUP, 130 Ctrl-C, 141 closed pipe, 143 SIGTERM
""",
)
@click.version_option(VERSION, prog_name="pyklient", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", count=True, help="Log to standard error; -vv logs more, with tracebacks.")
@click.pass_context
def pyklient(context: click.Context, verbose: int) -> None:
    """Use Apache Kafka from the shell: send and read messages, manage topics and groups, run a test
    broker."""
    context.obj = verbose
    handler = logging.StreamHandler(sys.stderr)
    if verbose:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(_Sentence())
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(handlers=[handler], level=level)


for command in (
    produce, consume, topics, groups, offsets, transactions, top, load, mirror, audit, broker, demo, info
):  # fmt: skip
    pyklient.add_command(command)


offsets.add_command(translate)


def run(arguments: Sequence[str]) -> int:
    """Run the command line *arguments*, and return its exit code. A traceback is shown only with ``-vv``."""
    with standard_streams(), ended_by_signals():
        code = _code(lambda: pyklient.main(list(arguments), prog_name="pyklient", standalone_mode=False))
        return _code(sys.stdout.flush) or code


def _code(action: Callable[[], object]) -> int:
    """Run *action*, and return the exit code of the command. Print one sentence if *action* fails."""
    try:
        result = action()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return _CALLED_WRONGLY
    except click.UsageError as error:
        complain(f"{_what_is_wrong(error)}; see {_path(error)} --help")
        return _CALLED_WRONGLY
    except click.ClickException as error:
        complain(error.format_message())
        return error.exit_code
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else _FAILED
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except ConfigurationError as error:
        _log.debug("the command failed, because an option or an argument is wrong", exc_info=True)
        complain(str(error))
        return _CALLED_WRONGLY
    except (KafkaError, OSError) as error:
        _log.debug("failed", exc_info=True)
        complain(_sentence(error))
        return _FAILED
    except Exception as error:
        _log.debug("failed", exc_info=True)
        complain(f"unexpected {type(error).__name__}: {error}; run with -vv for where, and please report it")
        return _FAILED
    return result if isinstance(result, int) else 0


def _what_is_wrong(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name in ("-v", "--verbose"):
        # Other programs have this option after the command.
        command = _path(error).removeprefix("pyklient ")
        return f"No such option: {error.option_name}; put it before the command: pyklient -v {command} …"
    in_group = error.ctx is not None and isinstance(error.ctx.command, click.Group)
    if isinstance(error, click.NoSuchOption) and in_group and error.option_name in _OF_EACH_COMMAND:
        return (
            f"No such option: {error.option_name}; put it after the command, as in pyklient topics list -b "
            "HOST:PORT"
        )
    return error.format_message().rstrip(".")


def _path(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx else "pyklient"


def _sentence(error: KafkaError | OSError) -> str:
    """Return the message of *error*. If *error* is an OSError about a file, the name of the file comes
    first."""
    if isinstance(error, KafkaError):
        return str(error) or type(error).__name__
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)
