"""Lets the compiled kernel encode Produce requests and decode their responses.

A producer makes a request for every few batches. The functions that ``protocol`` generates would take a tenth
of its CPU time for this. The kernel does the same faster, in the versions of Produce that are usual today. It
leaves rare messages, such as responses with error messages, to the functions of ``protocol``.
"""

from typing import Final

from pyklient.kernel import produce_codec
from pyklient.net.produce_versions import MAX_PRODUCE_VERSION
from pyklient.protocol.field_decoding import Decode
from pyklient.protocol.field_encoding import Encode
from pyklient.protocol.messages import ProduceRequest, ProduceResponse

__all__ = ["use_kernel"]

_VERSIONS: Final = range(3, MAX_PRODUCE_VERSION + 1)
"""The versions that the kernel supports. Earlier versions have other record formats, and later ones name
topics by their ids."""


def use_kernel() -> None:
    """Encode Produce requests and decode their responses in the kernel from now on, in all producers of this
    process. Do nothing if the kernel is the Python kernel."""
    if produce_codec is not None:
        ProduceRequest.encode_with(_encoder)
        ProduceResponse.decode_with(_decoder)


def _encoder(version: int, general: Encode) -> Encode | None:
    if version not in _VERSIONS:
        return None
    encode: Encode = produce_codec[0](ProduceRequest.is_flexible(version), general)
    return encode


def _decoder(version: int, general: Decode) -> Decode | None:
    if version not in _VERSIONS:
        return None
    decode: Decode = produce_codec[1](version, ProduceResponse.is_flexible(version), general, ProduceResponse)
    return decode
