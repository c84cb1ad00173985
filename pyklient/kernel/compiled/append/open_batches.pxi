# The topics of an Appender, and their batches under construction: the part of OpenBatches that runs once per batch.
# Part of _kernel.pyx.


cdef class _Topic:
    """A topic to which records can be appended, with the batch under construction of each partition."""

    cdef public Py_ssize_t batch_size
    cdef public Py_ssize_t count
    cdef public Py_ssize_t sticky
    cdef public int64_t sticky_bytes
    cdef public list batches
    cdef public list expected_sizes
    # as it was called when it was looked up last
    cdef object name

    def __init__(self, Py_ssize_t batch_size):
        self.batch_size = batch_size
        self.sticky_bytes = _NEVER_CHOSEN
        self.batches = []
        self.expected_sizes = []


cdef class _OpenBatches:
    """The compiled part of OpenBatches. The public attributes are those of OpenBatches, kept here because every
    append reads them. The methods behave as those of the same names there."""

    cdef public int64_t memory_limit
    cdef public int64_t _charged
    cdef public int64_t _released
    cdef public Py_ssize_t _open_batches
    cdef public dict _known
    cdef public dict _sendable
    cdef public _Topic _latest
    cdef public object _lock
    cdef public object _tracker

    @property
    def used_memory(self):
        return self._charged - self._released

    def partition_count(self, topic):
        cdef PyObject* found = PyDict_GetItemWithError(self._known, topic)
        return 0 if found is NULL else (<_Topic?><object>found).count

    def sticky_partition(self, topic):
        cdef PyObject* found = PyDict_GetItemWithError(self._known, topic)
        return 0 if found is NULL else (<_Topic?><object>found).sticky

    def set_sticky_partition(self, topic, Py_ssize_t partition):
        cdef PyObject* found = PyDict_GetItemWithError(self._known, topic)
        if found is not NULL and partition < (<_Topic?><object>found).count:
            (<_Topic><object>found).sticky = partition
            (<_Topic><object>found).sticky_bytes = 0

    def sticky_bytes(self, topic):
        cdef PyObject* found = PyDict_GetItemWithError(self._known, topic)
        return 0 if found is NULL else (<_Topic?><object>found).sticky_bytes

    def current_batch(self, topic, Py_ssize_t partition):
        return self._open_batch(topic, partition)

    cdef object _open_batch(self, topic, Py_ssize_t partition):
        cdef PyObject* found = PyDict_GetItemWithError(self._known, topic)
        if found is NULL or not 0 <= partition < (<_Topic?><object>found).count:
            return None
        return (<_Topic><object>found).batches[partition]

    def begin_batch(self, topic, Py_ssize_t partition, double created, announce=None):
        cdef PyObject* found
        cdef _Topic known
        with self._lock:
            found = PyDict_GetItemWithError(self._known, topic)
            if found is NULL or not 0 <= partition < (<_Topic?><object>found).count:
                return None
            known = <_Topic><object>found
            before = known.batches[partition]
            batch = Batch(
                self._tracker,
                topic,
                partition,
                created,
                known.expected_sizes[partition] if before is None else _expected_size(before),
            )
            if announce is not None:
                announce(batch)
            self._released -= _BATCH_COST
            if known.batches[partition] is not before:
                return None
            if before is not None:
                before.sealed = True
                if partition == known.sticky:
                    known.sticky_bytes += before.size
            known.batches[partition] = batch
            self._open_batches += before is None
            return batch

    def seal_batch(self, batch):
        cdef _Topic known
        with self._lock:
            batch.sealed = True
            partition = batch.partition
            if self._open_batch(batch.topic, partition) is batch:
                known = self._known[batch.topic]
                known.batches[partition] = None
                known.expected_sizes[partition] = _expected_size(batch)
                if partition == known.sticky:
                    known.sticky_bytes += batch.size
                self._open_batches -= 1

    def release_memory(self, int64_t amount):
        # atomic, as every change of these numbers here: nothing lets go of the GIL
        self._released = min(self._released + amount, self._charged)


cdef inline Py_ssize_t _expected_size(batch) except -1:
    """Return the size that the batch after *batch* will probably get, as ``open_batches`` does."""
    return max(<Py_ssize_t>batch.size, <Py_ssize_t>batch.expected_size // 2)
