"""Everything that tests download, fetched before the first of them begins: a slow mirror is no time-out.

    python -m tests.servers.fetch

What is there already costs nothing. Ends with status 1 and says what to do where Java or Maven is missing.
"""

import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from tests.servers.java import MissingProgramError, program
from tests.servers.maven import VERSIONS, FetchError, connector_libs, kafka_libs
from tests.servers.old_pyspark import VERSION, old_pyspark

__all__ = ["fetch", "things"]


def things(kafka: Collection[str] = VERSIONS, *, connector: bool = True) -> dict[str, Callable[[], Path]]:
    """What to fetch, by name: the jars of Kafka's versions; Spark's own connector and the PySpark for it."""
    found: dict[str, Callable[[], Path]] = {
        f"Kafka {version}": partial(kafka_libs, version) for version in kafka
    }
    if connector:
        found |= {"Spark's connector": connector_libs, f"PySpark {VERSION}": old_pyspark}
    return found


def fetch(wanted: Mapping[str, Callable[[], Path]], say: Callable[[str], None]) -> None:
    """Fetch *wanted*, and *say* how far that is. Raises MissingProgramError, FetchError."""
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
