"""A 4.3.1 broker with TLS and SASL, including listeners whose certificates a client must not accept."""

from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.ports import HOST
from tests.servers.reaper import Reaper
from tests.servers.tls import Certificates

__all__ = ["GUEST", "PASSWORD", "SESSION_SECONDS", "USER", "SecureBroker"]

USER, GUEST, PASSWORD = "alice", "guest", "correct-horse"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LISTENERS = {
    "SECURE": "SASL_SSL",
    "PLAINSASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SASL_SSL",
    "ELSEWHERE": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
SESSION_SECONDS = 1.5
"""The seconds after which the broker closes connections of SHORT that have not logged in again (KIP-368)."""


class SecureBroker(KraftCluster):
    """One broker with a listener for every case.

    SECURE and PLAINSASL take USER with PASSWORD by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. TLS takes any
    client, MUTUAL only certified ones. EXPIRED and ELSEWHERE show a certificate that has ended and one for
    another host. SHORT is PLAINSASL with sessions of SESSION_SECONDS.

    What no ACL names is open to all. GUEST, with the same password by PLAIN, must obey ACLs; USER and the
    clients of PLAINTEXT need not, and may write them.
    """

    def __init__(self, directory: Path, reaper: Reaper) -> None:
        self.certificates = Certificates(directory / "certificates")
        settings: dict[str, object] = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "allow.everyone.if.no.acl.found": "true",
        }
        for listener, protocol in _LISTENERS.items():
            prefix = f"listener.name.{listener.lower()}"
            if protocol.endswith("SSL"):
                settings |= self._tls(prefix, listener)
            if protocol.startswith("SASL"):
                settings |= _sasl(prefix)
        for mechanism in ("plain", "scram-sha-256", "scram-sha-512"):
            name = f"listener.name.short.{mechanism}.connections.max.reauth.ms"
            settings[name] = round(SESSION_SECONDS * 1000)
        settings["listener.name.mutual.ssl.client.auth"] = "required"
        super().__init__(directory, reaper, settings=settings, listeners=_LISTENERS, scram={USER: PASSWORD})

    def address(self, listener: str, host: str = HOST) -> str:
        """Return the ``host:port`` of *listener*."""
        return f"{host}:{self.endpoint(listener)}"

    def _tls(self, prefix: str, listener: str) -> dict[str, object]:
        stores = {"EXPIRED": self.certificates.expired, "ELSEWHERE": self.certificates.elsewhere}
        return {
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": stores.get(listener, self.certificates.server),
            f"{prefix}.ssl.truststore.type": "PEM",
            f"{prefix}.ssl.truststore.location": self.certificates.authority,
        }


def _sasl(prefix: str) -> dict[str, object]:
    users = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}" user_{GUEST}="{PASSWORD}";'
    return {
        f"{prefix}.plain.sasl.jaas.config": f"{_PLAIN} {users}",
        f"{prefix}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{prefix}.scram-sha-512.sasl.jaas.config": _SCRAM,
    }
