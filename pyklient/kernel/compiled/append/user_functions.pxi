# Calling the encoders and the partitioner of the user. Part of _kernel.pyx.


cdef object _prepare(
    _Appending appender, topic, value, key, partition, timestamp_ms, headers, on_delivery
):
    """Call the user's functions for a record, and then append the record. The functions may call any
    method of the producer, so the topic is looked up again after each of them."""
    if appender._key_encoder is not None:
        key = _encoded("key", appender._key_encoder, key)
    if appender._value_encoder is not None:
        value = _encoded("value", appender._value_encoder, value)
    cdef _Topic known = _looked_up(appender, topic)
    cdef Py_ssize_t count
    cdef object chosen = None
    if (
        known is not None
        and known.count > 0
        and partition is None
        and appender._partitioner is not None
        and _is_plain_record(key, value)
    ):
        count = known.count
        number = appender._partitioner(topic, key, count)
        if type(number) is int and 0 <= number < count:
            chosen = number
        else:
            chosen = checked_partition(topic, number, count)
        known = _looked_up(appender, topic)
    if known is not None:
        number = chosen if partition is None else partition
        delivery = appender._send(known, value, key, number, timestamp_ms, headers, on_delivery)
        if delivery is not None:
            return delivery
    return appender._decline(
        topic, value, key, partition, timestamp_ms, headers, on_delivery, True, chosen
    )


cdef inline _Topic _looked_up(_Appending appender, topic):
    cdef _Topic known = appender._latest
    return known if known is not None and known.name is topic else appender._find(topic)


cdef inline object _encoded(str what, encoder, given):
    """Return what *encoder* makes of *given*, a key or value: bytes or None."""
    data = encoder(given)
    return data if data is None or type(data) is bytes else encoded_bytes(what, given, data)
