"""Writes an address as text: host, colon and port."""

__all__ = ["host_and_port"]


def host_and_port(host: str, port: int) -> str:
    """Return the address as ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
