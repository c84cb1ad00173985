# cython: language_level=3
"""The compiled kernel, which behaves exactly as ``python_kernel`` and is faster.

It gets bytes through Python's buffer protocol, and reads them with a ``Cursor``, which never goes beyond
their end. The classes of objects that exist for each record, such as ``Delivery`` and ``Message``, are
written in Cython, and their numbers are C numbers.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from posix.types cimport clockid_t

cimport cython

from pyklient.kernel.varint cimport (
    BEYOND_32_BITS,
    BEYOND_64_BITS,
    BEYOND_TIME,
    CUT_OFF,
    NEGATIVE_COUNT,
    NEGATIVE_DELTA,
    NEGATIVE_HEADER,
    NEGATIVE_KEY,
    NEGATIVE_LENGTH,
    NEGATIVE_NAME,
    NEGATIVE_VALUE,
    NO_FAULT,
    NO_ROOM,
    WRONG_LENGTH,
    Cursor,
    Fault,
    fold,
    put,
    read_folded,
    size_of,
    unfold,
)

from functools import partial
from operator import index as index_of
from array import array
from time import time_ns

from pyklient.errors import CorruptRecordError
from pyklient.kernel.decode import batch_reader, column_decoding, message_decoding
from pyklient.kernel.append.arrow_columns import AT_ONCE
from pyklient.kernel.decode.batch_runs import BatchRun
from pyklient.kernel.decode.column_decoding import (
    MOST_MILLISECONDS,
    ArrowColumns,
    ByteColumn,
    HeaderColumn,
    readable,
    too_large,
)
from pyklient.protocol.records import checksum
from pyklient.protocol.records.layout import BATCH_SIZE, INT32_MAX, Columns, not_a_batch
from pyklient.kernel.append.delivery_reports import DeliveryReport, DeliveryState
from pyklient.kernel.pickling import restore_delivery, restore_message
from pyklient.kernel.decode.batch_reader import size_of as size_of_parsed
from pyklient.kernel.append.open_batches import (
    BATCH_COST,
    LARGE_CAPACITY,
    LEAST_CAPACITY,
    CALLBACK_COST,
    NEVER_CHOSEN,
    OpenBatches,
)
from pyklient.kernel.append.user_functions import NO_FUNCTIONS, checked_partition, encoded_bytes

__all__ = [
    "Appender",
    "ArrowRows",
    "Batch",
    "ColumnBuilder",
    "Delivery",
    "EventBuffer",
    "EventSender",
    "KeyedMessage",
    "Lease",
    "LeasedIterator",
    "Message",
    "MessageIterator",
    "ProduceDecoder",
    "ProduceEncoder",
    "append_many",
    "append_messages",
    "append_rows",
    "array_hash",
    "batch_header",
    "by_partition",
    "by_topic",
    "call_back",
    "control_type",
    "count_within",
    "crc32c",
    "decode",
    "decode_columns",
    "encode_record",
    "encode_records",
    "encode_values",
    "make_messages",
    "memory",
    "microseconds",
    "murmur2",
    "parse_batches",
    "parse_records",
    "plain_bytes",
    "string_hash",
    "whole_batches",
]

cdef extern from *:
    """
    #define pyklient_add_overflows(a, b, sum) __builtin_add_overflow(a, b, sum)
    """
    bint pyklient_add_overflows(int64_t a, int64_t b, int64_t* sum) noexcept nogil

cdef extern from *:
    """
    #ifndef PYKLIENT_KERNEL_MARK
    #define PYKLIENT_KERNEL_MARK ""
    #endif
    """
    const char* PYKLIENT_KERNEL_MARK

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char* name
        int type
        Py_ssize_t offset
        int flags
        const char* doc
    int T_OBJECT_EX
    int READONLY

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLongMask(object number) except? 0xFFFFFFFFFFFFFFFF
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    ctypedef object (*ternaryfunc)(object, object, PyObject*)
    ctypedef object (*vectorcallfunc)(PyObject*, PyObject**, size_t, PyObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t count)
    ctypedef struct PyTypeObject:
        const char* tp_name
        Py_ssize_t tp_basicsize
        PyObject* tp_dict
        ternaryfunc tp_call
        vectorcallfunc tp_vectorcall
    object PyDescr_NewMember(PyTypeObject* kind, PyMemberDef* member)
    int PyObject_GenericSetAttr(object changed, object name, PyObject* value) except -1
    bint PyObject_GC_IsTracked(object tracked)
    void PyObject_GC_Track(PyObject* tracked)
    void PyObject_GC_UnTrack(PyObject* tracked)
    void PyType_Modified(PyTypeObject* kind)
    # The list takes the reference over.
    void _store "PyList_SET_ITEM"(PyObject* filled, Py_ssize_t index, PyObject* item)

cdef Py_ssize_t _CALLBACK_COST = CALLBACK_COST
cdef Py_ssize_t _BATCH_COST = BATCH_COST
cdef int64_t _NEVER_CHOSEN = NEVER_CHOSEN
cdef Py_ssize_t _LEAST_CAPACITY = LEAST_CAPACITY
cdef Py_ssize_t _LARGE_CAPACITY = LARGE_CAPACITY
cdef Py_ssize_t _MOST_IN_A_COLUMN = INT32_MAX
cdef Py_ssize_t _BATCH_HEADER = BATCH_SIZE
cdef Py_ssize_t _AT_ONCE = AT_ONCE
cdef int64_t _MOST_MILLISECONDS = MOST_MILLISECONDS


include "decode/message.pxi"
include "checksum.pxi"
include "decode/batch_headers.pxi"
include "decode/record_parsing.pxi"
include "append/record_encoding.pxi"
include "reused_memory.pxi"
include "append/batch.pxi"
include "append/open_batches.pxi"
include "append/appender.pxi"
include "append/user_functions.pxi"
include "decode/column_rows.pxi"
include "decode/column_builder.pxi"
include "decode/lazy_messages.pxi"
include "decode/lease.pxi"
include "decode/produce_responses.pxi"
include "append/arrow_rows.pxi"
include "append/message_appending.pxi"
include "append/bulk_appending.pxi"
include "append/produce_requests.pxi"
include "classic/keyed_message.pxi"
include "classic/event_buffer.pxi"
include "classic/java_hashes.pxi"
include "classic/partition_sorting.pxi"

mark = PYKLIENT_KERNEL_MARK.decode()  # in the file's bytes, for compiled_loader.py

_LOOPS = batch_reader.RecordLoops(parse_records, make_messages, crc32c, MessageIterator, parse_batches)
decode = partial(message_decoding.decode, _LOOPS)
decode_columns = partial(column_decoding.decode_columns, _LOOPS, ColumnBuilder)
control_type = partial(batch_reader.control_type, _LOOPS)
