"""Free ports on the loopback interface."""

import os
import random
import socket

__all__ = ["HOST", "free_port"]

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 20_000, 32_000
_SHARES = 4
_issued: set[int] = set()
_random = random.SystemRandom()


def free_port() -> int:
    """Return a port that nobody uses. This process, or two processes that test at the same time, never get it
    twice.

    It lies below the range from which the system chooses the ports of outgoing connections: a client that
    reconnects to a broker which is down must neither occupy its port nor, on loopback, connect to itself.
    """
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _SHARES
    for _ in range(1000):
        port = _random.randrange(_LOWEST + share, _HIGHEST, _SHARES)
        if port in _issued:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        _issued.add(port)
        return port
    raise OSError(f"no free port between {_LOWEST} and {_HIGHEST}")
