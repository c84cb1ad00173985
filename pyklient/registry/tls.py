"""TLS for the connection to ZooKeeper, from PEM files."""

import ssl

from pyklient.errors import ConfigurationError
from pyklient.registry.settings import ZooKeeperSettings

__all__ = ["tls_context"]


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    """Return the TLS context for a session, or None if the session does not use TLS. Raises
    ConfigurationError if a file cannot be used."""
    if not settings.use_tls:
        return None
    name, path, form = "truststore", settings.truststore, "a PEM file"
    try:
        context = ssl.create_default_context(cafile=path)
        context.check_hostname = settings.check_host_name
        if settings.keystore is not None:
            name, path = "keystore", settings.keystore
            form += " with the key and the certificates, and a key with a password needs "
            form += "zookeeper_ssl_keystore_password"
            # Without a password, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(settings.keystore, password=settings.key_password or "")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"zookeeper_ssl_{name}_location={path!r} cannot be used: {error}; it must be {form}"
        ) from None
    return context
