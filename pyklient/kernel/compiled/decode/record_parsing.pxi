# The records section of a batch, read. Part of _kernel.pyx.
#
# A cursor knows where its bytes end, and whatever moves it looks first. Faults are numbers as long as no Python
# is needed to tell them.

cdef struct Parsed:
    # One record, its headers apart; a key or value is None where its size is -1.
    const uint8_t* stop
    int64_t timestamp
    int64_t delta
    const uint8_t* key
    Py_ssize_t key_size
    const uint8_t* value
    Py_ssize_t value_size
    bint too_late


cdef inline Fault _sized(
    Cursor* cursor, const uint8_t** start, Py_ssize_t* size, Fault negative
) noexcept nogil:
    """Read a length and the bytes that follow it. Set *start* and *size* to these bytes."""
    cdef uint64_t folded = 0
    cdef Fault fault = read_folded(cursor, &folded, 32)
    if fault != NO_FAULT:
        return fault
    if folded & 1:
        return negative
    if <Py_ssize_t>(folded >> 1) > cursor.end - cursor.at:
        return CUT_OFF
    start[0] = cursor.at
    size[0] = <Py_ssize_t>(folded >> 1)
    cursor.at += size[0]
    return NO_FAULT


cdef inline Fault _bytes(
    Cursor* cursor, const uint8_t** start, Py_ssize_t* size, Fault negative
) noexcept nogil:
    """Read a length and the bytes that follow it. The length -1 means None; *size* is then -1."""
    if cursor.at < cursor.end and cursor.at[0] == 1:
        cursor.at += 1
        size[0] = -1
        return NO_FAULT
    return _sized(cursor, start, size, negative)


cdef inline Fault _next(Cursor* cursor, Parsed* record, int64_t base_timestamp) noexcept nogil:
    """Read a record up to its headers. ``too_late`` means that its timestamp does not fit; this is checked
    once all records have been parsed."""
    cdef uint64_t folded = 0
    cdef Fault fault = read_folded(cursor, &folded, 32)
    if fault != NO_FAULT:
        return fault
    if folded & 1:
        return NEGATIVE_LENGTH
    # where it should end; this may lie beyond the buffer, so it is compared with and never read
    record.stop = <const uint8_t*>(<size_t>cursor.at + <size_t>(folded >> 1))
    # one byte of attributes, unused so far
    if cursor.end - cursor.at < 2:
        return CUT_OFF
    cursor.at += 1
    fault = read_folded(cursor, &folded, 64)
    if fault != NO_FAULT:
        return fault
    record.too_late = pyklient_add_overflows(base_timestamp, unfold(folded), &record.timestamp)
    if record.too_late and folded >> 62:
        return BEYOND_TIME
    fault = read_folded(cursor, &folded, 32)
    if fault != NO_FAULT:
        return fault
    if folded & 1:
        return NEGATIVE_DELTA
    record.delta = <int64_t>(folded >> 1)
    fault = _bytes(cursor, &record.key, &record.key_size, NEGATIVE_KEY)
    if fault != NO_FAULT:
        return fault
    fault = _bytes(cursor, &record.value, &record.value_size, NEGATIVE_VALUE)
    if fault != NO_FAULT:
        return fault
    return CUT_OFF if cursor.at >= cursor.end else NO_FAULT


cdef int _marker_type(const Header* header) noexcept nogil:
    """Return the type of a control batch that has only a marker. Return -1 if it has anything else, or is damaged."""
    cdef Cursor cursor
    cdef Parsed record
    if header.count != 1:
        return -1
    cursor.at = header.records
    cursor.end = header.end
    if _next(&cursor, &record, header.base_timestamp) != NO_FAULT or record.too_late or record.key_size < 4:
        return -1
    # a marker has no headers, and nothing follows it
    if cursor.at[0] != 0 or cursor.at + 1 != cursor.end or record.stop != cursor.end:
        return -1
    if record.delta > header.last_offset - header.base_offset:
        return -1
    return record.key[2] << 8 | record.key[3]


cdef int _raise(Fault fault) except -1:
    raise CorruptRecordError(_SENTENCES[fault])


_SENTENCES = {
    CUT_OFF: "a batch ends in the middle of a record",
    BEYOND_32_BITS: "a number in a record does not fit into 32 bits",
    BEYOND_64_BITS: "a number in a record does not fit into 64 bits",
    BEYOND_TIME: "the timestamp of a record does not fit into 64 bits",
    NEGATIVE_LENGTH: "a record has a negative length",
    NEGATIVE_DELTA: "a record has a negative offset delta",
    NEGATIVE_KEY: "a key has a negative length",
    NEGATIVE_VALUE: "a value has a negative length",
    NEGATIVE_COUNT: "a record has a negative number of headers",
    NEGATIVE_NAME: "a header's name has a negative length",
    NEGATIVE_HEADER: "a header's value has a negative length",
}


cdef inline object _object(const uint8_t* start, Py_ssize_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>start, size)


cdef tuple _headers(Cursor* cursor):
    cdef uint64_t count = 0
    cdef const uint8_t* start = NULL
    cdef Py_ssize_t size = 0
    cdef list headers = []
    cdef Fault fault = read_folded(cursor, &count, 32)
    if fault == NO_FAULT and count & 1:
        fault = NEGATIVE_COUNT
    count >>= 1
    while fault == NO_FAULT and count:
        count -= 1
        fault = _sized(cursor, &start, &size, NEGATIVE_NAME)
        if fault != NO_FAULT:
            break
        # as the Java client does: a name that is not UTF-8 must not make the record unreadable
        name = PyUnicode_DecodeUTF8(<const char*>start, size, "replace")
        fault = _bytes(cursor, &start, &size, NEGATIVE_HEADER)
        if fault == NO_FAULT:
            headers.append((name, _object(start, size)))
    if fault != NO_FAULT:
        _raise(fault)
    return tuple(headers)


@cython.final
cdef class _Section:
    """The records of one batch while they are read. The object keeps their buffer."""

    cdef Py_buffer view
    cdef bint held
    cdef Cursor cursor
    cdef Parsed record
    cdef int64_t base_offset
    cdef int64_t last_delta
    cdef int64_t base_timestamp
    cdef int64_t previous
    cdef bint rising
    cdef bint in_time

    def __cinit__(self, data, int64_t count, int64_t base_offset, int64_t last_delta, int64_t base_timestamp):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.held = True
        if count < 0 or count > self.view.len // 7:
            raise CorruptRecordError(f"a batch of {self.view.len} bytes cannot hold {count} records")
        self.cursor.at = <const uint8_t*>self.view.buf
        self.cursor.end = self.cursor.at + self.view.len
        self.base_offset = base_offset
        self.last_delta = last_delta
        self.base_timestamp = base_timestamp
        self.previous = -1
        self.rising = True
        self.in_time = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef inline void begin(self, const Header* header) noexcept nogil:
        """Begin with the records of a batch that lies in the buffer."""
        self.cursor.at = header.records
        self.cursor.end = header.end
        self.base_offset = header.base_offset
        self.last_delta = header.last_offset - header.base_offset
        self.base_timestamp = header.base_timestamp
        self.previous = -1
        self.rising = True
        self.in_time = True

    cdef inline bint is_right(self) noexcept nogil:
        """Return True if ``finish`` would raise no error. At least one record was read."""
        cdef int64_t last
        return (
            self.cursor.at == self.cursor.end
            and self.rising
            and self.previous <= self.last_delta
            and not pyklient_add_overflows(self.base_offset, self.previous, &last)
            and self.in_time
        )

    cdef inline tuple next(self):
        """Read the next record. Return its headers, or None if it has none."""
        cdef Fault fault = _next(&self.cursor, &self.record, self.base_timestamp)
        if fault != NO_FAULT:
            _raise(fault)
        cdef tuple headers = None
        if self.cursor.at[0]:
            headers = _headers(&self.cursor)
        else:
            self.cursor.at += 1
        if self.cursor.at != self.record.stop:
            self._raise_length()
        self.rising &= self.record.delta > self.previous
        self.previous = self.record.delta
        self.in_time &= not self.record.too_late
        return headers

    cdef int _raise_length(self) except -1:
        cdef const uint8_t* start = <const uint8_t*>self.view.buf
        raise CorruptRecordError(
            f"a record ends at byte {self.cursor.at - start} of its batch, "
            f"but its length says {<int64_t>(<size_t>self.record.stop - <size_t>start)}"
        )

    cdef int finish(self, int64_t count) except -1:
        """Check what concerns all records: their order, their timestamps, and where they end."""
        cdef int64_t last
        if self.cursor.at != self.cursor.end:
            raise CorruptRecordError(
                f"a batch has {self.cursor.end - self.cursor.at} bytes after the last of its {count} records"
            )
        if not self.rising or self.previous > self.last_delta and count:
            raise CorruptRecordError(f"the offset deltas of a batch do not increase, or exceed {self.last_delta}")
        if count and pyklient_add_overflows(self.base_offset, self.previous, &last):
            raise CorruptRecordError(f"the offsets of a batch from {self.base_offset} on do not fit into 64 bits")
        if not self.in_time:
            raise CorruptRecordError("the timestamp of a record does not fit into 64 bits")
        return 0


cdef _Section _records_of(data, _Section whole, const Header* header, Kind kind, decompress):
    """Return the records of a plain or compressed batch in *data*, whose bytes *whole* keeps. Return None if the records
    cannot be decompressed, or if their number is wrong."""
    cdef const uint8_t* start = <const uint8_t*>whole.view.buf
    if kind == PLAIN:
        whole.begin(header)
        return whole
    try:
        records = decompress(
            header.attributes & _CODEC_BITS, data[header.records - start : header.end - start]
        )
        return _Section.__new__(
            _Section,
            records,
            header.count,
            header.base_offset,
            header.last_offset - header.base_offset,
            header.base_timestamp,
        )
    except Exception:
        return None


def parse_records(data, int64_t count, int64_t base_offset, int64_t last_delta, int64_t base_timestamp):
    """Parse the decompressed records of a batch of format 2 into one list per field.

    Raises CorruptRecordError unless *data* is exactly *count* well-formed records whose offset deltas
    increase, and are within 0 … *last_delta*.
    """
    cdef _Section section = _Section.__new__(_Section, data, count, base_offset, last_delta, base_timestamp)
    columns = Columns([], [], [], [], {})
    _add_records(section, count, columns)
    section.finish(count)
    return columns


cdef int _add_records(_Section section, int64_t count, columns) except -1:
    """Read the next *count* records of *section*, and append each of their fields to the list of the field."""
    cdef list offsets = columns[0]
    cdef list timestamps = columns[1]
    cdef list keys = columns[2]
    cdef list values = columns[3]
    cdef dict headers = columns[4]
    cdef tuple of_one
    cdef int64_t index
    for index in range(count):
        of_one = section.next()
        if of_one is not None:
            headers[PyList_GET_SIZE(offsets)] = of_one
        # unsigned, so that it cannot overflow before it is checked
        offsets.append(<int64_t>(<uint64_t>section.base_offset + <uint64_t>section.record.delta))
        timestamps.append(section.record.timestamp)
        keys.append(_object(section.record.key, section.record.key_size))
        values.append(_object(section.record.value, section.record.value_size))
    return 0


def parse_batches(
    data,
    Py_ssize_t position,
    int64_t start_offset,
    Py_ssize_t most_records,
    int64_t most_bytes,
    bint check_crcs,
    int64_t none_aborted_below,
    decompress,
):
    """Parse the records of the plain batches from byte *position* of *data* on into one list per field, like
    :func:`parse_records`. The batches are those that ``MessageIterator.add_batches`` would add, but all of them have
    the same timestamp type.

    *decompress* is a function that gets the number of a codec and compressed records, and returns the records.

    Return the lists, the timestamp type, the position after these batches, the offset to continue at, and the bytes
    of their records.
    """
    cdef _Section whole = _Section.__new__(_Section, data, 0, 0, 0, 0)
    cdef _Section section
    cdef const uint8_t* start = <const uint8_t*>whole.view.buf
    cdef Reading reading
    cdef Header header
    cdef Kind kind
    cdef Cursor first
    cdef int64_t below = 0
    cdef Py_ssize_t size
    cdef Fault fault
    cdef bint stamped = False
    columns = Columns([], [], [], [], {})
    if not 0 <= position <= whole.view.len:
        return columns, 0, position, start_offset, 0
    reading.at = start + position
    reading.end = start + whole.view.len
    reading.next_offset = start_offset
    reading.nbytes = 0
    reading.check_crcs, reading.none_aborted_below = check_crcs, none_aborted_below
    while len(columns[0]) < most_records and reading.nbytes < most_bytes:
        kind = _read_batch(&reading, &header)
        if kind == OTHER:
            break
        if kind != EMPTY:
            if columns[0] and stamped != (header.attributes & _STAMPED != 0):
                break
            stamped = header.attributes & _STAMPED != 0
            section = _records_of(data, whole, &header, kind, decompress)
            if section is None:
                break
            size = section.cursor.end - section.cursor.at
            fault = _pass_records(section, header.count, reading.next_offset, &first, &below)
            if fault != NO_FAULT or not section.is_right():
                break
            section.cursor = first
            _add_records(section, header.count - below, columns)
            if stamped:
                columns[1][len(columns[0]) - (header.count - below):] = [header.max_timestamp] * (header.count - below)
            reading.nbytes += size
        _pass_batch(&reading, &header)
    return columns, stamped, reading.at - start, reading.next_offset, reading.nbytes
