"""A 4.3.1 broker behind TLS and SASL, with listeners whose certificates a client must refuse."""

from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.ports import HOST
from tests.servers.reaper import Reaper
from tests.servers.tls import Certificates

__all__ = ["PASSWORD", "USER", "address", "secure_broker"]

USER, PASSWORD = "alice", "correct-horse"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LISTENERS = {
    "SECURE": "SASL_SSL",
    "PLAINSASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SASL_SSL",
    "ELSEWHERE": "SASL_SSL",
}


def secure_broker(directory: Path, reaper: Reaper, certificates: Certificates) -> KraftCluster:
    """One broker: SECURE and PLAINSASL take USER by PLAIN and SCRAM; TLS any client; MUTUAL only certified ones.

    EXPIRED and ELSEWHERE show a certificate that has ended and one for another host.
    """
    settings: dict[str, object] = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    stores = {"EXPIRED": certificates.expired, "ELSEWHERE": certificates.elsewhere}
    for listener, protocol in _LISTENERS.items():
        prefix = f"listener.name.{listener.lower()}"
        if "SSL" in protocol.removeprefix("SASL_"):
            settings[f"{prefix}.ssl.keystore.type"] = "PEM"
            settings[f"{prefix}.ssl.keystore.location"] = stores.get(listener, certificates.server)
            settings[f"{prefix}.ssl.truststore.type"] = "PEM"
            settings[f"{prefix}.ssl.truststore.location"] = certificates.authority
        if protocol.startswith("SASL"):
            settings[f"{prefix}.plain.sasl.jaas.config"] = (
                f'{_PLAIN} username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";'
            )
            settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = _SCRAM
            settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = _SCRAM
    settings["listener.name.mutual.ssl.client.auth"] = "required"
    return KraftCluster(directory, reaper, settings=settings, listeners=_LISTENERS, scram={USER: PASSWORD})


def address(broker: KraftCluster, listener: str, host: str = HOST) -> str:
    """``host:port`` of one of the listeners."""
    return f"{host}:{broker.endpoint(listener)}"
