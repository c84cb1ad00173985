"""The end of a run's report: how much time each part of the run took."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.servers.pool import SERVERS, Served

__all__ = ["Report"]

_WORTH_TELLING = 60.0
_SLOWEST = 25
_LARGEST = 15


class Report:
    """At the end of a run of a minute or more, reports how long groups, tests and servers took."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._groups: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._counts: Counter[str] = Counter()
        self._servers: list[tuple[str, Served]] = []
        self._cpu: dict[str, float] = {}
        self._before = _core_ticks()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        group = str(dict(report.user_properties).get("group", report.nodeid.split("::")[0]))
        worker = getattr(report, "worker_id", "main")
        self._tests[report.nodeid] += report.duration
        self._groups[worker][group] += report.duration
        self._counts[group] += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        pool = self._config.stash.get(SERVERS, None)
        served = pool.served if pool is not None else []
        times = os.times()
        cpu = times.user + times.system + times.children_user + times.children_system
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["served"] = [(one.name, one.start, one.ran) for one in served]
            output["cpu"] = cpu
        else:
            self._servers += [("main", one) for one in served]
            self._cpu["main"] = cpu

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        self._servers += [(node.gateway.id, Served(*one)) for one in output.get("served", ())]
        self._cpu[node.gateway.id] = output.get("cpu", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(self._tests.values()) < _WORTH_TELLING:
            return
        terminalreporter.section("time")
        for line in self._lines():
            terminalreporter.write_line(line)

    def _lines(self) -> list[str]:
        lines = []
        for worker, groups in sorted(self._groups.items()):
            cpu = f", {self._cpu[worker]:.0f} s of CPU" if worker in self._cpu else ""
            lines.append(f"{worker}: {sum(groups.values()):.0f} s in {len(groups)} groups{cpu}")
            lines += [
                f"{spent:8.1f} s  {group} ({self._counts[group]} tests)"
                for group, spent in _largest(groups, _LARGEST)
            ]
        if self._before is not None and (after := _core_ticks()) is not None:
            busy, idle = (now - then for now, then in zip(after, self._before, strict=True))
            lines.append(f"the machine's cores: {busy / (busy + idle):.0%} busy")
        lines.append("servers, and how long they took to start:")
        lines += [
            f"{one.start:8.1f} s  {one.name} on {worker}, ran for {one.ran:.0f} s"
            for worker, one in self._servers
        ]
        lines.append("slowest tests, with their fixtures:")
        lines += [f"{spent:8.1f} s  {test}" for test, spent in _largest(self._tests, _SLOWEST)]
        return lines


def _core_ticks() -> tuple[int, int] | None:
    """Return for how many ticks of its clock the machine's cores have been busy and idle; None on systems
    without /proc."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    user, nice, system, idle, waiting, *interrupts = map(int, path.read_text().split("\n", 1)[0].split()[1:8])
    return user + nice + system + sum(interrupts), idle + waiting


def _largest(seconds: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])[:count]
