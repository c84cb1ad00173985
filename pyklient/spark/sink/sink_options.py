"""What a write's options say together, and which columns it must have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from pyklient.config import ProducerConfig
from pyklient.config.dotted_names import from_properties
from pyklient.errors import ConfigurationError
from pyklient.spark.option_names import OF_SPARK, called, of_properties
from pyklient.spark.options import Given, Use, given_options

__all__ = ["SINK_COLUMNS", "SinkOptions"]

_SET_BY_SPARK: Final = {
    "key.serializer": "keys are STRING or BINARY columns, sent as they are",
    "value.serializer": "values are STRING or BINARY columns, sent as they are",
}
_NO_TEXT: Final = ("key_encoder", "partitioner", "ssl_context", "value_encoder")
"""Options of a producer that are objects of a Python program."""

_HEADERS: Final = "array<struct<key:string,value:binary>>"


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


_TYPES: Final[dict[str, tuple[Callable[[DataType], bool], str]]] = {
    "value": (_is_bytes, "STRING or BINARY"),
    "key": (_is_bytes, "STRING or BINARY"),
    "topic": (_is_text, "STRING"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "INT"),
    "headers": (lambda kind: kind.simpleString() == _HEADERS, _HEADERS),
}
SINK_COLUMNS: Final = tuple(name for name in _TYPES if name != "topic")
"""What a record is made of, beside its topic. Like Spark's own sink this one takes no time from a row."""


@dataclass(frozen=True)
class SinkOptions:
    """The options of one write, checked. Picklable; its repr shows no password."""

    producer: Mapping[str, Any] = field(repr=False)
    """Of the Producer in each worker."""
    topic: str | None
    deduplication_headers: bool
    query: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """*options* of a write. Raises ConfigurationError, which names the option and what it takes."""
        given = given_options(options, Use.SINK)
        values = given.values
        return cls(
            producer=_producer_options(given),
            topic=values.get("topic"),
            deduplication_headers=values.get("deduplicationHeaders", False),
            query=values.get("deduplicationQuery"),
        )

    def check(self, schema: StructType) -> None:
        """Raises ConfigurationError for rows of this *schema* if no records can be made of them."""
        names = schema.fieldNames()
        if "value" not in names:
            raise ConfigurationError(
                "column value is missing (STRING or BINARY): the rows have "
                f"{', '.join(names) or 'no columns'}"
            )
        if self.topic is None and "topic" not in names:
            raise ConfigurationError(
                "no topic to write to: set option topic, or let the rows have a column topic (STRING)"
            )
        for each in schema.fields:
            suits, wanted = _TYPES.get(each.name, (None, ""))
            if suits is not None and not suits(each.dataType):
                raise ConfigurationError(
                    f"column {each.name} is {each.dataType.simpleString()}, and must be {wanted}"
                )


def _producer_options(given: Given) -> Mapping[str, Any]:
    given.check_kafka(_SET_BY_SPARK)
    with called(OF_SPARK | of_properties(given.kafka)):
        options = from_properties(ProducerConfig, given.kafka)
        for name in _NO_TEXT:
            if name in options:
                raise ConfigurationError(f"{name} cannot be given as text")
        ProducerConfig.from_options(options)
    return options
