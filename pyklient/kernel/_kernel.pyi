# To the type checker, too, the compiled kernel is no different from its twin.
from collections.abc import Iterator

from pyklient.kernel.python_kernel import Appender as Appender
from pyklient.kernel.python_kernel import ArrowRows as ArrowRows
from pyklient.kernel.python_kernel import Batch as Batch
from pyklient.kernel.python_kernel import ColumnBuilder as ColumnBuilder
from pyklient.kernel.python_kernel import Delivery as Delivery
from pyklient.kernel.python_kernel import EventBuffer as EventBuffer
from pyklient.kernel.python_kernel import EventSender as EventSender
from pyklient.kernel.python_kernel import KeyedMessage as KeyedMessage
from pyklient.kernel.python_kernel import Lease as Lease
from pyklient.kernel.python_kernel import LeasedIterator as LeasedIterator
from pyklient.kernel.python_kernel import Message as Message
from pyklient.kernel.python_kernel import append_many as append_many
from pyklient.kernel.python_kernel import append_messages as append_messages
from pyklient.kernel.python_kernel import append_rows as append_rows
from pyklient.kernel.python_kernel import array_hash as array_hash
from pyklient.kernel.python_kernel import batch_header as batch_header
from pyklient.kernel.python_kernel import by_partition as by_partition
from pyklient.kernel.python_kernel import by_topic as by_topic
from pyklient.kernel.python_kernel import call_back as call_back
from pyklient.kernel.python_kernel import control_type as control_type
from pyklient.kernel.python_kernel import count_within as count_within
from pyklient.kernel.python_kernel import crc32c as crc32c
from pyklient.kernel.python_kernel import decode as decode
from pyklient.kernel.python_kernel import decode_columns as decode_columns
from pyklient.kernel.python_kernel import encode_record as encode_record
from pyklient.kernel.python_kernel import encode_records as encode_records
from pyklient.kernel.python_kernel import encode_values as encode_values
from pyklient.kernel.python_kernel import make_messages as make_messages
from pyklient.kernel.python_kernel import memory as memory
from pyklient.kernel.python_kernel import microseconds as microseconds
from pyklient.kernel.python_kernel import murmur2 as murmur2
from pyklient.kernel.python_kernel import parse_records as parse_records
from pyklient.kernel.python_kernel import plain_bytes as plain_bytes
from pyklient.kernel.python_kernel import string_hash as string_hash
from pyklient.kernel.python_kernel import whole_batches as whole_batches
from pyklient.protocol.records.compression import Decompressor
from pyklient.protocol.records.layout import Buffer

class MessageIterator:
    def __init__(self, topic: str, partition: int) -> None: ...
    def add(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
        start_offset: int,
    ) -> None: ...
    def add_batches(
        self,
        data: Buffer,
        position: int,
        start_offset: int,
        most_messages: int,
        most_bytes: int,
        check_crcs: bool,
        none_aborted_below: int,
        decompress: Decompressor,
    ) -> tuple[int, int, int]: ...
    def __length_hint__(self) -> int: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def stop(self) -> tuple[int, int, int]: ...
    def remaining_messages(self) -> list[Message]: ...
    @property
    def count(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
