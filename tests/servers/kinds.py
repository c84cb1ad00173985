"""The brokers on which the suite runs: their Kafka versions, their capabilities, and how they are started."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.secure import SecureBroker
from tests.servers.server import Server
from tests.servers.zookeeper_kafka import ZooKeeperKafka

__all__ = ["CAPABILITIES", "KINDS", "SUITE", "Kind", "Wanted"]

CAPABILITIES = frozenset({"compaction", "deletion of records", "old requests", "transactions"})
"""The capabilities that not every broker has, by their names in ``needs`` of the marker ``brokers``.

Old requests are versions that Kafka 4.0 no longer accepts (KIP-896).
"""

_NEW = CAPABILITIES - {"old requests"}


@dataclass(frozen=True)
class Kind:
    """One kind of server.

    ``version`` is the Kafka that it is, or whose protocol it speaks. ``jars`` are the versions of Kafka whose
    jars it needs. ``real`` is false for pyklient's own broker, which starts in no time.
    """

    name: str
    version: tuple[int, ...]
    make: Callable[[Path, Reaper], Server]
    zookeeper: bool = False
    real: bool = True
    can: frozenset[str] = _NEW
    jars: tuple[str, ...] = ()


_ZOOKEEPER_JARS = "3.9.1"


def _with_zookeeper(version: str, can: Collection[str] = ()) -> Kind:
    """Return the kind of a broker of Kafka *version* with its own ZooKeeper."""
    return Kind(
        f"kafka-{version}",
        tuple(int(part) for part in version.split(".")),
        partial(ZooKeeperKafka, version=version),
        zookeeper=True,
        can=frozenset({"old requests", *can}),
        jars=tuple(dict.fromkeys((version, _ZOOKEEPER_JARS))),
    )


def _container(directory: Path, reaper: Reaper) -> Server:
    from tests.containers.kafka import ContainerKafka  # and testcontainers, which most runs do without

    return ContainerKafka(directory)


def _cluster(directory: Path, reaper: Reaper) -> Server:
    return KraftCluster(directory, reaper, brokers=3, settings={"auto.create.topics.enable": "false"})


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "reference", (4, 3), ReferenceBroker, real=False, can=frozenset({"old requests", "transactions"})
        ),
        Kind("kafka-4.3.1", (4, 3, 1), KraftCluster, jars=("4.3.1",)),
        _with_zookeeper("3.9.1", CAPABILITIES),
        _with_zookeeper("2.8.2", CAPABILITIES),
        _with_zookeeper("1.1.1", CAPABILITIES),
        _with_zookeeper("0.11.0.3", CAPABILITIES),
        _with_zookeeper("0.10.2.2", ["compaction"]),
        _with_zookeeper("0.9.0.1", ["compaction"]),
        _with_zookeeper("0.8.2.2"),
        Kind("cluster", (4, 3, 1), _cluster, jars=("4.3.1",)),
        Kind("secure", (4, 3, 1), SecureBroker, jars=("4.3.1",)),
        Kind("container", (4, 3, 1), _container, jars=("4.3.1",)),
    )
}
"""All kinds of servers by name."""

SUITE = ("reference", "kafka-4.3.1", "kafka-2.8.2")
"""The servers on which tests with the fixture ``any_broker`` run by default."""


@dataclass(frozen=True)
class Wanted:
    """The requirements of a test on its brokers: the arguments of the marker ``brokers``.

    ``min`` and ``max`` limit the version ("2.4"; both are included, and a limit with fewer numbers leaves the
    others open). ``zookeeper`` and ``real`` must be as given. ``needs`` are CAPABILITIES.
    """

    min: str = ""
    max: str = ""
    zookeeper: bool | None = None
    real: bool | None = None
    needs: Collection[str] = ()

    def __post_init__(self) -> None:
        unknown = set(self.needs) - CAPABILITIES
        if isinstance(self.needs, str) or unknown:
            raise ValueError(f"needs={self.needs!r}; it takes a list of {', '.join(sorted(CAPABILITIES))}")

    def fits(self, kind: Kind) -> bool:
        """Return True if *kind* meets all requirements."""
        lowest, highest = _numbers(self.min), _numbers(self.max)
        return (
            kind.version[: len(lowest)] >= lowest
            and (not highest or kind.version[: len(highest)] <= highest)
            and self.zookeeper in (None, kind.zookeeper)
            and self.real in (None, kind.real)
            and kind.can.issuperset(self.needs)
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if version else ()
