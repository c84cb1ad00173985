# Sorts the messages of a batch of the classic producer by partition. Part of _kernel.pyx.


cdef class _SortedTopic:
    """The messages of one topic."""

    # All partitions of the topic. None until a message needs them.
    cdef object partitions
    cdef Py_ssize_t count
    # The partition of messages without a key. None until such a message is found.
    cdef object keyless
    cdef dict groups

    def __cinit__(self):
        self.groups = {}


def by_partition(list given not None, list values not None, list keys, hashed, partitions, without_key, with_key):
    """Return the messages *given* by partition, as tuples (topic, partition, messages, values, keys).

    *values* and *keys* are the bytes of the messages and of their keys, in the same order. The keys are None
    if no message of the batch, or of the tuple, has a key. The tuples are in the order of their first
    messages.

    *hashed* has the classes of partition keys (bytes or str) whose hash in Java decides the partition, among
    ``partitions(topic)``. For every other partition key, ``with_key(topic, key)`` is the partition. All
    messages of a topic without a partition key go to ``without_key(topic)``.
    """
    cdef dict topics = {}
    cdef list groups = []
    cdef _SortedTopic topic = None
    cdef KeyedMessage message
    cdef tuple group
    cdef bint is_bytes, hashes_bytes = bytes in hashed, hashes_text = str in hashed
    cdef int32_t number
    cdef Py_ssize_t index
    cdef object latest = None
    if len(values) != len(given) or (keys is not None and len(keys) != len(given)):
        raise ValueError("there must be as many values and keys as messages")
    for index in range(len(given)):
        item = given[index]
        if type(item) is KeyedMessage:
            message = <KeyedMessage>item
            name = message.topic
            chosen_by = message.key if message.part_key is None else message.part_key
        else:
            name, chosen_by = item.topic, item.partition_key
        if topic is None or name is not latest:
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = _SortedTopic.__new__(_SortedTopic)
            latest = name
        is_bytes = type(chosen_by) is bytes
        if chosen_by is None:
            if topic.keyless is None:
                topic.keyless = without_key(name)
            partition = topic.keyless
        elif hashes_bytes if is_bytes else hashes_text and type(chosen_by) is str:
            if topic.partitions is None:
                topic.partitions = partitions(name)
                topic.count = len(topic.partitions)
            number = _array_hash(chosen_by) if is_bytes else _string_hash(chosen_by)
            partition = topic.partitions[_positive(number) % topic.count]
        else:
            partition = with_key(name, chosen_by)
        found = topic.groups.get(partition)
        if found is None:
            group = topic.groups[partition] = (name, partition, [], [], [])
            groups.append(group)
        else:
            group = <tuple>found
        (<list>group[2]).append(item)
        (<list>group[3]).append(values[index])
        if keys is not None:
            (<list>group[4]).append(keys[index])
    return [(*group[:4], group[4] if _has_keys(<list>group[4]) else None) for group in groups]


cdef inline int32_t _positive(int32_t number) noexcept:
    """Return the absolute value of *number*; 0 for the smallest number, which has none in 32 bits, as in Java."""
    if number == INT32_MIN:
        return 0
    return -number if number < 0 else number


cdef inline bint _has_keys(list keys) noexcept:
    for key in keys:
        if key is not None:
            return True
    return False
