"""The modules with the options' types are those that their generator writes."""

import re
from pathlib import Path

import pytest
from mypy import api

from tools.docs.option_types import MODULES
from tools.repository import ROOT

_HEAD = [
    "from pyklient import Admin, ConsumerConnector, Producer, ProducerOptions, SimpleConsumer, read",
    "from pyklient.broker import Broker",
]
_WRONG = {
    "Producer(linger_mss=5)": 'Unexpected keyword argument "linger_mss" for "Producer"',
    "Producer(linger_ms='5')": '"linger_ms" to "Producer" has incompatible type "str"; expected "int"',
    "Producer(compression_type='zip')": '"compression_type" to "Producer" has incompatible type',
    "Producer(partitioner=len)": '"partitioner" to "Producer" has incompatible type',
    "Producer(group_id='g')": 'Unexpected keyword argument "group_id" for "Producer"',
    "ConsumerConnector(enable_auto_commit=1)": '"enable_auto_commit" to "ConsumerConnector" has incompatible',
    "Admin(acks=1)": 'Unexpected keyword argument "acks" for "Admin"',
    "SimpleConsumer(group_id='g')": 'Unexpected keyword argument "group_id" for "SimpleConsumer"',
    "read('h', 't', linger_ms=5)": 'Unexpected keyword argument "linger_ms" for "read"',
    "Broker(partitions=2)": 'Unexpected keyword argument "partitions" for "Broker"',
    "wrong: ProducerOptions = {'batch': 1}": 'Extra key "batch" for TypedDict "ProducerOptions"',
}
_RIGHT = [
    "options: ProducerOptions = {'acks': 'all', 'linger_ms': 5}",
    "Producer('localhost:9092', **options)",
    "Producer(batch_size=1, partitioner=lambda topic, key, count: 0, value_encoder=str.encode)",
    "ConsumerConnector(['one:9092'], group_id='g', auto_offset_reset='earliest', client_id='me')",
    "Admin(request_timeout_ms=1)",
    "Broker(0, num_partitions=2)",
    "read('h', 't', isolation_level='read_committed')",
]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.parent.name)
def test_the_typed_options_are_those_of_the_code(module: Path) -> None:
    assert module.read_text(encoding="utf-8") == MODULES[module](), "run: python -m tools.docs.option_types"


def test_mypy_refuses_wrong_options_and_takes_right_ones(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    program = [*_HEAD, *_WRONG, *_RIGHT]
    arguments = ["--strict", "--config-file=", f"--cache-dir={tmp_path_factory.mktemp('mypy')}"]
    said, broken, _ = api.run([*arguments, "-c", "\n".join(program)])
    assert broken == ""
    complaints = {
        program[int(line) - 1]: text for line, text in re.findall(r"<string>:(\d+): error: (.*)", said)
    }
    assert complaints.keys() == _WRONG.keys()
    assert [call for call, complaint in _WRONG.items() if complaint not in complaints[call]] == []
