"""The properties of TLS and SASL, which no classic client has."""

from typing import Final

__all__ = ["NOT_SECURED"]

NOT_SECURED: Final = dict.fromkeys(
    ("security.protocol", "ssl.*", "sasl.*"),
    "the classic clients use neither TLS nor SASL; choose no profile, or remove the property",
)
"""Maps each of these keys to the text of its error. The client of a program that sets such a key must not
connect without TLS or SASL."""
