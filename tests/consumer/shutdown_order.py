"""Records the order in which the parts of a connector end."""

from collections.abc import Callable
from typing import Any

import pytest

from pyklient.consumer.commit.background_commits import BackgroundCommits
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.framing import ClientFraming

__all__ = ["record_shutdown"]


def record_shutdown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the next steps of connectors that end are appended, each step once in a row.

    The steps are calls, and the requests that are sent, except for those that fetch.
    """
    steps: list[str] = []

    def note(step: str) -> None:
        if steps[-1:] != [step]:
            steps.append(step)

    def watch(kind: type, method: str, name: Callable[..., str]) -> None:
        original = getattr(kind, method)

        def noted(*arguments: Any, **options: Any) -> Any:
            note(name(*arguments))
            return original(*arguments, **options)

        monkeypatch.setattr(kind, method, noted)

    watch(BackgroundCommits, "wait", lambda *_: "commits in the background end")
    watch(FetcherManager, "close", lambda *_: "fetchers end")
    watch(StreamCore, "end", lambda *_: "streams end")
    watch(NetworkClient, "close", lambda *_: "connections and session close")
    watch(ClientFraming, "send", lambda framing, request, *_: type(request).__name__)
    return steps
