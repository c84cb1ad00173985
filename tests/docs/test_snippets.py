"""Every ``python`` and ``shell`` block of the documents runs: each document by itself, and one after the
other on one broker, as somebody types them who reads from page to page.

A reader's ``localhost:9092`` and ``"localhost", 9092`` are the broker's address here.
Blocks ``console`` and ``text`` are only shown.
"""

import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker import Broker
from tests.docs.markdown import DOCUMENTS, Block, blocks
from tools.repository import ROOT

_READ_FIRST = 23
"""The number of documents that most readers read, in their order: from the README to the handlers."""
_KNOWN = {"python", "shell", "console", "text", "json", "mermaid", "properties"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what the snippets change in the loggers, which all tests of the process share."""
    loggers = [logging.getLogger(), *map(logging.getLogger, ("pyklient", *_ours()))]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger in map(logging.getLogger, _ours()):
        logger.setLevel(logging.NOTSET)
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _ours() -> list[str]:
    return [name for name in logging.Logger.manager.loggerDict if name.startswith("pyklient")]


def _needs_spark(document: Path, block: Block) -> bool:
    return document.name.startswith("spark") or "pyspark" in block.text


_ON_SPARK = [path for path in DOCUMENTS if any(_needs_spark(path, block) for block in blocks(path))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_snippets_of_a_document_run_from_top_to_bottom(
    document: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _type(document, broker, tmp_path, on_spark=False)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("document", _ON_SPARK, ids=lambda path: path.name)
def test_the_snippets_of_a_document_about_spark_run_from_top_to_bottom(
    document: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _type(document, broker, tmp_path, on_spark=True)


@pytest.mark.parametrize(
    "count", [_READ_FIRST, pytest.param(len(DOCUMENTS), marks=pytest.mark.long)], ids=["first", "all"]
)
def test_the_snippets_of_documents_run_one_after_the_other(
    count: int, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [ROOT / "docs" / name for name in re.findall(r"\]\(([a-z-]+\.md)\)", index)]
    documents = [ROOT / "README.md", *pages]
    assert sorted({*documents, ROOT / "docs" / "index.md", ROOT / "CONTRIBUTING.md"}) == sorted(DOCUMENTS)
    for document in documents[:count]:
        _type(document, broker, tmp_path, on_spark=False)


def _type(document: Path, broker: Broker, directory: Path, *, on_spark: bool) -> None:
    """Run the blocks of *document*; those that need Spark, and so Java and time, only *on_spark*."""
    namespace: dict[str, Any] = {"__name__": document.stem}
    for block in blocks(document):
        assert block.language in _KNOWN, f"{document.name}:{block.line}: say what {block.language!r} is"
        if _needs_spark(document, block) and not on_spark:
            continue
        if block.language == "python":
            _run_python(document, block, broker.bootstrap_servers, namespace)
        elif block.language == "shell":
            _run_shell(document, block, broker.bootstrap_servers, directory)
    for value in namespace.values():
        if isinstance(value, sqlite3.Connection):
            value.close()  # Python 3.13 warns of a connection that is left open


def _run_python(document: Path, block: Block, address: str, namespace: dict[str, Any]) -> None:
    # Line numbers of a failure are the document's.
    host, _, port = address.rpartition(":")
    text = block.text.replace("localhost:9092", address).replace('"localhost", 9092', f'"{host}", {port}')
    source = "\n" * (block.line - 1) + text
    exec(compile(source, str(document), "exec"), namespace)


def _run_shell(document: Path, block: Block, address: str, directory: Path) -> None:
    script = block.text.replace("localhost:9092", address)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYKLIENT_BOOTSTRAP_SERVERS": address,
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{document.name}:{block.line}: {done.stderr}"
