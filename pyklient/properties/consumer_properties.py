"""The properties of the classic high-level consumer in three versions of Kafka (the profiles), and the
options that they set."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyklient.config import ConsumerConfig, dotted_names
from pyklient.errors import ConfigurationError
from pyklient.properties.profile import Given, Profile, ProfileName, Property, choose
from pyklient.properties.shared_properties import RECEIVE_BUFFER
from pyklient.properties.unsecured import NOT_SECURED
from pyklient.properties.values import boolean, name_characters, one_of, text, whole

__all__ = ["CONSUMER_PROFILES", "consumer_options"]

log = logging.getLogger("pyklient")

_RESETS: Final = {"smallest": "earliest", "largest": "latest"}
_LOWEST: Final = -(2**31)


def consumer_options(properties: Mapping[str, object], profile: str | None) -> dict[str, Any]:
    """Return the options of ConsumerConnector that follow from *properties*.

    *profile* names a version of Kafka. The keys are then those of the Scala consumer in this version, and the
    group is coordinated through ZooKeeper. If *profile* is None, the keys are those of today's Java consumer.
    """
    if profile is None:
        return dotted_names.from_properties(ConsumerConfig, properties)
    chosen = choose(CONSUMER_PROFILES, profile)
    given = chosen.read(properties)
    options = chosen.options(given)
    # Kafka documents that the socket waits for both times, since a fetch may wait at the broker.
    options["request_timeout_ms"] = given["socket.timeout.ms"] + options["fetch_max_wait_ms"]
    options["retry_backoff_max_ms"] = max(1_000, options.get("retry_backoff_ms", 0))
    return options | {"coordination": "zookeeper"}


def _any_reset(key: str, value: object) -> str:
    written = text(key, value)
    if written not in _RESETS:
        log.warning(
            "%s=%r is neither 'smallest' nor 'largest'; set one of them. Otherwise reading raises an error "
            "if no offset is committed, or if the committed offset does not exist",
            key,
            written,
        )
    return written


def _reset_of_0_7(value: str) -> str:
    # 0.7 accepts any text. With an unknown one, the loop that reads gets the error of the broker.
    return _RESETS.get(value, "none")


def _endless_if_negative(milliseconds: int) -> int:
    return max(milliseconds, -1)


def _socket_outlasts_the_broker(given: Given) -> None:
    if given["socket.timeout.ms"] < given["fetch.wait.max.ms"]:
        raise ConfigurationError(
            f"{given.shown('socket.timeout.ms')} is less than {given.shown('fetch.wait.max.ms')}, so a fetch "
            "without new messages would time out; raise the first value, or lower the second"
        )


def _one_fetcher(key: str, value: object) -> int:
    if (count := whole(1)(key, value)) != 1:
        raise ConfigurationError(
            f"{key}={count} is not supported: there is always one fetcher for each broker; remove {key}"
        )
    return 1


_SINCE_0_8: Final = (
    Property(key="group.id", parse=name_characters, option="group_id", also=("groupid",), required=True),
    Property(key="zookeeper.connect", option="zookeeper", also=("zk.connect",), required=True),
    Property(
        key="zookeeper.session.timeout.ms",
        default=6_000,
        parse=whole(1),
        option="zookeeper_session_timeout_ms",
        also=("zk.sessiontimeout.ms",),
    ),
    Property(
        key="zookeeper.connection.timeout.ms",
        parse=whole(1),
        option="zookeeper_connection_timeout_ms",
        also=("zk.connectiontimeout.ms",),
        default_from="zookeeper.session.timeout.ms",
    ),
    Property(
        key="zookeeper.sync.time.ms",
        default=2_000,
        parse=whole(0),
        effect="The value is only used as the default of `rebalance.backoff.ms`.",
        also=("zk.synctime.ms",),
    ),
    Property(key="consumer.id", parse=text, option="consumer_id", also=("consumerid",)),
    Property(key="client.id", parse=name_characters, option="client_id", default_from="group.id"),
    Property(
        key="socket.timeout.ms",
        default=30_000,
        parse=whole(1),
        effect="The option `request_timeout_ms` gets the sum of this value and `fetch_max_wait_ms`.",
    ),
    Property(
        key="rebalance.backoff.ms",
        parse=whole(0),
        option="rebalance_backoff_ms",
        default_from="zookeeper.sync.time.ms",
    ),
    Property(
        key="consumer.timeout.ms",
        default=-1,
        parse=whole(_LOWEST),
        option="consumer_timeout_ms",
        to_option=_endless_if_negative,
        effect="A negative number means no limit.",
    ),
    RECEIVE_BUFFER,
    Property(
        key="fetch.message.max.bytes",
        default=1_048_576,
        parse=whole(0),
        option="max_partition_fetch_bytes",
        also=("fetch.size",),
    ),
    Property(
        key="num.consumer.fetchers",
        default=1,
        parse=_one_fetcher,
        effect="Only 1 is accepted, because there is always one fetcher for each broker.",
    ),
    Property(
        key="auto.commit.enable",
        default=True,
        parse=boolean,
        option="enable_auto_commit",
        also=("autocommit.enable",),
    ),
    Property(
        key="auto.commit.interval.ms",
        default=60_000,
        parse=whole(1),
        option="auto_commit_interval_ms",
        also=("autocommit.interval.ms",),
    ),
    Property(
        key="queued.max.message.chunks",
        default=2,
        parse=whole(1),
        option="queued_max_message_chunks",
        also=("queuedchunks.max",),
    ),
    Property(
        key="rebalance.max.retries",
        default=4,
        parse=whole(1),
        option="rebalance_max_retries",
        also=("rebalance.retries.max",),
    ),
    Property(key="refresh.leader.backoff.ms", default=200, parse=whole(0), option="retry_backoff_ms"),
    Property(key="fetch.min.bytes", default=1, parse=whole(0), option="fetch_min_bytes"),
    Property(
        key="fetch.wait.max.ms",
        default=100,
        parse=whole(0),
        option="fetch_max_wait_ms",
        also=("fetcher.backoff.ms", "backoff.increment.ms"),
    ),
    Property(
        key="auto.offset.reset",
        default="largest",
        parse=one_of(*_RESETS),
        option="auto_offset_reset",
        to_option=_RESETS.__getitem__,
        effect="`smallest` sets `earliest`, and `largest` sets `latest`.",
        also=("autooffset.reset",),
    ),
    Property(
        key="offsets.storage",
        default="zookeeper",
        parse=one_of("zookeeper", "kafka", fold=True),
        option="offsets_storage",
    ),
    Property(
        key="offsets.channel.backoff.ms",
        default=1_000,
        parse=whole(0),
        option="offsets_channel_backoff_ms",
    ),
    Property(
        key="offsets.channel.socket.timeout.ms",
        default=10_000,
        parse=whole(1),
        option="offsets_channel_socket_timeout_ms",
    ),
    Property(
        key="offsets.commit.max.retries",
        default=5,
        parse=whole(0),
        option="offsets_commit_max_retries",
    ),
    Property(
        key="dual.commit.enabled",
        parse=boolean,
        option="dual_commit_enabled",
        default_from="offsets.storage",
        make_default=lambda storage: storage == "kafka",
        effect="The default is `true` if `offsets.storage` is `kafka`.",
    ),
    Property(
        key="partition.assignment.strategy",
        default="range",
        parse=one_of("range", "roundrobin"),
        option="partition_assignment_strategy",
    ),
    Property(
        key="exclude.internal.topics",
        default=True,
        parse=boolean,
        option="exclude_internal_topics",
    ),
)

_IN_0_7: Final[Mapping[str, tuple[str, Any]]] = {
    "group.id": ("groupid", None),
    "zookeeper.connect": ("zk.connect", None),
    "zookeeper.session.timeout.ms": ("zk.sessiontimeout.ms", 6_000),
    "zookeeper.connection.timeout.ms": ("zk.connectiontimeout.ms", None),
    "zookeeper.sync.time.ms": ("zk.synctime.ms", 2_000),
    "consumer.id": ("consumerid", None),
    "socket.timeout.ms": ("socket.timeout.ms", 30_000),
    "socket.receive.buffer.bytes": ("socket.buffersize", 65_536),
    "fetch.message.max.bytes": ("fetch.size", 1_048_576),
    "fetch.wait.max.ms": ("fetcher.backoff.ms", 1_000),
    "auto.commit.enable": ("autocommit.enable", True),
    "auto.commit.interval.ms": ("autocommit.interval.ms", 10_000),
    "queued.max.message.chunks": ("queuedchunks.max", 10),
    "rebalance.max.retries": ("rebalance.retries.max", 4),
    "rebalance.backoff.ms": ("rebalance.backoff.ms", None),
    "consumer.timeout.ms": ("consumer.timeout.ms", -1),
}
"""Maps the key of each property in Kafka 0.8 to the key and the default of the same property in Kafka 0.7."""


def _in_0_7(new: Property) -> Property:
    """Return the property of Kafka 0.7 that corresponds to *new*, a property of Kafka 0.8."""
    key, default = _IN_0_7[new.key]
    spellings = [each for each in (new.key, *new.also) if each != key]
    source = None if new.default_from is None else _IN_0_7[new.default_from][0]
    return replace(new, key=key, default=default, also=spellings, default_from=source)


_NEW_CONSUMERS: Final = {
    "bootstrap.servers": "the consumer finds the brokers in ZooKeeper; set zookeeper.connect, or choose no "
    "profile",
    **dict.fromkeys(
        NOT_SECURED,
        "consumers with a profile use neither TLS nor SASL; make a ConsumerConnector without a profile, "
        "with coordination='zookeeper' and this option, or remove the property",
    ),
}

_WITHOUT_MIRRORS: Final = (
    "pass a Whitelist or a Blacklist to create_message_streams_by_filter, with the number of streams"
)
_MIRRORS: Final = dict.fromkeys(
    ("mirror.topics.whitelist", "mirror.topics.blacklist", "mirror.consumer.numthreads"), _WITHOUT_MIRRORS
)

_NOT_SINCE_0_8: Final = {
    "shallowiterator.enable": "only Kafka 0.7 has this property; choose the profile 0.7, or remove "
    "the property",
    "enable.auto.commit": "set auto.commit.enable",
    **_MIRRORS,
}

CONSUMER_PROFILES: Final[Mapping[ProfileName, Profile]] = {
    "0.7": Profile(
        name="0.7",
        client="ConsumerConnector",
        properties=(
            *(_in_0_7(each) for each in _SINCE_0_8 if each.key in _IN_0_7),
            Property(
                key="autooffset.reset",
                default="smallest",
                parse=_any_reset,
                option="auto_offset_reset",
                to_option=_reset_of_0_7,
                effect="`smallest` sets `earliest`, and `largest` sets `latest`. With any other value, "
                "reading raises an error if no offset is committed, or if the committed offset does not "
                "exist.",
                also=("auto.offset.reset",),
            ),
            Property(
                key="shallowiterator.enable",
                default=False,
                parse=boolean,
                option="shallowiterator_enable",
                effect="With `true`, each compressed batch is handed out as one message.",
            ),
        ),
        without_effect=_NEW_CONSUMERS
        | {"enable.auto.commit": "set autocommit.enable", "fetch.max.bytes": "set fetch.size"}
        | _MIRRORS,
    ),
    "0.8": Profile(
        name="0.8",
        client="ConsumerConnector",
        properties=_SINCE_0_8,
        without_effect=_NEW_CONSUMERS
        | _NOT_SINCE_0_8
        | {"fetch.max.bytes": "set fetch.message.max.bytes, or choose the profile 0.10"},
    ),
    "0.10": Profile(
        name="0.10",
        client="ConsumerConnector",
        properties=(
            *_SINCE_0_8,
            Property(
                key="fetch.max.bytes",
                default=52_428_800,
                parse=whole(0),
                option="fetch_max_bytes",
            ),
        ),
        without_effect=_NEW_CONSUMERS | _NOT_SINCE_0_8,
        rules=(_socket_outlasts_the_broker,),
    ),
}
"""The properties of ConsumerConnector in each version of Kafka."""
