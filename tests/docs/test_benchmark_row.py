"""The README shows the cost of a record that was measured last."""

from tools.docs.benchmark_row import BENCHMARKS, PAGE, filled


def test_the_row_is_that_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    measured = BENCHMARKS.read_text(encoding="utf-8")
    assert text == filled(text, measured), "run: python -m tools.docs.benchmark_row"


def test_costs_have_two_digits() -> None:
    head = "| client | records/s | CPU µs per record |"
    table = f"{head}\n| pyklient | 1 | 0.196 |\n| kafka-python | 1 | 22.488 |"
    table += "\n| aiokafka | 1 | 7.012 |\n| confluent-kafka | 1 | 1.139 |\n"
    page = f"\n## Produce, 100 B\n\n{table}\n## Consume, 100 B\n\n{table}\n## Produce, 1 KiB\n"
    [row] = [line for line in filled(PAGE.read_text(encoding="utf-8"), page).splitlines() if " µs, " in line]
    assert row.endswith("| 0.20 µs, 0.20 µs | 22 µs, 22 µs | 7.0 µs, 7.0 µs | 1.1 µs, 1.1 µs |")
