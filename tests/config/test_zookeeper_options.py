"""The options about ZooKeeper: the address, and what contradicts each other."""

from typing import Any

import pytest

from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.zookeeper_address import ZooKeeperAddress, parse_zookeeper
from pyklient.errors import ConfigurationError
from pyklient.registry.settings import ZooKeeperSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one:2182", ZooKeeperAddress((("one", 2182),))),
        ("one, two:2182/", ZooKeeperAddress((("one", 2181), ("two", 2182)))),
        ("[::1]:2182/kafka/east", ZooKeeperAddress((("::1", 2182),), "/kafka/east")),
    ],
)
def test_an_address_names_servers_and_perhaps_a_chroot(text: str, expected: ZooKeeperAddress) -> None:
    assert parse_zookeeper(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (["a:1"], "zookeeper takes text, not"),
        ("", "'' is not host:port"),
        ("a:1,,b:2", "'' is not host:port"),
        ("a:99999", "'a:99999' is not host:port"),
        ("zk://a:1", "the chroot '//a:1' is not a path|'zk:' is not host:port"),
        ("a:1/kafka,b:2/kafka", "Write the chroot once, after the last address"),
        ("a:1/x//y", "the chroot '/x//y' is not a path"),
        ("a:1/../y", "is not a path"),
    ],
)
def test_an_address_of_another_form_is_an_error_with_an_example(text: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        AdminConfig.from_options({"zookeeper": text})


def test_with_zookeeper_the_default_bootstrap_server_is_not_used() -> None:
    assert AdminConfig.from_options({}).bootstrap == (("localhost", 9092),)
    alone = AdminConfig.from_options({"zookeeper": "z"})
    assert (alone.bootstrap, alone.cluster) == ((), "z")
    assert AdminConfig.from_options({}).cluster == "localhost:9092"
    both = {"zookeeper": "z", "bootstrap_servers": "localhost:9092"}
    assert AdminConfig.from_options(both).bootstrap == (("localhost", 9092),)


def test_a_session_gets_its_settings_from_the_options() -> None:
    options = {
        "zookeeper": "one,two:2182/kafka",
        "zookeeper_session_timeout_ms": 4000,
        "zookeeper_username": "alice",
        "zookeeper_password": "secret",
        "zookeeper_set_acl": True,
        "zookeeper_ssl_client_enable": True,
        "zookeeper_ssl_truststore_location": "/ca.pem",
        "zookeeper_ssl_endpoint_identification_algorithm": "",
    }
    config = ProducerConfig.from_options(options)
    settings = ZooKeeperSettings.of(config)
    assert settings == ZooKeeperSettings(
        address="one,two:2182/kafka",
        session_timeout=4.0,
        username="alice",
        password="secret",
        set_acl=True,
        use_tls=True,
        truststore="/ca.pem",
        check_host_name=False,
    )
    assert (settings.hosts, settings.chroot) == ("one:2181,two:2182", "/kafka")
    assert "secret" not in repr(config) + repr(settings)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"zookeeper_username": "a"}, "zookeeper_username is set, but zookeeper is not"),
        ({"zookeeper": "z", "zookeeper_password": "a"}, "but zookeeper_username is not"),
        (
            {"zookeeper": "z", "zookeeper_ssl_keystore_location": "a"},
            "but zookeeper_ssl_client_enable is not",
        ),
        ({"coordination": "zookeeper", "group_id": "g"}, "needs the address of ZooKeeper: pass zookeeper="),
        ({"coordination": "zookeeper", "zookeeper": "z"}, "coordination='zookeeper' needs group_id"),
        ({"offsets_storage": "zookeeper"}, "offsets_storage='zookeeper' needs group_id"),
        ({"dual_commit_enabled": True}, "dual_commit_enabled=True needs group_id"),
        ({"consumer_id": "c", "group_id": "g"}, "consumer_id needs coordination='zookeeper'"),
        ({"offsets_retention_ms": 1}, "offsets_retention_ms needs group_id"),
        (
            {"offsets_retention_ms": 1, "offsets_storage": "zookeeper", "group_id": "g", "zookeeper": "z"},
            "offsets_retention_ms has no effect with offsets_storage='zookeeper'",
        ),
        (
            {"offsets_retention_ms": 1, "group_instance_id": "i", "group_id": "g"},
            "offsets_retention_ms cannot be used together with group_instance_id",
        ),
        ({"offsets_storage": "zookeeper", "group_id": "a/b"}, "group_id='a/b' cannot be used with ZooKeeper"),
        ({"offsets_storage": "zookeeper", "group_id": "."}, "group_id='.' cannot be used with ZooKeeper"),
        ({"offsets_storage": "zookeeper", "group_id": ".."}, "group_id='..' cannot be used with ZooKeeper"),
        (
            {"coordination": "zookeeper", "zookeeper": "z", "group_id": "g", "group_instance_id": "i"},
            "group_instance_id has no effect with coordination='zookeeper'",
        ),
    ],
)
def test_options_that_contradict_each_other_are_an_error_with_the_way_out(
    options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        ConsumerConfig.from_options(options)


@pytest.mark.parametrize(
    ("options", "storage", "dual"),
    [
        ({}, "kafka", False),
        ({"offsets_storage": "zookeeper"}, "zookeeper", False),
        ({"coordination": "zookeeper"}, "zookeeper", False),
        ({"coordination": "zookeeper", "offsets_storage": "kafka"}, "kafka", True),
        (
            {"coordination": "zookeeper", "offsets_storage": "kafka", "dual_commit_enabled": False},
            "kafka",
            False,
        ),
        ({"dual_commit_enabled": True}, "kafka", True),
        ({"coordination": "zookeeper", "dual_commit_enabled": True}, "zookeeper", True),
    ],
)
def test_offsets_are_stored_where_the_group_is_coordinated_unless_told_otherwise(
    options: dict[str, Any], storage: str, dual: bool
) -> None:
    config = ConsumerConfig.from_options({"group_id": "g", "zookeeper": "z", **options})
    assert (config.offset_storage, config.dual_commit) == (storage, dual)


def test_properties_of_the_scala_consumer_are_options() -> None:
    found = by_option_name(
        ConsumerConfig, "h", {"group.id": "g", "offsets.storage": "kafka", "dual.commit.enabled": "false"}
    )
    config = ConsumerConfig.from_options(found)
    assert (config.group_id, config.offset_storage, config.dual_commit_enabled) == ("g", "kafka", False)
    with pytest.raises(ConfigurationError, match="pyklient calls it zookeeper"):
        ConsumerConfig.from_options(by_option_name(ConsumerConfig, "h", {"zookeeper.connect": "z"}))
