# Memory that grows while it is written and is then read as a buffer. Part of _kernel.pyx.
#
# Touching a page for the first time costs more than copying data into it, and malloc returns blocks of this size to
# the system each time. So a few unused blocks are kept for the next chunk, response or batch. The GIL guards them:
# the thread that releases a buffer holds it.

cdef struct Block:
    void* at
    Py_ssize_t size


DEF _BLOCKS = 24

cdef struct BlockPool:
    # Idle blocks, the latest last. Small blocks have a pool of their own: columns use so many of them that they
    # would push out the large blocks of responses.
    Block blocks[_BLOCKS]
    Py_ssize_t count
    Py_ssize_t bytes
    Py_ssize_t most

cdef BlockPool _small
cdef BlockPool _large
_small.most = 8 << 20
_large.most = 48 << 20
cdef Py_ssize_t _WORTH_KEEPING = 16 << 10
cdef Py_ssize_t _LARGE = 2 << 20
# No system has so much memory; below it, no step and no doubling overflows.
cdef Py_ssize_t _TOO_MUCH = <Py_ssize_t>(<size_t>-1 >> 4)


cdef inline BlockPool* _pool_for(Py_ssize_t size) noexcept:
    return &_large if size >= _LARGE else &_small


cdef Block _allocate_block(Py_ssize_t size) noexcept:
    """Return a block of at least *size* bytes: an idle block if it is not much larger. Its address is NULL if
    there is no memory."""
    cdef Block block
    cdef BlockPool* pool
    cdef Py_ssize_t step
    cdef Py_ssize_t index
    if size >= _TOO_MUCH:
        block.at = NULL
        block.size = 0
        return block
    if size >= _WORTH_KEEPING:
        # Few different sizes, so that the next request of about this size fits. Not many bytes more, because idle
        # memory is limited: a response takes a little over 16 MiB.
        step = _WORTH_KEEPING >> 4
        while step << 4 < size:
            step <<= 1
        size = (size + step - 1) // step * step
        pool = _pool_for(size)
        for index in range(pool.count - 1, -1, -1):
            block = pool.blocks[index]
            if size <= block.size <= 2 * size:
                _forget_block(pool, index)
                return block
    block.at = malloc(size)
    block.size = size
    return block


cdef void _forget_block(BlockPool* pool, Py_ssize_t index) noexcept:
    pool.count -= 1
    pool.bytes -= pool.blocks[index].size
    memmove(&pool.blocks[index], &pool.blocks[index + 1], sizeof(Block) * (pool.count - index))


cdef void _release_block(Block block) noexcept:
    """Keep a block that is no longer used, together with the latest others, or free it."""
    cdef BlockPool* pool = _pool_for(block.size)
    if block.size < _WORTH_KEEPING or block.size > pool.most:
        free(block.at)
        return
    while pool.count == _BLOCKS or pool.bytes + block.size > pool.most:
        free(pool.blocks[0].at)
        _forget_block(pool, 0)
    pool.blocks[pool.count] = block
    pool.count += 1
    pool.bytes += block.size


@cython.final
cdef class _Memory:
    """Bytes whose number grows until they are finished. Their content is undefined until it is written."""

    cdef Block block
    cdef Py_ssize_t used
    cdef Py_ssize_t views
    cdef bint writable

    def __dealloc__(self):
        if self.block.at is not NULL:
            _release_block(self.block)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.block.at, self.used, not self.writable, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer* buffer):
        self.views -= 1

    cdef void* reserve(self, Py_ssize_t size) except NULL:
        """Return memory for at least *size* bytes, which keeps its content. The memory grows by doubling.

        Raises BufferError while buffers are exported, as an array does, because the old block is used again.
        """
        cdef Block block
        if self.views:
            raise BufferError("cannot resize an array that is exporting buffers")
        if self.block.at is NULL or size > self.block.size:
            block = _allocate_block(max(size, 2 * self.block.size, 64))
            if block.at is NULL:
                raise MemoryError
            if self.block.at is not NULL:
                memcpy(block.at, self.block.at, self.block.size)
                _release_block(self.block)
            self.block = block
        return self.block.at

    cdef object finish(self, Py_ssize_t size, kind):
        """Return the first *size* bytes, as numbers of this *kind*. They do not change any more."""
        cdef void* smaller
        self.reserve(size)
        # Only if much is unused: the next chunk asks for as much as this one, and a smaller block would not fit it.
        if size < self.block.size >> 1 and self.block.size >= _WORTH_KEEPING:
            smaller = realloc(self.block.at, max(size, 64))
            if smaller is not NULL:
                self.block.at, self.block.size = smaller, max(size, 64)
        self.used = size
        return memoryview(self).cast(kind) if kind != "B" else memoryview(self)


def microseconds(milliseconds not None, Py_ssize_t start, Py_ssize_t stop):
    """Convert the numbers *start* to *stop* - 1 of a column from milliseconds to microseconds.

    Return None if a result needs more than 64 bits.
    """
    cdef const int64_t[::1] column = milliseconds
    cdef _Memory fresh = _Memory.__new__(_Memory)
    cdef int64_t* converted
    cdef Py_ssize_t index
    cdef bint fits = True
    if not 0 <= start <= stop <= column.shape[0]:
        raise IndexError(f"rows {start} to {stop} do not exist: the column has {column.shape[0]} rows")
    converted = <int64_t*>fresh.reserve(sizeof(int64_t) * (stop - start))
    for index in range(start, stop):
        fits &= -_MOST_MILLISECONDS <= column[index] <= _MOST_MILLISECONDS
        converted[index - start] = <int64_t>(<uint64_t>column[index] * 1000)
    return fresh.finish(sizeof(int64_t) * (stop - start), "q") if fits else None


def memory(Py_ssize_t size):
    """Return *size* writable bytes. Their content is undefined until something is written."""
    cdef _Memory fresh = _Memory.__new__(_Memory)
    if size < 0:
        raise ValueError("negative count")
    fresh.reserve(size)
    fresh.used = size
    fresh.writable = True
    return memoryview(fresh)
