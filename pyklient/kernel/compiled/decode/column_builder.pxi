# Columns in Arrow's layout, filled straight from the bytes of a batch. Part of _kernel.pyx.
#
# The loop runs without the GIL and allocates nothing: where a column is full it comes back at the start of the
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


cdef inline bint _row_fits(const Rows* rows, const Parsed* record, const HeaderSizes* sizes) noexcept nogil:
    if not (_fits(&rows.keys, record.key_size) and _fits(&rows.values, record.value_size)):
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
    Rows* rows, const Parsed* record, int64_t offset, Cursor headers, uint64_t header_count
) noexcept nogil:
    """Store a record for which there is memory. Its headers begin at *headers*."""
    rows.offsets[rows.count] = offset
    rows.timestamps[rows.count] = record.timestamp
    _put_cell(&rows.keys, rows.count, record.key, record.key_size)
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
            if not _row_fits(&rows, &record, &sizes):
                fault = NO_ROOM
                cursor.at = begin
                break
            _put_row(&rows, &record, offset, headers, sizes.count)
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


@cython.final
cdef class _Column:
    """The memory of the C structure ``Cells``."""

    cdef _Memory bits
    cdef _Memory ends
    cdef _Memory data

    def __cinit__(self):
        self.bits = _Memory.__new__(_Memory)
        self.ends = _Memory.__new__(_Memory)
        self.data = _Memory.__new__(_Memory)

    cdef int reserve(self, Cells* cells, Py_ssize_t count, Py_ssize_t size) except -1:
        """Make room for *count* cells in total, and for *size* bytes."""
        cdef Py_ssize_t known = self.bits.block.size
        cells.bits = <uint8_t*>self.bits.reserve((count + 7) >> 3)
        memset(cells.bits + known, 0xFF, self.bits.block.size - known)
        cells.ends = <int32_t*>self.ends.reserve(sizeof(int32_t) * (count + 1))
        cells.ends[0] = 0
        cells.data = <uint8_t*>self.data.reserve(size)
        cells.capacity = self.data.block.size
        return 0

    cdef object finish(self, Cells* cells, Py_ssize_t count):
        validity = None
        if cells.nulls:
            if count & 7:
                cells.bits[count >> 3] &= <uint8_t>((1 << (count & 7)) - 1)
            validity = self.bits.finish((count + 7) >> 3, "B")
        ends = self.ends.finish(sizeof(int32_t) * (count + 1), "i")
        return ByteColumn(validity, ends, self.data.finish(cells.used, "B"))


@cython.final
cdef class ColumnBuilder:
    """Collects records in columns. *size* is the expected number of bytes of all records."""

    cdef Rows rows
    # bytes of the batches so far: no column can hold more
    cdef Py_ssize_t added
    cdef Py_ssize_t size
    cdef _Memory offsets
    cdef _Memory timestamps
    cdef _Memory kinds
    cdef _Memory header_ends
    cdef _Column keys
    cdef _Column values
    cdef _Column names
    cdef _Column contents

    def __cinit__(self, bint with_headers, Py_ssize_t size=0):
        self.rows.with_headers = with_headers
        self.offsets = _Memory.__new__(_Memory)
        self.timestamps = _Memory.__new__(_Memory)
        self.kinds = _Memory.__new__(_Memory)
        self.header_ends = _Memory.__new__(_Memory)
        self.keys = _Column.__new__(_Column)
        self.values = _Column.__new__(_Column)
        self.names = _Column.__new__(_Column)
        self.contents = _Column.__new__(_Column)
        self.values.reserve(&self.rows.values, 0, size)
        self.size = size
        self._reserve(0, 1)

    @property
    def count(self):
        return self.rows.count

    cdef int _reserve(self, Py_ssize_t more, double batches) except -1:
        """Make room for *more* records, without their bytes and headers. For the first batch, make room for
        as many *batches* as are likely to follow."""
        cdef Py_ssize_t count = self.rows.count + more
        if not self.rows.count and batches > 1:
            count = <Py_ssize_t>(count * batches)
        self.rows.capacity = max(self.rows.capacity, count)
        self.rows.offsets = <int64_t*>self.offsets.reserve(sizeof(int64_t) * count)
        self.rows.timestamps = <int64_t*>self.timestamps.reserve(sizeof(int64_t) * count)
        self.rows.kinds = <int32_t*>self.kinds.reserve(sizeof(int32_t) * count)
        self.keys.reserve(&self.rows.keys, count, 0)
        self.values.reserve(&self.rows.values, count, 0)
        if self.rows.with_headers:
            self.rows.header_ends = <int32_t*>self.header_ends.reserve(sizeof(int32_t) * (count + 1))
            self.rows.header_ends[0] = 0
            self._reserve_headers(0, 0, 0)
        return 0

    cdef int _reserve_headers(self, Py_ssize_t count, Py_ssize_t names, Py_ssize_t contents) except -1:
        count += self.rows.headers
        self.names.reserve(&self.rows.names, count, self.rows.names.used + names)
        self.contents.reserve(&self.rows.contents, count, self.rows.contents.used + contents)
        self.rows.header_capacity = count
        return 0

    def add(
        self,
        data,
        int64_t count,
        int64_t base_offset,
        int64_t last_delta,
        int64_t base_timestamp,
        append_time,
        int64_t start_offset,
    ):
        """Append records of a batch of format 2: those whose offset is *start_offset* or larger. *data* has
        all records of the batch, encoded.

        Raises the errors of ``parse_records``. After an error, the columns are as they were before.
        """
        cdef _Section section = _Section.__new__(
            _Section, data, count, base_offset, last_delta, base_timestamp
        )
        cdef bint stamped = append_time is not None
        cdef int64_t stamp = append_time if stamped else 0
        cdef int64_t left = count
        cdef Py_ssize_t first = self.rows.count
        cdef Py_ssize_t index
        cdef Rows before
        cdef Fault fault
        self._check_size(section.view.len)
        self._reserve(count, <double>self.size / (section.view.len + _BATCH_HEADER))
        before = self.rows
        try:
            while True:
                with nogil:
                    fault = _fill(&self.rows, section, &left, start_offset)
                if fault != NO_ROOM:
                    break
                self._reserve_for(section)
            if fault == WRONG_LENGTH:
                section._raise_length()
            if fault != NO_FAULT:
                _raise(fault)
            section.finish(count)
        except:
            self._go_back(&before)
            raise
        for index in range(first, self.rows.count):
            self.rows.kinds[index] = stamped
        if stamped:
            for index in range(first, self.rows.count):
                self.rows.timestamps[index] = stamp

    def add_batches(
        self,
        data,
        Py_ssize_t position,
        int64_t start_offset,
        Py_ssize_t most_records,
        int64_t most_bytes,
        int64_t most_in_columns,
        bint check_crcs,
        bint transactions,
    ):
        """Append the records of the plain batches from byte *position* of *data* on, up to the batch with which there
        are *most_records*, or *most_bytes* bytes are added, or up to the first batch that is not plain.

        A batch that would make the added bytes more than *most_in_columns* is left out, unless it is the first.
        Return the position after these batches, the offset to continue at, and the bytes of their records. If
        *transactions* is False, transactional batches are not plain.
        """
        cdef _Section section = _Section.__new__(_Section, data, 0, 0, 0, 0)
        cdef const uint8_t* start = <const uint8_t*>section.view.buf
        cdef Reading reading
        cdef Header header
        cdef bint goes_on = True
        if not 0 <= position <= section.view.len:
            return position, start_offset, 0
        reading.at = start + position
        reading.end = start + section.view.len
        reading.next_offset = start_offset
        reading.nbytes = 0
        reading.check_crcs = check_crcs
        reading.transactions = transactions
        with nogil:
            while goes_on and self.rows.count < most_records and reading.nbytes < most_bytes:
                goes_on = self._add_batch(section, &reading, &header, most_in_columns)
        return reading.at - start, reading.next_offset, reading.nbytes

    cdef bint _add_batch(
        self, _Section section, Reading* reading, Header* header, int64_t most_in_columns
    ) except? False nogil:
        """Append the records of the batch where *reading* is. Return False if the batch is not plain."""
        cdef Kind kind = _read_header(reading, header)
        cdef Py_ssize_t size
        cdef Py_ssize_t first = self.rows.count
        cdef Py_ssize_t index
        cdef int64_t left
        cdef Rows before
        cdef Fault fault
        if kind == OTHER:
            return False
        if kind == EMPTY:
            _pass_batch(reading, header)
            return True
        size = header.end - header.records
        if size > _MOST_IN_A_COLUMN - self.added or (first and reading.nbytes + size > most_in_columns):
            return False
        left = header.count
        if header.count > self.rows.capacity - first:
            with gil:
                # twice as many, because this is done for each batch that does not fit
                self._reserve(max(header.count, first), <double>self.size / (size + _BATCH_HEADER))
        before = self.rows
        section.begin(header)
        fault = _fill(&self.rows, section, &left, reading.next_offset)
        while fault == NO_ROOM:
            with gil:
                self._reserve_for(section)
            fault = _fill(&self.rows, section, &left, reading.next_offset)
        if fault != NO_FAULT or not section.is_right():
            self._go_back(&before)
            return False
        for index in range(first, self.rows.count):
            self.rows.kinds[index] = header.attributes & _STAMPED != 0
        if header.attributes & _STAMPED:
            for index in range(first, self.rows.count):
                self.rows.timestamps[index] = header.max_timestamp
        self.added += size
        reading.nbytes += size
        _pass_batch(reading, header)
        return True

    cdef int _check_size(self, Py_ssize_t size) except -1:
        if size > _MOST_IN_A_COLUMN - self.added:
            raise too_large(self.added + size)
        self.added += size
        return 0

    cdef int _reserve_for(self, _Section section) except -1:
        """Make room for the next record of the section."""
        cdef Py_ssize_t whole = <Py_ssize_t>(<size_t>section.record.stop - <size_t>section.cursor.at)
        self.keys.reserve(&self.rows.keys, 0, self.rows.keys.used + max(section.record.key_size, 0))
        self.values.reserve(&self.rows.values, 0, self.rows.values.used + max(section.record.value_size, 0))
        if self.rows.with_headers:
            # no header takes less than two bytes, and the record is known to end where it says
            self._reserve_headers(max(whole >> 1, self.rows.headers), whole, whole)
        return 0

    cdef void _go_back(self, Rows* before) noexcept nogil:
        self.rows.count = before.count
        self.rows.headers = before.headers
        self.rows.keys.used, self.rows.keys.nulls = before.keys.used, before.keys.nulls
        self.rows.values.used, self.rows.values.nulls = before.values.used, before.values.nulls
        self.rows.names.used, self.rows.names.nulls = before.names.used, before.names.nulls
        self.rows.contents.used, self.rows.contents.nulls = before.contents.used, before.contents.nulls

    def add_parsed(self, parsed, int32_t timestamp_type):
        """Append the records in *parsed*, which were parsed already."""
        offsets, timestamps, keys, values, headers = parsed
        self._check_size(size_of_parsed(parsed))
        self._reserve(len(offsets), 1)
        for index, (offset, timestamp, key, value) in enumerate(zip(offsets, timestamps, keys, values)):
            self._put_parsed(offset, timestamp, timestamp_type, key, value, headers.get(index, ()))

    cdef int _put_parsed(
        self, int64_t offset, int64_t timestamp, int32_t kind, bytes key, bytes value, tuple headers
    ) except -1:
        cdef Py_ssize_t row = self.rows.count
        self.rows.offsets[row] = offset
        self.rows.timestamps[row] = timestamp
        self.rows.kinds[row] = kind
        self._put_bytes(self.keys, &self.rows.keys, row, key)
        self._put_bytes(self.values, &self.rows.values, row, value)
        if self.rows.with_headers:
            for name, value in headers:
                if self.rows.headers == self.rows.header_capacity:
                    self._reserve_headers(max(self.rows.headers, 8), 0, 0)
                self._put_bytes(self.names, &self.rows.names, self.rows.headers, name.encode())
                self._put_bytes(self.contents, &self.rows.contents, self.rows.headers, value)
                self.rows.headers += 1
            self.rows.header_ends[row + 1] = <int32_t>self.rows.headers
        self.rows.count += 1
        return 0

    cdef int _put_bytes(self, _Column column, Cells* cells, Py_ssize_t row, bytes cell) except -1:
        if cell is None:
            _put_cell(cells, row, NULL, -1)
            return 0
        column.reserve(cells, 0, cells.used + PyBytes_GET_SIZE(cell))
        _put_cell(cells, row, <const uint8_t*>PyBytes_AS_STRING(cell), PyBytes_GET_SIZE(cell))
        return 0

    def finish(self):
        """Return the columns that were collected. Nothing may be added afterwards."""
        cdef Rows* rows = &self.rows
        headers = None
        if rows.with_headers:
            names = self.names.finish(&rows.names, rows.headers)
            headers = HeaderColumn(
                self.header_ends.finish(sizeof(int32_t) * (rows.count + 1), "i"),
                readable(names) if rows.foreign else names,
                self.contents.finish(&rows.contents, rows.headers),
            )
        return ArrowColumns(
            self.offsets.finish(sizeof(int64_t) * rows.count, "q"),
            self.timestamps.finish(sizeof(int64_t) * rows.count, "q"),
            self.kinds.finish(sizeof(int32_t) * rows.count, "i"),
            self.keys.finish(&rows.keys, rows.count),
            self.values.finish(&rows.values, rows.count),
            headers,
        )
