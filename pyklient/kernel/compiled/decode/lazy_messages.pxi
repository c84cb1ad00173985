# Making the messages of many batches one at a time. Part of _kernel.pyx.
#
# Messages that are made all at once are gone from the processor's cache before they are read, and the memory of
# 30,000 of them is mapped anew for each chunk. Made one at a time, each takes the memory of one read before.
#
# The GIL makes a call atomic here, because another thread may stop the iterator while a loop reads it: __next__ only
# changes the iterator after the last step that may run Python code.

cdef struct Part:
    # Records that follow one another: those of one batch, or, if it has many batches, all of these with their headers.
    const uint8_t* at
    const uint8_t* end
    int64_t base_offset
    int64_t base_timestamp
    int64_t stamp
    int64_t count
    bint stamped
    bint many


cdef Fault _pass_records(
    _Section section, int64_t count, int64_t start_offset, Cursor* first, int64_t* below
) noexcept nogil:
    """Read all records without storing them. Set *first* to the first record at *start_offset* or above, and
    *below* to the number of records before it."""
    cdef Cursor cursor = section.cursor
    cdef Parsed record
    cdef HeaderSizes sizes
    cdef int64_t base_timestamp = section.base_timestamp
    cdef int64_t base_offset = section.base_offset
    cdef int64_t previous = section.previous
    cdef bint rising = True
    cdef bint in_time = True
    cdef int64_t index
    cdef bint reached = False
    cdef Fault fault = NO_FAULT
    below[0] = count
    first[0] = cursor
    for index in range(count):
        if not reached:
            first[0] = cursor
        fault = _next(&cursor, &record, base_timestamp)
        if fault != NO_FAULT:
            break
        if cursor.at[0] == 0:
            cursor.at += 1
        else:
            fault = _pass_headers(&cursor, &sizes)
            if fault != NO_FAULT:
                break
        if cursor.at != record.stop:
            section.record = record
            fault = WRONG_LENGTH
            break
        # unsigned, so that it cannot overflow before it is checked
        if not reached and <int64_t>(<uint64_t>base_offset + <uint64_t>record.delta) >= start_offset:
            reached = True
            below[0] = index
        rising &= record.delta > previous
        previous = record.delta
        in_time &= not record.too_late
    section.cursor = cursor
    section.previous = previous
    section.rising = rising
    section.in_time = in_time
    return fault


@cython.final
cdef class MessageIterator:
    """An iterator over the messages of one or more batches, which knows how far it was read.

    All batches are added before the first message is read. Their bytes are checked then, and kept until the last
    message has been handed out: they must not change meanwhile. Any thread may ask for the offsets or stop the
    iterator. ``count`` is the number of messages in the beginning.
    """

    cdef list buffers
    cdef _Memory parts
    cdef Py_ssize_t part_count
    cdef Py_ssize_t next_part
    # The batch that is read. No Cursor, which is copied as a whole: the processor would wait for the half that has
    # just been written.
    cdef const uint8_t* at
    cdef int64_t base_offset
    cdef const uint8_t* end
    cdef int64_t base_timestamp
    cdef object topic
    cdef int32_t partition
    cdef bint stamped
    cdef int64_t stamp
    cdef int64_t left_in_batch
    cdef const uint8_t* end_of_part
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t more
    cdef int64_t last

    def __cinit__(self, topic, int32_t partition):
        self.buffers = []
        self.parts = _Memory.__new__(_Memory)
        self.topic = topic
        self.partition = partition
        self.last = -1

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
        """Add the messages of a batch of format 2 whose offset is *start_offset* or larger. *data* has all records of
        the batch, decompressed.

        *append_time* is the timestamp of all messages if the broker has set it, otherwise None. Raises the errors of
        ``parse_records``, and then adds nothing.
        """
        cdef _Section section = _Section.__new__(_Section, data, count, base_offset, last_delta, base_timestamp)
        cdef Cursor first
        cdef int64_t below = 0
        cdef Part* part
        cdef Fault fault = _pass_records(section, count, start_offset, &first, &below)
        if fault == WRONG_LENGTH:
            section._raise_length()
        if fault != NO_FAULT:
            _raise(fault)
        section.finish(count)
        if below == count:
            return
        part = self._new_part()
        part.at = first.at
        part.end = first.end
        part.base_offset = base_offset
        part.base_timestamp = base_timestamp
        part.stamped = append_time is not None
        part.stamp = append_time if part.stamped else 0
        part.count = count - below
        self.buffers.append(section)
        self._grow(part.count)

    def add_batches(
        self,
        data,
        Py_ssize_t position,
        int64_t start_offset,
        Py_ssize_t most_messages,
        int64_t most_bytes,
        bint check_crcs,
        int64_t none_aborted_below,
        decompress,
    ):
        """Add the messages of the plain batches from byte *position* of *data* on, up to the batch with which there
        are *most_messages*, or *most_bytes* bytes are added, or up to the first batch that is not plain.

        Return the position after these batches, the offset to continue at, and the bytes of their records.
        Transactional batches from the offset *none_aborted_below* on are not plain. *decompress* is a function that
        gets the number of a codec and compressed records, and returns the records.
        """
        cdef _Section section = _Section.__new__(_Section, data, 0, 0, 0, 0)
        cdef const uint8_t* start = <const uint8_t*>section.view.buf
        cdef Reading reading
        cdef bint follows = False
        if not 0 <= position <= section.view.len:
            return position, start_offset, 0
        reading.at = start + position
        reading.end = start + section.view.len
        reading.next_offset = start_offset
        reading.nbytes = 0
        reading.check_crcs = check_crcs
        reading.none_aborted_below = none_aborted_below
        while self.count < most_messages and reading.nbytes < most_bytes:
            if not self._add_batch(data, section, &reading, &follows, decompress):
                break
        if reading.at > start + position:
            self.buffers.append(section)
        return reading.at - start, reading.next_offset, reading.nbytes

    cdef bint _add_batch(self, data, _Section whole, Reading* reading, bint* follows, decompress) except? False:
        """Add the messages of the batch where *reading* is. Return False if the batch is not plain.

        *follows* is True if the last part ends where the batch begins, and has whole batches.
        """
        cdef Header header
        cdef Cursor first
        cdef int64_t below = 0
        cdef Part* part
        cdef Kind kind = _read_batch(reading, &header)
        if kind == OTHER:
            return False
        if kind == EMPTY:
            _pass_batch(reading, &header)
            follows[0] = False
            return True
        cdef _Section section = _records_of(data, whole, &header, kind, decompress)
        if section is None:
            return False
        cdef Py_ssize_t size = section.cursor.end - section.cursor.at
        cdef Fault fault = _pass_records(section, header.count, reading.next_offset, &first, &below)
        if fault != NO_FAULT or not section.is_right():
            return False
        if below or kind == COMPRESSED:
            follows[0] = False
        if below < header.count:
            if kind == COMPRESSED:
                self.buffers.append(section)
            if follows[0]:
                part = <Part*>self.parts.block.at + self.part_count - 1
            else:
                part = self._new_part()
                part.many = not below and kind == PLAIN
                part.at = reading.at if part.many else first.at
                part.base_offset = header.base_offset
                part.base_timestamp = header.base_timestamp
                part.stamped = header.attributes & _STAMPED != 0
                part.stamp = header.max_timestamp
                part.count = header.count - below
                follows[0] = part.many
            part.end = section.cursor.end
            self._grow(header.count - below)
        reading.nbytes += size
        _pass_batch(reading, &header)
        return True

    cdef Part* _new_part(self) except NULL:
        cdef Part* parts = <Part*>self.parts.reserve(sizeof(Part) * (self.part_count + 1))
        memset(&parts[self.part_count], 0, sizeof(Part))
        self.part_count += 1
        return &parts[self.part_count - 1]

    cdef inline void _grow(self, int64_t count) noexcept:
        self.count += count
        self.more += count

    cdef void _go_on(self) noexcept:
        """Go to the next batch, because messages are left, and none of them in this batch.

        If the bytes have changed since they were checked, the batch may be none, and reading it fails.
        """
        cdef Part* part
        if self.end_of_part - self.end < _HEADER_SIZE:
            if self.next_part == self.part_count:
                self.left_in_batch = self.more
                return
            part = <Part*>self.parts.block.at + self.next_part
            self.next_part += 1
            self.end_of_part = part.end
            if not part.many:
                self.at = part.at
                self.end = part.end
                self.base_offset = part.base_offset
                self.base_timestamp = part.base_timestamp
                self.stamped = part.stamped
                self.stamp = part.stamp
                self.left_in_batch = part.count
                return
            self.end = part.at
        cdef const uint8_t* header = self.end
        cdef int64_t size = <int32_t>_big_32(header + 8) + _OVERHEAD
        if size < _HEADER_SIZE or size > self.end_of_part - header:
            size = self.end_of_part - header
        self.at = header + _HEADER_SIZE
        self.end = header + size
        self.base_offset = _big_64(header)
        self.base_timestamp = _big_64(header + 27)
        self.stamped = header[22] & _STAMPED != 0
        self.stamp = _big_64(header + 35)
        self.left_in_batch = max(1, <int32_t>_big_32(header + 57))

    def __length_hint__(self):
        return self.more

    def __iter__(self):
        return self

    cdef inline Cursor cursor(self) noexcept:
        """Return the bytes of the next message. There must be one."""
        cdef Cursor cursor
        if not self.left_in_batch:
            self._go_on()
        cursor.at = self.at
        cursor.end = self.end
        return cursor

    def __next__(self):
        cdef Cursor cursor
        cdef Py_ssize_t more = self.more
        cdef list buffers
        cdef Parsed record
        cdef Message message
        if not more:
            raise StopIteration
        cursor = self.cursor()
        cdef Fault fault = _next(&cursor, &record, self.base_timestamp)
        if fault != NO_FAULT:
            _raise(fault)
        message = Message.__new__(Message)
        message.topic = self.topic
        message.partition = self.partition
        message.offset = <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.delta)
        message.timestamp_ms = self.stamp if self.stamped else record.timestamp
        message.timestamp_type = self.stamped
        message.key = _object(record.key, record.key_size)
        message.value = _object(record.value, record.value_size)
        if cursor.at[0] == 0:
            cursor.at += 1
            message.headers = ()
        else:
            # this may collect garbage, and so let others run
            buffers = self.buffers
            message.headers = _headers(&cursor)
            if self.more != more:
                # Stopped meanwhile. This one is not counted, and so it is not handed out.
                raise StopIteration
        self.at = cursor.at
        self.last = message.offset
        self.left_in_batch -= 1
        self.more = more - 1
        if more == 1:
            self.buffers = None
        return message

    def stop(self):
        """Hand out no more messages from now on. Return how many were left, the offset of the first of them (-1 if
        none was left), and the offset of the last message that was handed out (-1 if none was)."""
        cdef Py_ssize_t left = self.more
        cdef int64_t offset = self._next_offset()
        self.more = 0
        return left, offset, self.last

    def remaining_messages(self):
        """Return the messages that have not been handed out, without handing them out."""
        cdef MessageIterator run = MessageIterator.__new__(MessageIterator, self.topic, self.partition)
        run.buffers = self.buffers
        run.parts = self.parts
        run.part_count = self.part_count
        run.next_part = self.next_part
        run.at = self.at
        run.end = self.end
        run.base_offset = self.base_offset
        run.base_timestamp = self.base_timestamp
        run.stamped = self.stamped
        run.stamp = self.stamp
        run.left_in_batch = self.left_in_batch
        run.end_of_part = self.end_of_part
        run.more = self.more
        return list(run)

    cdef int64_t _next_offset(self) noexcept:
        cdef Cursor cursor
        cdef Parsed record
        if not self.more:
            return -1
        cursor = self.cursor()
        if _next(&cursor, &record, self.base_timestamp) != NO_FAULT:
            return -1
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.delta)

    @property
    def next_offset(self):
        """The offset of the next message to hand out; -1 if there is none."""
        return self._next_offset()

    @property
    def last_offset(self):
        """The offset of the last message that was handed out; -1 if none was."""
        return self.last
