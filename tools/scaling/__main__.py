"""``make bench-scaling``: the cost of a record as a function of what grows beside it.

    python -m tools.scaling --only produce --rounds 3

Each cell is the CPU time of a record in microseconds: that of the client with all its threads, the smallest
of several rounds. The brokers are scripted and run in another process. A row shows growth if its last cell is
far above its first. The first cells of some rows are larger than the others, because there few records share
the cost of a request. A second table compares fast brokers with brokers that are slower than the producer.
With ``--page``, the measured rows replace those of a page.
"""

import argparse
from itertools import takewhile
from pathlib import Path

from tools.scaling.backpressure import SHAPES, costs
from tools.scaling.measurements import MEASUREMENTS, Measurement
from tools.scaling.page import with_rows

_STEPS = (10, 100, 1_000, 10_000, 100_000)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="the rows whose title contains this text")
    parser.add_argument("--most", type=int, default=_STEPS[-1], help="the largest number (default 100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--page", type=Path, help="the page to write the measured rows into")
    options = parser.parse_args()
    if options.page is not None and not options.page.is_file():
        parser.error(
            f"--page {options.page}: there is no such page, and measured rows replace rows of a page"
        )
    rows = {}
    print(f"| CPU µs per record | {' | '.join(f'{step:,}' for step in _STEPS)} |")
    print("| --- |" + " --: |" * len(_STEPS))
    for measurement in MEASUREMENTS:
        if options.only in measurement.title:
            rows[measurement.title] = _row(measurement, options.most, options.rounds)
            print(rows[measurement.title], flush=True)
    print(
        "\n| CPU µs per record | fast brokers | brokers ten times slower | ratio |\n| --- | --: | --: | --: |"
    )
    for shape in SHAPES:
        if options.only in (title := f"backpressure: {shape.title}"):
            fast, slow = costs(shape)
            rows[title] = f"| {title} | {fast:.2f} | {slow:.2f} | {slow / fast:.2f} |"
            print(rows[title], flush=True)
    if options.page is not None:
        options.page.write_text(with_rows(options.page.read_text(encoding="utf-8"), rows), encoding="utf-8")


def _row(measurement: Measurement, most: int, rounds: int) -> str:
    most = min(most, measurement.most)
    steps = [*takewhile(lambda step: step <= most, _STEPS)]
    if measurement.most not in _STEPS:
        steps.append(measurement.most)
    cells = [f"{min(measurement.run(step) for _ in range(rounds)):.2f}" for step in steps]
    if measurement.most not in _STEPS:
        cells[-1] += f" ({measurement.most:,})"
    cells += [""] * (len(_STEPS) - len(cells))
    return f"| {measurement.title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
