"""The error code by which a producer is told that it is fenced."""

from pyklient.error_codes import ErrorCode

__all__ = ["fenced_code"]


def fenced_code(code: ErrorCode, *, knows_fenced: bool = False) -> ErrorCode:
    """Return the error code for a response: *code*, with one exception. If *knows_fenced* is false, the
    version of the response is too old for PRODUCER_FENCED, and INVALID_PRODUCER_EPOCH replaces it."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
