# The hash codes of Java for text and for arrays of bytes. Part of _kernel.pyx.


def string_hash(text):
    """Return Java's hash of *text* (``String.hashCode``), as a signed number of 32 bits."""
    if not isinstance(text, str):
        raise TypeError(f"string_hash takes a str, not {type(text).__name__}")
    return _string_hash(text)


def array_hash(data):
    """Return Java's hash of an array of bytes (``Arrays.hashCode``), as a signed number of 32 bits."""
    return _array_hash(data if type(data) is bytes else bytes(data))


cdef inline int32_t _string_hash(text) except? -1:
    """Hash the UTF-16 units of *text*, which is a str. Java's strings consist of these units."""
    cdef uint32_t found = 0
    cdef Py_UCS4 each
    cdef uint32_t character
    for each in <str>text:
        character = <uint32_t>each
        if character > 0xFFFF:
            character -= 0x10000
            found = found * 31 + (0xD800 | character >> 10)
            character = 0xDC00 | character & 0x3FF
        found = found * 31 + character
    return <int32_t>found


cdef inline int32_t _array_hash(data) noexcept:
    """Hash *data*, which is bytes. Java's bytes have signs."""
    cdef const int8_t* at = <const int8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t index
    cdef uint32_t found = 1
    for index in range(PyBytes_GET_SIZE(data)):
        found = found * 31 + <uint32_t><int32_t>at[index]
    return <int32_t>found
