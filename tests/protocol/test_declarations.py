"""pyklient's declarations of messages, compared with the definitions in Kafka's jars."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyklient.protocol.message_fields import Field, Struct, WireType
from pyklient.protocol.schema import ApiMessage
from tests.protocol.definitions import KAFKAS, MESSAGES, definition, differences

pytestmark = pytest.mark.java

_OTHER_TYPES = {"string": "bytes", "bytes": "string", "int32": "uint32", "uuid": "bytes", "records": "bytes"}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("kafka", KAFKAS)
def test_every_version_of_a_message_is_declared_as_kafka_defines_it(
    kafka: str, cls: type[ApiMessage]
) -> None:
    assert differences(cls, kafka) == []


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_versions_run_from_the_oldest_to_the_newest_that_any_of_the_jars_knows(cls: type[ApiMessage]) -> None:
    spans = [definition(kafka, cls.__name__).versions for kafka in KAFKAS]
    assert cls.versions == (min(span[0] for span in spans), max(span[-1] for span in spans))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_change_to_any_fact_of_any_field_is_noticed(cls: type[ApiMessage]) -> None:
    unnoticed = [
        f"{owner.__qualname__}: {what}"
        for owner, what, declared in _changes(cls, cls, range(cls.versions[0], cls.versions[1] + 1))
        if not any(differences(cls, kafka, {owner: declared}) for kafka in KAFKAS)
    ]
    assert unnoticed == []


def _changes(
    message: type[ApiMessage], cls: type[Struct], sent: range
) -> Iterator[tuple[type[Struct], str, tuple[Field, ...]]]:
    """Yield declarations of *cls* in each of which one fact is changed. *sent* are the versions in which the
    class is used."""
    for index, field in enumerate(cls.declared):
        for what, changed in _changed_fields(message, field, sent):
            declared = (*cls.declared[:index], changed, *cls.declared[index + 1 :])
            yield cls, f"{field.name} {what}", declared
        if isinstance(field.kind, type):
            inner = [version for version in sent if field.in_version(version)]
            yield from _changes(message, field.kind, range(inner[0], inner[-1] + 1))


def _changed_fields(message: type[ApiMessage], field: Field, sent: range) -> Iterator[tuple[str, Field]]:
    begin = max(sent[0], field.since)
    yield "a version later", replace(field, since=begin + 1)
    yield "gone", replace(field, until=begin - 1)
    if begin > sent[0]:
        yield "a version earlier", replace(field, since=begin - 1)
    if field.until is not None and field.until < sent[-1]:
        yield "a version longer", replace(field, until=field.until + 1)
    yield "array or not", replace(field, is_array=not field.is_array)
    yield "null or not", replace(field, nullable_since=None if field.nullable_since is not None else begin)
    yield "another tag", replace(field, tag=20 if field.tag is None else None)
    if isinstance(field.kind, WireType):
        other = _OTHER_TYPES.get(field.kind.name, "string")
        yield "another type", replace(field, kind=WireType(other, field.kind.zero))
        yield "another default", replace(field, default="other" if field.default is None else None)
    if not all(field.in_version(version) for version in range(message.versions[0], message.versions[1] + 1)):
        yield "ignorable or not", replace(field, ignorable=not field.ignorable)
    if any(message.is_flexible(version) and field.in_version(version) for version in sent):
        yield "compact or not", replace(field, compact=not field.compact)
