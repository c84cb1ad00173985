"""Makes the standard streams usable even if the caller has closed them or made them non-blocking.

The descriptor of a closed stream is given to the null device. Otherwise the next socket would get that
descriptor, and the output of the command would go to the network.
"""

import contextlib
import errno
import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["complain", "reason", "standard_streams"]

_PIPE_CLOSED: Final = 128 + signal.SIGPIPE
_BUFFER: Final = 65_536


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Replace ``sys.stdin``, ``sys.stdout`` and ``sys.stderr`` in the ``with`` block by streams that also
    work if the descriptor is closed or non-blocking. Streams that other code has already replaced are kept.

    A failure to read or write raises ClickException with a message. If the reader of standard output has
    closed the pipe, click's Exit with code 141 is raised. Text for standard error that cannot be written is
    dropped.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    if sys.stdin is sys.__stdin__:
        # Opened for writing, so that reading fails.
        read = io.BufferedReader(_Input(_descriptor(sys.stdin, os.O_WRONLY), "rb", closefd=False))
        sys.stdin = io.TextIOWrapper(read, **_manner(sys.stdin))
    if sys.stdout is sys.__stdout__:
        raw = _Output(_descriptor(sys.stdout, os.O_RDONLY), "wb", closefd=False)
        written = io.BufferedWriter(raw, _BUFFER)
        sys.stdout = io.TextIOWrapper(written, **_manner(sys.stdout), line_buffering=raw.isatty())
    if sys.stderr is sys.__stderr__:
        said = io.BufferedWriter(_Errors(_descriptor(sys.stderr, os.O_WRONLY), "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(said, **_manner(sys.stderr), line_buffering=True)
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def complain(sentence: str) -> None:
    """Print *sentence* as one line on standard error, after the name of the command."""
    print(f"pyklient: {' '.join(sentence.split())}", file=sys.stderr)


def reason(error: OSError) -> str:
    """Return the system's description of *error*, without the error number and the name of the file."""
    return error.strerror or str(error) or type(error).__name__


class _Input(io.FileIO):
    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        try:
            # None means that a non-blocking file has no data yet. The caller would take it for the end.
            while (count := super().readinto(buffer)) is None:
                select.select([self], [], [])
        except OSError as error:
            raise click.ClickException(_failure("standard input", error)) from None
        return count


class _Output(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return _write(self, data)
        except OSError as error:
            _to_nowhere(self)
            if isinstance(error, BrokenPipeError):
                raise click.exceptions.Exit(_PIPE_CLOSED) from None
            raise click.ClickException(_failure("standard output", error)) from None


class _Errors(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return _write(self, data)
        except OSError:
            _to_nowhere(self)
            return memoryview(data).nbytes


def _write(file: io.FileIO, data: "ReadableBuffer") -> int:
    while (count := io.FileIO.write(file, data)) is None:
        select.select([], [file], [])
    return count


def _to_nowhere(file: io.FileIO) -> None:
    """Redirect *file*, to which a write has failed, to the null device. Otherwise the flush at the end of the
    program would fail, too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)


def _failure(stream: str, error: OSError) -> str:
    return f"{stream} is closed" if error.errno == errno.EBADF else f"{stream}: {reason(error)}"


def _descriptor(stream: TextIO | None, flags: int) -> int:
    """Return the descriptor of *stream*, or of the null device if *stream* is None (a closed stream).

    The null device gets the lowest free descriptor, which is the descriptor that the closed stream had.
    """
    return os.open(os.devnull, flags) if stream is None else stream.fileno()


def _manner(stream: TextIO | None) -> dict[str, Any]:
    if stream is None:
        return {"encoding": "utf-8", "errors": "backslashreplace"}
    # Characters that the encoding of the terminal lacks are shown as escapes.
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    return {"encoding": stream.encoding, "errors": errors}
