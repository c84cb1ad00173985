"""Imports the module of a public name when the name is first used (PEP 562)."""

from collections.abc import Callable, Mapping, Set
from importlib import import_module
from typing import Any

__all__ = ["on_first_use"]


def on_first_use(
    namespace: dict[str, Any], homes: Mapping[str, str], modules: Set[str] = frozenset()
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the package whose globals are *namespace*.

    *homes* maps each public name to the module that defines it. *modules* are the names of submodules. A name
    is imported when it is first used. Then it is an ordinary attribute of the package.
    """
    package = namespace["__name__"]

    def resolve(name: str) -> Any:
        if name in homes:
            namespace[name] = value = getattr(import_module(homes[name]), name)
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return resolve
