# Appending records to batches: the C half of Appender, and Delivery. Part of _kernel.pyx.
#
# The GIL makes a call atomic here. So nothing between the first look at a batch and the last number written
# into it may run Python code, and that includes allocating what the garbage collector tracks: it may run,
# and with it a finalizer that sends.


DEF _ERROR = 4  # the index of the error in a DeliveryReport


# no_gc: it refers to its batch, and the batch to it only until it is done.
# nonecheck: one that Delivery.__new__ alone has made has no batch.
@cython.final
@cython.nonecheck(True)
@cython.freelist(1024)
@cython.no_gc
cdef class Delivery:
    """The handle that ``send`` returns for one record. Safe to use from several threads.

    The program need not keep it. If a record fails, and neither a method of its Delivery nor a callback has
    shown the failure to the user, then ``flush``, ``close`` or the end of the ``with`` block raises it.
    """

    cdef _RecordBuffer _batch
    cdef Py_ssize_t _index
    cdef int64_t _timestamp_ms

    def __init__(self, _RecordBuffer batch not None, Py_ssize_t index, int64_t timestamp_ms):
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def batch_and_index(self):
        """The batch that holds the record, and the index of the record in it."""
        return self._batch, self._index

    @property
    def topic(self):
        """The topic to which the record was sent."""
        return self._batch.topic

    @property
    def partition(self):
        """The partition to which the record was sent."""
        return self._batch.partition

    def done(self):
        """Return True once the record is stored or has failed."""
        return self._batch.done

    cdef inline bint _stored(self) except -1:
        """Return True if all records of the batch are stored, which is the usual case."""
        cdef list reports = self._batch._reports
        return self._batch.done and PyList_GET_SIZE(reports) == 1 and (<tuple>reports[0])[_ERROR] is None

    def result(self, timeout=None):
        """Wait until the record is stored, and return its metadata.

        The ``offset`` of the metadata is -1 with ``acks=0``. Raises the error of the record if it failed.
        Raises KafkaTimeoutError if the result is not known after *timeout* seconds: the record may still be
        delivered. Without a *timeout*, waits for ``delivery_timeout_ms`` at most.
        """
        return self._batch.result(self._index, self._timestamp_ms, timeout)

    def exception(self, timeout=None):
        """Wait as ``result`` does. Return the error of the record if it failed, and None if it is stored."""
        return None if self._stored() else self._batch.exception(self._index, timeout)

    def add_done_callback(self, callback):
        """Call ``callback(delivery)`` once the record is stored or has failed.

        The callback runs on a thread of the producer, and an exception that it raises is logged. If the
        record is already done, the callback runs at once in this thread, and its exception is raised here.
        """
        if not self._batch.add_callback(self, callback):
            self._batch.mark_seen(self._index, self._index + 1)
            callback(self)

    def __eq__(self, other):
        if type(other) is not Delivery:
            return NotImplemented
        cdef Delivery one = <Delivery>other
        if self._batch is one._batch or self._index != one._index:
            return self._batch is one._batch and self._index == one._index
        stored = self._batch.stored_metadata(self._index, self._timestamp_ms)
        return stored is not None and stored == one._batch.stored_metadata(one._index, one._timestamp_ms)

    def __hash__(self):
        return hash((self._batch.topic, self._batch.partition, self._index))

    def __reduce__(self):
        """Return what pickle needs to restore this delivery. Raises TypeError until the record is done."""
        batch = self._batch
        report = batch.pickled_report(self._index)
        return restore_delivery, (batch.topic, batch.partition, self._index, self._timestamp_ms, report)

    def __repr__(self):
        return self._batch.describe(self._index)


(<PyTypeObject*>Delivery).tp_name = "pyklient.kernel.Delivery"


cdef class _Appending(_OpenBatches):
    """The compiled part of an Appender, which appends records."""

    cdef object _decline
    cdef object _clock_ns
    cdef object _key_encoder
    cdef object _value_encoder
    cdef object _partitioner
    # True if the user has given neither encoders nor a partitioner
    cdef bint _plain

    def __init__(self, decline, clock_ns, functions):
        self._decline = decline
        # None: the clock that is read here, without a call
        self._clock_ns = None if clock_ns is time_ns else clock_ns
        self._key_encoder, self._value_encoder, self._partitioner = functions
        self._plain = functions.none_given

    def send(
        self, topic, value, key=None, partition=None, timestamp_ms=None, headers=None, on_delivery=None
    ):
        """Append a record, with the arguments of ``Producer.send``, and return its delivery."""
        cdef _Topic known = self._latest
        if known is None or known.name is not topic:
            known = self._find(topic)
        if known is not None:
            if not self._plain:
                return _prepare(self, topic, value, key, partition, timestamp_ms, headers, on_delivery)
            delivery = self._send(known, value, key, partition, timestamp_ms, headers, on_delivery)
            if delivery is not None:
                return delivery
        return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    cdef _Topic _find(self, topic):
        """Return the topic of this name, or None. This is faster if *topic* is the same ``str`` object as in
        the last call."""
        cdef PyObject* found = PyDict_GetItemWithError(self._sendable, topic)
        if found is NULL or type(<object>found) is not _Topic:
            return None
        cdef _Topic known = <_Topic>found
        # a subclass may compare as it likes, and run code in which the topic is forgotten
        if type(topic) is str:
            known.name = topic
            self._latest = known
        return known

    cdef Delivery _send(self, _Topic known, value, key, partition, timestamp_ms, headers, on_delivery):
        cdef int64_t number
        cdef int64_t time_ms
        cdef int overflow = 0
        cdef bytes encoded = None
        if not _is_plain_record(key, value) or not (on_delivery is None or callable(on_delivery)):
            return None
        if partition is None:
            if key is None:
                number = known.sticky
            elif known.count <= 0:
                return None
            else:
                number = _murmur2(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) % known.count
        elif type(partition) is int:
            number = PyLong_AsLongLongAndOverflow(partition, &overflow)
        else:
            return None
        if timestamp_ms is None:
            time_ms = self._now()
        elif type(timestamp_ms) is int:
            time_ms = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
            if time_ms < 0:
                return None
        else:
            return None
        if overflow:
            return None
        if headers is not None:
            try:
                if _plain_size(headers) < 0:
                    return None
            except UnicodeEncodeError:
                return None  # the name of a header is no text: declining says so
            encoded = _encoded_headers(headers) if headers else None
        return self._put(known, number, value, key, time_ms, encoded, on_delivery, self.memory_limit, False)

    cdef inline int64_t _now(self) except? -1:
        cdef timespec now
        if self._clock_ns is None:
            clock_gettime(CLOCK_REALTIME, &now)
            return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000
        return self._clock_ns() // 1_000_000

    def append(
        self, topic, Py_ssize_t partition, value, key, int64_t timestamp_ms, headers, on_delivery, int64_t limit
    ):
        """Append a checked record to the batch under construction of its partition. An empty batch accepts
        any size.

        Return None if there is no such batch, if it is full, or if all batches together would need more
        memory than *limit*.
        """
        known = self._known.get(topic)
        if type(known) is not _Topic or partition >= (<_Topic>known).count:
            return None
        if not (value is None or isinstance(value, bytes)) or not (key is None or isinstance(key, bytes)):
            raise TypeError("keys and values must be bytes or None")
        encoded = _encoded_headers(headers) if headers else None
        return self._put(<_Topic>known, partition, value, key, timestamp_ms, encoded, on_delivery, limit, True)

    cdef Delivery _put(
        self,
        _Topic known,
        int64_t number,
        value,
        key,
        int64_t time_ms,
        bytes headers,
        on_delivery,
        int64_t limit,
        bint any_size,
    ):
        """Append a record, or return None if it does not fit into the batch. If *any_size*, an empty batch
        accepts every record."""
        # from here on no Python code may run
        cdef _RecordBuffer batch = _current(known, number)
        if batch is None:
            return None
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery._batch = batch
        delivery._index = batch.count
        delivery._timestamp_ms = time_ms
        if self._write(known, batch, value, key, time_ms, headers, delivery, on_delivery, limit, any_size):
            return delivery
        return None

    cdef bint _write(
        self,
        _Topic known,
        _RecordBuffer batch,
        value,
        key,
        int64_t time_ms,
        bytes headers,
        Delivery delivery,
        on_delivery,
        int64_t limit,
        bint any_size,
    ) except -1:
        """Write the record into the batch if it fits. *on_delivery* is called with *delivery*."""
        cdef Draft draft
        _point(&draft.key, &draft.key_size, key)
        _point(&draft.value, &draft.value_size, value)
        draft.headers = NO_HEADERS if headers is None else <const uint8_t*>PyBytes_AS_STRING(headers)
        draft.headers_size = 1 if headers is None else PyBytes_GET_SIZE(headers)
        return _write_draft(self, known, batch, &draft, time_ms, delivery, on_delivery, limit, any_size)


cdef inline bint _is_plain_record(key, value):
    return (value is None or type(value) is bytes) and (key is None or type(key) is bytes)


cdef inline bint _write_draft(
    _Appending appender,
    _Topic known,
    _RecordBuffer batch,
    Draft* draft,
    int64_t time_ms,
    Delivery delivery,
    on_delivery,
    int64_t limit,
    bint any_size,
) except -1:
    """Write the record of *draft* into the batch. As a function, not a method, it is inlined in loops."""
    cdef uint64_t base = <uint64_t>(batch.base_timestamp if batch.count else time_ms)
    cdef Py_ssize_t size = _measure(draft, <int64_t>(<uint64_t>time_ms - base), batch.count)
    cdef Py_ssize_t cost = 0 if on_delivery is None else _CALLBACK_COST
    cdef Py_ssize_t needed = batch.size + size, capacity = batch.capacity
    cdef int64_t free_memory = limit - (appender._charged - appender._released)
    if needed > known.batch_size and (batch.count or not any_size):
        return False
    if needed > capacity:
        capacity = _capacity(appender, known, batch, needed, free_memory - cost)
        cost += capacity - batch.capacity
    if cost > free_memory:
        return False
    if capacity > batch.capacity:
        batch._move(capacity)
    if on_delivery is not None:
        _add_callback(batch, delivery, on_delivery)
    # nothing can fail any more
    _put_record(<uint8_t*>batch.memory.block.at + batch.size, draft)
    if time_ms > batch.max_timestamp or not batch.count:
        batch.max_timestamp = time_ms
        if not batch.count:
            batch.base_timestamp = time_ms
    batch.size = needed
    batch.count += 1
    if cost:
        batch.capacity = capacity
        batch.charged += cost
        appender._charged += cost
    return True


cdef Py_ssize_t _capacity(
    _Appending appender, _Topic known, _RecordBuffer batch, Py_ssize_t needed, int64_t free_memory
) except -1:
    """Return the new capacity of *batch*, by the rule of ``open_batches.capacity_for``."""
    cdef Py_ssize_t have = batch.capacity
    cdef Py_ssize_t wanted = max(2 * have, _LEAST_CAPACITY)
    cdef int64_t share = free_memory // max(appender._open_batches, 1)
    if have >= _LARGE_CAPACITY:
        wanted = max(wanted, min(8 * have, have + share))
    elif not have:
        wanted = max(wanted, batch.expected_size if batch.expected_size <= share else share // 4)
    wanted = max(min(wanted, known.batch_size), needed)
    if wanted - have > free_memory:
        wanted = max(needed, have + max(free_memory // 2, min(free_memory, have // 2)))
    return wanted


cdef int _add_callback(_RecordBuffer batch, Delivery delivery, on_delivery) except -1:
    """Append *delivery* and *on_delivery* to the callbacks of *batch*, or neither of them if there is no
    memory."""
    cdef bint collects
    if batch._listeners is None:
        # without the garbage collector, see above
        collects = PyGC_Disable()
        try:
            batch._listeners = []
        finally:
            if collects:
                PyGC_Enable()
    cdef list callbacks = batch._listeners
    callbacks.append(delivery)
    try:
        callbacks.append(on_delivery)
    except MemoryError:
        del callbacks[PyList_GET_SIZE(callbacks) - 1]
        raise
    return 0


def call_back(list callbacks not None, failed):
    """Call ``callback(delivery)`` for each pair in *callbacks*, a list [delivery, callback, delivery,
    callback, …].

    If a callback raises an exception, ``failed(delivery)`` is called, which can get the exception from
    ``sys.exc_info()``. The caller must not use *callbacks* afterwards: the compiled kernel changes it.
    """
    cdef Py_ssize_t index = 0
    while index < PyList_GET_SIZE(callbacks):
        try:
            while index < PyList_GET_SIZE(callbacks):
                delivery = callbacks[index]
                callback = callbacks[index + 1]
                # here and now, while it is in the processor's cache
                callbacks[index] = None
                index += 2
                callback(delivery)
        except BaseException:
            failed(delivery)


cdef inline _RecordBuffer _current(_Topic known, int64_t number):
    """Return the batch under construction of partition *number* of the topic *known*; None if there is
    none."""
    cdef list batches = known.batches
    if batches is None or not 0 <= number < PyList_GET_SIZE(batches):
        return None
    found = batches[number]
    if not isinstance(found, _RecordBuffer):
        return None
    cdef _RecordBuffer batch = <_RecordBuffer>found
    if batch.sealed or batch.memory is None:
        return None
    return batch


cdef inline void _point(const uint8_t** start, Py_ssize_t* size, data):
    """Set *start* and *size* to the bytes of *data*, a key or value. If *data* is None, *size* becomes -1."""
    if data is None:
        start[0] = NULL
        size[0] = -1
    else:
        start[0] = <const uint8_t*>PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)


class Appender(_Appending, OpenBatches):
    """Appends records to batches. Safe to use from several threads.

    If ``send`` cannot append a record by itself, for example because the topic is new or the batch is full,
    it calls *decline* with the same arguments and returns the result. *clock_ns* returns the time for records
    without a timestamp, in nanoseconds since 1970. *batch_size* limits the records of a batch in bytes (a
    single record may be larger). *memory_limit* limits the memory of all batches whose records do not all
    have a result yet.

    *functions* are the user's encoders and partitioner. For a record of a known topic, ``send`` calls them
    first. If it cannot append the record after that, *decline* gets the encoded key and value, and two more
    arguments: True, and the partition that the partitioner has chosen, or None. So no function is called
    twice for a record.
    """

    __module__ = "pyklient.kernel"

    def __init__(
        self, decline, tracker, clock_ns, *, batch_size, memory_limit, functions=NO_FUNCTIONS
    ):
        OpenBatches.__init__(self, tracker, batch_size, memory_limit, _Topic, Batch)
        _Appending.__init__(self, decline, clock_ns, functions)
