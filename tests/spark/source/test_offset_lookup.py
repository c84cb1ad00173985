"""Lookups while a query is planned."""

import pytest

from pyklient.errors import KafkaError
from pyklient.spark.source.batch_reader import BatchReader
from pyklient.spark.source.source_options import SourceOptions
from tests.net.scripted import RawServer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/no"},
            "^kafka.ssl.truststore.location='/no' cannot be read",
        ),
        ({}, "set kafka.security.protocol to SSL or SASL_SSL"),
    ],
)
def test_an_error_while_a_query_is_planned_has_sparks_names_for_options(
    options: dict[str, str], message: str
) -> None:
    with RawServer(lambda sock: None) as server:
        given = {
            "kafka.bootstrap.servers": server.address,
            "kafka.default.api.timeout.ms": "300",
            "subscribe": "clicks",
        }
        reader = BatchReader(SourceOptions.parse(given | options))
        with pytest.raises(KafkaError, match=message):
            reader.partitions()
