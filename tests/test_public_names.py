"""The names that ``import pyklient`` offers, and the modules that each of them imports."""

import subprocess
import sys
from importlib import import_module

import pytest

import pyklient


def test_every_public_name_has_a_home_of_its_own() -> None:
    for name in pyklient.__all__:
        home = import_module(pyklient._HOME_OF[name])
        assert getattr(pyklient, name) is getattr(home, name)
    assert set(pyklient._HOME_OF) == set(pyklient.__all__)
    assert set(pyklient.__all__) <= set(dir(pyklient))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Consumer'"):
        getattr(pyklient, "Con" + "sumer")


def _loaded_by(code: str) -> set[str]:
    show = "import sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


_SELDOM_USED = (
    # clients and tools
    *("pyklient.admin", "pyklient.broker", "pyklient.classic", "pyklient.cli", "pyklient.handlers"),
    *("pyklient.mirror", "pyklient.properties", "pyklient.spark", "pyklient.telemetry"),
    # TLS, SASL and ZooKeeper
    *("ssl", "pyklient.net.connection.tls", "pyklient.net.connection.sasl", "kazoo"),
    *("pyklient.registry.zookeeper", "pyklient.registry.settings", "pyklient.registry.consumer_nodes"),
    # other codecs than gzip, and data in columns
    *("lz4", "snappy", "zstandard", "numpy", "pandas", "pyarrow", "pyspark"),
    # snapshots of the metrics, and what the fetchers do only if a transaction stays open
    *("pyklient.metrics.snapshots", "pyklient.net.lookups.open_transactions"),
    # parts of the standard library that take long to import
    *(
        "asyncio",
        "email",
        "importlib.metadata",
        "json",
        "multiprocessing",
        "pathlib",
        "subprocess",
        "zipfile",
    ),
)
"""Modules that take time to import, and that most programs do not need."""


def _among(loaded: set[str], *packages: str) -> list[str]:
    return sorted(
        each for each in loaded if each.startswith(tuple(f"{name}." for name in packages)) or each in packages
    )


def test_a_name_brings_nothing_that_it_does_not_need() -> None:
    assert _among(_loaded_by("import pyklient"), "pyklient") == [
        "pyklient",
        "pyklient.lazy_imports",
        "pyklient.version",
    ]
    sending = _loaded_by("from pyklient import Producer; Producer('localhost:1')")
    assert "pyklient.producer.producer" in sending
    assert "pyklient.config.option_declarations.consumer_options" not in sending
    assert not _among(sending, "pyklient.consumer", "pyklient.producer.transaction_manager", *_SELDOM_USED)
    reading = _loaded_by(
        "from pyklient import ConsumerConnector; ConsumerConnector('localhost:1', group_id='a')"
    )
    assert "pyklient.consumer.consumer_connector" in reading
    assert not _among(reading, "pyklient.producer", *_SELDOM_USED)
    everything = _loaded_by("from pyklient import Producer, ConsumerConnector, SimpleConsumer, Admin, read")
    assert not _among(everything, "kazoo")


def test_modules_are_there_without_being_imported_by_name() -> None:
    assert "pyklient.errors" in _loaded_by("import pyklient; pyklient.errors.KafkaError")


def test_help_shows_the_package_where_no_spark_is_installed() -> None:
    shown = "import pydoc, sys; sys.modules['pyspark'] = None; import pyklient; pydoc.render_doc(pyklient)"
    assert "pyklient.producer.producer" in _loaded_by(shown)
