"""The properties of the classic producer in three versions of Kafka (the profiles), and the options that they
set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.properties.class_names import instance, load
from pyklient.properties.profile import Given, Profile, ProfileName, Property, choose
from pyklient.properties.shared_properties import CLIENT_ID
from pyklient.properties.unsecured import NOT_SECURED
from pyklient.properties.values import (
    ANY_NUMBER,
    anything,
    broker_addresses,
    codec,
    name_value_pairs,
    one_of,
    static_brokers,
    topic_list,
    whole,
)

__all__ = ["PRODUCER_PROFILES", "ProducerProperties", "producer_properties"]

_STRING_ENCODERS: Final = ("kafka.serializer.StringEncoder", "pyklient.classic.encoders:StringEncoder")
_CLASSES: Final = {
    "serializer.class": "encoder",
    "key.serializer.class": "key_encoder",
    "partitioner.class": "partitioner",
    "callback.handler": "callback_handler",
    "event.handler": "event_handler",
}
"""The properties that name classes, each with the name of the field that gets the object."""


@dataclass(frozen=True, slots=True)
class ProducerProperties:
    """The options and objects from which a classic producer is made."""

    options: Mapping[str, Any]
    """The fields of ClassicProducerConfig."""
    callback_handler: Any = None
    """The object that the property ``callback.handler`` names. None if the property is not set."""
    event_handler: Any = None
    """The object that the property ``event.handler`` names. None if the property is not set, or names Kafka's
    default class."""


def producer_properties(properties: Mapping[str, object], profile: str) -> ProducerProperties:
    """Return the options and objects of the classic producer, from *properties* and the defaults. *profile*
    is the version of Kafka whose properties the producer accepts.

    The classes that properties name are loaded and instantiated.
    """
    chosen = choose(PRODUCER_PROFILES, profile)
    given = chosen.read(properties)
    made: dict[str, Any] = {}
    for key, field in _CLASSES.items():
        if key in given and given[key] != _DEFAULT_EVENT_HANDLER:
            if given[key] in _STRING_ENCODERS:
                made[field] = load(key, given[key])(given["serializer.encoding"])
            else:
                made[field] = instance(given.spellings[key], given[key], properties)
    callback_handler, event_handler = made.pop("callback_handler", None), made.pop("event_handler", None)
    return ProducerProperties(
        {"profile": profile, **chosen.options(given), **made}, callback_handler, event_handler
    )


_DEFAULT_EVENT_HANDLER: Final = "kafka.producer.async.DefaultEventHandler"


def _class(key: str, default: str | None, effect: str) -> Property:
    return Property(key=key, default=default, parse=anything, effect=effect)


_HANDLERS: Final = (
    _class(
        "callback.handler",
        None,
        "The class whose [hooks](classic-async-producer.md#hooks) an asynchronous producer calls for "
        "messages and batches.",
    ),
    Property(key="callback.handler.props", parse=name_value_pairs, option="callback_handler_props"),
    _class("event.handler", None, "The class that sends the batches instead of the default event handler."),
    Property(key="event.handler.props", parse=name_value_pairs, option="event_handler_props"),
)
_SERIALIZER: Final = _class(
    "serializer.class",
    "kafka.serializer.DefaultEncoder",
    "The class of the encoder of messages. The default encoder accepts bytes, and does not change them.",
)
_ENCODING: Final = Property(
    key="serializer.encoding",
    default="UTF8",
    effect="The encoding that `kafka.serializer.StringEncoder` uses.",
)
_PARTITIONER: Final = _class(
    "partitioner.class",
    "kafka.producer.DefaultPartitioner",
    "The class of the partitioner of messages with a key.",
)
_TYPE: Final = Property(
    key="producer.type", default="sync", parse=one_of("sync", "async"), option="producer_type"
)
_TOPICS: Final = Property(
    key="compressed.topics", default=frozenset(), parse=topic_list, option="compressed_topics"
)

_SINCE_0_8: Final = (
    Property(
        key="metadata.broker.list", parse=broker_addresses, option="metadata_broker_list", required=True
    ),
    _TYPE,
    _SERIALIZER,
    Property(
        key="key.serializer.class",
        default_from="serializer.class",
        parse=anything,
        effect="The class of the encoder of keys.",
    ),
    _ENCODING,
    _PARTITIONER,
    Property(
        key="compression.codec",
        default="none",
        parse=codec("none", "gzip", "snappy", "lz4"),
        option="compression_codec",
    ),
    _TOPICS,
    Property(key="request.required.acks", default=0, parse=whole(-1, 1), option="request_required_acks"),
    Property(
        key="request.timeout.ms",
        default=10_000,
        parse=whole(1),
        option="request_timeout_ms",
        also=("socket.timeout.ms",),
    ),
    Property(
        key="message.send.max.retries",
        default=3,
        parse=whole(0),
        option="message_send_max_retries",
        also=("num.retries",),
    ),
    Property(key="retry.backoff.ms", default=100, parse=whole(0), option="retry_backoff_ms"),
    Property(
        key="topic.metadata.refresh.interval.ms",
        default=600_000,
        parse=ANY_NUMBER,
        option="topic_metadata_refresh_interval_ms",
    ),
    Property(
        key="queue.buffering.max.ms",
        default=5_000,
        parse=whole(0),
        option="queue_buffering_max_ms",
        also=("queue.time",),
    ),
    Property(
        key="queue.buffering.max.messages",
        default=10_000,
        parse=whole(1),
        option="queue_buffering_max_messages",
        also=("queue.size",),
    ),
    Property(
        key="queue.enqueue.timeout.ms",
        default=-1,
        parse=ANY_NUMBER,
        option="queue_enqueue_timeout_ms",
        also=("queue.enqueueTimeout.ms",),
    ),
    Property(
        key="batch.num.messages",
        default=200,
        parse=whole(1),
        option="batch_num_messages",
        also=("batch.size",),
        effect="The value is a number of messages, not of bytes.",
        ambiguous="batch.size",
        ambiguity="it is a number of messages, as in Kafka 0.7, and not of bytes, as in today's producer",
    ),
    Property(
        key="send.buffer.bytes",
        default=102_400,
        parse=whole(-1),
        option="send_buffer_bytes",
        also=("buffer.size",),
    ),
    CLIENT_ID,
    *_HANDLERS,
)

_0_7: Final = (
    Property(
        key="broker.list",
        parse=static_brokers,
        option="broker_list",
        effect="A list of `id:host:port`, such as `1:localhost:9092`, with the id that the broker has.",
    ),
    Property(key="zk.connect", option="zk_connect", also=("zookeeper.connect",)),
    Property(
        key="zk.sessiontimeout.ms",
        default=6_000,
        parse=whole(1),
        option="zk_session_timeout_ms",
        also=("zookeeper.session.timeout.ms",),
    ),
    Property(
        key="zk.connectiontimeout.ms",
        parse=whole(1),
        option="zk_connection_timeout_ms",
        default_from="zk.sessiontimeout.ms",
        also=("zookeeper.connection.timeout.ms",),
    ),
    Property(
        key="zk.synctime.ms",
        default=2_000,
        parse=whole(0),
        effect="The value has no effect, because ZooKeeper notifies the producer of changes.",
        also=("zookeeper.sync.time.ms",),
    ),
    Property(
        key="zk.read.num.retries",
        default=3,
        parse=whole(0),
        option="zk_read_num_retries",
        effect="Each attempt takes up to `zk.connectiontimeout.ms`. So by default, `send` fails after 24 s "
        "if ZooKeeper cannot be reached.",
    ),
    _TYPE,
    _SERIALIZER,
    _ENCODING,
    _PARTITIONER,
    Property(
        key="compression.codec",
        default="none",
        parse=codec("none", "gzip", "snappy"),
        option="compression_codec",
    ),
    _TOPICS,
    Property(
        key="num.retries",
        default=0,
        parse=whole(0),
        option="message_send_max_retries",
        also=("message.send.max.retries",),
    ),
    Property(
        key="queue.time",
        default=5_000,
        parse=whole(0),
        option="queue_buffering_max_ms",
        also=("queue.buffering.max.ms",),
    ),
    Property(
        key="queue.size",
        default=10_000,
        parse=whole(1),
        option="queue_buffering_max_messages",
        also=("queue.buffering.max.messages",),
    ),
    Property(
        key="queue.enqueueTimeout.ms",
        default=0,
        parse=ANY_NUMBER,
        option="queue_enqueue_timeout_ms",
        also=("queue.enqueue.timeout.ms",),
    ),
    Property(
        key="batch.size",
        default=200,
        parse=whole(1),
        option="batch_num_messages",
        effect="The value is a number of messages, not of bytes.",
        also=("batch.num.messages",),
    ),
    Property(
        key="buffer.size",
        default=102_400,
        parse=whole(-1),
        option="send_buffer_bytes",
        also=("send.buffer.bytes",),
    ),
    Property(key="connect.timeout.ms", default=5_000, parse=whole(1), option="connect_timeout_ms"),
    Property(
        key="socket.timeout.ms",
        default=30_000,
        parse=whole(1),
        option="socket_timeout_ms",
        also=("request.timeout.ms",),
    ),
    Property(
        key="reconnect.interval",
        default=30_000,
        parse=whole(1),
        option="reconnect_interval",
        effect="After this number of requests, the producer opens a new connection.",
    ),
    Property(
        key="reconnect.time.interval.ms",
        default=10_000_000,
        parse=ANY_NUMBER,
        option="reconnect_time_interval_ms",
        effect="After this time, the producer opens a new connection. A negative number means never.",
    ),
    Property(key="max.message.size", default=1_000_000, parse=whole(1), option="max_message_size"),
    *_HANDLERS,
)

_ONLY_TODAY: Final = {
    "enable.idempotence": "the classic producer cannot be idempotent, so a retry may store a message twice; "
    "choose no profile",
    **NOT_SECURED,
}
_LIST_SINCE_0_8: Final = "since 0.8, set metadata.broker.list=host:port,host:port"
_ALL_FROM_LIST: Final = f"{_LIST_SINCE_0_8}; the producer asks these brokers for the addresses of the others"
_KEPT_OPEN: Final = "the producer keeps a connection open as long as it works; remove the property"
_NO_ACKS_IN_0_7: Final = "brokers of Kafka 0.7 do not confirm messages; choose the profile 0.8"
_GONE_IN_0_8: Final = {
    "broker.list": f"{_LIST_SINCE_0_8}, without the ids of the brokers",
    "zk.connect": _ALL_FROM_LIST,
    "zookeeper.connect": _ALL_FROM_LIST,
    "zk.read.num.retries": "the producer gets its metadata from the brokers; message.send.max.retries limits "
    "the attempts",
    "connect.timeout.ms": "set request.timeout.ms",
    "reconnect.interval": _KEPT_OPEN,
    "reconnect.time.interval.ms": _KEPT_OPEN,
    "max.message.size": "the broker limits the size, by its setting message.max.bytes",
    "bootstrap.servers": "set metadata.broker.list, or choose no profile",
    "acks": "set request.required.acks, where -1 stands for all",
    "retries": "set message.send.max.retries",
    **_ONLY_TODAY,
}
_NOT_IN_0_7: Final = "Kafka 0.7 has no such property"
_NOT_YET_IN_0_7: Final = {
    "metadata.broker.list": "set broker.list=id:host:port,id:host:port, or choose the profile 0.8",
    "bootstrap.servers": "set broker.list=id:host:port,id:host:port, or choose no profile",
    "request.required.acks": _NO_ACKS_IN_0_7,
    "key.serializer.class": f"{_NOT_IN_0_7} (its messages had no key); choose the profile 0.8",
    "retry.backoff.ms": f"{_NOT_IN_0_7} (its producer retried at once); choose the profile 0.8",
    "topic.metadata.refresh.interval.ms": f"{_NOT_IN_0_7} (ZooKeeper told its producer of changes); choose "
    "the profile 0.8",
    "client.id": f"{_NOT_IN_0_7} (its requests had no client id); choose the profile 0.8",
    "acks": f"{_NO_ACKS_IN_0_7}, and set request.required.acks",
    "retries": "set num.retries",
    **_ONLY_TODAY,
}


def _batch_fits_into_the_queue(given: Given) -> None:
    if given["batch.num.messages"] > given["queue.buffering.max.messages"]:
        raise ConfigurationError(
            f"{given.shown('batch.num.messages')} is larger than "
            f"{given.shown('queue.buffering.max.messages')}, so no batch would ever be full; make the batch "
            "smaller, or the queue larger. Both are numbers of messages"
        )


def _since_0_8(name: ProfileName) -> Profile:
    return Profile(
        name=name,
        client="Producer",
        properties=_SINCE_0_8,
        without_effect=_GONE_IN_0_8,
        rules=(_batch_fits_into_the_queue,),
    )


PRODUCER_PROFILES: Final[Mapping[ProfileName, Profile]] = {
    "0.7": Profile(name="0.7", client="Producer", properties=_0_7, without_effect=_NOT_YET_IN_0_7),
    "0.8": _since_0_8("0.8"),
    "0.10": _since_0_8("0.10"),
}
"""The properties of the classic producer in each version of Kafka."""
