"""A profile: the properties that a classic client has in one version of Kafka, and how they are read."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pyklient import argument_checks
from pyklient.config.unknown_options import did_you_mean
from pyklient.errors import ConfigurationError
from pyklient.properties.values import Parse, text

__all__ = ["Given", "Profile", "ProfileName", "Property", "choose"]

log = logging.getLogger("pyklient")

ProfileName: TypeAlias = Literal["0.7", "0.8", "0.10"]
"""The version of Kafka that gives the properties of a client their names, defaults and rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property of a classic client in one version of Kafka: its key, its default, the values that it
    accepts, and its effect in pyklient."""

    key: str
    default: Any = None
    parse: Parse = text
    option: str | None = None
    """The option of pyklient that gets the value. None if no option does; ``effect`` then describes the
    effect of the value."""
    to_option: Callable[[Any], Any] = field(default=lambda value: value)
    """A function that converts the value of the property into the value of ``option``."""
    effect: str = ""
    """A description of what the property does in pyklient, if that is not clear from ``option``."""
    also: Sequence[str] = ()
    """The spellings of the key in other versions of Kafka."""
    ambiguous: str | None = None
    """The spelling in ``also`` that is also a property of today's clients in Java, with another meaning. A
    program that uses this spelling gets a warning, which ends with ``ambiguity``. None if there is none."""
    ambiguity: str = ""
    default_from: str | None = None
    """The key of another property, whose value determines the default of this property."""
    make_default: Callable[[Any], Any] = field(default=lambda value: value)
    """A function that makes the default from the value of the property ``default_from``."""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """The values of all properties of a client, and the keys under which the program has given them."""

    values: Mapping[str, Any]
    spellings: Mapping[str, str]
    """The key as the program has written it, by the key in the client's version of Kafka. Has only the
    properties that were given."""

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __contains__(self, key: str) -> bool:
        return key in self.spellings

    def shown(self, key: str) -> str:
        """Return ``key=value`` for a message, with *key* as the program has written it."""
        return f"{self.spellings.get(key, key)}={self.values[key]}"


Rule: TypeAlias = Callable[[Given], None]
"""A function that raises ConfigurationError if properties contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The properties of one client in one version of Kafka."""

    name: ProfileName
    client: str
    """The name of the client, for messages."""
    properties: Sequence[Property]
    without_effect: Mapping[str, str]
    """Keys that raise an error, each with a text that says what has replaced it. A key that ends with ``*``
    stands for all keys with this beginning."""
    rules: Sequence[Rule] = ()

    def read(self, properties: Mapping[str, object]) -> Given:
        """Return the values of all properties: those in *properties*, checked, and the defaults.

        Unknown keys are logged as warnings, except those that begin with ``external``. Raises
        ConfigurationError in these cases: a value is not accepted, a key has been replaced by something else,
        a property is given under two keys, a required property is missing, or properties contradict each
        other.
        """
        spellings = self._spellings(argument_checks.mapping(properties, "properties", _EXAMPLE))
        values: dict[str, Any] = {}
        for each in self.properties:
            if each.key in spellings:
                written = spellings[each.key]
                values[each.key] = each.parse(written, properties[written])
            elif each.required:
                raise ConfigurationError(
                    f"the property {each.key} is missing; {self.client} needs it with profile={self.name!r}"
                )
            else:
                source = each.default_from
                values[each.key] = each.default if source is None else each.make_default(values[source])
        given = Given(values, spellings)
        for rule in self.rules:
            rule(given)
        return given

    def options(self, given: Given) -> dict[str, Any]:
        """Return the options of pyklient that follow from *given*: one for each property that sets an
        option."""
        return {
            each.option: each.to_option(given[each.key])
            for each in self.properties
            if each.option is not None and given[each.key] is not None
        }

    def _spellings(self, properties: Mapping[str, object]) -> dict[str, str]:
        """Return the spelling of each property's key in *properties*, by the key in this profile's version of
        Kafka. The result has only the properties that are given."""
        keys = {spelling: each.key for each in self.properties for spelling in (each.key, *each.also)}
        found: dict[str, str] = {}
        for written in properties:
            if not isinstance(written, str):
                raise ConfigurationError(f"the key {written!r} of a property is not text")
            if (replacement := self._replacement(written)) is not None:
                raise ConfigurationError(f"{written} has no effect on {self.client}: {replacement}")
            key = keys.get(written)
            if key is None:
                self._warn(written, keys)
            elif key in found:
                raise ConfigurationError(
                    f"{found[key]} and {written} are two names of the same property; remove one of them"
                )
            else:
                found[key] = written
        for each in self.properties:
            if each.ambiguous is not None and found.get(each.key) == each.ambiguous:
                log.warning(
                    "the property %s is read as another name of %s: %s",
                    each.ambiguous,
                    each.key,
                    each.ambiguity,
                )
        return found

    def _replacement(self, written: str) -> str | None:
        for key, replacement in self.without_effect.items():
            if written == key or (key.endswith("*") and written.startswith(key[:-1])):
                return replacement
        return None

    def _warn(self, written: str, keys: Mapping[str, str]) -> None:
        if not written.startswith(_EXEMPT):
            log.warning(
                "the property %s was ignored: %s has no such property with profile=%r%s",
                written,
                self.client,
                self.name,
                did_you_mean(written, keys),
            )


_EXAMPLE: Final = "{'group.id': 'billing'}"

_EXEMPT: Final = "external"
"""The beginning of keys that belong to the program's own code, such as a partitioner. No warning names such a
key."""


def choose(profiles: Mapping[ProfileName, Profile], name: str) -> Profile:
    """Return the profile for *name*, a version of Kafka. A profile has the properties of a client in one
    version. Raises ConfigurationError if *profiles* has no such version."""
    for each in profiles.values():
        if each.name == name:
            return each
    raise ConfigurationError(
        f"profile={name!r} is unknown; choose one of {', '.join(map(repr, profiles))}, or None for the "
        "properties of Kafka's current Java clients"
    )
