# The loop that fills columns in Arrow's layout straight from the bytes of a batch. Part of _kernel.pyx.
#
# It runs without the GIL and allocates nothing: where a column is full it comes back at the start of the
# record that did not fit, and is called again when there is room.

cdef struct Cells:
    # A column of byte strings: which of them are not null, where each one ends, and their bytes.
    uint8_t* bits
    int32_t* ends
    uint8_t* data
    Py_ssize_t used
    Py_ssize_t capacity
    Py_ssize_t nulls


cdef struct Rows:
    # All columns. Those with one cell a record have room for a whole batch before the loop begins.
    Py_ssize_t count
    Py_ssize_t capacity
    int64_t* offsets
    int64_t* timestamps
    int32_t* kinds
    Cells keys
    Cells values
    # the columns that are made, beside the offsets
    bint with_timestamps
    bint with_kinds
    bint with_keys
    bint with_values
    bint with_headers
    int32_t* header_ends
    Py_ssize_t headers
    Py_ssize_t header_capacity
    Cells names
    Cells contents
    # whether a header's name is not ASCII, so that it has to be looked at again
    bint foreign


cdef struct HeaderSizes:
    # What the headers of one record take.
    uint64_t count
    Py_ssize_t names
    Py_ssize_t contents


cdef inline void _put_cell(Cells* cells, Py_ssize_t index, const uint8_t* start, Py_ssize_t size) noexcept nogil:
    if size < 0:
        cells.bits[index >> 3] &= <uint8_t>~(1 << (index & 7))
        cells.nulls += 1
    else:
        memcpy(cells.data + cells.used, start, size)
        cells.used += size
    cells.ends[index + 1] = <int32_t>cells.used


cdef inline bint _fits(const Cells* cells, Py_ssize_t size) noexcept nogil:
    return size <= cells.capacity - cells.used


cdef inline bint _row_fits(
    const Rows* rows, bint complete, const Parsed* record, const HeaderSizes* sizes
) noexcept nogil:
    if (complete or rows.with_keys) and not _fits(&rows.keys, record.key_size):
        return False
    if (complete or rows.with_values) and not _fits(&rows.values, record.value_size):
        return False
    if not (rows.with_headers and sizes.count):
        return True
    return (
        <Py_ssize_t>sizes.count <= rows.header_capacity - rows.headers
        and _fits(&rows.names, sizes.names)
        and _fits(&rows.contents, sizes.contents)
    )


cdef Fault _pass_headers(Cursor* cursor, HeaderSizes* sizes) noexcept nogil:
    """Read the headers of one record without storing them. Return the faults of ``_headers``."""
    cdef uint64_t left = 0
    cdef const uint8_t* start = NULL
    cdef Py_ssize_t size = 0
    cdef Fault fault = read_folded(cursor, &left, 32)
    if fault != NO_FAULT:
        return fault
    if left & 1:
        return NEGATIVE_COUNT
    left >>= 1
    sizes.count = left
    sizes.names = sizes.contents = 0
    while left:
        left -= 1
        fault = _sized(cursor, &start, &size, NEGATIVE_NAME)
        if fault != NO_FAULT:
            return fault
        sizes.names += size
        fault = _bytes(cursor, &start, &size, NEGATIVE_HEADER)
        if fault != NO_FAULT:
            return fault
        sizes.contents += max(size, 0)
    return NO_FAULT


cdef void _put_headers(Cursor cursor, Rows* rows) noexcept nogil:
    """Store the headers of a record. They have been read once already, and there is memory for them."""
    cdef uint64_t left = 0
    cdef const uint8_t* start = NULL
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t at
    cdef uint8_t high = 0
    read_folded(&cursor, &left, 32)
    left >>= 1
    while left:
        left -= 1
        _sized(&cursor, &start, &size, NEGATIVE_NAME)
        for at in range(size):
            high |= start[at]
        _put_cell(&rows.names, rows.headers, start, size)
        _bytes(&cursor, &start, &size, NEGATIVE_HEADER)
        _put_cell(&rows.contents, rows.headers, start, size)
        rows.headers += 1
    rows.foreign |= high >= 0x80


cdef inline void _put_row(
    Rows* rows, bint complete, const Parsed* record, int64_t offset, Cursor headers, uint64_t header_count
) noexcept nogil:
    """Store a record for which there is memory. Its headers begin at *headers*. *complete* is true if
    timestamps, keys and values are all stored."""
    rows.offsets[rows.count] = offset
    if complete or rows.with_timestamps:
        rows.timestamps[rows.count] = record.timestamp
    if complete or rows.with_keys:
        _put_cell(&rows.keys, rows.count, record.key, record.key_size)
    if complete or rows.with_values:
        _put_cell(&rows.values, rows.count, record.value, record.value_size)
    if rows.with_headers:
        if header_count:
            _put_headers(headers, rows)
        rows.header_ends[rows.count + 1] = <int32_t>rows.headers
    rows.count += 1


cdef Fault _fill(Rows* columns, _Section section, int64_t* left, int64_t start_offset) noexcept nogil:
    """Store the *left* remaining records of *section* in columns, without those below *start_offset*.

    On NO_ROOM, ``section.record`` is the record that did not fit, and ``section.cursor`` is where it begins.
    """
    # in locals: what is written through a byte pointer could be anything else, to a compiler
    cdef Rows rows = columns[0]
    cdef Cursor cursor = section.cursor
    cdef Parsed record = section.record
    cdef int64_t base_timestamp = section.base_timestamp
    cdef int64_t base_offset = section.base_offset
    cdef int64_t previous = section.previous
    cdef bint rising = section.rising
    cdef bint in_time = section.in_time
    cdef int64_t more = left[0]
    # Usually all of these columns are made. One check of a local replaces a check of each flag in memory.
    cdef bint complete = rows.with_timestamps and rows.with_keys and rows.with_values
    cdef const uint8_t* begin
    cdef Cursor headers
    cdef HeaderSizes sizes
    cdef int64_t offset
    cdef Fault fault = NO_FAULT
    while more:
        begin = cursor.at
        fault = _next(&cursor, &record, base_timestamp)
        if fault != NO_FAULT:
            break
        headers = cursor
        sizes.count = 0
        if cursor.at[0] == 0:
            cursor.at += 1
        else:
            fault = _pass_headers(&cursor, &sizes)
            if fault != NO_FAULT:
                break
        if cursor.at != record.stop:
            fault = WRONG_LENGTH
            break
        # unsigned, so that it cannot overflow before it is checked
        offset = <int64_t>(<uint64_t>base_offset + <uint64_t>record.delta)
        if offset >= start_offset:
            if not _row_fits(&rows, complete, &record, &sizes):
                fault = NO_ROOM
                cursor.at = begin
                break
            _put_row(&rows, complete, &record, offset, headers, sizes.count)
        rising &= record.delta > previous
        previous = record.delta
        in_time &= not record.too_late
        more -= 1
    columns[0] = rows
    section.cursor = cursor
    section.record = record
    section.previous = previous
    section.rising = rising
    section.in_time = in_time
    left[0] = more
    return fault
