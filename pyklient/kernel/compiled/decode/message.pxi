# Message, and making messages of parsed records. Part of _kernel.pyx.

# no_gc: a collection for every 700 messages costs three times as much as decoding them. What is never freed is a
# message that a decoder's own object refers back to.
@cython.final
@cython.freelist(1024)
@cython.no_gc
cdef class Message:
    """A record that was read from a topic. It is immutable.

    ``timestamp_ms`` is in milliseconds since 1970; -1 means no timestamp. ``timestamp_type`` is 0 if the
    producer set the timestamp (CreateTime), 1 if the broker did (LogAppendTime), and -1 in record format 0,
    which has no timestamps. ``key`` and ``value`` are bytes or None, or the result of a decoder. ``headers``
    are (name, value) pairs.
    """

    cdef readonly object topic
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly int32_t partition
    cdef readonly int8_t timestamp_type

    def __init__(
        self,
        topic,
        partition,
        offset,
        timestamp_ms,
        timestamp_type,
        key,
        value,
        headers=(),
    ):
        self.topic = topic
        # With index_of, because a plain conversion would accept floats.
        self.partition = index_of(partition)
        self.offset = index_of(offset)
        self.timestamp_ms = index_of(timestamp_ms)
        self.timestamp_type = index_of(timestamp_type)
        self.key = key
        self.value = value
        self.headers = headers

    def __setattr__(self, name, value):
        raise AttributeError(f"a Message cannot be changed; its {name} cannot be set")

    def __delattr__(self, name):
        raise AttributeError(f"a Message cannot be changed; its {name} cannot be deleted")

    def __eq__(self, other):
        if type(other) is not Message:
            return NotImplemented
        return _all_fields(self) == _all_fields(<Message>other)

    def __hash__(self):
        # Without the value: the result of a decoder need not be hashable.
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self):
        return (
            f"Message(topic={self.topic!r}, partition={self.partition!r}, offset={self.offset!r}, "
            f"timestamp_ms={self.timestamp_ms!r}, timestamp_type={self.timestamp_type!r}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return restore_message, _all_fields(self)


cdef tuple _all_fields(Message message):
    return (
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.timestamp_type,
        message.key,
        message.value,
        message.headers,
    )


cdef PyMemberDef _MEMBERS[8]
cdef int _shown = 0


cdef int _show_members(type shown, example, tuple names, int flags) except -1:
    """Halve the cost of reading the attributes *names* of the class *shown*, which are objects.

    The interpreter reads a member at its offset without a call, like a slot of a Python class. ``readonly``
    makes a property, which is called each time. The offsets are searched for in *example*, whose attributes
    are different objects. *flags* are those of the members.
    """
    global _shown
    cdef PyTypeObject* kind = <PyTypeObject*>shown
    cdef void** words = <void**><PyObject*>example
    cdef Py_ssize_t at
    for name in names:
        value = getattr(example, name)
        for at in range(kind.tp_basicsize // <Py_ssize_t>sizeof(void*)):
            if words[at] == <void*>value:
                _MEMBERS[_shown].name = PyUnicode_AsUTF8AndSize(name, NULL)
                _MEMBERS[_shown].type = T_OBJECT_EX
                _MEMBERS[_shown].offset = at * sizeof(void*)
                _MEMBERS[_shown].flags = flags
                (<dict>kind.tp_dict)[name] = PyDescr_NewMember(kind, &_MEMBERS[_shown])
                _shown += 1
                break
    PyType_Modified(kind)
    return 0


_show_members(
    Message, Message(object(), 0, 0, 0, 0, object(), object(), object()), ("topic", "key", "value", "headers"), READONLY
)

# Pickles and tracebacks name the class by the package, whichever kernel is in use.
(<PyTypeObject*>Message).tp_name = "pyklient.kernel.Message"


def make_messages(topic, int32_t partition, int8_t timestamp_type, columns):
    """Return one message for each record in *columns*, whose keys and values may have been decoded."""
    offsets, timestamps, keys, values, headers = columns
    cdef dict with_headers = headers
    cdef list messages = []
    cdef Message message
    for offset, timestamp, key, value in zip(offsets, timestamps, keys, values):
        message = Message.__new__(Message)
        message.topic = topic
        message.partition = partition
        message.offset = offset
        message.timestamp_ms = timestamp
        message.timestamp_type = timestamp_type
        message.key = key
        message.value = value
        message.headers = ()
        messages.append(message)
    for index, of_one in with_headers.items():
        if index < len(messages):
            (<Message>messages[index]).headers = of_one
    return messages
