"""The table of error codes, compared with Kafka's, and the text of an error."""

import pickle

import pytest

from pyklient.errors import BrokerError, broker_error, error_facts
from tests.oracles.process import answers
from tests.protocol.definitions import KAFKAS


@pytest.mark.java
@pytest.mark.parametrize("kafka", KAFKAS)
def test_every_code_has_kafkas_name_and_facts(kafka: str) -> None:
    theirs = [line.split() for line in answers(kafka, "ErrorOracle.java")]
    assert len(theirs) > 120
    for code, name, retriable, refresh in theirs:
        facts = error_facts(int(code))
        assert (facts.name, facts.retriable, facts.refresh_metadata) == (
            name,
            retriable == "true",
            refresh == "true",
        )


@pytest.mark.java
def test_no_code_is_known_here_that_the_newest_kafka_does_not_know() -> None:
    newest = {int(line.split()[0]) for line in answers(KAFKAS[-1], "ErrorOracle.java")}
    ours = {code for code in range(-100, 1000) if not error_facts(code).name.startswith("CODE_")}
    assert ours == newest


def test_sentences_tell_the_codes_apart() -> None:
    known = [error_facts(code) for code in range(-1, 134)]
    same = {46, 47, 90}  # two codes say that a producer was fenced, and one that a batch is there already
    sentences = [facts.sentence for facts in known if facts.code not in same]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[-1] not in ".!" for sentence in sentences)


def test_a_code_from_the_future_survives() -> None:
    error = broker_error(4242, "fetch from clicks-0")
    assert (error.code, error.name, error.retriable, error.refresh_metadata) == (
        4242,
        "CODE_4242",
        False,
        False,
    )
    assert str(error) == "fetch from clicks-0: this client does not know this error code (CODE_4242, 4242)"


def test_an_error_says_what_failed_and_why() -> None:
    error = broker_error(6, "produce to clicks-3")
    assert isinstance(error, BrokerError)
    assert str(error).startswith("produce to clicks-3: this broker does not lead the partition")
    assert str(error).endswith("(NOT_LEADER_OR_FOLLOWER, 6)")
    assert (error.retriable, error.refresh_metadata) == (True, True)


def test_an_error_survives_pickling() -> None:
    error = broker_error(10, "produce to clicks-3")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.facts) == (BrokerError, str(error), error.facts)
