"""Functions from source text that is built line by line.

A message costs what is called for it: an object, a string and a tuple of numbers are nothing against the
Python functions that would have to pass them on. So each class gets one function per version and direction,
in which the structures inside it are written out as loops. See :mod:`pyklient.protocol.encoding` and
:mod:`pyklient.protocol.decoding` for what is in there.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from pyklient.protocol.declared import Declared, Struct

__all__ = ["Source"]

_DEEPEST: Final = 6
"""Structures written out inside each other. What is deeper is called: Python nests no more than 20 loops."""

_LITERALS: Final = (type(None), bool, int, str, bytes)


class Source:
    """The source of one class in one version: lines, and the objects that they have names for.

    Names: ``v0``, ``v1``, ... are the structures on the way to the one at hand, ``a1``, ... the arrays that
    hold them, other single letters what has just been read. What is bound ends in an underscore and a number,
    so nothing that a message declares can clash; fields appear as attributes only.
    """

    verb: ClassVar[str]

    def __init__(self, version: int, flexible: bool, names: dict[str, Any]) -> None:
        self.version = version
        self.flexible = flexible
        self._names = dict(names)
        self._bound: dict[object, str] = {}
        self._lines: list[str] = []
        self._indent = ""
        self._inside: list[type[Struct]] = []
        self._functions: dict[type[Struct], str] = {}

    def add(self, *lines: str) -> None:
        """Lines at the current depth."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines below *head*, which ends in a colon."""
        self.add(head)
        self._indent += " "
        yield
        self._indent = self._indent[:-1]

    def bind(self, key: object, make: Callable[[], Any], name: str) -> str:
        """The name of what *make* returns, made once for each *key*. *name* is what it begins with."""
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = f"{name}_{len(self._bound)}"
            self._names[bound] = make()
        return bound

    def structure(self, cls: type[Struct]) -> str:
        """The name of the class *cls*."""
        return self.bind(cls, lambda: cls, cls.__name__)

    def default(self, field: Declared) -> str:
        """An expression for the default of *field*, to compare with."""
        if type(field.default) not in _LITERALS:
            return self.bind((id(field), "default"), field.make_default, "default")
        return repr(field.default)

    @contextmanager
    def written_out(self, cls: type[Struct]) -> Iterator[str]:
        """Where the fields of *cls* are written out: the name of the variable that holds the structure."""
        name = f"v{len(self._inside)}"
        self._inside.append(cls)
        yield name
        self._inside.pop()

    def layout(self, cls: type[Struct]) -> tuple[list[list[Declared]], list[Declared]]:
        """The fields of *cls* that this version has, in wire order: numbers next to each other together, any
        other by itself; and those that are tagged."""
        groups: list[list[Declared]] = []
        tagged: list[Declared] = []
        for field in cls.declared:
            if not field.in_version(self.version):
                continue
            if field.tag is not None:
                tagged.append(field)
            elif groups and field.is_number and groups[-1][0].is_number:
                groups[-1].append(field)
            else:
                groups.append([field])
        return groups, tagged

    @property
    def depth(self) -> int:
        """How many structures the current line is in."""
        return len(self._inside)

    def must_call(self, cls: type[Struct]) -> bool:
        """Whether *cls* cannot be written out here: it would be inside itself, or too deep."""
        return cls in self._inside or len(self._inside) >= _DEEPEST

    def function_of(self, cls: type[Struct]) -> str:
        """The name of the function for *cls*, which will be there when :meth:`build` is done."""
        number = len(self._functions)
        return self._functions.setdefault(cls, f"{self.verb}_{number}" if number else self.verb)

    def build(self, name: str, title: str, write_function: Callable[[type[Struct], str], None]) -> Any:
        """The function *name*, once *write_function* has written all those that are called.

        *title* stands for the file in tracebacks, which show the lines as they would a file's.
        """
        written = 0
        while written < len(self._functions):
            cls, function = list(self._functions.items())[written]
            write_function(cls, function)
            written += 1
        text = "\n".join([*self._lines, ""])
        filename = f"<{title} v{self.version}>"
        exec(compile(text, filename, "exec"), self._names)
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        return self._names[name]
