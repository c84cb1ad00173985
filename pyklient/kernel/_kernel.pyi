# To the type checker, too, the compiled kernel is no different from its twin.
from pyklient.kernel._kernel_py import Appender as Appender
from pyklient.kernel._kernel_py import ArrowRows as ArrowRows
from pyklient.kernel._kernel_py import Batch as Batch
from pyklient.kernel._kernel_py import ColumnBuilder as ColumnBuilder
from pyklient.kernel._kernel_py import Delivery as Delivery
from pyklient.kernel._kernel_py import Message as Message
from pyklient.kernel._kernel_py import append_rows as append_rows
from pyklient.kernel._kernel_py import call_back as call_back
from pyklient.kernel._kernel_py import control_type as control_type
from pyklient.kernel._kernel_py import decode as decode
from pyklient.kernel._kernel_py import decode_columns as decode_columns
from pyklient.kernel._kernel_py import encode_record as encode_record
from pyklient.kernel._kernel_py import encode_records as encode_records
from pyklient.kernel._kernel_py import make_messages as make_messages
from pyklient.kernel._kernel_py import memory as memory
from pyklient.kernel._kernel_py import microseconds as microseconds
from pyklient.kernel._kernel_py import murmur2 as murmur2
from pyklient.kernel._kernel_py import parse_messages as parse_messages
from pyklient.kernel._kernel_py import parse_records as parse_records
from pyklient.kernel.decoded_messages import MessageIterator
from pyklient.protocol.records.layout import Buffer

def iterate_messages(
    data: Buffer,
    count: int,
    base_offset: int,
    last_delta: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    start_offset: int,
) -> MessageIterator: ...
