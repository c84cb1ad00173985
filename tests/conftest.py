"""The options of a test run, the brokers that it uses, and the details that a failure shows."""

import os
import random
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from pyklient import kernel
from tests.run import groups
from tests.run import seed as seeds
from tests.run.earlier_threads import EarlierThreads
from tests.run.report import Report
from tests.servers.kinds import KINDS, SUITE, Wanted
from tests.servers.pool import SERVERS

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from tests.run.scheduling import LaneScheduling

pytest_plugins = ["tests.servers.fixtures", "tests.spark.fixtures"]


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
        choices=[*SUITE, "container"],
        help=f"run what every broker must pass against this one (default: each of {', '.join(SUITE)})",
    )
    group.addoption(
        "--seed", type=int, help="of all random numbers; the header and each failure tell that of a run"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--seed") is not None:
        os.environ[seeds.VARIABLE] = str(config.getoption("--seed"))
    config.option.hypothesis_seed = seeds.seed()  # read by its plugin, which is configured next
    # How long an example takes says more about the machine than about the code.
    settings.register_profile("pyklient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("pyklient")
    # A shell ignores Ctrl-C for what it starts in the background, and every child would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Report(config), "pyklient-report")
    config.pluginmanager.register(EarlierThreads(), "pyklient-earlier-threads")


def pytest_report_header(config: pytest.Config) -> str:
    pinned = os.environ.get("PYKLIENT_KERNEL")
    if pinned and kernel.name != pinned:
        raise pytest.UsageError(f"PYKLIENT_KERNEL={pinned}, but the kernel in use is {kernel.name}")
    return f"pyklient: {kernel.name} kernel, --seed {seeds.seed()}"


_GROUPS = pytest.StashKey[Path]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    config = node.config
    if _GROUPS not in config.stash:
        config.stash[_GROUPS] = Path(tempfile.mkdtemp(prefix="pyklient-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(config.stash[_GROUPS]))
    node.workerinput["groups"] = str(config.stash[_GROUPS])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    given: dict[str, str] | None = getattr(session.config, "workerinput", None)
    if given is not None:
        from tests.run.scheduling import write_groups

        write_groups(Path(given["groups"]), given["workerid"], session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LaneScheduling":
    """With ``-n``, tests that share a server run on the same worker: see tests/run/groups.py."""
    from tests.run.scheduling import LaneScheduling  # and xdist, which can be switched off

    return LaneScheduling(config, log, config.stash[_GROUPS])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel" in metafunc.fixturenames:
        from tests.kernel.kernels import KERNELS

        metafunc.parametrize("kernel", KERNELS, ids=[each.name for each in KERNELS])
    if "any_broker" not in metafunc.fixturenames:
        return
    chosen: list[Any] = _chosen(metafunc.config)
    for mark in metafunc.definition.iter_markers("brokers"):
        wanted = Wanted(*mark.args, **mark.kwargs)
        chosen = [name for name in chosen if name not in KINDS or wanted.fits(KINDS[name])]
    real = [name for name in chosen if name in KINDS and KINDS[name].real]
    # Without `--broker`, real[0] is the newest Kafka that fits. Tests on Spark and tests marked `slow` take
    # most of the time of a run. On the other brokers, they run in `make test-long`.
    later: set[str] = set()
    if "spark" in metafunc.fixturenames and real:
        later = set(chosen) - {real[0]}
    elif metafunc.definition.get_closest_marker("slow"):
        later = set(real[1:])
    chosen = [pytest.param(name, marks=pytest.mark.long) if name in later else name for name in chosen]
    metafunc.parametrize("any_broker", chosen, indirect=True, scope="session")


def _chosen(config: pytest.Config) -> list[str]:
    """Return the brokers on which tests with the fixture ``any_broker`` run."""
    if config.getoption("--bootstrap-servers"):
        return ["external"]
    return config.getoption("--broker") or list(SUITE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    external = config.getoption("--bootstrap-servers")
    elsewhere = external or config.getoption("--broker")
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        own = groups.OWN_SERVERS.keys() & fixtures
        if groups.is_slow(groups.group_of(item)):
            item.add_marker("java")
        unfit = (elsewhere and own) or (external and item.get_closest_marker("restarts"))
        unfit = unfit or (item.get_closest_marker("long") and "long" not in config.option.markexpr)
        (dropped if unfit else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.user_properties.append(("group", groups.group_of(item)))
    random.seed(f"{seeds.seed()}/{item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("pyklient", f"to repeat it: --seed {seeds.seed()}"))
        if (servers := item.config.stash.get(SERVERS, None)) is not None:
            report.sections.extend(servers.logs(groups.servers_of(item)))
    return report
