"""Names of a package that bring what they need when they are first used (PEP 562)."""

from collections.abc import Callable, Mapping, Set
from importlib import import_module
from typing import Any

__all__ = ["on_first_use"]


def on_first_use(
    namespace: dict[str, Any], homes: Mapping[str, str], modules: Set[str] = frozenset()
) -> Callable[[str], Any]:
    """The ``__getattr__`` of the package whose globals are *namespace*.

    *homes* says which module each name is in; those of *modules* are modules of the package itself. What has
    been used once is an ordinary name of the package.
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
