# Appending many records, given as lists. Part of _kernel.pyx.
#
# The loop runs no Python code, for the reason in appender.pxi, except to raise the error of a header's name, and then
# it ends.


def append_many(
    _Appending appender not None,
    topic,
    Py_ssize_t start,
    list values not None,
    list keys=None,
    list headers=None,
    list timestamps_ms=None,
    partitions=None,
):
    """Append the records from index *start* on, in order, to the batches under construction of their topic.

    The lists have one item for each record. A list may be None, and then all its items are None; *partitions*
    may be one number for all records. Keys and values are bytes: no encoder and no partitioner is called.

    Stop at the first record that ``Appender.send`` cannot append by itself, or after about ``AT_ONCE`` bytes.
    Return the number of appended records, and a list of tuples (batch, first, stop), ordered by partition:
    the records *first* to *stop* - 1 of that batch were appended. If no record was appended, the caller must
    send the next one in another way.
    """
    cdef int64_t now_ms = appender._now()
    cdef PyObject* found = PyDict_GetItemWithError(appender._sendable, topic)
    if found is NULL or type(<object>found) is not _Topic or start < 0:
        return 0, []
    cdef _Topic known = <_Topic>found
    cdef Py_ssize_t count = known.count
    if count <= 0:
        return 0, []
    cdef AppendedRows* appended = <AppendedRows*>PyMem_RawCalloc(count, sizeof(AppendedRows))
    if appended is NULL:
        raise MemoryError
    cdef list numbers = <list>partitions if type(partitions) is list else None
    number = None if numbers is not None else partitions
    cdef Py_ssize_t stop, end = PyList_GET_SIZE(values)
    for column in (keys, headers, timestamps_ms, numbers):
        if column is not None:
            end = min(end, PyList_GET_SIZE(<list>column))
    try:
        stop = _append_many(
            appender, known, start, end, values, keys, headers, timestamps_ms, numbers, number, now_ms, appended
        )
        return stop - start, _runs(appended, count)
    finally:
        _release(appended, count)


cdef Py_ssize_t _append_many(
    _Appending appender,
    _Topic known,
    Py_ssize_t start,
    Py_ssize_t end,
    list values,
    list keys,
    list headers,
    list timestamps_ms,
    list numbers,
    number,
    int64_t now_ms,
    AppendedRows* appended,
) except -1:
    """Append the records from index *start* to *end* - 1. Return the index of the first one that was not
    appended. The partitions are *numbers* or, if that is None, *number* for all records."""
    cdef AppendedRows* entry
    cdef _RecordBuffer batch
    cdef Draft draft
    cdef bytes encoded
    cdef int64_t target, time_ms
    cdef Py_ssize_t index = start, size, written = 0
    try:
        while index < end and written < _AT_ONCE:
            value = values[index]
            key = _item(keys, index)
            if numbers is not None:
                number = numbers[index]
            time_ms = now_ms
            if not _is_plain_record(key, value) or not _aim(
                known, key, number, _item(timestamps_ms, index), &target, &time_ms
            ):
                break
            pairs = _item(headers, index)
            if pairs is not None and _plain_size(pairs) < 0:
                break
            encoded = _encoded_headers(pairs) if pairs else None
            entry = &appended[target]
            batch = _open_batch(known, entry, target)
            if batch is None:
                break
            size = batch.size
            _point(&draft.key, &draft.key_size, key)
            _point(&draft.value, &draft.value_size, value)
            draft.headers = NO_HEADERS if encoded is None else <const uint8_t*>PyBytes_AS_STRING(encoded)
            draft.headers_size = 1 if encoded is None else PyBytes_GET_SIZE(encoded)
            if not _write_draft(
                appender, known, batch, &draft, time_ms, None, None, appender.memory_limit, False
            ):
                break
            entry.stop = batch.count
            written += batch.size - size
            index += 1
    except UnicodeEncodeError:
        pass  # a header's name that is no text: ``send`` raises the error
    except MemoryError:
        # The records before count. The next call will fail in the same way, and append nothing.
        if index == start:
            raise
    return index


cdef inline object _item(list column, Py_ssize_t index):
    return None if column is None else column[index]


cdef inline bint _aim(
    _Topic known, key, number, timestamp_ms, int64_t* target, int64_t* time_ms
) except -1:
    """Set *target* to the partition of a record, and *time_ms* to *timestamp_ms* unless that is None. Return
    False if ``send`` would decline *number* or *timestamp_ms*."""
    if number is None:
        target[0] = _target_of(key, known.sticky, known.count)
    elif type(number) is not int or not _as_int64(number, target):
        return False
    if timestamp_ms is not None and (type(timestamp_ms) is not int or not _as_int64(timestamp_ms, time_ms)):
        return False
    return 0 <= target[0] < known.count and time_ms[0] >= 0


cdef inline bint _as_int64(number, int64_t* result) except -1:
    """Set *result* to *number*, an int. Return False if *number* does not fit."""
    cdef int overflow = 0
    result[0] = PyLong_AsLongLongAndOverflow(number, &overflow)
    return overflow == 0


cdef inline _RecordBuffer _open_batch(_Topic known, AppendedRows* entry, int64_t target):
    """Return the batch under construction of partition *target*, to which *entry* refers from the first
    record on. Return None if there is no such batch."""
    cdef _RecordBuffer batch
    if entry.batch is NULL:
        batch = _current(known, target)
        if batch is None:
            return None
        Py_INCREF(batch)
        entry.batch = <PyObject*>batch
        entry.first = entry.stop = batch.count
    return <_RecordBuffer>entry.batch
