"""pyklient/options.py, written from the options in ``pyklient.config``.

``python -m tests.docs.option_types`` writes the file; a test compares it.
"""

import ast
import inspect
import json
import textwrap
from dataclasses import Field, fields
from typing import Any

from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from pyklient.consumer.read import NOT_READ
from tests.docs.markdown import ROOT

__all__ = ["TARGET", "module"]

TARGET = ROOT / "pyklient" / "options.py"
_WIDTH = 110
_POSITIONAL = frozenset({"bootstrap_servers"})
"""What the clients have as a parameter of its own."""

_HEAD = '''\
"""The keyword arguments of the clients, for type checkers and editors.

Written from ``pyklient/config.py`` by ``python -m tests.docs.option_types``; a test compares the two.
"""

import ssl
from collections.abc import Callable
from typing import Literal, TypedDict

from pyklient.config import HasPartition
from pyklient.serialization import Encoder

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "ReadOptions"]
'''


def module() -> str:
    """The whole module."""
    of_all = _names(ClientConfig)
    parts = [
        _HEAD,
        _typed_dict("ClientOptions", "TypedDict", "What every client takes.", ClientConfig, of_all),
        _typed_dict(
            "AdminOptions", "ClientOptions", AdminConfig.__doc__, AdminConfig, _names(AdminConfig) - of_all
        ),
        _typed_dict(
            "ProducerOptions",
            "ClientOptions",
            ProducerConfig.__doc__,
            ProducerConfig,
            _names(ProducerConfig) - of_all,
        ),
        _typed_dict(
            "ReadOptions",
            "ClientOptions",
            "Options of read().",
            ConsumerConfig,
            _names(ConsumerConfig) - of_all - NOT_READ,
        ),
        _typed_dict(
            "ConsumerOptions", "ReadOptions", "Options of ConsumerConnector.", ConsumerConfig, set(NOT_READ)
        ),
    ]
    return "\n\n".join(parts)


def _names(config: type[ClientConfig]) -> set[str]:
    return {item.name for item in fields(config)} - _POSITIONAL


def _typed_dict(
    name: str, base: str, sentence: str | None, config: type[ClientConfig], names: set[str]
) -> str:
    annotations = _annotations(config)
    lines = [f"class {name}({base}, total=False):", f'    """{sentence}"""']
    for item in fields(config):
        if item.name in names:
            lines += ["", *_entry(item, annotations[item.name])]
    return "\n".join(lines) + "\n"


def _entry(item: "Field[Any]", annotation: str) -> list[str]:
    choices = item.metadata["choices"]
    if choices is not None:
        annotation = f"Literal[{', '.join(map(_literal, choices))}]"
    sentence = textwrap.wrap(f'"""{item.metadata["doc"]}"""', _WIDTH - 4)
    return [f"    {item.name}: {annotation}", *(f"    {line}" for line in sentence)]


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _annotations(config: type[ClientConfig]) -> dict[str, str]:
    """The types of the options as ``config.py`` spells them."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__[:-1]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        body = tree.body[0]
        assert isinstance(body, ast.ClassDef)
        for node in body.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = ast.unparse(node.annotation)
    return found


if __name__ == "__main__":
    TARGET.write_text(module(), encoding="utf-8")
