"""ConsumerConnector from properties, in the profiles 0.7, 0.8 and 0.10."""

import logging
from typing import Any

import pytest

from pyklient import ConsumerConnector
from pyklient.errors import ConfigurationError
from pyklient.properties.consumer_properties import CONSUMER_PROFILES, consumer_options
from pyklient.properties.profile import ProfileName

NEEDED: dict[str, dict[str, object]] = {
    "0.7": {"groupid": "billing", "zk.connect": "localhost:2181/kafka"},
    "0.8": {"group.id": "billing", "zookeeper.connect": "localhost:2181/kafka"},
    "0.10": {"group.id": "billing", "zookeeper.connect": "localhost:2181/kafka"},
}
PROFILES: tuple[ProfileName, ...] = ("0.7", "0.8", "0.10")


def options(profile: str, **properties: object) -> dict[str, Any]:
    """Return the options from the needed properties and *properties*, whose names have underscores."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return consumer_options(NEEDED[profile] | given, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_connector_is_made_of_properties_of_each_profile(profile: ProfileName) -> None:
    connector = ConsumerConnector.from_properties(NEEDED[profile] | {"consumer.timeout.ms": "200"}, profile)
    connector.close()
    assert "billing" in repr(connector)


def test_without_a_profile_the_properties_are_those_of_the_consumer_in_java() -> None:
    given = {"bootstrap.servers": "localhost:1", "group.id": "billing", "max.poll.records": "10"}
    connector = ConsumerConnector.from_properties(given)
    connector.close()
    assert "billing" in repr(connector)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_group_is_coordinated_by_zookeeper_with_the_defaults_of_the_profile(profile: str) -> None:
    old = profile == "0.7"
    found = options(profile)
    assert (
        found.items()
        >= {
            "coordination": "zookeeper",
            "group_id": "billing",
            "zookeeper": "localhost:2181/kafka",
            "zookeeper_session_timeout_ms": 6_000,
            "zookeeper_connection_timeout_ms": 6_000,
            "rebalance_backoff_ms": 2_000,
            "rebalance_max_retries": 4,
            "auto_commit_interval_ms": 10_000 if old else 60_000,
            "auto_offset_reset": "earliest" if old else "latest",
            "fetch_max_wait_ms": 1_000 if old else 100,
            "request_timeout_ms": 31_000 if old else 30_100,
            "max_partition_fetch_bytes": 1_048_576,
            "consumer_timeout_ms": -1,
        }.items()
    )
    assert ("offsets_storage" in found) is not old


def test_row_25_earliest_is_an_error_in_the_profile_0_8() -> None:
    for profile in ("0.8", "0.10"):
        with pytest.raises(
            ConfigurationError,
            match=r"auto.offset.reset='earliest' is not one of .*'largest'; did you mean 'smallest'\?",
        ):
            options(profile, auto_offset_reset="earliest")
        assert options(profile, auto_offset_reset="smallest")["auto_offset_reset"] == "earliest"


def test_in_0_7_another_reset_than_smallest_and_largest_lets_the_loop_get_the_error() -> None:
    found = [options("0.7", autooffset_reset=value) for value in ("smallest", "largest", "earliest")]
    assert [each["auto_offset_reset"] for each in found] == ["earliest", "latest", "none"]


def test_in_0_7_another_reset_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pyklient"):
        options("0.7", autooffset_reset="first")
        options("0.7", autooffset_reset="largest")
    assert [each.getMessage() for each in caplog.records] == [
        "autooffset.reset='first' is neither 'smallest' nor 'largest'; set one of them. Otherwise reading "
        "raises an error if no offset is committed, or if the committed offset does not exist"
    ]


def test_only_0_7_hands_out_compressed_batches_as_they_are() -> None:
    found = [options("0.7", shallowiterator_enable=value) for value in ("true", "false")]
    assert [each["shallowiterator_enable"] for each in found] == [True, False]


def test_row_26_a_socket_timeout_below_the_wait_of_a_fetch_is_an_error_since_0_9() -> None:
    given = {"socket_timeout_ms": "99", "fetch_wait_max_ms": "100"}
    with pytest.raises(ConfigurationError, match=r"socket.timeout.ms=99 is less than fetch.wait.max.ms=100"):
        options("0.10", **given)
    assert options("0.8", **given)["request_timeout_ms"] == 199
    assert options("0.10", socket_timeout_ms="100")["request_timeout_ms"] == 200


@pytest.mark.parametrize("value", ["True", "TRUE", "yes", "1", "", " true", 1])
def test_row_64_only_true_and_false_are_booleans(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"auto.commit.enable=.* is not a boolean; write true or"):
        options("0.8", auto_commit_enable=value)
    for accepted in ("false", False):
        assert options("0.8", auto_commit_enable=accepted)["enable_auto_commit"] is False


def test_row_64_an_unknown_property_is_a_warning_and_one_of_the_program_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "pyklient"):
        options("0.8", auto_comit_enable="false", external_partitions="3")
    assert [record.getMessage() for record in caplog.records] == [
        "the property auto.comit.enable was ignored: ConsumerConnector has no such property with "
        "profile='0.8'; did you mean 'auto.commit.enable'?"
    ]


@pytest.mark.parametrize(("profile", "other"), [("0.7", "0.8"), ("0.8", "0.7"), ("0.10", "0.7")])
def test_the_spellings_of_another_version_are_accepted(profile: str, other: str) -> None:
    given = (
        NEEDED[other]
        | {
            "0.7": {"fetch.size": "7", "autocommit.interval.ms": "9", "rebalance.retries.max": "3"},
            "0.8": {
                "fetch.message.max.bytes": "7",
                "auto.commit.interval.ms": "9",
                "rebalance.max.retries": "3",
            },
        }[other]
    )
    found = consumer_options(given, profile)
    assert found["max_partition_fetch_bytes"] == 7
    assert found["auto_commit_interval_ms"] == 9
    assert found["rebalance_max_retries"] == 3
    with pytest.raises(ConfigurationError, match="are two names of the same property"):
        consumer_options(given | NEEDED[profile], profile)


@pytest.mark.parametrize(
    ("profile", "key", "value", "words"),
    [
        ("0.8", "group.id", "a b", "group.id='a b' contains ' '"),
        ("0.8", "fetch.message.max.bytes", "1k", "fetch.message.max.bytes takes a whole number, not '1k'"),
        (
            "0.8",
            "rebalance.max.retries",
            "0",
            "rebalance.max.retries=0 is out of range; choose a number from 1 to",
        ),
        ("0.8", "offsets.storage", "redis", "offsets.storage='redis' is not one of 'zookeeper', 'kafka'"),
        ("0.8", "num.consumer.fetchers", "2", "one fetcher for each broker"),
        ("0.8", "bootstrap.servers", "a:9092", "the consumer finds the brokers in ZooKeeper"),
        ("0.7", "mirror.topics.whitelist", "a", "pass a Whitelist"),
        ("0.8", "shallowiterator.enable", "true", "choose the profile 0.7"),
        ("0.8", "enable.auto.commit", "false", "set auto.commit.enable"),
        ("0.10", "enable.auto.commit", "false", "set auto.commit.enable"),
        ("0.7", "enable.auto.commit", "false", "set autocommit.enable"),
        ("0.8", "fetch.max.bytes", "5", "set fetch.message.max.bytes, or choose the profile 0.10"),
        ("0.7", "fetch.max.bytes", "5", "set fetch.size"),
        *(
            (profile, key, "x", f"{key} has no effect on ConsumerConnector: consumers with a profile use nei")
            for profile in ("0.7", "0.8", "0.10")
            for key in ("security.protocol", "ssl.key.password", "sasl.mechanism")
        ),
    ],
)
def test_a_wrong_value_is_an_error_with_the_key(profile: str, key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        consumer_options(NEEDED[profile] | {key: value}, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_missing_property_is_an_error(profile: str) -> None:
    for key in NEEDED[profile]:
        rest = {name: value for name, value in NEEDED[profile].items() if name != key}
        with pytest.raises(ConfigurationError, match=f"the property {key} is missing"):
            consumer_options(rest, profile)


def test_properties_are_a_dictionary_whose_keys_are_texts() -> None:
    wrong: list[Any] = ["consumer.properties", None, ["group.id"]]
    for each in wrong:
        with pytest.raises(TypeError, match="properties takes a mapping such as"):
            consumer_options(each, "0.8")
    without_text: Any = {7: "a"}
    with pytest.raises(ConfigurationError, match="the key 7 of a property is not text"):
        consumer_options(without_text, "0.8")


def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(
        ConfigurationError, match=r"profile='0.9' is unknown; choose one of '0.7', '0.8', '0.10'"
    ):
        consumer_options({}, "0.9")


@pytest.mark.parametrize("profile", PROFILES)
def test_each_property_sets_an_option_or_says_what_it_does(profile: ProfileName) -> None:
    properties = CONSUMER_PROFILES[profile].properties
    assert [each.key for each in properties if each.option is None and not each.effect] == []
