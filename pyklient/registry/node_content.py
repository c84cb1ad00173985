"""Parsers for the content of ZooKeeper nodes. They check all fields, because other programs write these nodes
too."""

import json
import re
import time
from typing import Any, Final, NoReturn

from pyklient.errors import NodeContentError

__all__ = ["NodeFields", "garbled", "json_content", "now_ms", "text_content", "whole_number"]

_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


def garbled(path: str, content: bytes, why: str) -> NodeContentError:
    """Return an error that says that the content of the node at *path* is invalid. *why* is the reason."""
    shown = repr(content[:_SHOWN])[1:] + (" …" if len(content) > _SHOWN else "")
    return NodeContentError(
        f"ZooKeeper's node {path} cannot be understood: {why}. The content is {shown}; find the program that "
        "wrote this content, or delete the node"
    )


def text_content(path: str, content: bytes) -> str:
    """Return *content* as text without the white space around it. Raises NodeContentError, which names the
    node at *path*, if it is not UTF-8."""
    try:
        return content.decode().strip()
    except UnicodeDecodeError:
        raise garbled(path, content, "the content is not text in UTF-8") from None


def whole_number(path: str, content: bytes) -> int:
    """Return the whole number that *content* contains as text. Raises NodeContentError, which names the node
    at *path*, if *content* is not a number."""
    text = text_content(path, content)
    if not _NUMBER.fullmatch(text):
        raise garbled(path, content, "the content is not a whole number")
    return int(text)


def now_ms() -> int:
    """Return the present time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def json_content(**values: object) -> bytes:
    """Return *values* as JSON in the given order and without spaces, as Kafka writes it."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


class NodeFields:
    """The fields of the JSON object in a ZooKeeper node.

    If a field does not have the type that a method expects, the method raises NodeContentError with the path
    of the node and the name of the field.
    """

    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content = content
        text = text_content(path, content)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise garbled(path, content, "the content is not JSON") from None
        if not isinstance(value, dict):
            raise garbled(path, content, "the content is not a JSON object")
        self._values: dict[str, Any] = value

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def wrong(self, why: str) -> NoReturn:
        """Raise a NodeContentError with the reason *why*."""
        raise garbled(self._path, self._content, why)

    def number(self, name: str, default: int | None = None) -> int:
        """Return the whole number in field *name*, or *default* if the field is missing.

        The number may be written as text, as in ``"timestamp":"1400"``.
        """
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(f"{name!r} is {'missing' if value is None else 'not a whole number'}")
        return value

    def text(self, name: str) -> str:
        """Return the text in field *name*. Raises NodeContentError if the field is missing."""
        value = self._values.get(name)
        if not isinstance(value, str):
            self.wrong(f"{name!r} is {'missing' if value is None else 'not text'}")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return the text in field *name*, or None if the field is missing."""
        return self.text(name) if name in self else None

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the whole numbers in field *name*, which is a list. Raises NodeContentError if the field is
        missing."""
        return self._numbers(name, self._values.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts in field *name*, which is a list. The result is empty if the field is missing."""
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.wrong(f"{name!r} is not a list of texts")
        return tuple(value)

    def number_lists(self, name: str) -> dict[int, tuple[int, ...]]:
        """Return field *name*, an object that maps numbers, written as text, to lists of numbers.

        The result is empty if the field is missing.
        """
        found = {}
        for key, value in self._object(name).items():
            if not _NUMBER.fullmatch(key):
                self.wrong(f"{key!r} in {name!r} is not a whole number")
            found[int(key)] = self._numbers(name, value)
        return dict(sorted(found.items()))

    def numbers_by_text(self, name: str) -> dict[str, int]:
        """Return field *name*, an object that maps texts to whole numbers. Raises NodeContentError if the
        field is missing."""
        if name not in self:
            self.wrong(f"{name!r} is missing")
        found = self._object(name)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in found.values()):
            self.wrong(f"a value in {name!r} is not a whole number")
        return found

    def texts_by_text(self, name: str) -> dict[str, str]:
        """Return field *name*, an object that maps texts to texts. The result is empty if the field is
        missing."""
        found = self._object(name)
        if not all(isinstance(value, str) for value in found.values()):
            self.wrong(f"a value in {name!r} is not text")
        return found

    def _object(self, name: str) -> dict[str, Any]:
        value = self._values.get(name, {})
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(f"{name!r} is not an object")
        return value

    def _numbers(self, name: str, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) for item in value
        ):
            self.wrong(f"{name!r} {'is missing' if value is None else 'has no list of whole numbers'}")
        return tuple(value)
