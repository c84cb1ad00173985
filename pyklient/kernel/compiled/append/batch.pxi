# The C half of Batch: its records, and how their results are stored. Part of _kernel.pyx.


_tuple_new = tuple.__new__


cdef class _RecordBuffer:
    """The compiled part of a Batch: its records. The public attributes are those of DeliveryState, kept here
    because every append and every Delivery reads them."""

    cdef public object topic
    cdef public object partition
    cdef public double created
    cdef _Memory memory
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef public int64_t charged
    # how many bytes of memory its records have, used or not
    cdef readonly Py_ssize_t capacity
    # the size that the batch will probably get
    cdef readonly Py_ssize_t expected_size
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef public bint sealed
    cdef public bint done
    cdef public object failure_round
    cdef public object _tracker
    # None until they are needed: most batches need none of them, and what a batch holds costs the garbage collector
    # as much as the batch itself.
    cdef list _waiters
    cdef list _listeners
    cdef set _watched
    cdef public list _reports
    cdef public Py_ssize_t _unreported
    cdef public bint _has_failures

    def __init__(self, tracker, topic, partition, double created, Py_ssize_t expected_size=0):
        # as DeliveryState does it
        self.topic = topic
        self.partition = partition
        self.created = created
        self.failure_round = 0
        self._tracker = tracker
        self._reports = []
        self._unreported = -1
        self.memory = _Memory.__new__(_Memory)
        self.expected_size = expected_size
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.charged = BATCH_COST

    @property
    def waiters(self):
        if self._waiters is None:
            self._waiters = []
        return self._waiters

    @property
    def _callbacks(self):
        if self._listeners is None:
            self._listeners = []
        return self._listeners

    @property
    def _seen(self):
        if self._watched is None:
            self._watched = set()
        return self._watched

    @_seen.setter
    def _seen(self, set indexes not None):
        self._watched = indexes

    def payload(self):
        """Return the records of a sealed batch as bytes: what follows the header in a batch of format 2."""
        if self.memory is None or not self.size:
            return b""
        self.memory.used = self.size
        return memoryview(self.memory)

    def release_records(self):
        """Free the memory of a sealed batch's records. Bytes that ``payload`` has returned stay valid."""
        self.memory = None

    def report(self, Py_ssize_t first, Py_ssize_t stop, base_offset, timestamp_ms, error):
        """Store the result of the records *first* to *stop* - 1, as ``DeliveryState.report`` does."""
        cdef list callbacks, waiters
        report = _tuple_new(DeliveryReport, (first, stop, base_offset, timestamp_ms, error))
        with self._tracker.lock:
            if self._unreported < 0:
                self._unreported = (<object>self).count
            self._reports.append(report)
            if error is not None:
                self._has_failures = True
            self._unreported -= stop - first
            if self._unreported:
                return None
            if PyList_GET_SIZE(self._reports) > 1:
                self._reports.sort()
            self.done = True
            callbacks, self._listeners = self._listeners, None
            if callbacks is None:
                callbacks = []
            if self._has_failures:
                (<object>self)._count_unseen(callbacks)
            waiters, self._waiters = self._waiters, None
        (<object>self).release_records()
        if waiters is not None:
            for wake in waiters:
                wake()
        return callbacks

    cdef int _move(self, Py_ssize_t capacity) except -1:
        """Move the records to memory for *capacity* bytes. If a payload refers to the old memory, _Memory
        keeps it until the payload is gone, and only then uses it for another batch."""
        cdef _Memory larger = _Memory.__new__(_Memory)
        larger.reserve(capacity)
        if self.size:
            memcpy(larger.block.at, self.memory.block.at, self.size)
        self.memory = larger
        return 0


class Batch(_RecordBuffer, DeliveryState):
    """The records of one batch: under construction at first, then ``sealed``, then ``done``."""

    __module__ = "pyklient.kernel"

    # _RecordBuffer makes it whole: DeliveryState.__init__ would set each attribute once more.
    __init__ = _RecordBuffer.__init__
