# EventBuffer, the messages in the queue of a classic producer, and the method that adds to them. Part of
# _kernel.pyx.
#
# The GIL makes a call atomic here: no Python code may run between the first look at the events and their last
# change, and so nothing may be allocated there that the garbage collector tracks.


cdef object _NOTHING = object()


@cython.final
cdef class EventBuffer:
    """The events of a bounded queue, in order. Each call is atomic. *lock* is not used by this kernel.

    ``EventSender.send`` adds messages only if the queue has at most ``limit`` events afterwards. ``add`` adds
    events until the queue has *capacity* events.
    """

    cdef public Py_ssize_t limit
    cdef Py_ssize_t _capacity
    # A ring with a reference to each event. It grows, and its size is a power of 2. The garbage collector does not
    # see these references, so a long queue does not make each of its collections longer.
    cdef PyObject** _ring
    cdef Py_ssize_t _size
    cdef Py_ssize_t _first
    cdef Py_ssize_t _count

    def __init__(self, Py_ssize_t capacity, lock):
        self._capacity = self.limit = capacity

    def __dealloc__(self):
        while self._count:
            Py_XDECREF(self._taken())
        PyMem_RawFree(self._ring)

    def __len__(self):
        return self._count

    cdef inline int _append(self, event) except -1:
        if self._count == self._size:
            self._grow()
        Py_INCREF(event)
        self._ring[self._first + self._count & self._size - 1] = <PyObject*>event
        self._count += 1
        return 0

    cdef int _grow(self) except -1:
        cdef Py_ssize_t size = 2 * self._size or 64
        cdef Py_ssize_t index
        cdef PyObject** ring = <PyObject**>PyMem_RawCalloc(size, sizeof(PyObject*))
        if ring is NULL:
            raise MemoryError()
        for index in range(self._count):
            ring[index] = self._ring[self._first + index & self._size - 1]
        PyMem_RawFree(self._ring)
        self._ring, self._size, self._first = ring, size, 0
        return 0

    cdef inline PyObject* _taken(self) noexcept:
        """Remove the oldest event, and return it with the reference of the ring."""
        cdef PyObject* event = self._ring[self._first]
        self._first = self._first + 1 & self._size - 1
        self._count -= 1
        return event

    def add(self, events):
        """Add *events* in order, until the queue is full. Return how many were added."""
        cdef list all_events = list(events)
        cdef Py_ssize_t index, added = min(PyList_GET_SIZE(all_events), max(self._capacity - self._count, 0))
        for index in range(added):
            self._append(all_events[index])
        return added

    def drain(self, Py_ssize_t most):
        """Remove at most *most* of the oldest events and return them as a list."""
        cdef Py_ssize_t index, count = min(self._count, max(most, 0))
        cdef list drained = PyList_New(count)
        if count > self._count:  # the garbage collector has run, and with it a thread that drained events
            return self.drain(most)
        for index in range(count):
            _store(<PyObject*>drained, index, self._taken())
        return drained

    def hold_below(self, Py_ssize_t count):
        """Set ``limit`` to *count* - 1, and return True. If the queue has *count* events or more already,
        change nothing, and return False."""
        if self._count >= count:
            return False
        self.limit = count - 1
        return True


(<PyTypeObject*>EventBuffer).tp_name = "pyklient.kernel.EventBuffer"


cdef class EventSender:
    """The base class of ClassicProducer. It adds KeyedMessages to ``_buffer``, and passes everything else to
    ``_send_slowly(*messages)``, a method of the subclass. ``_buffer`` is None if every message has to be passed
    to that method."""

    cdef public EventBuffer _buffer

    # ``send(*messages)``: with one message, which is usual, no tuple is made.
    def send(self, message=_NOTHING, /, *more):
        """Send *messages*: KeyedMessages, or ProducerData in the profile 0.7.

        A synchronous producer raises the error of its event handler, such as FailedToSendMessageError. An
        asynchronous producer only puts the messages into its queue, one after the other. While the queue is
        full, the call waits as long as the properties say. If there is still no space for a message, the call
        raises QueueFullError: the messages before this message are queued, and this message and the messages
        after it are not.

        Raises TypeError for anything that is not a message, ProducerClosedError after ``close``
        (QueueClosedError in the profile 0.7, if the producer is asynchronous), and ForkError in the child of
        a fork.
        """
        cdef EventBuffer buffer = self._buffer
        cdef tuple messages
        if type(message) is KeyedMessage and not more and buffer is not None and buffer._count < buffer.limit:
            buffer._append(message)
            return
        messages = () if message is _NOTHING else (message, *more)
        if buffer is None or buffer._count + len(messages) > buffer.limit:
            return self._send_slowly(*messages)
        for message in messages:
            if type(message) is not KeyedMessage:
                return self._send_slowly(*messages)
        for message in messages:
            buffer._append(message)


(<PyTypeObject*>EventSender).tp_name = "pyklient.kernel.EventSender"
