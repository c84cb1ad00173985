"""The options of a write to Kafka, and checks of the options and of the columns of the rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from pyklient.config import ProducerConfig
from pyklient.config.dotted_names import from_properties
from pyklient.errors import ConfigurationError
from pyklient.spark.option_names import SPARK_NAMES, property_names, rename_options
from pyklient.spark.options import GivenOptions, Use, parse_options

__all__ = ["SINK_COLUMNS", "SinkOptions"]

_SET_BY_SPARK: Final = {
    "key.serializer": "column key is STRING or BINARY, and is sent unchanged",
    "value.serializer": "column value is STRING or BINARY, and is sent unchanged",
}
_OBJECTS: Final = ("key_encoder", "partitioner", "ssl_context", "value_encoder")
"""The options of a producer that cannot be given as text, because their values are Python objects."""

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
"""The columns that are used for a record, besides the topic. As in Spark's own sink, there is no column for
the timestamp."""


@dataclass(frozen=True)
class SinkOptions:
    """The checked options of one write. The object can be pickled, and its ``repr`` shows no password."""

    producer: Mapping[str, Any] = field(repr=False)
    """The options with which each worker creates its producer."""
    topic: str | None
    deduplication_headers: bool
    query: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse and check the *options* of a write.

        Raises ConfigurationError if an option is wrong. The error names the option and the allowed values.
        """
        given = parse_options(options, Use.SINK)
        values = given.values
        return cls(
            producer=_producer_options(given),
            topic=values.get("topic"),
            deduplication_headers=values.get("deduplicationHeaders", False),
            query=values.get("deduplicationQuery"),
        )

    def check_schema(self, schema: StructType) -> None:
        """Raise ConfigurationError if rows with this *schema* cannot be written."""
        names = schema.fieldNames()
        if "value" not in names:
            raise ConfigurationError(
                "the rows need a column `value` (STRING or BINARY), but have only "
                f"{', '.join(names) or 'no columns'}"
            )
        if self.topic is None and "topic" not in names:
            raise ConfigurationError(
                "the rows have no topic: set the option topic, or add a column topic (STRING) to the rows"
            )
        for each in schema.fields:
            suits, wanted = _TYPES.get(each.name, (None, ""))
            if suits is not None and not suits(each.dataType):
                raise ConfigurationError(
                    f"column {each.name} is {each.dataType.simpleString()}, but must be {wanted}"
                )


def _producer_options(given: GivenOptions) -> Mapping[str, Any]:
    given.check_properties(_SET_BY_SPARK)
    with rename_options(SPARK_NAMES | property_names(given.kafka)):
        options = from_properties(ProducerConfig, given.kafka)
        for name in _OBJECTS:
            if name in options:
                raise ConfigurationError(
                    f"option {name} cannot be set for a write: its value must be a Python object, but "
                    "Spark's options are text"
                )
        ProducerConfig.from_options(options)
    return options
