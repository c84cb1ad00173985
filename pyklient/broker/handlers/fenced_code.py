"""The error code by which a producer is told that it is fenced."""

from pyklient.error_codes import ErrorCode

__all__ = ["fenced_code"]


def fenced_code(code: ErrorCode, *, knows_fenced: bool = False) -> ErrorCode:
    """Return *code* as the error code for a response. If *knows_fenced* is false, the client does not know
    PRODUCER_FENCED in this response, and gets INVALID_PRODUCER_EPOCH instead."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
