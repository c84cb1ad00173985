"""Loads the objects that properties name. A property names a Python object as ``module:name``, or a class of
Kafka that pyklient has too."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.properties.values import text

__all__ = ["instance", "load"]

_OF_KAFKA: Final = {
    "kafka.producer.ByteArrayPartitioner": "pyklient.classic.partitioners:ByteArrayPartitioner",
    "kafka.producer.DefaultPartitioner": "pyklient.classic.partitioners:DefaultPartitioner",
    "kafka.serializer.DefaultEncoder": "pyklient.classic.encoders:DefaultEncoder",
    "kafka.serializer.StringEncoder": "pyklient.classic.encoders:StringEncoder",
}
"""The classes of Kafka that a property may name, and the corresponding classes of pyklient."""


def load(key: str, value: object) -> Any:
    """Return the object that *value* names: ``module:name``, where the name may have dots, or a class of
    Kafka that pyklient has too. A *value* that is not text is returned as it is.

    Raises ConfigurationError if the module or the name does not exist. The error names *key*, the key of the
    property.
    """
    if not isinstance(value, str):
        return value
    written = text(key, value).strip()
    module, colon, name = _OF_KAFKA.get(written, written).partition(":")
    if not colon or not module or not name or module.startswith("."):
        kind = "not the name of a class in Python"
        if written.startswith("kafka."):
            kind = "a class of Java, which pyklient does not have"
        raise ConfigurationError(
            f"{key}={written!r} is {kind}; write module:name, such as {_example(written)}"
        )
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # the module runs, so any error may come
        raise ConfigurationError(
            f"{key}={written!r}: the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(f"{key}={written!r}: the module {module!r} has no {name!r}") from None
    return found


def instance(key: str, value: object, properties: Mapping[str, object]) -> Any:
    """Return the object that *value* names, or a new instance if it is a class.

    A class whose constructor takes an argument gets *properties*, as in Kafka. Raises ConfigurationError if
    the object does not exist or cannot be made. The error names *key*, the key of the property.
    """
    found = load(key, value)
    if not inspect.isclass(found):
        return found
    try:
        return found(*([properties] if _takes_one(found) else []))
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{key}={value!r}: the class could not be instantiated: {type(error).__name__}: {error}"
        ) from error


def _example(written: str) -> str:
    """Return an example of the form ``module:name`` for an error message: *written* with a colon in place of
    its last dot, or a fixed example if that makes no name of an object."""
    module, _, name = written.rpartition(".")
    is_path = module and all(each.isidentifier() for each in (*module.split("."), name))
    return f"{module}:{name}" if is_path and not written.startswith("kafka.") else "my_package.module:MyClass"


def _takes_one(kind: type) -> bool:
    """Return True if the constructor of *kind* needs one argument."""
    try:
        inspect.signature(kind).bind()
    except TypeError:
        return True
    except ValueError:  # the signature of a class in C may be unknown
        return False
    return False
