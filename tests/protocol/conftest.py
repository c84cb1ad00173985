"""What encodes and decodes messages: the functions for the first messages of a kind, or generated ones."""

from collections.abc import Iterator

import pytest

from pyklient.protocol import schema
from pyklient.protocol.schema import ApiMessage


@pytest.fixture(params=["first", "generated"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let all messages be encoded and decoded by one of the two kinds of functions."""
    first = request.param == "first"
    monkeypatch.setattr(schema, "_FIRST_MESSAGES", 1 << 30 if first else 0)
    monkeypatch.setattr(schema, "_LARGE", 1 << 30)
    _forget()
    yield
    _forget()


def _forget() -> None:
    """Let the functions be made anew."""
    for cls in [*ApiMessage.__subclasses__(), *schema.Blob.__subclasses__()]:
        cls._encoders.clear()
        cls._decoders.clear()
