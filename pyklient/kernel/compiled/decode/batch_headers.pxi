# The headers of batches. Part of _kernel.pyx.
#
# A plain batch is a batch of format 2 that needs nothing but its bytes: it is whole, and its header and checksum are
# right. If it is compressed, a library decompresses it. All other batches, the damaged ones among them, are left to
# BatchReader, which raises the errors.

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define pyklient_prefetch __builtin_prefetch
    #else
    #define pyklient_prefetch(at) ((void)0)
    #endif
    """
    void pyklient_prefetch(const void* at) noexcept nogil


DEF _HEADER_SIZE = 61
DEF _OVERHEAD = 12
DEF _ATTRIBUTES_AT = 21
DEF _CRC_AT = 17
DEF _CODEC_BITS = 0x07
DEF _STAMPED = 0x08
DEF _TRANSACTIONAL = 0x10
DEF _CONTROL = 0x20
DEF _ABORT = 0


cdef struct Header:
    # The header of a batch of format 2, and where its records end.
    const uint8_t* records
    const uint8_t* end
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t count
    int attributes
    uint32_t crc


cdef struct Reading:
    # How far plain batches were read, and what is asked of them.
    const uint8_t* at
    const uint8_t* end
    int64_t next_offset
    int64_t nbytes
    bint check_crcs
    # no batch below this offset belongs to an aborted transaction, and no abort marker below it matters
    int64_t none_aborted_below


cdef enum Kind:
    PLAIN
    # plain, but compressed
    COMPRESSED
    # nothing to read in it
    EMPTY
    OTHER


cdef inline uint32_t _big_32(const uint8_t* at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline int64_t _big_64(const uint8_t* at) noexcept nogil:
    return <int64_t>(<uint64_t>_big_32(at) << 32 | _big_32(at + 4))


cdef inline Kind _read_header(const Reading* reading, Header* header) noexcept nogil:
    """Read the header of the batch that begins where *reading* is, and check it and the batch's checksum."""
    cdef const uint8_t* at = reading.at
    cdef int64_t size
    cdef int64_t last_delta
    cdef int marker
    if reading.end - at < _HEADER_SIZE or at[16] != 2:
        return OTHER
    size = <int32_t>_big_32(at + 8) + _OVERHEAD
    if size < _HEADER_SIZE or size > reading.end - at:
        return OTHER
    header.records = at + _HEADER_SIZE
    header.end = at + size
    header.crc = _big_32(at + _CRC_AT)
    header.attributes = <int>at[21] << 8 | at[22]
    last_delta = <int32_t>_big_32(at + 23)
    header.base_offset = _big_64(at)
    header.base_timestamp = _big_64(at + 27)
    header.max_timestamp = _big_64(at + 35)
    header.count = <int32_t>_big_32(at + 57)
    if header.base_offset < 0 or last_delta < 0 or header.count < 0:
        return OTHER
    if pyklient_add_overflows(header.base_offset, last_delta + 1, &header.last_offset):
        return OTHER
    header.last_offset -= 1
    if header.last_offset < reading.next_offset:
        return EMPTY
    if reading.check_crcs:
        if not pyklient_has_crc() or pyklient_crc32c(0, at + _ATTRIBUTES_AT, size - _ATTRIBUTES_AT) != header.crc:
            return OTHER
    if not header.count:
        return EMPTY
    if header.attributes & _CONTROL:
        marker = _marker_type(header)
        if marker < 0 or (marker == _ABORT and header.last_offset >= reading.none_aborted_below):
            return OTHER
        return EMPTY
    if header.attributes & _TRANSACTIONAL and header.last_offset >= reading.none_aborted_below:
        return OTHER
    if header.attributes & _CODEC_BITS:
        return COMPRESSED
    return OTHER if header.count > (header.end - header.records) // 7 else PLAIN


cdef Py_ssize_t _LONG_BATCH = 64 << 10


cdef inline Kind _read_batch(const Reading* reading, Header* header) noexcept:
    """Do what ``_read_header`` does. Without the GIL if the batch is long, so that the fetcher's thread can receive the
    next response while the checksum is computed: a thread that waits for the GIL otherwise waits for 5 ms."""
    cdef Kind kind
    if not reading.check_crcs or reading.end - reading.at < _LONG_BATCH or _big_32(reading.at + 8) < _LONG_BATCH:
        return _read_header(reading, header)
    with nogil:
        kind = _read_header(reading, header)
    return kind


cdef inline void _pass_batch(Reading* reading, const Header* header) noexcept nogil:
    """Continue after the batch of *header*."""
    reading.at = header.end
    if header.last_offset >= reading.next_offset:
        reading.next_offset = header.last_offset + 1


cdef Py_ssize_t _batch_end(const uint8_t* start, Py_ssize_t size, Py_ssize_t position) except -1:
    """Return the position after the batch or entry at *position*; 0 if it is not whole. Raises the error of
    ``batch_end``."""
    cdef const uint8_t* at = start + position
    cdef int64_t length
    cdef int8_t magic
    if size - position < 17:
        return 0
    length = <int32_t>_big_32(at + 8)
    magic = <int8_t>at[16]
    if position + _OVERHEAD + length > size:
        return 0
    if not 0 <= magic <= 2 or length + _OVERHEAD < (26 if magic == 0 else 34 if magic == 1 else _HEADER_SIZE):
        raise not_a_batch(magic, length)
    return position + _OVERHEAD + length


cdef inline int32_t _leader_epoch(const uint8_t* at) noexcept nogil:
    return -1 if at[16] < 2 else <int32_t>_big_32(at + 12)


cdef object _offset_after(const uint8_t* at):
    """Return the offset after the batch or entry at *at*."""
    return _big_64(at) + <object>(0 if at[16] < 2 else <int32_t>_big_32(at + 23)) + 1


DEF _AHEAD = 1024
DEF _CACHE_LINE = 64


cdef inline void _load_ahead(const uint8_t* at) noexcept nogil:
    """Have the processor load memory a little after *at*, which may be beyond the end of the batches.

    Each batch says where the next one begins. Without this, a walk over small batches waits for memory at each.
    """
    pyklient_prefetch(<const void*>(<size_t>at + _AHEAD))
    pyklient_prefetch(<const void*>(<size_t>at + _AHEAD + _CACHE_LINE))
    pyklient_prefetch(<const void*>(<size_t>at + _AHEAD + 2 * _CACHE_LINE))


def whole_batches(records not None):
    """Return the whole batches in *records*, in runs of one leader epoch. The list is empty if there is none.

    If *records* contain bytes that are not a batch, only the batches before these bytes are returned. Raises
    CorruptRecordError if *records* begin with such bytes.
    """
    cdef const uint8_t[::1] view = records
    cdef Py_ssize_t size = view.shape[0]
    if not size:
        return []
    cdef const uint8_t* start = &view[0]
    cdef Py_ssize_t last = 0
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t end
    try:
        while True:
            end = _batch_end(start, size, position)
            if not end:
                break
            _load_ahead(start + end)
            last, position = position, end
    except CorruptRecordError:
        if not position:
            raise
    if not position:
        return []
    cdef int32_t epoch = _leader_epoch(start)
    if epoch == _leader_epoch(start + last):
        # Leader epochs never fall from one batch to the next, so those in between are the same.
        return [BatchRun(0, position, _offset_after(start + last), epoch)]
    cdef list runs = []
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t at = 0
    size = position
    while at < size:
        end = _batch_end(start, size, at)
        if end == size or _leader_epoch(start + end) != _leader_epoch(start + at):
            runs.append(BatchRun(begin, end, _offset_after(start + at), _leader_epoch(start + at)))
            begin = end
        at = end
    return runs


cdef inline void _put_big(uint8_t* at, int size, uint64_t number) noexcept nogil:
    """Write *number* in *size* bytes, the highest byte first."""
    while size:
        size -= 1
        at[size] = <uint8_t>number
        number >>= 8


def batch_header(
    payload not None,
    *,
    int32_t count,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int16_t compression=0,
    int64_t base_offset=0,
    last_offset_delta=None,
    int timestamp_type=0,
    int64_t producer_id=-1,
    int16_t producer_epoch=-1,
    int32_t base_sequence=-1,
    bint transactional=False,
    bint control=False,
    int32_t partition_leader_epoch=-1,
):
    """Return the header of a batch of format 2, as the function of the same name in ``batch_header`` does."""
    cdef uint8_t header[_HEADER_SIZE]
    cdef int32_t last_delta = count - 1 if last_offset_delta is None else last_offset_delta
    cdef int attributes = compression | _STAMPED * (timestamp_type == 1)
    attributes |= _TRANSACTIONAL * transactional | _CONTROL * control
    _put_big(header, 8, base_offset)
    _put_big(header + 8, 4, _HEADER_SIZE - _OVERHEAD + len(payload))
    _put_big(header + 12, 4, partition_leader_epoch)
    header[16] = 2
    _put_big(header + _ATTRIBUTES_AT, 2, attributes)
    _put_big(header + 23, 4, last_delta)
    _put_big(header + 27, 8, base_timestamp)
    _put_big(header + 35, 8, max_timestamp)
    _put_big(header + 43, 8, producer_id)
    _put_big(header + 51, 2, producer_epoch)
    _put_big(header + 53, 4, base_sequence)
    _put_big(header + 57, 4, count)
    covered = PyBytes_FromStringAndSize(<const char*>header + _ATTRIBUTES_AT, _HEADER_SIZE - _ATTRIBUTES_AT)
    _put_big(header + _CRC_AT, 4, crc32c(payload, crc32c(covered)))
    return PyBytes_FromStringAndSize(<const char*>header, _HEADER_SIZE)
