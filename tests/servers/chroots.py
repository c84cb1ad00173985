"""Parts of a real ZooKeeper that only one test uses."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient

__all__ = ["connected", "new_chroot"]


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    """Yield a session of kazoo with the ZooKeeper at *address*."""
    client = KazooClient(address)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def new_chroot(hosts: str) -> str:
    """Create an empty node in the ZooKeeper at *hosts*. Return the address with this node as the chroot."""
    path = f"/{uuid.uuid4().hex}"
    with connected(hosts) as client:
        client.create(path)
    return f"{hosts}{path}"
