# The checksum of batches, CRC-32C. Part of _kernel.pyx.
#
# The processor has an instruction for it. It takes three cycles, but another one can begin in each cycle. So data that
# is long enough is read as three lanes side by side: the checksum of each lane is computed, and then moved over the
# lanes after it. A table says what each byte of a checksum becomes when the zeros of a lane follow. Longer lanes are
# slower if the data is not in the processor's cache: then it is no longer loaded ahead.

cdef extern from *:
    """
    #include <string.h>
    #if defined(__x86_64__)
    #define pyklient_has_crc() __builtin_cpu_supports("sse4.2")
    #define PYKLIENT_CRC_CODE __attribute__((target("sse4.2")))
    #define pyklient_crc_64 __builtin_ia32_crc32di
    #define pyklient_crc_8 __builtin_ia32_crc32qi
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define pyklient_has_crc() 1
    #define PYKLIENT_CRC_CODE
    #define pyklient_crc_64 __crc32cd
    #define pyklient_crc_8 __crc32cb
    #else
    #define pyklient_has_crc() 0
    #define PYKLIENT_CRC_CODE
    #define pyklient_crc_64(crc, word) (crc)
    #define pyklient_crc_8(crc, byte) (crc)
    #endif

    #define PYKLIENT_LANE 256
    static uint32_t pyklient_lane_table[4][256];

    PYKLIENT_CRC_CODE static void pyklient_fill_lane_table(void) {
        memset(pyklient_lane_table, 0, sizeof pyklient_lane_table);
        for (int bit = 0; bit < 32; bit++) {
            uint64_t crc = (uint32_t)1 << bit;
            for (int at = 0; at < PYKLIENT_LANE; at += 8)
                crc = pyklient_crc_64(crc, 0);
            for (int byte = 0; byte < 256; byte++)
                if (byte >> (bit & 7) & 1)
                    pyklient_lane_table[bit >> 3][byte] ^= (uint32_t)crc;
        }
    }

    static inline uint64_t pyklient_crc_after_lane(uint64_t crc) {
        return pyklient_lane_table[0][crc & 255] ^ pyklient_lane_table[1][crc >> 8 & 255]
            ^ pyklient_lane_table[2][crc >> 16 & 255] ^ pyklient_lane_table[3][crc >> 24 & 255];
    }

    PYKLIENT_CRC_CODE static uint32_t pyklient_crc32c(uint32_t before, const uint8_t* at, Py_ssize_t size) {
        uint64_t crc = (uint32_t)~before, word;
        for (; size >= 3 * PYKLIENT_LANE; at += 2 * PYKLIENT_LANE, size -= 3 * PYKLIENT_LANE) {
            uint64_t second = 0, third = 0, words[3];
            for (const uint8_t* end = at + PYKLIENT_LANE; at < end; at += 8) {
                memcpy(&words[0], at, 8);
                memcpy(&words[1], at + PYKLIENT_LANE, 8);
                memcpy(&words[2], at + 2 * PYKLIENT_LANE, 8);
                crc = pyklient_crc_64(crc, words[0]);
                second = pyklient_crc_64(second, words[1]);
                third = pyklient_crc_64(third, words[2]);
            }
            crc = pyklient_crc_after_lane(pyklient_crc_after_lane(crc) ^ second) ^ third;
        }
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&word, at, 8);
            crc = pyklient_crc_64(crc, word);
        }
        for (; size; at++, size--)
            crc = pyklient_crc_8((uint32_t)crc, *at);
        return ~(uint32_t)crc;
    }
    """
    bint pyklient_has_crc() noexcept nogil
    void pyklient_fill_lane_table() noexcept nogil
    uint32_t pyklient_crc32c(uint32_t before, const uint8_t* at, Py_ssize_t size) noexcept nogil


if pyklient_has_crc():
    pyklient_fill_lane_table()

cdef Py_ssize_t _LONG_CRC = 256 << 10


def crc32c(data not None, uint32_t crc=0):
    """Return the CRC-32C of *data*. If *data* is the continuation of other bytes, *crc* is the checksum of these."""
    cdef Py_buffer view
    if not pyklient_has_crc():
        return checksum.crc32c(data, crc)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < _LONG_CRC:
            return pyklient_crc32c(crc, <const uint8_t*>view.buf, view.len)
        with nogil:
            crc = pyklient_crc32c(crc, <const uint8_t*>view.buf, view.len)
        return crc
    finally:
        PyBuffer_Release(&view)
