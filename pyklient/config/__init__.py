"""The options of the clients, as frozen dataclasses. ``option_declarations`` declares each option once.

The options of consumers are imported when they are first used, so a process that only sends does not import
them.
"""

from typing import TYPE_CHECKING

from pyklient.config.bootstrap_servers import DEFAULT_SERVERS
from pyklient.config.option_declarations.common_options import AdminConfig, ClientConfig
from pyklient.config.option_declarations.producer_options import HasPartition, ProducerConfig
from pyklient.lazy_imports import on_first_use

if TYPE_CHECKING:
    from pyklient.config.option_declarations.consumer_options import NOT_READ, ConsumerConfig

__all__ = [
    "DEFAULT_SERVERS",
    "NOT_READ",
    "AdminConfig",
    "ClientConfig",
    "ConsumerConfig",
    "HasPartition",
    "ProducerConfig",
]

if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    _CONSUMERS = "pyklient.config.option_declarations.consumer_options"
    __getattr__ = on_first_use(globals(), {"NOT_READ": _CONSUMERS, "ConsumerConfig": _CONSUMERS})
