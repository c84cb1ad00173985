"""Options of a test run, which brokers it uses, and what a failure shows."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from pyklient.protocol.records import kernel
from tests.servers.pool import OWN_SERVERS, SERVERS

pytest_plugins = ["tests.servers.fixtures", "tests.spark.fixtures"]

_BROKERS = ("reference", "kafka-4.3.1", "kafka-2.8.2")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pyklient")
    group.addoption(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        help="run what every broker must pass against this running cluster, and what needs no broker",
    )
    group.addoption(
        "--broker",
        action="append",
        choices=[*_BROKERS, "container"],
        help=f"run what every broker must pass against this one (default: each of {', '.join(_BROKERS)})",
    )


def pytest_configure() -> None:
    # How long an example takes says more about the machine than about the code.
    settings.register_profile("pyklient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("pyklient")
    # A shell ignores Ctrl-C for what it starts in the background, and every child would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    pinned = os.environ.get("PYKLIENT_KERNEL")
    if pinned and kernel.name != pinned:
        raise pytest.UsageError(f"PYKLIENT_KERNEL={pinned}, but the kernel in use is {kernel.name}")
    return f"pyklient: {kernel.name} kernel"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel" in metafunc.fixturenames:
        from tests.protocol.records.kernels import KERNELS

        metafunc.parametrize("kernel", KERNELS, ids=[each.name for each in KERNELS])
    if "any_broker" not in metafunc.fixturenames:
        return
    chosen = _chosen(metafunc.config)
    for mark in metafunc.definition.iter_markers("brokers"):
        chosen = [name for name in chosen if name in mark.args or name not in _BROKERS]
    params = [pytest.param(name, marks=pytest.mark.java if "kafka" in name else ()) for name in chosen]
    metafunc.parametrize("any_broker", params, indirect=True, scope="session")


def _chosen(config: pytest.Config) -> list[str]:
    """The brokers that tests with the fixture ``any_broker`` run on."""
    if config.getoption("--bootstrap-servers"):
        return ["external"]
    return config.getoption("--broker") or list(_BROKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    external = config.getoption("--bootstrap-servers")
    elsewhere = external or config.getoption("--broker")
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        own = OWN_SERVERS.keys() & fixtures
        if own - {"reference_broker"} or "spark" in fixtures:
            item.add_marker("java")
        unfit = (elsewhere and own) or (external and item.get_closest_marker("restarts"))
        (dropped if unfit else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    servers = item.config.stash.get(SERVERS, None)
    if report.failed and servers is not None:
        report.sections.extend(servers.logs())
    return report
