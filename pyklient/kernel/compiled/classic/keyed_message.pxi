# KeyedMessage, and the loops over the messages of a batch of the classic producer. Part of _kernel.pyx.


# A message of bytes and text cannot be part of a cycle, so the garbage collector need not know it. If it knew
# every message, its collections would cost as much as all the rest of sending. Each message that does not come from
# the free list brings the next collection nearer, so the list has room for the messages of a large batch.
@cython.freelist(16384)
@cython.trashcan(True)
@cython.auto_pickle(False)
cdef class KeyedMessage:
    """A message for *topic*, with a key and a partition key, which may both be None.

    The message and the key are stored, after the encoders have turned them into bytes. The partition key only
    decides the partition. Without a partition key, the key decides the partition. Key and partition key must
    be passed by keyword, because their order differs from Kafka's constructor, where they precede the
    message.
    """

    # copyreg reads these names: so a KeyedMessage is pickled like the one of the Python kernel.
    __slots__ = ("key", "message", "part_key", "topic")

    cdef readonly object topic
    cdef readonly object message
    cdef readonly object key
    cdef readonly object part_key

    def __init__(self, topic, message, *, key=None, part_key=None):
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a KeyedMessage must be a str, not {topic!r}")
        self.topic = topic
        self.message = message
        self.key = key
        self.part_key = part_key
        if (
            type(self) is KeyedMessage
            and type(topic) is str
            and _is_plain(message)
            and _is_plain(key)
            and _is_plain(part_key)
        ):
            PyObject_GC_UnTrack(<PyObject*>self)
        elif not PyObject_GC_IsTracked(self):  # __init__ is called once more
            PyObject_GC_Track(<PyObject*>self)

    # The members of the class are read-only. They would not tell the garbage collector of a new value.
    def __setattr__(self, name, value):
        if not PyObject_GC_IsTracked(self):
            PyObject_GC_Track(<PyObject*>self)
        if name not in KeyedMessage.__slots__ or getattr(type(self), name) is not getattr(KeyedMessage, name):
            PyObject_GenericSetAttr(self, name, <PyObject*>value)
        elif name == "topic":
            self.topic = value
        elif name == "message":
            self.message = value
        elif name == "key":
            self.key = value
        else:
            self.part_key = value

    def __delattr__(self, name):
        if name in KeyedMessage.__slots__:
            raise AttributeError(f"the {name} of a KeyedMessage cannot be deleted")
        PyObject_GenericSetAttr(self, name, NULL)

    @property
    def partition_key(self):
        """The object that decides the partition: the partition key, or the key if there is no partition
        key."""
        return self.key if self.part_key is None else self.part_key

    def __eq__(self, other):
        if not isinstance(other, KeyedMessage):
            return NotImplemented
        cdef KeyedMessage one = <KeyedMessage>other
        return (self.topic, self.message, self.key, self.part_key) == (
            one.topic,
            one.message,
            one.key,
            one.part_key,
        )

    __hash__ = None

    def __repr__(self):
        part = "" if self.part_key is None else f", part_key={self.part_key!r}"
        return f"KeyedMessage({self.topic!r}, {self.message!r}, key={self.key!r}{part})"


cdef inline bint _is_plain(value) noexcept:
    return value is None or type(value) is bytes or type(value) is str or type(value) is int


cdef object _new_message(PyObject* kind, PyObject** arguments, size_t flags, PyObject* names):
    """Make the result of ``KeyedMessage(...)``. A usual call with a topic, a value and keys needs no tuple and
    no dict of arguments."""
    cdef KeyedMessage message
    cdef Py_ssize_t index, count = PyVectorcall_NARGS(flags)
    if count == 2 and type(<object>arguments[0]) is str:
        message = KeyedMessage.__new__(KeyedMessage)
        message.topic = <object>arguments[0]
        message.message = <object>arguments[1]
        if names is NULL or _set_keys(message, <tuple>names, arguments + count):
            if _is_plain(message.message) and _is_plain(message.key) and _is_plain(message.part_key):
                PyObject_GC_UnTrack(<PyObject*>message)
            return message
    cdef tuple positional = tuple([<object>arguments[index] for index in range(count)])
    cdef dict named = None
    if names is not NULL:
        named = {name: <object>arguments[count + index] for index, name in enumerate(<tuple>names)}
    return (<PyTypeObject*>type).tp_call(<object>kind, positional, NULL if named is None else <PyObject*>named)


cdef inline bint _set_keys(KeyedMessage message, tuple names, PyObject** values) except -1:
    """Store the key and the partition key. Return False if *names* has any other name."""
    cdef Py_ssize_t index
    for index in range(len(names)):
        if names[index] == "key":
            message.key = <object>values[index]
        elif names[index] == "part_key":
            message.part_key = <object>values[index]
        else:
            return False
    return True


# A subclass does not inherit this function.
(<PyTypeObject*>KeyedMessage).tp_vectorcall = <vectorcallfunc>_new_message
_show_members(KeyedMessage, KeyedMessage("0", "1", key="2", part_key="3"), ("topic", "message", "key", "part_key"), READONLY)
(<PyTypeObject*>KeyedMessage).tp_name = "pyklient.kernel.KeyedMessage"


def by_topic(messages):
    """Return messages without keys by topic, as tuples (topic, messages, values).

    Return None if one of *messages* is no KeyedMessage, has a key or a partition key, or if its value is
    neither bytes nor None.
    """
    cdef list items = <list>messages if type(messages) is list else list(messages)
    cdef list groups = _of_one_topic(items)
    return _by_topic(items) if groups is None else groups


cdef list _of_one_topic(list items):
    """Return what ``by_topic`` returns, if all *items* have the same topic. Return None otherwise."""
    cdef KeyedMessage message
    cdef Py_ssize_t index, count = PyList_GET_SIZE(items)
    cdef list values = PyList_New(count)
    cdef object topic = items  # which is not the topic of any message
    # From here on no code of Python runs, so the list does not change.
    if PyList_GET_SIZE(items) != count:
        return None
    for index in range(count):
        item = items[index]
        if type(item) is not KeyedMessage:
            return None
        message = <KeyedMessage>item
        if message.topic is not topic:
            if type(message.topic) is not str or (index and message.topic != topic):
                return None
            topic = message.topic
        value = message.message
        if message.key is not None or message.part_key is not None:
            return None
        if value is not None and type(value) is not bytes:
            return None
        Py_INCREF(value)
        _store(<PyObject*>values, index, <PyObject*>value)
    return [(topic, items, values)] if count else []


cdef list _by_topic(list items):
    cdef list given, values, groups = []
    cdef KeyedMessage message
    cdef dict known = {}
    cdef object topic = items  # which is not the topic of any message
    for item in items:
        if type(item) is not KeyedMessage:
            return None
        message = <KeyedMessage>item
        value = message.message
        if message.key is not None or message.part_key is not None:
            return None
        if value is not None and type(value) is not bytes:
            return None
        if message.topic is not topic:
            topic = message.topic
            if type(topic) is not str:
                return None
            group = known.get(topic)
            if group is None:
                group = known[topic] = (topic, [], [])
                groups.append(group)
            given, values = <list>(<tuple>group)[1], <list>(<tuple>group)[2]
        given.append(message)
        values.append(value)
    return groups


def plain_bytes(messages, bint keeps_keys):
    """Return the values and the keys of *messages*. The keys are None if no message has a key.

    Return None if one of *messages* is no KeyedMessage, if a value or a key is neither bytes nor None, or if
    there is a key and *keeps_keys* is false.
    """
    cdef list values = []
    cdef list keys = []
    cdef bint has_keys = False
    cdef KeyedMessage message
    cdef list items = <list>messages if type(messages) is list else list(messages)
    for item in items:
        if type(item) is not KeyedMessage:
            return None
        message = <KeyedMessage>item
        value, key = message.message, message.key
        if value is not None and type(value) is not bytes:
            return None
        if key is not None:
            if type(key) is not bytes or not keeps_keys:
                return None
            has_keys = True
        values.append(value)
        keys.append(key)
    return values, keys if has_keys else None


def count_within(list values not None, list keys, Py_ssize_t begin, int64_t most, int64_t overhead):
    """Return how many records, from the index *begin* on, have at most *most* bytes together.

    A record has the bytes of its value and of its key, and *overhead* bytes. *keys* are in the order of
    *values*; None if no record has a key.
    """
    cdef Py_ssize_t index
    for index in range(begin, len(values)):
        most -= overhead + _length(values[index])
        if keys is not None:
            most -= _length(keys[index])
        if most < 0:
            return index - begin
    return max(0, len(values) - begin)


cdef inline Py_ssize_t _length(value) except -1:
    if value is None:
        return 0
    _check_bytes(value)
    return PyBytes_GET_SIZE(value)
