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
    show = "import sys; print(*(name for name in sys.modules if name.startswith(('pyklient', 'kazoo'))))"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


def test_a_name_brings_nothing_that_it_does_not_need() -> None:
    assert _loaded_by("import pyklient") == {"pyklient", "pyklient.lazy_imports", "pyklient.version"}
    sending = _loaded_by("from pyklient import Producer")
    assert "pyklient.producer.producer" in sending
    assert not [each for each in sending if each.startswith(("pyklient.consumer", "pyklient.admin", "kazoo"))]
    everything = _loaded_by("from pyklient import Producer, ConsumerConnector, SimpleConsumer, Admin, read")
    assert not [each for each in everything if each.startswith("kazoo")]


def test_modules_are_there_without_being_imported_by_name() -> None:
    assert "pyklient.errors" in _loaded_by("import pyklient; pyklient.errors.KafkaError")


def test_help_shows_the_package_where_no_spark_is_installed() -> None:
    shown = "import pydoc, sys; sys.modules['pyspark'] = None; import pyklient; pydoc.render_doc(pyklient)"
    assert "pyklient.producer.producer" in _loaded_by(shown)
