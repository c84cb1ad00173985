"""Generates Python functions as source text, line by line, which encode or decode the messages of Kafka's
protocol: requests, responses, and other data with versions.

The cost of encoding or decoding a message is mostly the number of Python functions that are called. Therefore
each class gets one generated function per version and direction. Nested structures are handled by loops
inside this function instead of by calls. The lines come from :mod:`pyklient.protocol.encoder_generation` and
:mod:`pyklient.protocol.decoder_generation`.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyklient.protocol.message_fields import Field, Struct

__all__ = ["FunctionSource"]

_DEEPEST: Final = 6
"""The number of nested structures for which loops are generated. Structures that are nested deeper get
functions of their own, because Python allows no more than 20 nested loops."""

_LITERALS: Final = (type(None), bool, int, str, bytes)


class FunctionSource:
    """The source text of the generated functions for one class in one version, and the objects to which the
    generated lines refer.

    The generated lines use these names: ``v0`` is the whole request, response or other message of the
    protocol, and ``v1``, ``v2``, ... are the structures nested in it, from outside to inside; ``a1``, ``a2``,
    ... are the arrays that hold the nested structures; other single letters are values that were just read.
    The name of an object that :meth:`bind` has added ends in an underscore and a number. Fields appear as
    attributes only, so no name in a message can clash with these names. The names of the functions begin with
    the constructor's argument *verb*, such as ``encode``.
    """

    def __init__(self, verb: str, version: int, flexible: bool, names: dict[str, Any]) -> None:
        self._verb = verb
        self.version = version
        self.flexible = flexible
        self._names = dict(names)
        self._bound: dict[object, str] = {}
        self._lines: list[str] = []
        self._indent = ""
        self._inside: list[type[Struct]] = []
        self._functions: dict[type[Struct], str] = {}

    def add(self, *lines: str) -> None:
        """Add *lines* to the source text, with the current indentation."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add the line *head*, which ends in a colon, and indent all lines that are added inside the ``with``
        block."""
        self.add(head)
        self._indent += " "
        yield
        self._indent = self._indent[:-1]

    def bind(self, key: object, make: Callable[[], Any], name: str) -> str:
        """Return a name by which the generated lines can refer to the object that *make* returns.

        *make* is called only once for each *key*; a later call with this key returns the same name. The name
        begins with *name*.
        """
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = f"{name}_{len(self._bound)}"
            self._names[bound] = make()
        return bound

    def structure(self, cls: type[Struct]) -> str:
        """Return the name by which the generated lines refer to *cls*, the class of a structure."""
        return self.bind(cls, lambda: cls, cls.__name__)

    def default(self, field: Field) -> str:
        """Return an expression whose value is the default of *field*."""
        if type(field.default) not in _LITERALS:
            return self.bind((id(field), "default"), field.make_default, "default")
        return repr(field.default)

    @contextmanager
    def written_out(self, cls: type[Struct]) -> Iterator[str]:
        """Increase the depth by one while the ``with`` block generates code for the fields of the structure
        *cls*. This keeps the names of the variables of nested structures apart.

        Yields the name of the variable that holds the structure.
        """
        name = f"v{len(self._inside)}"
        self._inside.append(cls)
        yield name
        self._inside.pop()

    def layout(self, cls: type[Struct]) -> tuple[list[list[Field]], list[Field]]:
        """Return two lists of the fields of *cls* that this version has: groups of untagged fields, in the
        order in which they are sent, and the tagged fields.

        Neighbouring fields that are numbers form one group, so that one call of ``struct`` can handle them.
        Every other field is a group by itself.
        """
        groups: list[list[Field]] = []
        tagged: list[Field] = []
        for field in cls.declared:
            if not field.in_version(self.version):
                continue
            if field.tag is not None:
                tagged.append(field)
            elif groups and field.number and groups[-1][0].number:
                groups[-1].append(field)
            else:
                groups.append([field])
        return groups, tagged

    @property
    def depth(self) -> int:
        """The number of structures that contain the structure whose code is being generated."""
        return len(self._inside)

    def must_call(self, cls: type[Struct]) -> bool:
        """Return True if the generated code must call a function for the structure *cls*, because *cls*
        contains itself or is nested too deep for one more loop."""
        return cls in self._inside or len(self._inside) >= _DEEPEST

    def function_of(self, cls: type[Struct]) -> str:
        """Return the name of the function for *cls*. The function itself is written later, by
        :meth:`build`."""
        number = len(self._functions)
        return self._functions.setdefault(cls, f"{self._verb}_{number}" if number else self._verb)

    def build(self, name: str, title: str, write_function: Callable[[type[Struct], str], None]) -> Any:
        """Compile the functions of all classes that were passed to :meth:`function_of`. Return the function
        that is called *name*.

        *write_function* adds the lines of one function to the source text. *title* is shown as the file name
        in tracebacks, which include the generated lines.
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
