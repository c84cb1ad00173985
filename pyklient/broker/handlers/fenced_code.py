"""The error code by which a producer is told that it is fenced."""

from pyklient.error_codes import ErrorCode

__all__ = ["fenced_code"]


def fenced_code(code: ErrorCode, *, knows_fenced: bool = False) -> ErrorCode:
    """Return *code*, but INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED if *knows_fenced* is false. This
    means that the version of the response is too old for PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
