"""Zigzag varints on raw memory: the C counterpart of ``varints``."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum Fault:
    NO_FAULT = 0
    CUT_OFF = 1
    BEYOND_32_BITS = 2
    BEYOND_64_BITS = 3
    BEYOND_TIME = 4
    NEGATIVE_LENGTH = 5
    NEGATIVE_DELTA = 6
    NEGATIVE_KEY = 7
    NEGATIVE_VALUE = 8
    NEGATIVE_COUNT = 9
    NEGATIVE_NAME = 10
    NEGATIVE_HEADER = 11
    WRONG_LENGTH = 12
    # no fault of the bytes: what is read has nowhere to go
    NO_ROOM = 13


cdef struct Cursor:
    # What is left to read. Every read compares the two first.
    const uint8_t* at
    const uint8_t* end


cdef extern from *:
    """
    #define pyklient_bits(number) (64 - __builtin_clzll((number) | 1))
    """
    int pyklient_bits(uint64_t number) noexcept nogil


cdef inline Fault read_folded(Cursor* cursor, uint64_t* folded, int bits) noexcept nogil:
    cdef uint64_t number = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < bits:
        if cursor.at >= cursor.end:
            return CUT_OFF
        byte = cursor.at[0]
        cursor.at += 1
        if shift == 63 and byte > 1 and byte < 0x80:
            break
        number |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if bits == 32 and number >> 32:
                break
            folded[0] = number
            return NO_FAULT
        shift += 7
    return BEYOND_32_BITS if bits == 32 else BEYOND_64_BITS


cdef inline int64_t unfold(uint64_t folded) noexcept nogil:
    return <int64_t>(folded >> 1) ^ -<int64_t>(folded & 1)


cdef inline uint64_t fold(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


cdef inline Py_ssize_t size_of(uint64_t folded) noexcept nogil:
    """Return the number of bytes that ``put`` writes: a seventh of the number's bits, rounded up."""
    return (pyklient_bits(folded) * 9 + 64) >> 6


cdef inline uint8_t* put(uint8_t* at, uint64_t folded) noexcept nogil:
    """Write the varint of *folded* at the address *at*. Return the address after it."""
    if folded < 0x80:
        at[0] = <uint8_t>folded
        return at + 1
    if folded < 0x4000:
        at[0] = <uint8_t>(folded | 0x80)
        at[1] = <uint8_t>(folded >> 7)
        return at + 2
    while folded >= 0x80:
        at[0] = <uint8_t>(folded | 0x80)
        at += 1
        folded >>= 7
    at[0] = <uint8_t>folded
    return at + 1
