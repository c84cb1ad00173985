"""The options of the clients, as frozen dataclasses. Each option is declared once, in ``…_options.py``."""

from pyklient.config.bootstrap_servers import DEFAULT_SERVERS
from pyklient.config.client_options import AdminConfig, ClientConfig
from pyklient.config.consumer_options import NOT_READ, ConsumerConfig
from pyklient.config.producer_options import HasPartition, ProducerConfig

__all__ = [
    "DEFAULT_SERVERS",
    "NOT_READ",
    "AdminConfig",
    "ClientConfig",
    "ConsumerConfig",
    "HasPartition",
    "ProducerConfig",
]
