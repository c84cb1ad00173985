"""The locks of a connection. No other module of ``net/`` makes locks.

A thread takes them in this order:

0. The call lock of a BrokerChannel: held from the first request of a call to its last response.
1. The turn lock: held by an ``ask`` that sends and receives in its own thread, while there is no reader.
2. The sending lock: keeps the requests of several threads in order. If a thread that must not wait has sent a
   part of a request, the lock passes to the thread that sends the remainder.
3. The state lock: guards the correlation ids and the requests in flight. No thread holds it while it waits
   for the network.
4. The TLS lock: held while OpenSSL encrypts or decrypts. No thread holds it while it waits for the network.
"""

from threading import Lock

__all__ = ["new_call_lock", "new_sending_lock", "new_state_lock", "new_tls_lock", "new_turn_lock"]


def new_call_lock() -> Lock:
    """Return a new call lock, which keeps the calls of several threads on one BrokerChannel apart."""
    call_lock: Lock = Lock()
    return call_lock


def new_turn_lock() -> Lock:
    """Return a new turn lock, which an ``ask`` holds while it sends and receives in its own thread."""
    turn_lock: Lock = Lock()
    return turn_lock


def new_sending_lock() -> Lock:
    """Return a new sending lock, which keeps the requests of several threads in order."""
    sending_lock: Lock = Lock()
    return sending_lock


def new_state_lock() -> Lock:
    """Return a new state lock, which guards the correlation ids and the requests in flight of a
    connection."""
    state_lock: Lock = Lock()
    return state_lock


def new_tls_lock() -> Lock:
    """Return a new TLS lock, which is held while OpenSSL encrypts or decrypts."""
    tls_lock: Lock = Lock()
    return tls_lock
