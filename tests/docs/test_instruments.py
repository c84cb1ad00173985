"""docs/opentelemetry.md lists the instruments that OpenTelemetry gets."""

import re

from pyklient.telemetry.instruments import CONSUMER, PRODUCER
from tools.repository import ROOT


def test_the_table_of_instruments_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "opentelemetry.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z.]+)` \| (counter|gauge) \| `(.+?)` \| (\w+) \| (.+) \|$", text, re.M)
    expected = {}
    for each in (*PRODUCER, *CONSUMER):
        of = (
            "both"
            if each in PRODUCER and each in CONSUMER
            else "producer"
            if each in PRODUCER
            else "consumer"
        )
        kind = "counter" if each.is_total else "gauge"
        expected[each.name] = (each.name, kind, each.unit, of, each.description)
    assert rows == list(expected.values())
