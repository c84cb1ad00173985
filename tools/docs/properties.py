"""Writes docs/properties.md from the tables in ``pyklient.properties``.

``python -m tools.docs.properties`` writes the file; a test compares it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyklient.properties.consumer_properties import CONSUMER_PROFILES
from pyklient.properties.producer_properties import PRODUCER_PROFILES
from pyklient.properties.profile import Profile, ProfileName, Property
from pyklient.properties.simple_consumer_properties import SIMPLE_CONSUMER_PROFILES
from tools.repository import ROOT

__all__ = ["TARGET", "page"]

TARGET = ROOT / "docs" / "properties.md"

_HEAD = """\
# Properties of the classic clients

Kafka's classic clients in Scala are made from properties. `from_properties` makes a client of pyklient from
the same properties, in a dictionary. The *profile* is the version of Kafka whose names, defaults and rules
apply: `"0.7"`, `"0.8"` or `"0.10"`. The profile does not change the format of messages or the versions of
requests: as with every client of pyklient, these depend on the broker.

```text
properties = {"zookeeper.connect": "localhost:2181", "group.id": "billing", "auto.offset.reset": "smallest"}
connector = ConsumerConnector.from_properties(properties, profile="0.8")
```

Without a profile, the properties are those of today's clients in Java, which
[Configuration](configuration.md) lists.

- A value is text, as in a file, or has the type that the text describes. As text, a boolean
  must be `true` or `false`, in small letters.
- The names that a property has in another version are accepted too. The tables list them in parentheses.
- Some keys of other versions have been replaced by something else. Such a key is an error, which says what to
  use instead.
- An unknown key is ignored with a warning, which suggests a similar key. Keys that begin with `external`
  belong to your own code, and cause no warning.
- A class is written as `module:name`. If the constructor of the class needs an argument, it gets
  the properties. The names `kafka.serializer.DefaultEncoder`, `kafka.serializer.StringEncoder`,
  `kafka.producer.DefaultPartitioner` and `kafka.producer.ByteArrayPartitioner` stand for pyklient's
  classes.
- If two properties contradict each other, `ConfigurationError` is raised, which names both.

Complete programs are [consumer_of_0_7.py](../examples/zookeeper/consumer_of_0_7.py),
[consumer_of_0_8.py](../examples/zookeeper/consumer_of_0_8.py) and
[consumer_of_0_10.py](../examples/zookeeper/consumer_of_0_10.py).

The tests compare values, defaults and errors with Kafka's own classes of 0.8.2.2 and 0.10.2.2.

This page is written from the tables in `pyklient/properties/` by `python -m tools.docs.properties`; a test
compares the two.
"""

_CLIENTS: Sequence[tuple[str, str, Mapping[ProfileName, Profile]]] = (
    (
        "ConsumerConnector",
        'The column "sets" has the options of `ConsumerConnector`. ZooKeeper coordinates the group: the '
        "option `coordination` is `zookeeper`.",
        CONSUMER_PROFILES,
    ),
    (
        "Producer",
        'The column "sets" has the fields of `ClassicProducerConfig`.',
        PRODUCER_PROFILES,
    ),
    (
        "SimpleConsumer",
        'The column "sets" has the arguments of `SimpleConsumer.connect`, which makes a consumer of one '
        "broker.",
        SIMPLE_CONSUMER_PROFILES,
    ),
)


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for client, introduction, profiles in _CLIENTS:
        parts.append(f"## {client}\n\n{introduction}\n")
        new = profiles["0.10"]
        first = {each.key for each in profiles["0.8"].properties}
        rows = [_row(each, "" if each.key in first else " (not in 0.8)") for each in new.properties]
        parts += [
            _table(f"{client} in the profiles 0.8 and 0.10", rows),
            _errors(new),
            _table(f"{client} in the profile 0.7", [_row(each, "") for each in profiles["0.7"].properties]),
            _errors(profiles["0.7"]),
        ]
    return "\n".join(parts)


def _table(title: str, rows: Sequence[str]) -> str:
    return f"### {title}\n\n| key | default | sets |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _errors(profile: Profile) -> str:
    rows = [f"| `{key}` | {instead} |" for key, instead in profile.without_effect.items()]
    return "These keys are errors:\n\n| key | instead |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _row(each: Property, note: str) -> str:
    spellings = f" ({', '.join(f'`{spelling}`' for spelling in each.also)})" if each.also else ""
    sets = [f"`{each.option}`"] if each.option is not None else []
    sets += [each.effect] if each.effect else []
    return f"| `{each.key}`{spellings}{note} | {_default(each)} | {': '.join(sets)} |"


def _default(each: Property) -> str:
    if each.required:
        return "required"
    if each.default_from is not None:
        return f"from `{each.default_from}`"
    value: Any = each.default
    if value is None or value in ("", frozenset()):
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
