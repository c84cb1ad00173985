# Records on their way out: the C half of Batch and Appender, and Delivery. Part of _kernel.pyx.
#
# The GIL makes a call atomic here. So nothing between the first look at a batch and the last number written
# into it may run Python code, and that includes allocating what the garbage collector tracks: it may run,
# and with it a finalizer that sends.


cdef class _Topic:
    """A topic that records can be appended to: the batch under construction of each partition."""

    cdef public Py_ssize_t batch_size
    cdef public Py_ssize_t count
    cdef public Py_ssize_t sticky
    cdef public list batches
    # as it was called when it was looked up last
    cdef object name

    def __init__(self, Py_ssize_t batch_size):
        self.batch_size = batch_size
        self.batches = []


cdef class _Filling:
    """The kernel's half of a Batch: what it holds."""

    cdef readonly object topic
    cdef readonly object partition
    cdef _Memory memory
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef public int64_t charged
    # how many bytes of memory its records have, used or not
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef public bint closed
    cdef public bint done
    cdef public list _listeners
    cdef public list _outcomes

    def __init__(self, topic, partition):
        self.topic = topic
        self.partition = partition
        self.memory = _Memory.__new__(_Memory)
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.charged = BATCH_COST
        self._listeners = []
        self._outcomes = []

    def payload(self):
        """The records section of a batch of format 2, for a batch that is closed."""
        if self.memory is None or not self.size:
            return b""
        self.memory.used = self.size
        return memoryview(self.memory)

    def let_go(self):
        """Forget its records, for a batch that is closed; who has got its payload keeps that."""
        self.memory = None

    cdef int _move(self, Py_ssize_t capacity) except -1:
        """Move to memory for *capacity* bytes. What a payload refers to stays where it is until that is gone, and
        only then is used for another batch: that is up to _Memory."""
        cdef _Memory larger = _Memory.__new__(_Memory)
        larger.room(capacity)
        if self.size:
            memcpy(larger.block.at, self.memory.block.at, self.size)
        self.memory = larger
        return 0


class Batch(Settlement, _Filling):
    """Records of one partition: under construction, then ``closed``, then ``done``.

    It is done once, for all its records, though parts of it may have been settled one by one. ``created``
    is in the accumulator's monotonic seconds.
    """

    __module__ = "pyklient.kernel"

    def __init__(self, desk, topic, partition, created):
        Settlement.__init__(self, desk, created)
        _Filling.__init__(self, topic, partition)


DEF _ERROR = 4  # its place in an Outcome


# no_gc: it refers to its batch, and the batch to it only until its outcome is known.
# nonecheck: one that Delivery.__new__ alone has made has no batch.
@cython.final
@cython.nonecheck(True)
@cython.freelist(1024)
@cython.no_gc
cdef class Delivery:
    """What becomes of one record that was sent. Light: a handle on its batch, and safe in any thread.

    It need not be kept. A failure that nobody looks at here, and that no callback is told, is raised by
    ``flush``, ``close`` or the end of the ``with`` block.
    """

    cdef _Filling _batch
    cdef Py_ssize_t _index
    cdef int64_t _timestamp_ms

    def __init__(self, _Filling batch not None, Py_ssize_t index, int64_t timestamp_ms):
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def place(self):
        """Its batch, and its place there."""
        return self._batch, self._index

    @property
    def topic(self):
        """The topic it was sent to."""
        return self._batch.topic

    @property
    def partition(self):
        """The partition it was sent to."""
        return self._batch.partition

    def done(self):
        """Whether the outcome is known."""
        return self._batch.done

    cdef inline bint _stored(self) except -1:
        """Whether it is stored, together with its whole batch: what nearly every record is asked for."""
        cdef list outcomes = self._batch._outcomes
        return self._batch.done and PyList_GET_SIZE(outcomes) == 1 and (<tuple>outcomes[0])[_ERROR] is None

    def result(self, timeout=None):
        """Where the record is stored, as soon as that is known.

        ``offset`` is -1 with ``acks=0``. Raises what ``exception`` returns, and KafkaTimeoutError where the
        outcome is not known after *timeout* seconds: the record may still be delivered. Without a
        *timeout* it takes ``delivery_timeout_ms`` at most.
        """
        return self._batch.result(self._index, self._timestamp_ms, timeout)

    def exception(self, timeout=None):
        """Why the record could not be delivered; None if it was. Waits, and times out, as ``result`` does."""
        return None if self._stored() else self._batch.exception(self._index, timeout)

    def add_done_callback(self, callback):
        """Call ``callback(delivery)`` when the outcome is known: on a thread of the producer's, or here if
        it is known already. What it raises is logged, or raised here and now."""
        if not self._batch.listen(self, callback):
            self._batch.see(self._index, self._index + 1)
            callback(self)

    def __eq__(self, other):
        if type(other) is not Delivery:
            return NotImplemented
        cdef Delivery one = <Delivery>other
        if self._batch is one._batch or self._index != one._index:
            return self._batch is one._batch and self._index == one._index
        stored = self._batch.stored(self._index, self._timestamp_ms)
        return stored is not None and stored == one._batch.stored(one._index, one._timestamp_ms)

    def __hash__(self):
        return hash((self._batch.topic, self._batch.partition, self._index))

    def __reduce__(self):
        """Of a record whose outcome is known. Raises TypeError before that."""
        batch = self._batch
        carried = batch.carried(self._index)
        return restore_delivery, (batch.topic, batch.partition, self._index, self._timestamp_ms, carried)

    def __repr__(self):
        return self._batch.describe(self._index)


(<PyTypeObject*>Delivery).tp_name = "pyklient.kernel.Delivery"


cdef class _Appending:
    """The kernel's half of an Appender: it takes records in."""

    cdef public int64_t limit
    cdef public int64_t _taken
    cdef public int64_t _freed
    cdef public dict _known
    cdef public dict _topics
    cdef public _Topic _latest
    cdef object _decline
    cdef object _clock_ns

    def __init__(self, decline, clock_ns, plain, limit):
        self.limit = limit
        self._decline = decline
        # None: the clock that is read here, without a call
        self._clock_ns = None if clock_ns is time_ns else clock_ns
        self._known = {}
        self._topics = self._known if plain else {}

    def send(
        self, topic, value, key=None, partition=None, timestamp_ms=None, headers=None, on_delivery=None
    ):
        """See Producer.send."""
        cdef _Topic known = self._latest
        if known is None or known.name is not topic:
            known = self._find(topic)
        if (
            known is not None
            and (on_delivery is None or callable(on_delivery))
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
        ):
            delivery = self._send(known, value, key, partition, timestamp_ms, headers, on_delivery)
            if delivery is not None:
                return delivery
        return self._decline(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    cdef _Topic _find(self, topic):
        """The topic of this name, or None; it is found sooner when the same object asks for it next."""
        cdef PyObject* found = PyDict_GetItemWithError(self._topics, topic)
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
        return self._put(known, number, value, key, time_ms, encoded, on_delivery, self.limit, False)

    cdef inline int64_t _now(self) except? -1:
        cdef timespec now
        if self._clock_ns is None:
            clock_gettime(CLOCK_REALTIME, &now)
            return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000
        return self._clock_ns() // 1_000_000

    def append(
        self, topic, Py_ssize_t partition, value, key, int64_t timestamp_ms, headers, on_delivery, int64_t limit
    ):
        """Append to the batch under construction; to an empty one whatever the size. None where that is
        impossible: there is none, it is full, or it would take more memory than *limit*. For records that
        have been checked."""
        known = self._known.get(topic)
        if type(known) is not _Topic or partition >= (<_Topic>known).count:
            return None
        if not (value is None or isinstance(value, bytes)) or not (key is None or isinstance(key, bytes)):
            raise TypeError("keys and values are bytes or None")
        encoded = _encoded_headers(headers) if headers else None
        return self._put(<_Topic>known, partition, value, key, timestamp_ms, encoded, on_delivery, limit, True)

    def append_many(self, topic, partition, values, Py_ssize_t start):
        """Append ``values[start:]`` to the batch under construction of *partition*, of the sticky one if that
        is None, without keys and headers, as long as they are plain bytes and fit. Returns the batch and the
        first and last + 1 of their places in it; None where ``send`` has to see to the next one."""
        cdef list plain = values if type(values) is list else list(values)
        cdef PyObject* found = PyDict_GetItemWithError(self._topics, topic)
        if found is NULL or type(<object>found) is not _Topic:
            return None
        cdef _Topic known = <_Topic>found
        cdef Py_ssize_t number = known.sticky if partition is None else partition
        cdef int64_t time_ms = self._now()
        cdef _Filling batch = _current(known, number)
        if batch is None or start < 0:
            return None
        cdef Py_ssize_t first = batch.count
        cdef Py_ssize_t index
        for index in range(start, len(plain)):
            value = plain[index]
            if type(value) is not bytes or not self._write(
                known, batch, value, None, time_ms, None, None, None, self.limit, False
            ):
                break
        return (batch, first, batch.count) if batch.count > first else None

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
        """One record, or None. *any_size*: into an empty batch, however large it is."""
        # from here on no Python code may run
        cdef _Filling batch = _current(known, number)
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
        _Filling batch,
        value,
        key,
        int64_t time_ms,
        bytes headers,
        Delivery delivery,
        on_delivery,
        int64_t limit,
        bint any_size,
    ) except -1:
        """Write the record into the batch, if it fits. *delivery* is for *on_delivery*, where there is one."""
        cdef Draft draft
        _point(&draft.key, &draft.key_size, key)
        _point(&draft.value, &draft.value_size, value)
        draft.headers = NO_HEADERS if headers is None else <const uint8_t*>PyBytes_AS_STRING(headers)
        draft.headers_size = 1 if headers is None else PyBytes_GET_SIZE(headers)
        return _write_draft(self, known, batch, &draft, time_ms, delivery, on_delivery, limit, any_size)


cdef inline bint _write_draft(
    _Appending appender,
    _Topic known,
    _Filling batch,
    Draft* draft,
    int64_t time_ms,
    Delivery delivery,
    on_delivery,
    int64_t limit,
    bint any_size,
) except -1:
    """See ``_write``: no method, so that the loops that call it have it inline."""
    cdef uint64_t base = <uint64_t>(batch.base_timestamp if batch.count else time_ms)
    cdef Py_ssize_t size = _measure(draft, <int64_t>(<uint64_t>time_ms - base), batch.count)
    cdef Py_ssize_t cost = 0 if on_delivery is None else _LISTENER_COST
    cdef Py_ssize_t needed = batch.size + size, capacity = batch.capacity
    cdef int64_t free_memory = limit - (appender._taken - appender._freed)
    if needed > known.batch_size and (batch.count or not any_size):
        return False
    if needed > capacity:
        capacity = _capacity(capacity, needed, known, free_memory - cost)
        cost += capacity - batch.capacity
    if cost > free_memory:
        return False
    if capacity > batch.capacity:
        batch._move(capacity)
    if on_delivery is not None:
        _listen(batch._listeners, delivery, on_delivery)
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
        appender._taken += cost
    return True


cdef inline Py_ssize_t _capacity(Py_ssize_t have, Py_ssize_t needed, _Topic known, int64_t free_memory) except -1:
    """See ``topic_table.capacity_for``."""
    cdef Py_ssize_t wanted = max(2 * have, _LEAST_CAPACITY)
    if have >= _LARGE_CAPACITY:
        wanted = max(wanted, min(8 * have, have + free_memory // (4 * max(known.count, 1))))
    wanted = max(min(wanted, known.batch_size), needed)
    if wanted - have > free_memory:
        wanted = max(needed, have + free_memory // 2)
    return wanted


cdef inline int _listen(list listeners, Delivery delivery, on_delivery) except -1:
    """Both, or neither where there is no memory."""
    listeners.append(delivery)
    try:
        listeners.append(on_delivery)
    except MemoryError:
        del listeners[PyList_GET_SIZE(listeners) - 1]
        raise
    return 0


def call_back(list listeners not None, failed):
    """Call each callback with the delivery before it. For one that raises, ``failed(delivery)`` is called
    while that is handled. *listeners* has nothing of use in it afterwards."""
    cdef Py_ssize_t index = 0
    while index < PyList_GET_SIZE(listeners):
        try:
            while index < PyList_GET_SIZE(listeners):
                delivery = listeners[index]
                callback = listeners[index + 1]
                # here and now, while it is in the processor's cache
                listeners[index] = None
                index += 2
                callback(delivery)
        except BaseException:
            failed(delivery)


cdef inline _Filling _current(_Topic known, int64_t number):
    """The batch to append to, or None."""
    cdef list batches = known.batches
    if batches is None or not 0 <= number < PyList_GET_SIZE(batches):
        return None
    found = batches[number]
    if not isinstance(found, _Filling):
        return None
    cdef _Filling batch = <_Filling>found
    if batch.closed or batch.memory is None or batch._listeners is None:
        return None
    return batch


cdef inline void _point(const uint8_t** start, Py_ssize_t* size, data):
    """To the bytes of a key or value, which is bytes or None."""
    if data is None:
        start[0] = NULL
        size[0] = -1
    else:
        start[0] = <const uint8_t*>PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)


class Appender(Register, _Appending):
    """Takes records into batches. Safe to use from several threads.

    *decline* gets the arguments of a ``send`` that is no plain append. With *plain* False that is every
    one: keys and values need encoders, or a partitioner of the user's chooses. *clock_ns* gives the time
    for records without one, in nanoseconds since 1970; *batch_size* bounds the records of a batch in bytes
    (one record may be larger), *limit* the memory of all batches that are not done yet.
    """

    __module__ = "pyklient.kernel"

    def __init__(self, decline, desk, clock_ns, *, plain, batch_size, limit):
        Register.__init__(self, desk, batch_size, _Topic, Batch)
        _Appending.__init__(self, decline, clock_ns, plain, limit)
