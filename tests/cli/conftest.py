"""A broker, and a command line that runs in this process with its input and output captured."""

import io
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from pyklient.broker import Broker
from pyklient.cli.main import run

__all__ = ["Done", "Pyklient"]


class Done(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


Pyklient = Callable[..., Done]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def pyklient(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Pyklient:
    """Return a function that runs a command on the broker, such as ``pyklient("topics", "list",
    stdin=b"")``."""
    monkeypatch.setenv("PYKLIENT_BOOTSTRAP_SERVERS", broker.bootstrap_servers)

    def pyklient(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(arguments)
        caught = capfdbinary.readouterr()
        return Done(code, caught.out, caught.err.decode())

    return pyklient
