"""The options of the clients, as frozen dataclasses. ``option_declarations`` declares each option once."""

from pyklient.config.bootstrap_servers import DEFAULT_SERVERS
from pyklient.config.option_declarations.common_options import AdminConfig, ClientConfig
from pyklient.config.option_declarations.consumer_options import NOT_READ, ConsumerConfig
from pyklient.config.option_declarations.producer_options import HasPartition, ProducerConfig

__all__ = [
    "DEFAULT_SERVERS",
    "NOT_READ",
    "AdminConfig",
    "ClientConfig",
    "ConsumerConfig",
    "HasPartition",
    "ProducerConfig",
]
