"""Kafka's message definitions, read from its jars, and the differences between them and pyklient's
declarations."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSES,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    RequestHeader,
    ResponseHeader,
)
from pyklient.protocol.schema import ApiMessage
from tests.servers.maven import kafka_libs

__all__ = ["KAFKAS", "MESSAGES", "Definition", "Overrides", "definition", "differences", "json_name"]

KAFKAS: Final = ("3.9.1", "4.3.1")
"""The versions of Kafka, oldest first. 3.9.1 is the last one that has the versions which 4.0 removed."""

MESSAGES: Final[tuple[type[ApiMessage], ...]] = (
    *REQUESTS.values(),
    *RESPONSES.values(),
    RequestHeader,
    ResponseHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
)

Overrides = Mapping[type[Struct], tuple[Field, ...]]
"""Other declarations to compare instead of those of the classes."""

_ENDLESS: Final = 1 << 15


@dataclass(frozen=True)
class Definition:
    """One JSON file: its fields, and the structures that it names once for several fields."""

    name: str
    api_key: int
    versions: range
    flexible: range
    fields: list[dict[str, Any]]
    shared: dict[str, list[dict[str, Any]]]

    def nested(self, field: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the fields of the structure that *field* holds."""
        inside: list[dict[str, Any]] | None = field.get("fields")
        return self.shared[_base(field)] if inside is None else inside


@cache
def definition(kafka: str, name: str) -> Definition:
    """Return the definition of message *name* in the jar of Kafka *kafka*."""
    (jar,) = kafka_libs(kafka).glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(f"common/message/{name}.json").decode()
    found = json.loads(re.sub(r"(?m)//.*$", "", text))
    return Definition(
        name=name,
        api_key=found.get("apiKey", -1),
        versions=_span(found["validVersions"]),
        flexible=_span(found["flexibleVersions"]),
        fields=found["fields"],
        shared={shared["name"]: shared["fields"] for shared in found.get("commonStructs", [])},
    )


def json_name(name: str) -> str:
    """Return the name in Kafka's definitions for the field *name*: ``max_bytes`` → ``MaxBytes``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def differences(cls: type[ApiMessage], kafka: str, overrides: Overrides | None = None) -> list[str]:
    """Return the differences between the declaration of *cls* and the definition of Kafka *kafka*; an empty
    list if there are none.

    In each version of the definition these are compared: the order of fields, their types, null, tags,
    defaults and compact strings; and over all versions which fields are ignorable.
    """
    theirs = definition(kafka, cls.__name__)
    found = []
    if cls.api_key != theirs.api_key:
        found.append(f"API key {cls.api_key}, not {theirs.api_key}")
    for version in theirs.versions:
        if not cls.versions[0] <= version <= cls.versions[1]:
            found.append(f"v{version} is missing")
        elif cls.is_flexible(version) != (version in theirs.flexible):
            found.append(f"v{version} flexible: {cls.is_flexible(version)}")
        else:
            ours = _ours(cls, version, overrides or {})
            found += _compared(ours, _theirs(theirs, theirs.fields, version), f"v{version}")
    found += _ignorable_differences(cls, theirs, kafka, overrides or {})
    return found


def _compared(ours: list[tuple[str, Any]], theirs: list[tuple[str, Any]], where: str) -> list[str]:
    if [name for name, _ in ours] != [name for name, _ in theirs]:
        return [f"{where}: fields {[name for name, _ in ours]}, not {[name for name, _ in theirs]}"]
    return [
        f"{where} {name}: {our}, not {their}"
        for (name, our), (_, their) in zip(ours, theirs, strict=True)
        if our != their
    ]


def _ours(
    cls: type[Struct], version: int, overrides: Overrides, path: str = "", flexible: bool | None = None
) -> list[tuple[str, Any]]:
    """Return (path, facts) of every field in *version*, including the fields of structures."""
    if flexible is None:
        flexible = issubclass(cls, ApiMessage) and cls.is_flexible(version)
    found: list[tuple[str, Any]] = []
    for field in overrides.get(cls, cls.declared):
        if not field.in_version(version):
            continue
        is_struct = not isinstance(field.kind, WireType)
        facts = {
            "type": field.kind.__name__ if isinstance(field.kind, type) else field.kind.name,
            "array": field.is_array,
            "null": field.nullable_in(version),
            "tag": field.tag,
            "default": {} if is_struct and not field.is_array else field.default,
            "compact": field.compact and flexible,
        }
        found.append((path + json_name(field.name), facts))
        if isinstance(field.kind, type):
            found += _ours(field.kind, version, overrides, f"{path}{json_name(field.name)}.", flexible)
    return found


def _theirs(
    source: Definition, fields: list[dict[str, Any]], version: int, path: str = ""
) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for field in fields:
        if version not in _span(field["versions"]):
            continue
        name = path + field["name"][0].upper() + field["name"][1:]
        compact = source.flexible if "flexibleVersions" not in field else _span(field["flexibleVersions"])
        facts = {
            "type": _base(field),
            "array": field["type"].startswith("[]"),
            "null": version in _span(field.get("nullableVersions")),
            "tag": field["tag"] if version in _span(field.get("taggedVersions")) else None,
            "default": _default(field),
            "compact": version in compact,
        }
        found.append((name, facts))
        if _is_struct(field):
            found += _theirs(source, source.nested(field), version, name + ".")
    return found


def _ignorable_differences(
    cls: type[ApiMessage], theirs: Definition, kafka: str, overrides: Overrides
) -> list[str]:
    """Return the fields that some versions lack and that are ignorable in only one of the two."""
    ours = dict(_our_ignorables(cls, range(cls.versions[0], cls.versions[1] + 1), overrides))
    newer: set[str] = set()
    for later in KAFKAS[KAFKAS.index(kafka) + 1 :]:
        source = definition(later, cls.__name__)
        newer.update(name for name, _ in _their_ignorables(source, source.fields))
    return [
        f"{name}: ignorable {ours[name]}, not {ignorable}"
        for name, ignorable in _their_ignorables(theirs, theirs.fields)
        if name in ours and name not in newer and ours[name] != ignorable
    ]


def _our_ignorables(
    cls: type[Struct], versions: range, overrides: Overrides, path: str = ""
) -> Iterator[tuple[str, bool]]:
    for field in overrides.get(cls, cls.declared):
        name = path + json_name(field.name)
        if not all(field.in_version(version) for version in versions):
            yield name, field.ignorable
        if isinstance(field.kind, type):
            yield from _our_ignorables(field.kind, versions, overrides, name + ".")


def _their_ignorables(
    source: Definition, fields: list[dict[str, Any]], path: str = ""
) -> Iterator[tuple[str, bool]]:
    for field in fields:
        name = path + field["name"][0].upper() + field["name"][1:]
        yield name, str(field.get("ignorable", False)).lower() == "true"
        if _is_struct(field):
            yield from _their_ignorables(source, source.nested(field), name + ".")


def _base(field: dict[str, Any]) -> str:
    name: str = field["type"]
    return name.removeprefix("[]")


def _is_struct(field: dict[str, Any]) -> bool:
    return _base(field)[0].isupper()


def _default(field: dict[str, Any]) -> Any:
    """Return the default as a Python value; ``{}`` for a structure."""
    text = field.get("default")
    if text == "null" or (text is None and field["type"] == "records"):
        return None
    if field["type"].startswith("[]"):
        return []
    if _is_struct(field):
        return {}
    if field["type"] == "bool":
        return str(text).lower() == "true"
    if field["type"] in ("string", "bytes", "uuid"):
        return {"string": text or "", "bytes": b"", "uuid": bytes(16)}[field["type"]]
    return 0 if text is None else int(str(text), 0)


def _span(text: str | None) -> range:
    """Return ``3-13``, ``9+``, ``2`` or ``none`` as a range."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _ENDLESS)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
