"""Writes the README's row on the cost of a record, from docs/benchmarks.md.

``python -m tools.docs.benchmark_row`` writes it into the README, and so does ``make bench``; a test compares
the two.
"""

from tools.repository import ROOT

__all__ = ["BENCHMARKS", "PAGE", "filled", "write"]

PAGE = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
_CLIENTS = ("pyklient", "kafka-python", "aiokafka", "confluent-kafka")
_BEGINNING = "| CPU per record, 100 B: produced, consumed ([measured](docs/benchmarks.md)) |"


def filled(text: str, benchmarks: str) -> str:
    """Return the README *text* with the row that the page *benchmarks* gives."""
    costs = (
        f"{_cost(benchmarks, 'Produce, 100 B', client)} µs, {_cost(benchmarks, 'Consume, 100 B', client)} µs"
        for client in _CLIENTS
    )
    row = f"{_BEGINNING} {' | '.join(costs)} |"
    lines = text.split("\n")
    [place] = [number for number, line in enumerate(lines) if line.startswith(_BEGINNING)]
    return "\n".join([*lines[:place], row, *lines[place + 1 :]])


def write() -> None:
    """Write the row into the README."""
    text = filled(PAGE.read_text(encoding="utf-8"), BENCHMARKS.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")


def _cost(benchmarks: str, title: str, client: str) -> str:
    """Return the CPU time of a record in microseconds, with two digits."""
    table = benchmarks.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    column = next(row.index("CPU µs per record") for row in rows if "CPU µs per record" in row)
    [cost] = [float(row[column]) for row in rows if row and row[0] == client]
    return f"{cost:#.2g}".rstrip(".")


if __name__ == "__main__":
    write()
