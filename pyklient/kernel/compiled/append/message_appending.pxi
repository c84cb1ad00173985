# Appending copies of messages to batches. Part of _kernel.pyx.
#
# The loop runs no Python code, for the reason in appender.pxi, except to raise the error of a header's name, and then
# it ends.


def append_messages(_Appending appender not None, list messages not None, Py_ssize_t start, bint keep_partition):
    """Append copies of the messages from index *start* on, in order, to the batches under construction of
    their topic. A copy goes to the partition of its message if *keep_partition* is true. Otherwise the key
    decides, as in ``send``. If a message has no timestamp, its copy gets the present time.

    Stop at the first message that has another topic or partition than message *start*, does not fit into its
    batch, or has a key or value that is not bytes. Stop also after about ``AT_ONCE`` bytes.

    Return the number of appended copies, and a list of tuples (batch, first, stop), ordered by partition: the
    records *first* to *stop* - 1 of that batch were appended. Return also the partitions of the copies, or an
    empty sequence if the list has only one tuple. If no copy was appended, the caller must pass the next
    message to ``send``. If the producer has encoders or a partitioner, no copy is appended.
    """
    cdef Py_ssize_t count = PyList_GET_SIZE(messages)
    if not 0 <= start < count:
        return 0, [], array("i")
    cdef Message first = messages[start]
    cdef PyObject* found = PyDict_GetItemWithError(appender._sendable, first.topic)
    if found is NULL or type(<object>found) is not _Topic or not appender._plain:
        return 0, [], array("i")
    cdef _Topic known = <_Topic>found
    cdef Py_ssize_t partitions = known.count
    if partitions <= 0:
        return 0, [], array("i")
    cdef bytes targets = PyBytes_FromStringAndSize(NULL, 4 * (count - start))
    cdef int32_t* target = <int32_t*>PyBytes_AS_STRING(targets)
    cdef int64_t now_ms = appender._now()
    cdef AppendedRows* appended = <AppendedRows*>PyMem_RawCalloc(partitions, sizeof(AppendedRows))
    if appended is NULL:
        raise MemoryError
    try:
        taken = _append_messages(
            appender, known, messages, start, keep_partition, now_ms, appended, target, partitions
        )
        runs = _runs(appended, partitions)
        return taken, runs, array("i", targets[: 4 * taken] if len(runs) > 1 else b"")
    finally:
        _release(appended, partitions)


cdef Py_ssize_t _append_messages(
    _Appending appender,
    _Topic known,
    list messages,
    Py_ssize_t start,
    bint keep_partition,
    int64_t now_ms,
    AppendedRows* appended,
    int32_t* targets,
    Py_ssize_t partitions,
) except -1:
    """Append copies of the messages from index *start* on, and set *targets* to their partitions. Return their
    number."""
    cdef AppendedRows* entry
    cdef AppendedRows* last = NULL
    cdef _RecordBuffer batch
    cdef Message message, first = messages[start]
    cdef bytes headers
    cdef int64_t target, time_ms, limit
    cdef Py_ssize_t index = start, size, written = 0
    try:
        while index < PyList_GET_SIZE(messages) and written < _AT_ONCE:
            message = messages[index]
            if not _continues(first, message):
                break
            headers = _encoded_headers(message.headers) if message.headers else None
            target = message.partition if keep_partition else _target_of(message.key, known.sticky, partitions)
            if not 0 <= target < partitions:
                break
            entry = &appended[target]
            if entry.batch is NULL:
                batch = _current(known, target)
                if batch is None:
                    break
                Py_INCREF(batch)
                entry.batch = <PyObject*>batch
                entry.first = entry.stop = batch.count
            if entry is not last:
                batch = <_RecordBuffer>entry.batch
                last = entry
            size = batch.size
            time_ms = now_ms if message.timestamp_ms < 0 else message.timestamp_ms
            limit = appender.memory_limit
            if not appender._write(
                known, batch, message.value, message.key, time_ms, headers, None, None, limit, False
            ):
                break
            entry.stop = batch.count
            targets[index - start] = <int32_t>target
            written += batch.size - size
            index += 1
    except UnicodeEncodeError:
        pass  # a header's name that is no text: ``send`` raises the error
    except MemoryError:
        # The copies before count. The next call will fail in the same way, and append nothing.
        if index == start:
            raise
    return index - start


cdef inline bint _continues(Message first, Message message) except -1:
    """Return True if *message* is of the same partition as *first*, and made of bytes."""
    return (
        message.topic is first.topic
        and message.partition == first.partition
        and (message.value is None or type(message.value) is bytes)
        and (message.key is None or type(message.key) is bytes)
        # The headers of most messages are the empty tuple.
        and (message.headers is () or _plain_size(message.headers) >= 0)
    )


cdef inline int64_t _target_of(key, int64_t sticky, int64_t partitions):
    """Return the partition of a record with *key*, which is bytes or None."""
    if key is None:
        return sticky
    return _murmur2(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) % partitions
