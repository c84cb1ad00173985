# Appending rows of Arrow columns to batches. Part of _kernel.pyx.
#
# An ArrowRows checks its buffers once, when it is made; its loops need no checks after that. Loops that only read
# columns run without the GIL. Loops that write into a batch hold it, for the reason in appender.pxi.


cdef struct RowColumn:
    # As in arrow_columns. There is no validity where no cell is null, and no offsets in a column of numbers.
    bint there
    bint wide
    Py_ssize_t first
    const uint8_t* validity
    const uint8_t* offsets
    const uint8_t* data


cdef struct AppendedRows:
    # A batch that one call appends rows to, with its number of records before and after.
    PyObject* batch
    Py_ssize_t first
    Py_ssize_t stop


cdef enum:
    STICKY = -1
    NOWHERE = -2


cdef inline bint _is_valid(const RowColumn* column, Py_ssize_t index) noexcept nogil:
    index += column.first
    return column.validity is NULL or column.validity[index >> 3] >> (index & 7) & 1


cdef inline int64_t _wide_number(const uint8_t* numbers, Py_ssize_t index) noexcept nogil:
    # by memcpy, because a buffer may begin anywhere
    cdef int64_t number
    memcpy(&number, numbers + 8 * index, 8)
    return number


cdef inline int64_t _offset(const RowColumn* column, Py_ssize_t index) noexcept nogil:
    cdef int32_t number
    if column.wide:
        return _wide_number(column.offsets, column.first + index)
    memcpy(&number, column.offsets + 4 * (column.first + index), 4)
    return number


cdef inline void _cell(const RowColumn* column, Py_ssize_t index, const uint8_t** start, Py_ssize_t* size) noexcept nogil:
    """Set *start* and *size* to the bytes of a cell. The size is -1 if the cell is null or there is no such
    column."""
    cdef int64_t begin
    if not column.there or not _is_valid(column, index):
        start[0] = NULL
        size[0] = -1
    else:
        begin = _offset(column, index)
        start[0] = column.data + begin
        size[0] = _offset(column, index + 1) - begin


cdef inline int64_t _number(const RowColumn* column, Py_ssize_t index, int64_t otherwise) noexcept nogil:
    if not column.there or not _is_valid(column, index):
        return otherwise
    return _wide_number(column.data, column.first + index)


cdef bint _rises(const RowColumn* column, Py_ssize_t count, int64_t base, int64_t end) noexcept nogil:
    """Return True if the offsets rise, and all lie within *base* to *end*."""
    cdef int64_t last = base, offset
    cdef bint falls = end < base
    cdef Py_ssize_t index
    if count:
        for index in range(count + 1):
            offset = _offset(column, index)
            falls |= offset < last
            last = offset
    return not falls and last <= end


cdef object _bytes_of(const RowColumn* column, Py_ssize_t index):
    cdef const uint8_t* start
    cdef Py_ssize_t size
    _cell(column, index, &start, &size)
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>start, size)


cdef class _RowBuffer:
    """A buffer that is kept as long as this object lives."""

    cdef Py_buffer buffer

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


@cython.final
cdef class ArrowRows:
    """Records of one topic, as columns of equal length.

    *partition* is a column, or one number for all rows. If it is null or None, the partitioner chooses the
    partition. A *timestamp* is in milliseconds since 1970; null means the time at which the row is appended.
    Raises ValueError for buffers that do not have Arrow's layout, and UnicodeDecodeError (a ValueError) for a
    header name that is not UTF-8.
    """

    cdef readonly Py_ssize_t count
    cdef list _held
    cdef object _everywhere
    cdef RowColumn _value
    cdef RowColumn _key
    cdef RowColumn _partition
    cdef RowColumn _timestamp
    cdef RowColumn _lists
    cdef RowColumn _names
    cdef RowColumn _contents
    cdef RowColumn _encoded
    # whether rows differ in where they go; and where that is, worked out for so many partitions
    cdef bint _differ
    cdef int32_t* _targets
    cdef Py_ssize_t _aimed

    def __cinit__(self, value, key=None, partition=None, timestamp=None, headers=None):
        self.count = value.length
        self._held = []
        self._everywhere = partition if isinstance(partition, int) else None
        numbers = None if isinstance(partition, int) else partition
        for name, column in (
            ("value", value),
            ("key", key),
            ("partition", numbers),
            ("timestamp", timestamp),
            ("headers", headers),
        ):
            if column is not None:
                column.check(name)
                if column.length != value.length:
                    raise ValueError(f"column {name} has {column.length} rows, but column value has {value.length}")
        self._differ = numbers is not None or (self._everywhere is None and key is not None)
        self._hold_cells("value", value, &self._value)
        if key is not None:
            self._hold_cells("key", key, &self._key)
        if numbers is not None:
            self._hold(numbers, &self._partition)
            self._partition.data = self._view(numbers.data)
        if timestamp is not None:
            self._hold(timestamp, &self._timestamp)
            self._timestamp.data = self._view(timestamp.data)
        if headers is not None:
            self._hold_cells("headers.key", headers.names, &self._names)
            self._hold_cells("headers.value", headers.values, &self._contents)
            self._hold_offsets("headers", headers, &self._lists, headers.names.length, headers.base)
            # as the lists count them
            self._names.first -= headers.base
            self._contents.first -= headers.base
            self._encode_headers()

    def __dealloc__(self):
        PyMem_RawFree(self._targets)

    def row(self, Py_ssize_t index):
        """Return the value, key, partition, timestamp and headers of row *index*, as arguments of
        ``send``."""
        if not 0 <= index < self.count:
            raise IndexError(f"there is no row {index}: there are only {self.count} rows")
        partition = self._everywhere
        if self._partition.there and _is_valid(&self._partition, index):
            partition = _number(&self._partition, index, 0)
        timestamp = None
        if self._timestamp.there and _is_valid(&self._timestamp, index):
            timestamp = _number(&self._timestamp, index, 0)
        return (
            _bytes_of(&self._value, index),
            _bytes_of(&self._key, index),
            partition,
            timestamp,
            self._headers_of(index),
        )

    cdef const uint8_t* _view(self, data) except? NULL:
        cdef _RowBuffer view = _RowBuffer(data)
        self._held.append(view)
        return <const uint8_t*>view.buffer.buf

    cdef int _hold(self, given, RowColumn* column) except -1:
        column.there = True
        column.first = given.first
        column.validity = NULL if given.validity is None else self._view(given.validity)
        return 0

    cdef int _hold_offsets(self, name, given, RowColumn* column, int64_t size, int64_t base) except -1:
        cdef Py_ssize_t count = given.length
        cdef bint rises
        self._hold(given, column)
        column.wide = given.wide
        column.offsets = self._view(given.offsets)
        with nogil:
            rises = _rises(column, count, base, base + size)
        if not rises:
            raise ValueError(f"the offsets of column {name} do not increase from {base} to {base + size}")
        return 0

    cdef int _hold_cells(self, name, given, RowColumn* column) except -1:
        column.data = self._view(given.data)
        return self._hold_offsets(name, given, column, (<_RowBuffer>self._held[-1]).buffer.len, 0)

    cdef tuple _headers_of(self, Py_ssize_t index):
        if not self._lists.there or not _is_valid(&self._lists, index):
            return ()
        return tuple(
            [
                (_bytes_of(&self._names, at).decode(), _bytes_of(&self._contents, at))
                for at in range(_offset(&self._lists, index), _offset(&self._lists, index + 1))
            ]
        )

    cdef int _encode_headers(self) except -1:
        """Encode the headers of all rows, one row after the other."""
        cdef Py_ssize_t index, size = 0
        cdef bytes offsets = PyBytes_FromStringAndSize(NULL, 8 * (self.count + 1))
        cdef uint8_t* ends = <uint8_t*>PyBytes_AS_STRING(offsets)
        memcpy(ends, &size, 8)
        for index in range(self.count):
            size += self._headers_size(index)
            memcpy(ends + 8 * (index + 1), &size, 8)
        cdef bytes encoded = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(encoded)
        with nogil:
            self._put_headers(at)
        self._encoded.there = self._encoded.wide = True
        self._encoded.offsets = self._view(offsets)
        self._encoded.data = self._view(encoded)
        return 0

    cdef Py_ssize_t _headers_size(self, Py_ssize_t index) except -1:
        cdef int64_t begin = 0, end = 0
        cdef const uint8_t* start
        cdef Py_ssize_t length
        if _is_valid(&self._lists, index):
            begin, end = _offset(&self._lists, index), _offset(&self._lists, index + 1)
        cdef Py_ssize_t size = size_of(fold(end - begin))
        while begin < end:
            _cell(&self._names, begin, &start, &length)
            if length < 0:
                raise ValueError("column headers has a header whose name is null")
            if not _is_ascii(start, length):
                PyUnicode_DecodeUTF8(<const char*>start, length, NULL)
            size += size_of(fold(length)) + length
            _cell(&self._contents, begin, &start, &length)
            size += 1 if length < 0 else size_of(fold(length)) + length
            begin += 1
        return size

    cdef void _put_headers(self, uint8_t* at) noexcept nogil:
        cdef int64_t begin, end
        cdef const uint8_t* start
        cdef Py_ssize_t index, length
        for index in range(self.count):
            begin = end = 0
            if _is_valid(&self._lists, index):
                begin, end = _offset(&self._lists, index), _offset(&self._lists, index + 1)
            at = put(at, fold(end - begin))
            while begin < end:
                _cell(&self._names, begin, &start, &length)
                at = _put_bytes(at, start, length)
                _cell(&self._contents, begin, &start, &length)
                at = _put_bytes(at, start, length)
                begin += 1

    cdef int aim(self, Py_ssize_t partitions) except -1:
        """Compute the partition of each row, for a topic with *partitions* partitions."""
        if self._aimed == partitions or not self._differ:
            return 0
        if self._targets is NULL:
            self._targets = <int32_t*>PyMem_RawMalloc(max(4 * self.count, 1))
            if self._targets is NULL:
                raise MemoryError
        with nogil:
            self._aim(partitions)
        self._aimed = partitions
        return 0

    cdef void _aim(self, int64_t partitions) noexcept nogil:
        cdef const uint8_t* key
        cdef int64_t number
        cdef Py_ssize_t index, size
        for index in range(self.count):
            if self._partition.there and _is_valid(&self._partition, index):
                number = _number(&self._partition, index, 0)
                number = number if 0 <= number < partitions else NOWHERE
            else:
                _cell(&self._key, index, &key, &size)
                number = STICKY if size < 0 else _murmur2(key, size) % partitions
            self._targets[index] = <int32_t>number

    cdef int64_t _common_target(self, int64_t partitions) except? NOWHERE:
        """Return the partition of the rows whose own partition is null."""
        if self._everywhere is None:
            return STICKY
        return self._everywhere if 0 <= self._everywhere < partitions else NOWHERE


cdef bint _is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef uint8_t bits = 0
    cdef Py_ssize_t index
    for index in range(size):
        bits |= text[index]
    return bits < 0x80


(<PyTypeObject*>ArrowRows).tp_name = "pyklient.kernel.ArrowRows"


def append_rows(_Appending appender not None, topic, ArrowRows rows not None, Py_ssize_t start):
    """Append rows from row *start* on, in order, to the batches under construction of their partitions.

    Stop at the first row that does not fit into its batch, and after about ``AT_ONCE`` bytes. Return the
    number of appended rows and, ordered by partition, a tuple (batch, first, stop) for each batch: its
    records *first* to *stop* - 1 were appended. If no row was appended, the caller must pass the next row to
    ``send``. If the producer has encoders or a partitioner, no row is appended.
    """
    cdef PyObject* found = PyDict_GetItemWithError(appender._sendable, topic)
    if found is NULL or type(<object>found) is not _Topic or not 0 <= start <= rows.count or not appender._plain:
        return 0, []
    cdef _Topic known = <_Topic>found
    cdef Py_ssize_t partitions = known.count
    if partitions <= 0:
        return 0, []
    rows.aim(partitions)
    cdef int64_t common = rows._common_target(partitions)
    cdef int64_t now_ms = appender._now()
    cdef AppendedRows* appended = <AppendedRows*>PyMem_RawCalloc(partitions, sizeof(AppendedRows))
    if appended is NULL:
        raise MemoryError
    try:
        stop = _append_rows(appender, known, rows, start, common, now_ms, appended, partitions)
        return stop - start, _runs(appended, partitions)
    finally:
        _release(appended, partitions)


cdef Py_ssize_t _append_rows(
    _Appending appender,
    _Topic known,
    ArrowRows rows,
    Py_ssize_t start,
    int64_t common,
    int64_t now_ms,
    AppendedRows* appended,
    Py_ssize_t partitions,
) except -1:
    """Append rows from row *start* on. Return the index of the first row that was not appended. Runs no
    Python code."""
    cdef Draft draft
    cdef AppendedRows* entry
    cdef AppendedRows* last = NULL
    cdef _RecordBuffer batch
    cdef int64_t target, time_ms
    cdef Py_ssize_t index = start, size, written = 0
    try:
        while index < rows.count and written < _AT_ONCE:
            target = rows._targets[index] if rows._differ else common
            if target == STICKY:
                target = known.sticky
            time_ms = _number(&rows._timestamp, index, now_ms)
            if not 0 <= target < partitions or time_ms < 0:
                break
            entry = &appended[target]
            if entry.batch is NULL:
                batch = _current(known, target)
                if batch is None:
                    break
                Py_INCREF(batch)
                entry.batch = <PyObject*>batch
                entry.first = entry.stop = batch.count
            # Counting references costs more than this comparison, but less than a branch that is predicted wrongly.
            if rows._differ or entry is not last:
                batch = <_RecordBuffer>entry.batch
                last = entry
            _draft_row(rows, index, &draft)
            size = batch.size
            if not _write_draft(appender, known, batch, &draft, time_ms, None, None, appender.memory_limit, False):
                break
            entry.stop = batch.count
            written += batch.size - size
            index += 1
    except MemoryError:
        # The rows before count. The next call will fail in the same way, and append nothing.
        if index == start:
            raise
    return index


cdef inline void _draft_row(ArrowRows rows, Py_ssize_t index, Draft* draft) noexcept:
    _cell(&rows._key, index, &draft.key, &draft.key_size)
    _cell(&rows._value, index, &draft.value, &draft.value_size)
    draft.headers = NO_HEADERS
    draft.headers_size = 1
    if rows._encoded.there:
        _cell(&rows._encoded, index, &draft.headers, &draft.headers_size)


cdef list _runs(AppendedRows* appended, Py_ssize_t partitions):
    cdef list runs = []
    cdef Py_ssize_t number
    for number in range(partitions):
        if appended[number].stop > appended[number].first:
            runs.append((<object>appended[number].batch, appended[number].first, appended[number].stop))
    return runs


cdef void _release(AppendedRows* appended, Py_ssize_t partitions) noexcept:
    cdef Py_ssize_t number
    for number in range(partitions):
        Py_XDECREF(appended[number].batch)
    PyMem_RawFree(appended)
