"""Downloads and archives of Java classes for the tests: made once per machine, before the first test begins.

So a slow mirror does not make a test time out.

    python -m tests.servers.fetch

What is there already costs nothing. Ends with status 1 and says what to do where Java or Maven is missing.
"""

import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from tests.servers.class_recording import record_kafka, record_spark
from tests.servers.kafka import NEWEST
from tests.servers.maven import VERSIONS, FetchError, connector_libs, kafka_libs
from tests.servers.old_pyspark import VERSION, old_pyspark
from tests.servers.programs import MissingProgramError, program

__all__ = ["fetch", "things"]


def things(kafka: Collection[str] = VERSIONS, *, spark: bool = True) -> dict[str, Callable[[], Path]]:
    """Return functions that make, by name, the jars of Kafka's versions and what the tests of Spark need."""
    found: dict[str, Callable[[], Path]] = {
        f"Kafka {version}": partial(kafka_libs, version) for version in kafka
    }
    if NEWEST in kafka:
        found[f"classes of Kafka {NEWEST}"] = record_kafka
    if spark:
        found |= {
            "Spark's connector": connector_libs,
            f"PySpark {VERSION}": old_pyspark,
            "classes of Spark": record_spark,
        }
    return found


def fetch(wanted: Mapping[str, Callable[[], Path]], say: Callable[[str], None]) -> None:
    """Fetch the *wanted* things, and report the progress with *say*. Raises MissingProgramError and
    FetchError."""
    program("java")
    for number, (name, libs) in enumerate(wanted.items(), 1):
        began = time.monotonic()
        say(f"{number}/{len(wanted)} {name} …")
        where = libs()
        say(f"{number}/{len(wanted)} {name}: {where} ({time.monotonic() - began:.1f} s)")


def main() -> None:
    try:
        fetch(things(), lambda line: print(line, flush=True))
    except (MissingProgramError, FetchError) as error:
        sys.exit(f"{error}\nWithout Java: make test-fast")


if __name__ == "__main__":
    main()
