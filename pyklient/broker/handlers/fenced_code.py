"""The error code by which a producer is told that it is fenced."""

from pyklient.error_codes import ErrorCode

__all__ = ["fenced_code"]


def fenced_code(code: ErrorCode, version: int, first_version: int) -> ErrorCode:
    """Return the error code for a response of *version*. Before *first_version*, clients do not know
    PRODUCER_FENCED, and get INVALID_PRODUCER_EPOCH instead."""
    if code is ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
