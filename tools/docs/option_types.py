"""Writes pyklient/config/keyword_types.py from the options in ``pyklient.config``, and the broker's.

``python -m tools.docs.option_types`` writes the files; a test compares them.
"""

import ast
import inspect
import json
import textwrap
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

from pyklient.broker.config import BrokerConfig
from pyklient.config import NOT_READ, AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from tools.repository import ROOT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["MODULES"]

_WIDTH = 110
_POSITIONAL = frozenset({"bootstrap_servers"})
"""Options that are parameters of the clients, and therefore not among the keyword arguments."""

_HEAD = '''\
"""The keyword arguments of the clients, for type checkers and editors.

``python -m tools.docs.option_types`` generates this file from ``pyklient/config/option_declarations/``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from pyklient.assignors.assignor import Assignor
from pyklient.config.option_declarations.producer_options import HasPartition
from pyklient.corrupt_records import CorruptRecords
from pyklient.offset_stores.offset_store import OffsetStore
from pyklient.serialization import Encoder

if TYPE_CHECKING:
    import ssl

__all__ = ["AdminOptions", "ClientOptions", "ConsumerOptions", "ProducerOptions", "ReadOptions"]
'''


_BROKER_HEAD = '''\
"""The keyword arguments of Broker, for type checkers and editors.

``python -m tools.docs.option_types`` generates this file from ``pyklient/broker/config.py``.
"""

from typing import TypedDict

__all__ = ["BrokerOptions"]
'''


def _of_clients() -> str:
    of_all = _names(ClientConfig)
    parts = [
        _HEAD,
        _typed_dict("ClientOptions", "TypedDict", "Options of every client.", ClientConfig, of_all),
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


def _of_the_broker() -> str:
    names = {item.name for item in fields(BrokerConfig)}
    sentence = "Options of Broker. Sizes are bytes, times are milliseconds."
    return "\n\n".join(
        [_BROKER_HEAD, _typed_dict("BrokerOptions", "TypedDict", sentence, BrokerConfig, names)]
    )


def _names(config: type[ClientConfig]) -> set[str]:
    return {item.name for item in fields(config)} - _POSITIONAL


def _typed_dict(
    name: str, base: str, sentence: str | None, config: type["DataclassInstance"], names: set[str]
) -> str:
    annotations = _annotations(config)
    lines = [f"class {name}({base}, total=False):", f'    """{sentence}"""']
    for item in fields(config):
        if item.name in names:
            lines += ["", *_entry(item, annotations[item.name])]
    return "\n".join(lines) + "\n"


def _entry(item: "Field[Any]", annotation: str) -> list[str]:
    choices = item.metadata.get("choices")
    if choices is not None and item.metadata.get("also") is None:
        annotation = f"Literal[{', '.join(map(_literal, choices))}]"
    sentence = textwrap.wrap(f'"""{item.metadata["doc"]}"""', _WIDTH - 4)
    return [f"    {item.name}: {annotation}", *(f"    {line}" for line in sentence)]


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _annotations(config: type["DataclassInstance"]) -> dict[str, str]:
    """Return the types of the options as written in the module of *config*."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__[:-1]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        body = tree.body[0]
        assert isinstance(body, ast.ClassDef)
        for node in body.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = ast.unparse(node.annotation)
                found[node.target.id] = text.replace("'", '"')  # as ruff writes texts
    return found


MODULES = {
    ROOT / "pyklient" / "config" / "keyword_types.py": _of_clients,
    ROOT / "pyklient" / "broker" / "keyword_types.py": _of_the_broker,
}
"""File → the function that writes it."""


if __name__ == "__main__":
    for target, write in MODULES.items():
        target.write_text(write(), encoding="utf-8")
