"""Both kernels, whichever of them the tests run with."""

import importlib
from types import SimpleNamespace
from typing import Any, Final

from pyklient import kernel as in_use

__all__ = ["COMPILED", "KERNELS", "PYTHON", "outcome_of"]

_MODULES: Final = {
    "python": "python_kernel",
    "compiled": "_kernel",
}


def _load(name: str) -> Any:
    members: dict[str, Any] = {"name": name, "Chunk": in_use.Chunk}
    try:
        module = importlib.import_module(f"pyklient.kernel.{_MODULES[name]}")
    except ImportError as error:
        raise ImportError(
            f"the tests compare both kernels, and the {name} one does not load: "
            "with a C compiler installed, run `pip install -e .`"
        ) from error
    members |= {member: getattr(module, member) for member in module.__all__}
    return SimpleNamespace(**members)


PYTHON: Final = _load("python")
COMPILED: Final = _load("compiled")
KERNELS: Final = [PYTHON, COMPILED]


def outcome_of(call: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, or its exception with its notes, in a form that can be compared."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", [])
