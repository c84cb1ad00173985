# Memory that grows while it is written and is then read as a buffer. Part of _kernel.pyx.
#
# A page that is touched for the first time costs more than copying what goes into it, and malloc gives blocks of
# this size back to the system each time. So a few that are done with are kept for the next chunk, response or
# batch. The GIL guards them: whoever lets go of a buffer last holds it.

cdef struct Block:
    void* at
    Py_ssize_t size


DEF _BLOCKS = 24

cdef struct Shelf:
    # Idle blocks, the latest last. Those of columns have one of their own: there are so many of them that they
    # would push out what holds whole responses.
    Block blocks[_BLOCKS]
    Py_ssize_t count
    Py_ssize_t bytes
    Py_ssize_t most

cdef Shelf _small
cdef Shelf _large
_small.most = 8 << 20
_large.most = 48 << 20
cdef Py_ssize_t _WORTH_KEEPING = 16 << 10
cdef Py_ssize_t _LARGE = 2 << 20
# No system has so much; below it, no step and no doubling overflows.
cdef Py_ssize_t _TOO_MUCH = <Py_ssize_t>(<size_t>-1 >> 4)


cdef inline Shelf* _shelf_for(Py_ssize_t size) noexcept:
    return &_large if size >= _LARGE else &_small


cdef Block _take_block(Py_ssize_t size) noexcept:
    """At least *size* bytes, at NULL where there are none; an idle block if one is not much larger."""
    cdef Block block
    cdef Shelf* shelf
    cdef Py_ssize_t step
    cdef Py_ssize_t index
    if size >= _TOO_MUCH:
        block.at = NULL
        block.size = 0
        return block
    if size >= _WORTH_KEEPING:
        # Of few sizes, so that the next one that is about as large fits; not many bytes more, since what is idle is
        # counted: a response is a little over 16 MiB.
        step = _WORTH_KEEPING >> 4
        while step << 4 < size:
            step <<= 1
        size = (size + step - 1) // step * step
        shelf = _shelf_for(size)
        for index in range(shelf.count - 1, -1, -1):
            block = shelf.blocks[index]
            if size <= block.size <= 2 * size:
                _forget_block(shelf, index)
                return block
    block.at = malloc(size)
    block.size = size
    return block


cdef void _forget_block(Shelf* shelf, Py_ssize_t index) noexcept:
    shelf.count -= 1
    shelf.bytes -= shelf.blocks[index].size
    memmove(&shelf.blocks[index], &shelf.blocks[index + 1], sizeof(Block) * (shelf.count - index))


cdef void _give_block(Block block) noexcept:
    """Done with: kept, with the latest others, or freed."""
    cdef Shelf* shelf = _shelf_for(block.size)
    if block.size < _WORTH_KEEPING or block.size > shelf.most:
        free(block.at)
        return
    while shelf.count == _BLOCKS or shelf.bytes + block.size > shelf.most:
        free(shelf.blocks[0].at)
        _forget_block(shelf, 0)
    shelf.blocks[shelf.count] = block
    shelf.count += 1
    shelf.bytes += block.size


@cython.final
cdef class _Memory:
    """Bytes that grow until they are finished. What has not been written to is not initialized."""

    cdef Block block
    cdef Py_ssize_t used
    cdef Py_ssize_t views
    cdef bint writable

    def __dealloc__(self):
        if self.block.at is not NULL:
            _give_block(self.block)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.block.at, self.used, not self.writable, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.views -= 1

    cdef void* room(self, Py_ssize_t size) except NULL:
        """Where *size* bytes and more fit; what is there already stays. Grows by doubling. Raises BufferError
        as long as anybody looks at it, as an array does: what it moves away from is used again."""
        cdef Block block
        if self.views:
            raise BufferError("cannot resize an array that is exporting buffers")
        if self.block.at is NULL or size > self.block.size:
            block = _take_block(max(size, 2 * self.block.size, 64))
            if block.at is NULL:
                raise MemoryError
            if self.block.at is not NULL:
                memcpy(block.at, self.block.at, self.block.size)
                _give_block(self.block)
            self.block = block
        return self.block.at

    cdef object finish(self, Py_ssize_t size, kind):
        """The first *size* bytes, for good, seen as numbers of this *kind*."""
        cdef void* smaller
        self.room(size)
        # Not for less: a smaller block would not do for the next chunk, which asks for as much as this one had.
        if size < self.block.size >> 1 and self.block.size >= _WORTH_KEEPING:
            smaller = realloc(self.block.at, max(size, 64))
            if smaller is not NULL:
                self.block.at, self.block.size = smaller, max(size, 64)
        self.used = size
        return memoryview(self).cast(kind) if kind != "B" else memoryview(self)


def microseconds(milliseconds not None, Py_ssize_t start, Py_ssize_t stop):
    """The numbers from *start* up to *stop* of a column of milliseconds, in microseconds; None where one of
    them does not fit."""
    cdef const int64_t[::1] column = milliseconds
    cdef _Memory fresh = _Memory.__new__(_Memory)
    cdef int64_t* converted
    cdef Py_ssize_t index
    cdef bint fits = True
    if not 0 <= start <= stop <= column.shape[0]:
        raise IndexError(f"rows {start} to {stop} of {column.shape[0]}")
    converted = <int64_t*>fresh.room(sizeof(int64_t) * (stop - start))
    for index in range(start, stop):
        fits &= -_MOST_MILLISECONDS <= column[index] <= _MOST_MILLISECONDS
        converted[index - start] = <int64_t>(<uint64_t>column[index] * 1000)
    return fresh.finish(sizeof(int64_t) * (stop - start), "q") if fits else None


def memory(Py_ssize_t size):
    """*size* bytes to write to. What is in them before that is not defined."""
    cdef _Memory fresh = _Memory.__new__(_Memory)
    if size < 0:
        raise ValueError("negative count")
    fresh.room(size)
    fresh.used = size
    fresh.writable = True
    return memoryview(fresh)
