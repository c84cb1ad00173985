"""The properties of TLS and SASL, which no classic client has."""

from typing import Final

__all__ = ["NOT_SECURED"]

NOT_SECURED: Final = dict.fromkeys(
    ("security.protocol", "ssl.*", "sasl.*"),
    "the classic clients use neither TLS nor SASL; choose no profile, or remove the property",
)
"""The properties that ask for TLS or SASL, each with the text of its error. A program that sets one of them
expects a secure connection, so its client must not connect without TLS or SASL."""
