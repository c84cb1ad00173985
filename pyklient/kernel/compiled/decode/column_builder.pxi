# The builder of columns in Arrow's layout, and their memory. Part of _kernel.pyx.

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
    """Collects records in columns, without those whose names are in *left_out*. *size* is the expected number of bytes
    of all records."""

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

    def __cinit__(self, left_out not None, Py_ssize_t size=0):
        self.rows.with_timestamps = "timestamp" not in left_out
        self.rows.with_kinds = "timestampType" not in left_out
        self.rows.with_keys = "key" not in left_out
        self.rows.with_values = "value" not in left_out
        self.rows.with_headers = "headers" not in left_out
        self.offsets = _Memory.__new__(_Memory)
        self.timestamps = _Memory.__new__(_Memory)
        self.kinds = _Memory.__new__(_Memory)
        self.header_ends = _Memory.__new__(_Memory)
        self.keys = _Column.__new__(_Column)
        self.values = _Column.__new__(_Column)
        self.names = _Column.__new__(_Column)
        self.contents = _Column.__new__(_Column)
        self.values.reserve(&self.rows.values, 0, size if self.rows.with_values else 0)
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
        if self.rows.with_timestamps:
            self.rows.timestamps = <int64_t*>self.timestamps.reserve(sizeof(int64_t) * count)
        if self.rows.with_kinds:
            self.rows.kinds = <int32_t*>self.kinds.reserve(sizeof(int32_t) * count)
        self.keys.reserve(&self.rows.keys, count if self.rows.with_keys else 0, 0)
        self.values.reserve(&self.rows.values, count if self.rows.with_values else 0, 0)
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
        self._stamp(first, stamped, stamp)

    def add_batches(
        self,
        data,
        Py_ssize_t position,
        int64_t start_offset,
        Py_ssize_t most_records,
        int64_t most_bytes,
        int64_t most_in_columns,
        bint check_crcs,
        int64_t none_aborted_below,
        decompress,
    ):
        """Append the records of the plain batches from byte *position* of *data* on, up to the batch with which there
        are *most_records*, or *most_bytes* bytes are added, or up to the first batch that is not plain.

        A batch that would make the added bytes more than *most_in_columns* is left out, unless it is the first.
        Return the position after these batches, the offset to continue at, and the bytes of their records.
        Transactional batches from the offset *none_aborted_below* on are not plain. *decompress* is a function that
        gets the number of a codec and compressed records, and returns the records.
        """
        cdef _Section section = _Section.__new__(_Section, data, 0, 0, 0, 0)
        cdef const uint8_t* start = <const uint8_t*>section.view.buf
        cdef Reading reading
        cdef Header header
        cdef Kind kind
        cdef _Section records
        cdef bint goes_on = True
        if not 0 <= position <= section.view.len:
            return position, start_offset, 0
        reading.at = start + position
        reading.end = start + section.view.len
        reading.next_offset = start_offset
        reading.nbytes = 0
        reading.check_crcs = check_crcs
        reading.none_aborted_below = none_aborted_below
        with nogil:
            while goes_on and self.rows.count < most_records and reading.nbytes < most_bytes:
                kind = _read_header(&reading, &header)
                if kind == COMPRESSED:
                    with gil:
                        records = _records_of(data, section, &header, kind, decompress)
                        goes_on = records is not None
                    goes_on = goes_on and self._add_records(records, &reading, &header, most_in_columns)
                elif kind == PLAIN:
                    section.begin(&header)
                    goes_on = self._add_records(section, &reading, &header, most_in_columns)
                else:
                    goes_on = kind == EMPTY
                if goes_on:
                    _pass_batch(&reading, &header)
        return reading.at - start, reading.next_offset, reading.nbytes

    cdef bint _add_records(
        self, _Section section, Reading* reading, Header* header, int64_t most_in_columns
    ) except? False nogil:
        """Append the records in *section*, those of the batch where *reading* is. Return False if they are damaged, or too
        many bytes."""
        cdef Py_ssize_t size = section.cursor.end - section.cursor.at
        cdef Py_ssize_t first = self.rows.count
        cdef int64_t left
        cdef Rows before
        cdef Fault fault
        if size > _MOST_IN_A_COLUMN - self.added or (first and reading.nbytes + size > most_in_columns):
            return False
        left = header.count
        if header.count > self.rows.capacity - first:
            with gil:
                # twice as many, because this is done for each batch that does not fit
                self._reserve(max(header.count, first), <double>self.size / (size + _BATCH_HEADER))
        before = self.rows
        fault = _fill(&self.rows, section, &left, reading.next_offset)
        while fault == NO_ROOM:
            with gil:
                self._reserve_for(section)
            fault = _fill(&self.rows, section, &left, reading.next_offset)
        if fault != NO_FAULT or not section.is_right():
            self._go_back(&before)
            return False
        self._stamp(first, header.attributes & _STAMPED != 0, header.max_timestamp)
        self.added += size
        reading.nbytes += size
        return True

    cdef inline void _stamp(self, Py_ssize_t first, bint stamped, int64_t timestamp) noexcept nogil:
        """Set the timestamp types of the records from row *first* on. If the broker has *stamped* their batch, set their
        timestamps too."""
        cdef Py_ssize_t index
        if self.rows.with_kinds:
            for index in range(first, self.rows.count):
                self.rows.kinds[index] = stamped
        if stamped and self.rows.with_timestamps:
            for index in range(first, self.rows.count):
                self.rows.timestamps[index] = timestamp

    cdef int _check_size(self, Py_ssize_t size) except -1:
        if size > _MOST_IN_A_COLUMN - self.added:
            raise too_large(self.added + size)
        self.added += size
        return 0

    cdef int _reserve_for(self, _Section section) except -1:
        """Make room for the next record of the section."""
        cdef Py_ssize_t whole = <Py_ssize_t>(<size_t>section.record.stop - <size_t>section.cursor.at)
        if self.rows.with_keys:
            self.keys.reserve(&self.rows.keys, 0, self.rows.keys.used + max(section.record.key_size, 0))
        if self.rows.with_values:
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
        if self.rows.with_timestamps:
            self.rows.timestamps[row] = timestamp
        if self.rows.with_kinds:
            self.rows.kinds[row] = kind
        if self.rows.with_keys:
            self._put_bytes(self.keys, &self.rows.keys, row, key)
        if self.rows.with_values:
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
        cdef Py_ssize_t count = rows.count
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
            self.timestamps.finish(sizeof(int64_t) * count if rows.with_timestamps else 0, "q"),
            self.kinds.finish(sizeof(int32_t) * count if rows.with_kinds else 0, "i"),
            self.keys.finish(&rows.keys, count if rows.with_keys else 0),
            self.values.finish(&rows.values, count if rows.with_values else 0),
            headers,
        )
