"""Writes docs/properties.md from the tables in ``pyklient.properties``.

``python -m tools.docs.properties`` writes the file; a test compares it.
"""

import re
import textwrap
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

Kafka's old Scala clients are configured with properties. This page is for people who move from such a client
to pyklient and want to keep its properties. `from_properties` makes a pyklient client from the properties:

```text
properties = {"zookeeper.connect": "localhost:2181", "group.id": "billing", "auto.offset.reset": "smallest"}
connector = ConsumerConnector.from_properties(properties, profile="0.8")
```

The *profile* is the version of Kafka whose names, defaults and rules apply: `"0.7"`, `"0.8"` or `"0.10"`. It
has no effect on the requests that the client sends: the client and the broker agree on their versions.

Without a profile, the properties are those of today's Java clients, which are the
[options of pyklient](configuration.md) with dots in their names. In the tables below, "choose no profile"
means: call `from_properties` without a profile.

**Values.** A value is a string, as in a file (`"5000"`, `"true"`), or a Python value (`5000`, `True`). If two
values contradict each other, `from_properties` raises a `ConfigurationError`.

**Names of other versions.** You can also use the name that a property has in another version. The tables
list these names.

**Effects.** The tables name the option of pyklient's client that gets the value of a property. The
page [Configuration](configuration.md), or the docstring of `ClassicProducerConfig`, explains the option. If
no option gets the value, a remark says what the value does.

**Unknown properties.** If a property does not belong to the version, and it would be dangerous to ignore it,
`from_properties` raises a `ConfigurationError` that says what to use instead. The tables list these
properties. Any other unknown property is ignored with a warning, unless its name begins with `external`: such
names are free for your own code.

**Classes.** Name a class as `module:name`. If its constructor requires an argument, it gets the dictionary of
properties. Four names of Kafka's classes also work: `kafka.serializer.DefaultEncoder`,
`kafka.serializer.StringEncoder`, `kafka.producer.DefaultPartitioner` and
`kafka.producer.ByteArrayPartitioner`. The page [Classic
clients](classic.md#your-own-partitioner-encoder-and-event-handler) shows how to write such classes.

These programs are complete: [consumer_of_0_7.py](../examples/zookeeper/consumer_of_0_7.py),
[consumer_of_0_8.py](../examples/zookeeper/consumer_of_0_8.py),
[consumer_of_0_10.py](../examples/zookeeper/consumer_of_0_10.py),
[classic_producer_0_7.py](../examples/classic_producer_0_7.py) and
[classic_producer_0_8.py](../examples/classic_producer_0_8.py).

**Files.** `from_properties` also accepts the path of a file. Each line is `name=value`, a comment that begins
with `#` or `!`, or empty. A backslash has no meaning: there are no escapes, and no lines that continue in the
next one:

```python
from pathlib import Path

from pyklient import KeyedMessage, Producer

Path("producer.properties").write_text("# the cluster\\nmetadata.broker.list=localhost:9092\\n")
with Producer.from_properties("producer.properties", "0.8") as producer:
    producer.send(KeyedMessage("old-visits", b"home"))
```

Tests compare the values, the defaults and the errors with those of Kafka's own classes, in the versions
0.8.2.2 and 0.10.2.2. The tables below are generated from the code.
"""

_CLIENTS: Sequence[tuple[str, str, str, Mapping[ProfileName, Profile]]] = (
    (
        "ConsumerConnector",
        "`ConsumerConnector.from_properties` makes a `ConsumerConnector`. With a profile, ZooKeeper "
        "coordinates its group: `coordination` is `zookeeper`.",
        "option of `ConsumerConnector`",
        CONSUMER_PROFILES,
    ),
    (
        "Producer",
        "With a profile, `Producer.from_properties` makes a `ClassicProducer`. Without a profile, it makes a "
        "`Producer`.",
        "field of `ClassicProducerConfig`",
        PRODUCER_PROFILES,
    ),
    (
        "SimpleConsumer",
        "With a profile, `SimpleConsumer.from_properties` makes a `BrokerConsumer`, as "
        "`SimpleConsumer.connect` does. It reads from one broker. Without a profile, it makes a "
        "`SimpleConsumer`.",
        "argument of `SimpleConsumer.connect`",
        SIMPLE_CONSUMER_PROFILES,
    ),
)


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for client, introduction, target, profiles in _CLIENTS:
        parts.append(f"## {client}\n\n{textwrap.fill(introduction, 120, break_on_hyphens=False)}\n")
        new = profiles["0.10"]
        first = {each.key for each in profiles["0.8"].properties}
        rows = [_row(each, "" if each.key in first else " (not in 0.8)") for each in new.properties]
        old = [_row(each, "") for each in profiles["0.7"].properties]
        parts += [
            _table(f"{client} in the profiles 0.8 and 0.10", target, rows),
            _errors({"0.8": profiles["0.8"], "0.10": new}),
            _table(f"{client} in the profile 0.7", target, old),
            _errors({"0.7": profiles["0.7"]}),
        ]
    return "\n".join(parts)


def _table(title: str, target: str, rows: Sequence[str]) -> str:
    head = (
        f"| property | also accepted as | default | {target} | remarks |\n| --- | --- | --- | --- | --- |\n"
    )
    return f"### {title}\n\n{head}" + "\n".join(rows) + "\n"


def _errors(profiles: Mapping[ProfileName, Profile]) -> str:
    """Return the table of the properties that are errors in one of *profiles*. A property that is an error in
    only some of them is followed by their names."""
    keys: dict[str, list[str]] = {}
    for key, instead in {k: v for each in profiles.values() for k, v in each.without_effect.items()}.items():
        found = [name for name, each in profiles.items() if key in each.without_effect]
        note = "" if len(found) == len(profiles) else f" (in {' and '.join(found)})"
        keys.setdefault(instead, []).append(f"`{key}`{note}")
    rows = [f"| {', '.join(each)} | {_sentence(instead)} |" for instead, each in keys.items()]
    return (
        "These properties raise a `ConfigurationError`:\n\n| property | what to do instead |\n| --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )


def _sentence(text: str) -> str:
    """Return *text*, whose parts are separated by semicolons, as sentences. Put the names of properties into
    backticks."""
    marked = re.sub(r"\b[a-z]+(\.[a-z]+)+(=[^\s,;]+(,[^\s,;]+)*)?", r"`\g<0>`", text)
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in marked.split("; "))


def _row(each: Property, note: str) -> str:
    spellings = ", ".join(f"`{spelling}`" for spelling in each.also)
    option = "" if each.option is None else f"`{each.option}`"
    return f"| `{each.key}`{note} | {spellings} | {_default(each)} | {option} | {each.effect} |"


def _default(each: Property) -> str:
    if each.required:
        return "required"
    if each.default_from is not None:
        same = each.make_default(each.default_from) == each.default_from
        return f"{'the value of' if same else 'depends on'} `{each.default_from}`"
    value: Any = each.default
    if value is None or value in ("", frozenset()):
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
