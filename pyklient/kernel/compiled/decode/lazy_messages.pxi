# Making the messages of a large batch one at a time. Part of _kernel.pyx.
#
# Messages that are made all at once are gone from the processor's cache before they are read, and the memory of
# 30,000 of them is mapped anew for each batch. Made one at a time, each takes the memory of one read before.

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
    """An iterator over the messages of one batch, which knows how far it was read.

    The bytes are checked when the iterator is made, and kept until the last message has been handed out: they must
    not change meanwhile. Any thread may ask for the offsets or stop the iterator. ``count`` is the number of messages
    in the beginning.
    """

    cdef _Section section
    # Not a Cursor, which is copied as a whole: the processor would wait for the half that has just been written.
    cdef const uint8_t* at
    cdef int64_t base_offset
    cdef const uint8_t* end
    cdef int64_t base_timestamp
    cdef object topic
    cdef int32_t partition
    cdef bint stamped
    cdef int64_t stamp
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t more
    cdef int64_t last

    def __init__(self):
        raise TypeError("made by iterate_messages only")

    def __length_hint__(self):
        return self.more

    def __iter__(self):
        return self

    cdef inline Cursor cursor(self) noexcept:
        cdef Cursor cursor
        cursor.at = self.at
        cursor.end = self.end
        return cursor

    def __next__(self):
        cdef Cursor cursor = self.cursor()
        cdef Py_ssize_t more = self.more
        cdef _Section section
        cdef Parsed record
        cdef Message message
        if not more:
            raise StopIteration
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
            section = self.section
            message.headers = _headers(&cursor)
            if self.more != more:
                # Stopped meanwhile. This one is not counted, and so it is not handed out.
                raise StopIteration
        self.at = cursor.at
        self.last = message.offset
        self.more = more - 1
        if more == 1:
            self.section = None
        return message

    def stop(self):
        """Hand out no more messages from now on. Return how many were left, the offset of the first of them (-1 if
        none was left), and the offset of the last message that was handed out (-1 if none was)."""
        cdef Cursor cursor = self.cursor()
        cdef Py_ssize_t left = self.more
        cdef int64_t last = self.last
        cdef int64_t offset = -1
        cdef Parsed record
        self.more = 0
        if left and _next(&cursor, &record, self.base_timestamp) == NO_FAULT:
            offset = <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.delta)
        return left, offset, last

    def remaining_messages(self):
        """Return the messages that have not been handed out, without handing them out."""
        cdef MessageIterator run = MessageIterator.__new__(MessageIterator)
        run.section = self.section
        run.at = self.at
        run.end = self.end
        run.base_offset = self.base_offset
        run.base_timestamp = self.base_timestamp
        run.topic = self.topic
        run.partition = self.partition
        run.stamped = self.stamped
        run.stamp = self.stamp
        run.more = self.more
        return list(run)

    @property
    def next_offset(self):
        """The offset of the next message to hand out; -1 if there is none."""
        cdef Cursor cursor = self.cursor()
        cdef Parsed record
        if not self.more or _next(&cursor, &record, self.base_timestamp) != NO_FAULT:
            return -1
        return <int64_t>(<uint64_t>self.base_offset + <uint64_t>record.delta)

    @property
    def last_offset(self):
        """The offset of the last message that was handed out; -1 if none was."""
        return self.last


def iterate_messages(
    data,
    int64_t count,
    int64_t base_offset,
    int64_t last_delta,
    int64_t base_timestamp,
    append_time,
    topic,
    int32_t partition,
    int64_t start_offset,
):
    """Return an iterator over the messages that :func:`parse_messages` returns. Raises the same errors."""
    cdef _Section section = _Section.__new__(_Section, data, count, base_offset, last_delta, base_timestamp)
    cdef MessageIterator run = MessageIterator.__new__(MessageIterator)
    cdef Cursor first
    cdef int64_t below = 0
    cdef Fault fault = _pass_records(section, count, start_offset, &first, &below)
    if fault == WRONG_LENGTH:
        section._raise_length()
    if fault != NO_FAULT:
        _raise(fault)
    section.finish(count)
    run.section = section
    run.at = first.at
    run.end = first.end
    run.base_offset = base_offset
    run.base_timestamp = base_timestamp
    run.topic = topic
    run.partition = partition
    run.stamped = append_time is not None
    run.stamp = append_time if run.stamped else 0
    run.count = run.more = count - below
    run.last = -1
    return run
