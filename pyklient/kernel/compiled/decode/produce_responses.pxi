# Decodes Produce responses. Part of _kernel.pyx.
#
# The generated decoders of protocol/decoder_generation.py do the same for every kind of response, and this one makes
# equal objects. It exists because a producer gets a Produce response for every few batches.


# the least bytes of a topic and of a partition, in any version
DEF _LEAST_TOPIC = 2
DEF _LEAST_PARTITION = 14

_new = object.__new__


@cython.final
cdef class ProduceDecoder:
    """Decodes ProduceResponses in one version, from 3 to 12. It is called as a generated decoder is.

    *response_class* is ProduceResponse. If *flexible*, lengths are compact and there are tagged fields. A
    response with error messages or tagged fields, and bytes that are not a response, are left to the decoder
    *general*.
    """

    cdef int _version
    cdef bint _flexible
    cdef object _general
    cdef object _response
    cdef object _topic
    cdef object _partition
    cdef object _leader
    cdef bytes _topic_id

    def __init__(self, int version, bint flexible, general, response_class):
        self._version = version
        self._flexible = flexible
        self._general = general
        self._response = response_class
        self._topic = response_class.TopicProduceResponse
        self._partition = response_class.PartitionProduceResponse
        self._leader = response_class.LeaderIdAndEpoch
        self._topic_id = bytes(16)

    def __call__(self, reader):
        """Return the response that begins at the position of *reader*."""
        cdef Cursor cursor
        cdef Py_buffer view
        cdef Py_ssize_t start = reader.pos, end = reader.end
        response = None
        PyObject_GetBuffer(reader.data, &view, PyBUF_SIMPLE)
        try:
            if 0 <= start <= end <= view.len:
                cursor.at = <const uint8_t*>view.buf + start
                cursor.end = <const uint8_t*>view.buf + end
                response = self._decode(&cursor)
                if response is not None:
                    reader.pos = cursor.at - <const uint8_t*>view.buf
        finally:
            PyBuffer_Release(&view)
        return self._general(reader) if response is None else response

    cdef object _decode(self, Cursor* cursor):
        """Return the response at *cursor*, or None if it is left to the other decoder."""
        cdef list topics = [], partitions
        cdef Py_ssize_t count, inner
        cdef int64_t number
        if not self._read_length(cursor, 4, _LEAST_TOPIC, &count):
            return None
        for _ in range(count):
            topic = _new(self._topic)
            if not self._read_length(cursor, 2, 1, &inner):
                return None
            try:
                topic.name = PyUnicode_DecodeUTF8(<const char*>cursor.at, inner, NULL)
            except UnicodeDecodeError:
                return None
            cursor.at += inner
            if not self._read_length(cursor, 4, _LEAST_PARTITION, &inner):
                return None
            partitions = []
            for _ in range(inner):
                one = self._read_partition(cursor)
                if one is None:
                    return None
                partitions.append(one)
            topic.partition_responses = partitions
            topic.topic_id = self._topic_id
            if not self._has_no_tagged_fields(cursor):
                return None
            topics.append(topic)
        if not _read_number(cursor, 4, &number):
            return None
        if not self._has_no_tagged_fields(cursor):
            return None
        response = _new(self._response)
        response.responses = topics
        response.throttle_time_ms = number
        response.node_endpoints = []
        return response

    cdef object _read_partition(self, Cursor* cursor):
        cdef int64_t index, code, offset, append_time = -1, start_offset = -1
        cdef Py_ssize_t count
        if not (
            _read_number(cursor, 4, &index)
            and _read_number(cursor, 2, &code)
            and _read_number(cursor, 8, &offset)
            and _read_number(cursor, 8, &append_time)
            and (self._version < 5 or _read_number(cursor, 8, &start_offset))
        ):
            return None
        if self._version >= 8:
            if not self._read_length(cursor, 4, 1, &count) or count or not self._read_null(cursor):
                return None
        if not self._has_no_tagged_fields(cursor):
            return None
        one = _new(self._partition)
        one.index = index
        one.error_code = code
        one.base_offset = offset
        one.log_append_time_ms = append_time
        one.log_start_offset = start_offset
        one.record_errors = []
        one.error_message = None
        leader = _new(self._leader)
        leader.leader_id = -1
        leader.leader_epoch = -1
        one.current_leader = leader
        return one

    cdef bint _read_length(self, Cursor* cursor, int size, Py_ssize_t least, Py_ssize_t* length) noexcept:
        """Read a length of *size* bytes, or a compact length. Return False if it is null, or if the bytes that
        follow cannot contain that many elements of *least* bytes."""
        cdef uint64_t folded
        cdef int64_t number
        if self._flexible:
            if read_folded(cursor, &folded, 32) != NO_FAULT:
                return False
            number = <int64_t>folded - 1
        elif not _read_number(cursor, size, &number):
            return False
        if number < 0 or number > (cursor.end - cursor.at) // least:
            return False
        length[0] = number
        return True

    cdef bint _read_null(self, Cursor* cursor) noexcept:
        """Read the length of a string. Return False if the string is not null."""
        cdef int64_t number
        if not _read_number(cursor, 1 if self._flexible else 2, &number):
            return False
        return number == (0 if self._flexible else -1)

    cdef bint _has_no_tagged_fields(self, Cursor* cursor) noexcept:
        """Read the number of tagged fields, if the version has them. Return False if there are some."""
        cdef int64_t number
        return not self._flexible or (_read_number(cursor, 1, &number) and number == 0)


cdef inline bint _read_number(Cursor* cursor, int size, int64_t* number) noexcept:
    """Read a signed number of *size* bytes. Return False if it is cut off."""
    cdef uint64_t value = 0
    cdef int index
    if cursor.end - cursor.at < size:
        return False
    for index in range(size):
        value = value << 8 | cursor.at[index]
    cursor.at += size
    number[0] = <int64_t>(value << (64 - 8 * size)) >> (64 - 8 * size)
    return True
