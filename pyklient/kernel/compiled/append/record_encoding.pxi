# Encoding records, and the hash of their keys. Part of _kernel.pyx.


cdef struct Draft:
    # One record before it is written. A key or value is None where its size is -1.
    uint64_t timestamp
    uint64_t delta
    const uint8_t* key
    Py_ssize_t key_size
    const uint8_t* value
    Py_ssize_t value_size
    const uint8_t* headers
    Py_ssize_t headers_size
    Py_ssize_t body_size


cdef inline Py_ssize_t _measure(Draft* draft, int64_t timestamp_delta, int64_t offset_delta) noexcept nogil:
    """Complete *draft*, which has key, value and headers. Return the number of bytes that the record will
    need."""
    draft.timestamp = fold(timestamp_delta)
    draft.delta = fold(offset_delta)
    cdef Py_ssize_t size = 1 + size_of(draft.timestamp) + size_of(draft.delta) + draft.headers_size
    size += 1 if draft.key_size < 0 else size_of(fold(draft.key_size)) + draft.key_size
    size += 1 if draft.value_size < 0 else size_of(fold(draft.value_size)) + draft.value_size
    draft.body_size = size
    return size_of(fold(size)) + size


cdef inline uint8_t* _put_bytes(uint8_t* at, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    at = put(at, fold(size))
    if size > 0:
        memcpy(at, data, <size_t>size)
        at += size
    return at


cdef inline uint8_t* _put_record(uint8_t* at, const Draft* draft) noexcept nogil:
    at = put(at, fold(draft.body_size))
    at[0] = 0
    at = put(at + 1, draft.timestamp)
    at = put(at, draft.delta)
    at = _put_bytes(at, draft.key, draft.key_size)
    at = _put_bytes(at, draft.value, draft.value_size)
    if draft.headers_size == 1:  # none, as a rule: a call costs more than the byte
        at[0] = draft.headers[0]
    else:
        memcpy(at, draft.headers, <size_t>draft.headers_size)
    return at + draft.headers_size


cdef const uint8_t* NO_HEADERS = <const uint8_t*>b"\x00"


cdef bytes _encoded_headers(headers):
    """Encode the headers of one record, with their count in front. The value of a header may be None, its
    name may not."""
    cdef Py_ssize_t size = _plain_size(headers)
    if size < 0:
        return _any_headers(headers)
    cdef bytes encoded = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(encoded)
    at = put(at, fold(len(headers)))
    cdef Py_ssize_t name_size
    cdef const char* text
    for name, value in <tuple>headers if type(headers) is tuple else <list>headers:
        text = PyUnicode_AsUTF8AndSize(name, &name_size)
        at = _put_bytes(at, <const uint8_t*>text, name_size)
        if value is None:
            at = _put_bytes(at, NULL, -1)
        else:
            at = _put_bytes(at, <const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return encoded


cdef Py_ssize_t _plain_size(headers) except -2:
    """Return the number of bytes of *headers* if they are a list or tuple of (str, bytes or None); otherwise
    -1."""
    if type(headers) is not tuple and type(headers) is not list:
        return -1
    cdef Py_ssize_t size = size_of(fold(len(headers)))
    cdef Py_ssize_t name_size
    for pair in headers:
        if type(pair) is not tuple or len(<tuple>pair) != 2:
            return -1
        name, value = <tuple>pair
        if type(name) is not str or not (value is None or type(value) is bytes):
            return -1
        PyUnicode_AsUTF8AndSize(name, &name_size)
        size += size_of(fold(name_size)) + name_size
        size += 1 if value is None else size_of(fold(PyBytes_GET_SIZE(value))) + PyBytes_GET_SIZE(value)
    return size


cdef bytes _any_headers(headers):
    """Encode headers of any other type. Raise Python's own error if they are not headers."""
    cdef bytearray encoded = bytearray(_varint(len(headers)))
    for name, value in headers:
        text = name.encode()
        encoded += _varint(len(text))
        encoded += text
        encoded += b"\x01" if value is None else _varint(len(value))
        if value is not None:
            encoded += value
    return bytes(encoded)


cdef bytes _varint(int64_t number):
    cdef uint8_t encoded[10]
    return PyBytes_FromStringAndSize(<const char*>encoded, put(encoded, fold(number)) - encoded)


cdef bytes _encode(int64_t timestamp_delta, int64_t offset_delta, key, value, headers):
    cdef Draft draft
    cdef Py_buffer key_view, value_view
    cdef bytes encoded = _encoded_headers(headers) if headers else None
    cdef bytes record
    draft.headers = NO_HEADERS if encoded is None else <const uint8_t*>PyBytes_AS_STRING(encoded)
    draft.headers_size = 1 if encoded is None else PyBytes_GET_SIZE(encoded)
    _hold(key, &key_view, &draft.key, &draft.key_size)
    try:
        _hold(value, &value_view, &draft.value, &draft.value_size)
        try:
            record = PyBytes_FromStringAndSize(NULL, _measure(&draft, timestamp_delta, offset_delta))
            _put_record(<uint8_t*>PyBytes_AS_STRING(record), &draft)
            return record
        finally:
            if value is not None:
                PyBuffer_Release(&value_view)
    finally:
        if key is not None:
            PyBuffer_Release(&key_view)


cdef int _hold(data, Py_buffer* view, const uint8_t** start, Py_ssize_t* size) except -1:
    start[0] = NULL
    size[0] = -1
    if data is not None:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
        start[0] = <const uint8_t*>view.buf
        size[0] = view.len
    return 0


def encode_record(timestamp_delta, offset_delta, key, value, headers=()):
    """Encode one record of format 2, with its length in front. The deltas are the distances of the record
    from the base timestamp and the base offset of its batch."""
    return _encode(_wrapped(timestamp_delta), _wrapped(offset_delta), key, value, headers)


cdef inline int64_t _wrapped(number) except? -1:
    """Wrap *number* around to 64 bits, as in Java. If it is a difference, adding it to the base again gives
    the right number."""
    return <int64_t>PyLong_AsUnsignedLongLongMask(number)


def encode_records(records, base_timestamp, offset_deltas=None):
    """Encode records, given as (timestamp_ms, key, value, headers), as a batch of format 2 contains them
    behind its header.

    The offset deltas are 0, 1, 2 … unless *offset_deltas* is given.
    """
    cdef list encoded = []
    cdef uint64_t base = <uint64_t>_wrapped(base_timestamp)
    cdef int64_t index = 0
    if offset_deltas is None:
        for timestamp, key, value, headers in records:
            encoded.append(_encode(<int64_t>(<uint64_t>_wrapped(timestamp) - base), index, key, value, headers))
            index += 1
    else:
        for delta, (timestamp, key, value, headers) in zip(offset_deltas, records, strict=True):
            encoded.append(
                _encode(<int64_t>(<uint64_t>_wrapped(timestamp) - base), _wrapped(delta), key, value, headers)
            )
    return b"".join(encoded)


def encode_values(list values not None, list keys=None):
    """Encode records that all have the timestamp of their batch and no headers, as a batch of format 2
    contains them behind its header.

    *keys* are in the order of *values*; None if no record has a key.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(values)
    cdef Py_ssize_t index
    cdef Py_ssize_t size = 0
    cdef Draft draft
    if keys is not None and PyList_GET_SIZE(keys) != count:
        raise ValueError(f"there are {count} values, but {PyList_GET_SIZE(keys)} keys")
    cdef _Memory encoded = _Memory.__new__(_Memory)
    # From here on no code of Python runs, so the lists do not change.
    for index in range(count):
        _check_bytes(values[index])
        if keys is not None:
            _check_bytes(keys[index])
        _draft_value(&draft, values, keys, index)
        size += _measure(&draft, 0, index)
    cdef uint8_t* at = <uint8_t*>encoded.reserve(size)
    for index in range(count):
        _draft_value(&draft, values, keys, index)
        _measure(&draft, 0, index)
        at = _put_record(at, &draft)
    return encoded.finish(size, "B")


cdef inline int _check_bytes(data) except -1:
    if data is not None and not isinstance(data, bytes):
        raise TypeError(f"a key or value must be bytes or None, not {type(data).__name__}")
    return 0


cdef inline int _draft_value(Draft* draft, list values, list keys, Py_ssize_t index) except -1:
    """Point *draft* to the key and the value at *index*, which are bytes or None."""
    draft.headers = NO_HEADERS
    draft.headers_size = 1
    _point(&draft.value, &draft.value_size, values[index])
    _point(&draft.key, &draft.key_size, None if keys is None else keys[index])
    return 0


# --- the hash of Kafka's default partitioner


cdef inline uint32_t _murmur2(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t value = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t left = size
    while left >= 4:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= <uint32_t>0x5BD1E995
        word = (word ^ word >> 24) * <uint32_t>0x5BD1E995
        value = value * <uint32_t>0x5BD1E995 ^ word
        data += 4
        left -= 4
    if left:
        word = data[0]
        if left > 1:
            word |= <uint32_t>data[1] << 8
        if left > 2:
            word |= <uint32_t>data[2] << 16
        value = (value ^ word) * <uint32_t>0x5BD1E995
    value = (value ^ value >> 13) * <uint32_t>0x5BD1E995
    return (value ^ value >> 15) & <uint32_t>0x7FFFFFFF


def murmur2(data):
    """Return the hash of *data* that Java's default partitioner uses for keys: a number from 0 to 2³¹ - 1."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return _murmur2(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
