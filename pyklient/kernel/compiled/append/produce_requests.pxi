# Encodes Produce requests. Part of _kernel.pyx.
#
# The generated encoders of protocol/encoder_generation.py do the same for every kind of request, and this one makes
# the same bytes. It exists because a producer makes a Produce request for every few batches.


# smaller buffers, such as the headers of batches, are copied into the bytes before them: a part costs more
DEF _SMALL_PART = 128
DEF _LONGEST_CLASSIC_STRING = 0x7FFF
DEF _MOST_RECORD_BYTES = 0x7FFFFFFE


@cython.final
cdef class _Segments:
    """The parts of a request: bytes that are collected here, and buffers that are not copied."""

    cdef _Memory memory
    cdef Py_ssize_t used
    cdef bint flexible
    # the finished parts
    cdef list parts

    cdef uint8_t* room(self, Py_ssize_t size) except NULL:
        """Return the address of the next *size* bytes."""
        return <uint8_t*>self.memory.reserve(self.used + size) + self.used

    cdef int number(self, int size, int64_t value) except -1:
        _put_big(self.room(size), size, value)
        self.used += size
        return 0

    cdef int length(self, Py_ssize_t value, int size) except -1:
        """Add a length. It is compact in a flexible version, and otherwise a number of *size* bytes."""
        cdef uint8_t* at
        if not self.flexible:
            return self.number(size, value)
        at = self.room(5)
        self.used += put(at, <uint64_t>(value + 1)) - at
        return 0

    cdef bint text(self, value) except -1:
        """Add a string. Return False if it cannot be sent."""
        cdef Py_ssize_t size
        cdef const char* encoded
        if type(value) is not str:
            return False
        try:
            encoded = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:
            return False
        if not self.flexible and size > _LONGEST_CLASSIC_STRING:
            return False
        self.length(size, 2)
        self.raw(encoded, size)
        return True

    cdef int raw(self, const void* start, Py_ssize_t size) except -1:
        memcpy(self.room(size), start, size)
        self.used += size
        return 0

    cdef int no_tagged_fields(self) except -1:
        return self.number(1, 0) if self.flexible else 0

    cdef bint records(self, buffers) except -1:
        """Add the records of a partition, which are a list of buffers. Return False if they are something
        else."""
        cdef Py_ssize_t total = 0
        if type(buffers) is not list:
            return False
        for buffer in <list>buffers:
            if type(buffer) is bytes:
                total += PyBytes_GET_SIZE(buffer)
            elif type(buffer) is memoryview and buffer.itemsize == 1 and buffer.ndim == 1 and buffer.contiguous:
                total += len(buffer)
            else:
                return False
        if total > _MOST_RECORD_BYTES:
            return False
        self.length(total, 4)
        for buffer in <list>buffers:
            if type(buffer) is bytes and PyBytes_GET_SIZE(buffer) <= _SMALL_PART:
                self.raw(PyBytes_AS_STRING(buffer), PyBytes_GET_SIZE(buffer))
            else:
                self.parts.append(self.finished())
                self.parts.append(buffer)
        return True

    cdef bytes finished(self):
        """Return the bytes that were collected since the last call."""
        cdef Py_ssize_t size = self.used
        self.used = 0
        return PyBytes_FromStringAndSize(<const char*>self.memory.block.at, size)


@cython.final
cdef class ProduceEncoder:
    """Encodes ProduceRequests in one version, from 3 to 12. It is called as a generated encoder is.

    If *flexible*, lengths are compact and there are tagged fields. A request that a producer does not make,
    such as one without records or with a wrong value, is left to the encoder *general*.
    """

    cdef bint _flexible
    cdef object _general

    def __init__(self, bint flexible, general):
        self._flexible = flexible
        self._general = general

    def __call__(self, writer, request):
        """Append the bytes of *request* to *writer*."""
        cdef _Segments made = _Segments.__new__(_Segments)
        cdef list parts
        made.memory = _Memory.__new__(_Memory)
        made.memory.reserve(256)
        made.flexible = self._flexible
        made.parts = []
        if not self._encode(made, request):
            self._general(writer, request)
            return
        parts = made.parts
        if not parts:
            writer.buf += made.finished()
            return
        writer.buf += parts[0]
        parts[0] = writer.buf
        writer.parts += parts
        writer.buf = bytearray(made.finished())

    cdef bint _encode(self, _Segments made, request) except -1:
        """Encode *request* into *made*. Return False if *request* is left to the other encoder."""
        transactional_id, topics = request.transactional_id, request.topic_data
        if type(topics) is not list or not _is_number(request.acks, 16) or not _is_number(request.timeout_ms, 32):
            return False
        if transactional_id is None:
            made.length(-1, 2)
        elif not made.text(transactional_id):
            return False
        made.number(2, request.acks)
        made.number(4, request.timeout_ms)
        made.length(PyList_GET_SIZE(topics), 4)
        for topic in <list>topics:
            partitions = topic.partition_data
            if type(partitions) is not list or not made.text(topic.name):
                return False
            made.length(PyList_GET_SIZE(partitions), 4)
            for one in <list>partitions:
                index = one.index
                if not _is_number(index, 32):
                    return False
                made.number(4, index)
                if not made.records(one.records):
                    return False
                made.no_tagged_fields()
            made.no_tagged_fields()
        made.no_tagged_fields()
        return True


cdef bint _is_number(value, int bits) except -1:
    """Return True if *value* is a signed number of this many bits."""
    cdef int overflow = 0
    cdef int64_t number
    if type(value) is not int:
        return False
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    return not overflow and -(<int64_t>1 << (bits - 1)) <= number < <int64_t>1 << (bits - 1)
